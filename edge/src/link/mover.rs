//! One direction of a running link: packets from one TUN device to the other, when the model says.
//!
//! One thread reads and writes. A packet is read into the ring, stamped and described to the model; when the model delivers, it is
//! written from where it lies. Due writes go first, since each moment they wait is delay error; but at least one read is done for
//! every few writes, so that the device's queue cannot fill up behind a busy writer. A read that comes late is harmless while the
//! model's wire is busy: the packet would have waited anyway.
//!
//! The stamp is the time just before the read. Write lateness is the time just before the write less the time due; what the
//! receiving kernel does with the packet inside the write is the receiver's time, not the link's.

use super::accuracy::Spans;
use super::cut;
use super::packet::Layout;
use super::ring::Ring;
use super::stats::DirectionStats;
use crate::sys::tun;
use farline_core::units::{Span, Time};
use farline_core::wan::{self, Link, Output, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io::{IoSlice, PipeReader};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, TryLockError};

/// Writes in a row before a read gets its turn, and reads in a row before due writes are looked for again.
const WRITES: u32 = 8;
const READS: u32 = 8;

/// How often the counters are made visible to `link stats`.
const PUBLISH: Span = Span::from_millis(50);

/// The longest sleep while the device is not watched.
const PAUSE: Span = Span::from_millis(1);

/// Now, on the monotonic clock.
pub(super) fn now() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What a mover shows while it runs.
#[derive(Debug)]
pub(super) struct Shown {
    model: wan::Counters,
    refused: u64,
    lateness: Spans,
    stamping: Spans,
}

impl Shown {
    pub(super) fn new() -> Shown {
        Shown { model: wan::Counters::default(), refused: 0, lateness: Spans::new(), stamping: Spans::new() }
    }

    /// The statistics, when `dropped` packets were dropped by the sending device before they were read.
    pub(super) fn stats(&self, dropped: u64) -> DirectionStats {
        DirectionStats {
            model: self.model,
            overrun: dropped + self.refused,
            lateness: self.lateness.summary(),
            stamping: self.stamping.summary(),
        }
    }
}

/// One direction.
pub(super) struct Mover {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    link: Link,
    ring: Ring,
    shown: Arc<Mutex<Shown>>,
    /// What `shown` becomes when it is next published.
    own: Shown,
    published: Time,
}

impl Mover {
    pub(super) fn new(from: Arc<OwnedFd>, to: Arc<OwnedFd>, link: Link, ring: Ring, shown: Arc<Mutex<Shown>>) -> Mover {
        Mover { from, to, link, ring, shown, own: Shown::new(), published: now() }
    }

    /// Moves packets until `stop` is closed.
    pub(super) fn run(mut self, stop: &PipeReader) {
        let mut clock = now();
        // When the device was last known to hold nothing older: seen empty, or just woken by a new packet.
        let mut empty_at = clock;
        loop {
            let (next, written) = self.write_due(&mut clock);
            let device = self.read_some(&mut clock, &mut empty_at, next);
            if written == WRITES || device == Device::HasMore {
                continue;
            }
            let wait = match self.link.poll(clock) {
                Output::Wait(at) => at.map(|at| at.since(clock)),
                output => {
                    self.act(output, &mut clock);
                    continue;
                }
            };
            if wait == Some(Span::ZERO) {
                continue;
            }
            if clock.since(self.published) >= PUBLISH || wait.is_none_or(|wait| wait > Span::from_millis(1)) {
                self.publish(clock);
            }
            match self.sleep(stop, clock, wait, device) {
                Woken::Stop => break,
                Woken::ByDevice | Woken::ByTime => {
                    clock = now();
                    // Until this moment the device held nothing, or what it holds found the wire busy, or woke us.
                    empty_at = clock;
                }
            }
        }
        self.publish(clock);
    }

    /// Does what is due, at most [`WRITES`] writes; answers when the next is due and how many were done.
    fn write_due(&mut self, clock: &mut Time) -> (Option<Time>, u32) {
        let mut written = 0;
        while written < WRITES {
            match self.link.poll(*clock) {
                Output::Wait(at) => return (at, written),
                output => written += self.act(output, clock),
            }
        }
        (Some(*clock), written)
    }

    /// Reads until the device is empty, a write is due or enough is read.
    fn read_some(&mut self, clock: &mut Time, empty_at: &mut Time, next: Option<Time>) -> Device {
        for _ in 0..READS {
            // A full ring is waited out: the device's queue holds what comes meanwhile.
            let Some(room) = self.ring.room() else { return Device::MustWait };
            match rustix::io::read(&*self.from, &mut *room) {
                Ok(len) if len > tun::HEADER => {
                    let frames = Layout::of(&room[..len]).frames();
                    let token = self.ring.push(len, frames.count());
                    if self.link.idle_at(*clock) <= *clock {
                        self.own.stamping.record(clock.since(*empty_at));
                    }
                    self.link.handle(*clock, Packet { token, frames });
                }
                Err(Errno::AGAIN) => {
                    *empty_at = *clock;
                    return Device::Empty;
                }
                Err(Errno::INTR) => {}
                // The device is gone; what is in flight has nowhere to go either, but the end is not ours to decide.
                Ok(_) | Err(_) => return Device::MustWait,
            }
            *clock = now();
            if next.is_some_and(|next| next <= *clock) {
                return Device::HasMore;
            }
        }
        Device::HasMore
    }

    /// Does what the model says; answers how many packets were written.
    fn act(&mut self, output: Output, clock: &mut Time) -> u32 {
        match output {
            Output::Deliver { token, frames, due, flip } => {
                self.own.lateness.record(clock.since(due));
                self.write(token, &frames, flip);
                self.ring.done(token, frames.end - frames.start);
                *clock = now();
                1
            }
            Output::Dropped { token, frames, .. } => {
                self.ring.done(token, frames.end - frames.start);
                0
            }
            Output::Wait(_) => 0,
        }
    }

    /// Writes `frames` of a packet, whole when they are all of it.
    fn write(&mut self, token: u64, frames: &Range<u32>, flip: Option<u64>) {
        let packet = self.ring.packet(token);
        let layout = Layout::of(packet);
        if let Some(which) = flip {
            cut::flip(packet, &layout, frames.start, which);
        }
        let whole = frames.start == 0 && frames.end == layout.frames().count();
        let result = if whole {
            rustix::io::write(&*self.to, packet)
        } else {
            let head = cut::head(packet, &layout, frames);
            let payload = &packet[cut::payload(&layout, frames)];
            rustix::io::writev(&*self.to, &[IoSlice::new(head.bytes()), IoSlice::new(payload)])
        };
        if result.is_err() {
            self.own.refused += u64::from(frames.end - frames.start);
        }
    }

    /// Waits for a packet, for `wait` or for the end.
    ///
    /// While the model's wire is busy, a packet that comes waits its turn there, so it may as well wait in the device: not being
    /// woken for each saves the sender a context switch for each.
    fn sleep(&mut self, stop: &PipeReader, clock: Time, wait: Option<Span>, device: Device) -> Woken {
        let busy = self.link.idle_at(clock).since(clock);
        let (interest, most) = match device {
            Device::MustWait => (PollFlags::empty(), Some(PAUSE)),
            _ if busy > Span::ZERO => (PollFlags::empty(), Some(busy.min(PAUSE))),
            Device::Empty | Device::HasMore => (PollFlags::IN, None),
        };
        let wait = wait.map_or(most, |wait| Some(most.map_or(wait, |most| most.min(wait))));
        let timeout = wait.map(|wait| Timespec {
            tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (wait.as_nanos() % 1_000_000_000) as i64,
        });
        let mut descriptors = [PollFd::new(&*self.from, interest), PollFd::new(stop, PollFlags::IN)];
        let _ = poll(&mut descriptors, timeout.as_ref());
        match descriptors {
            [_, stop] if !stop.revents().is_empty() => Woken::Stop,
            [from, _] if from.revents().contains(PollFlags::IN) => Woken::ByDevice,
            _ => Woken::ByTime,
        }
    }

    fn publish(&mut self, clock: Time) {
        self.published = clock;
        self.own.model = self.link.counters();
        // Never waits: a reader that holds the lock may have no CPU time while we run.
        let mut shown = match self.shown.try_lock() {
            Ok(shown) => shown,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        shown.model = self.own.model;
        shown.refused = self.own.refused;
        shown.lateness.copy_from(&self.own.lateness);
        shown.stamping.copy_from(&self.own.stamping);
    }
}

/// What the last reads found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    Empty,
    HasMore,
    /// The ring is full, or the device cannot be read.
    MustWait,
}

enum Woken {
    ByDevice,
    ByTime,
    Stop,
}
