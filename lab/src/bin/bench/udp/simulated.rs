//! UDT's machines over the link's machine, in virtual time.

use crate::table::{gbit, heading};
use anyhow::{Context, Result};
use farline_core::statistics::jain;
use farline_core::udt::RateAlgorithm;
use farline_core::udt::sim::{UdtFlow, UdtScenario, UdtSimulation};
use farline_core::units::{Bytes, Rate, Span};

const LOSSES: [f64; 4] = [0.0, 1e-5, 1e-4, 1e-3];
const RTTS: [u64; 3] = [1_000, 26_800, 163_000];
/// More than any flow sends here.
const ENDLESS: Bytes = Bytes(1 << 50);
/// A held rate is so much of the link: what is lost is sent again.
const HELD: f64 = 0.95;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The link's rate
    #[arg(long, default_value = "1G")]
    rate: Rate,
    /// Of each flow, in virtual time
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// The longest packet in bytes, IP and UDP headers included
    #[arg(long, default_value_t = 1500)]
    packet: u32,
    /// Of losses and lots
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Prints both tables.
///
/// # Errors
/// When no flow brought anything.
pub(crate) fn run(options: &Options) -> Result<()> {
    let held = RateAlgorithm::Held(Rate::from_bps((options.rate.as_bps() as f64 * HELD) as u64));
    let controls = [RateAlgorithm::Native, held, RateAlgorithm::Bbr];
    heading(&format!(
        "UDT over {} in virtual time: bytes in order per second, {} s, packets of {} bytes",
        options.rate, options.seconds, options.packet
    ));
    println!("  {:<10} {:<8} {:>16} {:>22} {:>16}", "rtt", "loss", "udt", "held", "bbr");
    for rtt in RTTS.map(Span::from_micros) {
        for loss in LOSSES {
            let cells: Vec<String> =
                controls.map(|control| gbit(alone(options, control, rtt, loss))).into();
            println!(
                "  {:<10} {:<8} {:>16} {:>22} {:>16}",
                rtt.to_string(),
                if loss == 0.0 { "0".to_owned() } else { format!("{loss:e}") },
                cells[0],
                cells[1],
                cells[2]
            );
        }
    }
    heading("UDT flows that begin a second after each other: Jain's index of the last two thirds");
    println!(
        "  {:<8} {:<10} {:>10} {:>10} {:>24}",
        "control", "rtt", "two", "ten", "of ten, together"
    );
    for control in [RateAlgorithm::Native, RateAlgorithm::Bbr] {
        for rtt in RTTS.map(Span::from_micros) {
            let two = shares(options, control, rtt, 2);
            let ten = shares(options, control, rtt, 10);
            let index = |shares: &[f64]| jain(shares).context("no flow brought anything");
            println!(
                "  {:<8} {:<10} {:>10.3} {:>10.3} {:>24}",
                control.to_string(),
                rtt.to_string(),
                index(&two)?,
                index(&ten)?,
                gbit(ten.iter().sum())
            );
        }
    }
    Ok(())
}

fn scenario(options: &Options, rtt: Span, loss: f64, flows: Vec<UdtFlow>) -> UdtScenario {
    let mut scenario = UdtScenario::new(options.rate, rtt, flows);
    scenario.directions.0.loss = loss;
    (scenario.packet_len, scenario.seed) = (options.packet, options.seed);
    scenario
}

/// A flow whose receiver has room for four bandwidth-delay products.
fn flow(options: &Options, control: RateAlgorithm, rtt: Span) -> UdtFlow {
    let packets = options.rate.bytes_in(rtt).0 / u64::from(options.packet);
    let room = u32::try_from(packets * 4).unwrap_or(u32::MAX).max(25_600);
    UdtFlow { room, ..UdtFlow::of(control, ENDLESS) }
}

/// What one flow brings, in bit/s.
fn alone(options: &Options, control: RateAlgorithm, rtt: Span, loss: f64) -> f64 {
    let flows = vec![flow(options, control, rtt)];
    let mut simulation = UdtSimulation::new(&scenario(options, rtt, loss, flows));
    simulation.run(Span::from_secs_f64(options.seconds));
    simulation.received(0).0 as f64 * 8.0 / options.seconds
}

/// What each of `count` flows brings in the last two thirds, in bit/s.
fn shares(options: &Options, control: RateAlgorithm, rtt: Span, count: u64) -> Vec<f64> {
    let seconds = options.seconds.max(1.5 * count as f64);
    let begins = |index| UdtFlow { after: Span::from_secs(index), ..flow(options, control, rtt) };
    let flows: Vec<UdtFlow> = (0..count).map(begins).collect();
    let mut simulation = UdtSimulation::new(&scenario(options, rtt, 0.0, flows));
    let received = |simulation: &UdtSimulation| -> Vec<u64> {
        (0..count as usize).map(|index| simulation.received(index).0).collect()
    };
    // The last has begun by then.
    let early = count as f64 + seconds / 3.0;
    simulation.run(Span::from_secs_f64(early));
    let before = received(&simulation);
    simulation.run(Span::from_secs_f64(count as f64 + seconds));
    let after = received(&simulation);
    let over = seconds * 2.0 / 3.0;
    before.iter().zip(after).map(|(before, after)| (after - before) as f64 * 8.0 / over).collect()
}
