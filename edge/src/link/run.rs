//! One command over a link that is there for it alone.

use super::failure::here;
use super::{Link, Settings, Side, Stats};
use farline_core::units::{Error, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How long the command may take to end after a signal has been passed on to it, before it is
/// killed; and how often its end is looked for.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Brings a link up, runs `program` in side a and takes the link down, also when interrupted or
/// when the command cannot be run.
///
/// `started` is called when the link is up. Returns the command's exit code (128 and the signal's
/// number when a signal ended it, as shells do) and the link's last statistics.
///
/// # Errors
/// Those of [`Link::up`], and [`Fault::Here`](farline_core::units::Fault::Here) when the link
/// cannot be removed.
pub fn run(
    settings: &Settings,
    program: &OsStr,
    arguments: &[impl AsRef<OsStr>],
    started: impl FnOnce(&Link),
) -> Result<(u8, Stats), Error> {
    let failed =
        |error: io::Error| here(ErrorCode::LinkEmulator, format!("running a command: {error}"));
    let settings = Settings { with_parent: true, ..settings.clone() };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        // Before the link is up: a signal in between must not leave it behind.
        let mut ended = signal(SignalKind::child()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let link = Link::up(&settings)?;
        started(&link);
        let mut command = match link.command(Side::A, program) {
            Ok(command) => command,
            Err(error) => {
                link.down()?;
                return Err(error);
            }
        };
        let code = async {
            let mut child = command.args(arguments).spawn()?;
            let mut kill_at: Option<Instant> = None;
            loop {
                if let Some(status) = child.try_wait()? {
                    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                    return Ok(u8::try_from(code).unwrap_or(1));
                }
                // A child's end could be missed only if its signal came before we listened; look
                // now and then.
                let look =
                    kill_at.map_or(TIMEOUT, |at| at.saturating_duration_since(Instant::now()));
                tokio::select! {
                    _ = ended.recv() => {}
                    _ = interrupt.recv() => pass_on(&child, Signal::INT, &mut kill_at),
                    _ = terminate.recv() => pass_on(&child, Signal::TERM, &mut kill_at),
                    _ = hangup.recv() => pass_on(&child, Signal::HUP, &mut kill_at),
                    () = tokio::time::sleep(look) => {
                        if kill_at.is_some_and(|at| at <= Instant::now()) {
                            kill_at = None;
                            send(&child, Signal::KILL);
                        }
                    }
                }
            }
        }
        .await
        .map_err(failed);
        let stats = link.stats();
        link.down()?;
        Ok((code?, stats?))
    })
}

/// Passes `signal` on; `kill_at` is when the command's time to obey it ends. A second signal does
/// not prolong it.
fn pass_on(child: &Child, signal: Signal, kill_at: &mut Option<Instant>) {
    kill_at.get_or_insert(Instant::now() + TIMEOUT);
    send(child, signal);
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
