//! What a process of a measurement is started for, and the ends of those that need no mover.

#[cfg(feature = "rdma")]
use super::VerbsEnd;
use super::{ProbeRequest, receive, send};
use crate::reexec::{self, say};
use farline_core::congestion::ControlName;
use farline_core::profile::Stall;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
#[cfg(feature = "rdma")]
use std::io::BufRead;
#[cfg(feature = "rdma")]
use std::net::IpAddr;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// One end of a measurement. TCP's ends read their [`ProbeRequest`] from standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Send, and tell what was acknowledged.
    Send { to: SocketAddr },
    /// Say which port listens, receive, and tell what arrived.
    Receive { listen: SocketAddr },
    /// Say which port listens, and be measured by verbs, a run for each line of standard input.
    #[cfg(feature = "rdma")]
    VerbsFar { at: IpAddr, gid: u8 },
    /// Measure by verbs, a run for each line of standard input.
    #[cfg(feature = "rdma")]
    VerbsNear { at: IpAddr, gid: u8, to: SocketAddr },
}

impl reexec::Role for Role {
    const MODULE: &'static str = "prober";
}

/// An end of a copy that is measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Trial {
    /// The client.
    Copy(Box<TrialCopy>),
    /// The node.
    Node(TrialNode),
}

impl reexec::Role for Trial {
    const MODULE: &'static str = "trial";
}

/// A copy to be measured: nothing adapts, nothing is verified.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrialCopy {
    pub(crate) source: OsString,
    pub(crate) target: String,
    /// Of the node's certificate, as sha256=HEX.
    pub(crate) fingerprint: Option<String>,
    /// None where the channel has one of its own.
    pub(crate) congestion: Option<ControlName>,
    /// The channel driver, where it is not the one that always is there.
    pub(crate) channel: Option<String>,
    pub(crate) streams: u32,
    pub(crate) staging: Bytes,
    pub(crate) window: Option<Bytes>,
    pub(crate) limit: Option<Rate>,
    pub(crate) in_turns: bool,
    pub(crate) stall: Option<Stall>,
    pub(crate) read: Option<Rate>,
}

/// Where such a copy goes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrialNode {
    pub(crate) root: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) tls: bool,
}

/// Plays an end; says on standard output what came of it.
pub(crate) fn play(role: Role) -> Result<(), Error> {
    let request = || -> Result<ProbeRequest, Error> {
        serde_json::from_reader(io::stdin().lock()).map_err(wrong)
    };
    match role {
        #[cfg(feature = "rdma")]
        Role::VerbsFar { at, gid } => verbs(&VerbsEnd::far(at, gid)?),
        #[cfg(feature = "rdma")]
        Role::VerbsNear { at, gid, to } => verbs(&VerbsEnd::near(at, gid, to)?),
        Role::Send { to } => say(&send(to, &request()?)?),
        Role::Receive { listen } => {
            let request = request()?;
            let failed = |error: io::Error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::ProfileListen,
                    format!("listening on {listen}: {error}"),
                )
            };
            let listener = TcpListener::bind(listen).map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            say(&serde_json::json!({ "port": port }))?;
            say(&receive(&listener, &request)?)
        }
    }
}

fn wrong(error: serde_json::Error) -> Error {
    Error::new(Fault::Bug, ErrorCode::ProfileEnd, format!("the request: {error}"))
}

/// Says where `end` is, and replies to each run that it is asked for.
#[cfg(feature = "rdma")]
fn verbs(end: &VerbsEnd) -> Result<(), Error> {
    say(&serde_json::json!({ "device": end.device(), "port": end.port() }))?;
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match end.run(&serde_json::from_str(&line).map_err(wrong)?) {
            Ok(seen) => say(&seen)?,
            Err(error) => say(&serde_json::json!({ "error": error }))?,
        }
    }
    Ok(())
}
