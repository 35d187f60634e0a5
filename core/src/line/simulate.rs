//! A test in virtual time: frames over the link's machine to a tally, for tests whose truth is
//! known.

use super::runs::LossRuns;
use super::sequential::{LossCounts, RatioDecision, RatioTest};
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

/// Sends `count` frames, of which bursts are lost: each frame begins one with the probability
/// `turns_bad`, or ends it with `turns_good`; returns what the receiver counts.
pub fn simulate_bursts(count: u64, turns_bad: f64, turns_good: f64, rng: &mut Rng) -> LossRuns {
    let (mut tally, mut is_bad) = (Tally::new(), false);
    for sequence in 0..count {
        is_bad ^= rng.unit() < if is_bad { turns_good } else { turns_bad };
        if !is_bad {
            tally.arrive(&arrived(sequence, 0));
        }
    }
    tally.totals(Some(count)).runs
}

/// What `test` decides on a line that loses `ratio` of its frames, and after how many: bursts of
/// frames begin at random, of `size` each, which is `mean` in the mean. It looks at every frame, at
/// `most` of them at most.
pub fn simulate_decision(
    test: &RatioTest,
    ratio: f64,
    (mean, size): (f64, impl Fn(&mut Rng) -> u64),
    most: f64,
    rng: &mut Rng,
) -> (RatioDecision, f64) {
    let (mut runs, mut frames) = (LossRuns::default(), 0.0);
    let gap = |rng: &mut Rng| (-(1.0 - rng.unit()).ln() / ratio * mean).min(2.0 * most);
    let counts = |runs: &LossRuns| {
        let mut closed = runs.clone();
        closed.close();
        LossCounts::of(closed.lost, &closed)
    };
    while frames < most {
        // From one burst to the next only a pass comes nearer, and with a burst only the contrary.
        let (before, came) = (counts(&runs), gap(rng).ceil());
        if test.decide(&before, frames + came) == RatioDecision::Accepted {
            return (RatioDecision::Accepted, test.trials_to_accept(&before).max(frames));
        }
        let burst = size(rng);
        runs.received(came as u64);
        (0..burst).for_each(|_| runs.lost());
        frames += came + burst as f64;
        if test.decide(&counts(&runs), frames) == RatioDecision::Refused {
            return (RatioDecision::Refused, frames);
        }
    }
    (RatioDecision::Open, frames)
}

fn arrived(sequence: u64, wrong_bits: u64) -> Arrived {
    Arrived { sequence, second: 0, compared_bits: 0, wrong_bits, after_own_drops: false }
}

/// Counts what has arrived.
fn take(link: &mut OneWayLink, now: Time, tally: &mut Tally) {
    loop {
        match link.poll(now) {
            Output::Deliver { token, flip, .. } => {
                tally.arrive(&arrived(token, u64::from(flip.is_some())));
            }
            Output::Dropped { .. } => {}
            Output::Wait(_) => return,
        }
    }
}
