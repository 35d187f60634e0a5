//! Wall-clock time as the calendar speaks it: nanoseconds of the core, RFC 3339 in UTC on the wire.

use crate::sys::clock::since_1970;
use farline_core::units::Time;
use jiff::Timestamp;

/// The time of this host's clock.
pub fn now() -> Time {
    Time::from_nanos(u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX))
}

/// `time` in RFC 3339: `2026-11-27T18:00:00Z`.
pub fn timestamp(time: Time) -> String {
    // What lies beyond year 9999 is the last instant that can be written.
    Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or(Timestamp::MAX).to_string()
}

/// The time that `text` names in RFC 3339, with any offset.
pub fn time_of(text: &str) -> Option<Time> {
    let timestamp: Timestamp = text.parse().ok()?;
    u64::try_from(timestamp.as_nanosecond()).ok().map(Time::from_nanos)
}

/// `text` in RFC 3339 for people, in this host's time zone and whole seconds: `Fri 2026-11-27 18:00
/// CET`.
pub(super) fn local(text: &str) -> String {
    let Ok(timestamp) = text.parse::<Timestamp>() else { return text.to_owned() };
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    let seconds = if zoned.second() == 0 { "" } else { ":%S" };
    zoned.strftime(&format!("%a %Y-%m-%d %H:%M{seconds} %Z")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_it_was_written() {
        let time = Time::from_nanos(1_795_802_400_123_456_789);
        assert_eq!(time_of(&timestamp(time)), Some(time));
        assert_eq!(time_of("2026-11-27T19:00:00+01:00"), time_of("2026-11-27T18:00:00Z"));
        for wrong in ["", "18:00", "2026-11-27", "2026-13-01T00:00:00Z", "1950-01-01T00:00:00Z"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }
}
