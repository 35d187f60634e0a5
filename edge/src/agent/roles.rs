//! Which module's role a process was started for, and what its starter hears of a failure.

#[cfg(feature = "profile")]
use super::trial;
#[cfg(feature = "line")]
use crate::line;
#[cfg(feature = "profile")]
use crate::prober;
use crate::{kernelcc, link, reexec};
use farline_core::units::{Error, ErrorCode, Fault};
use std::ffi::OsStr;
use std::io::{self, Write};

/// Plays the role of this process, and then ends it; returns when there is none.
pub(super) fn run() {
    reexec::has_asked();
    let Some(text) = std::env::var_os(reexec::VARIABLE) else { return };
    std::process::exit(play(&text).unwrap_or_else(|error| report(&error)).into());
}

/// Plays the role in `text`; returns the exit code.
fn play(text: &OsStr) -> Result<u8, Error> {
    if let Some(role) = reexec::role_in::<link::Role>(text)? {
        return link::play(role);
    }
    #[cfg(feature = "profile")]
    if let Some(role) = reexec::role_in::<prober::Role>(text)? {
        return Ok(said(prober::play(role)));
    }
    #[cfg(feature = "profile")]
    if let Some(role) = reexec::role_in::<prober::Trial>(text)? {
        return Ok(said(trial::play(role)));
    }
    if let Some(role) = reexec::role_in::<kernelcc::Role>(text)? {
        // Who started it is gone when it cannot be told.
        return Ok(kernelcc::play(role).map_or(1, |()| 0));
    }
    #[cfg(feature = "pam")]
    if let Some(role) = reexec::role_in::<crate::identity::PamRole>(text)? {
        // Who started it is gone when it cannot be told.
        return Ok(crate::identity::ask_pam(role).map_or(1, |()| 0));
    }
    #[cfg(feature = "line")]
    if let Some(role) = reexec::role_in::<line::Role>(text)? {
        return Ok(said(line::play(role)));
    }
    Err(Error::new(Fault::You, ErrorCode::AgentRole, "no module of this version has that role")
        .hint(format!("programs set {0} for themselves: unset {0}", reexec::VARIABLE)))
}

/// The exit code of an end of a measurement, whose error goes where its result would: to who
/// started it, and puts it into words once.
#[cfg(any(feature = "line", feature = "profile"))]
fn said(result: Result<(), Error>) -> u8 {
    result.err().map_or(0, |error| {
        let _ = reexec::say(&serde_json::json!({ "error": &error }));
        error.fault.exit_code()
    })
}

/// Tells people of `error`; returns its exit code.
fn report(error: &Error) -> u8 {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "farline: {error}");
    if let Some(hint) = &error.hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    error.fault.exit_code()
}
