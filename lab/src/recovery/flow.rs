//! A flow between two namespaces that a trace watches, with its window held by the route.

use crate::{Running, farline_binary, own_control, succeed};
use anyhow::{Context, Result, bail, ensure};
use farline_core::congestion::{Algorithm, Constants};
use rustix::time::{ClockId, clock_gettime};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two ends of a path.
pub trait Ends: Sync {
    /// A command at the end that sends (`a`) or receives (`b`).
    fn at(&self, side: &str, command: &[&str]) -> Command;
    /// The device of end `a`, and the address of end `b`.
    fn route(&self) -> (&str, &str);
}

/// Seconds of the kernel's monotonic clock, in which traces tell the time.
pub fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The control of a flow: `set` in BPF, or the one that the kernel or a module of its has.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Which.
    pub algorithm: Algorithm,
    /// Farline's constants; `None` for what the kernel has.
    pub set: Option<Constants>,
}

impl Subject {
    /// The control of `algorithm` that can be had everywhere: Linux's own CUBIC, Reno and BBR, else
    /// Farline's with `set`.
    pub fn of(algorithm: Algorithm, set: Constants) -> Subject {
        Subject { algorithm, set: (!algorithm.is_native()).then_some(set) }
    }

    /// The name that it is registered by.
    pub fn registered(self) -> String {
        match self.set {
            None => self.algorithm.name().to_owned(),
            Some(set) => own_control(&format!("{:.2}{set}", self.algorithm.name())),
        }
    }

    /// The arguments that make Farline load it.
    pub fn arguments(self) -> Vec<String> {
        let name = self.algorithm.name().to_owned();
        match self.set {
            None => vec![name],
            Some(set) => vec![
                name,
                "--set".to_owned(),
                set.to_string(),
                "--as".to_owned(),
                self.registered(),
            ],
        }
    }
}

/// Waits until `name` is registered.
///
/// # Errors
/// After half a minute: a guest takes its time.
pub fn until_registered(name: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while !farline::kernelcc::available().iter().any(|have| have == name) {
        ensure!(Instant::now() < until, "{name} was not loaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Runs a flow of `subject` with its window held at `window` for `seconds`, and returns the
/// lines of the trace. When all is ready for the flow, `ready` is asked whether it may begin.
///
/// # Errors
/// When the flow or the trace failed, or `ready` says no.
pub fn watch(
    ends: &dyn Ends,
    subject: Subject,
    window: u32,
    seconds: f64,
    ready: impl FnOnce() -> Result<()>,
) -> Result<String> {
    let (device, peer) = ends.route();
    let script = format!(
        "sysctl -qw net.ipv4.tcp_no_metrics_save=0 && {{ sysctl -qw \
         net.ipv4.tcp_no_ssthresh_metrics_save=0 2>/dev/null || true; }} &&
         ip route replace {peer}/32 dev {device} ssthresh lock {window} cwnd lock {window}"
    );
    succeed(quiet(&mut ends.at("a", &["sh", "-c", &script])).stderr(Stdio::inherit()));
    let mut server = ends.at("b", &["sh", "-c", "iperf3 -s -1; exec iperf3 -s -1"]);
    let _server = Running(quiet(&mut server).spawn()?);
    // A first connection leaves the route's metrics with the kernel, where the next one finds them.
    retry(|| quiet(&mut ends.at("a", &["iperf3", "-c", peer, "-n", "1"])).status())?;

    let registered = subject.registered();
    let span = format!("{seconds}s");
    let binary = farline_binary();
    let binary = binary.to_str().context("a path of text")?;
    let arguments = subject.arguments();
    let mut trace = vec![binary, "--json", "--quiet", "cc", "trace"];
    trace.extend(arguments.iter().map(String::as_str));
    trace.extend(["--every", "4ms", "--for", &span]);
    let trace = ends
        .at("a", &trace)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    until_registered(&registered)?;
    ready()?;
    let time = format!("{}", seconds.ceil());
    let mut flow = ends.at("a", &["iperf3", "-c", peer, "-C", &registered, "-t", &time]);
    let _flow = Running(quiet(&mut flow).spawn()?);
    let output = trace.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command that neither reads nor tells.
pub fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Runs a client again until its server listens.
///
/// # Errors
/// After ten seconds.
pub fn retry(mut run: impl FnMut() -> std::io::Result<std::process::ExitStatus>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while !run()?.success() {
        if Instant::now() > until {
            bail!("the server does not listen");
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}
