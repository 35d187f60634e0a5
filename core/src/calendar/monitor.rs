//! A copy in its booked slot: what has to be booked for it, and whether it will end in time.

use super::window::TimeWindow;
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// The IP packet that is reckoned with where the path's own is not known.
const USUAL_MTU: u64 = 1500;
/// What of a packet is not payload: an IPv6 header (RFC 8200) and one of TCP with timestamps (RFC
/// 9293, RFC 7323).
const HEADERS: u64 = 40 + 20 + 12;
/// What is payload of what TCP carries: a TLS 1.3 record has 22 bytes more for up to 16 KiB (RFC
/// 8446), a block of MODE E 17 (GFD.20).
const FRAMED: f64 = 0.998;
/// Before the first byte and after the last a copy takes so long, and as many round trips: with
/// five of 80 ms a copy that held its rate took 0.46 s, and a paced one 0.64 s (`farline-bench
/// calendar transfer`).
const SET_UP: (Span, u64) = (Span::from_millis(150), 5);
/// What a slot is longer than that, so that a copy is over before it is ended.
const MARGIN: Span = Span::from_millis(2_500);
/// Over how long a copy's rate is taken, and no less than which: a pause of seconds is no reason to
/// book another hour.
const RATE_OVER: [Span; 2] = [Span::from_secs(30), Span::from_secs(2)];
/// How long it must look late before anything is done about it.
const STAYS_LATE: Span = Span::from_secs(3);
/// How long before the slot's end the copy is ended: what is on its way then still arrives.
const STOP_AHEAD: Span = Span::from_secs(1);
/// An extension is longer than what is left by this part of it, and by this.
const SPARE: (f64, Span) = (0.1, Span::from_secs(2));

/// The part of a circuit's rate that a copy's payload has, where IP packets are of at most `mtu`
/// bytes.
fn payload_part(mtu: Option<Bytes>) -> f64 {
    let mtu = mtu.map_or(USUAL_MTU, |mtu| mtu.0).max(576);
    (mtu - HEADERS) as f64 / mtu as f64 * FRAMED
}

/// How fast payload may be sent into a circuit of `rate` without a queue.
pub fn payload_rate(rate: Rate, mtu: Option<Bytes>) -> Rate {
    Rate::from_bps((rate.as_bps() as f64 * payload_part(mtu)) as u64)
}

/// How long a copy over a path of this round trip is at work before its first byte and after its
/// last.
pub fn set_up_time(rtt: Span) -> Span {
    SET_UP.0 + Span::from_nanos(rtt.as_nanos().saturating_mul(SET_UP.1))
}

/// What a slot must carry for a copy of `payload` at `rate`, its beginning and end included.
pub fn booked_volume(payload: Bytes, rate: Rate, rtt: Span) -> Bytes {
    let packets = (payload.0 as f64 / payload_part(None)).ceil();
    Bytes((packets as u64).saturating_add(rate.bytes_in(set_up_time(rtt) + MARGIN).0))
}

/// When a copy will end, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookingPrediction {
    /// When its last byte arrives.
    pub ends: Time,
    /// When its slot ends.
    pub slot_ends: Time,
}

/// What is told to the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorEvent {
    /// So many bytes have arrived, of so many.
    Progress {
        /// They.
        done: Bytes,
        /// All of them, once that is known.
        total: Option<Bytes>,
    },
    /// The slot is this now.
    Slot(TimeWindow),
    /// Payload can be moved at this rate from now on.
    Rate(Rate),
    /// The slot cannot be extended.
    NotExtended,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorAction {
    /// Nothing.
    Wait,
    /// Ask for a slot that ends then.
    Extend(Time),
    /// Say that the copy will be late.
    Late(BookingPrediction),
    /// End the copy: the slot is over.
    Stop,
}

/// Watches one copy.
#[derive(Clone, Debug)]
pub struct BookingMonitor {
    slot: TimeWindow,
    /// The deadline, beyond which nothing is asked for.
    by: Option<Time>,
    /// What payload can be moved at.
    rate: Rate,
    samples: VecDeque<(Time, Bytes)>,
    total: Option<Bytes>,
    late_since: Option<Time>,
    /// An extension was asked for and not replied to.
    is_asking: bool,
    /// The end of the slot of which it was said, or found, that it cannot be moved.
    fixed: Option<Time>,
    /// The end of the slot that was said to be too early.
    told: Option<Time>,
}

impl BookingMonitor {
    /// Watches a copy in `slot`, whose payload moves at `rate` at most and is due `by` then.
    pub fn new(slot: TimeWindow, by: Option<Time>, rate: Rate) -> BookingMonitor {
        BookingMonitor {
            slot,
            by,
            rate: rate.max(Rate::from_bps(1)),
            samples: VecDeque::new(),
            total: None,
            late_since: None,
            is_asking: false,
            fixed: None,
            told: None,
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Time, event: MonitorEvent) {
        match event {
            MonitorEvent::Progress { done, total } => {
                self.total = total;
                if self.samples.back().is_some_and(|(at, _)| *at > now) {
                    // A clock that stepped back: what was seen before says nothing of a rate.
                    self.samples.clear();
                }
                if self.samples.len() == 1 && self.samples.front().is_some_and(|s| s.1 == done) {
                    // Nothing has come yet: the rate counts from the first byte on.
                    self.samples.clear();
                }
                self.samples.push_back((now, done));
                while self.samples.get(1).is_some_and(|(at, _)| *at + RATE_OVER[0] <= now) {
                    self.samples.pop_front();
                }
            }
            MonitorEvent::Slot(slot) => {
                self.slot = slot;
                self.is_asking = false;
            }
            MonitorEvent::Rate(rate) => {
                self.rate = rate.max(Rate::from_bps(1));
                // What was seen before says nothing of it.
                let last = self.samples.pop_back();
                self.samples = last.into_iter().collect();
            }
            MonitorEvent::NotExtended => {
                self.fixed = Some(self.slot.end);
                self.is_asking = false;
            }
        }
    }

    /// When the copy ends at the rate of the last seconds; while nothing can be told of that, at
    /// the booked one.
    pub fn prediction(&self, now: Time) -> Option<BookingPrediction> {
        let (_, done) = *self.samples.back()?;
        let left = Bytes(self.total?.0.saturating_sub(done.0));
        let rate = self.measured().unwrap_or(self.rate);
        Some(BookingPrediction { ends: now + rate.time_for(left), slot_ends: self.slot.end })
    }

    fn measured(&self) -> Option<Rate> {
        let (&(from, before), &(to, done)) = (self.samples.front()?, self.samples.back()?);
        let span = to.since(from);
        let bits = done.0.saturating_sub(before.0) as f64 * 8.0;
        if span < RATE_OVER[1] || bits == 0.0 {
            return None;
        }
        Some(Rate::from_bps((bits / span.as_secs_f64()) as u64).max(Rate::from_bps(1)))
    }

    /// What is to be done now.
    pub fn poll(&mut self, now: Time) -> MonitorAction {
        let last = self.slot.end - STOP_AHEAD;
        if now >= last {
            return MonitorAction::Stop;
        }
        // What is as near as that to the end may be over it.
        let safe = last - STOP_AHEAD.mul_f64(0.5);
        let Some(prediction) = self.prediction(now).filter(|known| known.ends > safe) else {
            self.late_since = None;
            return MonitorAction::Wait;
        };
        let since = *self.late_since.get_or_insert(now);
        // While it begins, all that is known is what was booked.
        let begins = self.samples.front().is_none_or(|(at, _)| now.since(*at) < RATE_OVER[1]);
        if begins && last.since(now) > RATE_OVER[1] {
            return MonitorAction::Wait;
        }
        // Near the end there is no time for patience.
        let tolerance = STAYS_LATE.min(last.since(now).mul_f64(0.1));
        if now.since(since) < tolerance || self.is_asking {
            return MonitorAction::Wait;
        }
        let spare = prediction.ends.since(now).mul_f64(SPARE.0) + SPARE.1;
        let wanted = prediction.ends + spare;
        let wanted = self.by.map_or(wanted, |by| wanted.min(by.max(self.slot.end)));
        if wanted > self.slot.end && self.fixed != Some(self.slot.end) {
            self.is_asking = true;
            return MonitorAction::Extend(wanted);
        }
        if self.told == Some(self.slot.end) {
            return MonitorAction::Wait;
        }
        self.told = Some(self.slot.end);
        MonitorAction::Late(prediction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rng;

    fn second(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    fn slot(start: f64, end: f64) -> TimeWindow {
        TimeWindow { start: second(start), end: second(end) }
    }

    /// Runs a copy of `total` bytes at `actual`, a look each quarter of a second; `grants` says
    /// whether an extension is given. Returns what was done, and when.
    fn run(
        monitor: &mut BookingMonitor,
        total: u64,
        actual: impl Fn(f64) -> u64,
        grants: bool,
    ) -> Vec<(f64, MonitorAction)> {
        let (mut done, mut seen) = (0_u64, Vec::new());
        for step in 0..40_000 {
            let at = f64::from(step) * 0.25;
            if done >= total {
                break;
            }
            done = (done + actual(at) / 32).min(total);
            let event = MonitorEvent::Progress { done: Bytes(done), total: Some(Bytes(total)) };
            monitor.handle(second(at), event);
            match monitor.poll(second(at)) {
                MonitorAction::Wait => continue,
                MonitorAction::Extend(end) => {
                    seen.push((at, MonitorAction::Extend(end)));
                    let event = match grants {
                        true => MonitorEvent::Slot(TimeWindow { start: Time::ZERO, end }),
                        false => MonitorEvent::NotExtended,
                    };
                    monitor.handle(second(at), event);
                }
                MonitorAction::Stop => {
                    seen.push((at, MonitorAction::Stop));
                    break;
                }
                late => seen.push((at, late)),
            }
        }
        seen
    }

    #[test]
    fn a_copy_at_its_rate_is_left_alone() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let rate = Rate::from_bps(10_000_000 + rng.below(10_000_000_000));
            let rtt = Span::from_millis(rng.below(300));
            let payload = rate.bytes_in(Span::from_secs(2 + rng.below(600)));
            let volume = booked_volume(payload, rate, rtt);
            let end = rate.time_for(volume).as_secs_f64();
            let goes = payload_rate(rate, None);
            let mut monitor = BookingMonitor::new(slot(0.0, end), None, goes);
            // It is at work before its first byte, and its rate sways by a tenth over seconds.
            let begins = set_up_time(rtt).as_secs_f64();
            let sways = |at: f64| 1.0 + 0.05 * (at / 7.0).sin() - 0.04;
            let actual = |at: f64| match at < begins {
                true => 0,
                false => (goes.as_bps() as f64 * sways(at).min(1.0)) as u64,
            };
            let seen = run(&mut monitor, payload.0, actual, true);
            let stops = seen.iter().any(|(_, action)| *action == MonitorAction::Stop);
            assert!(!stops, "seed {seed}: {seen:?}");
        }
    }

    #[test]
    fn a_slow_copy_has_its_slot_extended_in_time() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let total = 100_000_000 + rng.below(100_000_000_000);
            let rate = 1_000_000_000;
            let part = 0.3 + 0.6 * rng.unit();
            let end = total as f64 * 8.0 / rate as f64 + 2.0;
            let mut monitor = BookingMonitor::new(slot(0.0, end), None, Rate::from_bps(rate));
            let seen = run(&mut monitor, total, |_| (rate as f64 * part) as u64, true);
            let all = |action: &MonitorAction| matches!(action, MonitorAction::Extend(_));
            let needs = total as f64 * 8.0 / (rate as f64 * part);
            if needs < end - 1.0 {
                assert!(needs > end - 1.6 || seen.is_empty(), "seed {seed}: it fits: {seen:?}");
                continue;
            }
            let few = (1..=3).contains(&seen.len());
            assert!(few && seen.iter().all(|(_, a)| all(a)), "seed {seed}, {part}: {seen:?}");
            assert!(seen[0].0 < end - 0.5, "seed {seed}: while there is time");
        }
    }

    #[test]
    fn who_will_be_late_is_told_once_and_stopped_at_the_end() {
        // 1 GB at a quarter of its rate, due in 10 s: 32 s.
        let by = Some(second(10.0));
        let mut monitor = BookingMonitor::new(slot(0.0, 10.0), by, Rate::from_bps(1_000_000_000));
        let seen = run(&mut monitor, 1_000_000_000, |_| 250_000_000, true);
        let [(told, MonitorAction::Late(late)), (stopped, MonitorAction::Stop)] = seen[..] else {
            panic!("{seen:?}");
        };
        assert!(told < 6.0 && stopped == 9.0, "{seen:?}");
        assert!((30.0..34.0).contains(&late.ends.since(Time::ZERO).as_secs_f64()), "{late:?}");
        // Where nothing more is free: the same, after one question.
        let mut monitor = BookingMonitor::new(slot(0.0, 10.0), None, Rate::from_bps(1_000_000_000));
        let seen = run(&mut monitor, 1_000_000_000, |_| 250_000_000, false);
        let [(_, MonitorAction::Extend(_)), (_, MonitorAction::Late(_)), (_, MonitorAction::Stop)] =
            seen[..]
        else {
            panic!("{seen:?}");
        };
    }

    #[test]
    fn a_deadline_is_the_most_that_is_asked_for() {
        let by = Some(second(20.0));
        let mut monitor = BookingMonitor::new(slot(0.0, 10.0), by, Rate::from_bps(1_000_000_000));
        let seen = run(&mut monitor, 1_000_000_000, |_| 300_000_000, true);
        assert_eq!(seen[0].1, MonitorAction::Extend(second(20.0)), "{seen:?}");
        assert!(matches!(seen[1].1, MonitorAction::Late(_)), "{seen:?}");
        assert_eq!(seen.last(), Some(&(19.0, MonitorAction::Stop)), "{seen:?}");
    }

    #[test]
    fn what_stands_still_is_late_by_what_its_rate_could_do() {
        let mut monitor = BookingMonitor::new(slot(0.0, 60.0), None, Rate::from_bps(1_000_000_000));
        // 5 GB: 40 s; it stands still from 5 s on.
        let actual = |at: f64| if at < 5.0 { 1_000_000_000 } else { 0 };
        let seen = run(&mut monitor, 5_000_000_000, actual, false);
        let (asked, MonitorAction::Extend(end)) = seen[0] else { panic!("{seen:?}") };
        assert!((8.0..30.0).contains(&asked) && end < second(200.0), "{seen:?}");
    }

    #[test]
    fn another_rate_is_predicted_from_at_once() {
        let mut monitor = BookingMonitor::new(slot(0.0, 60.0), None, Rate::from_bps(8_000_000));
        for step in 0..40_u64 {
            let (done, total) = (Bytes(step * 250_000), Some(Bytes(30_000_000)));
            monitor.handle(second(step as f64 * 0.25), MonitorEvent::Progress { done, total });
        }
        let ends = |monitor: &BookingMonitor| {
            let ends = monitor.prediction(second(9.75)).expect("known").ends;
            ends.since(second(9.75)).as_secs_f64().round()
        };
        assert_eq!(ends(&monitor), 20.0);
        monitor.handle(second(9.75), MonitorEvent::Rate(Rate::from_bps(80_000_000)));
        assert_eq!(ends(&monitor), 2.0);
    }

    #[test]
    fn a_clock_that_steps_back_makes_no_rate() {
        let mut monitor = BookingMonitor::new(slot(0.0, 60.0), None, Rate::from_bps(8_000_000));
        let progress =
            |done| MonitorEvent::Progress { done: Bytes(done), total: Some(Bytes(9_000_000)) };
        monitor.handle(second(40.0), progress(1_000_000));
        monitor.handle(second(10.0), progress(2_000_000));
        assert_eq!(monitor.measured(), None);
        assert_eq!(monitor.poll(second(10.0)), MonitorAction::Wait);
    }
}
