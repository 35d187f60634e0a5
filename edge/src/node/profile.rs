//! A node as the other end of a measurement, where its operator allows it (docs/protocol.md, M-1 to
//! M-5).

use super::data::DataPlane;
use super::running::RunningTransfer;
use crate::channels::Handle;
use crate::plan::paths::{HeldBack, StoredPath};
use crate::prober::{self, BUSY, MODULE, ProbeRequest, Report, drain, fill};
use crate::sys::fs_user::as_service;
use farline_core::gridftp::server::Answer;
use farline_core::profile::TrafficDirection;
use farline_core::transfer::PathRecord;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Setting, Span, Time};
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How far a client may exceed the ceiling in one sample: what the network held back comes at once.
const ROOM: f64 = 1.25;
/// Samples in a row above it after which the measurement ends: M-4.
const PATIENCE: u32 = 3;
/// How long the client's streams may stay silent where both ends send.
const SPEAKS_WITHIN: Duration = Duration::from_secs(15);
/// How often the client hears that it goes on (112): Q-1.
const EVERY: Duration = Duration::from_secs(5);

/// The modules of ERET by which a client measures.
pub(super) const MODULES: &[&str] = &[MODULE];

/// What FEAT says of it (M-1).
pub(super) fn feature(ceiling: Rate) -> Option<String> {
    Some(prober::feature(ceiling))
}

/// Receives what the client sends, or sends, or both, for as long as it said, and tells it what it
/// saw; returns the bytes received.
pub(super) fn measure(
    plane: &mut DataPlane,
    parms: &str,
    run: &RunningTransfer<'_>,
) -> Result<u64, Error> {
    let shared = std::sync::Arc::clone(&plane.shared);
    let Some(ceiling) = shared.config.allow_profile else {
        return Err(Error::new(
            Fault::Refused,
            ErrorCode::ProfileNotAllowed,
            "this node does not let itself be measured",
        )
        .hint(format!("its operator can allow it: {} RATE", Setting::AllowProfile)));
    };
    let request = ProbeRequest::parse(parms)?;
    let limit = request.limit.map_or(ceiling, |limit| limit.min(ceiling));
    let request = ProbeRequest { limit: Some(limit), ..request };
    if plane.private || plane.listener.is_none() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::BadSequence,
            format!("{MODULE} needs a key, and PROT C"),
        ));
    }
    let _turn = MeasurementLease::take(&shared.measured)?;
    run.reporter.started(false);
    plane.channels.clear();
    let each = request.streams as usize;
    plane.await_channels(
        if request.direction == TrafficDirection::Both { 2 * each } else { each },
        run,
    )?;
    let streams: Result<Vec<_>, _> = plane
        .channels
        .iter()
        .map(|channel| channel.handle().and_then(Handle::into_stream))
        .collect();
    let streams = streams
        .map_err(|error| Error::new(Fault::Here, ErrorCode::NoDescriptor, error.to_string()))?;
    // The streams have descriptors of their own; what is measured ends with them.
    plane.channels.clear();
    let cancel = run.cancel;
    let watch = Watch { ceiling, over: Cell::new(0), last: Cell::new(Instant::now()) };
    let go_on = || cancel.reason().map_or(Ok(()), Err);
    let allow = |bytes: u64| {
        run.tally.add_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        go_on()?;
        watch.stat(bytes)
    };
    let work = || -> Result<Report, Error> {
        let began = Instant::now();
        let (mine, theirs) = match request.direction {
            TrafficDirection::Out => (Vec::new(), streams),
            TrafficDirection::Back => (streams, Vec::new()),
            TrafficDirection::Both => told_apart(streams, each, &go_on)?,
        };
        let mut told = Report::default();
        // The threads that fill are not the one that counts what comes, which keeps an eye on the
        // ceiling.
        std::thread::scope(|scope| {
            let request = &request;
            let filling = (!mine.is_empty())
                .then(|| scope.spawn(move || fill(&mine, request, began, &go_on)));
            if !theirs.is_empty() {
                told.received = Some(drain(theirs, request, &allow)?);
            }
            if let Some(filling) = filling {
                told.sent =
                    Some(filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(told)
        })
    };
    let mut told = run.reporter.watch(EVERY, &run.tally, work)?;
    keep(plane, &request, limit, &told);
    // Whole numbers: they cross the control channel as text.
    if let Some(received) = &mut told.received {
        received
            .samples_bps
            .iter_mut()
            .chain(&mut received.streams_bps)
            .for_each(|bps| *bps = bps.round());
    }
    let words = serde_json::to_string(&told)
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileEnd, error.to_string()))?;
    run.reporter.say(Answer::Words(words));
    Ok(run.tally.bytes())
}

/// Keeps what a measurement, held to `limit`, shows of the paths between its client and here: who
/// comes from there is told it (M-6). Less than is known changes nothing, because a profile tries
/// bad settings on purpose.
fn keep(plane: &DataPlane, request: &ProbeRequest, limit: Rate, told: &Report) {
    let is_fixed = request.window.is_some() || request.buffer.is_some();
    if plane.shared.config.fresh_start || plane.rate.is_some() || is_fixed {
        return;
    }
    let (here, there) = (plane.local.ip(), plane.peer.ip());
    let came = told.received.as_ref().filter(|_| plane.receive_pace().is_none());
    let went = told.sent.as_ref().filter(|_| plane.pace().is_none());
    let ways = [
        came.map(|received| (there, here, &received.samples_bps, plane.rtt)),
        went.map(|sent| (here, there, &sent.samples_bps, sent.min_rtt)),
    ];
    for (from, to, samples_bps, rtt) in ways.into_iter().flatten() {
        let Some((record, moved)) = shown(samples_bps, request.sample_s, rtt, limit) else {
            continue;
        };
        // Without the record the next client is told less.
        let _ = as_service(|| {
            StoredPath::claim(from, to)?.store(&record, moved, HeldBack::default()).ok()
        });
    }
}

/// What samples, `sample_s` seconds each, show of a path of `rtt`, and how much they moved; nothing
/// where `limit` was what held them.
fn shown(
    samples_bps: &[f64],
    sample_s: f64,
    rtt: Span,
    limit: Rate,
) -> Option<(PathRecord, Bytes)> {
    let mut moved = 0.0;
    let mut looks = vec![(Time::ZERO, Bytes(0))];
    for (bps, count) in samples_bps.iter().zip(1_u32..) {
        moved += bps * sample_s / 8.0;
        let at = Time::ZERO + Span::from_secs_f64(sample_s * f64::from(count));
        looks.push((at, Bytes(moved as u64)));
    }
    let record = PathRecord::of_arrivals(&looks, rtt);
    let rate = record.rate()?.as_bps() as f64;
    let is_paths = rtt > Span::ZERO && rate < BUSY * limit.as_bps() as f64;
    is_paths.then_some((record, Bytes(moved as u64)))
}

/// The streams that the node is to fill, and those that the client fills: the first `each` on which
/// something comes (M-3).
fn told_apart(
    streams: Vec<TcpStream>,
    each: usize,
    go_on: &dyn Fn() -> Result<(), Error>,
) -> Result<(Vec<TcpStream>, Vec<TcpStream>), Error> {
    let deadline = Instant::now() + SPEAKS_WITHIN;
    loop {
        let speaks = |stream: &TcpStream| {
            matches!(recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((_, 1)))
        };
        let speaking: Vec<bool> = streams.iter().map(speaks).collect();
        if speaking.iter().filter(|speaks| **speaks).count() >= each {
            let (mut mine, mut theirs) = (Vec::new(), Vec::new());
            for (stream, speaks) in streams.into_iter().zip(speaking) {
                if speaks { theirs.push(stream) } else { mine.push(stream) }
            }
            return Ok((mine, theirs));
        }
        if Instant::now() > deadline {
            return Err(Error::new(
                Fault::Between,
                ErrorCode::ProfileSilent,
                format!("{each} streams were to bring something"),
            ));
        }
        go_on()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Holds a client to the ceiling (M-4).
struct Watch {
    ceiling: Rate,
    over: Cell<u32>,
    last: Cell<Instant>,
}

impl Watch {
    fn stat(&self, bytes: u64) -> Result<(), Error> {
        let elapsed = self.last.replace(Instant::now()).elapsed().as_secs_f64();
        let rate = bytes as f64 * 8.0 / elapsed.max(1e-3);
        self.over.set(if rate > ROOM * self.ceiling.as_bps() as f64 {
            self.over.get() + 1
        } else {
            0
        });
        if self.over.get() < PATIENCE {
            return Ok(());
        }
        let message = format!("this node may be measured at {} at most", self.ceiling);
        Err(Error::new(Fault::Refused, ErrorCode::ProfileCeiling, message)
            .hint(format!("send no faster: {}", Setting::HostRate)))
    }
}

/// The turn of the one session that measures.
struct MeasurementLease<'a>(&'a std::sync::atomic::AtomicBool);

impl MeasurementLease<'_> {
    fn take(measured: &std::sync::atomic::AtomicBool) -> Result<MeasurementLease<'_>, Error> {
        match measured.swap(true, Ordering::AcqRel) {
            false => Ok(MeasurementLease(measured)),
            true => Err(Error::new(
                Fault::Refused,
                ErrorCode::ProfileRunning,
                "this node is being measured by another client",
            )
            .hint("two would measure each other: wait for it")),
        }
    }
}

impl Drop for MeasurementLease<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_shows_its_path_unless_its_limit_held_it() {
        let (rtt, mbit) = (Span::from_millis(100), |rate: u64| Rate::from_bps(rate * 1_000_000));
        // Half a second each: the second half of it came in the last two.
        let samples = [10e6, 80e6, 80e6, 80e6, 80e6, 80e6];
        let (record, moved) = shown(&samples, 0.5, rtt, mbit(200)).expect("a path");
        assert_eq!((record.rate(), moved), (Some(mbit(80)), Bytes(25_625_000)));
        assert!(shown(&samples, 0.5, rtt, mbit(85)).is_none(), "the limit's rate");
        assert!(shown(&samples, 0.5, Span::ZERO, mbit(200)).is_none(), "how long is it?");
        assert!(shown(&[], 0.5, rtt, mbit(200)).is_none(), "nothing came");
    }
}
