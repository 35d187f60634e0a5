//! `farline cc`: congestion controls of this host, and those that Farline brings.

mod show;

use crate::interrupt::{self, Signals};
use crate::output::Output;
use clap::Subcommand;
use farline::kernelcc::{self, CcGuard, CcOrigin, CcRequest, SampleSource, Trace};
use farline_core::congestion::{Constants, ControlName};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

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
    #[command(
        after_help = "Example:\n  farline cc load htcp -- iperf3 -c dtn2.example.org -C htcp"
    )]
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
        /// The least time between two lines of a flow, from 1us
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
    set: Option<Constants>,
    /// The name to register it by, up to 15 characters [default: the control's own]
    #[arg(id = "registered", long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Register as kernels before 6.4 do
    #[arg(long, hide = true)]
    without_link: bool,
}

impl How {
    fn request(self, control: &str) -> Result<CcRequest, Error> {
        let mut request = CcRequest::new(control.parse::<ControlName>()?);
        (request.set, request.name) = (self.set, self.registered()?);
        (request.without_link, request.offered) = (self.without_link, true);
        Ok(request)
    }

    fn registered(&self) -> Result<Option<ControlName>, Error> {
        self.name.as_deref().map(ControlName::to_register).transpose()
    }
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match args.action {
        Action::Ls => show::list(&kernelcc::list(), output)?,
        Action::Unload { name } => {
            let name = name.parse()?;
            let flows = kernelcc::unload(name)?;
            show::unloaded(name, flows, output)?;
        }
        Action::Load { name, how, pin, command } => {
            // Before a control is registered: on kernels without `struct_ops` links a signal that
            // ended this process at once would leave it behind.
            let (runtime, mut signals) = interrupt::listening()?;
            let mut request = how.request(&name)?;
            request.pin = pin;
            let guard = kernelcc::obtain(&request)?;
            guard.keep_module();
            show::loaded(&guard, pin, output)?;
            // What was there before, and what is pinned, stays without us.
            let stays = pin || guard.source != CcOrigin::Bpf;
            return match command.split_first() {
                Some((program, arguments)) => run_command(&runtime, signals, program, arguments),
                None => {
                    if !stays {
                        runtime.block_on(signals.next());
                    }
                    Ok(ExitCode::SUCCESS)
                }
            };
        }
        Action::Trace { name, how, every, duration } => {
            return trace(&name, how, every, duration, output);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// No sample comes closer to another than the kernel's clock for flows can tell.
const CLOSEST: Span = Span::from_micros(1);
/// As long nothing is said of flows that do not come, and as often a signal is looked for.
const SILENT: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(100);
/// Lines between two looks for a signal.
const LINES: usize = 10_000;

fn trace(
    name: &str,
    how: How,
    every: Span,
    duration: Option<Span>,
    output: &Output,
) -> Result<ExitCode, Error> {
    if every < CLOSEST {
        return Err(Error::new(
            Fault::You,
            ErrorCode::Usage,
            format!("--every {every}: two lines of a flow are 1us apart at least"),
        )
        .hint("for example --every 10ms"));
    }
    let registered = how.registered()?.map_or_else(|| name.parse(), Ok)?;
    let (runtime, signals) = interrupt::listening()?;
    let is_there = kernelcc::available().contains(&registered);
    let guard: Option<CcGuard> = if is_there && how.set.is_none() {
        None
    } else {
        let mut request = how.request(name)?;
        request.sample_every = every;
        Some(kernelcc::obtain(&request)?)
    };
    let mut trace = match &guard {
        Some(guard) => Trace::of(guard, every)?,
        None => Trace::of_name(registered, every)?,
    };
    let said = match trace.told() {
        SampleSource::Control => "what the control itself tells",
        _ => "what TCP_INFO tells of this network namespace; lost: packets sent again",
    };
    output.remark(format_args!("{registered}: {said}"));
    let asked = interrupt::asked(runtime, signals)?;
    let (began, span) = (Instant::now(), duration.map_or(Duration::MAX, Duration::from));
    let (mut lines, mut remarked) = (0, false);
    while began.elapsed() < span && !asked.load(Ordering::Relaxed) {
        let turn = TURN.min(span.saturating_sub(began.elapsed()));
        // All that is ready, then a look for a signal.
        let mut next = trace.next(turn);
        for _ in 0..LINES {
            let Some(sample) = next else { break };
            show::sample(&sample, output)?;
            lines += 1;
            next = trace.next(Duration::ZERO);
        }
        if let Some(sample) = next {
            show::sample(&sample, output)?;
        }
        // Not when the time is over, however late that was seen: then it is said below what came of
        // it.
        let elapsed = began.elapsed();
        if lines == 0 && !remarked && (SILENT..span).contains(&elapsed) {
            output.remark(format_args!("no flow uses {registered} yet"));
            remarked = true;
        }
    }
    if lines == 0 && !remarked {
        output.remark(format_args!("no flow used {registered}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `program` and returns its exit code. Signals that end us end it too, as it stands in the
/// same process group; we stay until it is gone, to unregister the control.
fn run_command(
    runtime: &Runtime,
    mut signals: Signals,
    program: &OsString,
    arguments: &[OsString],
) -> Result<ExitCode, Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            Fault::You,
            ErrorCode::Command,
            format!("running {}: {error}", program.to_string_lossy()),
        )
    };
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
                code = signals.next() => {
                    // A terminal tells the whole group of an interrupt. A command that will not end
                    // keeps its control; one that is gone already needs no signal.
                    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
                    let signal = match code {
                        interrupt::TERM => Some(rustix::process::Signal::TERM),
                        interrupt::HUP => Some(rustix::process::Signal::HUP),
                        _ => None,
                    };
                    if let (Some(pid), Some(signal)) = (pid, signal) {
                        let _ = rustix::process::kill_process(pid, signal);
                    }
                }
            }
        }
    })
}
