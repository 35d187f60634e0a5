//! Measures Farline against real peers on this machine and prints a table: `cargo xtask bench`.
//!
//! Sides of a comparison run in turns, so that a noisy minute strikes each of them, and each figure
//! is a ratio of medians of one run. All rows need a quiet machine, and root but for `memory`.

mod calendar;
mod causes;
mod crowd;
mod line;
mod link;
mod mover;
mod outages;
mod plan;
mod side;
mod table;
mod tuner;
mod udp;
mod verbs;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Measures Farline against real peers on this machine")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The calendar: what is admitted, how fast, how exact, and what a crash costs
    Calendar(calendar::Options),
    /// The mover against iperf3 and globus-url-copy
    Mover(mover::Options),
    /// The emulated link: what one stream of iperf3 brings, and how late packets are
    Link(link::Options),
    /// The line tester: in virtual time, and frames a second next to iperf3
    Line(line::Options),
    /// The planner and the model against grids, simulated or measured on the link
    Plan(plan::Options),
    /// Copies held back on purpose, and what they say held them back
    Causes(causes::Options),
    /// Copies through outages of path and node, and more at once than a node takes: ten minutes
    Outages(outages::Options),
    /// A copy amid thousands of connections that do nothing, against one alone
    Crowd(crowd::Options),
    /// The tuner over a grid of simulated paths, against copies left as they began
    Tuner(tuner::Options),
    /// UDT: its machines in virtual time, and against libudt on the link
    Udp(udp::Options),
    /// The RDMA channel against perftest and TCP, in a guest with two devices
    Verbs(verbs::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().what {
        What::Calendar(options) => calendar::run(&options),
        What::Mover(options) => mover::run(&options),
        What::Link(options) => link::run(&options),
        What::Line(options) => line::run(&options),
        What::Plan(options) => plan::run(&options),
        What::Causes(options) => causes::run(&options),
        What::Outages(options) => outages::run(&options),
        What::Crowd(options) => crowd::run(&options),
        What::Tuner(options) => tuner::run(&options),
        What::Udp(options) => udp::run(&options),
        What::Verbs(options) => verbs::run(&options),
    }
}
