//! UDT over the emulated link: next to libudt's own ends, in turns, and next to TCP where the path
//! loses.

use crate::side::{Ends, RateAndCpu, iperf3, json};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Context, Result};
use farline_lab::udt::peer_binary;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the ends meet.
const PORT: u16 = 5301;
/// The frames of the link.
const PACKET: &str = "9000";
/// libudt's buffers and those of its socket: its own are for 100 Mbit/s.
const PEER_BUFFER: &str = "128000000";
const PEER_SOCKET: &str = "8000000";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Of each run next to libudt
    #[arg(long, default_value_t = 1 << 30)]
    bytes: u64,
    /// Of each run next to TCP
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Leave the row with loss out
    #[arg(long)]
    no_loss_only: bool,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    clean(options)?;
    if !options.no_loss_only {
        lossy(options)?;
    }
    Ok(())
}

/// 10 Gbit/s x 26.8 ms, no loss: each of libudt's ends in turn replaced by Farline's.
fn clean(options: &Options) -> Result<()> {
    let peer = peer_binary().map_err(anyhow::Error::msg)?;
    let ends = Ends::over("custom", &["--rtt", "26.8ms", "--rate", "10G"])?;
    heading("UDT, 10 Gbit/s x 26.8 ms, no loss, packets of 9000 bytes");
    let pairs = [
        ("libudt to libudt", false, false),
        ("Farline to Farline", true, true),
        ("Farline to libudt", true, false),
        ("libudt to Farline", false, true),
    ];
    let sides = pairs.map(|(name, sends, receives)| {
        let (ends, peer) = (&ends, peer.as_path());
        side(name, move || pair(ends, peer, sends, receives, options.bytes, "udt"))
    });
    let results = in_turns(options.runs, sides.into())?;
    let of = |name: &str| -> Result<RateAndCpu> {
        let rate = results.median(name, |run: &RateAndCpu| run.rate)?;
        Ok(RateAndCpu { rate, cpu: results.median(name, |run| run.cpu)? })
    };
    let theirs = of("libudt to libudt")?;
    for (name, ..) in pairs {
        let seen = of(name)?;
        let ratio = format!(
            "rate x {:.2}, CPU x {:.2} of libudt's",
            seen.rate / theirs.rate,
            seen.cpu / theirs.cpu
        );
        let asked = if name == "Farline to Farline" { "rate x 1.5, CPU x 0.6" } else { "" };
        let figure = format!("{}, {:.1} ms CPU a Gbit", gbit(seen.rate), seen.cpu * 1e3);
        row(&format!("{name}: {figure}"), &ratio, asked);
    }
    Ok(())
}

/// 1 Gbit/s x 100 ms with loss 1e-3: what UDT's controls bring, and TCP's.
fn lossy(options: &Options) -> Result<()> {
    let rate = 1e9;
    let ends = Ends::over("custom", &["--rtt", "100ms", "--rate", "1G", "--loss", "1e-3"])?;
    heading("1 Gbit/s x 100 ms, loss 1e-3");
    let bytes = |share: f64| (rate * share / 8.0 * f64::from(options.seconds)) as u64;
    let udt = |control: &'static str, share: f64| {
        let ends = &ends;
        side(format!("UDT {control}"), move || {
            Ok(pair(ends, Path::new(""), true, true, bytes(share), control)?.rate)
        })
    };
    let tcp = |control: &'static str| {
        let ends = &ends;
        side(format!("TCP {control}"), move || {
            Ok(iperf3(ends, options.seconds, 0, &["-C", control])?.rate)
        })
    };
    let sides = vec![udt("950M", 0.9), udt("bbr", 0.7), udt("udt", 0.1), tcp("cubic"), tcp("bbr")];
    let names: Vec<String> = sides.iter().map(|(name, _)| name.clone()).collect();
    let results = in_turns(options.runs, sides)?;
    for name in names {
        let seen = results.middle(&name)?;
        let asked = match name.as_str() {
            "UDT 950M" => "at least 85 %",
            // What a control has left that takes each loss for congestion.
            "TCP cubic" => "under 10 %",
            _ => "",
        };
        let share = format!("{}, {:.1} % of the link", gbit(seen), seen / rate * 100.0);
        row(&name, &share, asked);
    }
    Ok(())
}

/// One run from the first end to the second, by Farline's end where it is asked for, else by
/// libudt's.
pub(super) fn pair(
    ends: &Ends,
    peer: &Path,
    farline_sends: bool,
    farline_receives: bool,
    bytes: u64,
    control: &str,
) -> Result<RateAndCpu> {
    let this = std::env::current_exe()?;
    let (address, bytes) = (ends.address(), bytes.to_string());
    let libudt = |command: &mut Command, bind: &str| {
        command.args(["--bind", bind, "--mss", PACKET, "--buffer", PEER_BUFFER]);
        command.args(["--udp", PEER_SOCKET]);
    };
    let mut receiver = if farline_receives {
        let mut command = ends.b(&this);
        let at = format!("{address}:{PORT}");
        command.args(["udp", "end", "--listen", &at, "receive", &bytes]);
        command
    } else {
        let mut command = ends.b(peer);
        command.args(["listen", &PORT.to_string(), "receive", &bytes]);
        libudt(&mut command, address);
        command
    };
    let receiving = receiver.stdout(Stdio::piped()).spawn().context("the receiver")?;
    // It has nothing to do but to open a port, and who connects asks again.
    std::thread::sleep(Duration::from_millis(300));
    let sent = if farline_sends {
        let at = format!("{address}:{PORT}");
        let mut command = ends.a(&this);
        json(command.args(["udp", "end", &at, "send", &bytes, "--control", control]))
    } else {
        let mut command = ends.a(peer);
        command.args(["connect", address, &PORT.to_string(), "send", &bytes]);
        libudt(&mut command, "10.77.0.1");
        json(&mut command)
    };
    let output = receiving.wait_with_output()?;
    let sent = sent?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let received: Value =
        serde_json::from_str(out.lines().last().unwrap_or_default()).context(out.clone())?;
    let figure =
        |of: &Value, name: &str| of[name].as_f64().with_context(|| format!("{name} in {of}"));
    let rate = figure(&received, "bytes")? * 8.0 / figure(&received, "seconds")?;
    let cpu = figure(&sent, "cpu_seconds")? + figure(&received, "cpu_seconds")?;
    Ok(RateAndCpu { rate, cpu: cpu / (figure(&received, "bytes")? * 8.0 / 1e9) })
}
