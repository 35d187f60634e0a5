//! Scripted events: what happens to a link at a given time after it came up.
//!
//! The text form is `TIME:[SIDE:]CHANGE`, where `SIDE` is `a-to-b` or `b-to-a` (both when left out)
//! and `CHANGE` is one of
//!
//! ```text
//! outage=2s        every frame offered during these 2 s is lost
//! lose=100         the next 100 frames offered are lost
//! rate=1G          the wire's rate from now on
//! cross=4G         cross-traffic of 4 Gbit/s from now on (cross=0G ends it)
//! cross=4G/10s     the same for 10 s
//! burst=64MiB      64 MiB of other traffic arrive in the queue at once
//! ```

use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which direction an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventSide {
    /// What side a sends to side b.
    AToB,
    /// What side b sends to side a.
    BToA,
    /// Both directions.
    Both,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Other traffic of this many bytes on the wire arrives at once and waits in the same queue.
    Burst(Bytes),
    /// Cross-traffic arrives at this rate, for this long or until the next such event.
    Cross(Rate, Option<Span>),
    /// This many of the next frames offered are lost.
    Lose(u64),
    /// Every frame offered in this span is lost; those accepted before still arrive.
    Outage(Span),
    /// The wire has this rate from now on; what waits in the queue leaves at the new rate.
    Rate(Rate),
}

/// Something that happens at a time after the link came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Since the link came up.
    pub at: Span,
    /// For which direction.
    pub side: EventSide,
    /// What.
    pub change: Change,
}

impl FromStr for Event {
    type Err = Error;
    fn from_str(text: &str) -> Result<Event, Error> {
        let wrong = |why: String| {
            Error::new(
                Fault::You,
                ErrorCode::LinkScript,
                format!("`{text}` is not an event: {why}"),
            )
            .hint(
                "TIME:[a-to-b:|b-to-a:]outage=2s | lose=100 | rate=1G | cross=4G/10s | \
                 burst=64MiB, for example 10s:outage=2s",
            )
        };
        let no_change = || wrong("it says no time, or no change at that time".to_owned());
        let (at, rest) = text.split_once(':').ok_or_else(no_change)?;
        let (side, change) = match rest.split_once(':') {
            None => (EventSide::Both, rest),
            Some(("a-to-b", change)) => (EventSide::AToB, change),
            Some(("b-to-a", change)) => (EventSide::BToA, change),
            Some((side, _)) => return Err(wrong(format!("`{side}` is not a-to-b or b-to-a"))),
        };
        let at = at.parse().map_err(|error| wrong(format!("{error}")))?;
        let change = change.parse().map_err(wrong)?;
        Ok(Event { at, side, change })
    }
}

impl FromStr for Change {
    type Err = String;
    fn from_str(text: &str) -> Result<Change, String> {
        fn value<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error| format!("{error}"))
        }
        let (verb, argument) =
            text.split_once('=').ok_or_else(|| format!("`{text}` says nothing to do"))?;
        match verb {
            "burst" => value(argument).map(Change::Burst),
            "cross" => match argument.split_once('/') {
                Some((rate, span)) => Ok(Change::Cross(value(rate)?, Some(value(span)?))),
                None => Ok(Change::Cross(value(argument)?, None)),
            },
            "lose" => value(argument).map(Change::Lose),
            "outage" => value(argument).map(Change::Outage),
            "rate" => match value(argument)? {
                rate if rate == Rate::from_bps(0) => {
                    Err("a rate of zero is an outage=SPAN".to_owned())
                }
                rate => Ok(Change::Rate(rate)),
            },
            _ => Err(format!("`{verb}` is unknown")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_as_documented() {
        let event =
            |text: &str| text.parse::<Event>().map(|event| (event.at, event.side, event.change));
        let ten = Span::from_secs(10);
        assert_eq!(
            event("10s:outage=2s"),
            Ok((ten, EventSide::Both, Change::Outage(Span::from_secs(2))))
        );
        assert_eq!(event("10s:a-to-b:lose=100"), Ok((ten, EventSide::AToB, Change::Lose(100))));
        assert_eq!(
            event("10s:b-to-a:rate=1G"),
            Ok((ten, EventSide::BToA, Change::Rate(Rate::from_bps(1_000_000_000))))
        );
        assert_eq!(
            event("10s:cross=4G/10s"),
            Ok((
                ten,
                EventSide::Both,
                Change::Cross(Rate::from_bps(4_000_000_000), Some(Span::from_secs(10)))
            ))
        );
        assert_eq!(
            event("10s:burst=64MiB"),
            Ok((ten, EventSide::Both, Change::Burst(Bytes::mib(64))))
        );
        for wrong in [
            "outage=2s",
            "10:outage=2s",
            "10s:pause=2s",
            "10s:c-to-d:lose=1",
            "10s:rate=0G",
            "10s:outage",
            "10s:lose=-1",
        ] {
            assert!(event(wrong).is_err(), "{wrong}");
        }
    }
}
