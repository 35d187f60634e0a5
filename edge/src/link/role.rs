//! What a process of a link is started for: to be its emulator, or to enter a side.

use super::{Link, Side, emulate, network};
use crate::reexec;
use farline_core::units::Error;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// A process of a link.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// The emulator; its settings stand on standard input.
    Emulate,
    /// The emulator of a network; its settings stand on standard input.
    EmulateNetwork,
    /// Becomes the command of its arguments in a site.
    EnterNetwork {
        /// The network's name.
        network: String,
        /// The site's.
        site: String,
    },
    /// Becomes the command of its arguments in a side.
    Enter {
        /// The link's name.
        link: String,
        /// The side.
        side: Side,
        /// The role of that command there, if it is a program of Farline's.
        role: Option<String>,
    },
}

impl reexec::Role for Role {
    const MODULE: &'static str = "link";
}

/// Plays it; returns the exit code.
///
/// # Errors
/// When a side cannot be entered.
pub(crate) fn play(role: Role) -> Result<u8, Error> {
    match role {
        // What goes wrong was reported to the process that asked, in its words.
        Role::Emulate => Ok(emulate().err().map_or(0, |error| error.fault.exit_code())),
        Role::EmulateNetwork => {
            Ok(network::emulate().err().map_or(0, |error| error.fault.exit_code()))
        }
        Role::EnterNetwork { network, site } => {
            let (program, arguments) = words();
            Err(network::EmulatedNetwork::find(&network)?
                .become_command(&site, &program, &arguments))
        }
        Role::Enter { link, side, role } => {
            let (program, arguments) = words();
            Err(Link::find(&link)?.become_role(side, &program, &arguments, role.as_deref()))
        }
    }
}

/// The program and the arguments that this process was started with.
fn words() -> (OsString, Vec<OsString>) {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let program = if arguments.is_empty() { OsString::new() } else { arguments.remove(0) };
    (program, arguments)
}
