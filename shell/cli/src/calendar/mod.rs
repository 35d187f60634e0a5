//! `farline calendar`: the service that bandwidth is booked from, its tokens and its maintenance.

mod serve;
mod token;

use crate::output::Output;
use crate::reserve::at::At;
use crate::reserve::when;
use clap::Subcommand;
use farline::booking::fresh_key;
use farline::calendar::wire::{CloseDocument, ClosureDocument};
use farline::calendar::{Ledger, open_ledger, timestamp};
use farline::database::DatabaseAddress;
use farline_core::units::Error;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where a calendar keeps what survives.
#[derive(clap::Args)]
struct LedgerArgs {
    /// The calendar's state folder, where there is no --database [default: none]
    #[arg(long, value_name = "DIR", required_unless_present = "database")]
    state: Option<PathBuf>,
    /// Its database, if that is in PostgreSQL [default: SQLite in the folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl LedgerArgs {
    fn open(&self) -> Result<Ledger, Error> {
        let url = self.database.as_deref().map(str::parse::<DatabaseAddress>).transpose()?;
        open_ledger(self.state.as_deref().unwrap_or(Path::new(".")), url.as_ref())
    }
}

/// Run a calendar: bandwidth by appointment
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  farline calendar serve --state /var/lib/farline
  farline calendar token add ada --project climate --endpoints '*' --state /var/lib/farline
  farline reserve oak-ridge sunnyvale --rate 2G --start 18:00 --for 2h")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Serve(serve::Args),
    Token(token::Args),
    /// Check the chain of the log, and that nobody changed the database by hand
    #[command(after_help = "Example:\n  farline calendar verify --state /var/lib/farline")]
    Verify {
        #[command(flatten)]
        ledger: LedgerArgs,
    },
    /// Close a link for maintenance; moves what can be moved
    #[command(after_help = "\
Example:
  farline calendar close 'oak-ridge>chicago/1' --start SAT-06:00 --end SAT-10:00")]
    Close {
        /// One direction of the link, as `FROM>TO` or `FROM>TO/NAME`; both are closed
        link: String,
        /// From [default: now]
        #[arg(long, value_name = "TIME")]
        start: Option<String>,
        /// Until
        #[arg(long, value_name = "TIME")]
        end: String,
        /// What is done there [default: none]
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        at: At,
    },
    /// Take a closure back
    #[command(after_help = "Example:\n  farline calendar reopen 3")]
    Reopen {
        /// Its number
        closure: u64,
        #[command(flatten)]
        at: At,
    },
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match args.action {
        Action::Serve(args) => return serve::run(args, output),
        Action::Token(args) => token::run(args, output)?,
        Action::Verify { ledger } => {
            let (entries, hash) = ledger.open()?.verify()?;
            let document =
                json!({ "schema": "farline/calendar-verify/1", "entries": entries, "hash": hash });
            output.result(&document, format!("{entries} entries, whole; the last is {hash}"))?;
        }
        Action::Close { link, start, end, reason, at } => {
            let now = when::here();
            let start = start.map(|text| when::read(&text, &now)).transpose()?.map(timestamp);
            let end = timestamp(when::read(&end, &now)?);
            let close = CloseDocument { link, start, end, reason };
            let closed: ClosureDocument =
                at.client()?.post("/v1/closures", &close, Some(&fresh_key()))?;
            let mut text = format!("closure {} of {}", closed.id, closed.link);
            for (list, word) in
                [(&closed.moved, "moved"), (&closed.stranded, "cut, nothing is free")]
            {
                if !list.is_empty() {
                    text += &format!("\n  {word}: {}", list.join(" "));
                }
            }
            output.result(&closed, text)?;
        }
        Action::Reopen { closure, at } => {
            let path = format!("/v1/closures/{closure}/reopen");
            let opened: serde_json::Value = at.client()?.post(&path, &(), None)?;
            output.result(&opened, format!("closure {closure} is taken back"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
