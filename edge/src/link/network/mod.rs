//! A network of several sites in one emulator: a namespace for each site, best-effort links between
//! neighbours, and circuits, each a path of its own, that come, change and go while others run.
//!
//! A circuit is a TUN device in both of its sites' namespaces, as a VLAN interface appears at a
//! site, with the rate and the delay of its route; no other traffic can enter it. Links between
//! neighbours carry what has no circuit, hop by hop, at what circuits leave of them.
//!
//! How it fits: [`EmulatedNetwork`] is the handle that commands and tests use; `emulator` is the
//! process; `paths` makes a path and moves its packets; `sites` sets namespaces up; `orders` is
//! what crosses between handle and emulator.

mod emulator;
mod orders;
mod paths;
mod sites;

pub(super) use emulator::emulate;
pub use orders::{CircuitState, NetworkCircuit, NetworkOrder, NetworkState};

use super::failure::{Report, here, you};
use super::{place, rootless};
use crate::reexec;
use crate::run_dir;
use farline_core::calendar::TopologySpec;
use farline_core::units::{Error, ErrorCode, Rate};
use orders::OrderReply;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long an emulator may take for an order, and to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What a network shall be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// Sites and links.
    pub topology: TopologySpec,
    /// What a link carries of best-effort traffic at most: more than this host moves is of no use.
    pub best_effort: Rate,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Whether the network goes down when the process that brought it up dies.
    pub with_parent: bool,
}

impl NetworkSettings {
    /// Of these sites and links, which stays up without its maker: packets of 9,000 bytes, and
    /// 1 Gbit/s of best-effort traffic.
    pub fn new(topology: TopologySpec) -> NetworkSettings {
        let best_effort = Rate::from_bps(1_000_000_000);
        NetworkSettings { topology, best_effort, mtu: 9_000, with_parent: false }
    }
}

/// The record of a network that is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkInfo {
    /// Its name.
    pub name: String,
    /// The names of its sites.
    pub sites: Vec<String>,
    /// Its emulator's process.
    pub pid: i32,
    /// Whether it lives in a user namespace of its own, made without root.
    pub rootless: bool,
}

impl NetworkInfo {
    /// The network namespace of `site`.
    pub fn namespace(&self, site: &str) -> String {
        run_dir::name_here(&format!("{}-{site}", self.name))
    }

    /// The address of `site` for best-effort traffic.
    pub fn address(&self, site: &str) -> Option<String> {
        let at = self.sites.iter().position(|known| known == site)?;
        Some(sites::address(at))
    }
}

/// A network that is up.
#[derive(Clone, Debug)]
pub struct EmulatedNetwork {
    info: NetworkInfo,
}

/// The name under which a network's files stand next to those of links.
fn file_name(name: &str) -> String {
    format!("net.{name}")
}

fn record(name: &str) -> PathBuf {
    place::file(&file_name(name), "network")
}

fn read(name: &str) -> Option<NetworkInfo> {
    serde_json::from_slice(&fs::read(record(name)).ok()?).ok()
}

fn silent(name: &str) -> Error {
    let log = place::file(&file_name(name), "log");
    here(ErrorCode::LinkEmulator, "the network's emulator ended without a word")
        .hint(format!("see {}", log.display()))
}

impl EmulatedNetwork {
    /// Brings a network up: when this returns, its sites can talk.
    ///
    /// # Errors
    /// Settings that make no sense, a name that is taken, or what this machine does not allow.
    pub fn up(settings: &NetworkSettings) -> Result<EmulatedNetwork, Error> {
        let name = &settings.topology.name;
        place::check_name(name)?;
        place::make_folder()?;
        let failed = |error: std::io::Error| {
            here(ErrorCode::LinkEmulator, format!("starting the emulator: {error}"))
        };
        let log = File::create(place::file(&file_name(name), "log")).map_err(failed)?;
        let mut emulator = reexec::command(None, &super::Role::EmulateNetwork)?
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
        let report: Report = serde_json::from_str(&line).map_err(|_| silent(name))?;
        if let Err(error) = report.into_result() {
            let _ = emulator.wait();
            return Err(error);
        }
        EmulatedNetwork::find(name)
    }

    /// The network called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<EmulatedNetwork, Error> {
        place::check_name(name)?;
        match read(name) {
            Some(info) => Ok(EmulatedNetwork { info }),
            None => Err(you(ErrorCode::LinkGone, format!("there is no network called `{name}`"))
                .hint("`farline net up usn` brings one up")),
        }
    }

    /// Every network of this user.
    pub fn all() -> Vec<EmulatedNetwork> {
        place::names_of("network")
            .iter()
            .filter_map(|name| EmulatedNetwork::find(name.strip_prefix("net.")?).ok())
            .collect()
    }

    /// What it is.
    pub fn info(&self) -> &NetworkInfo {
        &self.info
    }

    /// Whether its emulator lives.
    pub fn is_alive(&self) -> bool {
        matches!(place::lock(&file_name(&self.info.name)), Ok(None))
    }

    /// Has the emulator do something; returns what is there afterwards.
    ///
    /// # Errors
    /// When it is dead, or cannot do it.
    pub fn order(&self, order: &NetworkOrder) -> Result<NetworkState, Error> {
        let name = &self.info.name;
        let dead = |error: String| {
            let message = format!("the emulator of network `{name}` does not reply: {error}");
            here(ErrorCode::LinkGone, message)
                .hint(format!("clean up with `farline net down {name}`"))
        };
        let ask = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(place::file(&file_name(name), "sock"))?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let mut text = serde_json::to_vec(order)?;
            text.push(b'\n');
            stream.write_all(&text)?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line)
        };
        let line = ask().map_err(|error| dead(error.to_string()))?;
        match serde_json::from_str(&line).map_err(|error| dead(error.to_string()))? {
            OrderReply::Done(state) => Ok(state),
            OrderReply::Failed(report) => match report.into_result() {
                Ok(()) => Err(dead("it says nothing".to_owned())),
                Err(error) => Err(error),
            },
        }
    }

    /// Becomes `program` with `arguments` in the namespace of `site`. Returns only when that fails.
    /// The process must have one thread.
    pub fn become_command(
        &self,
        site: &str,
        program: &OsStr,
        arguments: &[impl AsRef<OsStr>],
    ) -> Error {
        let name = &self.info.name;
        if !self.info.sites.iter().any(|known| known == site) {
            return you(ErrorCode::BadNetwork, format!("network `{name}` has no site `{site}`"))
                .hint(format!("its sites are {}", self.info.sites.join(", ")));
        }
        if !self.is_alive() {
            return here(ErrorCode::LinkGone, format!("the emulator of network `{name}` is dead"))
                .hint(format!("clean up with `farline net down {name}`"));
        }
        if self.info.rootless
            && let Err(error) = rootless::enter_network(self.info.pid, name)
        {
            return error;
        }
        let failed = Command::new("ip")
            .env_remove(reexec::VARIABLE)
            .env("FARLINE_NETWORK", name)
            .env("FARLINE_SITE", site)
            .args(["netns", "exec", &self.info.namespace(site)])
            .arg(program)
            .args(arguments)
            .exec();
        here(ErrorCode::LinkIp, format!("running `ip`: {failed}"))
            .hint("install iproute2, for example: apt-get install iproute2")
    }

    /// A command that runs `program` in the namespace of `site`.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub fn command(&self, site: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let (network, site) = (self.info.name.clone(), site.to_owned());
        let mut command = reexec::command(None, &super::Role::EnterNetwork { network, site })?;
        command.arg(program.as_ref());
        Ok(command)
    }

    /// Takes the network down: ends its emulator and every process in its namespaces.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn down(self) -> Result<(), Error> {
        let name = &self.info.name;
        let asked = Instant::now();
        let lock = loop {
            if let Some(lock) = place::lock(&file_name(name))? {
                break lock;
            }
            let signal = if asked.elapsed() > TIMEOUT / 2 { Signal::KILL } else { Signal::TERM };
            match Pid::from_raw(self.info.pid).filter(|_| asked.elapsed() < TIMEOUT) {
                // The lock is held, so the process is the emulator.
                Some(pid) => drop(kill_process(pid, signal)),
                None => {
                    let message = format!("the emulator of network `{name}` does not end");
                    return Err(here(ErrorCode::LinkLock, message));
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        if !self.info.rootless {
            sites::remove(&self.info)?;
        }
        remove_files(name);
        drop(lock);
        Ok(())
    }
}

/// Removes every file of network `name`; the caller holds its lock.
fn remove_files(name: &str) {
    let _ = fs::remove_file(record(name));
    place::remove(&file_name(name));
}
