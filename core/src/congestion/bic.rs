//! BIC: a binary search for the window at which the last loss came (Xu, Harfoush, Rhee, INFOCOM
//! 2004).

use super::constants::Constants;
use super::loss_based::{Window, WindowAlgorithm};
use super::reno;
use crate::units::{Span, Time};

/// Up to this window BIC is Reno: low_window (section IV; also tcp_bic's).
const LOW_WINDOW: f64 = 14.0;

/// The constants of BIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct BicConstants {
    /// The most packets added in a round: Smax.
    pub(super) most: f64,
    /// The search ends when a step would be smaller: Smin.
    pub(super) least: f64,
    /// What is left after a loss.
    pub(super) left: f64,
    /// A step is the distance to the last maximum divided by this.
    pub(super) divisor: f64,
}

pub(super) const fn constants(set: Constants) -> BicConstants {
    match set {
        // Section IV and the simulations of section V: Smax 32, Smin 0.01, beta 0.125; a target
        // half-way to the maximum.
        Constants::Paper => BicConstants { most: 32.0, least: 0.01, left: 0.875, divisor: 2.0 },
        // tcp_bic: max_increment 16, BICTCP_B 4, beta 819/1024; below a step of one packet,
        // smooth_part 20 gives 4/20 of a packet.
        Constants::Linux => {
            BicConstants { most: 16.0, least: 0.2, left: 819.0 / 1024.0, divisor: 4.0 }
        }
    }
}

/// The window algorithm of BIC.
#[derive(Clone, Debug)]
pub(super) struct Bic {
    set: Constants,
    constants: BicConstants,
    /// The window at the last loss; zero before the first.
    maximum: f64,
    /// Beyond the maximum: packets a round, and the window at which they double (the paper's
    /// `ss_cwnd` and `ss_target`).
    probing: Option<(f64, f64)>,
    /// The last step that was worked out, and for which window and when.
    step: Option<(f64, f64, Time)>,
}

/// tcp_bic works a step out again after HZ/32 at the latest.
const STEP_LASTS: Span = Span::from_micros(31_250);

impl Bic {
    pub(super) fn new(set: Constants) -> Bic {
        Bic { set, constants: constants(set), maximum: 0.0, probing: None, step: None }
    }

    /// Packets to add in a round, as the paper's pseudo-code (appendix) has it.
    fn paper_step(&mut self, packets: f64) -> f64 {
        let BicConstants { most, least, divisor, .. } = self.constants;
        let distance = (self.maximum - packets) / divisor;
        if distance > least {
            self.probing = None;
            return distance.min(most);
        }
        // Section III.C, slow start: past the maximum by one packet, then two, four, up to Smax a
        // round.
        match &mut self.probing {
            probing @ None => {
                *probing = Some((1.0, packets.max(self.maximum) + 1.0));
                1.0
            }
            Some((step, target)) => {
                if packets >= *target && *step < most {
                    *step = (*step * 2.0).min(most);
                    *target = packets + *step;
                }
                *step
            }
        }
    }

    /// Packets to add in a round, as tcp_bic has it.
    fn linux_step(&self, packets: f64) -> f64 {
        let BicConstants { most, least, divisor, .. } = self.constants;
        let step = if packets < self.maximum {
            let distance = (self.maximum - packets) / divisor;
            match distance {
                distance if distance > most => most,
                distance if distance <= 1.0 => least,
                distance => distance,
            }
        } else if packets < self.maximum + divisor {
            least
        } else if packets < self.maximum + most * (divisor - 1.0) {
            (packets - self.maximum) / (divisor - 1.0)
        } else {
            most
        };
        // Before the first loss no slower than 5 % a round.
        if self.maximum == 0.0 { step.max(packets / 20.0) } else { step }
    }
}

impl WindowAlgorithm for Bic {
    fn congestion_avoidance(&mut self, now: Time, window: &mut Window, acked: f64) {
        let packets = window.packets;
        let step = if packets <= LOW_WINDOW {
            1.0
        } else if self.set == Constants::Paper {
            self.paper_step(packets)
        } else {
            match self.step {
                // A whole packet or 31 ms later the step is worked out again.
                Some((step, of, at)) if of == packets.floor() && now.since(at) <= STEP_LASTS => {
                    step
                }
                _ => {
                    let step = self.linux_step(packets.floor());
                    self.step = Some((step, packets.floor(), now));
                    step
                }
            }
        };
        window.add(acked * step / packets);
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        let left = self.constants.left;
        // Fast convergence (section III.D): a flow whose maximum shrinks leaves room for others.
        self.maximum = if packets < self.maximum { packets * (1.0 + left) / 2.0 } else { packets };
        (self.probing, self.step) = (None, None);
        if packets <= LOW_WINDOW { packets * reno::LEFT } else { packets * left }
    }

    fn timeout(&mut self, _now: Time) {
        *self = Bic::new(self.set);
    }
}
