//! A test in virtual time: frames over the link's machine to a tally, for tests whose truth is
//! known.

use super::tally::{Arrived, Tally, TallyTotals};
use crate::units::{Bytes, Rng, Span, Time};
use crate::wan::frames::{FCS, GAP, HEADER, PREAMBLE};
use crate::wan::{Counters, Direction, Frames, OneWayLink, Output, Packet};

/// Sends `count` frames of `frame_bytes`, from header to FCS, back to back over `direction`;
/// returns what the receiver counts, and what the link itself does.
pub fn simulate(
    direction: &Direction,
    frame_bytes: u32,
    count: u64,
    seed: u64,
) -> (TallyTotals, Counters) {
    let mut link = OneWayLink::new(Time::ZERO, direction, [], &Rng::new(seed));
    let mut tally = Tally::new();
    let wire = u64::from(frame_bytes) + PREAMBLE + GAP;
    let gap = direction.rate.time_for(Bytes(wire));
    let frames = Frames::one(frame_bytes - (HEADER + FCS) as u32);
    let mut now = Time::ZERO;
    for token in 0..count {
        link.handle(now, Packet { token, frames });
        take(&mut link, now, &mut tally);
        now += gap;
    }
    let longest = direction.one_way_delay + direction.jitter + Span::from_secs(1);
    take(&mut link, now + longest, &mut tally);
    (tally.totals(Some(count)), link.counters())
}

/// Counts what has arrived.
fn take(link: &mut OneWayLink, now: Time, tally: &mut Tally) {
    loop {
        match link.poll(now) {
            Output::Deliver { token, flip, .. } => tally.arrive(&Arrived {
                sequence: token,
                second: 0,
                compared_bits: 0,
                wrong_bits: u64::from(flip.is_some()),
                after_own_drops: false,
            }),
            Output::Dropped { .. } => {}
            Output::Wait(_) => return,
        }
    }
}
