//! Measured runs of a profile of RDMA, between two devices of this host: an end at each, and the
//! wire between them.

use super::cross::Cross;
use super::device::ends;
use super::wire::{Wire, packet_of};
use crate::prober::bench::claim;
use crate::prober::ends::{failed, parse, reply};
use crate::prober::role::Role;
use crate::reexec;
use crate::run_dir::name_here;
use farline_core::profile::verbs::{
    End, MeasurementHosts, VerbsCell, VerbsGrid, VerbsJob, VerbsRun,
};
use farline_core::profile::{Bench, CellJob, Environment};
use farline_core::units::{Error, ErrorCode, Fault, Rate};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Two ends, which stay for all runs.
pub struct VerbsBench {
    near: Worker,
    far: Worker,
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
        let start = |role: &Role| Worker::start(&mut reexec::command(program.as_deref(), role)?);
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

/// One end as a process, which does a run for each line that it is given.
struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command) -> Result<(Worker, Opened), Error> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("an end", &error))?;
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| Error::new(Fault::Bug, ErrorCode::ProfileEnd, "an end has no output"))?;
        let mut worker = Worker { child, stdin, stdout: BufReader::new(stdout) };
        let line = worker.line()?;
        // Its own words about a device that is not there are those for the user.
        let opened = parse(&line)?;
        Ok((worker, opened))
    }

    fn ask(&mut self, job: &VerbsJob) -> Result<(), Error> {
        let mut line = serde_json::to_vec(job)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileEnd, error.to_string()))?;
        line.push(b'\n');
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(&line).map_err(|error| failed("an end", &error)),
            None => Err(Error::new(Fault::Bug, ErrorCode::ProfileEnd, "an end has no input")),
        }
    }

    /// What it says of a run; an error when it is gone.
    fn answer(&mut self) -> Result<Result<End, Error>, Error> {
        reply(&self.line()?)
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(0) => Err(Error::new(
                Fault::Here,
                ErrorCode::ProfileEnd,
                "an end of the measurement ended without a word",
            )),
            Ok(_) => Ok(line),
            Err(error) => Err(failed("an end", &error)),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its input ends, and so does it; one that hangs in a device is not waited for.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
