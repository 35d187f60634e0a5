//! How UDT shares a path with its like and with TCP's CUBIC and BBR, and what a flow that begins
//! from what an earlier one saw takes from a CUBIC flow that is there.

use crate::side::{Ends, Node, binary, json};
use crate::table::{heading, median, row};
use anyhow::{Context, Result};
use farline_core::statistics::jain;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Where the first of the ends meet.
const PORT: u16 = 5_310;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The link's rate
    #[arg(long, default_value = "400M")]
    rate: String,
    /// Its round trip
    #[arg(long, default_value = "26.8ms")]
    rtt: String,
    /// Of each run
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Runs with a CUBIC flow that another joins
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What the copies that join it go over
    #[arg(long, value_delimiter = ',', default_value = "quic,tcp")]
    joins: Vec<String>,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { rate, rtt, seconds, .. } = options;
    let ends = Ends::over("custom", &["--rate", rate, "--rtt", rtt])?;
    heading(&format!("Flows over {rate} x {rtt}, {seconds} s: shares, and Jain's index"));
    for (kinds, name) in [
        (vec!["udt"; 2], "two of UDT"),
        (vec!["udt"; 10], "ten of UDT"),
        (vec!["udt", "cubic"], "UDT, CUBIC"),
        (vec!["udt", "bbr"], "UDT, BBR"),
        (vec!["cubic"; 2], "two of CUBIC"),
        (vec!["cubic", "bbr"], "CUBIC, BBR"),
    ] {
        let rates = together(&ends, &kinds, *seconds)?;
        let all: f64 = rates.iter().sum();
        let shares: Vec<String> = rates.iter().map(|rate| format!("{:.2}", rate / all)).collect();
        let figure = format!("{:.3}, {:.0} Mbit/s", jain(&rates).context("a flow")?, all / 1e6);
        row(&format!("{name}: {}", shares.join(" ")), &figure, "");
    }
    for channel in &options.joins {
        joined(options, &ends, channel)?;
    }
    row("", &ends.validity()?, "");
    Ok(())
}

/// Flows of these kinds at once; what each brought, in bit/s.
fn together(ends: &Ends, kinds: &[&str], seconds: u32) -> Result<Vec<f64>> {
    let mut flows = Vec::new();
    for (port, kind) in (PORT..).zip(kinds) {
        flows.push(match *kind {
            "udt" => Flow::udt(ends, port, seconds)?,
            control => Flow::tcp(ends, port, seconds, control)?,
        });
    }
    flows.into_iter().map(Flow::rate).collect()
}

/// A flow that runs: both of its ends, and how what it brought is read.
struct Flow {
    ends: [Child; 2],
    /// Which end says it, and what.
    says: usize,
    read: fn(&Value) -> Option<f64>,
}

impl Flow {
    fn udt(ends: &Ends, port: u16, seconds: u32) -> Result<Flow> {
        let (this, time) = (std::env::current_exe()?, seconds.to_string());
        let at = format!("{}:{port}", ends.address());
        let end = |mut command: std::process::Command, what: &str, listen: bool| {
            command.args(["udp", "end", &at, what, "1000000000000", "--seconds", &time]);
            command.args(listen.then_some("--listen"));
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        };
        let receives = end(ends.b(&this), "receive", true)?;
        std::thread::sleep(Duration::from_millis(200));
        let sends = end(ends.a(&this), "send", false)?;
        let read = |said: &Value| Some(said["bytes"].as_f64()? * 8.0 / said["seconds"].as_f64()?);
        Ok(Flow { ends: [sends, receives], says: 1, read })
    }

    fn tcp(ends: &Ends, port: u16, seconds: u32, control: &str) -> Result<Flow> {
        let port = port.to_string();
        let mut server = ends.b("iperf3");
        server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn()?;
        std::thread::sleep(Duration::from_millis(200));
        let mut client = ends.a("iperf3");
        client.args(["-c", ends.address(), "-p", &port, "-J", "-i", "0.5", "-C", control]);
        client.args(["-t", &seconds.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
        let read = |said: &Value| said["end"]["sum_received"]["bits_per_second"].as_f64();
        Ok(Flow { ends: [client.spawn()?, server], says: 0, read })
    }

    /// What its end printed.
    fn said(self) -> Result<Value> {
        let mut said = Value::Null;
        for (index, end) in self.ends.into_iter().enumerate() {
            let output = end.wait_with_output()?;
            if index == self.says {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let last = text.lines().last().unwrap_or_default();
                said = serde_json::from_str(&text)
                    .or_else(|_| serde_json::from_str(last))
                    .with_context(|| text.clone())?;
            }
        }
        Ok(said)
    }

    fn rate(self) -> Result<f64> {
        let read = self.read;
        let said = self.said()?;
        read(&said).with_context(|| said.to_string())
    }
}

/// What a CUBIC flow has left of the path in the three seconds after a copy of one channel has
/// joined it.
fn joined(options: &Options, ends: &Ends, channel: &str) -> Result<()> {
    heading(&format!(
        "What a CUBIC flow that is there keeps in the three seconds after a copy over {channel} begins"
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
        let mut shares = Vec::new();
        for _ in 0..options.runs {
            let mut known = seen.clone();
            let held = seen["in_flight"].as_f64().context("a path")? * factor.unwrap_or(1.0);
            known["in_flight"] = (held as u64).into();
            // What is on its way is the product of rate and round trip: else it is not believed.
            let rate = seen["rate"].as_f64().context("a rate")? * factor.unwrap_or(1.0);
            known["rate"] = (rate as u64).into();
            std::fs::write(&path, known.to_string())?;
            shares.push(kept(ends, &node, &state, channel, factor.is_none())?);
        }
        row(
            &format!("a copy that begins {name}"),
            &format!("{:.2} of the path", median(shares)?),
            "",
        );
    }
    Ok(())
}

/// The part of what it had before that a CUBIC flow keeps.
fn kept(ends: &Ends, node: &Node, state: &Path, channel: &str, fresh: bool) -> Result<f64> {
    let flow = Flow::tcp(ends, PORT, 14, "cubic")?;
    std::thread::sleep(Duration::from_secs(8));
    copy(ends, node, state, channel, fresh)?;
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
