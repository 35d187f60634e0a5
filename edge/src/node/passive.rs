//! Where a session listens for its client's data connections: a port of its own, by the driver that
//! the client chose, or the node's one UDP port.

use super::data::DataPlane;
use super::data_listener::DataListener;
use super::descriptors::OF_PORT;
use crate::channels::arrivals::{RefusedConnection, Room};
use crate::channels::driver::Listen;
use crate::channels::one_port;
use crate::mover::{Acceptor, DataPeers};
use crate::sys::lock::lock;
use farline_core::gridftp::Family;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long after its transfer was asked for a connection may come whose port is closed already.
const STRAGGLER_TIMEOUT: Duration = Duration::from_secs(1);

impl DataPlane {
    /// The client's address, as people write it.
    pub(super) fn client_ip(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Listens for the client's data connections; returns the address to tell it.
    pub(super) fn passive(&mut self, family: Option<Family>) -> Result<SocketAddr, Error> {
        self.need_descriptors(OF_PORT)?;
        self.is_port_over = false;
        *lock(&self.no_room) = None;
        self.open_passive(family).inspect_err(|error| {
            if matches!(error.code, ErrorCode::NoDataPort | ErrorCode::Busy) {
                let client = self.client_ip();
                self.shared.notices.say("data_ports", format_args!("{client}: {error}"));
            }
        })
    }

    fn open_passive(&mut self, family: Option<Family>) -> Result<SocketAddr, Error> {
        self.channels.clear();
        self.targets.clear();
        (self.acceptor, self.gsi_port) = (None, None);
        let ip = self.local.ip().to_canonical();
        if family.is_some_and(|family| family != Family::of(&SocketAddr::new(ip, 0))) {
            let message = "the control connection is of another address family, and so would the \
                data connection be";
            return Err(Error::new(Fault::You, ErrorCode::AddressFamily, message));
        }
        if self.listener.is_some() || self.driver.is_some() || self.one_port.is_some() {
            return self.passive_by_driver(ip);
        }
        let peers = self.data_peers();
        if let Some(security) = self.security()? {
            let port = self.passive_secured(ip, peers, security)?;
            return Ok(self.told(port));
        }
        let acceptor = Acceptor::bind(
            SocketAddr::new(ip, 0),
            self.shared.config.data_ports,
            peers,
            &self.options,
        )?;
        let told = self.told(acceptor.address());
        self.acceptor = Some(acceptor);
        Ok(told)
    }

    /// Closes a port that nothing uses: others may want it, and what it takes of this process.
    pub(super) fn close_idle_port(&mut self) {
        let closed = self.acceptor.take().is_some()
            | self.gsi_port.take().is_some()
            | self.listener.as_mut().is_some_and(DataListener::close_port);
        if closed {
            self.is_port_over = true;
            let client = self.client_ip();
            let what = format_args!("{client}: a data port that nothing uses is closed");
            self.shared.notices.say("data_port", what);
        }
    }

    /// Says it before a transfer waits where a session with a key has no port any more, and nothing
    /// came before that, nor through the control port.
    pub(super) fn check_keyed_port(&mut self, buffer: Option<Bytes>) -> Result<(), Error> {
        if !self.is_port_over || self.listener.is_none() || !self.channels.is_empty() {
            return Ok(());
        }
        let came = self.incoming(buffer).next(STRAGGLER_TIMEOUT)?;
        self.channels.extend(came);
        match self.channels.is_empty() {
            true => Err(self.not_arranged("")),
            false => Ok(()),
        }
    }

    /// Whether data has a descriptor left for a connection that came.
    pub(super) fn room(&self) -> Room {
        let (shared, client) = (Arc::clone(&self.shared), self.client_ip());
        let no_room = Arc::clone(&self.no_room);
        Box::new(move || {
            let refused = shared.descriptors.take(1).err();
            if let Some(error) = &refused {
                shared.notices.say("descriptors", format_args!("{client}: {error}"));
            }
            let has_room = refused.is_none();
            *lock(&no_room) = refused;
            has_room
        })
    }

    /// Who may connect to a port of this session's: its client and, where the operator allows
    /// third-party transfers, whom it could be told to connect to. Whoever else came is in the log.
    fn data_peers(&self) -> DataPeers {
        let (shared, client) = (Arc::clone(&self.shared), self.client_ip());
        let (rights, room) = (self.account().rights, self.room());
        DataPeers::of(move |from| {
            if from == client {
                return room();
            }
            let admitted = shared.config.targets(client, &rights).allows(from).is_ok();
            let (kind, what) = match admitted {
                true => ("third_party", "is taken"),
                false => ("stranger", "is closed"),
            };
            let whose =
                format_args!("a data connection from {from} to the session of {client} {what}");
            shared.notices.say(kind, whose);
            admitted && room()
        })
    }

    /// Has who connects to a port of this session's and is none of it stand in the log.
    pub(super) fn refused_connections(&self) -> RefusedConnection {
        let (shared, client) = (Arc::clone(&self.shared), self.client_ip());
        Box::new(move |from, why| {
            let from = from
                .map_or_else(|| "elsewhere".to_owned(), |at| at.ip().to_canonical().to_string());
            let said =
                format_args!("a data connection from {from} to the session of {client} {why}");
            shared.notices.say("stranger", said);
        })
    }

    /// Opens a port by the driver that was chosen, for the session's key (V-1).
    fn passive_by_driver(&mut self, ip: IpAddr) -> Result<SocketAddr, Error> {
        let drivers = &self.shared.drivers;
        let driver = match (&self.driver, &self.one_port) {
            (Some(driver), _) => Some(driver),
            (None, Some(_)) => drivers.find(one_port::DRIVER),
            (None, None) => drivers.default_channel(),
        };
        let driver = Arc::clone(driver.ok_or_else(|| {
            Error::new(Fault::Bug, ErrorCode::NoChannel, "this node has no channel driver")
        })?);
        let shared_port = self.one_port.clone();
        if shared_port.is_some() && driver.name != one_port::DRIVER {
            let message = format!("over one port data comes by {} alone", one_port::DRIVER);
            return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
        }
        let (slots, sockets, rtt) = (self.slot_terms(), self.options.clone(), self.rtt);
        let (ports, client) = (self.shared.config.data_ports, self.client_ip());
        let listener = self.listener_for(&driver)?;
        let arrivals = Arc::clone(listener.arrivals());
        let listen = Listen { ip, ports, sockets, slots, client, rtt, arrivals };
        let port = match shared_port {
            Some(port) => listener.share(port.listen(&listen)?),
            None => listener.listen(&driver, listen)?,
        };
        Ok(self.told(port))
    }

    /// A data port, as clients are told of it: behind another address where the operator says so.
    fn told(&self, port: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.shared.config.data_address.unwrap_or(port.ip()), port.port())
    }
}
