//! One direction of a running link: packets from one TUN device to the other, when the model says.
//!
//! A packet is read into the ring, stamped and described to the model; when the model delivers, it
//! is written from where it lies. Due writes go first, since each moment they wait is delay error.
//! A read that comes late is harmless while the model's wire is busy, because the packet would have
//! waited there anyway: so reads are put off until the wire is about to be idle, and packets are
//! then read several at a time.
//!
//! The stamp is the time just after the read: a path never delivers early, and the time before it
//! would be too early by as much as this thread was kept from reading what came meanwhile. Write
//! lateness is the time just before the write less the time due; what the receiving kernel does
//! with the packet after the write is the receiver's time, not the link's: as behind a card, a
//! thread of that kernel takes it from the device's queue (NAPI).

use super::accuracy::{LinkDelay, Spans, Stamps};
use super::cut;
use super::packet::Layout;
use super::ring::Ring;
use super::stats::DirectionStats;
use super::valve::Valve;
use super::wires::Wires;
use crate::sys::tun;
use farline_core::statistics::Moments;
use farline_core::units::{Span, Time};
use farline_core::wan::{self, Output, Packet};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, TryLockError};

/// Writes in a row before a read gets its turn, and reads in a row before due writes are looked for
/// again.
const WRITES: u32 = 8;
const READS: u32 = 8;

/// Packets of no more bytes than this have an account of their delays that is theirs alone: a probe
/// of delays has so few, and where long ones of a burst wait for each other it does not wait with
/// them.
const SHORT: usize = 200;

/// The longest that reads are put off: the device's queue must not fill up meanwhile.
const PUT_OFF: Span = Span::from_micros(200);

/// How soon a device that cannot be read, or a full ring, is looked at again.
const PAUSE: Span = Span::from_millis(1);

/// How often the counters are made visible to `link stats`.
const PUBLISH: Span = Span::from_millis(50);

/// Now, on the monotonic clock.
pub(super) fn now() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What a direction shows while it runs.
#[derive(Debug)]
pub(super) struct Shown {
    model: wan::Counters,
    refused: u64,
    lateness: Spans,
    stamping: Spans,
    /// From read to write, in nanoseconds, and the same of short packets.
    delays: Moments,
    short_delays: Moments,
}

impl Shown {
    pub(super) fn new() -> Shown {
        Shown {
            model: wan::Counters::default(),
            refused: 0,
            lateness: Spans::new(),
            stamping: Spans::new(),
            delays: Moments::default(),
            short_delays: Moments::default(),
        }
    }

    /// The statistics, when `dropped` packets were dropped by the sending device before they were
    /// read.
    pub(super) fn stats(&self, dropped: u64) -> DirectionStats {
        DirectionStats {
            model: self.model,
            overrun: dropped + self.refused,
            lateness: self.lateness.summary(),
            stamping: self.stamping.summary(),
            delay: LinkDelay::of(&self.delays),
            short_delay: LinkDelay::of(&self.short_delays),
        }
    }
}

/// What a direction wants next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// How many packets were read or written: when any, there may be more.
    pub(super) moved: u32,
    /// When there will be something to do, known now.
    pub(super) next: Option<Time>,
    /// Whether a packet that comes before then should be read at once.
    pub(super) watch: bool,
}

/// One direction.
pub(super) struct Direction {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    wires: Wires,
    /// Whether what is read and written are Ethernet frames, not packets of IP.
    is_ethernet: bool,
    ring: Ring,
    /// Before this no read is due.
    read_at: Time,
    stamps: Stamps,
    shown: Arc<Mutex<Shown>>,
    /// What `shown` becomes when it is next published.
    own: Shown,
    published: Time,
    unpublished: bool,
    /// What may change while it runs.
    valve: Option<Arc<Valve>>,
}

impl Direction {
    pub(super) fn new(
        from: Arc<OwnedFd>,
        to: Arc<OwnedFd>,
        wires: Wires,
        ring: Ring,
        shown: Arc<Mutex<Shown>>,
    ) -> Direction {
        let now = now();
        let (read_at, published) = (now, now);
        let (own, stamps) = (Shown::new(), Stamps::new(now));
        Direction {
            from,
            to,
            wires,
            is_ethernet: false,
            ring,
            read_at,
            stamps,
            shown,
            own,
            published,
            unpublished: false,
            valve: None,
        }
    }

    /// The same between TAP devices.
    pub(super) fn of_ethernet(self) -> Direction {
        Direction { is_ethernet: true, ..self }
    }

    /// The same, to be changed by `valve` while it runs.
    pub(super) fn with_valve(self, valve: Arc<Valve>) -> Direction {
        Direction { valve: Some(valve), ..self }
    }

    /// The device that packets come from.
    pub(super) fn device(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Does what is due and reads what there is, some of each; `clock` is brought up to date. An
    /// empty device is then left alone for `put_off`, else until the wire is about to be idle.
    pub(super) fn step(&mut self, clock: &mut Time, put_off: Option<Span>) -> Step {
        if let Some(valve) = &self.valve {
            valve.take().into_iter().for_each(|change| self.wires.change(*clock, change));
        }
        let (mut due, written) = self.write_due(clock);
        let (mut read, mut emptied) = (0, true);
        if self.read_at <= *clock {
            (read, emptied) = self.read_some(clock, due);
        }
        if read > 0 {
            // What was read is due at a time that the model was not asked for yet: a thread that
            // lost its core meanwhile, and slept now, would sleep through it.
            due = Some(*clock);
        }
        // A device that still holds packets is read on as soon as the due writes are done: put off,
        // its queue would stand where the model's should, unseen and undropped.
        if self.read_at <= *clock && emptied {
            let idle_at = self.wires.idle_at(*clock);
            self.read_at = *clock + put_off.unwrap_or(idle_at.since(*clock).min(PUT_OFF));
        }
        let watch = self.read_at <= *clock;
        let next =
            if watch { due } else { Some(due.map_or(self.read_at, |due| due.min(self.read_at))) };
        Step { moved: written + read, next, watch }
    }

    /// Notes that the thread slept until `clock`, to be woken by the device if it was `watched`.
    pub(super) fn slept(&mut self, clock: Time, watched: bool) {
        if watched {
            self.stamps.empty(clock);
        }
    }

    /// Does what is due, at most [`WRITES`] writes; returns when the next is due and how many were
    /// done.
    fn write_due(&mut self, clock: &mut Time) -> (Option<Time>, u32) {
        let mut written = 0;
        while written < WRITES {
            match self.wires.poll(*clock) {
                Output::Wait(at) => return (at, written),
                output => written += self.execute(output, clock),
            }
        }
        (Some(*clock), written)
    }

    /// Reads until the device is empty, a write is due and the wire busy, or enough is read;
    /// returns how many packets were read, and whether the device is empty or cannot be read.
    fn read_some(&mut self, clock: &mut Time, due: Option<Time>) -> (u32, bool) {
        for count in 0..READS {
            // A full ring is waited out: the device's queue holds what comes meanwhile.
            let Some(room) = self.ring.room() else {
                self.read_at = *clock + PAUSE;
                return (count, true);
            };
            match rustix::io::read(&*self.from, &mut *room) {
                Ok(_) if self.valve.as_ref().is_some_and(|valve| valve.is_shut()) => *clock = now(),
                Ok(len) if len > tun::HEADER => {
                    *clock = now();
                    let layout = layout(self.is_ethernet, &room[..len]);
                    let frames = layout.frames();
                    let token = self.ring.push(len, frames.count(), *clock);
                    self.own.stamping.record(self.stamps.read(*clock));
                    self.wires.handle(*clock, layout.vlan, Packet { token, frames });
                    self.stamps.busy_until(self.wires.idle_at(*clock));
                    self.unpublished = true;
                }
                Err(Errno::AGAIN) => {
                    self.stamps.empty(*clock);
                    return (count, true);
                }
                Err(Errno::INTR) => *clock = now(),
                // The device is gone; what is in flight has nowhere to go either, but the end is
                // not ours to decide.
                Ok(_) | Err(_) => {
                    self.read_at = *clock + PAUSE;
                    return (count, true);
                }
            }
            // With the wire idle, what waits to be read grows as late as what waits to be written.
            // Nor is a device left before it was seen empty while its packets are in doubt: under a
            // full queue something is always due, and they would stay so.
            if due.is_some_and(|due| due <= *clock)
                && self.wires.idle_at(*clock) > *clock
                && !self.stamps.in_doubt()
            {
                return (count + 1, false);
            }
        }
        (READS, false)
    }

    /// Does what the model says; returns how many packets were written.
    fn execute(&mut self, output: Output, clock: &mut Time) -> u32 {
        match output {
            Output::Deliver { token, frames, due, flip } => {
                self.own.lateness.record(clock.since(due));
                let delay = clock.since(self.ring.read_at(token)).as_nanos() as f64;
                self.own.delays.add(delay);
                if self.ring.packet(token).len() <= tun::HEADER + SHORT {
                    self.own.short_delays.add(delay);
                }
                self.write(token, &frames, flip);
                self.ring.done(token, frames.end - frames.start);
                self.unpublished = true;
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
        let layout = layout(self.is_ethernet, packet);
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

    /// Makes the counters visible: from time to time, or at once when the thread has time.
    pub(super) fn publish(&mut self, clock: Time, has_time: bool) {
        if !self.unpublished || (!has_time && clock.since(self.published) < PUBLISH) {
            return;
        }
        self.own.model = self.wires.counters();
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
        shown.delays = self.own.delays;
        shown.short_delays = self.own.short_delays;
        (self.published, self.unpublished) = (clock, false);
    }
}

/// Where things are in what a device handed over.
fn layout(is_ethernet: bool, bytes: &[u8]) -> Layout {
    if is_ethernet { Layout::of_frame(bytes) } else { Layout::of(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::{Rate, Rng};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_was_just_read_is_not_slept_through() {
        let settings = wan::LinkSettings::new(Rate::from_bps(50_000_000), Span::from_millis(20));
        let started = now();
        let link = wan::OneWayLink::new(started, &settings.a_to_b, [], &Rng::new(1));
        let [(device, from), (to, received)] =
            [(); 2].map(|()| UnixDatagram::pair().expect("sockets"));
        for socket in [&from, &to, &received] {
            socket.set_nonblocking(true).expect("set");
        }
        let [from, to] = [from, to].map(|socket| Arc::new(OwnedFd::from(socket)));
        let shown = Arc::new(Mutex::new(Shown::new()));
        let ring = Ring::new(1 << 20).expect("memory");
        let mut direction = Direction::new(from, to, Wires::new(link, Vec::new()), ring, shown);
        let packet = [&[0; tun::HEADER][..], &[0x45, 0, 0, 28], &[0; 24]].concat();
        device.send(&packet).expect("sent");

        let mut clock = started + Span::from_millis(1);
        let step = direction.step(&mut clock, Some(Span::ZERO));
        assert_eq!(step.moved, 1);
        // Looked at again before anybody sleeps, it is due 10 ms after it was read, and arrives.
        assert!(step.next.is_some_and(|next| next <= clock), "{step:?}");
        let step = direction.step(&mut clock, Some(Span::ZERO));
        let due = step.next.expect("it is in flight");
        assert!(due >= clock + Span::from_millis(9), "{due:?} at {clock:?}");
        received.recv(&mut [0; 64]).expect_err("it is in flight");
        clock = due;
        assert_eq!(direction.step(&mut clock, Some(Span::ZERO)).moved, 1);
        let mut came = [0; 64];
        assert_eq!(received.recv(&mut came).expect("it arrives"), packet.len());
        assert_eq!(came[..packet.len()], packet);
    }
}
