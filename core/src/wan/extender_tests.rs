//! Range extenders over many seeds: what they carry at a distance, what they promise, what
//! cross-traffic does to them.

use super::*;
use crate::wan::Path;

/// 4x SDR after its 8b/10b code.
const PORT: Rate = Rate::from_bps(8_000_000_000);
/// Sixteen packets of 2 KiB, each with the 26 bytes of a reliable connection's headers and checks.
const TRAIN: Frames = Frames::train(26, 16 * 2_048, 2_048);

fn over(path: &str) -> Extension {
    let settings = Path::named(path).expect("a path").settings(None, None).expect("it has an rtt");
    Extension::over(&settings, PORT, Bytes::mib(4))
}

/// What came of a host that offered for `span` whatever it was promised room for.
#[derive(Debug, Default, PartialEq)]
struct Observation {
    offered: u64,
    delivered: u64,
    lost: u64,
    last: Time,
}

fn offer(extender: &mut Extender, span: Span) -> Observation {
    let (mut now, mut seen, mut token, mut free) =
        (Time::ZERO, Observation::default(), 0, Time::ZERO);
    let end = Time::ZERO + span;
    let bytes = TRAIN.carried_bytes(&(0..TRAIN.count()));
    loop {
        while now < end && free <= now && extender.credits(now) >= Bytes(bytes) {
            extender.handle(now, Packet { token, frames: TRAIN });
            (token, seen.offered) = (token + 1, seen.offered + u64::from(TRAIN.count()));
            free = now + PORT.time_for(Bytes(bytes));
        }
        match extender.poll(now) {
            Output::Deliver { frames, due, .. } => {
                assert!(due <= now && due >= seen.last, "in order, and not from the future");
                (seen.delivered, seen.last) =
                    (seen.delivered + u64::from(frames.end - frames.start), due);
            }
            Output::Dropped { frames, .. } => seen.lost += u64::from(frames.end - frames.start),
            Output::Wait(next) => {
                let offer = (now < end && free > now).then_some(free);
                match next.into_iter().chain(offer).min() {
                    Some(at) => now = now.max(at),
                    None => return seen,
                }
            }
        }
    }
}

fn gbps(seen: &Observation) -> f64 {
    seen.delivered as f64 * 2_048.0 * 8.0 / seen.last.since(Time::ZERO).as_secs_f64() / 1e9
}

#[test]
fn deep_buffers_carry_the_ports_rate_and_native_credits_not() {
    for path in ["usn-0.2", "usn-1400", "usn-8600"] {
        let seen =
            offer(&mut Extender::new(Time::ZERO, over(path), [], &Rng::new(1)), Span::from_secs(2));
        let port = PORT.as_gbps() * 2_048.0 / 2_074.0;
        let one_way = Path::named(path).expect("a path").rtt.expect("an rtt").as_secs_f64() / 2.0;
        let expected = port * 2.0 / (2.0 + one_way);
        assert!(
            (gbps(&seen) / expected - 1.0).abs() < 0.002,
            "{path}: {:.4}, not {expected:.4}",
            gbps(&seen)
        );
        assert_eq!((seen.lost, seen.offered), (0, seen.delivered), "{path}");
    }
    // What a cable's own promise allows: 128 KiB in each round trip, which is three whole trains.
    let native = Extension { buffer: NATIVE_CREDITS, ..over("usn-1400") };
    let seen = offer(&mut Extender::new(Time::ZERO, native, [], &Rng::new(1)), Span::from_secs(2));
    assert!((0.028..0.04).contains(&gbps(&seen)), "{:.4}", gbps(&seen));
}

#[test]
fn a_slow_haul_makes_the_host_wait_and_loses_nothing() {
    let mut slow = over("usn-1400");
    slow.haul.rate = Rate::from_bps(1_000_000_000);
    slow.buffer = Bytes::mib(8);
    let seen = offer(&mut Extender::new(Time::ZERO, slow, [], &Rng::new(1)), Span::from_secs(2));
    assert_eq!((seen.lost, seen.offered), (0, seen.delivered));
    assert!((0.9..1.0).contains(&gbps(&seen)), "{:.3}", gbps(&seen));
}

#[test]
fn cross_traffic_above_the_residual_capacity_costs_frames() {
    // A packet of 2074 bytes is 2112 on the wire: the port's 8 Gbit/s are 8.15 there, and 9.29 -
    // 8.15 are left.
    let lost = |gbit: f64, seed: u64| {
        let cross = Change::Cross(Rate::from_bps((gbit * 1e9) as u64), None);
        let mut extension = over("usn-1400");
        extension.haul.queue = Bytes::mib(4);
        let seen = offer(
            &mut Extender::new(Time::ZERO, extension, [(Span::ZERO, cross)], &Rng::new(seed)),
            Span::from_secs(1),
        );
        assert_eq!(seen.offered, seen.delivered + seen.lost, "{gbit} Gbit/s, seed {seed}");
        seen.lost as f64 / seen.offered as f64
    };
    assert!([0.0, 0.5, 1.0, 1.1].iter().all(|gbit| lost(*gbit, 1) == 0.0));
    for gbit in [2.0, 3.0, 4.0] {
        let excess = (8.147 + gbit - 9.29) / 8.147;
        assert!(
            (lost(gbit, 1) - excess).abs() < 0.02,
            "{gbit}: {:.3}, not {excess:.3}",
            lost(gbit, 1)
        );
    }
}

#[test]
fn every_frame_is_delivered_or_lost_once_and_credits_return() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut extension = over(["usn-0.2", "usn-1400", "usn-8600"][rng.below(3) as usize]);
        extension.haul.loss = rng.unit() / 100.0;
        extension.haul.queue = Bytes(100_000 + rng.below(1 << 22));
        extension.buffer = Bytes(200_000 + rng.below(1 << 24));
        let cross = Change::Cross(
            Rate::from_bps(rng.below(6_000_000_000)),
            Some(Span::from_millis(rng.below(300))),
        );
        let outage = Change::Outage(Span::from_millis(rng.below(20)));
        let changes = [
            (Span::from_millis(rng.below(100)), cross),
            (Span::from_millis(rng.below(300)), outage),
        ];
        let mut extender = Extender::new(Time::ZERO, extension.clone(), changes, &rng);
        let seen = offer(&mut extender, Span::from_millis(400));
        assert_eq!(seen.offered, seen.delivered + seen.lost, "seed {seed}");
        assert!(seen.delivered > 0, "seed {seed}");
        assert_eq!(
            (extender.held, extender.unpromised),
            (0, 0),
            "seed {seed}: promises that never came back"
        );
        let again =
            offer(&mut Extender::new(Time::ZERO, extension, changes, &rng), Span::from_millis(400));
        assert_eq!(seen, again, "seed {seed}");
    }
}

#[test]
fn what_was_not_promised_is_lost() {
    let extension = Extension { buffer: Bytes(40_000), ..over("usn-1400") };
    let mut extender = Extender::new(Time::ZERO, extension, [], &Rng::new(1));
    extender.handle(Time::ZERO, Packet { token: 1, frames: TRAIN });
    extender.handle(Time::ZERO, Packet { token: 2, frames: TRAIN });
    assert!(matches!(
        extender.poll(Time::ZERO),
        Output::Dropped { token: 2, cause: Cause::Queue, .. }
    ));
}
