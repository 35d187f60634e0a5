//! Holds the planner and the model against grids: simulated in full, and measured on the emulated
//! link cell by cell.

mod drawn;

use crate::side::{binary, json};
use crate::table::median;
use anyhow::{Context, Result};
use farline_core::units::Rng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    how: How,
}

#[derive(clap::Subcommand)]
enum How {
    /// What the plan chooses next to every control with 1 to 20 streams, simulated with seeds that
    /// the planner has not seen: minutes of processor time
    Simulated,
    /// The plan's cell, the 5 best simulated and 5 random ones, measured once each: ten minutes
    Link(Measured),
    /// Plans for paths drawn at random, by a probe and by the model, next to copies over the link:
    /// half an hour
    Drawn(drawn::Options),
}

#[derive(clap::Args)]
struct Measured {
    #[arg(long, default_value = "1G")]
    rate: String,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// What the plan is for
    #[arg(long, default_value = "2GB")]
    size: String,
    /// Of each path in turn
    #[arg(long, default_value = "0,1e-5,1e-4,0")]
    losses: String,
    /// Of the random cells
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const PATHS: [&str; 4] = ["usn-0.2", "usn-1400", "usn-6600", "usn-8600"];
const CONTROLS: &str = "reno,cubic,bic,htcp,highspeed,scalable,vegas,bbr";
/// A plan so far below the best is still good.
const GOOD: f64 = 0.10;
/// A seed that the planner has not seen.
const SEED: &str = "100";

/// A control, and so many streams of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    congestion: String,
    streams: u64,
}

impl Cell {
    fn of(value: &Value) -> Result<Cell> {
        let congestion = value["congestion"].as_str().context("a control")?.to_owned();
        Ok(Cell { congestion, streams: value["streams"].as_u64().context("streams")? })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>2} x {:<9}", self.streams, self.congestion)
    }
}

/// Gbit/s by cell.
type Grid = BTreeMap<Cell, f64>;

/// Prints the comparison.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.how {
        How::Simulated => simulated(),
        How::Link(measured) => link(measured),
        How::Drawn(options) => drawn::run(options),
    }
}

fn farline(arguments: &[&str]) -> Result<Value> {
    json(farline_lab::command(binary()).args(["--json", "-q"]).args(arguments))
}

/// Means of a profile's valid repetitions.
fn grid(profile: &Value) -> Result<Grid> {
    let mut means = Grid::new();
    for cell in profile["cells"].as_array().context("cells")? {
        let valid = cell["repetitions"].as_array().context("repetitions")?.iter();
        let valid = valid.filter(|repetition| repetition.get("invalid").is_none());
        let rates: Vec<f64> =
            valid.filter_map(|one| one["whole"]["receiver_bps"].as_f64()).collect();
        if !rates.is_empty() {
            let mean = rates.iter().sum::<f64>() / rates.len() as f64 / 1e9;
            means.insert(Cell::of(&cell["cell"])?, mean);
        }
    }
    Ok(means)
}

/// The cells of a grid, the fastest first.
fn by_rate(grid: &Grid) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = grid.keys().collect();
    cells.sort_by(|a, b| grid[*b].total_cmp(&grid[*a]));
    cells
}

/// What the plan chooses, and the seconds that it says it takes.
fn planned(path: &str, size: &str, loss: &str, more: &[&str]) -> Result<(Cell, f64)> {
    let asked = ["plan", path, "--size", size, "--loss", loss, "--mtu", "9000"];
    let plan = farline(&[&asked[..], &["--congestion", CONTROLS], more].concat())?;
    Ok((Cell::of(&plan)?, plan["seconds"].as_f64().context("seconds")?))
}

fn simulated() -> Result<()> {
    println!("the plan's cell next to all 8 controls x 20 numbers of streams, with other seeds");
    let mut worst = 0.0f64;
    for path in PATHS {
        for loss in ["0", "1e-5", "1e-4"] {
            // A step over the shortest path is a hundred times shorter: it gets two seconds, seven
            // thousand round trips.
            let size = if path == "usn-0.2" { "2.3GB" } else { "50GB" };
            let (chosen, seconds) = planned(path, size, loss, &[])?;
            let seconds = format!("{:.1}", seconds.max(2.0));
            let asked = ["profile", "--simulate", "--link", path, "--loss", loss, "--mtu", "9000"];
            let cells = ["--congestion", CONTROLS, "--streams", "1-20", "--repetitions", "1"];
            let length = ["--seconds", &seconds, "--seed", SEED];
            let grid = grid(&farline(&[&asked[..], &cells, &length].concat())?)?;
            let best = by_rate(&grid)[0];
            let ours = *grid.get(&chosen).with_context(|| format!("{chosen} in the grid"))?;
            let short = 1.0 - ours / grid[best];
            worst = worst.max(short);
            println!(
                "{path:>8} loss {loss:>4}: plan {chosen} {ours:6.3} Gbit/s, best {best} {:6.3}: \
                 {:4.1} % below",
                grid[best],
                short * 100.0
            );
        }
    }
    let verdict = if worst <= GOOD { "within" } else { "NOT within" };
    println!("at worst {:.1} % below the best: {verdict} {:.0} %", worst * 100.0, GOOD * 100.0);
    Ok(())
}

fn link(options: &Measured) -> Result<()> {
    println!(
        "measured on the emulated link at {}, {} s each: the plan's cell, 5 best simulated, 5 random",
        options.rate, options.seconds
    );
    let mut rng = Rng::new(options.seed);
    let (mut off, mut short_by) = (Vec::new(), Vec::new());
    for (path, loss) in PATHS.into_iter().zip(options.losses.split(',')) {
        let (chosen, _) = planned(path, &options.size, loss, &["--rate", &options.rate])?;
        let seconds = options.seconds.to_string();
        let axes = ["--link", path, "--loss", loss, "--mtu", "9000", "--seconds", &seconds];
        let axes = [&axes[..], &["--rate", &options.rate, "--repetitions", "1"]].concat();
        let all = ["--congestion", CONTROLS, "--streams", "1-20", "--seed", SEED];
        let grid = grid(&farline(&[&["profile", "--simulate"], &axes[..], &all].concat())?)?;
        let best: Vec<Cell> = by_rate(&grid).into_iter().take(5).cloned().collect();
        let mut asked = vec![chosen.clone()];
        asked.extend(best.into_iter().filter(|cell| *cell != chosen));
        let mut others: Vec<&Cell> = grid.keys().filter(|cell| !asked.contains(cell)).collect();
        for _ in 0..5.min(others.len()) {
            asked.push(others.swap_remove(rng.below(others.len() as u64) as usize).clone());
        }
        let mut measured = Grid::new();
        for cell in asked {
            let Some(found) = measure(&axes, &cell) else {
                println!("{path:>8} loss {loss:>4}: {cell} no valid repetition");
                continue;
            };
            let error = grid[&cell] / found - 1.0;
            println!(
                "{path:>8} loss {loss:>4}: {cell} predicted {:6.3}, measured {found:6.3}: \
                 {:+5.1} %{}",
                grid[&cell],
                error * 100.0,
                if cell == chosen { " (the plan's)" } else { "" }
            );
            off.push(error.abs());
            measured.insert(cell, found);
        }
        if let Some(ours) = measured.get(&chosen) {
            let top = by_rate(&measured)[0];
            let short = 1.0 - ours / measured[top];
            short_by.push(short);
            println!(
                "{path:>8} loss {loss:>4}: the plan's is {:.1} % below the best measured, {top}",
                short * 100.0
            );
        }
    }
    let cells = off.len();
    println!("prediction error, median of {cells} cells: {:.1} %", median(off)? * 100.0);
    let kept = short_by.iter().filter(|short| **short <= GOOD).count();
    println!(
        "the plan's cell is within {:.0} % of the best measured over {kept} of {} paths; over {} \
         it could not be measured",
        GOOD * 100.0,
        PATHS.len(),
        PATHS.len() - short_by.len()
    );
    Ok(())
}

/// What one cell brings; nothing where it failed: one cell less is not the end of ten minutes.
fn measure(axes: &[&str], cell: &Cell) -> Option<f64> {
    let streams = cell.streams.to_string();
    let one = ["--scale", "1", "--congestion", &cell.congestion, "--streams", &streams];
    match farline(&[&["profile"], axes, &one].concat()) {
        Ok(profile) => grid(&profile).ok()?.get(cell).copied(),
        Err(error) => {
            println!("{cell}: {error:#}");
            None
        }
    }
}
