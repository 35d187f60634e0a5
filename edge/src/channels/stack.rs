//! A stack: one channel at the bottom, layers above, written as a URL's scheme, read top-down.

use super::Channel;
use super::driver::{Dialer, Driver, Opened, Role, Session, Transport};
use super::greeted::GreetedStream;
use super::key::{Key, MAGIC};
use super::layer::TlsPeer;
use super::ordered::{ByteStream, OrderedChannel};
use super::socket::unreachable;
use crate::drivers::Values;
use farline_core::congestion::ControlName;
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A channel driver with the values of its options, and the layers over it.
#[derive(Clone)]
pub struct Stack {
    /// From the top down.
    pub(super) layers: Vec<Arc<Driver>>,
    /// At the bottom.
    pub(super) channel: Arc<Driver>,
    /// Of the channel's options.
    pub(super) values: Values,
}

impl Stack {
    /// The driver at the bottom.
    pub fn channel(&self) -> &Driver {
        &self.channel
    }

    /// Whether nobody on the way can read what it carries.
    pub fn is_encrypted(&self) -> bool {
        self.channel.capabilities.encrypted
            || self.layers.iter().any(|layer| layer.capabilities.encrypted)
    }

    /// Connections inside one channel on a path of this round-trip time, where they are the
    /// driver's way to fill a path; 0 where channels are.
    pub fn connections(&self, rtt: Span) -> usize {
        self.transport().map_or(0, |transport| transport.connections(&self.values, rtt))
    }

    /// The congestion control that its channels have where `asked` is asked for; `None` where they
    /// have a kernel's, or none.
    ///
    /// # Errors
    /// [`Fault::You`] when they cannot have that one.
    pub fn control(&self, asked: Option<ControlName>) -> Result<Option<ControlName>, Error> {
        self.transport().map_or(Ok(None), |transport| transport.control(&self.values, asked))
    }

    /// Whether each channel begins, under `control`, from its part of what an earlier one saw of
    /// the path.
    pub fn resumes_each(&self, control: ControlName) -> bool {
        self.transport().is_some_and(|transport| transport.resumes_each(control))
    }

    /// What opens a session's channels.
    ///
    /// # Errors
    /// When the driver does not connect in this session.
    pub fn dialer(&self, session: &Session) -> Result<Arc<dyn Dialer>, Error> {
        let none = || Error::new(Fault::Bug, ErrorCode::Unsupported, "a stack without a channel");
        self.transport().ok_or_else(none)?.dialer(session, &self.values)
    }

    fn transport(&self) -> Option<&dyn Transport> {
        match &self.channel.role {
            Role::Channel(transport) => Some(&**transport),
            Role::Layer(_) => None,
        }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({self})")
    }
}

impl fmt::Display for Stack {
    /// Such as `tls+tcp`, without the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layers.iter().try_for_each(|layer| write!(f, "{}+", layer.name))?;
        f.write_str(self.channel.name)
    }
}

/// One way to open channels of a session: over a stack, to an address.
#[derive(Clone)]
pub struct Opener {
    dialer: Arc<dyn Dialer>,
    /// Where the node listens.
    address: SocketAddr,
    /// How long a channel may take.
    timeout: Duration,
    entrance: Entrance,
}

/// How a connection becomes one of a session.
#[derive(Clone)]
pub(crate) struct Entrance {
    layers: Vec<Arc<Driver>>,
    key: Option<Key>,
    trust: Option<TlsPeer>,
    /// How long the other end may take to say a line before the data: it is the control port.
    greeted_within: Option<Duration>,
    /// Whether it began with [`announce`].
    is_announced: bool,
}

/// Begins a preamble, of which the rest comes by [`Entrance::approach`]: what the other end
/// acknowledges opens its window, which is 64 KiB before.
///
/// # Errors
/// When the connection breaks.
pub(crate) fn announce(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(&MAGIC)
}

impl Opener {
    /// Opens by `dialer` what `stack` says, for the session that `key` is of.
    pub fn new(
        stack: &Stack,
        dialer: Arc<dyn Dialer>,
        key: Option<Key>,
        trust: Option<TlsPeer>,
        (address, timeout): (SocketAddr, Duration),
    ) -> Opener {
        Opener { dialer, address, timeout, entrance: Entrance::new(stack, key, trust) }
    }

    /// The same to the control port, which says a line first.
    #[must_use]
    pub fn greeted(self) -> Opener {
        let entrance = self.entrance.greeted(self.timeout);
        Opener { entrance, ..self }
    }

    /// Opens one channel; waits for it.
    ///
    /// # Errors
    /// When no way leads there.
    pub fn open_one(&self) -> Result<Box<dyn Channel>, Error> {
        match self.dialer.open(self.address, self.timeout)? {
            Opened::Channel(channel) => Ok(channel),
            Opened::Entered(stream) => Ok(Box::new(OrderedChannel::over(stream))),
            Opened::Bytes(stream) => {
                let stream = self.entrance.enter(stream);
                let stream = stream.map_err(|error| unreachable(self.address, &error))?;
                Ok(Box::new(OrderedChannel::over(stream)))
            }
        }
    }

    /// Opens one connection, for use without MODE E; waits for it.
    ///
    /// # Errors
    /// When no way leads there, or the driver carries no bytes in order.
    pub fn open_bytes(&self) -> Result<Box<dyn ByteStream>, Error> {
        match self.dialer.open(self.address, self.timeout)? {
            Opened::Channel(_) => Err(Error::new(
                Fault::Bug,
                ErrorCode::Unsupported,
                "the driver carries no bytes in order",
            )),
            Opened::Entered(stream) => Ok(stream),
            Opened::Bytes(stream) => {
                self.entrance.enter(stream).map_err(|error| unreachable(self.address, &error))
            }
        }
    }
}

impl Entrance {
    /// Of the session that `key` is of, whose connections are under the layers of `stack`.
    pub(crate) fn new(stack: &Stack, key: Option<Key>, trust: Option<TlsPeer>) -> Entrance {
        Entrance {
            layers: stack.layers.clone(),
            key,
            trust,
            greeted_within: None,
            is_announced: false,
        }
    }

    /// The same of connections that have begun by [`announce`].
    #[must_use]
    pub(crate) fn announced(self) -> Entrance {
        Entrance { is_announced: true, ..self }
    }

    /// The same at the control port, which says a line first, within so long.
    #[must_use]
    pub(crate) fn greeted(self, within: Duration) -> Entrance {
        Entrance { greeted_within: Some(within), ..self }
    }

    /// Shows the key, and puts the layers over a connection: it is a channel then.
    ///
    /// # Errors
    /// When the connection breaks, or the peer is not whom the layers want.
    pub(crate) fn enter(&self, stream: Box<dyn ByteStream>) -> io::Result<Box<dyn ByteStream>> {
        let mut stream = self.approach(stream)?;
        self.prove(&mut *stream)?;
        Ok(stream)
    }

    /// The part of [`Self::enter`] that waits for the peer. The node makes a channel of a
    /// connection under a layer only by what [`Self::prove`] sends.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub(crate) fn approach(
        &self,
        mut stream: Box<dyn ByteStream>,
    ) -> io::Result<Box<dyn ByteStream>> {
        if let Some(key) = &self.key {
            let begun = if self.is_announced { MAGIC.len() } else { 0 };
            stream.write_all(&key.preamble()[begun..])?;
        }
        if let Some(within) = self.greeted_within {
            stream = Box::new(GreetedStream::new(stream, within));
        }
        for driver in self.layers.iter().rev() {
            let (Some(layer), Some(trust)) = (driver.layer(), &self.trust) else {
                return Err(io::Error::other(format!("nothing to begin {} with", driver.title)));
            };
            stream = layer.connect(stream, trust)?;
        }
        Ok(stream)
    }

    /// Shows under a layer that this end knows the key.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) fn prove(&self, stream: &mut dyn ByteStream) -> io::Result<()> {
        if !self.is_layered() {
            return Ok(());
        }
        let no_key = || io::Error::other("a layer needs a session with a key");
        stream.write_all(&self.key.as_ref().ok_or_else(no_key)?.proof())
    }

    /// Whether a layer stands over its connections.
    pub(crate) fn is_layered(&self) -> bool {
        !self.layers.is_empty()
    }
}
