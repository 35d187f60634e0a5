//! Loads for a process that has confined itself: another, which began before, does what this one
//! may not do any more. What it loaded goes when this process wants it no more, or ends.

use super::load::{CcGuard, CcOrigin, obtain as obtain_here, resuming as resume_here};
use super::request::CcRequest;
use crate::reexec;
use crate::sys::child::ended_within;
use crate::sys::lock::lock;
use farline_core::congestion::{ControlName, SavedPath};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Controls that are held at once: each is the kernel's memory.
const MOST_HELD: usize = 4_096;
/// How long the process may take to end by itself: it may be amid a load.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

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
    outlive_signals()?;
    hold(io::stdin().lock().lines(), &mut io::stdout().lock(), |wanted| match wanted {
        Wanted::Control(control) => obtain_here(&CcRequest::new(control)),
        Wanted::Resuming(saved) => resume_here(saved),
    })
}

/// Has signals that ask a process to end not end this one: a service manager sends them to all that
/// it began, and what this holds is used until the node's transfers are through. It ends with its
/// input.
fn outlive_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        // The handler stays when this goes; a program that is run for a load begins without.
        drop(signal(kind)?);
    }
    Ok(())
}

/// What is to be loaded.
enum Wanted {
    Control(ControlName),
    Resuming(SavedPath),
}

/// Holds what `asks` wish by `load`, until they give it back or end, and says to `out` what came of
/// each.
fn hold<G: Named>(
    asks: impl Iterator<Item = io::Result<String>>,
    out: &mut impl Write,
    mut load: impl FnMut(Wanted) -> Result<G, Error>,
) -> io::Result<()> {
    let mut held = BTreeMap::new();
    for (number, line) in (0..).zip(asks) {
        let wanted = match serde_json::from_str(&line?)? {
            Ask::GiveBack { number } => {
                held.remove(&number);
                continue;
            }
            Ask::Obtain { control } => match ControlName::from_kernel(control.as_bytes()) {
                Some(control) => Ok(Wanted::Control(control)),
                None => Err(failed("its name is none")),
            },
            Ask::Resume { in_flight, rtt_nanos, fills } => {
                let rtt = Span::from_nanos(rtt_nanos);
                Ok(Wanted::Resuming(SavedPath { in_flight: Bytes(in_flight), rtt, fills }))
            }
        };
        let has_room = held.len() < MOST_HELD;
        let text = match wanted.and_then(|wanted| if has_room { load(wanted) } else { full() }) {
            Ok(guard) => {
                let (name, source) = guard.named();
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

fn full<G>() -> Result<G, Error> {
    let message = format!("this node's sessions hold {MOST_HELD} congestion controls already");
    Err(Error::new(Fault::Refused, ErrorCode::Busy, message)
        .hint("try again when some of them have ended"))
}

/// What is held, as it is told of.
trait Named {
    fn named(&self) -> (String, CcOrigin);
}

impl Named for CcGuard {
    fn named(&self) -> (String, CcOrigin) {
        (self.name.to_string(), self.source)
    }
}

/// The process that loads for this one, and where it is told what to do: locked for a line, and
/// never for as long as a load takes.
#[derive(Debug)]
struct Loader {
    process: Child,
    to: ChildStdin,
}

static LOADER: Mutex<Option<Loader>> = Mutex::new(None);
/// Where it answers: locked by who asks, until that has its answer, and before [`LOADER`].
static ANSWERS: Mutex<Option<BufReader<ChildStdout>>> = Mutex::new(None);

fn failed(why: impl Display) -> Error {
    let message = format!("the process that loads congestion controls: {why}");
    Error::new(Fault::Here, ErrorCode::AgentStart, message)
}

/// Begins the process that loads for this one from now on.
///
/// # Errors
/// When this program cannot be started again.
pub(crate) fn start_loader() -> Result<(), Error> {
    let (mut answers, mut loader) = (lock(&ANSWERS), lock(&LOADER));
    if loader.is_some() {
        return Ok(());
    }
    let mut command = reexec::command(None, &Role::Load)?;
    // Out of the terminal's reach: a ctrl-C there is this process's.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut process = command.spawn().map_err(failed)?;
    let (Some(to), Some(from)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(failed("it has no pipes"));
    };
    (*answers, *loader) = (Some(BufReader::new(from)), Some(Loader { process, to }));
    Ok(())
}

/// Has the process that loads for this one end, and with it what it holds.
pub(super) fn end_loader() {
    let loader = lock(&LOADER).take();
    if let Some(Loader { process, to }) = loader {
        drop(to);
        end(process, ENDS_WITHIN);
    }
}

/// Waits for a process that is about to end, and ends it where that takes longer than `within`.
fn end(mut process: Child, within: Duration) {
    if ended_within(&mut process, within).is_some() {
        return;
    }
    // Gone already is as good.
    let _ = process.kill();
    let _ = process.wait();
}

/// Obtains a control by the process that loads for this one; nothing where none does.
pub(super) fn obtain(request: &CcRequest) -> Option<Result<CcGuard, Error>> {
    let is_usual = request.is_plain() && !request.pin && !request.offered && !request.without_link;
    is_usual.then(|| ask(&Ask::Obtain { control: request.control.to_string() })).flatten()
}

/// The same of what begins from an earlier flow's path.
pub(super) fn resuming(saved: SavedPath) -> Option<Result<CcGuard, Error>> {
    let SavedPath { in_flight: Bytes(in_flight), rtt, fills } = saved;
    ask(&Ask::Resume { in_flight, rtt_nanos: rtt.as_nanos(), fills })
}

fn ask(question: &Ask) -> Option<Result<CcGuard, Error>> {
    let mut answers = lock(&ANSWERS);
    let answer = answered(answers.as_mut()?, question).unwrap_or_else(|error| Err(lost(&error)));
    Some(answer.and_then(|given| {
        let name = ControlName::from_kernel(given.name.as_bytes());
        let name = name.ok_or_else(|| failed("what it loaded has no name"))?;
        Ok(CcGuard::elsewhere(name, given.source, HeldElsewhere(given.number)))
    }))
}

/// What the process answers.
///
/// # Errors
/// When it is gone.
fn answered(from: &mut impl BufRead, question: &Ask) -> io::Result<Result<Given, Error>> {
    let mut line = String::new();
    say(question)?;
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(reexec::reply(&line, failed("it says what is no answer")).flatten())
}

fn say(what: &Ask) -> io::Result<()> {
    let line = format!("{}\n", serde_json::to_string(what)?);
    match &mut *lock(&LOADER) {
        Some(loader) => loader.to.write_all(line.as_bytes()),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// That it is gone, and with it what it held.
fn lost(error: &io::Error) -> Error {
    if let Some(loader) = &mut *lock(&LOADER) {
        // Else it is nobody's until this process ends.
        let _ = loader.process.try_wait();
    }
    failed(format!("it has ended: {error}"))
        .hint("begin the node again: what is confined cannot begin another")
}

/// What the other process holds for this one, until this goes.
#[derive(Debug)]
struct HeldElsewhere(u64);

impl Drop for HeldElsewhere {
    fn drop(&mut self) {
        // What a process held that is gone is gone too.
        let _ = say(&Ask::GiveBack { number: self.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    impl Named for ControlName {
        fn named(&self) -> (String, CcOrigin) {
            (self.to_string(), CcOrigin::Bpf)
        }
    }

    fn line(ask: &Ask) -> io::Result<String> {
        Ok(serde_json::to_string(ask)?)
    }

    fn vegas() -> io::Result<String> {
        line(&Ask::Obtain { control: "vegas".to_owned() })
    }

    /// What is said to these, each load of which comes about.
    fn said(asks: impl Iterator<Item = io::Result<String>>) -> Vec<Result<Given, Error>> {
        let mut out = Vec::new();
        let load = |wanted| match wanted {
            Wanted::Control(control) => Ok(control),
            Wanted::Resuming(_) => Err(failed("it is not asked for")),
        };
        hold(asks, &mut out, load).expect("all are asks");
        let said = String::from_utf8(out).expect("text");
        let given = |line| reexec::reply(line, failed("no answer")).flatten();
        said.lines().map(given).collect()
    }

    #[test]
    fn so_many_are_held_and_what_is_given_back_makes_room() {
        let number = 7;
        let back = [line(&Ask::GiveBack { number }), vegas()];
        let said = said((0..=MOST_HELD).map(|_| vegas()).chain(back));
        let refused: Vec<usize> =
            said.iter().enumerate().filter(|(_, one)| one.is_err()).map(|(at, _)| at).collect();
        assert_eq!((said.len(), refused), (MOST_HELD + 2, vec![MOST_HELD]));
        let error = said[MOST_HELD].as_ref().expect_err("refused");
        assert_eq!((error.code, error.fault), (ErrorCode::Busy, Fault::Refused));
        let last = said[MOST_HELD + 1].as_ref().expect("there is room again");
        // The line that gave one back has a number too.
        assert_eq!((last.number, &*last.name), (MOST_HELD as u64 + 2, "vegas"));
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let process = Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let began = Instant::now();
        end(process, Duration::from_millis(50));
        assert!(began.elapsed() < Duration::from_secs(30), "it was waited for");
    }

    #[test]
    fn a_process_that_is_gone_is_told_of_with_what_to_do() {
        let asked = Ask::Obtain { control: "vegas".to_owned() };
        // Nobody has begun one here.
        let error = answered(&mut io::empty(), &asked).expect_err("nobody answers");
        let error = lost(&error);
        assert_eq!((error.code, error.fault), (ErrorCode::AgentStart, Fault::Here));
        assert!(error.hint.is_some_and(|hint| hint.contains("begin the node again")));
    }
}
