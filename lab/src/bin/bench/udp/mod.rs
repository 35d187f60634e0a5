//! UDT: its machines in virtual time, and what of them is true between real ends.

mod end;
mod known;
mod link;
mod simulated;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    how: How,
}

#[derive(clap::Subcommand)]
enum How {
    /// The machines over the link's machine, in virtual time: throughput by loss and round trip,
    /// and how fairly flows share
    Simulated(simulated::Options),
    /// On the link, next to libudt's ends and to TCP
    Link(link::Options),
    /// Copies over a path that the last one measured, next to such as over any path
    Known(known::Options),
    /// One end of a connection, which the others start
    #[command(hide = true)]
    End(end::Options),
}

/// Measures and prints.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.how {
        How::Simulated(options) => simulated::run(options),
        How::Link(options) => link::run(options),
        How::Known(options) => known::run(options),
        How::End(options) => end::run(options),
    }
}
