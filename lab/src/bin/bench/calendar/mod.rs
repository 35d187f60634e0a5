//! The calendar's figures: exactness, speed, what is admitted, what a crash costs, how punctual
//! circuits are, what a copy gains by one, and what other people's clients find.

mod admitted;
mod crash;
mod exact;
mod interface;
mod outside;
mod punctual;
mod speed;
mod transfer;

use anyhow::Result;
use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct Options {
    /// Which row; all when none is named
    #[arg(value_enum)]
    rows: Vec<Row>,
    /// Operations of `exact`
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Requests of `exact` over HTTPS, by 64 clients at once
    #[arg(long, default_value_t = 6_400)]
    requests: u64,
    /// Reservations up to which `speed` grows
    #[arg(long, default_value_t = 1_000_000)]
    reservations: usize,
    /// Kills of `crash`
    #[arg(long, default_value_t = 1_000)]
    kills: u32,
    /// Reservations of `crash` when it starts again
    #[arg(long, default_value_t = 100_000)]
    restart: usize,
    /// Bookings of `punctual`
    #[arg(long, default_value_t = 200)]
    bookings: usize,
    /// Runs of `transfer`, booked and best-effort in turns
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How long `outside` asks, in seconds
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    Exact,
    Speed,
    Admitted,
    Crash,
    Punctual,
    Interface,
    Transfer,
    Outside,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |row| options.rows.is_empty() || options.rows.contains(&row);
    if wanted(Row::Admitted) {
        admitted::run();
    }
    if wanted(Row::Speed) {
        speed::run(options.reservations)?;
    }
    if wanted(Row::Exact) {
        exact::run(options.operations, options.requests)?;
    }
    if wanted(Row::Crash) {
        crash::run(options.kills, options.restart)?;
    }
    if wanted(Row::Outside) {
        outside::run(options.seconds)?;
    }
    if wanted(Row::Punctual) {
        punctual::run(options.bookings)?;
    }
    if wanted(Row::Interface) {
        interface::run()?;
    }
    if wanted(Row::Transfer) {
        transfer::run(options.runs)?;
    }
    Ok(())
}
