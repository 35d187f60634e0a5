//! Repetitions over emulated links: each has a link of its own, with an end of the measurement in
//! either side.

use super::ends::{End, failed};
use super::joined::{Controls, joined};
use super::role::Role;
use super::staged::ScratchDir;
use super::{ProbeReceived, ProbeRequest, ProbeSent, TIMEOUT};
use crate::link::{Link, Settings, Side, Stats};
use farline_core::profile::{
    Bench, Cell, Copies, Exactness, Grid, Job, LimitedBy, Repetition, TrafficDirection,
};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use farline_core::wan::{self, Change, Event};
use serde::Deserialize;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// When the streams begin on a link on which something is scripted: time enough for both ends to
/// come up and connect.
const LEAD: Span = Span::from_secs(3);

/// The bench of a profile over emulated links.
#[derive(Debug)]
pub struct LinkBench {
    name: String,
    program: Option<PathBuf>,
    /// Says to others that links of this name are in use; the kernel takes it back when the process
    /// ends, however it does.
    _claim: UnixListener,
    held: Controls,
    /// For the cells that copy files; made when the first one runs.
    space: Option<ScratchDir>,
}

impl LinkBench {
    /// A bench for `grid`, whose links are called `name`. `program` is the `farline` that runs
    /// links and ends; this process's own when `None`.
    ///
    /// # Errors
    /// Those of [`kernelcc::obtain`](crate::kernelcc::obtain), for a control that cannot be had
    /// here; [`Fault::Refused`] when another bench of this name lives.
    pub fn new(
        name: impl Into<String>,
        program: Option<PathBuf>,
        grid: &Grid,
    ) -> Result<LinkBench, Error> {
        let name = name.into();
        let claim = claim(&name)?;
        Ok(LinkBench { _claim: claim, name, program, held: Controls::obtain(grid)?, space: None })
    }

    fn settings(&self, grid: &Grid, cell: &Cell, seed: u64) -> Settings {
        let path = &cell.path;
        let mut wan = wan::LinkSettings::new(path.rate_bps, path.rtt_ns);
        wan.seed = seed;
        for &way in ways(cell.direction) {
            let (line, side) = match way {
                Side::A => (&mut wan.a_to_b, wan::EventSide::AToB),
                Side::B => (&mut wan.b_to_a, wan::EventSide::BToA),
            };
            (line.queue, line.loss) = (path.queue_bytes, cell.loss);
            let mut at = |at, change| wan.script.push(Event { at, side, change });
            if cell.cross_bps.as_bps() > 0 {
                at(Span::ZERO, Change::Cross(cell.cross_bps, None));
            }
            if let Some(disturbance) = grid.disturbance {
                at(LEAD + disturbance.at_ns, disturbance.change);
            }
        }
        let settings = Settings::new(&path.name, wan);
        Settings {
            name: self.name.clone(),
            mtu: cell.mtu,
            with_parent: true,
            program: self.program.clone(),
            ..settings
        }
    }

    /// The repetition of a cell that asks what a mover does with a store or over a driver.
    fn copy(&mut self, link: &Link, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let congestion = job.cell.control().map(|control| self.held.name(control));
        let space = match &mut self.space {
            Some(space) => space,
            none => none.insert(ScratchDir::new()?),
        };
        let seen = space.copy(link, self.program.as_deref(), grid, &job.cell, congestion)?;
        // Of drivers the question is what they cost.
        let asked = grid.copies.as_ref().is_some_and(Copies::asks_for_drivers);
        let by_processor = seen.observed.limited_by == LimitedBy::Cpu && !asked;
        let mut repetition = seen.observed.repetition(grid, job);
        (repetition.rtt_ns, repetition.cpu) = (Some(seen.rtt), seen.cpu);
        if by_processor {
            repetition
                .doubt(&["a processor was the limit of the copy, not store or path".to_owned()]);
        }
        Ok(repetition)
    }

    fn measure(
        &self,
        link: &Link,
        grid: &Grid,
        cell: &Cell,
    ) -> Result<Vec<(ProbeSent, ProbeReceived)>, Error> {
        let up = Span::from_secs_f64(link.stats()?.uptime_seconds);
        let request = ProbeRequest {
            streams: cell.streams,
            seconds: grid.samples() as f64 * grid.sample_s,
            sample_s: grid.sample_s,
            congestion: Some(self.held.name(cell.congestion)),
            window: cell.window_bytes,
            buffer: cell.buffer_bytes,
            message: cell.message_bytes,
            limit: grid.host_bps,
            // Each pair of ends sends one way.
            direction: TrafficDirection::Out,
            begin_in_s: grid.disturbance.map_or(0.0, |_| LEAD.saturating_sub(up).as_secs_f64()),
        };
        let command = |side, role: &Role| link.agent(side, self.program.as_deref(), role);
        let mut ends = Vec::new();
        for from in ways(cell.direction) {
            let to = from.other();
            let address = link.info().address(to);
            let address = address.parse().map_err(|_| {
                Error::new(
                    Fault::Bug,
                    ErrorCode::ProfileEnd,
                    format!("a side's address is {address}"),
                )
            })?;
            let listen = std::net::SocketAddr::new(address, 0);
            let mut receiver = End::asked(&mut command(to, &Role::Receive { listen })?, &request)?;
            let listening: Listening = receiver.answer()??;
            ends.push((*from, receiver, std::net::SocketAddr::new(address, listening.port)));
        }
        let start = |(from, receiver, to): (Side, End, std::net::SocketAddr)| {
            End::asked(&mut command(from, &Role::Send { to })?, &request)
                .map(|sender| (sender, receiver))
        };
        let ends: Vec<(End, End)> = ends.into_iter().map(start).collect::<Result<_, _>>()?;
        // Whichever failed first says why; the other one is ended with the link.
        ends.into_iter()
            .map(|(sender, receiver)| Ok((sender.result()?, receiver.result()?)))
            .collect()
    }
}

impl Bench<Grid> for LinkBench {
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let link = up(&self.settings(grid, &job.cell, job.seed))?;
        let measured = match job.cell.staged {
            Some(_) => self.copy(&link, grid, job),
            None => self.measure(&link, grid, &job.cell).map(|ways| joined(grid, job, ways)),
        };
        let stats = link.stats();
        link.down()?;
        let (mut repetition, stats) = (measured?, stats?);
        repetition.doubt(&stats.invalid_because);
        repetition.link = Some(exactness(&stats, job.cell.direction));
        Ok(repetition)
    }
}

/// Says to others on this machine that a profile is being measured with links called `name`.
pub(super) fn claim(name: &str) -> Result<UnixListener, Error> {
    SocketAddr::from_abstract_name(format!("farline-bench-{name}"))
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Error::new(
                Fault::Refused,
                ErrorCode::ProfileRunning,
                "another profile is being measured on this machine",
            )
            .hint("two would measure each other: wait for it, or end it"),
            _ => failed("the claim", &error),
        })
}

/// Brings a link up; the link of a bench that was killed may still be on its way down.
fn up(settings: &Settings) -> Result<Link, Error> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match Link::up(settings) {
            Err(error) if error.code == ErrorCode::LinkTaken && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

/// The sides from which the data of a cell comes.
fn ways(direction: TrafficDirection) -> &'static [Side] {
    match direction {
        TrafficDirection::Out => &[Side::A],
        TrafficDirection::Back => &[Side::B],
        TrafficDirection::Both => &[Side::A, Side::B],
    }
}

/// How exact the link was where the data went; of both ways, the worse.
fn exactness(stats: &Stats, direction: TrafficDirection) -> Exactness {
    let micros = |us: f64| Span::from_nanos((us * 1e3) as u64);
    let used = ways(direction).iter().map(|from| match from {
        Side::A => &stats.a_to_b,
        Side::B => &stats.b_to_a,
    });
    let none = Exactness {
        limit_ns: micros(stats.lateness_limit_us),
        overruns: stats.a_to_b.overrun + stats.b_to_a.overrun,
        ..Exactness::default()
    };
    used.fold(none, |worst, way| Exactness {
        late_p50_ns: worst.late_p50_ns.max(micros(way.lateness.p50_us)),
        late_p99_ns: worst.late_p99_ns.max(micros(way.lateness.p99_us)),
        queue_drops: worst.queue_drops + way.model.dropped_queue,
        ..worst
    })
}

/// What the receiving end says first.
#[derive(Deserialize)]
struct Listening {
    port: u16,
}
