//! Searches on lines of known capacity and buffer, in virtual time: MLRsearch for two loss ratios
//! at once, next to RFC 2544's halving for each of them, and the longest burst without loss.

use crate::table::row;
use farline_core::line::{BurstSearch, LoadSearch, RatioSearch, SearchGoal};
use farline_core::statistics::Summary;
use farline_core::units::{Bytes, Rate, Rng, Span, Time};
use farline_core::wan::{Direction, Frames, OneWayLink, Output, Packet};

const RATIOS: [f64; 2] = [0.0, 0.005];
/// Seconds after which a load is decided on; and those of a trial of the search by halving.
const SUM: f64 = 21.0;
/// How exact both are.
const WIDTH: f64 = 0.005;
/// Of bursts: the rate at which they come, bytes of a frame's time on the wire, the longest, and
/// how exact its length is found.
const BURST_RATE: Rate = Rate::from_bps(1_000_000_000);
const BURST_WIRE: f64 = 1_538.0;
const LONGEST_BURST: u64 = 10_000;
const BURST_WIDTH: f64 = 0.01;

/// A line in virtual time.
struct SimulatedLine {
    /// In per cent of the rate.
    capacity: f64,
    /// The mean part of it that is missing in a second, as an exponential distribution has it.
    missing: f64,
    rng: Rng,
}

impl SimulatedLine {
    fn of(seed: u64, missing: f64) -> SimulatedLine {
        let mut rng = Rng::new(seed);
        SimulatedLine { capacity: 10.0 + 80.0 * rng.unit(), missing, rng }
    }

    /// The loss of a trial.
    fn loss(&mut self, load: f64, seconds: f64) -> f64 {
        let mut second = || {
            let now = self.capacity * (1.0 + self.missing * (1.0 - self.rng.unit()).ln());
            (1.0 - now / load).max(0.0)
        };
        (0..seconds as u64).map(|_| second()).sum::<f64>() / seconds
    }

    /// What comes in half of the seconds at least of any load above it: the conditional throughput
    /// at the load below, whatever the ratio.
    fn throughput(&self) -> f64 {
        self.capacity * (1.0 - self.missing * std::f64::consts::LN_2)
    }

    /// The load of which half of the seconds lose more than `ratio`.
    fn truth(&self, ratio: f64) -> f64 {
        self.throughput() / (1.0 - ratio)
    }
}

/// What the searches of a number of lines come to, by ratio.
#[derive(Default)]
struct SearchTotals {
    held: [u64; 2],
    near: [u64; 2],
    /// Those whose conditional throughput is within the width of the true one, and what was found
    /// over that.
    throughput_near: [u64; 2],
    throughput: [Vec<f64>; 2],
    seconds: f64,
    plain_seconds: f64,
    /// What was found over the truth.
    found: [Vec<f64>; 2],
    plain_found: [Vec<f64>; 2],
}

/// Prints the rows.
pub(super) fn rows(seeds: u64) {
    for (what, missing) in [("sharp", 0.0), ("noisy", 0.01)] {
        let mut seen = SearchTotals::default();
        (0..seeds).for_each(|seed| seen.note(seed, missing));
        let of = |count: u64| format!("{:.2} %", count as f64 / seeds as f64 * 100.0);
        for (n, ratio) in RATIOS.iter().enumerate() {
            let asked = if missing > 0.0 { "" } else { "100 %" };
            let label = format!("MLRsearch, {what} line, loss {ratio}: truth in the bounds");
            row(&label, &of(seen.held[n]), asked);
            row("  or within their width of them", &of(seen.near[n]), "at least 95 %");
            let sd = |found: &[f64]| {
                Summary::of(found).map_or("-".to_owned(), |it| {
                    format!("{:.4}, sd {:.2} %", it.mean, it.sd / it.mean * 100.0)
                })
            };
            let near = of(seen.throughput_near[n]);
            row(
                "  conditional throughput within the width of the true one",
                &near,
                "at least 95 %",
            );
            row("  conditional throughput over the true one", &sd(&seen.throughput[n]), "");
            row("  load found over the truth", &sd(&seen.found[n]), "");
            row("  found by halving over the truth", &sd(&seen.plain_found[n]), "");
        }
        let mean = |seconds: f64| format!("{:.1} s", seconds / seeds as f64);
        row("  seconds of trials for both ratios", &mean(seen.seconds), "");
        row("  by halving, in trials of 21 s", &mean(seen.plain_seconds), "");
    }
    bursts(seeds);
}

/// Prints how exactly the queues of links are found by bursts.
fn bursts(seeds: u64) {
    let off: Vec<(f64, bool)> = (0..seeds).map(queue_found).collect();
    let near = off.iter().filter(|(_, is_near)| *is_near).count();
    let near = format!("{:.2} %", near as f64 / seeds as f64 * 100.0);
    row("queue found by a burst within 1 % and two frames", &near, "100 %");
    let found: Vec<f64> = off.iter().map(|(found, _)| *found).collect();
    if let Some(found) = Summary::of(&found) {
        let text = format!("{:.4}, sd {:.2} %", found.mean, found.sd / found.mean * 100.0);
        row("  queue found over the truth", &text, "");
    }
}

/// What a search finds of a link's queue, over the truth, and whether that is within what it
/// states.
fn queue_found(seed: u64) -> (f64, bool) {
    let mut rng = Rng::new(seed);
    let rate = Rate::from_bps(100_000_000 + rng.next_u64() % 800_000_000);
    let queue = 30_000 + rng.next_u64() % 500_000;
    let mut search = BurstSearch::new(LONGEST_BURST, 1);
    while let Some(frames) = search.next() {
        search.record(Some(burst_lost(rate, queue, frames)));
    }
    let buffer = search.buffer(BURST_RATE, BURST_WIRE, rate);
    let found = buffer.map_or(0.0, |buffer| buffer.corrected_bytes);
    let (truth, off) = (queue as f64, (found - queue as f64).abs());
    (found / truth, off <= BURST_WIDTH * truth + 2.0 * BURST_WIRE)
}

/// Frames lost of a burst over a link of `rate` with a queue of `queue` bytes.
fn burst_lost(rate: Rate, queue: u64, frames: u64) -> u64 {
    let direction =
        Direction { queue: Bytes(queue), ..Direction::new(rate, Span::ZERO, Span::ZERO) };
    let mut link = OneWayLink::new(Time::ZERO, &direction, [], &Rng::new(1));
    let gap = Span::from_secs_f64(BURST_WIRE * 8.0 / BURST_RATE.as_bps() as f64);
    let mut now = Time::ZERO;
    for token in 0..frames {
        link.handle(now, Packet { token, frames: Frames::one(1_500) });
        while !matches!(link.poll(now), Output::Wait(_)) {}
        now += gap;
    }
    link.counters().dropped()
}

impl SearchTotals {
    fn note(&mut self, seed: u64, missing: f64) {
        let mut line = SimulatedLine::of(seed, missing);
        let goals = RATIOS.map(|ratio| SearchGoal {
            relative_width: WIDTH,
            ..SearchGoal::of_seconds(ratio, SUM)
        });
        let mut search = RatioSearch::new(goals.to_vec());
        while let Some((load, seconds)) = search.next() {
            let loss = line.loss(load, seconds);
            search.record(Some(loss));
        }
        self.seconds += search.seconds();
        for (n, outcome) in search.outcomes().iter().enumerate() {
            let truth = line.truth(RATIOS[n]);
            let (lower, upper) =
                (outcome.lower_percent.unwrap_or(0.0), outcome.upper_percent.unwrap_or(100.0));
            let is_in = |more: f64| lower <= truth * (1.0 + more) && truth * (1.0 - more) <= upper;
            // Of the truth itself, what a float of it is off.
            self.held[n] += u64::from(is_in(1e-12));
            self.near[n] += u64::from(is_in(WIDTH));
            self.found[n].push(lower / truth);
            let throughput = outcome.throughput_percent.unwrap_or(0.0) / line.throughput();
            self.throughput_near[n] += u64::from((throughput - 1.0).abs() <= WIDTH + 1e-12);
            self.throughput[n].push(throughput);
            let mut plain = LoadSearch::new(RATIOS[n], WIDTH * 100.0);
            while let Some(load) = plain.next() {
                let loss = line.loss(load, SUM);
                plain.record(Some(loss));
            }
            self.plain_seconds += plain.trials.len() as f64 * SUM;
            self.plain_found[n].push(plain.carried_percent() / truth);
        }
    }
}
