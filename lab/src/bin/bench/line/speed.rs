//! Frames a second that the tester holds over a veth pair without losing any itself, next to
//! iperf3, and what comparing every bit costs.

use crate::table::{heading, row};
use anyhow::{Context, Result};
use farline_lab::{Namespaces, Running, farline_binary};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Each rate is tried so much above the one before, and so often: one run on a machine that is
/// never quiet says little.
const STEP: f64 = 1.25;
const TRIES: u32 = 3;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u32,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let spaces = Namespaces::pair("bench-line").context("two namespaces")?;
    heading("line tester over a veth pair: frames a second without losses of its own");
    for (payload, frame, asked) in [(1_472, 1_518, "at least 2"), (64, 110, "at least 3")] {
        let iperf = iperf3(&spaces, payload, options.seconds)?;
        row(
            &format!("iperf3 -u -b 0 -l {payload}: frames/s that arrived"),
            &format!("{iperf:.0}"),
            "",
        );
        let held = held(&spaces, frame, options.seconds, iperf, &[])?;
        let blind = self::held(&spaces, frame, options.seconds, iperf, &["--no-compare"])?;
        row(&format!("farline line --frames {frame}: frames/s"), &format!("{held:.0}"), "");
        row("  over iperf3's", &format!("{:.2}", held / iperf), asked);
        row("  without comparing, over with", &format!("{:.2}", blind / held), "at most 1.25");
    }
    Ok(())
}

/// What iperf3 brings across, in datagrams a second.
fn iperf3(spaces: &Namespaces, payload: u32, seconds: u32) -> Result<f64> {
    let mut server = spaces.run_there(Path::new("iperf3"));
    let _server = Running(server.args(["-s", "-1"]).stdout(Stdio::null()).spawn()?);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut client = spaces.run_here(Path::new("iperf3"));
    let (length, time) = (payload.to_string(), seconds.to_string());
    client.args(["-c", "10.77.0.2", "-u", "-b", "0", "-l", &length, "-t", &time, "-J"]);
    let result: Value = serde_json::from_slice(&client.output()?.stdout)?;
    let sum = &result["end"]["sum"];
    let count = |key: &str| sum[key].as_f64().with_context(|| format!("{key}: {result}"));
    Ok((count("packets")? - count("lost_packets")?) / f64::from(seconds))
}

/// The most frames a second of a test in which every second counts.
fn held(spaces: &Namespaces, frame: u32, seconds: u32, from: f64, reflect: &[&str]) -> Result<f64> {
    let wire_bits = f64::from(frame + 20) * 8.0;
    let (mut rate, mut held, mut failed) = (from, 0.0, 0);
    loop {
        let mut far = spaces.run_there(&farline_binary());
        far.args(["--json", "line", "reflect", "--buffer", "64MiB"]).args(reflect);
        let (_far, _) = Running::begun(&mut far);
        let mut test = spaces.run_here(&farline_binary());
        test.args(["--json", "line", "10.77.0.2", "--frames", &frame.to_string()])
            .args(["--burst", "64", "--rate", &format!("{:.0}k", rate * wire_bits / 1e3)])
            .args(["--for", &format!("{seconds}s")]);
        let document: Value = serde_json::from_slice(&test.output()?.stdout)?;
        let sums = &document["sums"];
        let count = |key: &str| sums[key].as_f64().with_context(|| format!("{key}: {document}"));
        let untested = count("sender_late")? + count("sender_drops")? + count("receiver_drops")?;
        if untested > 0.0 || count("lost")? > 0.0 {
            failed += 1;
            if failed == TRIES && held > 0.0 {
                return Ok(held);
            }
            if failed == TRIES {
                // Not even where the other began: from below then.
                (rate, failed) = (rate / STEP.powi(3), 0);
            }
            continue;
        }
        held = count("sent")? / count("tested")?;
        (rate, failed) = (rate * STEP, 0);
    }
}
