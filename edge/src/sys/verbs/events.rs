//! What librdmacm reports of connections: one event channel, read with a deadline.

use super::abi::{Event as RawEvent, EventChannel, Identifier};
use super::library::{Library, library};
use farline_core::rdma::RdmaFailure;
use farline_core::units::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Where events of one or more connections come in.
pub(super) struct Events {
    library: &'static Library,
    pub(super) raw: NonNull<EventChannel>,
}

// SAFETY: librdmacm allows its calls from any thread, and an event is read by one of them.
unsafe impl Send for Events {}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AddressResolved,
    RouteResolved,
    Requested,
    Established,
    /// The connection is over, or never came about.
    Gone(ConnectionError),
    /// What needs no action.
    Other,
}

/// Why a connection is none, or no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    /// The address or the way to it cannot be resolved, or nobody answered.
    Unreachable,
    /// The peer has no such port, or does not want us.
    Rejected,
    /// The peer is gone.
    Disconnected,
    /// The device was removed or lost its address.
    Removed,
}

/// The peer does not want a connection.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// What it said, with the padding of the fabric behind it; empty where nobody listens.
    pub private_data: Vec<u8>,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the peer refused the RDMA connection")
    }
}

impl std::error::Error for Rejected {}

/// One event, copied out.
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) id: *mut Identifier,
    pub(super) private_data: Vec<u8>,
}

impl Events {
    pub(super) fn new() -> Result<Events, Error> {
        let library = library()?;
        // SAFETY: no arguments.
        let raw = unsafe { (library.rdma_create_event_channel)() };
        let raw = NonNull::new(raw).ok_or_else(super::library::no_device)?;
        let events = Events { library, raw };
        let flags = rustix::fs::fcntl_getfl(&events).unwrap_or(OFlags::empty());
        // Without it a wait could last longer than it should; reading it never fails on an open
        // descriptor.
        let _ = rustix::fs::fcntl_setfl(&events, flags | OFlags::NONBLOCK);
        Ok(events)
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> io::Result<Option<Event>> {
        let mut raw: *mut RawEvent = std::ptr::null_mut();
        // SAFETY: the channel is open, and does not wait.
        if unsafe { (self.library.rdma_get_cm_event)(self.raw.as_ptr(), &raw mut raw) } != 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        // SAFETY: a returned event is valid until it is acknowledged, and so is its private data,
        // of the length that it says.
        let event = unsafe {
            let event = &*raw;
            let data = &event.connection;
            let kind = kind(event.kind);
            // Only these carry any; for others the union may hold something else.
            let carries = matches!(
                kind,
                Kind::Requested | Kind::Established | Kind::Gone(ConnectionError::Rejected)
            );
            let private_data = match carries && !data.private_data.is_null() {
                true => std::slice::from_raw_parts(
                    data.private_data.cast::<u8>(),
                    usize::from(data.private_data_len),
                )
                .to_vec(),
                false => Vec::new(),
            };
            Event { kind, id: event.id, private_data }
        };
        // SAFETY: the event was returned just now and is acknowledged once.
        unsafe { (self.library.rdma_ack_cm_event)(raw) };
        Ok(Some(event))
    }

    /// Waits for an event of this kind, until the deadline.
    pub(super) fn wait_for(&self, wanted: Kind, deadline: Instant) -> io::Result<Event> {
        loop {
            match self.next()? {
                Some(event) if event.kind == wanted => return Ok(event),
                Some(Event {
                    kind: Kind::Gone(ConnectionError::Rejected), private_data, ..
                }) => {
                    return Err(io::Error::new(
                        io::ErrorKind::ConnectionRefused,
                        Rejected { private_data },
                    ));
                }
                Some(Event { kind: Kind::Gone(why), .. }) => return Err(why.into()),
                Some(_) => {}
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    wait(&mut [PollFd::new(self, PollFlags::IN)], left)?;
                }
            }
        }
    }
}

/// Waits until one of them is ready, for a time at most.
pub(super) fn wait(watched: &mut [PollFd<'_>], most: Duration) -> io::Result<()> {
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    match poll(watched, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// `enum rdma_cm_event_type` of rdma/rdma_cma.h.
fn kind(raw: u32) -> Kind {
    match raw {
        0 => Kind::AddressResolved,
        2 => Kind::RouteResolved,
        4 => Kind::Requested,
        9 => Kind::Established,
        1 | 3 | 6 | 7 => Kind::Gone(ConnectionError::Unreachable),
        8 => Kind::Gone(ConnectionError::Rejected),
        10 => Kind::Gone(ConnectionError::Disconnected),
        11 | 14 => Kind::Gone(ConnectionError::Removed),
        _ => Kind::Other,
    }
}

impl From<ConnectionError> for io::Error {
    fn from(why: ConnectionError) -> io::Error {
        let (kind, text) = match why {
            ConnectionError::Unreachable => {
                (io::ErrorKind::HostUnreachable, "no RDMA connection leads there")
            }
            ConnectionError::Rejected => {
                (io::ErrorKind::ConnectionRefused, "the peer refused the RDMA connection")
            }
            ConnectionError::Disconnected => {
                return io::Error::new(io::ErrorKind::UnexpectedEof, RdmaFailure::Flushed.error());
            }
            ConnectionError::Removed => {
                return io::Error::new(io::ErrorKind::NotConnected, RdmaFailure::Removed.error());
            }
        };
        io::Error::new(kind, text)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel owns its descriptor and outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: who holds identifiers on it drops them before, and every event was acknowledged
        // when it was read.
        unsafe { (self.library.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}
