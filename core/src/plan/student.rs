//! Student's t distribution: the share of it beyond a value, and the value beyond which a share
//! lies.

/// The probability that a t of `degrees` of freedom lies farther from zero than `t`, on both sides
/// together.
///
/// `I_x(v/2, 1/2)` with `x = v / (v + t^2)` (Abramowitz and Stegun, 26.7.1).
pub(crate) fn beyond(t: f64, degrees: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// The t of `degrees` of freedom between minus and plus which lies `share` of the distribution:
/// 2.262 for 9 and 0.95.
pub(crate) fn quantile(share: f64, degrees: f64) -> f64 {
    let outside = 1.0 - share;
    let mut high = 1.0;
    while beyond(high, degrees) > outside && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if beyond(middle, degrees) > outside { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function by its continued fraction (Abramowitz and Stegun,
/// 26.5.8), with Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below the mean; above, the symmetric one is used (26.5.2).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let tiny = 1e-300;
    let keep = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / keep(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / keep(1.0 + term * d);
            c = keep(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function (Lanczos 1964, g = 7, nine terms).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = TERMS
        .iter()
        .enumerate()
        .skip(1)
        .fold(TERMS[0], |sum, (i, term)| sum + term / (x + i as f64));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_those_of_the_printed_table() {
        // Two-sided 95 % and 99 % (Abramowitz and Stegun, table 26.10).
        for (degrees, t95, t99) in [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (9.0, 2.262, 3.250),
            (30.0, 2.042, 2.750),
            (120.0, 1.980, 2.617),
        ] {
            assert!(
                (quantile(0.95, degrees) - t95).abs() < 6e-4,
                "{degrees}: {}",
                quantile(0.95, degrees)
            );
            assert!(
                (quantile(0.99, degrees) - t99).abs() < 6e-4,
                "{degrees}: {}",
                quantile(0.99, degrees)
            );
        }
    }

    proptest! {
        #[test]
        fn the_quantile_undoes_the_probability(degrees in 1.0f64..200.0, share in 0.01f64..0.999) {
            prop_assert!((beyond(quantile(share, degrees), degrees) - (1.0 - share)).abs() < 1e-9);
        }
    }
}
