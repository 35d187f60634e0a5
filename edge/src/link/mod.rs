//! The wide-area link in user space: namespaces, TUN devices and the packet mover around the core's
//! `wan`.
//!
//! A link is two network namespaces, `NAME-a` and `NAME-b`, with a TUN device `wan0` in each (or,
//! for whole Ethernet frames and VLANs among them, a TAP device), and an *emulator*: a process of
//! its own that holds the other ends of the devices and moves packets between them when
//! [`farline_core::wan`] says. What runs in the namespaces uses this machine's real TCP over a path
//! of the given rate, delay and trouble.
//!
//! ```no_run
//! use farline::link::{Link, Settings, Side};
//! farline::agent::run(); // first thing in main
//! let mut link = Link::up(&Settings::named("usn-8600")?)?;
//! let status = link.command(Side::A, "ping")?.args(["-c", "3", &link.info().address(Side::B)]).status();
//! println!("{:?}, valid: {}", status, link.stats()?.valid);
//! link.down()?;
//! # Ok::<(), farline::core::units::Error>(())
//! ```
//!
//! How it fits: [`Link`] is the handle that commands and tests use; `emulator` is the process;
//! `mover` is a thread in it that moves one `direction` or both, with `ring` for the bytes,
//! `packet` and `cut` for their layout, `accuracy` for how late it was; `place` records what runs;
//! `namespaces` and `rootless` set up the sides.
//!
//! Invariants: nothing that a dead emulator leaves stops the next `up` or `down`; a packet that is
//! lost for lack of CPU time is never counted as loss of the model; a run that was not exact says
//! so ([`Stats::valid`]).

mod accuracy;
mod cut;
mod direction;
mod emulator;
mod failure;
mod mover;
mod namespaces;
pub mod network;
mod packet;
mod place;
mod ring;
mod role;
mod rootless;
mod run;
mod settings;
mod stats;
mod valve;
mod vlan;
mod wires;

pub use accuracy::{Accuracy, LinkDelay, lateness_limit};
use emulator::emulate;
pub(crate) use role::{Role, play};
pub use rootless::WITHOUT_ROOT;
pub use run::run;
pub use settings::{Info, Settings, Side};
pub use stats::{DirectionStats, Stats};
pub use vlan::VlanPath;

use crate::reexec;
use failure::{Report, here, you};
use farline_core::units::{Error, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
#[cfg(any(feature = "line", feature = "profile"))]
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an emulator may take to end when asked to.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A link that is up, or was when this handle was made. Dropping the handle leaves the link as it
/// is.
#[derive(Debug)]
pub struct Link {
    info: Info,
    emulator: Option<Child>,
}

impl Link {
    /// Brings a link up: when this returns, both sides can talk.
    ///
    /// # Errors
    /// [`Fault::You`](farline_core::units::Fault::You) for wrong settings or a name that is taken;
    /// [`Fault::Here`](farline_core::units::Fault::Here) when this machine does not allow or have
    /// what is needed.
    pub fn up(settings: &Settings) -> Result<Link, Error> {
        settings.check()?;
        place::make_folder()?;
        let failed = |error: std::io::Error| {
            here(ErrorCode::LinkEmulator, format!("starting the emulator: {error}"))
        };
        let log = File::create(place::file(&settings.name, "log")).map_err(failed)?;
        let mut emulator = reexec::command(settings.program.as_deref(), &Role::Emulate)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        if let (Some(mut stdin), Ok(text)) = (emulator.stdin.take(), serde_json::to_vec(settings)) {
            // An emulator that ends early reports why, or says nothing, which is noticed below.
            let _ = stdin.write_all(&text);
        }
        let mut line = String::new();
        if let Some(stdout) = emulator.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        let silent = || {
            let log = place::file(&settings.name, "log");
            here(ErrorCode::LinkEmulator, "the emulator ended without a word")
                .hint(format!("see {}", log.display()))
        };
        let report: Report = serde_json::from_str(&line).map_err(|_| silent())?;
        if let Err(error) = report.into_result() {
            let _ = emulator.wait();
            return Err(error);
        }
        let info = place::read(&settings.name).ok_or_else(silent)?;
        Ok(Link { info, emulator: Some(emulator) })
    }

    /// The link called `name`.
    ///
    /// # Errors
    /// [`Fault::You`](farline_core::units::Fault::You) when there is none.
    pub fn find(name: &str) -> Result<Link, Error> {
        place::check_name(name)?;
        match place::read(name) {
            Some(info) => Ok(Link { info, emulator: None }),
            None => Err(you(ErrorCode::LinkGone, format!("there is no link called `{name}`"))
                .hint("`farline link ls` lists them")),
        }
    }

    /// Every link of this user, whether its emulator lives or not.
    pub fn all() -> Vec<Link> {
        place::names().iter().filter_map(|name| Link::find(name).ok()).collect()
    }

    /// What it is.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Whether its emulator lives.
    pub fn is_alive(&self) -> bool {
        matches!(place::lock(&self.info.name), Ok(None))
    }

    /// How exact it was so far, and what it dropped.
    ///
    /// # Errors
    /// [`Fault::Here`](farline_core::units::Fault::Here) when its emulator is dead.
    pub fn stats(&self) -> Result<Stats, Error> {
        let name = &self.info.name;
        let dead = |error: String| {
            here(
                ErrorCode::LinkGone,
                format!("the emulator of link `{name}` does not answer: {error}"),
            )
            .hint(format!("clean up with `farline link down {name}`"))
        };
        let mut stream = UnixStream::connect(place::file(name, "sock"))
            .map_err(|error| dead(error.to_string()))?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).map_err(|error| dead(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| dead(error.to_string()))
    }

    /// A command that runs `program` in a side of the link, with `FARLINE_LINK`, `FARLINE_PEER` and
    /// `FARLINE_PEER_NS` set.
    ///
    /// A process of its own enters the side first, since one with several threads cannot enter a
    /// user namespace.
    ///
    /// # Errors
    /// When this program cannot be started again ([`agent::run`](crate::agent::run)).
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        self.entering(side, program.as_ref(), None)
    }

    /// A command that runs this program, or `program`, in a side of the link in `role`.
    #[cfg(any(feature = "line", feature = "profile"))]
    pub(crate) fn agent<R: reexec::Role>(
        &self,
        side: Side,
        program: Option<&Path>,
        role: &R,
    ) -> Result<Command, Error> {
        let inner = reexec::command(program, role)?;
        self.entering(side, inner.get_program(), Some(reexec::text(role)?))
    }

    fn entering(
        &self,
        side: Side,
        program: &OsStr,
        role: Option<String>,
    ) -> Result<Command, Error> {
        let enter = Role::Enter { link: self.info.name.clone(), side, role };
        let mut command = reexec::command(self.info.program.as_deref(), &enter)?;
        command.arg(program);
        Ok(command)
    }

    /// Becomes `program` with `arguments` in a side of the link. Returns only when that fails. The
    /// process must have one thread.
    pub fn become_command(
        &self,
        side: Side,
        program: &OsStr,
        arguments: &[impl AsRef<OsStr>],
    ) -> Error {
        self.become_role(side, program, arguments, None)
    }

    /// The same for a program that plays `role` there.
    fn become_role(
        &self,
        side: Side,
        program: &OsStr,
        arguments: &[impl AsRef<OsStr>],
        role: Option<&str>,
    ) -> Error {
        if !self.is_alive() {
            let name = &self.info.name;
            return here(ErrorCode::LinkGone, format!("the emulator of link `{name}` is dead"))
                .hint(format!("clean up with `farline link down {name}`"));
        }
        if self.info.rootless
            && let Err(error) = rootless::enter(&self.info, side)
        {
            return error;
        }
        let peer = side.other();
        let mut command = Command::new("ip");
        // The role of this process is not that of the command.
        match role {
            Some(role) => command.env(reexec::VARIABLE, role),
            None => command.env_remove(reexec::VARIABLE),
        };
        let failed = command
            .args(["netns", "exec", &self.info.namespace(side)])
            .arg(program)
            .args(arguments)
            .env("FARLINE_LINK", &self.info.name)
            .env("FARLINE_PEER", self.info.address(peer))
            .env("FARLINE_PEER6", self.info.address6(peer))
            .env("FARLINE_PEER_NS", self.info.namespace(peer))
            .exec();
        here(ErrorCode::LinkIp, format!("running `ip`: {failed}"))
            .hint("install iproute2, for example: apt-get install iproute2")
    }

    /// Takes the link down: ends its emulator and every process in its namespaces, and removes what
    /// it made.
    ///
    /// # Errors
    /// [`Fault::Here`](farline_core::units::Fault::Here) when something cannot be removed.
    pub fn down(mut self) -> Result<(), Error> {
        let name = &self.info.name;
        let asked = Instant::now();
        let mut signal = Signal::TERM;
        let lock = loop {
            if let Some(lock) = place::lock(name)? {
                break lock;
            }
            // The lock is held, so the process is the emulator: its number has not been given to
            // another.
            if let Some(pid) =
                Pid::from_raw(self.info.pid).filter(|_| asked.elapsed() < TIMEOUT * 2)
            {
                let _ = kill_process(pid, signal);
            } else {
                return Err(here(
                    ErrorCode::LinkLock,
                    format!(
                        "the emulator of link `{name}` (process {}) does not end",
                        self.info.pid
                    ),
                ));
            }
            if asked.elapsed() > TIMEOUT {
                signal = Signal::KILL;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        if let Some(mut emulator) = self.emulator.take() {
            let _ = emulator.wait();
        }
        // Nothing is left of an emulator that ended by itself; of one that was killed, everything
        // but its devices.
        if !self.info.rootless && place::read(name).is_some() {
            namespaces::remove(&self.info)?;
        }
        place::remove(name);
        drop(lock);
        Ok(())
    }
}

/// Whether a link called `name` cannot come up because a network namespace of that name exists:
/// one that nobody's link made, or another Farline's, whose links are not recorded here.
pub fn is_namespace_taken(name: &str) -> bool {
    [Side::A, Side::B].iter().any(|side| namespaces::exists(&settings::namespace_of(name, *side)))
}
