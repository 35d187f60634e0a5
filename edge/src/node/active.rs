//! Where a session connects to for its client's data, and what it says where nothing was arranged.

use super::Shared;
use super::data::DataPlane;
use super::descriptors::{Descriptors, OF_LOOK, OF_TRANSFER, Reservation};
use super::running::RunningTransfer;
use crate::channels::TcpOptions;
use crate::channels::socket::{TcpChannel, connect_until};
use crate::stores::{FileLimit, FilePlace};
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the data connections of a transfer may take to be made, all together.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl DataPlane {
    /// Takes the addresses to connect to.
    pub(super) fn set_targets(&mut self, addresses: Vec<SocketAddr>) -> Result<(), Error> {
        self.channels.clear();
        if self.listener.is_some() {
            // K-1: the client opens every data connection of a session that has a key.
            return Err(Error::new(
                Fault::You,
                ErrorCode::BadSequence,
                "with a key the client connects: say PASV, EPSV or SPAS",
            ));
        }
        (self.acceptor, self.gsi_port, self.is_port_over) = (None, None, false);
        self.targets.clear();
        let client = self.peer.ip();
        let targets = self.shared.config.targets(client, &self.account().rights);
        targets.check(&addresses).inspect_err(|error| {
            self.shared.notices.say("third_party", format_args!("{client}: {error}"));
        })?;
        self.targets = addresses;
        Ok(())
    }

    /// Connects to the client, or the stripe whose turn it is, until `deadline` and while its
    /// transfer runs.
    pub(super) fn connect(
        &self,
        turn: usize,
        deadline: Instant,
        run: &RunningTransfer<'_>,
    ) -> Result<TcpChannel, Error> {
        let buffer = run.request.buffer_size;
        let Some(&target) = self.targets.get(turn % self.targets.len().max(1)) else {
            return Err(
                self.not_arranged("no data connection was arranged: say PORT or EPRT first")
            );
        };
        self.need_descriptors(1)?;
        let options = TcpOptions { buffer: buffer.or(self.options.buffer), ..self.options.clone() };
        let timeout = deadline.saturating_duration_since(Instant::now());
        let is_over = || run.cancel.reason().is_some();
        let stream = connect_until(target, Some(self.local), &options, timeout, &is_over);
        stream.and_then(TcpChannel::new).map_err(|error| {
            if let Some(reason) = run.cancel.reason() {
                return reason;
            }
            Error::new(
                Fault::Between,
                ErrorCode::DataConnection,
                format!("cannot connect to {target} for data: {error}"),
            )
            .hint("a firewall before the client may refuse connections from outside")
        })
    }

    /// Says it before a transfer begins where its port was closed: 425, and not a connection that
    /// broke.
    pub(super) fn check_port(&self) -> Result<(), Error> {
        match self.is_port_over {
            true => Err(self.not_arranged("")),
            false => Ok(()),
        }
    }

    /// That there is no data connection, and no way to one: what the client is to say first.
    pub(super) fn not_arranged(&self, what: &str) -> Error {
        let what = match self.is_port_over {
            true => {
                "the data port was closed, since nothing used it for long: say PASV or EPSV again"
            }
            false => what,
        };
        Error::new(Fault::You, ErrorCode::DataConnection, what)
    }

    /// Makes sure that this session may open `count` descriptors more for data, at once.
    ///
    /// # Errors
    /// When others have them; it stands in the log.
    pub(super) fn need_descriptors(&self, count: usize) -> Result<(), Error> {
        self.shared.descriptors.take(count).inspect_err(|error| self.say_no_descriptors(error))
    }

    /// What a transfer may open besides its connections, for as long as it runs.
    ///
    /// # Errors
    /// As [`Self::need_descriptors`].
    pub(super) fn reserve_descriptors(&self) -> Result<Reservation, Error> {
        let reserved = Descriptors::reserve(&self.shared.descriptors, OF_TRANSFER);
        reserved.inspect_err(|error| self.say_no_descriptors(error))
    }

    /// Counts the files of a tree that are open beyond what its transfer has reserved.
    pub(super) fn file_limit(&self) -> FileLimit {
        let descriptors = Arc::clone(&self.shared.descriptors);
        let limit = FileLimit::of(move || Descriptors::file(&descriptors).map(FilePlace::of));
        limit.telling(&self.struck)
    }

    fn say_no_descriptors(&self, error: &Error) {
        self.shared.say_no_descriptors(self.client_ip(), error);
    }

    /// That connections of this session found room.
    ///
    /// # Errors
    /// Where the last connection that came to this session was closed for want of room.
    pub(super) fn check_room(&self) -> Result<(), Error> {
        lock(&self.no_room).clone().map_or(Ok(()), Err)
    }
}

impl Shared {
    /// What it may open to sum a file or list a folder, or for what is over in a moment, as long as
    /// it does, for the client at `client`.
    ///
    /// # Errors
    /// When others have it; it stands in the log.
    pub(super) fn reserve_look(
        &self,
        is_momentary: bool,
        client: IpAddr,
    ) -> Result<Reservation, Error> {
        let reserved = match is_momentary {
            true => Descriptors::reserve_moment(&self.descriptors, OF_LOOK),
            false => Descriptors::reserve(&self.descriptors, OF_LOOK),
        };
        reserved.inspect_err(|error| self.say_no_descriptors(client.to_canonical(), error))
    }

    fn say_no_descriptors(&self, client: IpAddr, error: &Error) {
        self.notices.say("descriptors", format_args!("{client}: {error}"));
    }
}
