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

/// Copy what is new or changed in a folder; nothing is deleted
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder whose content is copied: a path, USER@HOST:PATH, farline:// or ftp://
    #[arg(value_name = "SRC")]
    source: OsString,
    /// The folder that is to hold it: the same
    #[arg(value_name = "DST")]
    destination: OsString,
    #[command(flatten)]
    how: cp::How,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let source = Location::parse(&args.source)?.content();
    let destination = Location::parse(&args.destination)?;
    let what = cp::What { recursive: true, existing: Existing::KeepSame };
    cp::carry_out(&[source], &destination, what, args.how, output)
}
