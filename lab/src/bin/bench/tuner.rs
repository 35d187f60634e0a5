//! The tuner over a grid of simulated paths: what it costs, and what it brings.

use anyhow::{Result, ensure};
use farline_core::units::{Bytes, Rate, Span};
use farline_lab::tuner::{TunedCopy, copy};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Copies over each path, with a seed of its own each
    #[arg(long, default_value_t = 3)]
    runs: u64,
    /// Seconds that a copy would take at the path's rate
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Say what was changed in each copy
    #[arg(long, short)]
    verbose: bool,
}

/// Mbit/s and milliseconds.
const PATHS: [(u64, u64); 6] = [(50, 20), (50, 160), (200, 10), (200, 80), (1000, 40), (1000, 5)];
const QUEUES: [f64; 7] = [0.05, 0.1, 0.2, 0.4, 1.0, 2.0, 4.0];
const LOSSES: [f64; 4] = [0.0, 1e-5, 1e-4, 1e-3];

pub(crate) fn run(options: &Options) -> Result<()> {
    println!("| path | queue | loss | channels | as it began | tuned | ratio | |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    let (mut worst, mut all, mut slower) = (0.0_f64, 0, 0);
    for (mbps, ms) in PATHS {
        let (rate, rtt) = (Rate::from_bps(mbps * 1_000_000), Span::from_millis(ms));
        for loss in LOSSES {
            for queue in QUEUES {
                for channels in [1, 4] {
                    let (mut plain, mut tuned, mut said) = (0.0, 0.0, Vec::new());
                    for seed in 1..=options.runs {
                        let size = Bytes(rate.as_bps() / 8 * options.seconds);
                        let one = TunedCopy { rate, rtt, queue, loss, size, channels, seed };
                        plain += copy(&one, false).took.as_secs_f64();
                        let finished = copy(&one, true);
                        tuned += finished.took.as_secs_f64();
                        said = finished.changes;
                    }
                    let ratio = tuned / plain;
                    worst = worst.max(ratio);
                    all += 1;
                    slower += usize::from(ratio > 1.03);
                    let runs = options.runs as f64;
                    let mark = if ratio > 1.03 { "slower" } else { "" };
                    println!(
                        "| {rate} x {rtt} | {queue} | {loss:.0e} | {channels} | {:.2} s | {:.2} s | \
                         {ratio:.3} | {mark} |",
                        plain / runs,
                        tuned / runs
                    );
                    if options.verbose {
                        said.iter().for_each(|(at, why)| println!("    {at}: {why}"));
                    }
                }
            }
        }
    }
    println!("\n{slower} of {all} more than 3 % slower; the worst takes {worst:.3} times as long");
    ensure!(slower == 0, "the tuner made copies slower");
    Ok(())
}
