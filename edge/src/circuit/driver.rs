//! What a device that makes circuits has to do: say what is there, and do one step at a time.

use farline_core::calendar::circuit::{ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::calendar::{SiteId, Topology};
use farline_core::units::Error;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A circuit as a device has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCircuit {
    /// What it is.
    pub circuit: ActualCircuit,
    /// Bytes that it has carried, both directions together.
    pub carried: u64,
    /// Its addresses where it begins and where it ends, where it has some.
    pub addresses: Option<[IpAddr; 2]>,
    /// What is not as it should be, and not this agent's to mend.
    pub trouble: Option<String>,
}

/// A device.
pub trait CircuitDriver: Send {
    /// Fits itself into a calendar's network, before all else.
    ///
    /// # Errors
    /// When it has no place there.
    fn fit(&mut self, _topology: &Topology) -> Result<(), Error> {
        Ok(())
    }

    /// The site of the ends of circuits that it makes, once it fits. None where it makes whole
    /// circuits.
    fn site(&self) -> Option<SiteId> {
        None
    }

    /// A second hand on the same device, which makes and removes circuits while this one opens and
    /// shuts others. None where the device does one thing at a time.
    fn second(&self) -> Option<Box<dyn CircuitDriver>> {
        None
    }

    /// Whether a circuit is, in part at least, this device's to make.
    fn concerns(&self, _circuit: &DesiredCircuit) -> bool {
        true
    }

    /// The circuits that are there, of those that are this agent's to make. Each says whether it is
    /// as `wanted` has it, but for its rate and whether it is open.
    ///
    /// # Errors
    /// When the device does not reply.
    fn circuits(
        &mut self,
        topology: &Topology,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
    ) -> Result<BTreeMap<CircuitNumber, DeviceCircuit>, Error>;

    /// Does a step; doing it again does no harm.
    ///
    /// # Errors
    /// When it cannot: then nothing is changed, or a part that the next look finds.
    fn step(&mut self, topology: &Topology, step: &CircuitStep) -> Result<(), Error>;
}
