//! `--reserve`: a copy in a slot that is booked for it.

use crate::interrupt::Signals;
use crate::output::Output;
use crate::reserve::at::At;
use crate::reserve::{self, when};
use farline::booking::{
    BookingHandle, BookingNotice, BookingTerms, CopyBooking, CopyEnds, label, offer,
};
use farline::calendar::{now, timestamp};
use farline::client::{CancelToken, Location, Options, Progress, copy};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Time};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;
use std::ffi::OsStr;
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// What `--reserve` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReserveFlag {
    /// As it was written.
    text: String,
    /// Times as they were written: they are read when the command runs.
    start: Option<String>,
    by: Option<String>,
    volume: Option<Bytes>,
    terms: BookingTerms,
}

/// Reads `by=18:00,rate=2G` and its like.
pub(crate) fn reserve_flag(text: &str) -> Result<ReserveFlag, Error> {
    let wrong = |why: String| {
        Error::new(Fault::You, ErrorCode::Usage, why).hint(
            "KEY=VALUE, separated by commas: by, start, rate, volume, from, to; or id=r-17 alone",
        )
    };
    let mut flag = ReserveFlag { text: text.to_owned(), ..ReserveFlag::default() };
    let mut seen = Vec::new();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(wrong(format!("`{part}` is no KEY=VALUE")));
        };
        if seen.contains(&key) {
            return Err(wrong(format!("`{key}` is there twice")));
        }
        seen.push(key);
        let own = Some(value.to_owned());
        let quantity = |error: farline_core::units::ParseQuantityError| wrong(error.to_string());
        match key {
            "by" => flag.by = own,
            "start" => flag.start = own,
            "rate" => flag.terms.rate = Some(value.parse().map_err(quantity)?),
            "volume" => flag.volume = Some(value.parse().map_err(quantity)?),
            "from" => flag.terms.from = own,
            "to" => flag.terms.to = own,
            "id" => {
                let is_plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                if !is_plain {
                    return Err(wrong(format!("`{value}` is no reservation")));
                }
                flag.terms.id = own;
            }
            other => return Err(wrong(format!("there is no `{other}`"))),
        }
    }
    let others = ["by", "start", "rate", "volume"];
    if flag.terms.id.is_some() && others.iter().any(|key| seen.contains(key)) {
        return Err(wrong("id names what is booked already: nothing is to be said of it".into()));
    }
    Ok(flag)
}

impl ReserveFlag {
    fn terms(&self) -> Result<BookingTerms, Error> {
        let here = when::here();
        let read = |text: &Option<String>| text.as_ref().map(|t| when::read(t, &here)).transpose();
        Ok(BookingTerms { start: read(&self.start)?, by: read(&self.by)?, ..self.terms.clone() })
    }
}

/// How what can be had instead is had.
const OTHERWISE: &str = "--reserve with a later by=, a lower rate= or another start=; or book \
    with `farline reserve`, \
     and --reserve id=r-N";

/// The site of this host, where the environment names one.
pub(crate) fn site_here() -> Option<String> {
    std::env::var("FARLINE_SITE").ok().filter(|site| !site.is_empty())
}

/// Says what can be had instead of what was refused.
pub(crate) fn refused(error: Error, output: &Output) -> Result<ExitCode, Error> {
    reserve::refused(error, OTHERWISE, output)
}

/// `plan --reserve`: what would be booked for a copy of `size` to a node or a site, or back from
/// it.
#[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "`plan` goes with `profile`"))]
pub(crate) fn plan(
    flag: &ReserveFlag,
    what: &str,
    size: Bytes,
    is_back: bool,
    output: &Output,
) -> Result<ExitCode, Error> {
    let is_location = what.contains(':');
    let what = if is_location { what.to_owned() } else { format!("{what}:") };
    let node = Location::parse(OsStr::new(&what))?;
    let here = Location::Local("SOURCE".into());
    let (from, to, cp) = match is_back {
        true => (&node, &here, format!("{node} DESTINATION")),
        false => (&here, &node, format!("SOURCE {node}")),
    };
    let ends = CopyEnds::of(std::slice::from_ref(from), to, site_here())?;
    let found = match offer(At::default().address()?, &flag.terms()?, &ends, size) {
        Ok(found) => found,
        Err(error) => return refused(error, output),
    };
    let text = format!(
        "{size}: {} to {}, {} to {}, {} over {}, rtt {}; done about {}\n\
         by hand: farline cp --reserve {} {cp}",
        found.from,
        found.to,
        shown(found.slot.start),
        shown(found.slot.end),
        Rate::from_bps(found.leg.rate_bps),
        found.leg.route.join(" "),
        found.rtt,
        shown(found.ends),
        flag.text,
    );
    let document = json!({
        "schema": "farline/booking-offer/1", "from": found.from, "to": found.to, "leg": found.leg,
        "rtt_seconds": found.rtt.as_secs_f64(), "ends": timestamp(found.ends),
    });
    output.result(&document, text)?;
    Ok(ExitCode::SUCCESS)
}

/// A time for people.
fn shown(time: Time) -> String {
    let text = timestamp(time);
    when::shown(&when::whole_seconds(&text), &TimeZone::system())
}

/// What the result says of the booking.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BookingSummary {
    /// The reservation.
    id: String,
    /// What is booked, in bit/s.
    rate_bps: u64,
    /// How fast payload went at most, in bit/s.
    payload_bps: u64,
    /// When its slot began.
    start: String,
    /// When it was to end.
    end: String,
    /// When the circuit was up.
    ready: String,
    /// When the copy was predicted to end, as it began; where its size was known.
    predicted_end: Option<String>,
    /// When it ended.
    ended: String,
}

/// A copy's booking, whose circuit is up.
pub(crate) struct Booked {
    booking: Option<CopyBooking>,
    watched: Option<BookingHandle>,
    summary: BookingSummary,
}

/// What came of booking.
pub(crate) enum Begun {
    /// The circuit is up.
    Booked(Box<Booked>),
    /// Nothing is to be moved, and so nothing is booked.
    Nothing,
    /// A signal came; the exit code.
    Ended(u8),
}

/// Runs `work` in a thread of its own; a signal asks `cancel` to end it.
fn supervised<T: Send + 'static>(
    runtime: &Runtime,
    cancel: &CancelToken,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<Result<T, u8>, Error> {
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let working = tokio::task::spawn_blocking(work);
        tokio::pin!(working);
        let lost =
            |_| Error::new(Fault::Bug, ErrorCode::ThreadLost, "the booking's thread panicked");
        tokio::select! {
            done = &mut working => done.unwrap_or_else(|error| Err(lost(error))).map(Ok),
            code = signals.next() => {
                cancel.ask();
                // It sees that soon, and gives back what it booked; who asks twice does not wait.
                tokio::select! {
                    _ = working => {}
                    _ = signals.next() => {}
                }
                Ok(Err(code))
            }
        }
    })
}

/// How much a copy will move.
fn volume(
    runtime: &Runtime,
    sources: &[Location],
    destination: &Location,
    options: &Options,
) -> Result<Bytes, Error> {
    let mut dry = options.clone();
    dry.dry_run = true;
    let mut unwatched = |_: &Progress| {};
    let found = runtime.block_on(copy(sources, destination, &dry, &mut unwatched));
    let found = found.map_err(|error| match error.code {
        ErrorCode::Unsupported => error.hint("say how much it is: --reserve volume=40GB,by=18:00"),
        _ => error.while_doing("finding how much is to be booked"),
    })?;
    Ok(Bytes(found.planned.iter().map(|file| file.bytes).sum()))
}

/// Books for a copy, waits for its circuit, and has `options` go through it.
pub(crate) fn begin(
    flag: &ReserveFlag,
    sources: &[Location],
    destination: &Location,
    options: &mut Options,
    runtime: &Runtime,
    output: &Output,
) -> Result<Begun, Error> {
    let terms = flag.terms()?;
    let ends = CopyEnds::of(sources, destination, site_here())?;
    let address = At::default().address()?;
    let payload = match (flag.volume, &terms.id) {
        (Some(volume), _) => Some(volume),
        // What is booked is booked, however much goes through it.
        (None, Some(_)) => None,
        (None, None) => Some(volume(runtime, sources, destination, options)?),
    };
    if payload == Some(Bytes(0)) {
        return Ok(Begun::Nothing);
    }
    let label = label(sources, destination);
    let made = supervised(runtime, &options.cancel, move || {
        CopyBooking::make(address, &terms, &ends, payload.unwrap_or_default(), &label)
    })?;
    let mut booking = match made {
        Ok(booking) => booking,
        Err(code) => return Ok(Begun::Ended(code)),
    };
    let known = booking.reservation();
    let slot = booking.slot();
    let predicted = |booking: &CopyBooking| payload.map(|size| booking.predicted(size, now()));
    output.remark(format_args!(
        "{} is booked{}: {} to {}, {} to {}, {}{}",
        known.id,
        payload.map(|size| format!(" for {size}")).unwrap_or_default(),
        known.from,
        known.to,
        shown(slot.start),
        shown(slot.end),
        booking.rate(),
        predicted(&booking).map(|end| format!("; done about {}", shown(end))).unwrap_or_default(),
    ));
    let cancel = options.cancel.clone();
    let up =
        supervised(runtime, &options.cancel, move || booking.ready(&cancel).map(|()| booking))?;
    let mut booking = match up {
        Ok(booking) => booking,
        Err(code) => return Ok(Begun::Ended(code)),
    };
    booking.fit(options);
    let summary = BookingSummary {
        id: booking.reservation().id.clone(),
        rate_bps: booking.rate().as_bps(),
        payload_bps: booking.payload_rate().as_bps(),
        start: timestamp(booking.slot().start),
        end: timestamp(booking.slot().end),
        ready: timestamp(now()),
        predicted_end: predicted(&booking).map(timestamp),
        ended: String::new(),
    };
    Ok(Begun::Booked(Box::new(Booked { booking: Some(booking), watched: None, summary })))
}

impl Booked {
    /// Watches the copy's time; `say` prints a line.
    pub(crate) fn watch(
        &mut self,
        cancel: &CancelToken,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<(), Error> {
        let Some(booking) = self.booking.take() else { return Ok(()) };
        let id = booking.reservation().id.clone();
        let tell = move |notice: BookingNotice| say(&in_words(&id, &notice));
        self.watched = Some(booking.watch(cancel.clone(), tell)?);
        Ok(())
    }

    /// How far the copy is.
    pub(crate) fn on_progress(&self, progress: &Progress) {
        if let Some(watched) = &self.watched {
            watched.progress().update(progress);
        }
    }

    /// The copy is over. Returns what the result says, and why the booking ended it, if it did.
    pub(crate) fn end(mut self, is_well: bool) -> (BookingSummary, Option<Error>) {
        self.summary.ended = timestamp(now());
        let why = self.watched.take().and_then(|watched| watched.end(is_well));
        (self.summary, why)
    }
}

fn in_words(id: &str, notice: &BookingNotice) -> String {
    match notice {
        BookingNotice::Extended(end) => {
            format!("slower than booked: {id} ends at {} now", shown(*end))
        }
        BookingNotice::Late(late) => format!(
            "it will be late: done about {}, and {id} ends at {}; while there is time: farline \
             reserve change {id} --end {}",
            shown(late.ends),
            shown(late.slot_ends),
            when::whole_seconds(&timestamp(late.ends + late.ends.since(now()).mul_f64(0.1))),
        ),
        BookingNotice::Rate(rate, true) => {
            format!("{id} is booked at {rate} now, and so goes the copy")
        }
        BookingNotice::Rate(rate, false) => format!(
            "{id} is booked at {rate} now; the copy goes on as it began: its sender heeds no other"
        ),
        BookingNotice::Changed(slot) => format!("{id} ends at {} now", shown(slot.end)),
        BookingNotice::Calendar(Some(error)) => format!("the calendar is away: {error}"),
        BookingNotice::Calendar(None) => "the calendar is back".to_owned(),
        other => format!("{id}: {other:?}"),
    }
}

/// What is booked, in a line for the result.
pub(crate) fn line(summary: &BookingSummary) -> String {
    let rate = Rate::from_bps(summary.rate_bps);
    let end = when::shown(&when::whole_seconds(&summary.end), &TimeZone::system());
    format!("through {} at {rate}, which was booked until {end}", summary.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_names_a_deadline_or_a_reservation() {
        let flag = reserve_flag("by=FRI-18:00,rate=2G,to=chicago").expect("makes sense");
        assert_eq!(flag.by.as_deref(), Some("FRI-18:00"));
        assert_eq!(flag.terms.rate, Some(Rate::from_bps(2_000_000_000)));
        assert_eq!(flag.terms.to.as_deref(), Some("chicago"));
        let flag = reserve_flag("id=r-17,from=seattle").expect("makes sense");
        assert_eq!(flag.terms.id.as_deref(), Some("r-17"));
        for wrong in
            ["", "by", "by=", "by=1,by=2", "at=3", "rate=2", "id=r-17,by=18:00", "id=../x", "by=1,"]
        {
            let error = reserve_flag(wrong).expect_err(wrong);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::Usage), "{wrong}");
        }
    }
}
