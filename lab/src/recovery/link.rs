//! The run in the kernel, over `farline link`.

use super::flow::{Ends, Subject, monotonic, watch};
use super::{Recovery, RecoveryRun, Trouble, began, evaluate, pick};
use crate::{farline, own_control, own_name, succeed};
use anyhow::{Result, ensure};
use farline_core::congestion::{Algorithm, Constants};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A link that goes down with the run.
#[derive(Debug)]
pub struct Up(String);

impl Up {
    /// Brings up a link of this run's own, called something like `name`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn new(name: &str, path: &str, more: &[String]) -> Up {
        let up = Up(own_name(name));
        succeed(
            farline().args(["link", "up", path, "--name", &up.0]).args(more).stdin(Stdio::null()),
        );
        up
    }

    /// What the link says of itself.
    ///
    /// # Errors
    /// When that is no JSON.
    pub fn stats(&self) -> Result<Value> {
        Ok(serde_json::from_str(&succeed(farline().args(["--json", "link", "stats", &self.0])))?)
    }
}

/// Why a link's runs cannot be believed; empty when they can.
pub(crate) fn inexact(stats: &Value) -> Vec<String> {
    let reasons = stats["invalid_because"].as_array().into_iter().flatten();
    reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect()
}

impl Ends for Up {
    fn at(&self, side: &str, command: &[&str]) -> Command {
        let mut exec = farline();
        exec.args(["link", "exec", &self.0, side, "--"]).args(command);
        exec
    }

    fn route(&self) -> (&str, &str) {
        ("wan0", "10.77.0.2")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Down already is as good.
        let _ = farline().args(["link", "down", &self.0]).output();
    }
}

/// Why a run says nothing of the control: the machine was busy with something else.
#[derive(Clone, Copy, Debug)]
pub struct TooBusy(&'static str);

impl std::fmt::Display for TooBusy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the machine was too busy: {}", self.0)
    }
}

impl std::error::Error for TooBusy {}

/// Rounds in which a flow comes to any window of these runs, Vegas with its growth every other
/// round too.
const SLOW_START: f64 = 10.0;

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
    let output = farline()
        .args([
            "--json",
            "cc",
            "load",
            "scalable",
            "--set",
            "paper",
            "--as",
            &own_control("probe"),
            "--",
            "true",
        ])
        .output();
    let output = output.map_err(|error| format!("farline does not run: {error}"))?;
    let said: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
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
/// When the link, the flow or the trace failed, or another loss came than the scripted ones.
pub fn kernel(run: &RecoveryRun, name: &str) -> Result<Recovery> {
    // Time to get ready, for which processes start and connections are made, and for slow start.
    let trouble_at = 3.0 + 25.0 * run.rtt.as_secs_f64();
    let seconds = trouble_at + run.timeout.as_secs_f64();
    let rate = run.rate();
    let mut more: Vec<String> = [
        ("--rtt", format!("{}us", run.rtt.as_nanos() / 1_000)),
        ("--rate", format!("{}bit/s", rate.as_bps())),
        ("--mtu", run.mtu.to_string()),
        ("--queue", "1bdp".to_owned()),
    ]
    .into_iter()
    .flat_map(|(option, value)| [option.to_owned(), value])
    .collect();
    let events: Vec<String> = match &run.trouble {
        Trouble::Losses(spans) => spans
            .iter()
            .map(|span| format!("{}s:a-to-b:lose=1", trouble_at + span.as_secs_f64()))
            .collect(),
        Trouble::Burst(span) => {
            let cross = rate.as_bps() / 10 * 9 / 1_000;
            vec![format!("{trouble_at}s:a-to-b:cross={cross}k/{}ms", span.as_nanos() / 1_000_000)]
        }
    };
    more.extend(events.iter().flat_map(|event| ["--at".to_owned(), event.clone()]));
    let link = Up::new(name, "custom", &more);
    let up_at = monotonic();
    let subject = Subject::of(run.algorithm, run.set);
    ensure!(
        subject.set.is_some() || run.set == Constants::Linux,
        "the kernel's own {} has Linux's constants",
        run.algorithm
    );
    let ready = || {
        let least = 1.2 + 12.0 * run.rtt.as_secs_f64();
        ensure!(monotonic() - up_at < trouble_at - least, TooBusy("it was not ready in time"));
        Ok(())
    };
    let lines = watch(&link, subject, run.window, seconds, ready)?;
    let began = began(&lines);
    ensure!(
        began.is_some_and(|began| began < up_at + trouble_at - SLOW_START * run.rtt.as_secs_f64()),
        TooBusy("the flow began too late to stand when its trouble came")
    );
    let stats = link.stats()?;
    drop(link);
    let found = judged(run, &lines, &stats, up_at, trouble_at);
    if !stood_still(&stats, run) {
        return found;
    }
    let mut found = found.map_err(|_| TooBusy(STOOD_STILL))?;
    found.inexact.push(STOOD_STILL.to_owned());
    Ok(found)
}

const STOOD_STILL: &str = "the link stood still for longer than a round trip";

/// Whether a packet was late by more than a round trip: the sender then takes for lost what is not,
/// and one such stop is less than the one packet in a hundred that makes a link inexact.
fn stood_still(stats: &Value, run: &RecoveryRun) -> bool {
    let late = ["a_to_b", "b_to_a"]
        .into_iter()
        .flat_map(|way| ["lateness", "stamping"].map(|what| &stats[way][what]["max_us"]));
    late.filter_map(Value::as_f64).any(|late| late > run.rtt.as_secs_f64() * 1e6)
}

/// What the trace's `lines` show of the run, and the link's `stats`.
fn judged(
    run: &RecoveryRun,
    lines: &str,
    stats: &Value,
    up_at: f64,
    trouble_at: f64,
) -> Result<Recovery> {
    let samples = pick(lines, f64::from(run.window))?;
    // Vegas heeds the burst's queue as long as the burst lasts; the others add to it.
    let free_at = match &run.trouble {
        Trouble::Burst(span) if run.algorithm == Algorithm::Vegas => {
            up_at + trouble_at + span.as_secs_f64()
        }
        _ => 0.0,
    };
    let mut recovery = evaluate(&samples, f64::from(run.window), up_at + trouble_at, free_at)?;
    recovery.inexact = inexact(stats);
    if let Trouble::Losses(spans) = &run.trouble {
        let model = &stats["a_to_b"]["model"];
        ensure!(model["dropped_outage"] == spans.len(), "not the scripted losses: {model}");
        ensure!(model["dropped_queue"] == 0, "a queue overflowed: {model}");
        let found = recovery.reductions.len();
        ensure!(found == spans.len(), "{} losses made {found} reductions", spans.len());
    }
    Ok(recovery)
}
