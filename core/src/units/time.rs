//! Points in time and spans between them, in nanoseconds of whatever clock the caller uses.

use super::parse::{ParseQuantityError, number_and_unit};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A point in time: nanoseconds since an origin that the caller chose (a simulation's start, the
/// monotonic clock's zero).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);

    /// The point `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to here, or zero when `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `2026-11-22 01:08 UTC` of a time since 1970 (Hinnant, "chrono-compatible low-level date
    /// algorithms").
    pub fn utc(self) -> String {
        let seconds = self.0 / 1_000_000_000;
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3_600, rest % 3_600 / 60)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

/// A length of time in nanoseconds, never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros * 1_000)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis * 1_000_000)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs * 1_000_000_000)
    }

    /// A span of `secs` seconds; negative, NaN and too large values clamp to the nearest span.
    pub fn from_secs_f64(secs: f64) -> Span {
        Span((secs * 1e9).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This span times `factor`.
    pub fn mul_f64(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor).round() as u64)
    }

    /// The difference, or zero when `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> Self {
        std::time::Duration::from_nanos(span.0)
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Self {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Span {
    /// How long ago, in words: whole seconds, minutes from two on, hours from two on.
    pub fn ago(self) -> String {
        match self.0 / 1_000_000_000 {
            0 => "less than a second ago".to_owned(),
            seconds @ 1..120 => format!("{seconds} s ago"),
            seconds @ 120..7_200 => format!("{} min ago", seconds / 60),
            seconds => format!("{} h ago", seconds / 3_600),
        }
    }
}

impl fmt::Display for Span {
    /// Three significant digits and the unit that keeps the number between 1 and 1000: `26.8 ms`,
    /// `163 ms`, `4.00 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            n if n < 1_000 => return write!(f, "{n} ns"),
            n if n < 1_000_000 => (n as f64 / 1e3, "us"),
            n if n < 1_000_000_000 => (n as f64 / 1e6, "ms"),
            n => (n as f64 / 1e9, "s"),
        };
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl FromStr for Span {
    type Err = ParseQuantityError;
    /// A number with a unit: `163ms`, `0.28 ms`, `50us`, `2s`, `15h`. A bare number is refused.
    fn from_str(text: &str) -> Result<Span, ParseQuantityError> {
        let expected = "a time such as 163ms, 50us, 2s or 15h";
        let (number, unit) = number_and_unit(text, expected)?;
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(ParseQuantityError::new(text, expected)),
        };
        Ok(Span((number * nanos).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_is_told_in_long_units() {
        for (seconds, words) in [
            (0, "less than a second ago"),
            (119, "119 s ago"),
            (7_199, "119 min ago"),
            (86_304, "23 h ago"),
        ] {
            assert_eq!(Span::from_secs(seconds).ago(), words);
        }
    }

    #[test]
    fn spans_read_and_print_with_units() {
        assert_eq!("163ms".parse(), Ok(Span::from_millis(163)));
        assert_eq!("0.28 ms".parse(), Ok(Span::from_micros(280)));
        assert_eq!(Span::from_micros(26_800).to_string(), "26.8 ms");
        assert_eq!(Span::from_nanos(4_000).to_string(), "4.00 us");
        assert!("163".parse::<Span>().is_err(), "a bare integer never carries a unit");
        assert!("-1ms".parse::<Span>().is_err());
    }

    #[test]
    fn time_does_not_run_backwards() {
        let early = Time::from_nanos(5);
        let late = early + Span::from_nanos(7);
        assert_eq!(late.since(early), Span::from_nanos(7));
        assert_eq!(early.since(late), Span::ZERO);
    }
}
