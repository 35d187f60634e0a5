//! Loads for a process that has confined itself: another, which began before, does what this one may not do any
//! more. What it loaded goes when this process wants it no more, or ends.

use super::load::{CcGuard, CcOrigin, obtain as obtain_here, resuming as resume_here};
use super::request::CcRequest;
use crate::reexec;
use farline_core::congestion::{ControlName, SavedPath};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

/// A process that loads until its standard input ends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Load,
}

impl reexec::Role for Role {
    const MODULE: &'static str = "kernelcc";
}

/// What is asked, a line.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// The control of this name, as this host has it or Farline brings it.
    Obtain { control: String },
    /// CUBIC for flows over a path of which an earlier one saw this.
    Resume { in_flight: u64, rtt_nanos: u64, fills: bool },
    /// Nobody has what was obtained by this number any more. Nothing is answered.
    GiveBack { number: u64 },
}

/// What was obtained.
#[derive(Debug, Serialize, Deserialize)]
struct Given {
    number: u64,
    name: String,
    source: CcOrigin,
}

/// Plays the process.
///
/// # Errors
/// When who started it is gone.
pub(crate) fn play(Role::Load: Role) -> io::Result<()> {
    let mut held = BTreeMap::new();
    let mut out = io::stdout().lock();
    for (number, line) in (0..).zip(io::stdin().lock().lines()) {
        let obtained = match serde_json::from_str(&line?)? {
            Ask::GiveBack { number } => {
                held.remove(&number);
                continue;
            }
            Ask::Obtain { control } => match ControlName::from_kernel(control.as_bytes()) {
                Some(control) => obtain_here(&CcRequest::new(control)),
                None => Err(failed("its name is none")),
            },
            Ask::Resume { in_flight, rtt_nanos, fills } => {
                let rtt = Span::from_nanos(rtt_nanos);
                resume_here(SavedPath { in_flight: Bytes(in_flight), rtt, fills })
            }
        };
        let text = match obtained {
            Ok(guard) => {
                let (name, source) = (guard.name.to_string(), guard.source);
                held.insert(number, guard);
                serde_json::to_string(&Given { number, name, source })?
            }
            Err(error) => serde_json::json!({ "error": &error }).to_string(),
        };
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    Ok(())
}

/// The process that loads for this one.
#[derive(Debug)]
struct Loader {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

static LOADER: Mutex<Option<Loader>> = Mutex::new(None);

fn failed(why: impl Display) -> Error {
    let message = format!("the process that loads congestion controls: {why}");
    Error::new(Fault::Here, ErrorCode::AgentStart, message)
}

/// Begins the process that loads for this one from now on.
///
/// # Errors
/// When this program cannot be started again.
pub(crate) fn start_loader() -> Result<(), Error> {
    let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
    if loader.is_some() {
        return Ok(());
    }
    let mut command = reexec::command(None, &Role::Load)?;
    // Out of the terminal's reach: a ctrl-C there is this process's.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut process = command.spawn().map_err(failed)?;
    *loader = match (process.stdin.take(), process.stdout.take()) {
        (Some(to), Some(from)) => Some(Loader { process, to, from: BufReader::new(from) }),
        _ => return Err(failed("it has no pipes")),
    };
    Ok(())
}

/// Has the process that loads for this one end, and with it what it holds.
pub(super) fn end_loader() {
    let loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Loader { mut process, to, from }) = loader {
        drop((to, from));
        // Gone already is as good.
        let _ = process.wait();
    }
}

/// Obtains a control by the process that loads for this one; nothing where none does.
pub(super) fn obtain(wish: &CcRequest) -> Option<Result<CcGuard, Error>> {
    let is_usual = wish.is_plain() && !wish.pin && !wish.offered && !wish.without_link;
    is_usual.then(|| ask(&Ask::Obtain { control: wish.control.to_string() })).flatten()
}

/// The same of what begins from an earlier flow's path.
pub(super) fn resuming(saved: SavedPath) -> Option<Result<CcGuard, Error>> {
    let SavedPath { in_flight: Bytes(in_flight), rtt, fills } = saved;
    ask(&Ask::Resume { in_flight, rtt_nanos: rtt.as_nanos(), fills })
}

fn ask(question: &Ask) -> Option<Result<CcGuard, Error>> {
    let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = loader.as_mut()?.ask(question);
    Some(answer.and_then(|given| {
        let name = ControlName::from_kernel(given.name.as_bytes());
        let name = name.ok_or_else(|| failed("what it loaded has no name"))?;
        Ok(CcGuard::elsewhere(name, given.source, HeldElsewhere(given.number)))
    }))
}

impl Loader {
    fn ask(&mut self, question: &Ask) -> Result<Given, Error> {
        let mut line = String::new();
        self.say(question).and_then(|()| self.from.read_line(&mut line)).map_err(failed)?;
        reexec::reply(&line, failed("it ended"))?
    }

    fn say(&mut self, what: &Ask) -> io::Result<()> {
        writeln!(self.to, "{}", serde_json::to_string(what)?)
    }
}

/// What the other process holds for this one, until this goes.
#[derive(Debug)]
struct HeldElsewhere(u64);

impl Drop for HeldElsewhere {
    fn drop(&mut self) {
        let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loader) = loader.as_mut() {
            // What a process held that is gone is gone too.
            let _ = loader.say(&Ask::GiveBack { number: self.0 });
        }
    }
}
