//! Points in UTC as MDTM, MFMT and the Modify fact write them: `YYYYMMDDHHMMSS.sss`.

use std::fmt;

/// A point in UTC, whatever clock it came from: a file's modification time or a marker's.
///
/// Not [`Time`](crate::units::Time), whose origin is the caller's own: this one travels between
/// hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
    pub seconds: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

/// A date and a time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UtcDateTime {
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
}

const DAY: i64 = 86_400;

impl Timestamp {
    /// So many nanoseconds after 1970-01-01T00:00:00Z.
    pub const fn from_nanos(nanos: i64) -> Timestamp {
        const SECOND: i64 = 1_000_000_000;
        let (seconds, nanos) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND) as u32);
        Timestamp { seconds, nanos }
    }

    /// The nanoseconds after 1970-01-01T00:00:00Z; of a time beyond their range, before 1677 or
    /// after 2262, the nearest.
    pub fn as_nanos(self) -> i64 {
        let exact = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        exact.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// So many seconds after 1970-01-01T00:00:00Z.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    /// Reads `YYYYMMDDHHMMSS`, with a fraction if there is one (RFC 3659 section 2.3); digits
    /// beyond nanoseconds are dropped.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let (whole, fraction) =
            text.split_once('.').map_or((text, ""), |(whole, fraction)| (whole, fraction));
        if whole.len() != 14 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let field = |from: usize, to: usize| {
            whole.get(from..to).and_then(|digits| digits.parse::<u8>().ok())
        };
        let utc = UtcDateTime {
            year: whole.get(..4)?.parse().ok()?,
            month: field(4, 6)?,
            day: field(6, 8)?,
            hour: field(8, 10)?,
            minute: field(10, 12)?,
            // 60 is a leap second, which the count of seconds does not know.
            second: field(12, 14).filter(|&s| s <= 60)?.min(59),
        };
        let valid =
            (1..=12).contains(&utc.month) && utc.day >= 1 && utc.hour < 24 && utc.minute < 60;
        let seconds = valid.then(|| seconds_of(&utc))?;
        // The 31st of a shorter month would silently become another day.
        let same_day = utc_of(seconds).day == utc.day;
        let nanos = fraction
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .take(9)
            .fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        same_day.then_some(Timestamp { seconds, nanos })
    }

    pub(super) fn utc(self) -> UtcDateTime {
        utc_of(self.seconds)
    }
}

impl fmt::Display for Timestamp {
    /// `20261121210441`, or `20261121210441.5` when it is not a whole second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UtcDateTime { year, month, day, hour, minute, second } = self.utc();
        write!(f, "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Days to date, proleptic Gregorian (Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`).
fn utc_of(seconds: i64) -> UtcDateTime {
    let (days, of_day) = (seconds.div_euclid(DAY) + 719_468, seconds.rem_euclid(DAY));
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    UtcDateTime {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month: month as u8,
        day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8,
        hour: (of_day / 3_600) as u8,
        minute: (of_day / 60 % 60) as u8,
        second: (of_day % 60) as u8,
    }
}

/// Date to seconds (Hinnant, `days_from_civil`).
fn seconds_of(utc: &UtcDateTime) -> i64 {
    let year = utc.year - i64::from(utc.month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(utc.month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(utc.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    days * DAY + i64::from(utc.hour) * 3_600 + i64::from(utc.minute) * 60 + i64::from(utc.second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_prints_the_globus_servers_times() {
        let time = Timestamp::from_seconds(1_577_836_800);
        assert_eq!(time.to_string(), "20200101000000");
        assert_eq!(Timestamp::parse("20200101000000"), Some(time));
        let half = Timestamp { nanos: 500_000_000, ..time };
        assert_eq!(half.to_string(), "20200101000000.5");
        assert_eq!(Timestamp::parse("20200101000000.5"), Some(half));
        assert_eq!(Timestamp::parse("19691231235959"), Some(Timestamp::from_seconds(-1)));
    }

    #[test]
    fn nanoseconds_come_back_and_end_where_they_end() {
        for nanos in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            assert_eq!(Timestamp::from_nanos(nanos).as_nanos(), nanos);
        }
        let year_one = Timestamp::parse("00010101000000.5").expect("a time");
        assert_eq!(year_one.as_nanos(), i64::MIN);
        assert_eq!(Timestamp::from_seconds(i64::MAX).as_nanos(), i64::MAX);
    }

    #[test]
    fn refuses_days_that_do_not_exist() {
        for text in [
            "20230229000000",
            "20200431000000",
            "20201301000000",
            "20200101240000",
            "2020010100000",
            "2020010100000x",
            "",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        assert!(Timestamp::parse("20240229000000").is_some());
    }

    proptest! {
        #[test]
        fn every_second_of_four_digit_years_survives(seconds in -62_167_219_200i64..253_402_300_800, nanos in 0u32..1_000_000_000) {
            let time = Timestamp { seconds, nanos };
            prop_assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        }

        #[test]
        fn any_text_is_safe(text in "[0-9.é]{0,20}") {
            let _ = Timestamp::parse(&text);
        }

        #[test]
        fn any_time_prints(seconds in any::<i64>()) {
            let _ = Timestamp::from_seconds(seconds / 1024).to_string();
        }
    }
}
