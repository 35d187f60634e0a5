//! The entry for processes that Farline starts of itself: a program that embeds the library calls
//! [`run`] first thing in `main`.
//!
//! A link's emulator, an end of a measurement, a copy inside a link: each is this program again, in
//! another role (`reexec`). What a role does is its module's; this one only finds whose it is.
//! On another host, over ssh, there is no such program: there the command `farline serve` is run
//! (`client/ssh`), the one place in the library that names a command of the shell.

mod trial;

use crate::{link, prober, reexec};
use farline_core::units::{Error, Fault};
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
    let code = play(&text).unwrap_or_else(|error| {
        // Whoever started this process reads its output; a person who set the variable, its errors.
        let said = serde_json::json!({ "error": &error }).to_string();
        let _ = writeln!(io::stdout(), "{said}").and_then(|()| io::stdout().flush());
        tell(&error)
    });
    std::process::exit(code.into());
}

/// Plays the role in `text`; returns the exit code.
fn play(text: &std::ffi::OsStr) -> Result<u8, Error> {
    if let Some(role) = reexec::role_in::<link::Role>(text)? {
        // Its output is the emulator's report, or that of the command it becomes.
        return Ok(link::play(role).err().map_or(0, |error| tell(&error)));
    }
    if let Some(role) = reexec::role_in::<prober::Role>(text)? {
        return prober::play(role).map(|()| 0);
    }
    if let Some(role) = reexec::role_in::<prober::Trial>(text)? {
        return trial::play(role).map(|()| 0);
    }
    Err(Error::new(Fault::You, "agent-role", "no module of this version has that role")
        .hint(format!("programs set {0} for themselves: unset {0}", reexec::VARIABLE)))
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
