//! A path between two sites: a device in each, and the thread that moves packets between them.

use super::super::direction::{Direction, Shown, now};
use super::super::failure::here;
use super::super::mover::{Mover, Spare};
use super::super::namespaces;
use super::super::ring::Ring;
use super::super::valve::Valve;
use super::super::wires::Wires;
use super::sites;
use crate::sys::tun;
use farline_core::units::{Error, ErrorCode, Rate, Rng, Span};
use farline_core::wan::{self, Change};
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How far the mover may fall behind before the ring holds packets back.
const LAG: Span = Span::from_millis(20);

/// One end of a path.
pub(super) struct PathEnd<'a> {
    pub(super) namespace: &'a str,
    pub(super) device: &'a str,
    pub(super) address: &'a str,
}

/// A path that is up; it goes when this is dropped.
pub(super) struct RunningPath {
    valves: [Arc<Valve>; 2],
    shown: [Arc<Mutex<Shown>>; 2],
    rates: [Rate; 2],
    stop: Option<PipeWriter>,
    mover: Option<JoinHandle<()>>,
}

fn device(end: &PathEnd<'_>) -> Result<Arc<OwnedFd>, Error> {
    namespaces::inside(end.namespace, || {
        let made = tun::create(end.device).map_err(|error| {
            let message = format!("making the TUN device {}: {error}", end.device);
            here(ErrorCode::LinkDevice, message)
                .hint("run as root, or give this user access to /dev/net/tun")
        })?;
        Ok(Arc::new(made.0))
    })
}

impl RunningPath {
    /// A path of these rates, there and back, whose rings hold what `most` brings.
    pub(super) fn up(
        ends: &[PathEnd<'_>; 2],
        rates: [Rate; 2],
        most: Rate,
        one_way_delay: Span,
        mtu: u32,
        open: bool,
    ) -> Result<RunningPath, Error> {
        let rtt = one_way_delay + one_way_delay;
        let directions = rates.map(|rate| wan::Direction::new(rate, one_way_delay, rtt));
        let devices = [device(&ends[0])?, device(&ends[1])?];
        let queue = 2 * (most.bytes_in(rtt).0 + directions[0].queue.0);
        let queue = namespaces::device_queue(queue, mtu);
        for (own, peer) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            sites::widen(own.namespace, most, rtt)?;
            sites::configure(own.namespace, own.device, own.address, peer.address, mtu, queue)?;
        }
        let valves = [(); 2].map(|()| Arc::new(Valve::default()));
        valves.iter().for_each(|valve| valve.shut(!open));
        let shown = [(); 2].map(|()| Arc::new(Mutex::new(Shown::new())));
        let seed = Rng::new(1);
        let mut moved = Vec::new();
        for (at, direction) in directions.iter().enumerate() {
            let bytes = most.bytes_in(one_way_delay + LAG).0 + direction.queue.0;
            let ring = Ring::new(bytes as usize).map_err(|error| {
                let message = format!("{} MiB for packets in flight: {error}", bytes >> 20);
                here(ErrorCode::LinkMemory, message)
            })?;
            let link = wan::OneWayLink::new(now(), direction, [], &seed.fork(at as u64));
            let [from, to] = [&devices[at], &devices[1 - at]].map(Arc::clone);
            let direction = Direction::new(
                from,
                to,
                Wires::new(link, Vec::new()),
                ring,
                Arc::clone(&shown[at]),
            );
            moved.push(direction.with_valve(Arc::clone(&valves[at])));
        }
        let (stopped, stop) = io::pipe()
            .map_err(|error| here(ErrorCode::LinkEmulator, format!("a pipe: {error}")))?;
        // Many paths share few cores: nobody spins.
        let mut mover = Mover::new(moved, Spare::OnlyCore, false);
        let run = move || {
            mover.be_precise();
            mover.run(&stopped);
        };
        let thread = std::thread::Builder::new().name("path".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| here(ErrorCode::LinkEmulator, format!("a thread: {error}")))?;
        Ok(RunningPath { valves, shown, rates, stop: Some(stop), mover: Some(thread) })
    }

    /// What it carries, there and back.
    pub(super) fn rates(&self) -> [Rate; 2] {
        self.rates
    }

    /// Gives it other rates; what is on its way is delivered.
    pub(super) fn change(&mut self, rates: [Rate; 2]) {
        for (at, rate) in rates.into_iter().enumerate() {
            if self.rates[at] != rate {
                self.valves[at].order(Change::Rate(rate));
                self.rates[at] = rate;
            }
        }
    }

    /// Opens or shuts it, at once.
    pub(super) fn open(&self, open: bool) {
        self.valves.iter().for_each(|valve| valve.shut(!open));
    }

    /// Bytes delivered, and frames that found no room, there and back.
    pub(super) fn counted(&self) -> [(u64, u64); 2] {
        [0, 1].map(|at| {
            let shown = self.shown[at].lock().unwrap_or_else(PoisonError::into_inner);
            let model = shown.stats(0).model;
            (model.delivered_bytes, model.dropped_queue)
        })
    }
}

impl Drop for RunningPath {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(mover) = self.mover.take() {
            let _ = mover.join();
        }
    }
}
