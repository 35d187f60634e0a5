//! What the device of the second end takes in while something runs: bytes of IP packets by time.

use crate::side::Ends;
use anyhow::{Context, Result};
use farline_lab::Running;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(5);
/// More than a session says before its data.
const BEGINS: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Options {}

/// Prints seconds and bytes, line after line, until nobody reads.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn run(_: &Options) -> Result<()> {
    let began = Instant::now();
    let mut out = std::io::stdout().lock();
    loop {
        let line = format!("{:.6} {}\n", began.elapsed().as_secs_f64(), received()?);
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        std::thread::sleep(EVERY);
    }
}

/// Bytes that this namespace's devices have received, loopback left out.
fn received() -> Result<u64> {
    let devices = std::fs::read_to_string("/proc/net/dev")?;
    let of = |line: &str| -> Option<u64> {
        let (name, figures) = line.split_once(':')?;
        (name.trim() != "lo").then(|| figures.split_whitespace().next()?.parse().ok())?
    };
    Ok(devices.lines().filter_map(of).sum())
}

/// One that runs.
pub(crate) struct Watch {
    _running: Running,
    is_over: Arc<AtomicBool>,
    lines: std::thread::JoinHandle<Vec<(f64, u64)>>,
}

impl Watch {
    /// Begins to look at the second end.
    ///
    /// # Errors
    /// When it does not begin.
    pub(crate) fn begin(ends: &Ends) -> Result<Watch> {
        let mut command: Command = ends.b(std::env::current_exe()?);
        let mut child = command.args(["udp", "watch"]).stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(child.stdout.take().context("its output")?);
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let lines = std::thread::spawn(move || {
            let parse = |line: String| {
                let (seconds, bytes) = line.split_once(' ')?;
                Some((seconds.parse().ok()?, bytes.parse().ok()?))
            };
            let lines = out.lines().map_while(Result::ok);
            // Who writes hears of the end by a pipe that nobody reads.
            lines.take_while(|_| !over.load(Ordering::Relaxed)).filter_map(parse).collect()
        });
        Ok(Watch { _running: Running(child), is_over, lines })
    }

    /// All that was seen: seconds and bytes.
    ///
    /// # Errors
    /// When its thread is lost.
    pub(crate) fn end(self) -> Result<Vec<(f64, u64)>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.lines.join().ok().context("the thread that reads")
    }

    /// Bit/s in the second that begins with the data.
    ///
    /// # Errors
    /// When there is no such second.
    pub(crate) fn first_second(self) -> Result<f64> {
        let seen = self.end()?;
        let (_, before) = *seen.first().context("a look")?;
        let begins = seen.iter().position(|&(_, bytes)| bytes > before + BEGINS);
        let (from, bytes) = seen[begins.context("data")?];
        let after = seen.iter().find(|&&(at, _)| at >= from + 1.0).context("a second of data")?;
        Ok((after.1 - bytes) as f64 * 8.0 / (after.0 - from))
    }
}
