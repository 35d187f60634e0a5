//! One copy against the clock: bytes out of the link read five times a second, in the same way for
//! every tool.

use crate::lane::Served;
use anyhow::{Context, Result, bail};
use farline_core::report::demo::DemoSample;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two readings of the counter.
const READING: Duration = Duration::from_millis(200);
/// Between two looks at whether the command has ended: the error of its time.
const LOOK: Duration = Duration::from_millis(5);

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on Ctrl-C and its like end the demo in order instead of at once.
pub(crate) fn catch_signals() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Whether such a signal has come.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A process with all that it starts; ended when dropped.
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Starts `command` in a process group of its own; what it prints goes to `log` (stderr) and to
    /// a file next to it (stdout).
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Running> {
        let output = log.with_extension("out");
        let program = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(log)?)
            .process_group(0);
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        Ok(Running { child, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            // The group may outlive its first process; when it is gone this fails, and that is
            // well.
            let Some(Ok(())) = group.map(|group| kill_process_group(group, signal)) else { break };
            let asked = Instant::now();
            while asked.elapsed() < Duration::from_secs(2)
                && matches!(self.child.try_wait(), Ok(None))
            {
                sleep(LOOK);
            }
        }
        let _ = self.child.wait();
    }
}

/// How a copy went.
pub(crate) struct Race {
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<DemoSample>,
    /// Whether it ended by itself, before the limit.
    pub(crate) finished: bool,
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    stderr: String,
}

impl Race {
    /// The last line that it printed, for a message.
    pub(crate) fn last_words(&self) -> &str {
        let spoken = [&self.stderr, &self.stdout].into_iter().flat_map(|text| text.lines().rev());
        spoken.map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

/// Runs `command` until it ends or `limit` is over.
pub(crate) fn run(command: Command, log: &Path, server: &Served, limit: Duration) -> Result<Race> {
    let first = server.bytes_arrived()?;
    let began = Instant::now();
    let mut running = Running::start(command, log)?;
    let mut samples = vec![DemoSample { t_s: 0.0, bytes: 0 }];
    let mut next = READING;
    let status = loop {
        let status = running.child.try_wait()?;
        let elapsed = began.elapsed();
        if elapsed >= next || status.is_some() {
            samples.push(DemoSample {
                t_s: elapsed.as_secs_f64(),
                bytes: server.bytes_arrived()?.saturating_sub(first),
            });
            next = elapsed + READING;
        }
        if status.is_some() || elapsed > limit {
            break status;
        }
        if interrupted() {
            bail!("interrupted");
        }
        sleep(LOOK);
    };
    let seconds = began.elapsed().as_secs_f64();
    let stdout = running.output.clone();
    drop(running);
    Ok(Race {
        seconds,
        samples,
        finished: status.is_some(),
        succeeded: status.is_some_and(|status| status.success()),
        stdout: fs::read_to_string(stdout).unwrap_or_default(),
        stderr: fs::read_to_string(log).unwrap_or_default(),
    })
}
