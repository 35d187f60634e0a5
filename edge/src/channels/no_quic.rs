//! What stands in for a node's one port over QUIC where this build has none: it cannot be opened,
//! and nothing is reached over it.

use super::driver::{Listen, Listener};
use super::trust::{ClientConfig, Duplex, ServerConfig, ShownCertificate};
use farline_core::units::{Error, Span};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The driver of such a port's sessions.
pub(crate) const DRIVER: &str = "quic";

/// A control channel that came in: none does.
pub(crate) struct ControlArrival {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) certificates: Vec<ShownCertificate>,
    pub(crate) ends: (SocketAddr, SocketAddr),
    pub(crate) rtt: Span,
}

/// What it would show.
pub(crate) type Shows = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// The port: there is none.
#[derive(Debug)]
pub(crate) enum OnePort {}

/// Its sessions: there are none.
#[derive(Debug)]
pub(crate) enum PortSessions {}

/// A client's control channel: there is none.
pub(crate) struct ConnectedControl {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) ends: (u16, SocketAddr),
    pub(crate) shared: SharedConnection,
}

/// A control channel's connection: there is none.
#[derive(Clone)]
pub enum SharedConnection {}

fn not_built() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

impl OnePort {
    pub(crate) fn open(_: SocketAddr, _: Shows) -> io::Result<OnePort> {
        Err(not_built())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match *self {}
    }

    pub(crate) fn sessions(&self) -> Arc<PortSessions> {
        match *self {}
    }

    pub(crate) async fn accept(&mut self) -> Option<ControlArrival> {
        match *self {}
    }
}

impl PortSessions {
    pub(crate) fn listen(self: &Arc<PortSessions>, _: &Listen) -> Result<Box<dyn Listener>, Error> {
        match **self {}
    }
}

impl SharedConnection {
    pub(crate) fn least_rtt(&self) -> Option<Span> {
        match *self {}
    }
}

pub(crate) async fn connect(
    _: SocketAddr,
    _: &str,
    _: &ClientConfig,
) -> io::Result<ConnectedControl> {
    Err(not_built())
}
