//! A flow that resumes, told packet by packet what became of what it sent.

use super::*;
use crate::congestion::Acked;
use crate::units::{Bytes, Span};

/// A flow, and what is known of its path.
struct Flow {
    control: Native,
    path: PathState,
    now: Time,
}

impl Flow {
    /// One whose first window has arrived, so that it jumps: packet 32 is the first of the jump,
    /// and the 16 before it are on their way.
    fn jumps(saved: SavedPath, most: u64) -> Flow {
        let path = PathState {
            rtt: saved.rtt,
            last_rtt: Some(saved.rtt),
            arriving: 20_000.0,
            capacity: 80_000.0,
            sent: 0,
            acknowledged: 0,
            heard_of: 0,
            beyond: 0,
            packet: Bytes(1500),
            most,
        };
        let mut flow = Flow { control: Native::new(&Rng::new(1)), path, now: Time::ZERO };
        flow.control.resume(&flow.path, saved);
        flow.send();
        flow.arrive(8);
        flow.send();
        flow.arrive(8);
        assert_eq!((flow.path.sent, flow.path.acknowledged), (32, 16));
        flow
    }

    /// Sends what the window allows.
    fn send(&mut self) {
        let to = self.path.acknowledged + self.control.poll().window as u64;
        self.path.sent = self.path.sent.max(to);
    }

    /// So many packets more are acknowledged, a millisecond later.
    fn arrive(&mut self, packets: u64) {
        self.now += Span::from_millis(1);
        self.path.acknowledged += packets;
        self.path.heard_of = self.path.heard_of.max(self.path.acknowledged);
        let acked = Acked {
            packets: packets as u32,
            delivered: self.path.acknowledged,
            delivered_at_send: 0,
            lost: 0,
            interval: self.path.rtt,
            in_flight: 0,
            window_limited: true,
        };
        self.control.handle(self.now, &self.path, RateEvent::Acked(acked));
    }

    /// The first packet that is not acknowledged is reported missing.
    fn lose(&mut self) {
        let lost = RateEvent::Lost { first: self.path.acknowledged, packets: 1 };
        self.control.handle(self.now, &self.path, lost);
    }

    fn validates(&self) -> bool {
        matches!(self.control.resuming, Some(Resuming::Validating { .. }))
    }

    fn retreats(&self) -> bool {
        matches!(self.control.resuming, Some(Resuming::Retreat { .. }))
    }
}

/// What some earlier flow saw: 400 packets and more on their way.
fn any_saved(rng: &mut Rng) -> SavedPath {
    SavedPath {
        in_flight: Bytes(1_200_000 + rng.below(100_000_000)),
        rtt: Span::from_millis(20 + rng.below(300)),
        fills: rng.below(2) == 0,
    }
}

#[test]
fn a_jump_that_arrives_is_validated_and_grows_on() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let saved = any_saved(&mut rng);
        let jump = saved.jump_packets(Bytes(1500));
        let mut flow = Flow::jumps(saved, 1 << 40);
        let unvalidated = flow.control.poll();
        assert!((unvalidated.window - jump).abs() < 1e-6, "seed {seed}: {unvalidated:?}");
        let paced = saved.rtt.as_secs_f64() / unvalidated.window;
        assert!((unvalidated.interval / paced - 1.0).abs() < 1e-9, "seed {seed}: {unvalidated:?}");
        flow.send();
        flow.arrive(16);
        let window = flow.control.poll().window;
        assert!((window - jump).abs() < 1e-6, "seed {seed}: {window} before anything of it came");
        flow.send();
        // The first of the jump: what is on its way is the window.
        let end = flow.path.sent;
        flow.arrive(1 + rng.below(64));
        let on_way = (end - flow.path.acknowledged) as f64;
        assert_eq!(flow.control.poll().window, on_way, "seed {seed}");
        let mut arrived = 0;
        while flow.path.acknowledged < end {
            assert!(flow.validates(), "seed {seed}: {:?}", flow.control.resuming);
            flow.send();
            let packets = (1 + rng.below(64)).min(end - flow.path.acknowledged);
            flow.arrive(packets);
            arrived += packets;
            let grown = on_way + arrived as f64;
            assert_eq!(flow.control.poll().window, grown, "seed {seed}");
        }
        let resuming = flow.control.resuming;
        assert!(matches!(resuming, Some(Resuming::Proven { .. })), "seed {seed}: {resuming:?}");
    }
}

#[test]
fn a_loss_before_all_of_a_jump_came_makes_it_retreat() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let saved = any_saved(&mut rng);
        // A receiver with little room ends slow start, and not the phase.
        let most = if rng.below(2) == 0 { 400 } else { 1 << 40 };
        let mut flow = Flow::jumps(saved, most);
        let mut pipe = 16;
        flow.send();
        if rng.below(3) > 0 {
            // Some of the jump has come.
            flow.arrive(16);
            flow.send();
            let (first, end) = (1 + rng.below(64), flow.path.sent);
            flow.arrive(first);
            pipe += 16 + first;
            for _ in 0..rng.below(20) {
                let packets = 1 + rng.below(10);
                flow.send();
                flow.arrive(packets);
                pipe += packets;
            }
            assert!(flow.path.acknowledged < end, "seed {seed}");
        }
        flow.lose();
        let half = (pipe as f64 / 2.0).max(FIRST_WINDOW);
        let rtt = saved.rtt.as_secs_f64();
        let pace = flow.control.poll();
        assert_eq!(pace.window, half, "seed {seed}: {pipe} arrived");
        assert!(pace.interval * half >= rtt, "seed {seed}: {pace:?}");
        // For a round trip nothing grows, and what else is lost of it takes nothing of the window.
        let end = flow.path.sent;
        for _ in 0..10 {
            flow.arrive(1);
            pipe += 1;
            flow.lose();
            let now = flow.control.poll();
            assert!(now.window == half && now.interval >= pace.interval, "seed {seed}: {now:?}");
        }
        flow.path.heard_of = end;
        assert!(flow.retreats(), "seed {seed}");
        flow.now += saved.rtt + SYN;
        flow.arrive(1);
        pipe += 1;
        assert!(!flow.retreats() && !flow.control.is_slow_start, "seed {seed}");
        // Then what has arrived may be on its way in one.
        let pace = flow.control.poll();
        let most = pipe as f64;
        assert!(pace.window <= most, "seed {seed}: {pace:?} of {pipe}");
        assert!(pace.interval * most >= rtt * (1.0 - 1e-9), "seed {seed}: {pace:?} of {pipe}");
    }
}

#[test]
fn another_round_trip_makes_a_jump_retreat() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let saved = any_saved(&mut rng);
        let mut flow = Flow::jumps(saved, 1 << 40);
        flow.send();
        if rng.below(2) == 0 {
            flow.arrive(16);
            flow.send();
            flow.arrive(1);
        }
        flow.path.last_rtt = Some(saved.rtt.mul_f64(9.9));
        flow.arrive(1);
        assert!(!flow.retreats(), "seed {seed}: a queue is no other path");
        let another = if rng.below(2) == 0 { 0.4 } else { 11.0 };
        flow.path.last_rtt = Some(saved.rtt.mul_f64(another));
        flow.arrive(1);
        assert!(flow.retreats() && !flow.control.is_slow_start, "seed {seed}");
    }
}

#[test]
fn a_jump_for_which_nothing_was_there_is_none() {
    let saved = SavedPath { in_flight: Bytes(12_500_000), rtt: SYN, fills: true };
    let mut flow = Flow::jumps(saved, 1 << 40);
    flow.path.sent += 5;
    flow.arrive(16);
    flow.arrive(1);
    assert!(flow.control.resuming.is_none() && flow.control.is_slow_start);
    // 16 were on their way before, and 17 have come.
    assert_eq!(flow.control.poll(), Pace { interval: 0.0, window: 33.0 });
}
