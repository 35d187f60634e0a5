//! `farline serve`.

use crate::output::Output;
use farline_core::units::{Error, Fault};
use std::process::ExitCode;

/// Run a node: a GridFTP server for one directory tree.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> Result<ExitCode, Error> {
    Err(Error::new(Fault::Bug, "unbuilt", "this command is being built"))
}
