//! Connections of queue pairs, made and taken by librdmacm: resolve and connect, listen and accept.

use super::abi::*;
use super::events::{Event, Events, Kind};
use super::library::{Library, by_errno, library, no_device};
use super::memory::Domain;
use farline_core::units::{Error, ErrorCode, Fault};
use socket2::SockAddr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What becomes of a message that finds no receive: `min_rnr_timer` of the end that has none,
/// `rnr_retry` of the one that sends.
#[derive(Clone, Copy)]
pub(super) struct NotReady {
    /// How long it waits before it is sent again, by the code of the InfiniBand Architecture
    /// Specification 1.2.1, section 9.7.5.2.8.
    pub(super) wait: u8,
    /// How often.
    pub(super) retries: u8,
}

impl NotReady {
    /// The longest wait, 655 ms, as rdma_cm has it, and as often as may be with an end: that there
    /// is always a receive is a channel's promise (V-7), and 6 times forgive a peer whose processor
    /// is busy.
    pub(super) const ENDS: NotReady = NotReady { wait: 0, retries: 6 };
    /// Always again, after 0.64 ms: who measures gives its receives back when it comes to it, and
    /// must not stand still for long.
    pub(super) const NEVER_ENDS: NotReady = NotReady { wait: 12, retries: 7 };
}

/// One end of a connection, or a listener, and where its events come in.
pub(super) struct Id {
    library: &'static Library,
    pub(super) raw: NonNull<Identifier>,
    pub(super) events: Events,
}

// SAFETY: librdmacm allows its calls from any thread; an `Id` is used by one at a time.
unsafe impl Send for Id {}

impl Id {
    fn new() -> Result<Id, Error> {
        let (library, events) = (library()?, Events::new()?);
        let mut raw = std::ptr::null_mut();
        // SAFETY: the channel is open; the identifier is written before the call returns.
        let done = unsafe {
            (library.rdma_create_id)(
                events.raw.as_ptr(),
                &raw mut raw,
                std::ptr::null_mut(),
                PORT_SPACE_TCP,
            )
        };
        match NonNull::new(raw) {
            Some(raw) if done == 0 => Ok(Id { library, raw, events }),
            _ => Err(no_device()),
        }
    }

    /// An identifier that is bound to the device that has `ip`, whose port is up.
    pub(super) fn bound(ip: IpAddr) -> Result<Id, Error> {
        let id = Id::new()?;
        let at = SockAddr::from(SocketAddr::new(ip, 0));
        let bound = (|| {
            // SAFETY: the identifier is new, and the address is read before the call returns.
            by_errno(unsafe {
                (id.library.rdma_bind_addr)(id.raw.as_ptr(), at.as_ptr().cast_mut().cast())
            })?;
            if id.context().is_none() && !ip.is_unspecified() {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            id.expect_active()
        })();
        bound.map_err(|error| none_has(ip, &error))?;
        Ok(id)
    }

    /// The protection domain of the device that it is bound to: `known`, when it is of the same.
    pub(super) fn domain(&self, known: Option<&Arc<Domain>>) -> Result<Arc<Domain>, Error> {
        let context = self.context().ok_or_else(no_device)?;
        match known.filter(|known| known.context == context) {
            Some(known) => Ok(Arc::clone(known)),
            None => Domain::new(context),
        }
    }

    /// The number of the port that it is bound to.
    pub(super) fn port_number(&self) -> u8 {
        // SAFETY: the identifier is alive; librdmacm sets the field when it binds.
        unsafe { self.raw.as_ref().port }
    }

    /// The device that it is bound to.
    pub(super) fn context(&self) -> Option<NonNull<Context>> {
        // SAFETY: the identifier is alive; librdmacm sets the field when it binds.
        NonNull::new(unsafe { self.raw.as_ref().verbs })
    }

    /// The queue pair, once there is one.
    pub(super) fn queue_pair(&self) -> Option<NonNull<QueuePair>> {
        // SAFETY: as above; the field is null while there is none.
        NonNull::new(unsafe { self.raw.as_ref().queue_pair })
    }

    /// The port that it is bound to.
    pub(super) fn port(&self) -> Option<PortAttributes> {
        let context = self.context()?;
        let mut attributes = PortAttributes::default();
        // SAFETY: the device is open and the structure has room for what the call fills in.
        let failed = unsafe {
            (self.library.ibv_query_port)(context.as_ptr(), self.port_number(), &raw mut attributes)
        };
        (failed == 0).then_some(attributes)
    }

    /// Fails when the port is known not to be up: librdmacm binds to it all the same.
    fn expect_active(&self) -> io::Result<()> {
        match self.port() {
            Some(port) if port.state != PORT_ACTIVE => Err(io::ErrorKind::NetworkDown.into()),
            _ => Ok(()),
        }
    }

    /// Bytes that a packet of that port carries; 0 where that is unknown.
    pub(super) fn mtu(&self) -> u16 {
        // `enum ibv_mtu`.
        let active = self.port().map(|port| port.active_mtu).filter(|mtu| (1..=5).contains(mtu));
        active.map_or(0, |mtu| 128 << mtu)
    }

    /// Fails when it is bound to another device than `domain` is of: each connection finds its way
    /// anew, and routes change.
    pub(super) fn expect_device_of(&self, domain: &Domain) -> io::Result<()> {
        match self.context() == Some(domain.context) {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                "another RDMA device leads there",
            )),
        }
    }

    /// Creates the queue pair.
    pub(super) fn create_pair(
        &self,
        domain: &Domain,
        attributes: &mut QueuePairAttributes,
    ) -> io::Result<()> {
        // SAFETY: identifier, domain and completion queue are alive, and of one device, as both
        // callers ask `expect_device_of`; the attributes are read and written before the call
        // returns.
        by_errno(unsafe {
            (self.library.rdma_create_qp)(self.raw.as_ptr(), domain.raw.as_ptr(), attributes)
        })
    }

    /// Destroys the queue pair: the device touches no memory of it any more.
    pub(super) fn destroy_pair(&mut self) {
        if self.queue_pair().is_some() {
            // SAFETY: the queue pair is there, and librdmacm sets the field to null.
            unsafe { (self.library.rdma_destroy_qp)(self.raw.as_ptr()) };
        }
    }

    pub(super) fn disconnect(&self) {
        // SAFETY: the identifier is alive. Failing means that there is no connection any more.
        let _ = unsafe { (self.library.rdma_disconnect)(self.raw.as_ptr()) };
    }

    /// 4.096 us * 2^n until a packet that nobody acknowledges is sent again; a wish, which older
    /// kernels do not know.
    pub(super) fn set_ack_timeout(&self, mut exponent: u8) {
        let value = (&raw mut exponent).cast();
        // SAFETY: the option is one byte.
        let _ = unsafe {
            (self.library.rdma_set_option)(
                self.raw.as_ptr(),
                OPTION_ID,
                OPTION_ACK_TIMEOUT,
                value,
                1,
            )
        };
    }

    /// Connects, with private data; returns the peer's. `reads` may be unanswered at once,
    /// here and there.
    pub(super) fn connect(
        &self,
        private_data: &[u8],
        reads: u8,
        not_ready: NotReady,
        deadline: Instant,
    ) -> io::Result<Vec<u8>> {
        let mut parameters = parameters(private_data, reads, not_ready);
        // SAFETY: the identifier has a route and a queue pair; the parameters are read before the
        // call returns.
        by_errno(unsafe { (self.library.rdma_connect)(self.raw.as_ptr(), &raw mut parameters) })?;
        Ok(self.events.wait_for(Kind::Established, deadline)?.private_data)
    }

    /// Accepts, with private data; [`Kind::Established`] follows.
    pub(super) fn accept(
        &self,
        private_data: &[u8],
        reads: u8,
        not_ready: NotReady,
    ) -> io::Result<()> {
        let mut parameters = parameters(private_data, reads, not_ready);
        // SAFETY: the identifier came with a request and has a queue pair; the parameters are read
        // before the call returns.
        by_errno(unsafe { (self.library.rdma_accept)(self.raw.as_ptr(), &raw mut parameters) })
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.destroy_pair();
        // SAFETY: created by librdmacm, destroyed once; its event channel goes after it.
        let _ = unsafe { (self.library.rdma_destroy_id)(self.raw.as_ptr()) };
    }
}

/// What a connection is asked for with, or accepted: as many retries as there are, each after the
/// acknowledgement timeout.
fn parameters(private_data: &[u8], reads: u8, not_ready: NotReady) -> ConnectionParameters {
    ConnectionParameters {
        private_data: private_data.as_ptr().cast(),
        private_data_len: private_data.len() as u8,
        responder_resources: reads,
        initiator_depth: reads,
        flow_control: 1,
        retry_count: 7,
        rnr_retry_count: not_ready.retries,
        shared_receives: 0,
        queue_pair: 0,
    }
}

/// No device has `ip`, or its port is down.
fn none_has(ip: IpAddr, error: &io::Error) -> Error {
    Error::new(
        Fault::There,
        ErrorCode::NoRdmaPath,
        format!("no RDMA device here has the address {ip}: {error}"),
    )
}

/// A connection that knows its way and is not made yet.
pub(crate) struct Connecting {
    pub(super) id: Id,
}

impl Connecting {
    /// Looks for the device and the way that lead to `address`.
    ///
    /// # Errors
    /// When the libraries are missing, or no device leads there.
    pub(crate) fn resolve(address: SocketAddr, timeout: Duration) -> Result<Connecting, Error> {
        let id = Id::new()?;
        let deadline = Instant::now() + timeout;
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let to = SockAddr::from(address);
        let resolved = (|| {
            // SAFETY: the identifier is new, and the address is read before the call returns.
            by_errno(unsafe {
                let to = to.as_ptr().cast_mut().cast();
                (id.library.rdma_resolve_addr)(id.raw.as_ptr(), std::ptr::null_mut(), to, millis)
            })?;
            id.events.wait_for(Kind::AddressResolved, deadline)?;
            id.expect_active()?;
            // SAFETY: the identifier is bound to a device.
            by_errno(unsafe { (id.library.rdma_resolve_route)(id.raw.as_ptr(), millis) })?;
            id.events.wait_for(Kind::RouteResolved, deadline).map(drop)
        })();
        resolved.map_err(|error| {
            Error::new(
                Fault::Between,
                ErrorCode::NoRdmaPath,
                format!("no RDMA device leads to {}: {error}", address.ip()),
            )
            .hint("`rdma link` lists the devices; the route to the peer must leave by one of them")
        })?;
        Ok(Connecting { id })
    }

    /// The protection domain to connect in: `known`, when the same device leads there.
    ///
    /// # Errors
    /// When the device has none left.
    pub(crate) fn domain(&self, known: Option<&Arc<Domain>>) -> Result<Arc<Domain>, Error> {
        self.id.domain(known)
    }

    /// Bytes that a packet of this end's port carries; 0 where that is unknown.
    pub(crate) fn mtu(&self) -> u16 {
        self.id.mtu()
    }
}

/// Listens for connections.
pub(crate) struct CmListener {
    pub(super) id: Id,
}

/// A connection that somebody wants; dropped, it is refused.
pub(crate) struct Request {
    pub(super) id: Id,
    /// What came with it, with the padding of the fabric behind it.
    pub private_data: Vec<u8>,
}

impl CmListener {
    /// Listens at `ip`, which must be an RDMA device's, on any free port.
    ///
    /// # Errors
    /// When the libraries are missing, or no device has the address.
    pub(crate) fn bind(ip: IpAddr) -> Result<CmListener, Error> {
        let id = Id::bound(ip)?;
        // SAFETY: the identifier is bound.
        let listening = by_errno(unsafe { (id.library.rdma_listen)(id.raw.as_ptr(), 64) });
        listening.map_err(|error| none_has(ip, &error))?;
        Ok(CmListener { id })
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        // SAFETY: the identifier is bound.
        u16::from_be(unsafe { (self.id.library.rdma_get_src_port)(self.id.raw.as_ptr()) })
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn next(&self) -> io::Result<Option<Request>> {
        while let Some(Event { kind, id, private_data }) = self.id.events.next()? {
            match (kind, NonNull::new(id)) {
                (Kind::Requested, Some(raw)) => {
                    let Ok(events) = Events::new() else {
                        // SAFETY: the identifier came with the request and is nobody else's.
                        // Destroying it refuses the request.
                        let _ = unsafe { (self.id.library.rdma_destroy_id)(raw.as_ptr()) };
                        continue;
                    };
                    // SAFETY: both are alive. Further events of this connection come in on its own
                    // channel.
                    let moved = unsafe {
                        (self.id.library.rdma_migrate_id)(raw.as_ptr(), events.raw.as_ptr())
                    };
                    let id = Id { library: self.id.library, raw, events };
                    if moved == 0 {
                        return Ok(Some(Request { id, private_data }));
                    }
                }
                (Kind::Gone(super::events::ConnectionError::Removed), _) => {
                    return Err(super::events::ConnectionError::Removed.into());
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl AsFd for CmListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.id.events.as_fd()
    }
}

impl Request {
    /// The protection domain to accept in: `known`, when the request came by the same device.
    ///
    /// # Errors
    /// When the device has none left.
    pub(crate) fn domain(&self, known: Option<&Arc<Domain>>) -> Result<Arc<Domain>, Error> {
        self.id.domain(known)
    }

    /// Bytes that a packet of this end's port carries; 0 where that is unknown.
    pub(crate) fn mtu(&self) -> u16 {
        self.id.mtu()
    }

    /// Whether it came over Ethernet.
    pub(crate) fn is_ethernet(&self) -> bool {
        self.id.port().is_some_and(|port| port.link_layer == LINK_LAYER_ETHERNET)
    }

    /// Whether it was given a queue pair.
    #[cfg(test)]
    pub(crate) fn has_pair(&self) -> bool {
        self.id.queue_pair().is_some()
    }

    /// Refuses it, and says so much.
    pub(crate) fn reject(self, private_data: &[u8]) {
        let len = private_data.len() as u8;
        // SAFETY: the identifier came with a request that was not answered; the data are read
        // before the call returns. Dropping it would do too, later.
        let _ = unsafe {
            (self.id.library.rdma_reject)(self.id.raw.as_ptr(), private_data.as_ptr().cast(), len)
        };
    }
}
