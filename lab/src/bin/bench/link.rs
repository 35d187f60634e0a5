//! What the link reaches on this machine: throughput of one CUBIC stream of iperf3, how late
//! packets are, and the share of valid runs.
//!
//! Before each run the same iperf3 runs over a plain veth pair: what the machine gave then without
//! the link, as on two cores that decides the result.

use crate::side::{Ends, iperf3};
use crate::table::median;
use anyhow::{Context, Result};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each row is repeated; 10 for the share of valid runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Path, rate, seconds measured, seconds left out before.
const ROWS: [(&str, &str, u32, u32); 4] = [
    ("usn-0.2", "10G", 8, 2),
    ("usn-1400", "10G", 10, 5),
    ("usn-8600", "10G", 20, 15),
    ("usn-1400", "1G", 10, 3),
];

struct Run {
    /// Gbit/s over the link, and over a plain veth pair before it.
    speed: f64,
    plain: f64,
    p50_us: f64,
    p99_us: f64,
    valid: bool,
    /// Share of all cores that others kept busy.
    others: f64,
}

/// Prints the table.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    println!(
        "{:<10}{:>5}{:>17}{:>7}{:>7}{:>7}{:>9}{:>13}{:>9}{:>7}{:>13}",
        "path",
        "rate",
        "Gbit/s (median)",
        "least",
        "most",
        "veth",
        "of veth",
        "late p50 us",
        "p99 us",
        "valid",
        "others busy"
    );
    for (path, rate, seconds, omit) in ROWS {
        let runs = std::iter::repeat_with(|| one(path, rate, seconds, omit))
            .take(options.runs)
            .collect::<Result<Vec<_>>>()?;
        let of = |figure: fn(&Run) -> f64| runs.iter().map(figure);
        println!(
            "{path:<10}{rate:>5}{:>17.2}{:>7.2}{:>7.2}{:>7.2}{:>8.0}%{:>13.0}{:>9.0}{:>4}/{:<2}{:>12.0}%",
            median(of(|run| run.speed))?,
            of(|run| run.speed).fold(f64::INFINITY, f64::min),
            of(|run| run.speed).fold(0.0, f64::max),
            median(of(|run| run.plain))?,
            median(of(|run| run.speed / run.plain))? * 100.0,
            median(of(|run| run.p50_us))?,
            median(of(|run| run.p99_us))?,
            runs.iter().filter(|run| run.valid).count(),
            runs.len(),
            of(|run| run.others).fold(0.0, f64::max) * 100.0,
        );
    }
    Ok(())
}

fn one(path: &str, rate: &str, seconds: u32, omit: u32) -> Result<Run> {
    let others = busy()?;
    let cubic = |ends: &Ends, seconds, omit| -> Result<f64> {
        Ok(iperf3(ends, seconds, omit, &["-C", "cubic"])?.rate / 1e9)
    };
    let plain = cubic(&Ends::veth()?, 3, 1)?;
    let ends = Ends::over(path, &["--rate", rate])?;
    let speed = cubic(&ends, seconds, omit)?;
    let stats = ends.stats()?.context("statistics of a link")?;
    let late = |name: &str| {
        stats["a_to_b"]["lateness"][name].as_f64().with_context(|| format!("{name} in {stats}"))
    };
    let (p50_us, p99_us) = (late("p50_us")?, late("p99_us")?);
    Ok(Run { speed, plain, p50_us, p99_us, valid: stats["valid"] == true, others })
}

/// Share of all cores that is busy while nothing of ours runs.
fn busy() -> Result<f64> {
    let read = || -> Result<(f64, f64)> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        // proc_stat(5): the fourth and fifth are idle and waiting for a disk.
        let fields = stat.lines().next().context("a line")?.split_whitespace().skip(1).take(8);
        let fields = fields.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        Ok((fields.iter().sum(), fields[3] + fields[4]))
    };
    let (before, idle_before) = read()?;
    std::thread::sleep(Duration::from_millis(500));
    let (after, idle_after) = read()?;
    Ok(1.0 - (idle_after - idle_before) / (after - before).max(1.0))
}
