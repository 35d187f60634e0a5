//! One flow over an emulated link that stands at a known window, loses one packet, and recovers: in the kernel and simulated.
//!
//! The window is held by the route: its `cwnd lock` is the clamp and its `ssthresh lock` the end of slow start, so that the
//! flow stands at exactly that window, fills no queue, and meets no loss but the scripted one.

use crate::{farline, succeed};
use anyhow::{Context, Result, bail, ensure};
use farline_core::congestion::sim::{Scenario, Simulation};
use farline_core::congestion::{Algorithm, Set, Start};
use farline_core::units::{Bytes, Rate, Span};
use farline_core::wan::{Change, Direction};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The control.
    pub algorithm: Algorithm,
    /// Its constants.
    pub set: Set,
    /// The window at which the flow stands, in packets.
    pub window: u32,
    /// The path's round-trip time.
    pub rtt: Span,
    /// Bytes of IP in a full packet.
    pub mtu: u32,
    /// How long to watch after the loss.
    pub patience: Span,
}

/// What came of it. Times are seconds after the end of recovery.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Seconds from the reduction to the end of recovery: detection is a round trip before it.
    pub recovery_seconds: f64,
    /// The window with which congestion avoidance began again, in packets.
    pub from: f64,
    /// Seconds until the window was whole again; `None` if it was not.
    pub seconds: Option<f64>,
    /// The window over time, from the end of recovery on.
    pub trace: Vec<(f64, f64)>,
    /// The round-trip time measured, in seconds: the median.
    pub rtt: f64,
}

/// How many seconds after the link the scripted loss comes: time to get ready, for which processes start and connections are
/// made, and for slow start.
fn loss_at(rtt: Span) -> f64 {
    3.0 + 25.0 * rtt.as_secs_f64()
}

/// A child that does not outlive the run.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A link that goes down with the run.
struct Up(String);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = farline().args(["link", "down", &self.0]).output();
    }
}

/// Whether this machine can run these: as root, with namespaces, and with iperf3. Says why not.
///
/// # Errors
/// With the reason for a skip.
pub fn possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can load a congestion control".to_owned());
    }
    if Command::new("iperf3").arg("--version").output().is_err() {
        return Err("iperf3 is not installed".to_owned());
    }
    let output =
        farline().args(["--json", "cc", "load", "scalable", "--set", "paper", "--as", "fl_probe", "--", "true"]).output();
    let output = output.map_err(|error| format!("farline does not run: {error}"))?;
    let said: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    match said.iter().find_map(|value| value["error"]["code"].as_str()) {
        Some(code @ ("congestion-capability" | "kernel-btf" | "kernel-too-old")) => {
            Err(format!("this kernel loads no BPF: {code}"))
        }
        _ => Ok(()),
    }
}

/// Runs it in the kernel, over a link called `name`.
///
/// # Errors
/// When the link, the flow or the trace failed, or the link was not exact enough to count.
pub fn kernel(run: &Run, name: &str) -> Result<Recovery> {
    let Run { algorithm, set, window, rtt, mtu, patience } = *run;
    // Half as fast again as the window needs, so that nothing queues.
    let rate = Rate::from_bps((f64::from(window) * f64::from(mtu + 38) * 8.0 / rtt.as_secs_f64() * 1.5) as u64);
    let loss_at = loss_at(rtt);
    let seconds = loss_at + patience.as_secs_f64();
    let rtt_text = format!("{}us", rtt.as_nanos() / 1_000);
    let rate_text = format!("{}bit/s", rate.as_bps());
    let mtu_text = mtu.to_string();
    let event = format!("{loss_at}s:a-to-b:lose=1");
    let up =
        ["link", "up", "custom", "--name", name, "--rtt", &rtt_text, "--rate", &rate_text, "--mtu", &mtu_text, "--at", &event];
    succeed(farline().args(up).stdin(Stdio::null()));
    let link = Up(name.to_owned());
    let began = Instant::now();
    let exec = |side: &str, command: &[&str]| {
        let mut exec = farline();
        exec.args(["link", "exec", name, side, "--"]).args(command).stdin(Stdio::null()).stdout(Stdio::null());
        exec
    };
    let script = format!(
        "sysctl -qw net.ipv4.tcp_no_metrics_save=0 && {{ sysctl -qw net.ipv4.tcp_no_ssthresh_metrics_save=0 2>/dev/null || true; }} &&
         ip route replace 10.77.0.2/32 dev wan0 ssthresh lock {window} cwnd lock {window}"
    );
    succeed(exec("a", &["sh", "-c", &script]).stdout(Stdio::null()));
    let mut server = exec("b", &["sh", "-c", "iperf3 -s -1; exec iperf3 -s -1"]);
    let _server = Started(server.stderr(Stdio::null()).spawn()?);
    // A first connection leaves the route's metrics with the kernel, where the next one finds them.
    retry(|| exec("a", &["iperf3", "-c", "10.77.0.2", "-n", "1"]).stderr(Stdio::null()).status())?;

    let registered = registered(algorithm, set);
    let span = format!("{seconds}s");
    let binary = crate::farline_binary();
    let binary = binary.to_str().context("a path of text")?;
    let mut trace = vec![binary, "--json", "cc", "trace", algorithm.name(), "--every", "4ms", "--for", &span];
    let set_text = set.to_string();
    if registered != algorithm.name() {
        trace.extend(["--set", &set_text, "--as", &registered]);
    }
    let trace = exec("a", &trace).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let until = Instant::now() + Duration::from_secs(5);
    while !farline::kernelcc::available().contains(&registered) {
        ensure!(Instant::now() < until, "{registered} was not loaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(
        began.elapsed().as_secs_f64() < loss_at - 1.2 - 12.0 * rtt.as_secs_f64(),
        "the machine was too slow to be ready before the loss"
    );
    let time = format!("{}", seconds.ceil());
    let mut flow = exec("a", &["iperf3", "-c", "10.77.0.2", "-C", &registered, "-t", &time]);
    let _flow = Started(flow.stderr(Stdio::null()).spawn()?);
    let output = trace.wait_with_output()?;
    let stats: Value = serde_json::from_str(&succeed(farline().args(["--json", "link", "stats", name])))?;
    drop(link);
    let model = &stats["a_to_b"]["model"];
    ensure!(model["dropped_outage"] == 1, "the scripted loss took one frame: {model}");
    ensure!(model["dropped_queue"] == 0, "a queue overflowed: {model}");
    evaluate(&String::from_utf8_lossy(&output.stdout), f64::from(window))
}

/// The name that a run's control is registered by: Linux's own controls by theirs.
fn registered(algorithm: Algorithm, set: Set) -> String {
    match algorithm {
        Algorithm::Bbr | Algorithm::Cubic | Algorithm::Reno => algorithm.name().to_owned(),
        _ => format!("{}_{}", &algorithm.name()[..3], set),
    }
}

fn retry(mut run: impl FnMut() -> std::io::Result<std::process::ExitStatus>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(5);
    while !run()?.success() {
        if Instant::now() > until {
            bail!("the server does not listen");
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

/// Finds the loss and what came after it in a trace's lines.
fn evaluate(lines: &str, window: f64) -> Result<Recovery> {
    let samples: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let number = |sample: &Value, key: &str| sample[key].as_f64().unwrap_or(0.0);
    // iperf3 has a control connection too; the flow is the one that came to the window.
    let flow = samples.iter().find(|sample| number(sample, "cwnd") >= window).map(|sample| sample["flow"].clone());
    let flow = flow.with_context(|| format!("no flow came to {window} packets"))?;
    let samples: Vec<&Value> = samples.iter().filter(|sample| sample["flow"] == flow).collect();
    let mut rtts: Vec<f64> = samples.iter().map(|sample| number(sample, "srtt_us") / 1e6).collect();
    rtts.sort_by(f64::total_cmp);
    let at = |sample: &Value| number(sample, "time_us") / 1e6;
    let lost = samples.iter().position(|sample| sample["state"] == "recovery").context("the loss was not seen")?;
    let reduced = at(samples[lost]);
    let mut after = samples[lost..].iter().skip_while(|sample| sample["state"] != "open").peekable();
    let ended = after.peek().map(|sample| at(sample)).context("recovery did not end")?;
    let from = after.peek().map(|sample| number(sample, "cwnd")).unwrap_or_default();
    let trace: Vec<(f64, f64)> = after.map(|sample| (at(sample) - ended, number(sample, "cwnd"))).collect();
    let seconds: Option<f64> = trace.iter().find(|(_, cwnd)| *cwnd >= window).map(|(time, _)| *time);
    // The link drops what it has no processor time for; such a run does not count.
    let watched = seconds.map_or(f64::INFINITY, |seconds| ended + seconds);
    let losses = samples.iter().filter(|sample| at(sample) <= watched).map(|sample| number(sample, "lost")).fold(0.0, f64::max);
    ensure!(losses == 1.0, "the flow lost {losses} packets, not the scripted one alone");
    Ok(Recovery { recovery_seconds: ended - reduced, from, seconds, trace, rtt: rtts[rtts.len() / 2] })
}

/// The same with the pure machine, at the round-trip time that the kernel's flow measured.
pub fn simulated(run: &Run, rtt: f64) -> Recovery {
    let window = f64::from(run.window);
    let rtt = Span::from_secs_f64(rtt);
    let packet = Bytes(u64::from(run.mtu));
    let start = Start { window, threshold: window, clamp: window, packet };
    let rate = Rate::from_bps((window * f64::from(run.mtu + 38) * 8.0 / rtt.as_secs_f64() * 1.5) as u64);
    let scenario = Scenario {
        direction: Direction::new(rate, rtt.mul_f64(0.5), rtt),
        changes: vec![(rtt.mul_f64(5.0), Change::Lose(1))],
        flows: vec![(run.algorithm, run.set, start)],
        sample_every: Span::from_millis(4),
        train: if run.window >= 1_000 { 8 } else { 1 },
        seed: 1,
    };
    let mut simulation = Simulation::new(&scenario);
    simulation.run(run.patience + rtt.mul_f64(10.0), |_| false);
    let reduction = simulation.reductions(0).first().copied();
    let (at, ended) =
        reduction.map_or_else(Default::default, |reduction| (reduction.at, reduction.ended.unwrap_or(reduction.at)));
    let after = simulation.trace(0).iter().filter(|point| point.at >= ended);
    let trace: Vec<(f64, f64)> = after.map(|point| (point.at.since(ended).as_secs_f64(), point.window)).collect();
    // A kernel's window is a whole number.
    let seconds = trace.iter().find(|(_, packets)| *packets >= window - 0.02).map(|(time, _)| *time);
    let from = trace.first().map_or(0.0, |(_, packets)| *packets);
    Recovery { recovery_seconds: ended.since(at).as_secs_f64(), from, seconds, trace, rtt: rtt.as_secs_f64() }
}

/// The largest part by which two windows differ at the same time after recovery, over the first `seconds`.
pub fn largest_difference(kernel: &Recovery, simulated: &Recovery, seconds: f64) -> f64 {
    let at = |trace: &[(f64, f64)], time: f64| {
        let next = trace.partition_point(|(at, _)| *at <= time);
        trace.get(next.saturating_sub(1)).map_or(0.0, |(_, packets)| *packets)
    };
    let times = kernel.trace.iter().map(|(time, _)| *time).filter(|time| *time <= seconds);
    times.map(|time| (at(&kernel.trace, time) / at(&simulated.trace, time) - 1.0).abs()).fold(0.0, f64::max)
}
