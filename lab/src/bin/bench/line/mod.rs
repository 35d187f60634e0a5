//! The line tester: its figures in virtual time, where the truth is put in on purpose, and what it
//! holds between two namespaces next to iperf3.

mod delay;
mod endurance;
mod raw;
mod searches;
mod simulated;
mod speed;
mod truth;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    how: How,
}

#[derive(clap::Subcommand)]
enum How {
    /// One-way delays against the account of the link
    Delay(delay::Options),
    /// An hour over a link, with either end killed every five minutes
    Endurance(endurance::Options),
    /// Ethernet frames a second over a veth pair, next to trafgen
    Raw(raw::Options),
    /// Intervals and decisions over the link's machine, in virtual time
    Simulated(simulated::Options),
    /// Frames a second over a veth pair, next to iperf3, and what comparing every bit costs
    Speed(speed::Options),
    /// Links whose bit error or loss ratio is known: how often it lies in the interval
    Truth(truth::Options),
}

/// Measures and prints.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.how {
        How::Delay(options) => delay::run(options),
        How::Endurance(options) => endurance::run(options),
        How::Raw(options) => raw::run(options),
        How::Simulated(options) => {
            simulated::run(options);
            Ok(())
        }
        How::Speed(options) => speed::run(options),
        How::Truth(options) => truth::run(options),
    }
}
