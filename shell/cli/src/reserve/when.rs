//! Times as people write them, in the local time zone: `18:00`, `FRI-18:00`, `+2h`, a date.

use farline_core::units::{Error, ErrorCode, Fault, Span, Time};
use jiff::civil::{DateTime, Time as Clock, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Days as they begin.
const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// Now, where this process is.
pub(crate) fn here() -> Zoned {
    Zoned::now()
}

fn wrong(text: &str, why: &str) -> Error {
    Error::new(Fault::You, ErrorCode::BadTime, format!("`{text}` is no time: {why}")).hint(
        "such as now, +90min, 18:00 (the next), FRI-18:00, 2026-11-27T18:00 or 2026-11-27T17:00Z",
    )
}

/// The instant that `text` means at `now`, in `now`'s time zone.
///
/// A time of day is the next one. Where clocks go forward, a time that they skip is as much later;
/// where they go back, one that comes twice is the first.
pub(crate) fn read(text: &str, now: &Zoned) -> Result<Time, Error> {
    let instant = |timestamp: Timestamp| {
        let nanos = u64::try_from(timestamp.as_nanosecond());
        nanos.map(Time::from_nanos).map_err(|_| wrong(text, "it lies before 1970"))
    };
    let local = |date_time: DateTime| {
        let zoned = date_time.to_zoned(now.time_zone().clone());
        zoned.map_err(|error| wrong(text, &error.to_string())).map(|zoned| zoned.timestamp())
    };
    if text == "now" {
        return instant(now.timestamp());
    }
    if let Some(later) = text.strip_prefix('+') {
        let span: Span = later.parse().map_err(|_| wrong(text, "+ and a length, such as +2h"))?;
        return Ok(instant(now.timestamp())? + span);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return instant(timestamp);
    }
    let is_clock = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    if is_clock
        && let Ok(clock) =
            Clock::strptime("%H:%M", text).or_else(|_| Clock::strptime("%H:%M:%S", text))
    {
        let today = local(now.date().to_datetime(clock))?;
        if today > now.timestamp() {
            return instant(today);
        }
        let tomorrow = now.date().tomorrow().map_err(|error| wrong(text, &error.to_string()))?;
        return instant(local(tomorrow.to_datetime(clock))?);
    }
    if let Some((day, clock)) = text.split_once(['-', ' '])
        && let Some((_, weekday)) = DAYS.iter().find(|(name, _)| {
            day.len() >= 3 && day.is_ascii() && day[..3].eq_ignore_ascii_case(name)
        })
    {
        let clock = Clock::strptime("%H:%M", clock)
            .map_err(|_| wrong(text, "a day and a time of day, such as FRI-18:00"))?;
        if now.date().weekday() == *weekday {
            let today = local(now.date().to_datetime(clock))?;
            if today > now.timestamp() {
                return instant(today);
            }
        }
        let date = now.date().nth_weekday(1, *weekday);
        let date = date.map_err(|error| wrong(text, &error.to_string()))?;
        return instant(local(date.to_datetime(clock))?);
    }
    match text.replacen(' ', "T", 1).parse::<DateTime>() {
        Ok(date_time) if text.contains(':') => instant(local(date_time)?),
        Ok(_) => Err(wrong(text, "the time of day is missing")),
        Err(_) => Err(wrong(text, "it cannot be read")),
    }
}

/// `text` in RFC 3339 without what is less than a second, if it can be read: rounded up, for who
/// waits until then.
pub(crate) fn whole_seconds(text: &str) -> String {
    let Ok(timestamp) = text.parse::<Timestamp>() else { return text.to_owned() };
    let up = jiff::TimestampRound::new().smallest(jiff::Unit::Second).mode(jiff::RoundMode::Ceil);
    timestamp.round(up).unwrap_or(timestamp).to_string()
}

/// `text` in RFC 3339 as it is shown here: `Fri 2026-11-27 18:00:00 CET`.
pub(crate) fn shown(text: &str, zone: &TimeZone) -> String {
    let Ok(timestamp) = text.parse::<Timestamp>() else { return text.to_owned() };
    let zoned = timestamp.to_zoned(zone.clone());
    let seconds = if zoned.second() == 0 { "" } else { ":%S" };
    zoned.strftime(&format!("%a %Y-%m-%d %H:%M{seconds} %Z")).to_string()
}

/// From when to when: `Fri 2026-11-27 18:00 to 20:00 CET`, the day once where it is the same.
pub(crate) fn span(start: &str, end: &str, zone: &TimeZone) -> String {
    let (from, to) = (shown(start, zone), shown(end, zone));
    let day = from.len().min("Fri 2026-11-27 ".len());
    let (Some((first, clock)), Some((_, name))) = (from.split_at_checked(day), to.rsplit_once(' '))
    else {
        return format!("{from} to {to}");
    };
    match (to.strip_prefix(first), clock.strip_suffix(name)) {
        (Some(end), Some(clock)) => format!("{first}{clock}to {end}"),
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_and_a_zone_are_named_once() {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        for (start, end, expected) in [
            ("2026-11-27T17:00:00Z", "2026-11-27T19:00:00Z", "Fri 2026-11-27 18:00 to 20:00 CET"),
            (
                "2026-11-27T17:00:05Z",
                "2026-11-28T19:00:00Z",
                "Fri 2026-11-27 18:00:05 CET to Sat 2026-11-28 20:00 CET",
            ),
            (
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
                "Sun 2026-10-25 02:30 CEST to Sun 2026-10-25 02:30 CET",
            ),
        ] {
            assert_eq!(span(start, end, &zone), expected);
        }
    }

    fn at(now: &str, text: &str) -> String {
        let now: Zoned = now.parse().expect("a time with a zone");
        match read(text, &now) {
            Ok(time) => Timestamp::from_nanosecond(i128::from(time.as_nanos()))
                .expect("in range")
                .to_string(),
            Err(error) => {
                assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::BadTime), "{text}");
                "no time".to_owned()
            }
        }
    }

    #[test]
    fn times_are_read_in_the_local_zone() {
        // A Wednesday.
        let now = "2026-11-25T10:00:00+01:00[Europe/Berlin]";
        for (text, utc) in [
            ("now", "2026-11-25T09:00:00Z"),
            ("+90min", "2026-11-25T10:30:00Z"),
            ("18:00", "2026-11-25T17:00:00Z"),
            ("09:00", "2026-11-26T08:00:00Z"),
            ("10:00", "2026-11-26T09:00:00Z"),
            ("FRI-18:00", "2026-11-27T17:00:00Z"),
            ("friday-18:00", "2026-11-27T17:00:00Z"),
            ("wed-18:00", "2026-11-25T17:00:00Z"),
            ("Wed 09:00", "2026-12-02T08:00:00Z"),
            ("2026-11-27T18:00", "2026-11-27T17:00:00Z"),
            ("2026-11-27 18:00:30", "2026-11-27T17:00:30Z"),
            ("2026-11-27T18:00Z", "2026-11-27T18:00:00Z"),
            ("2026-07-01T18:00", "2026-07-01T16:00:00Z"),
        ] {
            assert_eq!(at(now, text), utc, "{text}");
        }
        for text in [
            "",
            "soon",
            "25:00",
            "FRI-25:00",
            "+2",
            "2026-11-27",
            "2026-02-30T10:00",
            "ab-10:00",
            "äöü-10:00",
        ] {
            assert_eq!(at(now, text), "no time", "{text}");
        }
    }

    #[test]
    fn a_booking_across_a_change_of_clocks_is_of_real_time() {
        // Clocks go back at 03:00 on 2026-10-25.
        let now = "2026-10-24T20:00:00+02:00[Europe/Berlin]";
        assert_eq!(at(now, "SUN-02:30"), "2026-10-25T00:30:00Z", "the first of the two");
        assert_eq!(at(now, "SUN-04:00"), "2026-10-25T03:00:00Z");
        assert_eq!(at(now, "+10h"), "2026-10-25T04:00:00Z");
        // They go forward at 02:00 on 2026-03-29.
        let now = "2026-03-28T20:00:00+01:00[Europe/Berlin]";
        assert_eq!(at(now, "SUN-02:30"), "2026-03-29T01:30:00Z", "skipped: as much later");
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        assert_eq!(shown("2026-03-29T01:30:00Z", &berlin), "Sun 2026-03-29 03:30 CEST");
        assert_eq!(shown("2026-03-29T00:30:07Z", &berlin), "Sun 2026-03-29 01:30:07 CET");
    }
}
