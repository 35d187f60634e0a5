//! `farline reserve`: bandwidth by appointment, from a calendar.

pub(crate) mod at;
mod show;
pub(crate) mod when;

use crate::output::Output;
use at::At;
use clap::Subcommand;
use farline::booking::fresh_key;
use farline::calendar::wire::{
    ChangeDocument, CircuitsDocument, EventDocument, FoundDocument, ProblemDocument,
    RefusalDocument, ReservationDocument, ReservationsDocument, ReserveDocument, SearchDocument,
};
use farline::calendar::{Refused, timestamp};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::Serialize;
use std::error::Error as _;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  farline reserve oak-ridge sunnyvale --rate 2G --start 18:00 --for 2h
  farline reserve oak-ridge chicago --volume 40TB --by FRI-18:00

Times are local: 18:00 is the next, +2h from now. More flags: docs/calendar.md.";

/// Book bandwidth between two sites, from a calendar
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    book: Book,
}

#[derive(clap::Args)]
struct Book {
    /// The site where it begins
    #[arg(required = true, hide = true)]
    from: Option<String>,
    /// The site where it ends
    #[arg(required = true, hide = true)]
    to: Option<String>,
    /// The rate, such as 2G [default: the highest]
    #[arg(long)]
    rate: Option<Rate>,
    /// When it begins, such as 18:00 or FRI-18:00 [default: now]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// How long, such as 2h [default: none]
    #[arg(long = "for", value_name = "TIME", conflicts_with_all = ["end", "volume"])]
    length: Option<Span>,
    /// When it ends [default: none]
    #[arg(long, value_name = "TIME", conflicts_with = "volume")]
    end: Option<String>,
    /// To be moved as early as can be [default: none]
    #[arg(long, value_name = "SIZE")]
    volume: Option<Bytes>,
    /// Deadline of --volume or --first [default: none]
    #[arg(long, value_name = "TIME")]
    by: Option<String>,
    /// For --volume: rate and route may change over time
    #[arg(long, requires = "volume", hide = true)]
    variable: bool,
    /// For --volume: over several routes at once
    #[arg(long, requires = "volume", hide = true)]
    several: bool,
    /// The first slot with this rate and length
    #[arg(long, requires_all = ["rate", "length"], conflicts_with = "volume")]
    first: bool,
    /// List all slots like this; book none
    #[arg(long, requires_all = ["rate", "length"], conflicts_with_all = ["first", "volume"])]
    search: bool,
    /// One direction alone
    #[arg(long, hide = true)]
    one_way: bool,
    /// Only hold it so long, as 2min [default: book]
    #[arg(long, value_name = "TIME")]
    hold: Option<Span>,
    /// If refused, book this alternative [default: none]
    #[arg(long, value_name = "KIND")]
    take: Option<String>,
    /// What you call it [default: none]
    #[arg(long, value_name = "TEXT", hide = true)]
    label: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Subcommand)]
enum Action {
    /// List your project's reservations
    #[command(alias = "list", after_help = "Example:\n  farline reserve ls --json")]
    Ls {
        #[command(flatten)]
        at: At,
    },
    /// Show one
    #[command(after_help = "Example:\n  farline reserve show r-17")]
    Show {
        /// Its number
        id: String,
        #[command(flatten)]
        at: At,
    },
    /// Change one in place: all of it, or nothing
    #[command(after_help = "Example:\n  farline reserve change r-17 --rate 3G --end 22:00")]
    Change {
        /// Its number
        id: String,
        /// Another rate [default: as it is]
        #[arg(long)]
        rate: Option<Rate>,
        /// Another start [default: as it is]
        #[arg(long, value_name = "TIME")]
        start: Option<String>,
        /// Another end [default: as it is]
        #[arg(long, value_name = "TIME")]
        end: Option<String>,
        #[command(flatten)]
        at: At,
    },
    /// Make a hold stand, and a circuit of it
    #[command(after_help = "Example:\n  farline reserve commit r-17")]
    Commit {
        /// Its number
        id: String,
        #[command(flatten)]
        at: At,
    },
    /// Take its circuit down, and keep the booking
    #[command(after_help = "Example:\n  farline reserve release r-17")]
    Release {
        /// Its number
        id: String,
        #[command(flatten)]
        at: At,
    },
    /// End it, and give its bandwidth back
    #[command(after_help = "Example:\n  farline reserve cancel r-17")]
    Cancel {
        /// Its number
        id: String,
        #[command(flatten)]
        at: At,
    },
    /// Show what agents say of circuits
    #[command(after_help = "Example:\n  farline reserve circuits")]
    Circuits {
        #[command(flatten)]
        at: At,
    },
    /// Tell every change as it happens
    #[command(after_help = "Example:\n  farline reserve watch --after 120 --json")]
    Watch {
        /// Go on after this entry of the log [default: from now on]
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// End after so long without a change [default: never]
        #[arg(long, value_name = "TIME")]
        idle: Option<Span>,
        #[command(flatten)]
        at: At,
    },
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let Some(action) = args.action else { return book(args.book, output) };
    match action {
        Action::Ls { at } => {
            let reservations = at.client()?.reservations()?;
            let schema = "farline/reservations/1".to_owned();
            let whole = ReservationsDocument { schema, reservations, next: None };
            output.result(&whole, show::list(&whole.reservations))?;
        }
        Action::Show { id, at } => {
            let document = at.client()?.get(&format!("/v1/reservations/{}", plain(&id)?))?;
            told(&document, output)?;
        }
        Action::Change { id, rate, start, end, at } => {
            let now = when::here();
            let time = |text: Option<String>| {
                text.map(|text| when::read(&text, &now).map(timestamp)).transpose()
            };
            let change = ChangeDocument {
                rate_bps: rate.map(Rate::as_bps),
                start: time(start)?,
                end: time(end)?,
            };
            if change == ChangeDocument::default() {
                let message = "nothing is to be changed";
                return Err(Error::new(Fault::You, ErrorCode::Usage, message)
                    .hint("name --rate, --start or --end"));
            }
            let path = format!("/v1/reservations/{}", plain(&id)?);
            match at.client()?.patch(&path, &change, None) {
                Ok(document) => told(&document, output)?,
                Err(error) => return refused(error, CHANGE, output),
            }
        }
        Action::Commit { id, at } => {
            let mut client = at.client()?;
            let path = format!("/v1/reservations/{}", plain(&id)?);
            let _: ReservationDocument = client.post(&format!("{path}/commit"), &(), None)?;
            told(&client.post(&format!("{path}/provision"), &(), None)?, output)?;
        }
        Action::Release { id, at } => change_state(&id, "release", &at, output)?,
        Action::Cancel { id, at } => change_state(&id, "terminate", &at, output)?,
        Action::Circuits { at } => {
            let circuits: CircuitsDocument = at.client()?.get("/v1/circuits")?;
            output.result(&circuits, show::circuits(&circuits.circuits))?;
        }
        Action::Watch { after, idle, at } => watch(after, idle, &at, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A number as it may stand in a path.
fn plain(id: &str) -> Result<&str, Error> {
    if id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !id.is_empty() {
        return Ok(id);
    }
    Err(Error::new(Fault::You, ErrorCode::Usage, format!("`{id}` is no reservation"))
        .hint("such as r-17; `farline reserve ls` lists them"))
}

fn change_state(id: &str, verb: &str, at: &At, output: &Output) -> Result<(), Error> {
    let path = format!("/v1/reservations/{}/{verb}", plain(id)?);
    told(&at.client()?.post(&path, &(), None)?, output)
}

fn told(document: &ReservationDocument, output: &Output) -> Result<(), Error> {
    output.result(document, show::reservation(document))
}

impl Book {
    /// The problem that the flags describe.
    fn wanted(&self) -> Result<ProblemDocument, Error> {
        let you = |message: &str, hint: &str| {
            Err(Error::new(Fault::You, ErrorCode::Usage, message).hint(hint))
        };
        if (self.variable || self.several) && self.volume.is_none() {
            let message = "--variable and --several are for --volume";
            return you(message, "one route at one rate carries a slot");
        }
        let now = when::here();
        let read = |text: &String| when::read(text, &now);
        let start = self.start.as_ref().map(read).transpose()?;
        let by = self.by.as_ref().map(read).transpose()?;
        let start_text = start.map(timestamp);
        if let Some(volume) = self.volume {
            return Ok(ProblemDocument::Volume {
                volume_bytes: volume.0,
                start: start_text,
                end: by.map(timestamp),
                at_most_bps: self.rate.map(Rate::as_bps),
                variable: self.variable,
                several: self.several,
            });
        }
        if let (true, Some(rate), Some(length)) =
            (self.first || self.search, self.rate, self.length)
        {
            let (rate_bps, seconds) = (rate.as_bps(), length.as_secs_f64().ceil() as u64);
            let (start, end) = (start_text, by.map(timestamp));
            return Ok(match self.search {
                true => ProblemDocument::All { rate_bps, seconds, start, end },
                false => ProblemDocument::First { rate_bps, seconds, start, end },
            });
        }
        if by.is_some() {
            return you("--by is the deadline of --volume or --first", "for a fixed slot: --end");
        }
        let begin = match start {
            Some(start) => start,
            None => when::read("now", &now)?,
        };
        let end = match (&self.length, &self.end) {
            (Some(length), _) => begin + *length,
            (None, Some(end)) => read(end)?,
            (None, None) => {
                return you(
                    "it is not said how long",
                    "--for 2h, --end 20:00, or --volume 40TB --by FRI-18:00",
                );
            }
        };
        let (start, end) = (start_text, timestamp(end));
        Ok(match self.rate {
            Some(rate) => ProblemDocument::Fixed { rate_bps: rate.as_bps(), start, end },
            None => ProblemDocument::Highest { start, end, at_least_bps: None, at_most_bps: None },
        })
    }
}

fn book(args: Book, output: &Output) -> Result<ExitCode, Error> {
    let wanted = args.wanted()?;
    let (from, to) = (args.from.unwrap_or_default(), args.to.unwrap_or_default());
    let both_ways = Some(!args.one_way);
    let mut client = args.at.client()?;
    if args.search {
        let found: FoundDocument = client.post(
            "/v1/availability",
            &SearchDocument { from, to, wanted, both_ways },
            None,
        )?;
        let zone = jiff::tz::TimeZone::system();
        let line = |window: &farline::calendar::wire::WindowDocument| {
            let [start, end] = [&window.start, &window.end].map(|time| when::shown(time, &zone));
            format!("may start from {start} to {end}")
        };
        let lines: Vec<String> = found.starts.iter().map(line).collect();
        let text =
            if lines.is_empty() { "there is no such slot".to_owned() } else { lines.join("\n") };
        output.result(&found, text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let request = ReserveDocument {
        from,
        to,
        wanted,
        both_ways,
        label: args.label,
        hold_seconds: args.hold.map(|hold| hold.as_secs_f64().ceil() as u64),
        provision: None,
    };
    let error = match client.post("/v1/reservations", &request, Some(&fresh_key())) {
        Ok(document) => {
            told(&document, output)?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => error,
    };
    let refusal = refusal_of(&error);
    let chosen = args.take.as_ref().zip(refusal).and_then(|(kind, refusal)| {
        refusal.alternatives.iter().find(|alternative| alternative.kind == *kind)
    });
    let Some(chosen) = chosen else {
        let hint = match &args.take {
            Some(kind) => format!("none of them is `{kind}`: {TAKE}"),
            None => TAKE.to_owned(),
        };
        return refused(error, &hint, output);
    };
    let wanted = ProblemDocument::Legs { legs: chosen.legs.clone() };
    let request = ReserveDocument { wanted, ..request };
    match client.post("/v1/reservations", &request, Some(&fresh_key())) {
        Ok(document) => {
            told(&document, output)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => refused(error, TAKE, output),
    }
}

/// How an alternative is had, of what is booked and of what is changed.
const TAKE: &str = "the same command with --take KIND books one of them";
const CHANGE: &str = "the same command with the --rate, --start and --end of one of them";

fn refusal_of(error: &Error) -> Option<&RefusalDocument> {
    error.source()?.downcast_ref::<Refused>().map(|refused| &*refused.0)
}

/// A refusal as programs read it: the error, and the whole problem with its alternatives.
#[derive(Serialize)]
struct Refusal<'a> {
    schema: &'static str,
    error: &'a Error,
    refusal: &'a RefusalDocument,
}

/// Says what can be had instead, where that is known, and by `hint` how.
pub(crate) fn refused(error: Error, hint: &str, output: &Output) -> Result<ExitCode, Error> {
    let Some(refusal) = refusal_of(&error).filter(|refusal| !refusal.alternatives.is_empty())
    else {
        return Err(error);
    };
    if output.json() {
        let document = Refusal { schema: "farline/error/1", error: &error, refusal };
        output.result(&document, "")?;
        return Ok(ExitCode::from(error.fault.exit_code()));
    }
    let alternatives = show::alternatives(refusal);
    let mut error = error;
    error.message = format!("{}\n{alternatives}", error.message);
    Err(error.hint(hint))
}

fn watch(after: Option<u64>, idle: Option<Span>, at: &At, output: &Output) -> Result<(), Error> {
    let mut events = at.client()?.events(after)?;
    let timeout = idle.map_or(Duration::from_secs(3600), Duration::from);
    loop {
        match events.next(timeout)? {
            Some(event) => output.result(&event, line(&event))?,
            None if idle.is_some() => return Ok(()),
            None => {}
        }
    }
}

fn line(event: &EventDocument) -> String {
    let zone = jiff::tz::TimeZone::system();
    let what = match (&event.reservation, &event.closure) {
        (Some(known), _) => format!("{} {} to {}", known.id, known.from, known.to),
        (_, Some(closure)) => format!("link {} {}", closure.link, closure.reason),
        _ => String::new(),
    };
    let at = when::shown(&event.at, &zone);
    format!("{:>6}  {at}  {:<10} {what}  by {}", event.seq, event.verb, event.actor)
}
