//! UDT: its machines in virtual time, and what of them is true between real ends.

mod bulk;
mod copy;
mod cost;
mod end;
mod fair;
mod files;
mod flows;
mod held;
mod known;
mod link;
mod shares;
mod simulated;
mod truth;
mod wanphy;
mod watch;

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
    /// A booked rate, held from the first round trip on
    Held(held::Options),
    /// The machine in virtual time next to the real ends, by loss and round trip
    Truth(truth::Options),
    /// How flows of each kind share a path, next to the same in virtual time
    Fair(fair::Options),
    /// Processor time of a Gbit by each channel
    Cost(cost::Options),
    /// Figure 11 of the trans-European paper, next to TCP
    Wanphy(wanphy::Options),
    /// A file over a long path, the second time, against globus-url-copy
    Files(files::Options),
    /// QUIC channels against quinn with its own settings
    Bulk(bulk::Options),
    /// One end of a plain quinn connection, which the others start
    #[command(hide = true)]
    BulkEnd(bulk::End),
    /// What a device takes in, which the others start
    #[command(hide = true)]
    Watch(watch::Options),
    /// One end of a connection, which the others start
    #[command(hide = true)]
    End(end::Options),
    /// A copy that ends after so many seconds, which the others start
    #[command(hide = true)]
    Copy(copy::Options),
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
        How::Held(options) => held::run(options),
        How::Truth(options) => truth::run(options),
        How::Fair(options) => fair::run(options),
        How::Cost(options) => cost::run(options),
        How::Wanphy(options) => wanphy::run(options),
        How::Files(options) => files::run(options),
        How::Bulk(options) => bulk::run(options),
        How::BulkEnd(options) => bulk::end(options),
        How::Watch(options) => watch::run(options),
        How::End(options) => end::run(options),
        How::Copy(options) => copy::run(options),
    }
}
