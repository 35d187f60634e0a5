//! Scalable TCP: a fixed fraction of the window each round, an eighth off on a loss (Kelly, CCR
//! 33(2), 2003).

use super::constants::Constants;
use super::loss_based::{Window, WindowAlgorithm};
use super::reno;
use crate::units::Time;

/// What is left after a loss: 1 - b with b = 0.125 (Kelly, section 2).
pub(super) const LEFT: f64 = 0.875;
/// Below this window Scalable is Reno: lwnd (Kelly, section 3.2).
const LOW_WINDOW: f64 = 16.0;

/// Packets added for each packet acknowledged: a (Kelly, section 2). tcp_scalable too, since Linux
/// 5.7; until then it added one for 50 acknowledgements, whether they stood for one packet (2 %)
/// or, delayed, for two.
pub(super) const INCREASE: f64 = 0.01;

/// The window algorithm of Scalable TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalable {
    set: Constants,
}

impl Scalable {
    pub(super) fn new(set: Constants) -> Scalable {
        Scalable { set }
    }
}

impl WindowAlgorithm for Scalable {
    fn congestion_avoidance(&mut self, _now: Time, window: &mut Window, acked: f64) {
        let increase = match self.set {
            Constants::Paper if window.packets > LOW_WINDOW => INCREASE,
            Constants::Paper => 1.0 / window.packets,
            // tcp_scalable has no lwnd: one packet for min(window, 100) acknowledged.
            Constants::Linux => INCREASE.max(1.0 / window.packets),
        };
        window.add(acked * increase);
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        if self.set == Constants::Paper && packets <= LOW_WINDOW {
            packets * reno::LEFT
        } else {
            packets * LEFT
        }
    }
}
