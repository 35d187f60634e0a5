//! What theory says: how long a flow needs to win back its window after one loss.

use super::algorithm::Algorithm;
use super::constants::Constants;
use super::{bic, cubic, highspeed, htcp, reno, scalable};
use crate::units::Span;

/// The part of a window of `window` packets that is left after its first loss; `None` for BBR,
/// which is not driven by loss.
pub fn left(algorithm: Algorithm, set: Constants, window: f64) -> Option<f64> {
    match algorithm {
        Algorithm::Bbr | Algorithm::Held => None,
        Algorithm::Bic => Some(bic::constants(set).left),
        Algorithm::Cubic => Some(cubic::left(set)),
        Algorithm::HighSpeed => Some(1.0 - highspeed::decrease(window)),
        // H-TCP's first loss; later ones leave 0.5 to 0.8.
        Algorithm::HTcp | Algorithm::Reno | Algorithm::Vegas => Some(reno::LEFT),
        Algorithm::Scalable => Some(scalable::LEFT),
    }
}

/// From the end of recovery, with the window at [`left`] of `window` packets, to a window of
/// `window` packets again, at a constant `rtt`. `None` for BBR, whose rate survives one loss.
pub fn recovery(algorithm: Algorithm, set: Constants, window: f64, rtt: Span) -> Option<Span> {
    let from = window * left(algorithm, set, window)?;
    climb(algorithm, set, from, window, window, rtt)
}

/// One reduction of a window, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// The window before, in packets.
    pub before: f64,
    /// The threshold that it left, in packets.
    pub after: f64,
    /// Whether the retransmission timer ran out, which makes BIC forget what it has learnt.
    pub timeout: bool,
}

/// From the last of several reductions on, oldest first, with the window at what it left, to
/// `window` packets at a constant `rtt`. BIC and CUBIC remember where the earlier ones came. `None`
/// for BBR, and without a reduction.
pub fn recovery_after(
    algorithm: Algorithm,
    set: Constants,
    cuts: &[Cut],
    window: f64,
    rtt: Span,
) -> Option<Span> {
    let from = cuts.last()?.after;
    let maximum = cuts.iter().fold(0.0, |maximum, cut| match algorithm {
        Algorithm::Bic if cut.timeout => 0.0,
        // Fast convergence: BIC, section III.D; RFC 9438, section 4.7.
        Algorithm::Bic if cut.before < maximum => {
            cut.before * (1.0 + bic::constants(set).left) / 2.0
        }
        Algorithm::Cubic if cut.before < maximum => cut.before * (1.0 + cubic::left(set)) / 2.0,
        _ => cut.before,
    });
    climb(algorithm, set, from, maximum, window, rtt)
}

/// From a window of `from` packets to one of `window`, when the last reduction came at `maximum`.
fn climb(
    algorithm: Algorithm,
    set: Constants,
    from: f64,
    maximum: f64,
    window: f64,
    rtt: Span,
) -> Option<Span> {
    let lost = (window - from).max(0.0);
    let rounds = match algorithm {
        Algorithm::Bbr | Algorithm::Held => return None,
        // One packet a round. With one acknowledgement for each packet: T = C RTT^2 / (2 x 8 MSS).
        Algorithm::Reno | Algorithm::Vegas => lost,
        // The integral of dw / a(w).
        Algorithm::HighSpeed => integral(from, window, |w| 1.0 / highspeed::increase(w)),
        // w' = a w.
        Algorithm::Scalable => (window / from).ln() / scalable::INCREASE.ln_1p(),
        Algorithm::Bic => {
            let near = maximum.clamp(from, window.max(from));
            // A search that would lead beyond the window ends there.
            let search = if maximum > window {
                bic_rounds(set, maximum - from) - bic_rounds(set, maximum - window)
            } else {
                bic_rounds(set, near - from)
            };
            search + bic_probing(set, window - near)
        }
        Algorithm::HTcp => {
            return Some(Span::from_secs_f64(htcp_seconds(lost, from / window, rtt)));
        }
        // K (RFC 9438, equation 2) to the plateau, and on along the cubic; neither depends on the
        // rtt.
        Algorithm::Cubic => {
            let origin = maximum.max(from);
            // Linux rounds what is missing to the plateau down to whole packets (bictcp_update), so
            // it is at a window when its cubic is less than one packet below.
            let whole = if set == Constants::Linux && window <= origin { 1.0 } else { 0.0 };
            let seconds =
                ((origin - from) / cubic::C).cbrt() + ((window - origin - whole) / cubic::C).cbrt();
            let seconds = seconds.max(0.0);
            // Where Reno would be back sooner, CUBIC keeps up with it (section 4.3).
            let left = cubic::left(set);
            let friendly = lost * (1.0 + left) / (3.0 * (1.0 - left)) * rtt.as_secs_f64();
            return Some(Span::from_secs_f64(seconds.min(friendly)));
        }
    };
    Some(rtt.mul_f64(rounds))
}

/// Beyond the window of the last loss: one packet in the first round, two, four, up to Smax
/// (section III.C); tcp_bic grows by what it has gained, divided.
fn bic_probing(set: Constants, gained: f64) -> f64 {
    let bic::BicConstants { most, least, divisor, .. } = bic::constants(set);
    let gained = gained.max(0.0);
    match set {
        Constants::Paper => {
            (gained.min(2.0 * most) + 1.0).log2() + (gained - 2.0 * most).max(0.0) / most
        }
        Constants::Linux => {
            let (slow, fast) = (divisor, most * (divisor - 1.0));
            gained.min(slow) / least
                + (divisor - 1.0) * (gained.clamp(slow, fast) / slow).ln()
                + (gained - fast).max(0.0) / most
        }
    }
}

/// Smax a round as long as a step would be larger, then a step that is a fixed part of what is
/// missing, down to the least step.
fn bic_rounds(set: Constants, lost: f64) -> f64 {
    let bic::BicConstants { most, least, divisor, .. } = bic::constants(set);
    let near = (most * divisor).min(lost);
    let far = (lost - near) / most;
    match set {
        // What is missing shrinks by 1/divisor a round, continuously, until a step is Smin.
        Constants::Paper => far + divisor * (near / (least * divisor)).max(1.0).ln(),
        // From a step of one packet on, `least` packets a round.
        Constants::Linux => {
            far + divisor * (near / divisor).max(1.0).ln() + near.min(divisor) / least
        }
    }
}

/// The time at which the packets added, alpha(t) / scaling a round, reach `lost`; found by steps of
/// a hundredth of a round.
fn htcp_seconds(lost: f64, left: f64, rtt: Span) -> f64 {
    let step = (rtt.as_secs_f64() / 100.0).max(1e-5);
    let (mut t, mut added) = (0.0, 0.0);
    while added < lost {
        let alpha =
            2.0 * (1.0 - left.clamp(0.5, 0.8)) * (htcp::alpha(t) / htcp::scaling(rtt)).max(1.0);
        added += alpha * step / rtt.as_secs_f64();
        t += step;
    }
    t
}

/// Simpson's rule over 1,000 pieces.
fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let pieces = 1_000;
    let h = (to - from) / f64::from(pieces);
    let weight = |i: i32| match i {
        0 => 1.0,
        i if i == pieces => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=pieces).map(|i| weight(i) * f(from + h * f64::from(i))).sum::<f64>() * h / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window that a path of `gbps` and `rtt` holds in packets of `segment` bytes.
    fn window(gbps: f64, segment: f64, rtt_ms: f64) -> f64 {
        gbps * 1e9 * rtt_ms / 1e3 / 8.0 / segment
    }

    #[test]
    fn the_papers_paths_take_as_long_as_others_have_worked_out() {
        let seconds = |algorithm, set, gbps, segment, rtt_ms| {
            let rtt = Span::from_secs_f64(rtt_ms / 1e3);
            recovery(algorithm, set, window(gbps, segment, rtt_ms), rtt)
                .expect("it is driven by loss")
                .as_secs_f64()
        };
        use Algorithm::*;
        use Constants::*;
        // Gbit/s, segment, rtt in ms: Reno, HighSpeed, Scalable, H-TCP, CUBIC and both of BIC,
        // worked out independently.
        for (gbps, segment, rtt, reno, high, scal, h, cube, linux) in [
            (9.2, 8948.0, 17.0, 18.6, 0.97, 0.23, 5.4, 11.8, 0.8),
            (9.2, 1448.0, 26.8, 285.0, 2.4, 0.36, 14.2, 25.2, 7.7),
            (9.2, 8948.0, 128.0, 1053.0, 11.0, 1.7, 12.8, 23.1, 28.7),
            (9.2, 1448.0, 163.0, 10_550.0, 21.4, 2.2, 30.6, 46.0, 267.0),
            (1.0, 1448.0, 163.0, 1147.0, 13.5, 2.2, 12.1, 21.9, 31.8),
        ] {
            let near = |name: &str, got: f64, want: f64| {
                assert!(
                    (got / want - 1.0).abs() < 0.08,
                    "{name} at {gbps} Gbit/s, {rtt} ms: {got:.2} s, not {want} s"
                );
            };
            near("reno", seconds(Reno, Paper, gbps, segment, rtt), reno);
            near("highspeed", seconds(HighSpeed, Paper, gbps, segment, rtt), high);
            near("scalable", seconds(Scalable, Paper, gbps, segment, rtt), scal);
            near("htcp", seconds(HTcp, Paper, gbps, segment, rtt), h);
            near("cubic", seconds(Cubic, Paper, gbps, segment, rtt), cube);
            // The other working-out leaves the last four packets to a quarter a round; tcp_bic
            // takes twenty rounds for them.
            let bic = seconds(Bic, Linux, gbps, segment, rtt);
            assert!(
                (0.0..10.0 * rtt / 1e3).contains(&(bic - linux)),
                "bic at {gbps} Gbit/s, {rtt} ms: {bic:.2} s, not {linux} s"
            );
        }
        // BIC's paper halves the distance; worked out with tcp_bic's quarter these were 2.8 s, 86 s
        // and 12.2 s.
        for (gbps, rtt, other) in [(9.2, 26.8, 2.8), (9.2, 163.0, 86.0), (1.0, 163.0, 12.2)] {
            let ours = seconds(Bic, Paper, gbps, 1448.0, rtt);
            assert!((0.85..1.0).contains(&(ours / other)), "{ours} against {other}");
        }
    }
}
