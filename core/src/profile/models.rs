//! Closed forms: what a window, a ramp and a loss rate allow, to set next to measurements and
//! simulations.

use crate::congestion::Algorithm;
use crate::units::{Bytes, Rate, Span};

/// `min(C, W / rtt)`: the rate of a stream that never loses and has `window` bytes on its way.
pub fn window_limited(capacity: Rate, window: Bytes, rtt: Span) -> Rate {
    capacity.min(Rate::of(window, rtt))
}

/// How long slow start needs from `first` packets to `window` packets: `rtt log2(W / IW)` (Rao et
/// al., HPDC 2017).
pub fn ramp(first: f64, window: f64, rtt: Span) -> Span {
    rtt.mul_f64((window / first.max(1.0)).max(1.0).log2())
}

/// The mean over `observed` of a stream that ramps for `ramp` and then runs at `sustained`: `f
/// theta_R + (1 - f) theta_S` (Rao et al., HPDC 2017). In doubling windows the mean of the ramp is
/// `sustained / (log2(W / IW) ln 2)`.
pub fn with_ramp(sustained: Rate, ramp: Span, rtt: Span, observed: Span) -> Rate {
    let (ramp, rtt, observed) = (ramp.as_secs_f64(), rtt.as_secs_f64(), observed.as_secs_f64());
    if observed <= 0.0 || rtt <= 0.0 {
        return sustained;
    }
    // Delivered by the end of the ramp: the integral of 2^(t / rtt), which ends at the sustained
    // rate.
    let delivered = |until: f64| {
        rtt / std::f64::consts::LN_2 * (((until - ramp) / rtt).exp2() - (-ramp / rtt).exp2())
    };
    let seconds =
        if observed < ramp { delivered(observed) } else { delivered(ramp) + observed - ramp };
    Rate::from_bps((sustained.as_bps() as f64 * (seconds / observed).clamp(0.0, 1.0)) as u64)
}

/// The mean window in packets at a probability `p` of loss: the response function of `algorithm`;
/// `None` for those without one.
///
/// Reno: Mathis et al., CCR 27(3), 1997. HighSpeed: RFC 3649, section 5. Scalable: Kelly 2003.
/// CUBIC: RFC 9438, section 5.2, never below Reno. BIC and H-TCP have none that is closed; Vegas
/// and BBR do not answer loss by a law of its rate.
pub fn response(algorithm: Algorithm, p: f64, rtt: Span) -> Option<f64> {
    let reno = (1.5 / p).sqrt();
    match algorithm {
        Algorithm::Reno => Some(reno),
        Algorithm::HighSpeed => Some(reno.max(0.12 / p.powf(0.835))),
        Algorithm::Scalable => Some(reno.max(0.08 / p)),
        Algorithm::Cubic => Some(reno.max(1.054 * (rtt.as_secs_f64() / p).powf(0.75))),
        Algorithm::Bbr | Algorithm::Bic | Algorithm::Held | Algorithm::HTcp | Algorithm::Vegas => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Constants;
    use crate::profile::fluid::{Fluid, FluidScenario};

    #[test]
    fn a_ten_second_test_over_half_a_world_shows_half_of_the_rate() {
        // 9.2 Gbit/s, 1448 B: at 366 ms a test of 10 s shows 53 %, one of 60 s 92 %; at 163 ms 81
        // and 97 %.
        let rate = Rate::from_bps(9_200_000_000);
        for (rtt, observed, share) in
            [(366, 10, 0.53), (366, 60, 0.92), (163, 10, 0.81), (163, 60, 0.97)]
        {
            let rtt = Span::from_millis(rtt);
            let window = rate.bytes_in(rtt).0 as f64 / 1_448.0;
            let found = with_ramp(rate, ramp(10.0, window, rtt), rtt, Span::from_secs(observed));
            let found = found.as_bps() as f64 / rate.as_bps() as f64;
            assert!((found - share).abs() < 0.03, "{rtt}, {observed} s: {found:.3}, not {share}");
        }
    }

    #[test]
    fn the_fluid_follows_the_response_functions() {
        let rtt = Span::from_millis(100);
        for (algorithm, set, p) in [
            (Algorithm::Reno, Constants::Paper, 1e-4),
            (Algorithm::HighSpeed, Constants::Paper, 1e-5),
            (Algorithm::Cubic, Constants::Paper, 1e-5),
            (Algorithm::Scalable, Constants::Paper, 1e-4),
        ] {
            let mut windows = 0.0;
            for seed in 1..=4 {
                let mut fluid = Fluid::new(&FluidScenario {
                    rate: Rate::from_bps(100_000_000_000),
                    rtt,
                    queue: Bytes::mib(1_024),
                    mtu: 1_500,
                    streams: vec![(algorithm, set)],
                    window: None,
                    train: 1,
                    cross: Rate::default(),
                    loss: p,
                    host: None,
                    disturbance: None,
                    staged: None,
                    seed,
                });
                fluid.run(60.0, |_| false);
                let before = fluid.delivered_in_all();
                fluid.run(360.0, |_| false);
                windows += (fluid.delivered_in_all() - before) / 1_448.0 * 0.1 / 300.0 / 4.0;
            }
            let expected = response(algorithm, p, rtt).expect("a response function");
            assert!(
                (windows / expected - 1.0).abs() < 0.25,
                "{algorithm}: {windows:.0} packets, not {expected:.0}"
            );
        }
    }
}
