//! A stack: one channel at the bottom, layers above, written as a URL's scheme, read top-down.

use super::Channel;
use super::driver::{Dialer, Driver, Opened, Role, Session, Transport};
use super::key::Key;
use super::layer::TlsPeer;
use super::options::Values;
use super::ordered::{ByteStream, OrderedChannel};
use super::socket::unreachable;
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest greeting before the data of a connection to the control port.
const LONGEST_GREETING: usize = 1024;

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
    layers: Vec<Arc<Driver>>,
    key: Option<Key>,
    trust: Option<TlsPeer>,
    /// Where the node listens.
    address: SocketAddr,
    /// How long a channel may take.
    timeout: Duration,
    /// Whether the other end says a line before the data: it is the control port.
    is_greeted: bool,
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
        let layers = stack.layers.clone();
        Opener { dialer, layers, key, trust, address, timeout, is_greeted: false }
    }

    /// The same to the control port, which says a line first.
    #[must_use]
    pub fn greeted(self) -> Opener {
        Opener { is_greeted: true, ..self }
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
                let stream = self.enter(stream);
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
                self.enter(stream).map_err(|error| unreachable(self.address, &error))
            }
        }
    }

    /// Shows the key, and puts the layers over a connection.
    fn enter(&self, mut stream: Box<dyn ByteStream>) -> io::Result<Box<dyn ByteStream>> {
        if let Some(key) = &self.key {
            stream.write_all(&key.preamble())?;
        }
        if self.is_greeted {
            let handle = stream.handle()?;
            handle.set_read_timeout(Some(self.timeout))?;
            skip_line(&mut *stream)?;
            handle.set_read_timeout(None)?;
        }
        for driver in self.layers.iter().rev() {
            let (Some(layer), Some(trust), Some(key)) = (driver.layer(), &self.trust, &self.key)
            else {
                return Err(io::Error::other(format!("nothing to begin {} with", driver.title)));
            };
            stream = layer.connect(stream, trust, key)?;
        }
        Ok(stream)
    }
}

/// Reads to the end of a line, and not a byte further: data may follow.
fn skip_line(stream: &mut dyn ByteStream) -> io::Result<()> {
    let mut byte = [0];
    for _ in 0..LONGEST_GREETING {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the control port said no line"))
}
