//! The link in virtual time, over many seeds: nothing is lost without a cause, order is kept, the
//! rate and the queue are respected.

use super::*;
use crate::units::{Bytes, Rate, Rng, Span, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TEN_GIGABIT: Rate = Rate::from_bps(10_000_000_000);

/// One delivery as the far end sees it.
#[derive(Clone, Debug, PartialEq)]
struct Arrival {
    token: u64,
    frames: std::ops::Range<u32>,
    due: Time,
    flip: Option<u64>,
}

/// A link, what was offered to it and what came out.
struct Run {
    link: OneWayLink,
    arrivals: Vec<Arrival>,
    drops: BTreeMap<Cause, u64>,
}

impl Run {
    fn new(direction: &Direction, script: &[&str], seed: u64) -> Run {
        let events =
            script.iter().map(|text| text.parse::<Event>().expect("a test's event is well formed"));
        let link = OneWayLink::new(
            Time::ZERO,
            direction,
            events.map(|event| (event.at, event.change)),
            &Rng::new(seed),
        );
        Run { link, arrivals: Vec::new(), drops: BTreeMap::new() }
    }

    fn offer(&mut self, at: Time, token: u64, frames: Frames) {
        self.poll(at);
        self.link.handle(at, Packet { token, frames });
    }

    /// Polls until the link waits; returns when.
    fn poll(&mut self, now: Time) -> Option<Time> {
        loop {
            match self.link.poll(now) {
                Output::Deliver { token, frames, due, flip } => {
                    assert!(due <= now);
                    self.arrivals.push(Arrival { token, frames, due, flip });
                }
                Output::Dropped { frames, cause, .. } => {
                    *self.drops.entry(cause).or_default() += u64::from(frames.end - frames.start)
                }
                Output::Wait(at) => return at,
            }
        }
    }

    /// Lets everything arrive.
    fn finish(&mut self) {
        let mut now = Time::ZERO;
        while let Some(at) = self.poll(now) {
            now = now.max(at);
        }
    }

    fn delivered(&self) -> u64 {
        self.arrivals
            .iter()
            .map(|arrival| u64::from(arrival.frames.end - arrival.frames.start))
            .sum()
    }

    fn dropped(&self, cause: Cause) -> u64 {
        self.drops.get(&cause).copied().unwrap_or(0)
    }
}

fn clean(one_way_delay: Span) -> Direction {
    Direction::new(TEN_GIGABIT, one_way_delay, one_way_delay + one_way_delay)
}

/// A full TSO super-packet with jumbo frames.
const TRAIN: Frames = Frames::train(52, 7 * 8_948, 8_948);

#[test]
fn a_lone_frame_takes_its_wire_time_and_the_delay() {
    let mut run = Run::new(&clean(Span::from_micros(81_500)), &[], 1);
    run.offer(Time::from_nanos(1_000), 7, Frames::one(9_000));
    run.finish();
    // 9,038 bytes at 10 Gbit/s are 7,230.4 ns.
    assert_eq!(
        run.arrivals,
        [Arrival {
            token: 7,
            frames: 0..1,
            due: Time::from_nanos(1_000 + 7_231 + 81_500_000),
            flip: None
        }]
    );
}

#[test]
fn a_clean_train_stays_whole_and_arrives_with_its_last_frame() {
    let mut run = Run::new(&clean(Span::from_millis(1)), &[], 1);
    run.offer(Time::ZERO, 0, TRAIN);
    run.offer(Time::ZERO, 1, TRAIN);
    run.finish();
    assert_eq!(run.arrivals.iter().map(|a| a.frames.clone()).collect::<Vec<_>>(), [0..7, 0..7]);
    assert_eq!(run.arrivals[1].due, Time::from_nanos(101_226 + 1_000_000));
}

#[test]
fn a_burst_larger_than_the_queue_loses_its_tail() {
    let direction = Direction { queue: Bytes(20 * 9_038), ..clean(Span::from_millis(1)) };
    let mut run = Run::new(&direction, &[], 1);
    for token in 0..4 {
        run.offer(Time::ZERO, token, TRAIN);
    }
    run.finish();
    assert_eq!((run.delivered(), run.dropped(Cause::Queue)), (20, 8));
    assert_eq!(run.arrivals[2].frames, 0..6, "the third train lost its last frame, the fourth all");
}

#[test]
fn losses_cut_a_train_into_runs_of_neighbours() {
    let direction = Direction { loss: 0.2, ..clean(Span::ZERO) };
    let mut run = Run::new(&direction, &[], 3);
    for token in 0..1_000 {
        run.offer(Time::from_nanos(token * 60_000), token, TRAIN);
    }
    run.finish();
    let cut =
        run.arrivals.windows(2).filter(|pair| pair[0].token == pair[1].token).collect::<Vec<_>>();
    assert!(!cut.is_empty());
    assert!(
        cut.iter().all(|pair| pair[0].frames.end < pair[1].frames.start),
        "neighbours that both survive stay together"
    );
    let rate = run.dropped(Cause::Loss) as f64 / 7_000.0;
    assert!((0.18..0.22).contains(&rate), "lost {rate}");
}

#[test]
fn bit_errors_take_frames_in_proportion_to_their_size() {
    for (ip_bytes, ber) in [(9_000u32, 1e-6), (1_500, 1e-5), (40, 1e-4)] {
        let direction = Direction { ber, queue: Bytes::mib(1 << 20), ..clean(Span::ZERO) };
        let mut run = Run::new(&direction, &[], 11);
        let count = 40_000;
        for token in 0..count {
            run.offer(Time::from_nanos(token * 8_000), token, Frames::one(ip_bytes));
        }
        run.finish();
        let bits = frames::framed_bytes(u64::from(ip_bytes)) * 8;
        let expected = 1.0 - (1.0 - ber).powi(bits as i32);
        let measured = run.dropped(Cause::BitError) as f64 / count as f64;
        assert!(
            (measured / expected - 1.0).abs() < 0.1,
            "{ip_bytes} bytes at {ber}: {measured}, expected {expected}"
        );
    }
}

#[test]
fn flips_arrive_marked_and_alone() {
    let direction = Direction { flips: 0.01, ..clean(Span::ZERO) };
    let mut run = Run::new(&direction, &[], 5);
    for token in 0..2_000 {
        run.offer(Time::from_nanos(token * 60_000), token, TRAIN);
    }
    run.finish();
    let flipped: Vec<&Arrival> =
        run.arrivals.iter().filter(|arrival| arrival.flip.is_some()).collect();
    assert!((100..180).contains(&flipped.len()), "{} of 14,000", flipped.len());
    assert!(flipped.iter().all(|arrival| arrival.frames.end - arrival.frames.start == 1));
    assert_eq!(run.delivered(), 14_000, "a flip loses nothing");
    assert_eq!(run.link.counters().flipped_frames, flipped.len() as u64);
}

#[test]
fn an_outage_loses_what_is_offered_and_not_what_is_under_way() {
    let mut run = Run::new(&clean(Span::from_millis(50)), &["10ms:outage=5ms", "20ms:lose=3"], 1);
    for milli in 0..30u64 {
        run.offer(Time::ZERO + Span::from_millis(milli), milli, Frames::one(1_500));
    }
    run.finish();
    let arrived: Vec<u64> = run.arrivals.iter().map(|arrival| arrival.token).collect();
    let expected: Vec<u64> = (0..10).chain(15..20).chain(23..30).collect();
    assert_eq!(arrived, expected);
    assert_eq!(run.dropped(Cause::Outage), 8);
}

#[test]
fn a_slower_rate_stretches_what_waits_in_the_queue() {
    let direction = clean(Span::from_millis(1));
    let mut run = Run::new(&direction, &["50us:rate=1G"], 1);
    run.offer(Time::ZERO, 0, Frames::train(0, 10 * 9_000, 9_000));
    run.finish();
    // 90,380 bytes: 50 us at 10 Gbit/s carry 62,500 of them, the rest takes ten times as long.
    let rest = (90_380 - 62_500) * 8;
    assert_eq!(run.arrivals[0].due, Time::from_nanos(50_000 + rest + 1_000_000));
}

#[test]
fn cross_traffic_and_bursts_delay_and_drop() {
    let direction = Direction { queue: Bytes(1_000_000), ..clean(Span::ZERO) };
    let mut run = Run::new(&direction, &["1ms:burst=1MiB", "10ms:cross=20G/5ms"], 1);
    for micro in (500u64..20_000).step_by(500) {
        run.offer(Time::ZERO + Span::from_micros(micro), micro, Frames::one(9_000));
    }
    run.finish();
    assert!(run.dropped(Cause::Queue) > 5, "{:?}", run.drops);
    let delay = |token: u64| {
        run.arrivals
            .iter()
            .find(|a| a.token == token)
            .map(|a| a.due.since(Time::ZERO + Span::from_micros(token)))
    };
    assert_eq!(delay(500), Some(Span::from_nanos(7_231)));
    assert!(delay(1_500) > Some(Span::from_micros(250)), "behind the burst: {:?}", delay(1_500));
    assert_eq!(delay(19_000), Some(Span::from_nanos(7_231)), "cross-traffic has ended");
}

#[test]
fn reordering_needs_to_be_asked_for() {
    for reorder in [false, true] {
        let direction =
            Direction { jitter: Span::from_millis(1), reorder, ..clean(Span::from_millis(5)) };
        let mut run = Run::new(&direction, &[], 9);
        for token in 0..500 {
            run.offer(Time::from_nanos(token * 60_000), token, TRAIN);
        }
        run.finish();
        let in_order =
            run.arrivals.is_sorted_by_key(|arrival| (arrival.token, arrival.frames.start));
        assert_eq!(in_order, !reorder);
        assert_eq!(run.delivered(), 3_500);
        assert!(run.arrivals.is_sorted_by_key(|arrival| arrival.due));
    }
}

/// Any direction, from clean to hopeless.
fn any_direction() -> impl Strategy<Value = Direction> {
    let probability = prop_oneof![Just(0.0), 0.0..0.3f64];
    let rate = 1_000_000u64..20_000_000_000;
    (
        rate,
        0u64..20_000,
        probability.clone(),
        probability,
        0u64..2_000,
        any::<bool>(),
        1_000u64..2_000_000,
    )
        .prop_map(|(rate, delay, loss, flips, jitter, reorder, queue)| Direction {
            rate: Rate::from_bps(rate),
            one_way_delay: Span::from_micros(delay),
            loss,
            ber: loss / 1e5,
            flips,
            jitter: Span::from_micros(jitter),
            reorder,
            queue: Bytes(queue),
        })
}

fn any_script() -> impl Strategy<Value = Vec<&'static str>> {
    let events = [
        "2ms:outage=1ms",
        "1ms:lose=9",
        "3ms:rate=100M",
        "4ms:rate=5G",
        "1ms:cross=3G/4ms",
        "5ms:burst=100KiB",
        "0ms:cross=1G",
    ];
    prop::sample::subsequence(events.to_vec(), 0..=events.len())
}

proptest! {
    #[test]
    fn frames_arrive_in_order_or_are_dropped_with_a_cause(
        direction in any_direction(),
        script in any_script(),
        seed in any::<u64>(),
        packets in prop::collection::vec((0u64..200_000, 1u32..60_000, 500u32..9_000), 1..150),
    ) {
        let mut run = Run::new(&direction, &script, seed);
        let mut now = Time::ZERO;
        let mut offered = 0;
        for (token, &(gap, payload, segment)) in packets.iter().enumerate() {
            now += Span::from_nanos(gap);
            let frames = Frames::train(40, payload, segment);
            offered += u64::from(frames.count());
            run.offer(now, token as u64, frames);
            let counters = run.link.counters();
            prop_assert_eq!(counters.frames, counters.delivered_frames + counters.dropped() + counters.in_flight());
            // One frame is always taken by an idle wire; more never fit than the limit.
            let most = direction.queue.0.max(frames::wire_bytes(9_040)).max(100 << 10);
            prop_assert!(run.link.backlog(now).0 <= most, "backlog {}", run.link.backlog(now));
        }
        run.finish();
        let counters = run.link.counters();
        prop_assert_eq!(counters.in_flight(), 0);
        prop_assert_eq!(counters.frames, offered);
        prop_assert_eq!(run.delivered() + run.drops.values().sum::<u64>(), offered);
        prop_assert_eq!(counters.delivered_frames, run.delivered());
        prop_assert!(run.arrivals.is_sorted_by_key(|arrival| arrival.due));
        if !direction.reorder {
            prop_assert!(run.arrivals.is_sorted_by_key(|arrival| (arrival.token, arrival.frames.start)));
        }
    }

    #[test]
    fn no_span_of_time_carries_more_than_the_rate(
        rate in 1_000_000u64..20_000_000_000,
        seed in any::<u64>(),
        loss in 0.0..0.2f64,
        packets in prop::collection::vec((0u64..100_000, 1u32..60_000), 2..150),
    ) {
        let rate = Rate::from_bps(rate);
        let direction = Direction { loss, ..Direction::new(rate, Span::from_millis(3), Span::from_millis(6)) };
        let mut run = Run::new(&direction, &[], seed);
        let mut now = Time::ZERO;
        let shape = |payload: u32| Frames::train(40, payload, 1_460);
        for (token, &(gap, payload)) in packets.iter().enumerate() {
            now += Span::from_nanos(gap);
            run.offer(now, token as u64, shape(payload));
        }
        run.finish();
        // Each run's last bit leaves one wire time, at least, after the run before.
        for pair in run.arrivals.windows(2) {
            let bytes = shape(packets[pair[1].token as usize].1).wire_bytes(&pair[1].frames);
            let apart = pair[1].due.since(pair[0].due) + Span::from_nanos(1);
            prop_assert!(apart >= rate.time_for(Bytes(bytes)), "{:?} then {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn polling_more_often_changes_nothing(direction in any_direction(), script in any_script(), seed in any::<u64>()) {
        let mut seldom = Run::new(&direction, &script, seed);
        let mut often = Run::new(&direction, &script, seed);
        for token in 0..100u64 {
            let at = Time::from_nanos(token * 70_000);
            seldom.link.handle(at, Packet { token, frames: TRAIN });
            for step in 0..10 {
                often.poll((at - Span::from_nanos(63_000) + Span::from_nanos(step * 6_300)).min(at));
            }
            often.offer(at, token, TRAIN);
        }
        seldom.finish();
        often.finish();
        prop_assert_eq!(seldom.arrivals, often.arrivals);
        prop_assert_eq!(seldom.drops, often.drops);
    }
}
