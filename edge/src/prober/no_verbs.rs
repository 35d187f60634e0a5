//! What stands in for measurements of verbs where this build has no RDMA.

use farline_core::profile::verbs::{MeasurementHosts, VerbsCell, VerbsGrid, VerbsRun};
use farline_core::profile::{Bench, CellJob, Environment};
use farline_core::units::Error;
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;

/// A bench between two RDMA devices: there is none.
pub struct VerbsBench(Infallible);

impl VerbsBench {
    /// # Errors
    /// Always: this build has no RDMA.
    pub fn open(
        _: Option<(IpAddr, IpAddr)>,
        _: Option<PathBuf>,
        _: Environment,
    ) -> Result<VerbsBench, Error> {
        Err(Error::not_built("RDMA", "rdma"))
    }

    /// Where it measures: nowhere.
    pub fn between(&self) -> &MeasurementHosts {
        match self.0 {}
    }
}

impl Bench<VerbsGrid> for VerbsBench {
    fn run(&mut self, _: &VerbsGrid, _: &CellJob<VerbsCell>) -> Result<VerbsRun, Error> {
        match self.0 {}
    }
}
