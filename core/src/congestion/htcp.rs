//! H-TCP: the longer since the last loss, the more is added each round (Leith, Shorten, PFLDnet
//! 2004; draft-leith-tcp-htcp-06).

use super::constants::Constants;
use super::loss_based::{Window, WindowAlgorithm};
use crate::units::{Span, Time};

/// For this long after a loss H-TCP is Reno: Delta_L (draft, section 3).
pub(super) const LOW: f64 = 1.0;
/// The least and the most that is left after a loss (draft, section 3).
const LEFT: (f64, f64) = (0.5, 0.8);
/// A change of throughput between two losses above this: the path has changed, half is left (draft,
/// section 3: Delta_B).
const CHANGED: f64 = 0.2;
/// Below this rtt the buffer cannot be told from timers: half is left (tcp_htcp).
const SHORT: Span = Span::from_millis(10);
/// The most by which one sample may raise the longest rtt (tcp_htcp).
const RISE: Span = Span::from_millis(20);

/// Packets added each round `since` seconds after the last loss, before scaling: alpha(Delta)
/// (draft, section 3).
pub(super) fn alpha(since: f64) -> f64 {
    let over = since - LOW;
    if over <= 0.0 { 1.0 } else { 1.0 + 10.0 * over + (over / 2.0).powi(2) }
}

/// What alpha is divided by, so that flows of different rtt add alike in time (draft, section 3,
/// "RTT scaling", as tcp_htcp).
pub(super) fn scaling(least_rtt: Span) -> f64 {
    (0.1 / least_rtt.as_secs_f64().max(1e-9)).clamp(0.5, 10.0)
}

/// The window algorithm of H-TCP.
#[derive(Clone, Debug)]
pub(super) struct HTcp {
    set: Constants,
    left: f64,
    /// When congestion avoidance began after the last loss.
    since: Option<Time>,
    least_rtt: Option<Span>,
    longest_rtt: Span,
    /// Packets delivered since `counted_from`, and packets per second: the smoothed and the largest
    /// of this stage.
    counted: f64,
    counted_from: Option<Time>,
    rate: f64,
    largest_rate: f64,
    /// The largest of the stage before; zero before the first loss.
    rate_before: f64,
    /// tcp_htcp adapts only from the second quiet loss on.
    adapting: bool,
}

impl HTcp {
    pub(super) fn new(set: Constants) -> HTcp {
        HTcp {
            set,
            left: LEFT.0,
            since: None,
            least_rtt: None,
            longest_rtt: Span::ZERO,
            counted: 0.0,
            counted_from: None,
            rate: 0.0,
            largest_rate: 0.0,
            rate_before: 0.0,
            adapting: false,
        }
    }

    /// Draft, section 3: beta = RTT_min / RTT_max within 0.5 and 0.8, but a half when throughput
    /// changed or for the first time.
    fn adapted(&mut self) -> f64 {
        let (before, now) = (self.rate_before, self.largest_rate);
        self.rate_before = now;
        if before == 0.0 || (now - before).abs() > CHANGED * before {
            self.adapting = false;
            return LEFT.0;
        }
        let ready = self.set == Constants::Paper || self.adapting;
        self.adapting = true;
        match self.least_rtt {
            Some(least) if ready && least > SHORT && self.longest_rtt > Span::ZERO => {
                (least.as_secs_f64() / self.longest_rtt.as_secs_f64()).clamp(LEFT.0, LEFT.1)
            }
            _ => LEFT.0,
        }
    }
}

impl WindowAlgorithm for HTcp {
    fn congestion_avoidance(&mut self, now: Time, window: &mut Window, acked: f64) {
        let since = now.since(*self.since.get_or_insert(now)).as_secs_f64();
        let scaled = alpha(since) / self.least_rtt.map_or(1.0, scaling);
        // Draft, section 3: alpha <- 2 (1 - beta) alpha; never below one packet a round at a half,
        // as tcp_htcp.
        let alpha = (2.0 * (1.0 - self.left) * scaled.max(1.0)).max(f64::MIN_POSITIVE);
        window.add(acked * alpha / window.packets);
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        self.left = self.adapted();
        if let Some(least) = self.least_rtt {
            // The longest rtt fades, so that an old queue is forgotten (tcp_htcp).
            self.longest_rtt = least + self.longest_rtt.saturating_sub(least).mul_f64(0.95);
        }
        packets * self.left
    }

    fn delivered(&mut self, now: Time, window: &Window, packets: u32) {
        let Some(least) = self.least_rtt else { return };
        let from = *self.counted_from.get_or_insert(now);
        self.counted += f64::from(packets);
        let elapsed = now.since(from);
        if elapsed >= least && self.counted + 1.0 >= window.packets {
            let rate = self.counted / elapsed.as_secs_f64();
            self.rate = if self.rate == 0.0 { rate } else { 0.75 * self.rate + 0.25 * rate };
            // Soon after a loss the rate says nothing of the path (tcp_htcp: three rounds).
            if self.since.is_none_or(|since| now.since(since) > least.mul_f64(3.0)) {
                self.largest_rate = self.largest_rate.max(self.rate);
            }
            self.counted = 0.0;
            self.counted_from = Some(now);
        }
    }

    fn rtt(&mut self, _now: Time, sample: Span, open: bool) {
        self.least_rtt = Some(self.least_rtt.map_or(sample, |least| least.min(sample)));
        if open && sample > self.longest_rtt {
            let most =
                if self.longest_rtt == Span::ZERO { sample } else { self.longest_rtt + RISE };
            self.longest_rtt = sample.min(most);
        }
    }

    fn recovered(&mut self, now: Time) {
        self.since = Some(now);
        self.counted_from = None;
        (self.counted, self.rate, self.largest_rate) = (0.0, 0.0, 0.0);
    }

    fn timeout(&mut self, now: Time) {
        self.recovered(now);
    }
}
