//! What a document says of its making: which command made it, and when.

use farline_core::units::Time;
use std::time::SystemTime;

/// The command that was given, as a shell takes it.
pub(crate) fn command() -> String {
    std::env::args().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The date and time, as text.
pub(crate) fn now() -> String {
    date(seconds())
}

/// The same to the second.
#[cfg(feature = "profile")]
pub(crate) fn moment() -> String {
    time_of_day(seconds())
}

/// `2026-11-22 01:08 UTC` of seconds since 1970.
fn date(seconds: u64) -> String {
    Time::from_nanos(seconds.saturating_mul(1_000_000_000)).utc()
}

/// The same to the second: `2026-11-22 01:08:18 UTC`.
#[cfg(any(feature = "profile", test))]
fn time_of_day(seconds: u64) -> String {
    date(seconds).replace(" UTC", &format!(":{:02} UTC", seconds % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_795_309_698), "2026-11-22 01:08 UTC");
        assert_eq!(time_of_day(1_795_309_698), "2026-11-22 01:08:18 UTC");
    }
}
