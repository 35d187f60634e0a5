//! How the data connections of a session by GSI are authenticated: DCAU and PROT (GFD.20 section
//! 3).

use super::active::CONNECT_TIMEOUT;
use super::data::DataPlane;
use super::running::RunningTransfer;
use crate::channels::Channel;
use crate::channels::gsi::DataSecurity;
use crate::channels::ordered::{ByteStream, OrderedChannel};
use crate::mover::{DataPeers, PortSecurity, SecuredPort};
use farline_core::gridftp::DataAuthentication;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

impl DataPlane {
    /// Authenticates data connections so from now on.
    pub(super) fn authenticate(&mut self, how: DataAuthentication) -> Result<(), Error> {
        if how == DataAuthentication::None && self.private {
            return Err(unauthenticated());
        }
        self.data_authentication = how;
        self.close_data();
        Ok(())
    }

    /// What the session's data connections are authenticated with; nothing when they are not.
    ///
    /// # Errors
    /// When they are to be, and the client delegated nothing to do it with.
    pub(super) fn security(&self) -> Result<Option<DataSecurity>, Error> {
        let Some(gsi) = self.by_gsi() else { return Ok(None) };
        let subject = match &self.data_authentication {
            DataAuthentication::None => return Ok(None),
            DataAuthentication::Own => None,
            DataAuthentication::Subject(subject) => Some(subject.as_str()),
        };
        match &gsi.data {
            Some(data) => Ok(Some(data.with(subject, self.private))),
            None => {
                let message = "data connections are authenticated with a proxy that you delegate, and you \
                               delegated none";
                Err(Error::new(Fault::You, ErrorCode::DataConnection, message)
                    .hint("delegate one, or say DCAU N (globus-url-copy -nodcau)"))
            }
        }
    }

    /// Whether data of a session by GSI may go within TLS: only between ends that know each other.
    pub(super) fn check_private(&self) -> Result<(), Error> {
        match self.data_authentication {
            DataAuthentication::None => Err(unauthenticated()),
            DataAuthentication::Own | DataAuthentication::Subject(_) => Ok(()),
        }
    }

    /// Opens a port whose connections have to prove whose they are.
    pub(super) fn passive_secured(
        &mut self,
        ip: IpAddr,
        peers: DataPeers,
        security: DataSecurity,
    ) -> Result<SocketAddr, Error> {
        let (at, ports) = (SocketAddr::new(ip, 0), self.shared.config.data_ports);
        let (peers, security) = ((peers, Some(self.client_ip())), PortSecurity::Gsi(security));
        let stranger = self.stranger();
        let port = SecuredPort::open(at, ports, peers, &self.options, security, stranger)?;
        let address = port.address();
        self.gsi_port = Some(port);
        Ok(address)
    }

    /// Has who did not show whose it is stand in the log.
    pub(super) fn stranger(&self) -> impl Fn(IpAddr, &dyn Display) + Send + Sync + use<> {
        let notices = Arc::clone(&self.shared.notices);
        move |from, why| {
            let from = from.to_canonical();
            let said =
                format_args!("a data connection from {from} did not show whose it is: {why}");
            notices.say("stranger", said);
        }
    }

    /// Connects to the client, or the stripe whose turn it is, and shows it whose this end is where
    /// that is wanted.
    pub(super) fn connect_channel(
        &self,
        turn: usize,
        deadline: Instant,
        run: &RunningTransfer<'_>,
    ) -> Result<Box<dyn Channel>, Error> {
        let channel = self.connect(turn, deadline, run)?;
        match self.security()? {
            None => Ok(Box::new(channel)),
            Some(security) => {
                let stream = channel.into_stream();
                let within = deadline.saturating_duration_since(Instant::now());
                let stream = security.connect(stream, within).map_err(|error| {
                    let message = format!("a data connection was not authenticated: {error}");
                    Error::new(Fault::Between, ErrorCode::DataConnection, message)
                })?;
                Ok(Box::new(OrderedChannel::over(stream)))
            }
        }
    }

    /// A connection of MODE S that this end opened, as data goes over it.
    pub(super) fn shown_over(
        &self,
        stream: std::net::TcpStream,
    ) -> std::io::Result<Option<Box<dyn ByteStream>>> {
        match self.security().map_err(std::io::Error::other)? {
            None => Ok(None),
            Some(security) => security.connect(stream, CONNECT_TIMEOUT).map(Some),
        }
    }
}

fn unauthenticated() -> Error {
    let message = "PROT P goes with data connections that are authenticated: DCAU A or S, not N";
    Error::new(Fault::You, ErrorCode::BadSequence, message)
}
