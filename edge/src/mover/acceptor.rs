//! Accepts data connections for a transfer, and can be woken while it waits for one.

use crate::channels::Channel;
use crate::channels::accept_error::{AfterError, is_out_of_descriptors};
use crate::channels::socket::{TcpChannel, TcpOptions, bind, no_port};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Between two tries where the network made one fail.
const AGAIN: Duration = Duration::from_millis(20);

/// That this host cannot take a data connection.
pub(super) fn cannot_accept(error: &io::Error) -> Error {
    let message = format!("cannot accept a data connection: {error}");
    Error::new(Fault::Here, ErrorCode::AcceptFailed, message)
}

/// Where channels come in while a transfer runs.
pub(crate) trait Incoming: Sync {
    /// The next channel; `None` after `timeout` or a [`Self::wake`].
    ///
    /// # Errors
    /// When this host cannot accept: no file descriptor left.
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error>;

    /// Where to wait until [`Self::accept`] may bring a channel at once; nothing where only it can
    /// tell.
    fn waits_at(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes a waiting [`Self::accept`] return.
    fn wake(&self);
}

/// Who may connect to a data port. RFC 2577, section 3: without that, a stranger who connects first
/// takes or gives the data.
#[derive(Clone)]
pub(crate) struct DataPeers(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl DataPeers {
    /// Those that `admits` says yes to, by their address in its shortest form; others are closed
    /// without a word to them.
    pub(crate) fn of(admits: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> DataPeers {
        DataPeers(Arc::new(admits))
    }

    /// Anybody.
    pub(crate) fn any() -> DataPeers {
        DataPeers::of(|_| true)
    }

    pub(super) fn admit(&self, from: SocketAddr) -> bool {
        (self.0)(from.ip().to_canonical())
    }
}

/// A listening data port: who connects is a channel.
pub(crate) struct Acceptor {
    listener: TcpListener,
    wake: OwnedFd,
    address: SocketAddr,
    peers: DataPeers,
}

impl Acceptor {
    /// Listens on `address`; port 0 means any free port, of `ports` when given.
    ///
    /// # Errors
    /// When no port can be had.
    pub(crate) fn bind(
        address: SocketAddr,
        ports: Option<(u16, u16)>,
        peers: DataPeers,
        options: &TcpOptions,
    ) -> Result<Acceptor, Error> {
        let listener = bind(address, ports, options)?;
        let opened = (|| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Acceptor { listener, wake, address, peers })
        })();
        opened.map_err(|error| no_port(address, &error))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listener, and whom it is for: for who takes connections otherwise.
    pub(crate) fn into_listener(self) -> (TcpListener, DataPeers) {
        (self.listener, self.peers)
    }

    /// The next connection, without MODE E; `None` after `timeout` or a wake.
    ///
    /// # Errors
    /// As [`Incoming::accept`].
    pub(crate) fn accept_stream(&self, timeout: Duration) -> Result<Option<TcpStream>, Error> {
        let failed = |error: io::Error| cannot_accept(&error);
        let mut watched =
            [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        // Reading resets it; empty is fine.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        match self.listener.accept() {
            Ok((stream, from)) => {
                if !self.peers.admit(from) {
                    return Ok(None);
                }
                stream.set_nonblocking(false).map_err(failed)?;
                Ok(Some(stream))
            }
            Err(error) => match AfterError::of(&error) {
                AfterError::GoOn => Ok(None),
                // Who is out of descriptors hears of it; what the network did to one connection is
                // no reason to end the transfer.
                AfterError::BackOff if !is_out_of_descriptors(&error) => {
                    std::thread::sleep(AGAIN);
                    Ok(None)
                }
                AfterError::BackOff | AfterError::End => Err(failed(error)),
            },
        }
    }
}

impl Incoming for Acceptor {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        // A connection that died before we looked is no reason to end the transfer.
        let channel = self.accept_stream(timeout)?.and_then(|stream| TcpChannel::new(stream).ok());
        Ok(channel.map(|channel| Box::new(channel) as Box<dyn Channel>))
    }

    fn waits_at(&self) -> Option<BorrowedFd<'_>> {
        Some(self.listener.as_fd())
    }

    fn wake(&self) {
        // The counter can only overflow after 2^64 wakes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}
