//! The entry for processes that Farline starts of itself: a program that embeds the library calls
//! [`run`] first thing in `main`.
//!
//! A link's emulator, an end of a measurement, a copy inside a link: each is this program again, in
//! another role (`reexec`). What a role does is its module's; this one only finds whose it is. A
//! build without links starts no process of its own. On another host, over ssh, there is no such
//! program: there the command `farline serve` is run (`client/ssh`), the one place in the library
//! that names a command of the shell.

#[cfg(feature = "link")]
mod roles;
#[cfg(feature = "profile")]
mod trial;

/// Plays the role that this process was started for, and then ends it; returns when there is none.
///
/// Must be called before the program starts a thread or reads its arguments:
///
/// ```no_run
/// farline::agent::run();
/// // The program itself.
/// ```
pub fn run() {
    #[cfg(feature = "link")]
    roles::run();
}
