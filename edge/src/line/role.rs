//! The ends of a test as processes of their own, in the sides of an emulated link.

use super::reflect::{ReflectOptions, Reflector};
use super::test::{LineProgress, LineRequestOptions, run};
use crate::link::{Link, Side};
use crate::reexec::{self, say};
use farline_core::line::{EthernetFraming, LineSettings, LineState, LineTest, TestedSecond};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the end that tests is looked at for whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An end of a test. Both end when their standard input does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Counts what comes by UDP, or by the Ethernet device.
    Reflect { ethernet: Option<String> },
    /// Tests as the first line of standard input says ([`TestOrder`]), and says what comes of it.
    Test,
}

impl reexec::Role for Role {
    const MODULE: &'static str = "line";
}

/// What the end that tests is to do.
#[derive(Debug, Serialize, Deserialize)]
struct TestOrder {
    settings: LineSettings,
    resume: Option<LineState>,
    link: String,
}

/// What the end that tests says, a line each.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// Where it stands, once a second.
    Second { news: Vec<TestedSecond>, state: Box<LineState>, silence: Option<Span> },
    /// What came of it.
    Done(Box<LineTest>),
}

/// Plays an end.
pub(crate) fn play(role: Role) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&stop);
    let stop_at_end = move || {
        std::thread::spawn(move || {
            let _ = io::stdin().lock().read_to_end(&mut Vec::new());
            until.store(true, Ordering::Relaxed);
        });
    };
    match role {
        Role::Reflect { ethernet } => {
            let mut options = ReflectOptions::at(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
            options.ethernet = ethernet;
            let reflector = Reflector::bind(&options)?;
            // Of a device the other end knows everything.
            say(&reflector.address().map_or(0, |address| address.port()))?;
            stop_at_end();
            reflector.run(&stop)
        }
        Role::Test => {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map_err(failed)?;
            let order: TestOrder = serde_json::from_str(&line).map_err(|error| {
                Error::new(Fault::Bug, ErrorCode::AgentRole, format!("a line test: {error}"))
            })?;
            stop_at_end();
            let mut options = LineRequestOptions::new(order.settings);
            (options.stop, options.resume) = (stop, order.resume);
            options.link = Some(order.link);
            let test = run(&options, |progress| {
                let state = Box::new((progress.state)());
                let silence = progress.silence;
                say(&Said::Second { news: progress.news.to_vec(), state, silence })
            })?;
            say(&Said::Done(Box::new(test)))
        }
    }
}

/// An end that goes when this does.
struct End(Child);

impl Drop for End {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The far end of tests over a link, in its side b; it goes when this does.
pub struct LinkFarEnd<'a> {
    link: &'a Link,
    /// Where the near ends find it.
    target: String,
    #[expect(dead_code, reason = "held for its process")]
    end: End,
}

/// Tests a link from its side a to its side b; `settings.target` is left as the report's name of
/// it.
///
/// # Errors
/// When the link is not up, an end cannot be started, and as [`run`].
pub fn run_over(
    link: &Link,
    options: &LineRequestOptions,
    progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
) -> Result<LineTest, Error> {
    LinkFarEnd::start(link, options.settings.ethernet.as_ref())?.test(options, progress)
}

impl LinkFarEnd<'_> {
    /// Starts it, for UDP or for the frames of a device.
    ///
    /// # Errors
    /// When the link is not up, or has no such device.
    pub fn start<'a>(
        link: &'a Link,
        ethernet: Option<&EthernetFraming>,
    ) -> Result<LinkFarEnd<'a>, Error> {
        started_far(link, ethernet.map(|framing| framing.device.clone()))
    }

    /// Runs a test with it, at the same time as others.
    ///
    /// # Errors
    /// When the near end cannot be started, and as [`run`].
    pub fn test(
        &self,
        options: &LineRequestOptions,
        progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<LineTest, Error> {
        tested(self, options, progress)
    }
}

fn started_far(link: &Link, ethernet: Option<String>) -> Result<LinkFarEnd<'_>, Error> {
    let name = &link.info().name;
    if !link.is_alive() {
        let message = format!("the emulator of link `{name}` is dead");
        return Err(Error::new(Fault::Here, ErrorCode::LinkGone, message)
            .hint(format!("clean up with `farline link down {name}`")));
    }
    let program = link.info().program.as_deref();
    if ethernet.is_some() && !link.info().ethernet {
        let message = format!("link `{name}` carries packets of IP, no Ethernet frames");
        return Err(Error::new(Fault::You, ErrorCode::LineDevice, message)
            .hint(format!("bring one up with `farline link up {}`", Setting::Ethernet)));
    }
    let role = Role::Reflect { ethernet: ethernet.clone() };
    let mut far = started(&mut link.agent(Side::B, program, &role)?)?;
    let mut line = String::new();
    if let Some(stdout) = far.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    let port: u16 = parsed(&line)?;
    let target = match ethernet {
        Some(_) => link.info().hardware_address(Side::B),
        None => format!("{}:{port}", link.info().address(Side::B)),
    };
    Ok(LinkFarEnd { link, target, end: far })
}

fn tested(
    far: &LinkFarEnd<'_>,
    options: &LineRequestOptions,
    mut progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
) -> Result<LineTest, Error> {
    let LinkFarEnd { link, target, .. } = far;
    let program = link.info().program.as_deref();
    let called = &options.settings.target;
    let settings = LineSettings { target: target.clone(), ..options.settings.clone() };
    let (resume, link_name) = (options.resume.clone(), link.info().name.clone());
    let order = TestOrder { settings, resume, link: link_name };
    let mut near = started(&mut link.agent(Side::A, program, &Role::Test)?)?;
    let (mut orders, said) = (near.0.stdin.take(), near.0.stdout.take());
    let text = serde_json::to_string(&order)
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::AgentRole, error.to_string()))?;
    if let Some(orders) = &mut orders {
        writeln!(orders, "{text}").map_err(failed)?;
    }
    let (stop, over) = (&options.stop, AtomicBool::new(false));
    let test = std::thread::scope(|scope| {
        // What it waits for is the end of its input.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
            }
            drop(orders);
        });
        let done = said.map_or_else(|| parsed(""), |said| until_done(said, called, &mut progress));
        over.store(true, Ordering::Relaxed);
        done
    });
    test.map(|mut test: LineTest| {
        test.settings.target.clone_from(called);
        test
    })
}

/// Passes on what the end that tests says, with the name that the link is `called` by.
fn until_done(
    said: impl Read,
    called: &str,
    progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
) -> Result<LineTest, Error> {
    for line in BufReader::new(said).lines() {
        match parsed(&line.map_err(failed)?)? {
            Said::Second { news, mut state, silence } => {
                called.clone_into(&mut state.test.settings.target);
                let again = || (*state).clone();
                let test = &state.test;
                progress(&LineProgress { test, news: &news, state: &again, silence })?;
            }
            Said::Done(test) => return Ok(*test),
        }
    }
    parsed("")
}

/// Starts an end, out of the terminal's reach: its ctrl-C is this process's to pass on.
fn started(command: &mut Command) -> Result<End, Error> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.process_group(0).spawn().map(End).map_err(failed)
}

/// What an end said: its result, or its error.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let silence = "an end of the test ended without a word";
    reexec::reply(text, Error::new(Fault::Here, ErrorCode::LineSocket, silence))?
}

fn failed(error: io::Error) -> Error {
    Error::new(Fault::Here, ErrorCode::LineSocket, format!("running an end of the test: {error}"))
}
