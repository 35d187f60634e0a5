//! CUBIC: the window as a cubic of the time since the last loss (RFC 9438).

use super::constants::Constants;
use super::loss_based::{Window, WindowAlgorithm};
use crate::units::{Span, Time};

/// C, in packets per second cubed (RFC 9438, section 5).
pub(super) const C: f64 = 0.4;

/// What is left after a loss: beta_cubic.
pub(super) const fn left(set: Constants) -> f64 {
    match set {
        // RFC 9438, section 4.6.
        Constants::Paper => 0.7,
        // tcp_cubic: 717/1024.
        Constants::Linux => 717.0 / 1024.0,
    }
}

/// One stage of congestion avoidance: from a loss to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    /// Time at which the cubic is back at its origin, in seconds: K (RFC 9438, equation 2).
    k: f64,
    /// The window of the plateau.
    origin: f64,
    /// What Reno would have: W_est (RFC 9438, section 4.3).
    reno: f64,
}

/// CUBIC's window. Slow start is RFC 5681's: HyStart is a way out of slow start of its own and
/// not part of the algorithm.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    set: Constants,
    left: f64,
    /// The window before the last reduction, less what fast convergence took: W_max; zero before
    /// the first.
    maximum: f64,
    /// The window before the last reduction: where W_est turns from alpha_cubic to one packet a
    /// round (section 4.3).
    before: f64,
    rtt: Span,
    epoch: Option<Epoch>,
}

impl Cubic {
    pub(super) fn new(set: Constants) -> Cubic {
        Cubic { set, left: left(set), maximum: 0.0, before: 0.0, rtt: Span::ZERO, epoch: None }
    }
}

impl WindowAlgorithm for Cubic {
    fn congestion_avoidance(&mut self, now: Time, window: &mut Window, acked: f64) {
        let packets = window.packets;
        let maximum = self.maximum;
        let epoch = self.epoch.get_or_insert_with(|| {
            // Without a loss before, or beyond its window, the cubic starts at its plateau (RFC
            // 9438, section 4.8).
            let (k, origin) = if packets < maximum {
                (((maximum - packets) / C).cbrt(), maximum)
            } else {
                (0.0, packets)
            };
            Epoch { began: now, k, origin, reno: packets }
        });
        // Section 4.3: alpha_cubic until W_est has reached the window before the loss, then one
        // packet a round.
        let alpha = if epoch.reno >= self.before {
            1.0
        } else {
            3.0 * (1.0 - self.left) / (1.0 + self.left)
        };
        epoch.reno += alpha * acked / packets;
        // Section 4.4: the target is where the cubic will be a round from now, within half a
        // window.
        let t = now.since(epoch.began).as_secs_f64() + self.rtt.as_secs_f64();
        let away = C * (t - epoch.k).powi(3);
        let (target, from, crawl) = match self.set {
            Constants::Paper => (epoch.origin + away, packets, 0.0),
            // tcp_cubic counts whole packets, so that it is at the plateau where its cubic is less
            // than one below; and it never grows by less than a hundredth of a packet a round.
            Constants::Linux => (epoch.origin + away.trunc(), packets.floor().max(1.0), 0.01),
        };
        window.add(acked * (target.min(1.5 * from) - from).max(crawl) / from);
        if epoch.reno > window.packets {
            window.add(epoch.reno - window.packets);
        }
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        self.epoch = None;
        self.before = packets;
        // Fast convergence (RFC 9438, section 4.7).
        self.maximum =
            if packets < self.maximum { packets * (1.0 + self.left) / 2.0 } else { packets };
        packets * self.left
    }

    fn rtt(&mut self, _now: Time, sample: Span, _open: bool) {
        self.rtt = if self.rtt == Span::ZERO {
            sample
        } else {
            self.rtt.mul_f64(0.875) + sample.mul_f64(0.125)
        };
    }

    fn timeout(&mut self, _now: Time) {
        self.epoch = None;
    }
}
