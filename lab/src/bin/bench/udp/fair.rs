//! How flows of each kind share a path with their like and with TCP's CUBIC and BBR, and what one
//! that begins from what an earlier one saw takes from a flow that is there; next to it the same in
//! virtual time.

use super::flows::{Flow, Kind, together};
use super::shares::Shared;
use crate::side::{Ends, Node, binary, json};
use crate::table::{heading, median, row};
use anyhow::{Context, Result};
use farline_core::congestion::{Algorithm, SavedPath};
use farline_core::statistics::jain;
use farline_core::udt::RateAlgorithm;
use farline_core::units::{Bytes, Rate, Span};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Where the flow that another joins is taken.
const PORT: u16 = 5_310;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The link's rate
    #[arg(long, default_value = "400M")]
    rate: Rate,
    /// Its round trip
    #[arg(long, default_value = "26.8ms")]
    rtt: Span,
    /// Of each run
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Runs with a flow of TCP that another joins
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What the copies that join it go over
    #[arg(long, value_delimiter = ',', default_value = "udt,quic,tcp")]
    joins: Vec<String>,
    /// The controls of the flow that they join
    #[arg(long, value_delimiter = ',', default_value = "cubic")]
    present: Vec<Algorithm>,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let shared = Shared { rate: options.rate, rtt: options.rtt };
    let rate = format!("{}bit/s", options.rate.as_bps());
    let ends = Ends::over("custom", &["--rate", &rate, "--rtt", &options.rtt.to_string()])?;
    heading(&format!(
        "Flows over {} x {}, {} s: shares, Jain's index, all together; and the machines' in virtual \
         time",
        options.rate, options.rtt, options.seconds
    ));
    for kinds in mixes(options.rate) {
        let rates = together(&ends, &kinds, options.seconds)?;
        let machine = shared.flows(&kinds, options.seconds);
        println!("  {}", named(&kinds));
        println!("    seen     {}", shares(&rates)?);
        if let Some(machine) = machine {
            println!("    machine  {}", shares(&machine)?);
            // Shares of one kind are in no order; those of two kinds stand as the kinds do.
            let (mut seen, mut own) = (parts(&rates), parts(&machine));
            if kinds.iter().all(|kind| *kind == kinds[0]) {
                seen.sort_by(f64::total_cmp);
                own.sort_by(f64::total_cmp);
            }
            let apart = seen.iter().zip(&own).map(|(seen, own)| (seen - own).abs());
            let worst = apart.fold(0.0, f64::max) * 100.0;
            // The link has UDT's machine at its ends; the others are a kernel's and quinn's.
            let is_udt = kinds.iter().all(|kind| matches!(kind, Kind::Udt(_)));
            let asked = if is_udt { "within 15 %" } else { "" };
            row("    furthest apart", &format!("{worst:.0} % of the path"), asked);
        }
    }
    for &present in &options.present {
        for channel in &options.joins {
            joined(options, shared, &ends, channel, present)?;
        }
    }
    row("", &ends.validity()?, "");
    Ok(())
}

/// Which flows share the path.
fn mixes(rate: Rate) -> Vec<Vec<Kind>> {
    let udt = Kind::Udt(RateAlgorithm::Native);
    let (cubic, bbr) = (Kind::Tcp(Algorithm::Cubic), Kind::Tcp(Algorithm::Bbr));
    let held = |part: f64| {
        let held = (rate.as_bps() as f64 * part) as u64;
        Kind::Udt(RateAlgorithm::Held(Rate::from_bps(held)))
    };
    let mut mixes = Vec::new();
    for kind in [udt, Kind::Quic, cubic, bbr] {
        mixes.push(vec![kind; 2]);
        mixes.push(vec![kind; 10]);
    }
    // As an admission limit has them, and what has none has.
    mixes.extend([vec![held(0.45); 2], vec![held(0.09); 10], vec![held(0.9); 2]]);
    for other in [cubic, bbr] {
        mixes.extend([udt, Kind::Quic, held(0.5), held(0.9)].map(|kind| vec![kind, other]));
    }
    mixes.push(vec![cubic, bbr]);
    mixes
}

fn named(kinds: &[Kind]) -> String {
    match kinds {
        [first, rest @ ..] if rest.iter().all(|kind| kind == first) => {
            format!("{} flows: {first}", kinds.len())
        }
        _ => kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn parts(rates: &[f64]) -> Vec<f64> {
    let all: f64 = rates.iter().sum();
    rates.iter().map(|rate| rate / all).collect()
}

fn shares(rates: &[f64]) -> Result<String> {
    let parts: Vec<String> = parts(rates).iter().map(|part| format!("{part:.2}")).collect();
    let all: f64 = rates.iter().sum();
    let index = jain(rates).context("no flow brought anything")?;
    Ok(format!("{}; {index:.3}, {:.0} Mbit/s", parts.join(" "), all / 1e6))
}

/// What a flow by the control `present` has left of the path in the three seconds after a copy of
/// one channel has joined it.
fn joined(
    options: &Options,
    shared: Shared,
    ends: &Ends,
    channel: &str,
    present: Algorithm,
) -> Result<()> {
    heading(&format!(
        "What a flow of TCP's {present} that is there keeps in the three seconds after a copy over \
         {channel} begins"
    ));
    let folder = tempfile::tempdir()?;
    let node = Node::start(ends, &binary(), folder.path(), &["--tls"])?;
    let state = folder.path().join("state");
    // So that the path is known.
    copy(ends, &node, &state, channel, false)?;
    let path = document(&state)?;
    let seen: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let sides = [
        ("as over any path", None),
        ("from what was seen", Some(1.0)),
        ("of a path ten times as fast", Some(10.0)),
    ];
    for (name, factor) in sides {
        let mut known = seen.clone();
        let held = seen["in_flight"].as_f64().context("a path")? * factor.unwrap_or(1.0);
        known["in_flight"] = (held as u64).into();
        // What is on its way is the product of rate and round trip: else it is not believed.
        let rate = seen["rate"].as_f64().context("a rate")? * factor.unwrap_or(1.0);
        known["rate"] = (rate as u64).into();
        let mut shares = Vec::new();
        for _ in 0..options.runs {
            std::fs::write(&path, known.to_string())?;
            let flow = Flow::tcp(ends, PORT, 14, &present.to_string())?;
            std::thread::sleep(Duration::from_secs(8));
            copy(ends, &node, &state, channel, factor.is_none())?;
            shares.push(kept(flow)?);
        }
        let seen = median(shares)?;
        let mut figure = format!("{seen:.2} of what it had");
        let mut asked = "";
        // UDT's control and TCP's have no simulation in common.
        if channel != "udt" {
            let saved = factor.map(|_| saved_path(&known)).transpose()?;
            let machine = shared.kept(present, saved);
            figure += &format!("; machine {machine:.2}, x {:.2}", seen / machine);
            asked = "within 15 %";
        }
        row(&format!("a copy that begins {name}"), &figure, asked);
    }
    Ok(())
}

/// The part of what it had before 8 s that a flow keeps.
fn kept(flow: Flow) -> Result<f64> {
    let said = flow.said()?;
    let intervals = said["intervals"].as_array().context("intervals")?;
    let of = |from: f64, to: f64| {
        let within = intervals.iter().filter(|one| {
            one["sum"]["start"].as_f64().is_some_and(|start| start >= from && start < to)
        });
        let rates: Vec<f64> =
            within.filter_map(|one| one["sum"]["bits_per_second"].as_f64()).collect();
        rates.iter().sum::<f64>() / rates.len().max(1) as f64
    };
    Ok(of(8.5, 11.5) / of(5.0, 8.0))
}

fn copy(ends: &Ends, node: &Node, state: &Path, channel: &str, fresh: bool) -> Result<()> {
    let mut command = node.client(ends);
    command.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", state);
    let pin = node.fingerprint.as_deref().context("a fingerprint")?;
    command.args(["--json", "cp", "--tls-pin", pin, "--channel", channel, "--streams", "1"]);
    command.args(fresh.then_some("--fresh-start")).arg("memory:128MiB");
    json(command.arg(format!("farlines://{}/?null", node.address))).map(drop)
}

/// Where what the last copy saw is kept.
fn document(state: &Path) -> Result<std::path::PathBuf> {
    let mut items = std::fs::read_dir(state.join("farline/paths"))?;
    Ok(items.next().context("a document")??.path())
}

/// What is kept of a path, as the machines have it.
fn saved_path(kept: &Value) -> Result<SavedPath> {
    let number = |name: &str| kept[name].as_u64().with_context(|| format!("{name} in {kept}"));
    let rtt = Span::from_nanos(number("rtt")?);
    let fills = kept["fills"].as_bool().context("fills")?;
    Ok(SavedPath { in_flight: Bytes(number("in_flight")?), rtt, fills })
}
