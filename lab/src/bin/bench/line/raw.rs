//! Ethernet frames a second that the tester sends by a veth pair, next to trafgen of netsniff-ng in
//! the same run: both counted by the device at the other end, where the tester's reflector listens
//! to both.

use crate::table::{heading, median, row};
use anyhow::{Context, Result, ensure};
use farline_lab::{Namespaces, Running, farline_binary};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Of the device at the other end, which both send to.
const THERE: &str = "02:00:00:00:00:02";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of each run
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Runs of each side, in turns
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Prints the rows.
///
/// # Errors
/// When trafgen is not there, or a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let spaces = Namespaces::pair("bench-raw").context("two namespaces")?;
    spaces.there(&format!("ip link set v address {THERE} && ip link set v mtu 9234"));
    // A veth device takes frames that are no socket's only where it has NAPI, which GRO brings.
    spaces.there("ethtool -K v gro on");
    spaces.here("ip link set v mtu 9234");
    heading("raw Ethernet over a veth pair: frames a second, by the other device's count");
    for size in [64_u32, 1_518] {
        let (mut alone, mut theirs, mut ours, mut taken) = (vec![], vec![], vec![], vec![]);
        for _ in 0..options.runs {
            alone.push(trafgen(&spaces, size, options.seconds)?);
            let mut far = spaces.run_there(&farline_binary());
            far.args(["--json", "line", "reflect", "--ethernet", "v"]);
            let (far, _) = Running::begun(&mut far);
            theirs.push(trafgen(&spaces, size, options.seconds)?);
            let (sent, received) = farline(&spaces, size, options.seconds)?;
            drop(far);
            ours.push(sent);
            taken.push(received);
        }
        let (alone, theirs, taken) = (median(alone)?, median(theirs)?, median(taken)?);
        row(&format!("trafgen, {size} B, nobody receives"), &format!("{alone:.0}"), "");
        row(&format!("trafgen, {size} B, to the reflector"), &format!("{theirs:.0}"), "");
        row(&format!("farline line raw, {size} B"), &format!("{:.0}", median(ours)?), "");
        row("  of these, taken and compared", &format!("{taken:.0}"), "");
        row(
            "  these over trafgen's to the reflector",
            &format!("{:.2}", taken / theirs),
            "at least 1.5",
        );
        row("  over trafgen's with nobody there", &format!("{:.2}", taken / alone), "at least 1.5");
    }
    Ok(())
}

/// Packets that came to the device at the other end so far.
fn came(spaces: &Namespaces) -> Result<f64> {
    let mut ip = Command::new("ip");
    ip.args(["-n", spaces.there_name(), "-s", "-j", "link", "show", "v"]);
    let said: Value = serde_json::from_slice(&ip.output()?.stdout)?;
    said[0]["stats64"]["rx"]["packets"].as_f64().context("a count of packets")
}

/// What trafgen sends on all processors, past the queueing discipline, as is its default.
fn trafgen(spaces: &Namespaces, size: u32, seconds: u32) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let frame = folder.path().join("frame");
    let payload = size - 18;
    fs::write(
        &frame,
        format!("{{ 2,0,0,0,0,2, 2,0,0,0,0,1, 0x88,0xb5, fill(0x55, {payload}) }}\n"),
    )?;
    // It has a process for each processor, and `timeout` ends them all; it takes a moment to begin.
    let mut command = spaces.run_here(Path::new("timeout"));
    command.args(["--signal=INT", "--kill-after=5"]).arg((seconds + 2).to_string());
    command.arg("trafgen").arg("-i").arg(&frame).args(["-o", "v"]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(1));
    let (before, begun) = (came(spaces)?, Instant::now());
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let sent = (came(spaces)? - before) / begun.elapsed().as_secs_f64();
    running.wait()?;
    ensure!(sent > 0.0, "trafgen of netsniff-ng sent nothing: is it there? (lab/setup brings it)");
    Ok(sent)
}

/// What a flood of ours brings to the device, and what of that the reflector took.
fn farline(spaces: &Namespaces, size: u32, seconds: u32) -> Result<(f64, f64)> {
    let mut test = spaces.run_here(&farline_binary());
    test.args(["--json", "-q", "line", "raw", THERE, "--ethernet", "v"]);
    test.args(["--sizes", &size.to_string(), "--for", &format!("{seconds}s")]);
    let before = came(spaces)?;
    let raw: Value = serde_json::from_slice(&test.output()?.stdout)?;
    let came = came(spaces)? - before;
    let of = |key: &str| raw["rows"][0][key].as_f64().with_context(|| format!("{key}: {raw}"));
    let seconds = of("seconds")?;
    Ok((came / seconds, of("received")? / seconds))
}
