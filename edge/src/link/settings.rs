//! What a link is: its settings before it is up, its record while it is.

use super::failure::you;
use super::place;
use super::vlan::VlanPath;
use farline_core::units::{Error, ErrorCode, Setting};
use farline_core::wan::{self, Path};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Where `link run` runs its command.
    A,
    /// Its peer.
    B,
}

impl Side {
    /// The other end.
    pub const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// `a` or `b`.
    pub const fn letter(self) -> &'static str {
        match self {
            Side::A => "a",
            Side::B => "b",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

/// What a link shall be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// Its name: namespaces and hosts are called `NAME-a` and `NAME-b`.
    pub name: String,
    /// The path it was made from, for the record.
    pub path: String,
    /// Rate, delay and trouble.
    pub wan: wan::LinkSettings,
    /// Largest IP packet in bytes, 1280 to 65,521.
    pub mtu: u32,
    /// Whether its devices carry whole Ethernet frames.
    pub ethernet: bool,
    /// VLANs that are paths of their own, of a link of Ethernet.
    pub vlans: Vec<VlanPath>,
    /// Whether its delivery is received within its own write, and not by a thread of the kernel:
    /// delays are exact, and TCP at a high rate makes the link late.
    pub inline_receive: bool,
    /// Whether the link goes down when the process that brought it up dies.
    pub with_parent: bool,
    /// The program that runs the emulator, which calls [`agent::run`](crate::agent::run) at its
    /// start; this process's own when `None`.
    pub program: Option<PathBuf>,
}

/// Jumbo frames, as the papers' hosts used.
const DEFAULT_MTU: u32 = 9_000;

impl Settings {
    /// The clean link of a named path (`usn-8600`), called as the path is.
    ///
    /// # Errors
    /// [`Fault::You`](farline_core::units::Fault::You) when there is no such path, or it has no rtt
    /// of its own.
    pub fn named(path: &str) -> Result<Settings, Error> {
        Ok(Settings::new(path, Path::named(path)?.settings(None, None)?))
    }

    /// A link called as `path` is, with jumbo frames.
    pub fn new(path: &str, wan: wan::LinkSettings) -> Settings {
        let name = path.split(':').next().unwrap_or(path).to_owned();
        Settings {
            name,
            path: path.to_owned(),
            wan,
            mtu: DEFAULT_MTU,
            ethernet: false,
            vlans: Vec::new(),
            inline_receive: false,
            with_parent: false,
            program: None,
        }
    }

    /// Refuses what is not a link.
    ///
    /// # Errors
    /// [`Fault::You`](farline_core::units::Fault::You), saying which setting.
    pub fn check(&self) -> Result<(), Error> {
        place::check_name(&self.name)?;
        self.wan.check()?;
        // IPv6 needs 1280 (RFC 8200, section 5).
        if !(1_280..=65_521).contains(&self.mtu) {
            return Err(you(
                ErrorCode::LinkSetting,
                format!("the MTU is {}: 1280 to 65521 bytes", self.mtu),
            ));
        }
        if !self.ethernet && !self.vlans.is_empty() {
            return Err(you(ErrorCode::LinkSetting, "this link carries packets of IP, no VLANs")
                .hint(format!("add {}", Setting::Ethernet)));
        }
        VlanPath::check(&self.vlans)
    }
}

/// The record of a link that is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Info {
    /// Its name.
    pub name: String,
    /// The path it was made from.
    pub path: String,
    /// Rate, delay and trouble.
    pub wan: wan::LinkSettings,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Whether its devices carry whole Ethernet frames.
    #[serde(default)]
    pub ethernet: bool,
    /// VLANs that are paths of their own.
    #[serde(default)]
    pub vlans: Vec<VlanPath>,
    /// Whether its delivery is received within its own write.
    #[serde(default)]
    pub inline_receive: bool,
    /// Its emulator's process.
    pub pid: i32,
    /// Whether it lives in a user namespace of its own, made without root.
    pub rootless: bool,
    /// The `farline` binary that its commands go through; the asking process's own when `None`.
    pub program: Option<PathBuf>,
}

/// The network namespace of `side` of the link called `name`.
pub(super) fn namespace_of(name: &str, side: Side) -> String {
    format!("{name}-{side}")
}

impl Info {
    /// The network namespace of `side`.
    pub fn namespace(&self, side: Side) -> String {
        namespace_of(&self.name, side)
    }

    /// The hardware address of `side` of a link of Ethernet: one of those that nobody assigns.
    pub fn hardware_address(&self, side: Side) -> String {
        match side {
            Side::A => "02:00:00:77:00:01".to_owned(),
            Side::B => "02:00:00:77:00:02".to_owned(),
        }
    }

    /// The model of each VLAN, in a direction whose own is `own`.
    pub(super) fn vlans(&self, own: &wan::Direction) -> Vec<(u16, wan::Direction)> {
        self.vlans.iter().map(|vlan| (vlan.id, vlan.direction(own))).collect()
    }

    /// The IPv4 address of `side`. All links use the same two: their namespaces know nothing of
    /// each other.
    pub fn address(&self, side: Side) -> String {
        match side {
            Side::A => "10.77.0.1".to_owned(),
            Side::B => "10.77.0.2".to_owned(),
        }
    }

    /// The IPv6 address of `side`.
    pub fn address6(&self, side: Side) -> String {
        match side {
            Side::A => "fd77::1".to_owned(),
            Side::B => "fd77::2".to_owned(),
        }
    }
}
