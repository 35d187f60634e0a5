//! BBR version 1: a pacing rate from the largest delivery rate and the least rtt of late (Cardwell
//! et al., ACM Queue 14(5), 2016).
//!
//! Constants are those of draft-cardwell-iccrg-bbr-congestion-control-00 (section numbers below),
//! which Linux has too. Left out is what the draft leaves out of the model and Linux adds around
//! it: the detector of token-bucket policers and the allowance for aggregated acknowledgements.

use super::control::{Acked, Allowed, Control, Event, Start};
use crate::units::{Rate, Rng, Span, Time};
use std::collections::VecDeque;

/// 2 / ln 2: doubles the rate each round (4.3.2.1).
const HIGH_GAIN: f64 = 2.885;
/// The window in Probe-BW, in bandwidth-delay products (4.2.3).
const WINDOW_GAIN: f64 = 2.0;
/// One above, one below, six at the bottleneck's rate (4.3.4.1).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds over which the largest delivery rate counts: BtlBwFilterLen (4.1.1.3).
const BANDWIDTH_ROUNDS: u64 = 10;
/// For how long the least rtt counts: RTpropFilterLen (4.1.2.3).
const RTT_LASTS: Span = Span::from_secs(10);
/// How long a probe for the rtt takes at least: ProbeRTTDuration (4.3.5).
const PROBE_RTT: Span = Span::from_millis(200);
/// The least window, and that of a probe for the rtt: BBRMinPipeCwnd (4.2.3.4).
const LEAST_WINDOW: f64 = 4.0;
/// The pipe is full when the rate has not grown by a quarter in three rounds (4.3.2.2).
const FULL: (f64, u32) = (1.25, 3);
/// Linux paces this much below what it aims for, so that queues drain (bbr_pacing_margin_percent).
const MARGIN: f64 = 0.99;
/// Packets that offloads hold up: three sends (4.2.3.2).
const QUANTA: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    StartUp,
    Drain,
    ProbeBandwidth { phase: usize, since: Time },
    ProbeRtt { until: Option<(Time, u64)> },
}

/// BBR's machine.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mode: Mode,
    window: f64,
    first_window: f64,
    clamp: f64,
    packet_bits: f64,
    /// Packets per second.
    pacing: Option<f64>,
    /// The largest delivery rates: round and packets per second, falling.
    rates: VecDeque<(u64, f64)>,
    rtt: Option<(Span, Time)>,
    /// The least rtt was older than ten seconds when the last sample came.
    expired: bool,
    rounds: u64,
    round_ends: u64,
    full: (f64, u32),
    is_full: bool,
    /// In recovery: the window before it, and the round in which it began.
    recovery: Option<(f64, u64)>,
    window_before_probe: f64,
    lost_in_cycle: bool,
    delivered: u64,
    rng: Rng,
}

impl Bbr {
    pub(super) fn new(start: Start, seed: &Rng) -> Bbr {
        Bbr {
            mode: Mode::StartUp,
            window: start.window.min(start.clamp),
            first_window: start.window,
            clamp: start.clamp,
            packet_bits: start.packet.0 as f64 * 8.0,
            pacing: None,
            rates: VecDeque::new(),
            rtt: None,
            expired: false,
            rounds: 0,
            round_ends: 0,
            full: (0.0, 0),
            is_full: false,
            recovery: None,
            window_before_probe: 0.0,
            lost_in_cycle: false,
            delivered: 0,
            rng: seed.fork(21),
        }
    }

    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |&(_, rate)| rate)
    }

    fn gain(&self) -> f64 {
        match self.mode {
            Mode::StartUp => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBandwidth { phase, .. } => CYCLE[phase],
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Packets in `gain` bandwidth-delay products, with what offloads hold up.
    fn inflight(&self, gain: f64) -> f64 {
        match self.rtt {
            Some((rtt, _)) if self.rate() > 0.0 => gain * self.rate() * rtt.as_secs_f64() + QUANTA,
            _ => self.first_window,
        }
    }

    /// 4.1.1: the delivery rate of the packets acknowledged; the largest of ten rounds counts.
    fn sample(&mut self, acked: &Acked) {
        let interval = acked.interval.as_secs_f64();
        // A sample that spans less than the least rtt is a compressed acknowledgement (4.1.1.2).
        if interval <= 0.0 || self.rtt.is_some_and(|(least, _)| acked.interval < least) {
            return;
        }
        let rate = (acked.delivered - acked.delivered_at_send) as f64 / interval;
        if !acked.window_limited && rate < self.rate() && self.pacing.is_none() {
            return;
        }
        while self.rates.back().is_some_and(|&(_, lower)| lower <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.rounds, rate));
    }

    fn check_full(&mut self) {
        if self.is_full {
            return;
        }
        if self.rate() >= self.full.0 * FULL.0 {
            self.full = (self.rate(), 0);
        } else {
            self.full.1 += 1;
            self.is_full = self.full.1 >= FULL.1;
        }
    }

    fn probe_bandwidth(&mut self, now: Time) {
        // Any phase but the one that drains, so that flows do not march in step (4.3.4.3).
        let phase = [0, 2, 3, 4, 5, 6, 7][self.rng.below(7) as usize];
        self.mode = Mode::ProbeBandwidth { phase, since: now };
        self.lost_in_cycle = false;
    }

    /// 4.3.4.2: on to the next gain of the cycle.
    fn advance_cycle(&mut self, now: Time, in_flight: f64) {
        let (Mode::ProbeBandwidth { phase, since }, Some((least, _))) = (self.mode, self.rtt)
        else {
            return;
        };
        let over = now.since(since) > least;
        let gain = CYCLE[phase];
        let next = if gain > 1.0 {
            over && (self.lost_in_cycle || in_flight >= self.inflight(gain))
        } else if gain < 1.0 {
            over || in_flight <= self.inflight(1.0)
        } else {
            over
        };
        if next {
            self.mode = Mode::ProbeBandwidth { phase: (phase + 1) % CYCLE.len(), since: now };
            self.lost_in_cycle = false;
        }
    }

    /// 4.3.5: when no lower rtt was seen for ten seconds, four packets for at least 200 ms and a
    /// round.
    fn probe_rtt(&mut self, now: Time, expired: bool, in_flight: f64) {
        if expired && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.window_before_probe = self.window_before_probe.max(self.window);
            self.mode = Mode::ProbeRtt { until: None };
        }
        let Mode::ProbeRtt { until } = &mut self.mode else { return };
        match *until {
            None if in_flight <= LEAST_WINDOW => *until = Some((now + PROBE_RTT, self.rounds + 1)),
            Some((at, round)) if now >= at && self.rounds >= round => {
                self.rtt = self.rtt.map(|(least, _)| (least, now));
                self.window = self.window.max(self.window_before_probe);
                self.window_before_probe = 0.0;
                if self.is_full {
                    self.probe_bandwidth(now);
                } else {
                    self.mode = Mode::StartUp;
                }
            }
            _ => {}
        }
    }

    fn set_pacing(&mut self) {
        let rate = self.gain() * self.rate() * MARGIN;
        // Before the pipe is full the rate only grows (4.2.1).
        if self.rate() > 0.0 && (self.is_full || self.pacing.is_none_or(|pacing| rate > pacing)) {
            self.pacing = Some(rate);
        }
    }

    /// 4.2.3.6.
    fn set_window(&mut self, acked: f64, in_flight: f64) {
        let gain = if self.is_full { WINDOW_GAIN } else { HIGH_GAIN };
        let target = self.inflight(gain);
        match self.recovery {
            // The first round of recovery sends one packet for each that was delivered (4.2.3.5).
            Some((_, round)) if self.rounds <= round => self.window = self.window.max(in_flight),
            _ if self.is_full => self.window = (self.window + acked).min(target),
            _ if self.window < target || (self.delivered as f64) < self.first_window => {
                self.window += acked
            }
            _ => {}
        }
        self.window = self.window.max(LEAST_WINDOW).min(self.clamp);
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.window = self.window.min(LEAST_WINDOW);
        }
    }

    fn acked(&mut self, now: Time, acked: &Acked) {
        self.delivered = acked.delivered;
        let packets = f64::from(acked.packets);
        let left = f64::from(acked.in_flight.saturating_sub(acked.packets));
        let new_round = acked.delivered_at_send >= self.round_ends;
        if new_round {
            self.round_ends = acked.delivered;
            self.rounds += 1;
        }
        self.sample(acked);
        while self.rates.len() > 1
            && self.rates.front().is_some_and(|&(round, _)| round + BANDWIDTH_ROUNDS < self.rounds)
        {
            self.rates.pop_front();
        }
        self.advance_cycle(now, f64::from(acked.in_flight));
        if new_round {
            self.check_full();
        }
        if self.mode == Mode::StartUp && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && left <= self.inflight(1.0) {
            self.probe_bandwidth(now);
        }
        let expired = std::mem::take(&mut self.expired);
        self.probe_rtt(now, expired, left);
        self.set_pacing();
        self.set_window(packets, f64::from(acked.in_flight));
    }
}

impl Control for Bbr {
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Rtt(sample) => {
                // As Linux: only a lower sample, or the first after ten seconds, which also starts
                // the probe.
                let expired = self.rtt.is_some_and(|(_, at)| now.since(at) > RTT_LASTS);
                self.expired |= expired;
                if expired || self.rtt.is_none_or(|(least, _)| sample < least) {
                    self.rtt = Some((sample, now));
                }
                if self.pacing.is_none() {
                    self.pacing = Some(HIGH_GAIN * self.window / sample.as_secs_f64().max(1e-6));
                }
            }
            Event::Acked(acked) => self.acked(now, &acked),
            // BBR does not answer marks (version 1).
            Event::Ecn => {}
            Event::Loss => {
                self.lost_in_cycle = true;
                if self.recovery.is_none() {
                    self.recovery = Some((self.window, self.rounds));
                }
            }
            Event::Recovered => {
                if let Some((before, _)) = self.recovery.take() {
                    self.window = self.window.max(before);
                }
            }
            Event::Timeout => {
                self.full = (0.0, 0);
                self.recovery =
                    Some((self.recovery.map_or(self.window, |(before, _)| before), self.rounds));
                // 4.2.3.5: start anew from what is left, which is nothing.
                self.window = LEAST_WINDOW;
            }
        }
    }

    fn poll(&self) -> Allowed {
        let pacing =
            self.pacing.map(|packets| Rate::from_bps((packets * self.packet_bits).round() as u64));
        Allowed { window: self.window, threshold: f64::INFINITY, pacing }
    }
}
