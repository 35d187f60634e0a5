//! Signals that ask the command to end, and what it holds to be given back: congestion controls
//! stay where a process just dies.

use farline::kernelcc;
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM, and SIGHUP where nobody had it ignored (`nohup`).
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

/// 128 and the number is what a shell says of a command that a signal ended.
pub(crate) const HUP: u8 = 129;
const INT: u8 = 130;
pub(crate) const TERM: u8 = 143;

impl Signals {
    /// Listens from now on; within a runtime.
    pub(crate) fn listen() -> Result<Signals, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::NoSignals,
                    format!("cannot wait for signals: {error}"),
                )
            })
        };
        let hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Waits for the next one; returns the exit code of a command that it ends.
    pub(crate) async fn next(&mut self) -> u8 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => INT,
            _ = self.terminate.recv() => TERM,
            _ = hangup => HUP,
        }
    }
}

/// Whether SIGHUP was ignored when this process began: it is the lowest bit of the mask in /proc.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

/// A runtime of this thread's own, to `doing`.
pub(crate) fn runtime(doing: &str) -> Result<Runtime, Error> {
    Builder::new_current_thread().enable_all().build().map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot {doing}: {error}"))
    })
}

/// A runtime that does nothing but listen.
pub(crate) fn listening() -> Result<(Runtime, Signals), Error> {
    let runtime = runtime("wait for signals")?;
    let within = runtime.enter();
    let signals = Signals::listen()?;
    drop(within);
    Ok((runtime, signals))
}

/// For a command that works in this thread until it looks: true from the first signal on.
pub(crate) fn asked(runtime: Runtime, mut signals: Signals) -> Result<Arc<AtomicBool>, Error> {
    let asked = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&asked);
    on_a_thread(move || {
        runtime.block_on(signals.next());
        tell.store(true, Ordering::Relaxed);
    })?;
    Ok(asked)
}

/// For a command that never looks: gives the congestion controls back that this process holds when
/// a signal comes, and ends it.
pub(crate) fn give_back_when_asked() -> Result<(), Error> {
    give_back_when_asked_after(|| ())
}

/// The same, after `last`.
pub(crate) fn give_back_when_asked_after(
    last: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    let (runtime, mut signals) = listening()?;
    on_a_thread(move || {
        let code = runtime.block_on(signals.next());
        last();
        kernelcc::give_back();
        std::process::exit(i32::from(code));
    })
}

fn on_a_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(work);
    thread.map(drop).map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoThread, format!("starting a thread: {error}"))
    })
}
