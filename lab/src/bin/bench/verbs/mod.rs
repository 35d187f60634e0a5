//! The RDMA channel, each figure a ratio of medians of one run, between two devices in a guest.
//!
//! It boots the guest (`lab/guest`) and goes on inside. Rates are those of a guest and say nothing
//! of a card: the ratios do.

mod papers;
mod peers;
mod rates;
mod setup;

use crate::side::{Ends, Node, binary, number};
use crate::table::{Side, median, side};
use anyhow::{Context, Result, bail};
use farline_lab::{Running, command, succeed};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How long the guest may take, in seconds
    #[arg(long, default_value_t = 1500)]
    seconds: u32,
    /// A user-mode Linux of one processor is 5 to 10 times as fast as qemu without KVM
    #[arg(long, env = "GUEST_KIND", default_value = "debian")]
    guest: Guest,
    /// Soft-iWARP needs the user-mode Linux
    #[arg(long, env = "GUEST_RDMA", default_value = "rxe")]
    device: Device,
    /// What to measure [default: all]
    rows: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Guest {
    Debian,
    Uml,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    Rxe,
    Siw,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Row {
    /// One queue pair against ib_write_bw
    Memory,
    /// Four queue pairs against one at 20 ms
    Pairs,
    /// Blocks that the receiver reads against blocks that the sender writes
    Reads,
    /// TCP against RDMA on the same wire (ADTS, figure 7)
    Tcp,
    /// By size of the staging pool (ADTS, figures 8 and 9)
    Staging,
    /// The files of ADTS, figure 10
    Traces,
    /// What the devices do, by perftest
    Peers,
    /// `farline profile` next to perftest
    Messages,
    /// How the sender notices completions
    Completions,
    /// From the start to the first data byte
    Setup,
}

const ALL: [Row; 10] = [
    Row::Memory,
    Row::Pairs,
    Row::Reads,
    Row::Tcp,
    Row::Staging,
    Row::Traces,
    Row::Peers,
    Row::Messages,
    Row::Completions,
    Row::Setup,
];
const MIB: u64 = 1 << 20;
/// Only a guest has it.
const INSIDE: &str = "/run/out";

/// Prints the rows that were asked for.
///
/// # Errors
/// When there can be no guest, or a part of a row fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !Path::new(INSIDE).exists() {
        return boot(options);
    }
    succeed(&mut Command::new("lab/verbs"));
    let space = tempfile::tempdir()?;
    let bench = Bench {
        runs: options.runs,
        guest: options.guest,
        device: options.device,
        space: space.path(),
        ends: Ends::Verbs,
        port: std::cell::Cell::new(18515),
    };
    for row in if options.rows.is_empty() { &ALL[..] } else { &options.rows } {
        match row {
            Row::Memory => bench.memory()?,
            Row::Pairs => bench.pairs()?,
            Row::Reads => bench.reads()?,
            Row::Tcp => bench.tcp()?,
            Row::Staging => bench.staging()?,
            Row::Traces => bench.traces()?,
            Row::Peers => bench.peers()?,
            Row::Messages => bench.messages()?,
            Row::Completions => bench.completions()?,
            Row::Setup => bench.setup()?,
        }
    }
    Ok(())
}

/// Becomes the guest, which runs this program again.
fn boot(options: &Options) -> Result<()> {
    let (kind, memory) = match options.guest {
        Guest::Debian => ("debian", "2G"),
        Guest::Uml => ("uml", "6G"),
    };
    let device = match options.device {
        Device::Rxe => "rxe",
        Device::Siw if options.guest == Guest::Uml => "siw",
        Device::Siw => bail!("Debian's kernel has no soft-iWARP: take --guest uml"),
    };
    let mut guest = Command::new("lab/guest");
    guest.args(["-k", kind, "-m", memory, "-t", &options.seconds.to_string()]);
    guest.env("FARLINE_BIN", binary()).env("GUEST_RDMA", device).env("GUEST_KIND", kind);
    // As it was called: the guest's environment says what it is.
    Err(guest.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).exec())
        .context("lab/guest")
}

struct Bench<'a> {
    runs: usize,
    guest: Guest,
    device: Device,
    space: &'a Path,
    ends: Ends,
    /// The last port of perftest.
    port: std::cell::Cell<u16>,
}

impl Bench<'_> {
    /// What is moved from memory to null: a guest without KVM is slow.
    fn long(&self) -> &'static str {
        match self.guest {
            Guest::Debian => "128MiB",
            Guest::Uml => "768MiB",
        }
    }

    /// What the wire does from now on: half of the delay each way.
    fn delay(&self, rtt_ms: f64) {
        for device in ["va", "vb"] {
            let delay = format!("{}ms", rtt_ms / 2.0);
            let qdisc = ["qdisc", "replace", "dev", device, "root", "netem", "limit", "100000"];
            succeed(Command::new("tc").args(qdisc).args(["delay", &delay]));
        }
    }

    fn root(&self) -> PathBuf {
        self.space.join("root")
    }

    /// A node at the far end of the wire.
    fn node(&self) -> Result<Node> {
        std::fs::create_dir_all(self.root())?;
        Node::start(&self.ends, &binary(), &self.root(), &[])
    }

    /// A copy from memory to null without checks, over `channel`.
    fn by_rdma(&self, node: &Node, size: &str, channel: &str) -> Result<Value> {
        let (memory, null) = (format!("memory:{size}"), node.url("?null"));
        let options = ["--channel", channel, "--verify", "none", &memory, &null];
        let result = node.copy(&self.ends, &options)?;
        if result["data_path"] != "rdma" {
            bail!("it went not by RDMA: {}", result["notes"]);
        }
        Ok(result)
    }

    /// A program of perftest between the devices; bytes a second, or nothing where it failed.
    fn perftest(&self, program: &str, options: &[&str]) -> Result<Option<f64>> {
        // It prints 0.00 where it cannot tell its clock's rate, which a machine that is not quiet
        // keeps it from, and for very short runs.
        for _ in 0..3 {
            match self.perftest_once(program, options)? {
                Some(rate) if rate > 0.0 => return Ok(Some(rate)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    fn perftest_once(&self, program: &str, options: &[&str]) -> Result<Option<f64>> {
        self.port.set(self.port.get() + 1);
        let port = self.port.get().to_string();
        let (device, how): (_, &[&str]) = match self.device {
            // iWARP is connected by rdma_cm alone.
            Device::Siw => ("si", &["-F", "-R"]),
            // Farline's own least timeout: with perftest's 67 ms soft-RoCE repeats what is only
            // late, and fails.
            Device::Rxe => ("rx", &["-F", "-x", "1", "-u", "18"]),
        };
        let at = |side: &str| {
            let mut command = Command::new(program);
            command.args(["-d", &format!("{device}{side}"), "-p", &port]).args(how).args(options);
            command
        };
        let server = at("b").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let _server = Running(server);
        std::thread::sleep(Duration::from_millis(1500));
        let done = command("timeout")
            .arg("120")
            .arg(program)
            .args(at("a").get_args())
            .arg("10.9.1.2")
            .stderr(Stdio::null())
            .output()?;
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        // Size, iterations, peak and average in MiB/s.
        let rate = out.lines().find_map(|line| {
            let fields: Vec<f64> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            fields.get(3).copied()
        });
        if !done.status.success() || rate.is_none() {
            println!("  {program} {} failed: {}", options.join(" "), out.trim());
            return Ok(None);
        }
        Ok(rate.map(|rate| rate * MIB as f64))
    }

    /// A side that a program of perftest is.
    fn peer<'a>(
        &'a self,
        name: &str,
        program: &'a str,
        options: &'a [&'a str],
    ) -> Side<'a, Option<f64>> {
        side(name, move || self.perftest(program, options))
    }
}

/// Bytes a second from the first data byte on: set-up is a row of its own.
fn moving(result: &Value) -> Result<f64> {
    let elapsed = number(result, "seconds")? - number(result, "first_data_seconds")?;
    Ok(number(result, "bytes")? / elapsed.max(1e-9))
}

/// Bytes a second of the second half: perftest registers its memory before its clock starts, a copy
/// registers slots while it goes.
fn steady(result: &Value) -> Result<f64> {
    let bytes = number(result, "bytes")?;
    let samples = result["samples"].as_array().context("samples")?;
    let mut points = Vec::new();
    for sample in samples {
        points.push((number(sample, "bytes")?, number(sample, "t")?));
    }
    let half = points.iter().find(|(came, _)| came * 2.0 >= bytes).context("a half")?;
    let whole = points.iter().find(|(came, _)| *came == bytes).context("a last sample")?;
    Ok((whole.0 - half.0) / (whole.1 - half.1).max(1e-9))
}

/// MB/s as a table shows them; what failed says so.
fn shown(rates: &[Option<f64>]) -> String {
    match median(rates.iter().flatten().copied()) {
        Ok(rate) => format!("{:.1} MB/s", rate / 1e6),
        Err(_) => "failed".to_owned(),
    }
}
