//! Slow start over a path in steps of a quarter of a millisecond: what is on its way, what queues,
//! and what overflows.

use super::*;
use crate::units::Rng;

const STEP: Span = Span::from_micros(250);
const SEGMENT: f64 = 8948.0;
/// Linux's HyStart takes the least round trip of a round's first eight acknowledgements.
const ROUND_SAMPLES: u32 = 8;

/// A path, and the channels that begin on it.
#[derive(Clone, Copy, Debug)]
struct Path {
    rate: Rate,
    rtt: Span,
    /// Bandwidth-delay products that the queue holds.
    queue: f64,
    channels: usize,
    /// Whether the control looks at delays itself (HyStart).
    hystart: bool,
    /// When, and by how much, everything is late for a tenth of a second.
    hiccup: Option<(Time, Span)>,
}

/// What became of it.
#[derive(Debug)]
struct Outcome {
    /// Bytes that the queue had no room for.
    dropped: f64,
    /// When so many bytes were there as were asked for.
    took: Span,
}

/// A channel in slow start, which ends as HyStart or a loss has it, and stays as it is then.
#[derive(Clone, Debug, Default)]
struct Flow {
    window: f64,
    in_flight: f64,
    threshold: Option<f64>,
    /// What was acknowledged, and what will be when the round is over.
    acknowledged: f64,
    round_end: f64,
    recovered: f64,
    /// The most that was on its way in this round, and in the one before.
    most: f64,
    most_before: f64,
    samples: u32,
    least: f64,
    smoothed: f64,
}

impl Flow {
    fn acknowledge(&mut self, bytes: f64, rtt: f64, path: &Path) {
        self.acknowledged += bytes;
        self.in_flight -= bytes;
        let part = (bytes / SEGMENT / 8.0).min(1.0);
        self.smoothed += (rtt - self.smoothed) * part;
        if self.acknowledged >= self.round_end {
            self.round_end = self.acknowledged + self.in_flight;
            (self.samples, self.least) = (0, f64::MAX);
            (self.most_before, self.most) = (self.most, self.in_flight);
        }
        if self.threshold.is_some() {
            return;
        }
        // What was not needed is not grown (tcp_is_cwnd_limited).
        self.window += bytes.min((2.0 * self.most.max(self.most_before) - self.window).max(0.0));
        self.samples += 1;
        if self.samples <= ROUND_SAMPLES {
            self.least = self.least.min(rtt);
        } else if path.hystart && self.least > path.rtt.as_secs_f64() + 0.016 {
            self.threshold = Some(self.window);
        }
    }

    /// A loss was noticed.
    fn lose(&mut self, bytes: f64) {
        if self.acknowledged >= self.recovered {
            self.recovered = self.acknowledged + self.in_flight;
            self.window *= 0.7;
            self.threshold = Some(self.window);
        }
        self.in_flight -= bytes;
    }
}

/// Sends until `bytes` have arrived; with a pacer or without.
fn run(path: Path, bytes: Bytes, is_paced: bool, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let step = STEP.as_secs_f64();
    let per_step = path.rate.as_bps() as f64 / 8.0 * step;
    let room = path.rate.bytes_in(path.rtt).0 as f64 * path.queue;
    let trip = (path.rtt.as_secs_f64() / step).round() as usize;
    let rtt = path.rtt.as_secs_f64();
    let first = Flow { window: 10.0 * SEGMENT, smoothed: rtt, least: f64::MAX, ..Flow::default() };
    let mut flows = vec![first; path.channels];
    // What is acknowledged, and what was lost, per channel, with the round trip that it had.
    let mut returns: VecDeque<Vec<(f64, f64, f64)>> = VecDeque::new();
    let mut queue: VecDeque<(usize, f64, usize)> = VecDeque::new();
    let (mut queued, mut delivered, mut dropped, mut lost) = (0.0, 0.0, 0.0, 0.0);
    let mut pacer = is_paced.then(SlowStartPacer::default);
    let (mut pace, mut look, mut credit) = (None, Time::ZERO, 0.0);
    for tick in 0_usize.. {
        let now = Time::ZERO + STEP.mul_f64(tick as f64);
        assert!(tick < 4_000_000, "{path:?} never ends: {delivered} bytes");
        if delivered >= bytes.0 as f64 {
            return Outcome { dropped, took: now.since(Time::ZERO) };
        }
        let late =
            path.hiccup.filter(|(at, _)| now >= *at && now.since(*at) < Span::from_millis(100));
        let late = late.map_or(0.0, |(_, late)| late.as_secs_f64());
        if returns.len() >= trip {
            for (flow, (bytes, gone, seen)) in flows.iter_mut().zip(returns.pop_front().unwrap()) {
                if bytes > 0.0 {
                    flow.acknowledge(bytes, seen + late, &path);
                    delivered += bytes;
                }
                if gone > 0.0 {
                    flow.lose(gone);
                    lost += gone;
                }
            }
        }
        let mut returned = vec![(0.0, 0.0, 0.0); path.channels];
        let from = rng.below(path.channels as u64) as usize;
        for index in (0..path.channels).map(|index| (index + from) % path.channels) {
            let flow = &mut flows[index];
            let mut sends = (flow.window - flow.in_flight).max(0.0);
            if let Some(pace) = pace {
                credit += pace * step / path.channels as f64;
                sends = sends.min(credit);
                credit -= sends;
            }
            flow.in_flight += sends;
            flow.most = flow.most.max(flow.in_flight);
            let fits = sends.min((room + per_step - queued).max(0.0));
            dropped += sends - fits;
            returned[index].1 = sends - fits;
            queued += fits;
            queue.push_back((index, fits, tick));
        }
        // What was not sent for want of a window is not made up for.
        credit = credit.min(pace.unwrap_or(0.0) * 0.001);
        let mut carries = per_step;
        while let Some((index, bytes, since)) = queue.front_mut() {
            let part = bytes.min(carries);
            *bytes -= part;
            carries -= part;
            queued -= part;
            let entry = &mut returned[*index];
            entry.0 += part;
            entry.2 = rtt + (tick - *since) as f64 * step;
            if *bytes > 0.0 {
                break;
            }
            queue.pop_front();
        }
        returns.push_back(returned);
        let Some(pacer) = pacer.as_mut().filter(|_| now >= look) else { continue };
        let mut smoothed: Vec<f64> = flows.iter().map(|flow| flow.smoothed).collect();
        smoothed.sort_by(f64::total_cmp);
        let changed = pacer.handle(SlowStartSample {
            at: now,
            delivered: Bytes(delivered as u64),
            in_flight: Bytes(flows.iter().map(|flow| flow.in_flight as u64).sum()),
            windows: Bytes(flows.iter().map(|flow| flow.window as u64).sum()),
            rtt: Span::from_secs_f64(smoothed[(path.channels - 1) / 2]),
            min_rtt: path.rtt,
            retransmits: (lost / SEGMENT) as u64,
            is_slow_start: flows.iter().any(|flow| flow.threshold.is_none()),
        });
        match changed {
            Some(SlowStartPace::At(rate)) => pace = Some(rate.as_bps() as f64 / 8.0),
            Some(SlowStartPace::Free) => pace = None,
            None => {}
        }
        let next = pacer.next_look(path.rtt).unwrap_or(Span::from_secs(1_000));
        // A busy host looks later.
        look = now + next.mul_f64(1.0 + rng.unit());
    }
    unreachable!("ticks have no end")
}

fn drawn(seed: u64, hystart: bool) -> Path {
    let mut rng = Rng::new(seed);
    let rtt = Span::from_millis(40 + rng.below(200));
    let rate =
        Rate::from_bps([100_000_000, 1_000_000_000][seed as usize % 2] * (5 + rng.below(36)));
    let channels = 1 + rng.below(8) as usize;
    Path { rate, rtt, queue: 1.0, channels, hystart, hiccup: None }
}

/// Products of bandwidth and delay, of which slow start takes about ten.
fn products(path: &Path, count: u64) -> Bytes {
    Bytes(count * path.rate.bytes_in(path.rtt).0)
}

/// What was dropped, in products of bandwidth and delay, over all seeds: held, and not.
fn dropped(queue: f64, hystart: bool) -> (f64, f64) {
    let outcomes = (0..40).map(|seed| {
        let path = Path { queue, ..drawn(seed, hystart) };
        let of = |is_paced| run(path, products(&path, 40), is_paced, seed);
        let (held, free) = (of(true), of(false));
        let slower = held.took.as_secs_f64() / free.took.as_secs_f64();
        // A window of the model stays as it is after a loss, so that early ones are small for good.
        assert!(queue < 1.0 || slower < 1.05, "{path:?}: {slower}");
        let product = products(&path, 1).0 as f64;
        (held.dropped / product, free.dropped / product)
    });
    outcomes.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn a_full_path_is_seen_before_its_queue_overflows() {
    let (held, free) = dropped(1.0, false);
    assert!(held * 5.0 < free, "{held} of {free}");
    let (held, free) = dropped(1.0, true);
    assert!(held * 1.5 < free, "{held} of {free}");
}

#[test]
fn a_short_queue_overflows_as_before() {
    let (held, free) = dropped(0.1, false);
    assert!((0.9..1.1).contains(&(held / free)), "{held} of {free}");
}

#[test]
fn a_delay_that_is_no_queue_costs_some_round_trips() {
    let mut trips: Vec<f64> = Vec::new();
    for seed in 0..60 {
        let path = drawn(seed, false);
        let mut rng = Rng::new(seed);
        let at = Time::ZERO + path.rtt.mul_f64(1.0 + 5.0 * rng.unit());
        let path = Path { hiccup: Some((at, Span::from_millis(5 + rng.below(40)))), ..path };
        let of = |is_paced| run(path, products(&path, 20), is_paced, seed).took.as_secs_f64();
        trips.push((of(true) - of(false)) / path.rtt.as_secs_f64());
    }
    trips.sort_by(f64::total_cmp);
    assert!(trips[30] < 3.0 && trips[59] < 6.0, "{trips:?}");
}

/// A look at a path of 100 ms that carries 8 Mbit/s, at so many milliseconds.
fn look(millis: u64, rtt: u64, delivered: u64) -> SlowStartSample {
    SlowStartSample {
        at: Time::ZERO + Span::from_millis(millis),
        delivered: Bytes(delivered),
        in_flight: Bytes(100_000),
        windows: Bytes(200_000),
        rtt: Span::from_millis(rtt),
        min_rtt: Span::from_millis(100),
        retransmits: 0,
        is_slow_start: true,
    }
}

/// One that holds since 100 ms.
fn holding() -> SlowStartPacer {
    let mut pacer = SlowStartPacer::default();
    for step in 0..4 {
        assert_eq!(pacer.handle(look(25 * step, 100, 25_000 * step)), None);
    }
    let at = SlowStartPace::At(Rate::from_bps(8_000_000));
    assert_eq!(pacer.handle(look(100, 115, 100_000)), Some(at));
    assert!(pacer.holds());
    pacer
}

#[test]
fn windows_that_are_full_end_it() {
    let mut pacer = holding();
    let full = |is_slow_start| SlowStartSample {
        in_flight: Bytes(195_000),
        is_slow_start,
        ..look(220, 115, 220_000)
    };
    assert_ne!(pacer.handle(full(true)), Some(SlowStartPace::Free), "they grow");
    let full = SlowStartSample { at: Time::ZERO + Span::from_millis(340), ..full(false) };
    assert_eq!(pacer.handle(full), Some(SlowStartPace::Free));
    assert_eq!(pacer.next_look(Span::from_millis(100)), None);
    assert_eq!(pacer.handle(look(500, 150, 400_000)), None);
}

#[test]
fn a_store_that_pauses_leaves_the_rate_as_it_is() {
    let mut pacer = holding();
    let rate = |pace| match pace {
        Some(SlowStartPace::At(rate)) => rate.as_bps(),
        _ => panic!("not held: {pace:?}"),
    };
    assert_eq!(pacer.handle(look(180, 115, 180_000)), None);
    let held = rate(pacer.handle(look(220, 115, 220_000)));
    assert_eq!(held / 1_000, 8_039, "what arrived, and a little more");
    assert_eq!(pacer.full_rate(), None, "it may be a delay of something else");
    // A round trip in which nothing was sent: there is no queue, and nothing arrived.
    assert_eq!(rate(pacer.handle(look(330, 100, 220_000))), held);
    // Then all of it arrives, and still no queue: it may grow.
    assert_eq!(rate(pacer.handle(look(440, 100, 330_000))) / 10_000, 2 * held / 10_000);
}

#[test]
fn a_path_is_full_for_certain_after_two_round_trips() {
    let mut pacer = holding();
    for (millis, delivered) in [(220, 220_000), (340, 340_000)] {
        assert_eq!(pacer.full_rate(), None);
        pacer.handle(look(millis - 10, 115, delivered - 10_000));
        pacer.handle(look(millis, 115, delivered));
    }
    assert_eq!(pacer.full_rate().map(|rate| rate.as_bps() / 1_000), Some(8_039));
}

#[test]
fn short_paths_and_what_was_lost_before_are_left_alone() {
    let short = |sample| SlowStartSample {
        min_rtt: Span::from_millis(10),
        rtt: Span::from_millis(20),
        ..sample
    };
    let mut pacer = SlowStartPacer::default();
    assert_eq!(pacer.handle(short(look(0, 0, 0))), None);
    assert_eq!(pacer.next_look(Span::from_millis(10)), None, "nobody looks for long");
    let mut pacer = SlowStartPacer::default();
    assert_eq!(pacer.handle(look(0, 100, 0)), None);
    assert_eq!(pacer.handle(SlowStartSample { retransmits: 1, ..look(25, 100, 0) }), None);
    assert_eq!(pacer.next_look(Span::from_millis(100)), None, "slow start is over");
}
