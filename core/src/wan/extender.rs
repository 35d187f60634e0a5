//! InfiniBand over a wide area: a pair of range extenders, and the long haul between them, in one
//! direction.

use super::Frames;
use super::counters::{Cause, Counters};
use super::link::{OneWayLink, Output, Packet};
use super::script::Change;
use super::settings::{Direction, LinkSettings};
use crate::units::{Bytes, Rate, Rng, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// The most that one InfiniBand link promises: 2048 blocks of 64 bytes (InfiniBand Architecture
/// Specification 1.2.1, section 7.9.4.4).
pub const NATIVE_CREDITS: Bytes = Bytes(2_048 * 64);

/// A pair of extenders and the long haul between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// What the InfiniBand ports carry, after their line code.
    pub port: Rate,
    /// Room at each extender.
    pub buffer: Bytes,
    /// From the near extender to the far one.
    pub haul: Direction,
    /// How long a promise takes from the far extender to the near one.
    pub back: Span,
}

impl Extension {
    /// Extenders around the direction from a to b of a link, with room for its bandwidth and
    /// distance, and for `least`.
    pub fn over(settings: &LinkSettings, port: Rate, least: Bytes) -> Extension {
        let buffer = settings.bandwidth_delay_product().max(least);
        Extension {
            port,
            buffer,
            back: settings.b_to_a.one_way_delay,
            haul: settings.a_to_b.clone(),
        }
    }
}

/// A packet between the near buffer and the far port.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    token: u64,
    frames: Frames,
    /// Frames that have neither arrived nor been lost.
    left: u32,
}

/// One direction of InfiniBand over a wide area.
///
/// An InfiniBand port sends only what the port at the other end of its cable has promised room for,
/// in *credits*. A promise covers at most [`NATIVE_CREDITS`], so over a long cable the port waits
/// for most of the time. An extender ends the promises on its own side: the sending host is
/// promised the near extender's buffer, the near extender the far one's, and both are deep enough
/// for the distance (SC08, section IV.A). A packet's way:
///
/// 1. *Port*: it is serialised into the near extender at the port's rate, which has promised room
///    for it.
/// 2. *Near buffer*: it waits until the far extender has promised room, and leaves at the long
///    haul's rate.
/// 3. *Long haul*: a [`OneWayLink`], with what is in front of it: a switch's queue that
///    cross-traffic shares. The extender does not see that queue. What the two bring above the
///    haul's rate fills it, and then frames are lost, which InfiniBand's hosts take for a broken
///    cable.
/// 4. *Far port*: what arrived is serialised into the far host's port, and its room is promised
///    again, one way back.
///
/// The room of a lost frame comes back as well: an extender says with its promises how much it has
/// sent in all, as InfiniBand's flow-control packets do (InfiniBand Architecture Specification
/// 1.2.1, section 7.9.4).
#[derive(Clone, Debug)]
pub struct Extender {
    settings: Extension,
    haul: OneWayLink,
    /// When `haul` has something to say.
    haul_next: Option<Time>,
    /// When the host's port has taken what it was given.
    port_free: Time,
    /// When the last packet that left will be on the haul's wire.
    haul_free: Time,
    /// When the far host's port is free.
    far_free: Time,
    /// What is in the near buffer or on its way into it, with the time when it is there whole.
    near: VecDeque<(Time, Packet)>,
    held: u64,
    /// What was sent and not promised again.
    unpromised: u64,
    promises: BTreeMap<Time, u64>,
    crossing: BTreeMap<u64, Crossing>,
    sent: u64,
    outputs: VecDeque<(Time, Output)>,
    now: Time,
}

impl Extender {
    /// Idle extenders that begin at `now`; `changes` happen to the long haul, random choices come
    /// from `seed`, as for a [`OneWayLink`].
    pub fn new(
        now: Time,
        settings: Extension,
        changes: impl IntoIterator<Item = (Span, Change)>,
        seed: &Rng,
    ) -> Extender {
        Extender {
            haul: OneWayLink::new(now, &settings.haul, changes, seed),
            settings,
            haul_next: None,
            port_free: now,
            haul_free: now,
            far_free: now,
            near: VecDeque::new(),
            held: 0,
            unpromised: 0,
            promises: BTreeMap::new(),
            crossing: BTreeMap::new(),
            sent: 0,
            outputs: VecDeque::new(),
            now,
        }
    }

    /// What the host may offer at `now`: the near extender's promise to it.
    pub fn credits(&mut self, now: Time) -> Bytes {
        self.advance(now);
        Bytes(self.settings.buffer.0.saturating_sub(self.held))
    }

    /// Takes `packet` from the host at `now`; times must not run backwards. A frame's bytes are
    /// those of its InfiniBand packet.
    ///
    /// A packet beyond the promise is lost whole, as a port discards it.
    pub fn handle(&mut self, now: Time, packet: Packet) {
        let all = 0..packet.frames.count();
        let bytes = packet.frames.carried_bytes(&all);
        if Bytes(bytes) > self.credits(now) {
            let lost = Output::Dropped { token: packet.token, frames: all, cause: Cause::Queue };
            self.outputs.push_back((now, lost));
            return;
        }
        self.held += bytes;
        self.port_free = self.port_free.max(now) + self.settings.port.time_for(Bytes(bytes));
        self.near.push_back((self.port_free, packet));
        self.advance(now);
    }

    /// What has happened until `now`. Poll until it says [`Output::Wait`].
    pub fn poll(&mut self, now: Time) -> Output {
        self.advance(now);
        if self.outputs.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, output)) = self.outputs.pop_front()
        {
            return output;
        }
        let arrival = self.outputs.front().map(|(at, _)| *at);
        Output::Wait(arrival.into_iter().chain(self.next_event()).min())
    }

    /// What the long haul has counted.
    pub fn counters(&self) -> Counters {
        self.haul.counters()
    }

    /// When something moves inside; none when nothing waits and nothing is on its way.
    fn next_event(&self) -> Option<Time> {
        self.departure()
            .into_iter()
            .chain(self.haul_next)
            .chain(self.promises.keys().next().copied())
            .min()
    }

    /// When the first packet of the near buffer leaves, if the far extender has promised room for
    /// it.
    fn departure(&self) -> Option<Time> {
        let (ready, packet) = self.near.front()?;
        let bytes = packet.frames.carried_bytes(&(0..packet.frames.count()));
        let promised = self.unpromised == 0 || self.unpromised + bytes <= self.settings.buffer.0;
        promised.then(|| (*ready).max(self.haul_free).max(self.now))
    }

    /// Plays what happens until `now`, each thing at its own time.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            while let Some(entry) =
                self.promises.first_entry().filter(|entry| *entry.key() <= self.now)
            {
                self.unpromised = self.unpromised.saturating_sub(entry.remove());
            }
            if self.departure().is_some_and(|departure| departure <= self.now)
                && let Some((_, packet)) = self.near.pop_front()
            {
                self.depart(packet);
            }
            self.hear();
        }
        self.now = self.now.max(now);
    }

    /// Puts `packet` on the long haul.
    fn depart(&mut self, Packet { token, frames }: Packet) {
        let all = 0..frames.count();
        let bytes = frames.carried_bytes(&all);
        self.held = self.held.saturating_sub(bytes);
        self.unpromised += bytes;
        self.haul_free =
            self.now + self.settings.haul.rate.time_for(Bytes(frames.wire_bytes(&all)));
        self.crossing.insert(self.sent, Crossing { token, frames, left: frames.count() });
        self.haul.handle(self.now, Packet { token: self.sent, frames });
        self.sent += 1;
    }

    /// Takes what the long haul says until now.
    fn hear(&mut self) {
        loop {
            let (serial, frames, outcome) = match self.haul.poll(self.now) {
                Output::Wait(next) => {
                    self.haul_next = next;
                    return;
                }
                Output::Deliver { token, frames, due, flip } => (token, frames, Ok((due, flip))),
                Output::Dropped { token, frames, cause } => (token, frames, Err(cause)),
            };
            let Some(crossing) = self.crossing.get_mut(&serial) else { continue };
            let (token, bytes) = (crossing.token, crossing.frames.carried_bytes(&frames));
            crossing.left = crossing.left.saturating_sub(frames.end - frames.start);
            if crossing.left == 0 {
                self.crossing.remove(&serial);
            }
            let passed = match outcome {
                Ok((due, flip)) => {
                    self.far_free =
                        self.far_free.max(due) + self.settings.port.time_for(Bytes(bytes));
                    let due = self.far_free;
                    self.outputs.push_back((due, Output::Deliver { token, frames, due, flip }));
                    due
                }
                Err(cause) => {
                    let lost = Output::Dropped { token, frames, cause };
                    let place = self.outputs.partition_point(|(at, _)| *at <= self.now);
                    self.outputs.insert(place, (self.now, lost));
                    self.now + self.settings.haul.one_way_delay
                }
            };
            *self.promises.entry(passed + self.settings.back).or_default() += bytes;
        }
    }
}

#[cfg(test)]
#[path = "extender_tests.rs"]
mod tests;
