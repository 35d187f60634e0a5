//! Sizes and rates: binary sizes (`4 MiB`), decimal rates (`9.29 Gbit/s`).

use super::parse::{ParseQuantityError, number_and_unit};
use super::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Rate(u64);

/// A part of a whole, such as how many packets are lost: `0.001`, `1e-3` or `0.1%` as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(pub f64);

impl FromStr for Probability {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Probability, ParseQuantityError> {
        let trimmed = text.trim();
        let (number, whole) =
            trimmed.strip_suffix('%').map_or((trimmed, 1.0), |number| (number.trim_end(), 100.0));
        let wrong = || ParseQuantityError::new(text, "a probability such as 1e-5 or 0.1%");
        number.parse::<f64>().map(|part| Probability(part / whole)).map_err(|_| wrong())
    }
}

impl Bytes {
    /// A size of `n` MiB.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
}

impl Rate {
    /// A rate of `bits` per second.
    pub const fn from_bps(bits: u64) -> Rate {
        Rate(bits)
    }

    /// The rate that moves `bytes` in `span`; zero when the span is.
    pub fn of(bytes: Bytes, span: Span) -> Rate {
        if span == Span::ZERO {
            Rate(0)
        } else {
            Rate((bytes.0 as f64 * 8.0 / span.as_secs_f64()).round() as u64)
        }
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Gigabits per second.
    pub fn as_gbps(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time that `bytes` need at this rate, rounded up to a nanosecond.
    ///
    /// A rate of zero never finishes: the answer is the longest span.
    pub fn time_for(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::from_nanos(u64::MAX);
        }
        let nanos = (u128::from(bytes.0) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The bytes that pass in `span` at this rate: the bandwidth-delay product when `span` is an
    /// rtt.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1 << 10 {
            return write!(f, "{} B", self.0);
        }
        let (mut value, mut unit) = (self.0 as f64 / 1024.0, "KiB");
        for larger in ["MiB", "GiB", "TiB"] {
            if value < 1023.95 {
                break;
            }
            // What would be rounded to 1024 of a unit is 1 of the next.
            value = if value < 1024.0 { 1.0 } else { value / 1024.0 };
            unit = larger;
        }
        let digits = if value.fract() == 0.0 {
            0
        } else if value < 10.0 {
            2
        } else {
            1
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            n if n < 1_000 => return write!(f, "{n} bit/s"),
            // What would be rounded to 1000 of a unit is 1 of the next.
            n if n < 999_500 => (n as f64 / 1e3, "kbit/s"),
            n if n < 999_500_000 => (n as f64 / 1e6, "Mbit/s"),
            n => (n as f64 / 1e9, "Gbit/s"),
        };
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;
    /// `4MiB`, `256 KiB`, `1.5GiB`, `160TB`; `K`, `M`, `G`, `T` alone are binary; a bare number is
    /// bytes.
    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        let expected = "a size such as 4MiB, 256K or 160TB";
        let (number, unit) = number_and_unit(text, expected)?;
        let scale = match unit {
            "" | "B" => 1.0,
            "K" | "k" | "KiB" => 1024.0,
            "M" | "MiB" => 1024f64.powi(2),
            "G" | "GiB" => 1024f64.powi(3),
            "T" | "TiB" => 1024f64.powi(4),
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            "PB" => 1e15,
            _ => return Err(ParseQuantityError::new(text, expected)),
        };
        whole(number * scale)
            .map(Bytes)
            .ok_or_else(|| ParseQuantityError::above(text, "16777216 TiB"))
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;
    /// `10G`, `9.29 Gbit/s`, `500Mbps`, `64k`: always decimal; a bare number other than 0 is
    /// refused.
    fn from_str(text: &str) -> Result<Rate, ParseQuantityError> {
        let expected = "a rate such as 10G, 9.29Gbit/s or 500M";
        let (number, unit) = number_and_unit(text, expected)?;
        let prefix = unit.trim_end_matches("bit/s").trim_end_matches("bps");
        let scale = match prefix {
            // Nothing is nothing in every unit.
            "" if !unit.is_empty() || number == 0.0 => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            _ => return Err(ParseQuantityError::new(text, expected)),
        };
        whole(number * scale)
            .map(Rate)
            .ok_or_else(|| ParseQuantityError::above(text, "18446744 Tbit/s"))
    }
}

/// The nearest whole number, where 64 bits hold it: a larger one is not silently another.
fn whole(value: f64) -> Option<u64> {
    let rounded = value.round();
    // 2^64 as a float is exact.
    (rounded < 18_446_744_073_709_551_616.0).then_some(rounded as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_sizes_binary() {
        assert_eq!("10G".parse(), Ok(Rate::from_bps(10_000_000_000)));
        assert_eq!("9.29Gbit/s".parse(), Ok(Rate::from_bps(9_290_000_000)));
        assert_eq!("4MiB".parse(), Ok(Bytes(4 << 20)));
        assert_eq!("160TB".parse(), Ok(Bytes(160_000_000_000_000)));
        assert_eq!(Rate::from_bps(9_290_000_000).to_string(), "9.29 Gbit/s");
        assert_eq!(Bytes(4 << 20).to_string(), "4 MiB");
        assert!("10".parse::<Rate>().is_err());
        assert!("10X".parse::<Rate>().is_err());
        assert!("ten".parse::<Bytes>().is_err());
    }

    #[test]
    fn a_part_is_a_number_or_a_percentage() {
        for (text, part) in [("0.05", 0.05), ("5%", 0.05), (" 0.1 % ", 0.001), ("1e-3", 0.001)] {
            let read = text.parse::<Probability>().expect(text).0;
            assert!((read - part).abs() < 1e-12, "{text}: {read}");
        }
        for wrong in ["%", "five", "5%%", ""] {
            let said = wrong.parse::<Probability>().expect_err(wrong).to_string();
            assert!(said.contains("0.1%"), "{wrong}: {said}");
        }
    }

    #[test]
    fn no_size_is_1024_of_a_unit_and_no_rate_1000() {
        for unit in [10, 20, 30, 40] {
            let next = 1_u64 << unit;
            for size in [next - 1, next - (next >> 12), next - (next >> 11), next, next + 1] {
                let said = Bytes(size).to_string();
                assert!(unit == 10 || !said.starts_with("1024"), "{size}: {said}");
            }
        }
        assert_eq!(Bytes((1 << 30) - 1).to_string(), "1 GiB");
        assert_eq!(Bytes((1 << 30) - (1 << 20)).to_string(), "1023 MiB");
        for next in [1_000_000, 1_000_000_000] {
            let said = Rate::from_bps(next - 1).to_string();
            assert!(!said.starts_with("1000"), "{said}");
        }
    }

    #[test]
    fn bandwidth_delay_product_of_the_longest_path() {
        let rate = Rate::from_bps(9_290_000_000);
        assert_eq!(rate.bytes_in(Span::from_millis(163)), Bytes(189_283_750));
        assert_eq!(rate.time_for(Bytes(9_000)), Span::from_nanos(7_751));
    }

    #[test]
    fn what_no_number_here_holds_is_refused_in_words() {
        for size in ["20000000TB", "1e30B", "16777216TiB", "99999999999999999999"] {
            let error = size.parse::<Bytes>().expect_err(size).to_string();
            assert!(size.contains('e') || error.contains("16777216 TiB"), "{error}");
        }
        let error = "20000000T".parse::<Rate>().expect_err("too much").to_string();
        assert!(error.contains("18446744 Tbit/s"), "{error}");
        assert_eq!("16000000TiB".parse(), Ok(Bytes(16_000_000 << 40)));
        assert_eq!(("0".parse(), "0G".parse()), (Ok(Rate::default()), Ok(Rate::default())));
    }
}
