//! Measured runs of a profile of RDMA, between two devices of this host: an end at each, and the
//! wire between them.

use super::cross::Cross;
use super::device::ends;
use super::wire::{Wire, packet_of};
use crate::prober::bench::claim;
use crate::prober::ends::{End, failed};
use crate::prober::role::Role;
use crate::reexec;
use crate::run_dir::name_here;
use farline_core::profile::verbs::{MeasurementHosts, VerbsCell, VerbsGrid, VerbsJob, VerbsRun};
use farline_core::profile::{Bench, CellJob, Environment};
use farline_core::units::{Error, ErrorCode, Fault, Rate};
use serde::Deserialize;
use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Two ends, which stay for all runs.
pub struct VerbsBench {
    near: End,
    far: End,
    wire: Wire,
    between: MeasurementHosts,
    addresses: (IpAddr, IpAddr),
    /// Says to others that a profile is being measured.
    _claim: UnixListener,
}

impl VerbsBench {
    /// A bench between the devices at the two addresses of this machine, which `machine` describes,
    /// or the only two that there are. `program` is the `farline` that runs ends; this process's
    /// own when `None`.
    ///
    /// # Errors
    /// When there are no two such devices, or another profile is being measured.
    pub fn open(
        asked: Option<(IpAddr, IpAddr)>,
        program: Option<PathBuf>,
        machine: Environment,
    ) -> Result<VerbsBench, Error> {
        let (mut here, mut there) = ends(asked)?;
        let claim = claim(&name_here("profile"))?;
        let start = |role: &Role| opened(program.as_deref(), role);
        let (far, opened) = start(&Role::VerbsFar { at: there.address, gid: there.gid_index })?;
        there.name = opened.device;
        let to = std::net::SocketAddr::new(there.address, opened.port);
        let (near, opened) = start(&Role::VerbsNear { at: here.address, gid: here.gid_index, to })?;
        here.name = opened.device;
        let Environment { host, kernel, cpus, .. } = machine;
        let between = MeasurementHosts { near: here.told(), far: there.told(), host, kernel, cpus };
        let addresses = (here.address, there.address);
        Ok(VerbsBench {
            near,
            far,
            wire: Wire::between(&here, &there),
            between,
            addresses,
            _claim: claim,
        })
    }

    /// Where it measures.
    pub fn between(&self) -> &MeasurementHosts {
        &self.between
    }

    /// Other traffic from the near end to the far one.
    fn other(&self, rate: Rate, len: u64) -> Result<Cross, Error> {
        let (near, far) = &self.addresses;
        Cross::between(*near, *far, rate, len).map_err(|error| failed("the other traffic", &error))
    }
}

impl Bench<VerbsGrid> for VerbsBench {
    /// A run for which no connection comes about is an invalid one.
    fn run(&mut self, grid: &VerbsGrid, job: &CellJob<VerbsCell>) -> Result<VerbsRun, Error> {
        let job = VerbsJob::of(grid, job).ok_or_else(|| {
            Error::new(Fault::Bug, ErrorCode::ProfileEnd, "a grid of which nothing is measured")
        })?;
        self.wire.set(&job)?;
        let cross =
            job.bottleneck.map(|bottleneck| (bottleneck.cross_bps, packet_of(job.size_bytes)));
        let other = cross
            .filter(|(rate, _)| rate.as_bps() > 0)
            .map(|(rate, len)| self.other(rate, len))
            .transpose()?;
        self.far.ask(&job)?;
        self.near.ask(&job)?;
        let (near, far) = (self.near.answer(), self.far.answer());
        drop(other);
        match (near?, far?) {
            (Ok(near), Ok(far)) => Ok(job.run(&near, &far)),
            (near, far) => {
                let errors = [near.err(), far.err()].into_iter().flatten();
                let why =
                    cause(errors).map_or_else(|| "an end failed".to_owned(), |error| error.message);
                Ok(VerbsRun {
                    index: job.index,
                    seed: job.seed,
                    broken: true,
                    invalid: Some(why),
                    ..VerbsRun::default()
                })
            }
        }
    }
}

/// Whichever end failed first says why; the other one says that it hears nothing.
fn cause(errors: impl Iterator<Item = Error>) -> Option<Error> {
    errors.min_by_key(|error| error.code == ErrorCode::ProfileSilent)
}

/// What an end says first.
#[derive(Deserialize)]
struct Opened {
    device: String,
    port: u16,
}

/// The end that has `role`, and what it says first: of a device that is not there its own words are
/// those for the user.
fn opened(program: Option<&Path>, role: &Role) -> Result<(End, Opened), Error> {
    let mut end = End::start(&mut reexec::command(program, role)?)?;
    let opened = end.answer()??;
    Ok((end, opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_only_hears_nothing_is_not_the_cause() {
        let silent = Error::new(Fault::Between, ErrorCode::ProfileSilent, "not a word came");
        let broken = Error::new(Fault::Between, ErrorCode::NoRdmaPath, "it says nothing of use");
        for errors in [[&silent, &broken], [&broken, &silent]] {
            assert_eq!(cause(errors.into_iter().cloned()), Some(broken.clone()));
        }
        assert_eq!(cause([silent.clone()].into_iter()), Some(silent));
        assert_eq!(cause(std::iter::empty()), None);
    }
}
