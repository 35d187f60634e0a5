//! What a copy pays for a crowd before its node: how soon it begins, and at what rate it moves,
//! with and without, in turns.

use super::table::median;
use anyhow::{Context, Result};
use farline_lab::crowd::{Crowd, CrowdSize};
use farline_lab::{farline, json_of, node};
use serde_json::Value;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What each copy moves, in GiB, from memory to nothing
    #[arg(long, default_value_t = 4)]
    gib: u64,
    /// Copies of each side
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Instead of the crowd so many sessions that send headers of zeros alone
    #[arg(long)]
    zeroing: Option<usize>,
    /// Instead of the crowd so many sessions that send lists of ten million entries
    #[arg(long, conflicts_with = "zeroing")]
    listing: Option<usize>,
}

const ENTRIES: usize = 10_000_000;

fn size(options: &Options) -> CrowdSize {
    let nobody = CrowdSize::default();
    match (options.zeroing, options.listing) {
        (Some(zeroing), _) => CrowdSize { zeroing, ..nobody },
        (_, Some(listing)) => CrowdSize { listing, entries: ENTRIES, ..nobody },
        (None, None) => CrowdSize {
            silent: 2_000,
            half_open: 500,
            stalled: 58,
            dripping: 2,
            babbling: 2,
            ..nobody
        },
    }
}

/// Prints a row for each side.
///
/// # Errors
/// When a copy fails, or says no figure.
pub(crate) fn run(options: &Options) -> Result<()> {
    let size = size(options);
    let folder = tempfile::tempdir()?;
    let (_node, url) = node(folder.path(), "write", &["--tls", "--allow-null"]);
    let node = url.replacen("ftp", "farline", 1);
    let copy = || -> Result<(f64, f64)> {
        let (began, source) = (Instant::now(), format!("memory:{}GiB", options.gib));
        let said: Value =
            json_of(farline().args(["--json", "-q", "cp", &source, &format!("{node}/?null")]));
        let whole = began.elapsed().as_secs_f64();
        let moved = said["seconds"].as_f64().context("seconds")?;
        let first = said["first_byte_seconds"].as_f64().context("a first byte")?;
        let rate = said["rate_bps"].as_f64().context("a rate")?;
        Ok((whole - moved + first, rate))
    };
    let (mut alone, mut amid) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        alone.push(copy()?);
        let crowd = Crowd::gather(&url, size);
        amid.push(copy()?);
        drop(crowd);
    }
    println!("{size:?}\n\n| | first byte | rate |\n|---|---:|---:|");
    let middle = |runs: &[(f64, f64)]| -> Result<(f64, f64)> {
        Ok((median(runs.iter().map(|run| run.0))?, median(runs.iter().map(|run| run.1))?))
    };
    let (alone, amid) = (middle(&alone)?, middle(&amid)?);
    for (name, (first, rate)) in [("alone", alone), ("amid the crowd", amid)] {
        println!("| {name} | {:.0} ms | {:.2} Gbit/s |", first * 1e3, rate / 1e9);
    }
    println!("\nratio of the rates: {:.2} (asked: at least 0.90)", amid.1 / alone.1);
    Ok(())
}
