//! The entry for processes that Farline starts of itself: a program that embeds the library calls
//! [`run`] first thing in `main`.
//!
//! A link's emulator, an end of a measurement, a copy inside a link: each is this program again, in
//! another role (`reexec`). What a role does is its module's; this one only finds whose it is.
//! On another host, over ssh, there is no such program: there the command `farline serve` is run
//! (`client/ssh`), the one place in the library that names a command of the shell.

mod trial;

use crate::{line, link, prober, reexec};
use farline_core::units::{Error, ErrorCode, Fault};
use std::ffi::OsStr;
use std::io::{self, Write};

/// Plays the role that this process was started for, and then ends it; returns when there is none.
///
/// Must be called before the program starts a thread or reads its arguments:
///
/// ```no_run
/// farline::agent::run();
/// // The program itself.
/// ```
pub fn run() {
    reexec::has_asked();
    let Some(text) = std::env::var_os(reexec::VARIABLE) else { return };
    std::process::exit(play(&text).unwrap_or_else(|error| tell(&error)).into());
}

/// Plays the role in `text`; returns the exit code.
fn play(text: &OsStr) -> Result<u8, Error> {
    if let Some(role) = reexec::role_in::<link::Role>(text)? {
        return link::play(role);
    }
    if let Some(role) = reexec::role_in::<prober::Role>(text)? {
        return Ok(said(prober::play(role)));
    }
    if let Some(role) = reexec::role_in::<prober::Trial>(text)? {
        return Ok(said(trial::play(role)));
    }
    if let Some(role) = reexec::role_in::<line::Role>(text)? {
        return Ok(said(line::play(role)));
    }
    Err(Error::new(Fault::You, ErrorCode::AgentRole, "no module of this version has that role")
        .hint(format!("programs set {0} for themselves: unset {0}", reexec::VARIABLE)))
}

/// The exit code of an end of a measurement, whose error goes where its result would: to who started
/// it, and puts it into words once.
fn said(result: Result<(), Error>) -> u8 {
    result.err().map_or(0, |error| {
        let _ = reexec::say(&serde_json::json!({ "error": &error }));
        error.fault.exit_code()
    })
}

/// Tells people of `error`; returns its exit code.
fn tell(error: &Error) -> u8 {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "farline: {error}");
    if let Some(hint) = &error.hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    error.fault.exit_code()
}
