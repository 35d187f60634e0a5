//! UDT's machine in virtual time next to the real ends over the link, by loss and round trip: the
//! same bytes, and how long they take.

use super::link::pair;
use crate::side::Ends;
use crate::table::{heading, median, row};
use anyhow::Result;
use farline_core::udt::RateAlgorithm;
use farline_core::udt::sim::{UdtFlow, UdtScenario, UdtSimulation};
use farline_core::units::{Bytes, Rate, Span, Time};
use std::path::Path;

const LOSSES: [f64; 4] = [0.0, 1e-5, 1e-4, 1e-3];
const RTTS: [u64; 3] = [1_000, 26_800, 163_000];
/// Packets of the link.
const PACKET: u32 = 9_000;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The link's rate
    #[arg(long, default_value = "400M")]
    rate: Rate,
    /// Of each run, as the machine has it
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// A host of the machine that has slept wakes at multiples of this: what the link's packets are
    /// late by, so that they come together as they do here
    #[arg(long, default_value = "300us")]
    wakes: Span,
    /// Real runs of each cell, and ten times as many in virtual time
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Prints a row for each cell.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    heading(&format!(
        "UDT over {}, packets of {PACKET} bytes: real ends, and the machine whose hosts wake every {}",
        options.rate, options.wakes
    ));
    let mut worst: f64 = 1.0;
    for rtt in RTTS.map(Span::from_micros) {
        for loss in LOSSES {
            let long = simulated(options, rtt, loss, Bytes(1 << 40), 1, options.seconds).0;
            let bytes = Bytes((long * options.seconds / 8.0) as u64);
            let rates = (1..=options.runs as u64 * 10)
                .map(|seed| simulated(options, rtt, loss, bytes, seed, 600.0).0);
            let machine = median(rates)?;
            let (rate, span) = (
                options.rate.as_bps().to_string() + "bit/s",
                format!("{}us", rtt.as_nanos() / 1_000),
            );
            let mut real = Vec::new();
            for seed in 0..options.runs {
                let (lost, seed) = (loss.to_string(), seed.to_string());
                let path = ["--rate", &rate, "--rtt", &span, "--loss", &lost, "--seed", &seed];
                let ends = Ends::over("custom", &path)?;
                real.push(pair(&ends, Path::new(""), true, true, bytes.0, "udt")?.rate);
            }
            let real = median(real)?;
            let ratio = real / machine;
            worst = if (ratio - 1.0).abs() > (worst - 1.0).abs() { ratio } else { worst };
            let label = format!(
                "rtt {rtt}, loss {loss:e}: {:.0} Mbit/s, machine {:.0}",
                real / 1e6,
                machine / 1e6
            );
            row(&label, &format!("x {ratio:.2}"), "within 10 %");
        }
    }
    row("furthest apart", &format!("x {worst:.2}"), "within 10 %");
    Ok(())
}

/// Bit/s of `bytes` in virtual time, or of what came in `seconds`.
fn simulated(
    options: &Options,
    rtt: Span,
    loss: f64,
    bytes: Bytes,
    seed: u64,
    seconds: f64,
) -> (f64, f64) {
    // As the end that is measured has it: 128 MiB.
    let flow = UdtFlow { room: (128 << 20) / 1_500, ..UdtFlow::of(RateAlgorithm::Native, bytes) };
    let mut scenario = UdtScenario::new(options.rate, rtt, vec![flow]);
    scenario.directions.0.loss = loss;
    scenario.directions.1.loss = loss;
    (scenario.packet_len, scenario.seed) = (PACKET, seed);
    scenario.wakes_every = options.wakes;
    let mut simulation = UdtSimulation::new(&scenario);
    simulation.run(Span::from_secs_f64(seconds));
    let ended = simulation.ended(0)[1].map_or(simulation.now(), |(_, at)| at);
    let took = ended.since(Time::ZERO).as_secs_f64();
    (simulation.received(0).0 as f64 * 8.0 / took, took)
}
