//! The calendar's figures: exactness, speed, what is admitted, and what a crash costs.

mod admitted;
mod crash;
mod exact;
mod speed;

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
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    Exact,
    Speed,
    Admitted,
    Crash,
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
    Ok(())
}
