//! `farline link`.

use crate::output::Output;
use farline_core::units::{Error, Fault};
use std::process::ExitCode;

/// Bring up, use and take down an emulated wide-area link.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> Result<ExitCode, Error> {
    Err(Error::new(Fault::Bug, "unbuilt", "this command is being built"))
}
