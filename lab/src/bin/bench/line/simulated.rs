//! The tester's figures in virtual time: how often the truth lies in its intervals, how often it
//! decides wrong, how long that takes, what it finds of clocks.

use super::searches;
use crate::table::{heading, median, row};
use farline_core::line::{
    DelaySample, LossRuns, PathDelay, Ratio, RatioDecision, RatioTest, simulate, simulate_bursts,
    simulate_decision,
};
use farline_core::units::{Rate, Rng, Span, Time};
use farline_core::wan::Direction;

/// The fixed-length test with the same guarantees: at most 9 errors in 15.7 over the limit accept a
/// line of a third of it, and refuse one at it, with 95 % each.
const FIXED: f64 = 15.7;
/// Frames of a simulated test.
const FRAMES: u64 = 20_000;
/// Of one with bursts.
const BURSTY_FRAMES: u64 = 5 * FRAMES;
const FRAME_BYTES: u32 = 1_518;
/// Of the ratios that are decided on.
const LIMIT: f64 = 1e-3;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Links and lines of each row
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Only how lines are decided on, and how long that takes
    #[arg(long)]
    decisions: bool,
}

pub(crate) fn run(options: &Options) {
    let seeds = options.seeds;
    if options.decisions {
        heading(&format!("decisions of the line tester in virtual time, {seeds} seeds a row"));
        decisions(seeds);
        return;
    }
    heading(&format!("line tester in virtual time, {seeds} seeds a row"));
    let percent = |count: u64| format!("{:.2} %", count as f64 / seeds as f64 * 100.0);
    let held = |holds: &dyn Fn(u64) -> bool| {
        percent((0..seeds).filter(|seed| holds(*seed)).count() as u64)
    };
    row("true uniform loss in the interval, 1e-5..1e-2", &held(&uniform_loss), "at least 93 %");
    row("true bursty loss in the interval", &held(&bursty_loss), "at least 93 %");
    let drawn: Vec<DrawnBursts> = (0..seeds).map(bursty_loss_drawn).collect();
    for (label, is_of, holds, asked) in BURSTY_ROWS {
        let of: Vec<bool> = drawn.iter().filter(|drawn| is_of(drawn)).map(holds).collect();
        let held = of.iter().filter(|holds| **holds).count();
        let share = held as f64 / of.len().max(1) as f64 * 100.0;
        row(label, &format!("{share:.2} % of {}", of.len()), asked);
    }
    for (label, seen) in [("ten", 10..20), ("a hundred", 100..200)] {
        let of = drawn.iter().filter(|drawn| seen.contains(&drawn.seen)).map(|drawn| drawn.width);
        let width = median(of).map_or("-".to_owned(), |width| format!("x {width:.2}"));
        row(&format!("  upper end over lower of {label} and up to twice as many"), &width, "");
    }
    row("true bit error ratio in the interval, 1e-9..1e-6", &held(&bit_errors), "at least 93 %");
    decisions(seeds);
    searches::rows(seeds);
    for load in [0.1, 0.9] {
        let (mut offset, mut skew, mut mean) = (0.0_f64, 0.0_f64, 0.0_f64);
        for seed in 0..seeds.div_ceil(100) {
            let (o, s, m) = clocks(load, seed);
            (offset, skew, mean) = (offset.max(o), skew.max(s), mean.max(m));
        }
        let label = format!("worst error of offset 10 ms, load {} %", load * 100.0);
        row(&label, &format!("{:.2} us", offset / 1e3), "at most 5 us");
        row("  of skew 50 ppm", &format!("{skew:.3} ppm"), "at most 1 ppm");
        row("  of the mean one-way delay", &format!("{:.2} us", mean / 1e3), "at most 20 us");
    }
}

fn clean() -> Direction {
    Direction::new(Rate::from_bps(10_000_000_000), Span::from_millis(1), Span::ZERO)
}

fn drawn(low: f64, high: f64, seed: u64) -> f64 {
    10_f64.powf(low + (high - low) * Rng::new(seed ^ 0x5eed).unit())
}

fn uniform_loss(seed: u64) -> bool {
    let loss = drawn(-5.0, -2.0, seed);
    let (totals, _) = simulate(&Direction { loss, ..clean() }, FRAME_BYTES, FRAMES, seed);
    let runs = &totals.runs;
    Ratio::clustered(runs.lost, FRAMES as f64, runs.dispersion(), 0.95)
        .is_some_and(|ratio| ratio.holds(loss))
}

fn bit_errors(seed: u64) -> bool {
    let ber = drawn(-9.0, -6.0, seed);
    let (totals, _) = simulate(&Direction { ber, ..clean() }, FRAME_BYTES, FRAMES, seed);
    let bits = FRAMES as f64 * f64::from(FRAME_BYTES) * 8.0;
    Ratio::of(totals.runs.lost, bits, 0.95).is_some_and(|ratio| ratio.holds(ber))
}

/// Runs of 2 to 10 lost frames.
fn bursty_loss(seed: u64) -> bool {
    let mut rng = Rng::new(seed);
    let turns_good = 0.1 + 0.4 * rng.unit();
    let (_, ratio) = bursty(2e-4, turns_good, &mut rng);
    ratio.is_some_and(|ratio| ratio.holds(2e-4 / (2e-4 + turns_good)))
}

/// A line that loses in bursts, and what is said of it.
struct DrawnBursts {
    /// How many bursts are to be expected, and how many came.
    expected: f64,
    seen: u64,
    /// Whether the true ratio is in the interval, and the true ratio of bursts.
    holds: bool,
    holds_bursts: bool,
    /// The interval's upper end over its lower one.
    width: f64,
}

type IsSo = fn(&DrawnBursts) -> bool;

/// Where nothing is lost the bound is one of bursts: how many frames one takes nobody knows. Of
/// which draws a row is, what must be so, and in how many.
const BURSTY_ROWS: [(&str, IsSo, IsSo, &str); 7] = [
    ("  the same of 1e-5..1e-2, in 100,000 frames", |_| true, HOLDS, ""),
    ("  where frames were lost", |drawn| drawn.seen > 0, HOLDS, MOST),
    ("  where one burst came", |drawn| drawn.seen == 1, HOLDS, MOST),
    ("  where two came", |drawn| drawn.seen == 2, HOLDS, MOST),
    ("  where three to nine came", |drawn| (3..10).contains(&drawn.seen), HOLDS, MOST),
    ("  where ten or more are to be expected", |drawn| drawn.expected >= 10.0, HOLDS, MOST),
    ("  where none came: true ratio of bursts", |drawn| drawn.seen == 0, BURSTS_HOLD, MOST),
];
const HOLDS: IsSo = |drawn| drawn.holds;
const BURSTS_HOLD: IsSo = |drawn| drawn.holds_bursts;
const MOST: &str = "at least 93 %";

fn bursty_loss_drawn(seed: u64) -> DrawnBursts {
    let mut rng = Rng::new(seed);
    let (loss, turns_good) = (drawn(-5.0, -2.0, seed), 0.1 + 0.4 * rng.unit());
    let turns_bad = loss * turns_good / (1.0 - loss);
    let (runs, ratio) = bursty(turns_bad, turns_good, &mut rng);
    DrawnBursts {
        expected: loss * turns_good * BURSTY_FRAMES as f64,
        seen: runs.bursts,
        holds: ratio.is_some_and(|ratio| ratio.holds(loss)),
        holds_bursts: ratio.is_some_and(|ratio| ratio.holds(loss * turns_good)),
        width: ratio.map_or(f64::INFINITY, |ratio| ratio.high / ratio.low),
    }
}

fn bursty(turns_bad: f64, turns_good: f64, rng: &mut Rng) -> (LossRuns, Option<Ratio>) {
    let runs = simulate_bursts(BURSTY_FRAMES, turns_bad, turns_good, rng);
    let ratio = Ratio::clustered(runs.lost, BURSTY_FRAMES as f64, runs.dispersion(), 0.95);
    (runs, ratio)
}

/// How often lines at their limit, and next to it, are decided on wrongly, and how long decisions
/// take: of losses one by one, and in bursts, of which a test was told or not.
fn decisions(seeds: u64) {
    use RatioDecision::{Accepted, Refused};
    let held = |holds: &dyn Fn(u64) -> bool| {
        let count = (0..seeds).filter(|seed| holds(*seed)).count();
        format!("{:.2} %", count as f64 / seeds as f64 * 100.0)
    };
    for (at, wrong, asked) in [
        (1.0, Accepted, "at most 5 %"),
        (1.0, Refused, "at most 5 %"),
        (1.5, Accepted, "below 5 %"),
        (0.67, Refused, "below 5 %"),
    ] {
        let label = format!("line at {at} of its limit wrongly {wrong:?}").to_lowercase();
        row(&label, &held(&|seed| decided(1.0, at, 1.0, seed).0 == wrong), asked);
    }
    for burst in [2.0, 5.0, 20.0] {
        for (told, wrong, asked) in [
            (burst, Accepted, "at most 5 %"),
            (burst, Refused, "at most 5 %"),
            (1.0, Refused, "at most 5 %"),
            // Before the first loss it looks like one that loses nothing.
            (1.0, Accepted, ""),
        ] {
            let label = format!("  in bursts of {burst}, told {told}: {wrong:?}").to_lowercase();
            row(&label, &held(&|seed| decided(told, 1.0, burst, seed).0 == wrong), asked);
        }
    }
    for (told, at, burst) in [(5.0, 0.0, 5.0), (5.0, 0.1, 5.0), (5.0, 10.0, 5.0), (1.0, 10.0, 5.0)]
    {
        let mean = (0..seeds).map(|seed| decided(told, at, burst, seed).1).sum::<f64>();
        let label = format!("  length over 1/limit at {at} of it, bursts of {burst}, told {told}");
        row(&label, &format!("{:.2}", mean / seeds as f64), "");
    }
    let lines = [0.0, 0.1, 1.0 / 3.0, 3.0, 10.0];
    let means: Vec<f64> = lines
        .iter()
        .map(|at| {
            (0..seeds).map(|seed| decided(1.0, *at, 1.0, seed).1).sum::<f64>()
                / seeds as f64
                / FIXED
        })
        .collect();
    for (at, mean) in lines.iter().zip(&means) {
        row(
            &format!("length over the fixed test's, line at {at:.2} of its limit"),
            &format!("{mean:.3}"),
            "",
        );
    }
    let all = means.iter().sum::<f64>() / means.len() as f64;
    row("mean of these lengths", &format!("{all:.3}"), "at most 0.6");
}

/// The decision on a line of `truth` times its limit that loses `burst` frames at once in the mean,
/// by a test whose passes hold for those of `told`, and when it came, in one over the limit.
fn decided(told: f64, truth: f64, burst: f64, seed: u64) -> (RatioDecision, f64) {
    let test = RatioTest { limit: LIMIT, confidence: 0.95, burst: told };
    let size = |rng: &mut Rng| (1..).find(|_| rng.unit() < 1.0 / burst).unwrap_or(1);
    let (most, mut rng) = (60.0 * told / LIMIT, Rng::new(seed));
    let (decision, frames) = simulate_decision(&test, truth * LIMIT, (burst, size), most, &mut rng);
    (decision, frames * LIMIT)
}

/// How far off offset, skew and mean delay are found, with other frames in the queue at `load`.
fn clocks(load: f64, seed: u64) -> (f64, f64, f64) {
    const OFFSET: f64 = 10e6;
    const SKEW: f64 = 50e-6;
    const DISTANCE: f64 = 8.6e6;
    let mut rng = Rng::new(seed);
    let mut delay = PathDelay::new(false);
    let mut wait = move || {
        if rng.unit() < load { -rng.unit().max(1e-12).ln() * 1_300.0 / (1.0 - load) } else { 0.0 }
    };
    let (mut sum, packets) = (0.0, 6_000);
    for n in 0..packets {
        let sent = 1e15 + f64::from(n) * 1e7;
        let other = |own: f64| own + OFFSET + SKEW * (own - 1e15);
        let there = DISTANCE + wait();
        sum += there;
        let returned = sent + there + 15_000.0;
        let time = |nanos: f64| Time::from_nanos(nanos.round() as u64);
        delay.add(&DelaySample {
            sent: time(sent),
            received: time(other(sent + there)),
            returned: time(other(returned)),
            came: time(returned + DISTANCE + wait()),
        });
    }
    let found = delay.clocks().zip(delay.one_way());
    found.map_or((f64::INFINITY, f64::INFINITY, f64::INFINITY), |(clocks, (there, _))| {
        (
            (clocks.offset_ns - OFFSET).abs(),
            (clocks.skew_ppm - SKEW * 1e6).abs(),
            (there.mean_ns - sum / f64::from(packets)).abs(),
        )
    })
}
