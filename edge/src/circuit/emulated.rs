//! Circuits in an emulated network of this host: `farline net`.

use super::driver::{CircuitDriver, DeviceCircuit};
use crate::link::network::{EmulatedNetwork, NetworkCircuit, NetworkOrder, NetworkState};
use farline_core::calendar::Topology;
use farline_core::calendar::circuit::{ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::units::Error;
use std::collections::BTreeMap;

/// The driver.
#[derive(Debug)]
pub struct EmulatedDriver {
    network: EmulatedNetwork,
}

impl EmulatedDriver {
    /// Circuits of the network called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(name: &str) -> Result<EmulatedDriver, Error> {
        Ok(EmulatedDriver { network: EmulatedNetwork::find(name)? })
    }

    fn order(&self, order: &NetworkOrder) -> Result<NetworkState, Error> {
        self.network.order(order)
    }
}

fn route(topology: &Topology, circuit: &DesiredCircuit) -> Vec<String> {
    circuit.route.iter().map(|id| topology.link(*id).name.clone()).collect()
}

impl CircuitDriver for EmulatedDriver {
    fn second(&self) -> Option<Box<dyn CircuitDriver>> {
        Some(Box::new(EmulatedDriver { network: self.network.clone() }))
    }

    fn circuits(
        &mut self,
        topology: &Topology,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
    ) -> Result<BTreeMap<CircuitNumber, DeviceCircuit>, Error> {
        let state = self.order(&NetworkOrder::Show)?;
        let known = state.circuits.into_iter().map(|there| {
            let number = CircuitNumber(there.circuit.number);
            let as_ordered = wanted.get(&number).is_none_or(|wanted| {
                there.circuit.route == route(topology, wanted)
                    && there.circuit.both_ways == wanted.both_ways
            });
            let circuit = ActualCircuit { rate: there.circuit.rate, open: there.open, as_ordered };
            let addresses = [&there.from_address, &there.to_address].map(|text| text.parse().ok());
            let addresses = match addresses {
                [Some(from), Some(to)] => Some([from, to]),
                _ => None,
            };
            let carried = there.carried[0] + there.carried[1];
            (number, DeviceCircuit { circuit, carried, addresses, trouble: None })
        });
        Ok(known.collect())
    }

    fn step(&mut self, topology: &Topology, step: &CircuitStep) -> Result<(), Error> {
        let order = match step {
            CircuitStep::Prepare(number, circuit) => NetworkOrder::Prepare(NetworkCircuit {
                number: number.0,
                from: topology.site_name(circuit.from).to_owned(),
                to: topology.site_name(circuit.to).to_owned(),
                route: route(topology, circuit),
                rate: circuit.rate,
                both_ways: circuit.both_ways,
            }),
            CircuitStep::Open(number) => NetworkOrder::Open(number.0),
            CircuitStep::Change(number, rate) => NetworkOrder::Change(number.0, *rate),
            CircuitStep::Shut(number) => NetworkOrder::Shut(number.0),
            CircuitStep::Remove(number) => NetworkOrder::Remove(number.0),
        };
        self.order(&order).map(drop)
    }
}
