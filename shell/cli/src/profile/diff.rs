//! `farline profile diff`: two profiles next to each other, with a test of significance.

use super::print::named;
use super::read;
use crate::output::Output;
use farline_core::profile::{Difference, diff};
use farline_core::report::wrapped;
use farline_core::units::Error;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Example:
  farline profile diff before.json after.json

A cell differs when Welch's p is below the level after Holm's correction for
all cells; p of the permutation test stands next to it. `-` is no test: Welch's
needs two valid repetitions of a cell in each profile, the other one four.
Scaled profiles are compared at the full rate.";

/// What is left of 80 columns for a cell's name.
const NAME: usize = 29;

/// Say which cells of two profiles differ by more than chance
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A profile's document
    a: PathBuf,
    /// Another one's
    b: PathBuf,
    /// The probability at which a difference counts
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    level: f64,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let found = diff(&read(&args.a)?, &read(&args.b)?, args.level)?;
    output.result(&found, text(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn text(found: &Difference) -> String {
    let mut lines: Vec<String> = found
        .settings
        .iter()
        .flat_map(|words| wrapped(&format!("set differently: {words}")))
        .collect();
    lines.push(format!(
        "{:<NAME$} {:>8} {:>8} {:>8} {:>7} {:>7}",
        "Gbit/s", "first", "second", "change", "Welch", "perm."
    ));
    let p = |comparison: Option<farline_core::statistics::Comparison>| {
        comparison.map_or_else(|| "-".to_owned(), |found| format!("{:.4}", found.p))
    };
    for cell in &found.cells {
        let change =
            if cell.a.mean == 0.0 { 0.0 } else { (cell.b.mean / cell.a.mean - 1.0) * 100.0 };
        let figures = format!(
            "{:>8.3} {:>8.3} {change:>+7.1}% {:>7} {:>7}{}",
            cell.a.mean / 1e9,
            cell.b.mean / 1e9,
            p(cell.welch),
            p(cell.permutation),
            if cell.significant { "  differs" } else { "" }
        );
        lines.extend(named(&cell.cell, NAME, &figures));
    }
    let count = found.cells.iter().filter(|cell| cell.significant).count();
    let (tested, all) = (found.tested, found.cells.len());
    lines.extend(wrapped(&match tested {
        0 => format!(
            "none of {all} cells could be tested: a test needs two valid repetitions of \
            a cell in each profile"
        ),
        _ => format!(
            "{tested} of {all} cells could be tested, of which {count} differ at {}",
            found.level
        ),
    }));
    if found.without_valid > 0 {
        lines.push(format!(
            "{} cells more have no valid repetition in one of the two",
            found.without_valid
        ));
    }
    if found.only_in_one > 0 {
        lines.push(format!("{} cells are in only one", found.only_in_one));
    }
    lines.join("\n")
}
