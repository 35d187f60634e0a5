//! NewReno: one packet a round, half on a loss (RFC 5681, RFC 6582).

use super::loss_based::{Window, WindowAlgorithm};
use crate::units::Time;

/// What is left after a loss (RFC 5681, equation 4).
pub(super) const LEFT: f64 = 0.5;

/// The window algorithm of Reno; it has no state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reno;

impl WindowAlgorithm for Reno {
    fn congestion_avoidance(&mut self, _now: Time, window: &mut Window, acked: f64) {
        // RFC 5681, equation 3, with packets counted as in RFC 3465.
        window.add(acked / window.packets);
    }

    fn backoff(&mut self, _now: Time, packets: f64) -> f64 {
        packets * LEFT
    }
}
