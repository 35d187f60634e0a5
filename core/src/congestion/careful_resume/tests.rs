//! Resuming over paths that are as they were, and over paths that are not.

use super::*;
use crate::congestion::scenario::*;
use crate::congestion::{Algorithm, Constants};
use crate::transfer::PathRecord;
use crate::units::{Bytes, Rng};
use crate::wan::Change;

const RTT: u64 = 100;

/// What a flow that filled a path of this rate and [`RTT`] has saved of it.
fn saved(mbits: u64) -> SavedPath {
    SavedPath { in_flight: mbit(mbits).bytes_in(ms(RTT)), rtt: ms(RTT), fills: true }
}

fn resuming(algorithm: Algorithm, saved: SavedPath) -> Part {
    let start = Start { saved: Some(saved), ..Start::default() };
    sender_with(algorithm, Constants::Linux, start)
}

/// Seconds until `bytes` have arrived over a path of `mbits` and one queue's product, and packets
/// lost by then.
fn takes(flow: Part, mbits: u64, bytes: u64, rng: u64) -> (f64, u64) {
    let path = [rate(mbit(mbits)), delay(ms(RTT / 2)), tail_drop(1.0), train(4), seed(rng)];
    let run = scenario![flow, path, receiver()]
        .run_until(secs(120), |run| run.delivered(0) * 1500 >= bytes);
    assert!(run.delivered(0) * 1500 >= bytes, "it ends");
    (run.now().since(Time::ZERO).as_secs_f64(), run.lost(0))
}

#[test]
fn a_known_path_is_filled_in_fewer_round_trips() {
    // 50 products of 12.5 MB would hide the beginning; five are a short copy.
    let bytes = 60_000_000;
    for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr, Algorithm::HTcp] {
        let (fresh, lost) = takes(sender(algorithm), 1_000, bytes, 3);
        let (again, lost_again) = takes(resuming(algorithm, saved(1_000)), 1_000, bytes, 3);
        println!("{algorithm}: {fresh:.2} s, {lost} lost; again {again:.2} s, {lost_again} lost");
        assert!(again <= 0.7 * fresh, "{algorithm}: {again:.2} s after {fresh:.2} s");
        // BBR has no threshold to end its first phase at, and overshoots as it does without.
        let most = if algorithm == Algorithm::Bbr { lost + lost / 100 } else { 0 };
        assert!(lost_again <= most, "{algorithm}: {lost_again} lost, {lost} before");
    }
}

#[test]
fn a_path_with_another_round_trip_is_begun_as_any() {
    for rtt in [ms(2 * RTT + 1), ms(RTT / 10)] {
        let other = SavedPath { rtt, ..saved(1_000) };
        let path = || [rate(mbit(200)), delay(ms(RTT / 2)), tail_drop(1.0), receiver()];
        let plain = scenario![sender(Algorithm::Cubic), path()].run(secs(5));
        let run = scenario![resuming(Algorithm::Cubic, other), path()].run(secs(5));
        assert_eq!(run.trace(0), plain.trace(0), "{rtt}");
    }
}

#[test]
fn a_path_at_a_tenth_of_its_rate_makes_it_retreat() {
    for rng in 0..20 {
        // The jump is five products of what is left of the path, of which two find a place.
        let (fresh, lost) = takes(sender(Algorithm::Cubic), 100, 25_000_000, rng);
        let (again, more) = takes(resuming(Algorithm::Cubic, saved(1_000)), 100, 25_000_000, rng);
        println!("a tenth: {fresh:.2} s, {lost} lost; resuming {again:.2} s, {more} lost");
        let jump = saved(1_000).in_flight.0 / 2 / 1500;
        assert!(more <= jump + lost, "seed {rng}: {more} lost of a jump of {jump}, fresh {lost}");
        assert!(again <= 2.0 * fresh, "seed {rng}: {again:.2} s, fresh {fresh:.2} s");
        let path = [rate(mbit(100)), delay(ms(RTT / 2)), tail_drop(1.0), train(4), seed(rng)];
        let flow = resuming(Algorithm::Cubic, saved(1_000));
        let run = scenario![flow, path, receiver()].run(secs(3));
        let first = run.reductions(0)[0];
        assert!(first.after <= jump as f64 / 2.0, "seed {rng}: {first:?}");
    }
}

#[test]
fn a_flow_that_is_there_keeps_its_share_when_another_jumps() {
    // A standing flow, and one that joins it after 20 s: by slow start, or by a jump to half of
    // a path that it had for itself when it saved.
    let goodput = |standing: Algorithm, start: Start| {
        let start = Start { after: secs(20), ..start };
        let joins = sender_with(Algorithm::Cubic, Constants::Linux, start);
        let path = [rate(mbit(200)), delay(ms(RTT / 2)), tail_drop(1.0), train(4)];
        let run = scenario![sender(standing), joins, path, receiver()].run(secs(30));
        let trace = run.trace(0);
        let at = |when: Span| {
            trace
                .iter()
                .find(|point| point.at.since(Time::ZERO) >= when)
                .expect("a point")
                .delivered
        };
        (at(ms(29_900)) - at(secs(20))) as f64 * 1538.0 * 8.0 / 9.9 / 200e6
    };
    for standing in [Algorithm::Cubic, Algorithm::Bbr] {
        let beside = goodput(standing, Start::default());
        let jumped = goodput(standing, Start { saved: Some(saved(200)), ..Start::default() });
        println!("{standing}: {beside:.2} of the path next to a slow start, {jumped:.2} to a jump");
        // Half is fair; the jump's losses cost the standing flow one reduction more at most.
        assert!(jumped >= 0.45, "{standing}: {jumped:.2}, next to a slow start {beside:.2}");
    }
}

#[test]
fn what_is_sent_without_proof_is_half_of_what_was_saved() {
    let packet = Start::default().packet;
    for (rng, in_flight) in (0..200u64).map(|n| (n, 20_000 + n * n * 997)) {
        let saved = SavedPath { in_flight: Bytes(in_flight), rtt: ms(RTT), fills: rng % 2 == 0 };
        let half = (in_flight as f64 / 2.0 / packet.0 as f64).max(20.0);
        let mut flow = Algorithm::Cubic.control(
            Constants::Linux,
            Start { saved: Some(saved), ..Start::default() },
            &Rng::new(rng),
        );
        let mut now = Time::ZERO + ms(RTT);
        let acked = Acked {
            packets: 10,
            delivered: 10,
            delivered_at_send: 0,
            lost: 0,
            interval: ms(RTT),
            in_flight: 10,
            window_limited: true,
        };
        flow.handle(now, Event::Rtt(ms(RTT)));
        flow.handle(now, Event::Acked(acked));
        let allowed = flow.poll();
        assert!(allowed.window <= half, "{in_flight} bytes: {allowed:?}");
        let is_jump = allowed.pacing.is_some();
        assert_eq!(is_jump, in_flight / 2 / packet.0 > 10, "{in_flight} bytes: {allowed:?}");
        // Lost at once: nothing but the first window is known to fit.
        now += ms(1);
        flow.handle(now, Event::Loss);
        assert!(!is_jump || flow.poll().window == 10.0, "{in_flight} bytes: {:?}", flow.poll());
    }
}

#[test]
fn a_flow_with_little_to_send_jumps_once_it_has_more() {
    let start = Start { saved: Some(saved(1_000)), ..Start::default() };
    let mut flow = Algorithm::Cubic.control(Constants::Linux, start, &Rng::new(1));
    let now = Time::ZERO + ms(RTT);
    flow.handle(now, Event::Rtt(ms(RTT)));
    let acked = Acked {
        packets: 10,
        delivered: 10,
        delivered_at_send: 0,
        lost: 0,
        interval: ms(RTT),
        in_flight: 10,
        window_limited: false,
    };
    flow.handle(now, Event::Acked(acked));
    assert_eq!(flow.poll().pacing, None);
    assert!(flow.poll().window <= 20.0, "{:?}", flow.poll());
    // A connection's handshake is ten packets too, after which the data comes.
    let acked = Acked { delivered: 12, packets: 2, delivered_at_send: 10, ..acked };
    flow.handle(now + ms(RTT), Event::Acked(Acked { window_limited: true, ..acked }));
    assert_eq!(flow.poll().window, saved(1_000).jump_packets(start.packet));
}

#[test]
fn an_outage_in_any_phase_ends_as_for_any_flow() {
    for after in (0..12).map(|n| ms(20 * n + 40)) {
        let run = scenario![
            resuming(Algorithm::Cubic, saved(200)),
            rate(mbit(200)),
            delay(ms(RTT / 2)),
            tail_drop(1.0),
            at(after, Change::Outage(secs(2))),
            receiver(),
        ]
        .run(secs(20));
        assert!(run.share(0) > 0.8, "an outage after {after}: {:.2}", run.share(0));
    }
}

#[test]
fn a_jump_is_worth_it_where_it_saves_a_round_trip() {
    // Ten packets: what a flow begins with.
    let begun = Bytes(10 * 1_500);
    for (mbits, is_worth) in [(2, false), (4, false), (20, true), (200, true)] {
        assert_eq!(saved(mbits).is_worth_a_jump_from(begun), is_worth, "{mbits} Mbit/s");
        let bytes = 6 * saved(mbits).in_flight.0;
        let (fresh, _) = takes(sender(Algorithm::Cubic), mbits, bytes, 3);
        let (again, _) = takes(resuming(Algorithm::Cubic, saved(mbits)), mbits, bytes, 3);
        let won = (fresh - again) * 1e3 / RTT as f64;
        println!("{mbits} Mbit/s: {won:.2} round trips");
        assert!(if is_worth { won > 1.0 } else { won < 0.5 }, "{mbits} Mbit/s: {won:.2}");
    }
}

/// What a copy of `bytes` sees over a path of `speed` and `rtt` with a queue of so many products,
/// which looks at what has arrived ten times a second as a copy does, and how long it takes.
fn copied(flow: Part, path: (Rate, Span, f64), bytes: u64, rng: u64) -> (PathRecord, Span) {
    let (speed, rtt, queue) = path;
    let (mut record, mut looks) = (PathRecord::default(), 0);
    let half = rtt.mul_f64(0.5);
    let parts = [rate(speed), delay(half), tail_drop(queue), train(1 + rng % 7), seed(rng)];
    let run = scenario![flow, parts, receiver()].run_until(secs(300), |run| {
        let (now, arrived) = (run.now(), run.delivered(0) * 1500);
        if now.since(Time::ZERO) >= ms(100 * looks) {
            looks += 1;
            record.sample(now, Bytes(arrived), Some(rtt), (arrived / 1500, run.lost(0)));
        }
        arrived >= bytes
    });
    let arrived = run.delivered(0) * 1500;
    assert!(arrived >= bytes, "it ends: {arrived} of {bytes} bytes over {path:?}");
    (record, run.now().since(Time::ZERO))
}

#[test]
fn a_small_copy_makes_no_later_one_slower() {
    let (mut slower, mut believed) = (Vec::new(), Vec::new());
    for (mbits, rtt) in [(50, 30), (50, 300), (200, 100), (1_000, 30), (1_000, 100), (1_000, 300)] {
        for rng in 0..4 {
            let path = (mbit(mbits), ms(rtt), [0.25, 0.5, 1.0, 2.0][rng as usize % 4]);
            let product = path.0.bytes_in(path.1).0;
            for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
                let (record, _) = copied(sender(algorithm), path, 3 << 20, rng);
                let Some(saved) = record.saved(false) else { continue };
                // One that had it all on its way has filled it.
                let fills = saved.in_flight.0 as f64 > 0.8 * product as f64;
                let saved = SavedPath { fills, ..saved };
                let bytes = (4 * product).max(20 << 20);
                let (_, fresh) = copied(sender(algorithm), path, bytes, rng);
                let (_, again) = copied(resuming(algorithm, saved), path, bytes, rng);
                let line = format!("{algorithm}, {path:?}: {fresh}, {again} after {saved:?}");
                println!("{line}");
                // What filled the path is known no better than a record is.
                let most = fresh.mul_f64(if fills { 1.1 } else { 1.02 }) + path.1.mul_f64(0.5);
                slower.extend((again > most).then_some(line));
                if !fills && rng == 2 {
                    let full = resuming(algorithm, SavedPath { fills: true, ..saved });
                    believed
                        .push(copied(full, path, bytes, rng).1.as_secs_f64() / fresh.as_secs_f64());
                }
            }
        }
    }
    assert!(slower.is_empty(), "{slower:#?}");
    // Taken for all that there is, what a small copy saw makes a large one up to several times as
    // slow.
    let worst = believed.iter().fold(0.0, |worst, part| part.max(worst));
    assert!(worst > 1.5, "{believed:?}");
}
