//! The emulated path through the command `farline link`: up, commands in its sides, what it says
//! about itself, down.

use crate::race::{Running, interrupted};
use anyhow::{Context, Result, bail};
use farline_core::report::demo;
use farline_core::units::{Bytes, Rate, Span};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The link's name: always the same, so that what a killed demo left behind can be found.
const NAME: &str = "farline-demo";

/// A link that is up; taken down when dropped.
pub(crate) struct Lane {
    farline: PathBuf,
    scratch: PathBuf,
    info: Value,
    peer: String,
    congestion: String,
    down: bool,
}

/// A server in side b.
pub(crate) struct Served(Running);

impl Lane {
    pub(crate) fn up(path: &str, scratch: &Path) -> Result<Lane> {
        let farline = farline_binary()?;
        // What an earlier demo that was killed left behind would be in the way.
        let _ = Command::new(&farline).args(["link", "down", NAME, "--json"]).output();
        let info =
            document(Command::new(&farline).args(["link", "up", path, "--name", NAME, "--json"]))?;
        let mut lane = Lane {
            farline,
            scratch: scratch.to_owned(),
            info,
            peer: String::new(),
            congestion: String::new(),
            down: false,
        };
        let asked = lane
            .command('a', "sh")
            .args(["-c", "echo $FARLINE_PEER; cat /proc/sys/net/ipv4/tcp_congestion_control"])
            .output()?;
        let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
        let mut lines = answer.lines().map(str::to_owned);
        lane.peer = lines.next().filter(|peer| !peer.is_empty()).with_context(|| {
            format!("side a does not work: {}", String::from_utf8_lossy(&asked.stderr))
        })?;
        lane.congestion = lines.next().unwrap_or_default();
        Ok(lane)
    }

    /// A command that runs `program` in a side of the link.
    pub(crate) fn command(&self, side: char, program: &str) -> Command {
        let mut command = Command::new(&self.farline);
        command.args(["link", "exec", NAME, side.to_string().as_str(), "--", program]);
        command
    }

    /// The same for a program that drops root's rights when it has them: without root, those of the
    /// link's user namespace are not enough for that (setgroups is forbidden there), so it gets an
    /// ordinary user's name in one more namespace.
    pub(crate) fn command_without_root(&self, side: char, program: &str) -> Command {
        if is_root() {
            return self.command(side, program);
        }
        let mut command = self.command(side, "unshare");
        command.args(["--user", "--map-user=1000", "--map-group=1000", "--", program]);
        command
    }

    /// Starts `command` as a server in side b and waits until it listens on `port`.
    pub(crate) fn serve(&self, command: Command, log: &Path, port: u16) -> Result<Served> {
        let mut served = Served(Running::start(command, log)?);
        let asked = Instant::now();
        while !served.listens(port) {
            if served.0.has_ended()? || asked.elapsed() > Duration::from_secs(10) {
                let words = fs::read_to_string(log).unwrap_or_default();
                bail!(
                    "its server does not listen on port {port}: {}",
                    words.lines().last().unwrap_or("it said nothing")
                );
            }
            if interrupted() {
                bail!("interrupted");
            }
            sleep(Duration::from_millis(20));
        }
        Ok(served)
    }

    pub(crate) fn farline(&self) -> &Path {
        &self.farline
    }

    /// The address of side b.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// What sockets get that do not choose.
    pub(crate) fn default_congestion(&self) -> String {
        self.congestion.clone()
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.log"))
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The link as the report shows it.
    pub(crate) fn facts(&self) -> demo::DemoLink {
        let there = find(&self.info, "a_to_b").unwrap_or(&Value::Null);
        let back = find(&self.info, "b_to_a").unwrap_or(&Value::Null);
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
        demo::DemoLink {
            path: find(&self.info, "path").and_then(Value::as_str).unwrap_or_default().to_owned(),
            rtt_ns: Span::from_nanos(
                number(there, "one_way_delay") + number(back, "one_way_delay"),
            ),
            rate_bps: Rate::from_bps(number(there, "rate")),
            queue_bytes: Bytes(number(there, "queue")),
            mtu: find(&self.info, "mtu")
                .and_then(Value::as_u64)
                .and_then(|mtu| u32::try_from(mtu).ok())
                .unwrap_or_default(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            cpus: std::thread::available_parallelism()
                .map_or(0, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
            root: is_root(),
        }
    }

    /// How exact the link was since it came up.
    pub(crate) fn accuracy(&self) -> Result<demo::DemoAccuracy> {
        let stats = document(Command::new(&self.farline).args(["link", "stats", NAME, "--json"]))?;
        let valid = find(&stats, "valid")
            .and_then(Value::as_bool)
            .context("`link stats` does not say whether it was valid")?;
        let reasons = find(&stats, "invalid_because")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let reason = reasons.collect::<Vec<_>>().join("; ");
        let directions: Vec<&Value> =
            ["a_to_b", "b_to_a"].iter().filter_map(|name| find(&stats, name)).collect();
        let lateness =
            directions.first().map(|direction| &direction["lateness"]).unwrap_or(&Value::Null);
        let number = |key: &str| lateness[key].as_f64().unwrap_or_default();
        let buckets = lateness["buckets"].as_array().into_iter().flatten();
        let sum = |pointer: &str| {
            directions
                .iter()
                .filter_map(|direction| direction.pointer(pointer)?.as_u64())
                .sum::<u64>()
        };
        let limit = find(&stats, "lateness_limit_us").and_then(Value::as_f64).unwrap_or_default();
        Ok(demo::DemoAccuracy {
            valid,
            reason: if valid {
                format!(
                    "99 of 100 packets were late by less than {:.2} ms, and none was lost for \
                     lack of processor time",
                    limit / 1e3
                )
            } else {
                reason
            },
            p50_us: number("p50_us"),
            p99_us: number("p99_us"),
            max_us: number("max_us"),
            histogram: buckets
                .filter_map(|bucket| Some((bucket[0].as_f64()?, bucket[1].as_u64()?)))
                .collect(),
            drops: vec![
                ("queue full".to_owned(), sum("/model/dropped_queue")),
                (
                    "loss and bit errors asked for".to_owned(),
                    sum("/model/dropped_loss")
                        + sum("/model/dropped_bit_error")
                        + sum("/model/dropped_outage"),
                ),
                ("no processor time".to_owned(), sum("/overrun")),
            ],
        })
    }

    pub(crate) fn down(mut self) -> Result<()> {
        self.down = true;
        document(Command::new(&self.farline).args(["link", "down", NAME, "--json"])).map(|_| ())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.down {
            let _ = Command::new(&self.farline).args(["link", "down", NAME]).output();
        }
    }
}

impl Served {
    /// Bytes that have come out of the link on side b, with headers: the receive counter of its
    /// device.
    ///
    /// A process's /proc/PID/net shows the network of the namespace that the process is in.
    pub(crate) fn bytes_arrived(&self) -> Result<u64> {
        let devices = fs::read_to_string(format!("/proc/{}/net/dev", self.0.pid()))
            .context("its server has ended")?;
        let line = devices
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("wan0:"))
            .context("side b has no wan0")?;
        line.split_whitespace()
            .next()
            .and_then(|bytes| bytes.parse().ok())
            .context("wan0's counter is not a number")
    }

    fn listens(&self, port: u16) -> bool {
        let wanted = format!(":{port:04X}");
        ["tcp", "tcp6"].iter().any(|kind| {
            let sockets = fs::read_to_string(format!("/proc/{}/net/{kind}", self.0.pid()))
                .unwrap_or_default();
            sockets.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let (local, state) =
                    (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
                // 0A is TCP_LISTEN (include/net/tcp_states.h).
                local.ends_with(&wanted) && state == "0A"
            })
        })
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The `farline` next to this binary, or `FARLINE_BIN`.
fn farline_binary() -> Result<PathBuf> {
    let path = match std::env::var_os("FARLINE_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("farline"),
    };
    if !path.exists() {
        bail!("{} is missing: run `make demo`, which builds it", path.display());
    }
    Ok(path)
}

/// Runs a command of farline and reads the object that it prints; its error becomes ours.
fn document(command: &mut Command) -> Result<Value> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let document: Value =
        serde_json::from_str(said.lines().last().unwrap_or("null")).unwrap_or_default();
    if output.status.success() {
        return Ok(document);
    }
    let error = &document["error"];
    let message = error["message"]
        .as_str()
        .map_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned(), str::to_owned);
    match error["hint"].as_str() {
        Some(hint) => bail!("{message} (hint: {hint})"),
        None => bail!("{message}"),
    }
}

/// The first value called `key`, in `value` or below.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    object.get(key).or_else(|| object.values().find_map(|below| find(below, key)))
}
