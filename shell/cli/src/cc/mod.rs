//! `farline cc`: congestion controls of this host, and those that Farline brings.

mod show;

use crate::output::Output;
use clap::Subcommand;
use farline::kernelcc::{self, Held, Source, Trace, Wish};
use farline_core::congestion::Set;
use farline_core::units::{Error, Fault, Span};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  farline cc load htcp -- iperf3 -c dtn2.example.org -C htcp
  farline cc load bic --set paper --as bic_paper --pin
  farline cc trace htcp --for 10s

A name is seen by the whole machine. What is loaded goes with the process that
loaded it, however that ends, unless it is pinned; flows keep it to their end.";

/// List, load and watch TCP congestion controls
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the controls that this host has and those that Farline can load.
    #[command(after_help = "Example:\n  farline cc ls")]
    Ls,
    /// Make a control available: as the kernel has it, as a module, or in BPF.
    #[command(after_help = "Example:\n  farline cc load htcp -- iperf3 -c dtn2.example.org -C htcp")]
    Load {
        /// The control: bic, htcp, highspeed, scalable, vegas, or one that the kernel has
        name: String,
        #[command(flatten)]
        how: How,
        /// Keep it until `farline cc unload` [default: until this command ends]
        #[arg(long, conflicts_with = "command")]
        pin: bool,
        /// Run this command meanwhile, instead of waiting for an interrupt
        #[arg(last = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Unregister a control that was loaded with --pin.
    #[command(after_help = "Example:\n  farline cc unload bic_paper")]
    Unload {
        /// The registered name
        name: String,
    },
    /// Print window, threshold, rtt and losses of the flows that use a control.
    #[command(after_help = "Example:\n  farline cc trace htcp --for 10s")]
    Trace {
        /// The control; one that is not there is loaded meanwhile
        name: String,
        #[command(flatten)]
        how: How,
        /// The least time between two lines of a flow
        #[arg(long, value_name = "TIME", default_value = "10ms")]
        every: Span,
        /// Stop after this time [default: when interrupted]
        #[arg(long = "for", value_name = "TIME")]
        duration: Option<Span>,
    },
}

#[derive(clap::Args)]
struct How {
    /// Constants: paper or linux [default: what the kernel has, else linux]
    #[arg(long, value_name = "SET")]
    set: Option<Set>,
    /// The name to register it by, up to 15 characters [default: the control's own]
    #[arg(id = "registered", long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Register as kernels before 6.4 do
    #[arg(long, hide = true)]
    without_link: bool,
}

impl How {
    fn wish(self, control: String) -> Wish {
        Wish { set: self.set, name: self.name, without_link: self.without_link, ..Wish::new(control) }
    }
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match args.action {
        Action::Ls => show::list(&kernelcc::list(), output)?,
        Action::Unload { name } => {
            let flows = kernelcc::unload(&name)?;
            show::unloaded(&name, flows, output)?;
        }
        Action::Load { name, how, pin, command } => {
            let signals = Signals::listen()?;
            let held = kernelcc::obtain(&Wish { pin, ..how.wish(name) })?;
            show::loaded(&held, pin, output)?;
            // What was there before, and what is pinned, stays without us.
            let stays = pin || held.source != Source::Bpf;
            return match command.split_first() {
                Some((program, arguments)) => run_command(signals, program, arguments),
                None if stays => Ok(ExitCode::SUCCESS),
                None => until_interrupted(signals, Duration::MAX, |_| Ok(())),
            };
        }
        Action::Trace { name, how, every, duration } => return trace(&name, how, every, duration, output),
    }
    Ok(ExitCode::SUCCESS)
}

fn trace(name: &str, how: How, every: Span, duration: Option<Span>, output: &Output) -> Result<ExitCode, Error> {
    let registered = how.name.clone().unwrap_or_else(|| name.to_owned());
    let signals = Signals::listen()?;
    let is_there = kernelcc::available().contains(&registered);
    let held: Option<Held> = if is_there && how.set.is_none() {
        None
    } else {
        Some(kernelcc::obtain(&Wish { sample_every: every, ..how.wish(name.to_owned()) })?)
    };
    let mut trace = match &held {
        Some(held) => Trace::of(held, every)?,
        None => Trace::of_name(&registered, every)?,
    };
    until_interrupted(signals, duration.map_or(Duration::MAX, Duration::from), |patience| {
        if let Some(sample) = trace.next(patience) {
            show::sample(&sample, output)?;
        }
        Ok(())
    })
}

/// The signals that ask to end. They are listened for before a control is registered: on kernels without `struct_ops` links one that
/// ended this process at once would leave it behind.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminated: Signal,
    interrupted: Signal,
    hung_up: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, Error> {
        let failed = |error: std::io::Error| Error::new(Fault::Here, "no-runtime", format!("cannot wait for signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let within = runtime.enter();
        let terminated = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let hung_up = signal(SignalKind::hangup()).map_err(failed)?;
        drop(within);
        Ok(Signals { runtime, terminated, interrupted, hung_up })
    }
}

/// Runs `step` again and again, with at most a tenth of a second for each, until `span` is over or a signal asks to end.
fn until_interrupted(
    signals: Signals,
    span: Duration,
    mut step: impl FnMut(Duration) -> Result<(), Error>,
) -> Result<ExitCode, Error> {
    let Signals { runtime, mut terminated, mut interrupted, mut hung_up } = signals;
    runtime.block_on(async {
        let began = Instant::now();
        while began.elapsed() < span {
            let turn = Duration::from_millis(100).min(span - began.elapsed().min(span));
            let before = Instant::now();
            step(turn)?;
            // A step that had nothing to wait for leaves the rest of its turn; else the signals get a look in.
            let rest = if before.elapsed() < turn / 2 { Duration::from_millis(1).min(turn) } else { Duration::ZERO };
            tokio::select! {
                biased;
                _ = terminated.recv() => break,
                _ = interrupted.recv() => break,
                _ = hung_up.recv() => break,
                () = tokio::time::sleep(rest) => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs `program` and answers its exit code. Signals that end us end it too, as it stands in the same process group; we stay
/// until it is gone, to unregister the control.
fn run_command(signals: Signals, program: &OsString, arguments: &[OsString]) -> Result<ExitCode, Error> {
    let failed =
        |error: std::io::Error| Error::new(Fault::You, "command", format!("running {}: {error}", program.to_string_lossy()));
    let Signals { runtime, mut terminated, mut interrupted, .. } = signals;
    runtime.block_on(async {
        let mut child = tokio::process::Command::new(program).args(arguments).spawn().map_err(failed)?;
        loop {
            tokio::select! {
                status = child.wait() => {
                    use std::os::unix::process::ExitStatusExt;
                    let status = status.map_err(failed)?;
                    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                    return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
                }
                _ = terminated.recv() => {
                    // A command that will not end keeps its control; one that is gone already needs no signal.
                    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
                    if let Some(pid) = pid {
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                    }
                }
                _ = interrupted.recv() => {}
            }
        }
    })
}
