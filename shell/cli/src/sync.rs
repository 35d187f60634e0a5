//! `farline sync`: make a folder hold what another one holds.

use crate::cp;
use crate::output::Output;
use farline::client::{Existing, Location};
use farline_core::units::Error;
use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline sync run7 dtn2.example.org:/data/run7
  farline sync --dry-run --exclude '*.tmp' farline://dtn2.example.org/run7 run7";

/// Copy what is new or changed; --delete removes the rest
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A folder: its path, USER@HOST:PATH, farline: or ftp: URL
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The folder that is to hold it: the same
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Delete what the source does not have [default: no]
    #[arg(long)]
    delete: bool,
    /// Delete no more than this [default: all of it]
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    #[command(flatten)]
    how: cp::How,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let source = Location::parse(&args.source)?.content();
    let destination = Location::parse(&args.destination)?;
    let most_deleted = args.delete.then_some(args.max_delete.unwrap_or(u64::MAX));
    let what = cp::What { recursive: true, existing: Existing::KeepSame, most_deleted };
    cp::carry_out(&[source], &destination, what, args.how, output)
}
