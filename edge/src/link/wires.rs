//! What one direction of a link is made of: the model of its own, and one more for each VLAN that
//! is a path by itself.
//!
//! A frame goes to the model of its VLAN's number, and all others go to the link's own. The paths
//! share nothing but the thread that moves their frames.

use farline_core::units::Time;
use farline_core::wan::{Change, Counters, OneWayLink, Output, Packet};

/// The models of a direction.
pub(super) struct Wires {
    own: OneWayLink,
    vlans: Vec<(u16, OneWayLink)>,
}

impl Wires {
    /// A direction of one path, and those of `vlans`.
    pub(super) fn new(own: OneWayLink, vlans: Vec<(u16, OneWayLink)>) -> Wires {
        Wires { own, vlans }
    }

    /// Offers a packet to the path of its VLAN.
    pub(super) fn handle(&mut self, now: Time, vlan: Option<u16>, packet: Packet) {
        let path = self.vlans.iter_mut().find(|(id, _)| Some(*id) == vlan);
        path.map_or(&mut self.own, |(_, link)| link).handle(now, packet);
    }

    /// What has happened on any of the paths until `now`; it waits for the first of them.
    pub(super) fn poll(&mut self, now: Time) -> Output {
        let mut first = None;
        for link in std::iter::once(&mut self.own).chain(self.vlans.iter_mut().map(|(_, l)| l)) {
            match link.poll(now) {
                Output::Wait(at) => first = first.into_iter().chain(at).min(),
                output => return output,
            }
        }
        Output::Wait(first)
    }

    /// When the first of the wires is idle: a packet that comes then must not wait to be read.
    pub(super) fn idle_at(&mut self, now: Time) -> Time {
        let vlans = self.vlans.iter_mut().map(|(_, link)| link.idle_at(now));
        vlans.fold(self.own.idle_at(now), Time::min)
    }

    /// Changes the link's own path.
    pub(super) fn change(&mut self, now: Time, change: Change) {
        self.own.change(now, change);
    }

    /// What all of them did together.
    pub(super) fn counters(&self) -> Counters {
        self.vlans.iter().fold(self.own.counters(), |sum, (_, link)| sum + link.counters())
    }
}
