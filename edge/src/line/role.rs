//! The ends of a test as processes of their own, in the sides of an emulated link.

use super::reflect::{ReflectOptions, Reflector};
use super::test::{LineRequestOptions, run};
use crate::link::{Link, Side};
use crate::reexec::{self, say};
use farline_core::line::{LineSettings, LineTest};
use farline_core::units::{Error, ErrorCode, Fault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An end of a test.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Counts until its standard input ends.
    Reflect,
    /// Tests, and says what came of it.
    Test(Box<LineSettings>),
}

impl reexec::Role for Role {
    const MODULE: &'static str = "line";
}

/// Plays an end.
pub(crate) fn play(role: Role) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    match role {
        Role::Reflect => {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let reflector = Reflector::bind(&ReflectOptions::at(any))?;
            say(&reflector.address()?.port())?;
            let until = Arc::clone(&stop);
            std::thread::spawn(move || {
                let _ = io::stdin().lock().read_to_end(&mut Vec::new());
                until.store(true, Ordering::Relaxed);
            });
            reflector.run(&stop)
        }
        Role::Test(settings) => {
            let options = LineRequestOptions { settings: *settings, stop, resume: None };
            say(&run(&options, |_| Ok(()))?)
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

/// Tests a link from its side a to its side b; `settings.target` is left as the report's name of it.
///
/// # Errors
/// When an end cannot be started, and as [`run`].
pub fn run_over(link: &Link, settings: &LineSettings) -> Result<LineTest, Error> {
    let program = link.info().program.as_deref();
    let mut far = started(&mut link.agent(Side::B, program, &Role::Reflect)?)?;
    let mut line = String::new();
    if let Some(stdout) = far.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    let port: u16 = parsed(&line)?;
    let target = format!("{}:{port}", link.info().address(Side::B));
    let role = Role::Test(Box::new(LineSettings { target, ..settings.clone() }));
    let mut near = started(&mut link.agent(Side::A, program, &role)?)?;
    let mut said = String::new();
    if let Some(mut stdout) = near.0.stdout.take() {
        stdout.read_to_string(&mut said).map_err(failed)?;
    }
    let mut test: LineTest = parsed(&said)?;
    test.settings.target.clone_from(&settings.target);
    Ok(test)
}

fn started(command: &mut Command) -> Result<End, Error> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    child.map(End).map_err(failed)
}

/// What an end said: its result, or its error.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let silence = "an end of the test ended without a word";
    reexec::reply(text, Error::new(Fault::Here, ErrorCode::LineSocket, silence))?
}

fn failed(error: io::Error) -> Error {
    Error::new(Fault::Here, ErrorCode::LineSocket, format!("running an end of the test: {error}"))
}
