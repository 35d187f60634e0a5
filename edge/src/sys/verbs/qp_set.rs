//! The queue pairs of a measurement and the memory between which they carry messages: connections
//! by either way, and datagrams.

use super::abi::*;
use super::connection::{Connecting, Id, NotReady, Request};
use super::endpoint::{Address, RdmaEndpoint};
use super::events::{Kind, wait};
use super::library::Library;
use super::memory::{Domain, Registration};
use super::owned_qp::{Ends, OwnedQp, Peer, Reads};
use super::qp_abi::*;
use super::queue::Queue;
use crate::sys::memory::Memory;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What lies before each datagram in a receive buffer: its global route.
pub(super) const ROUTE_LEN: usize = 40;

/// The key of every datagram of a measurement; perftest's is the same.
pub(super) const DATAGRAM_KEY: u32 = 0x1111_1111;
/// RDMA READs that a queue pair may have unanswered, where the device has as many.
const READS: u32 = 16;

/// What an end is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Queue pairs.
    pub pairs: u8,
    /// Whether they carry datagrams instead of being connected.
    pub datagrams: bool,
    /// Messages of each that may be on their way.
    pub depth: usize,
    /// Receive buffers of each; none where nobody sends to it.
    pub receives: usize,
    /// Bytes of a message.
    pub size: usize,
}

/// The queue pairs of one end.
pub(crate) struct QpSet {
    // Dropped in this order: after the queue pairs the device touches nothing.
    pub(super) pairs: Vec<Pair>,
    pub(super) to: Option<Handle>,
    pub(super) queue: Queue,
    pub(super) registration: Registration,
    memory: Memory,
    domain: Arc<Domain>,
    pub(super) plan: Plan,
    pub(super) peer: Address,
}

// SAFETY: libibverbs allows its calls from any thread, and these are used by one at a time.
unsafe impl Send for QpSet {}

/// One queue pair that has been made.
pub(super) struct Pair {
    pub(super) raw: NonNull<QueuePair>,
    ends: Ends,
}

/// The way that datagrams take.
pub(super) struct Handle {
    library: &'static Library,
    pub(super) raw: NonNull<Opaque>,
}

impl QpSet {
    /// An end without queue pairs, and its memory.
    ///
    /// # Errors
    /// When the device has no room for it, or may not pin the memory.
    pub(crate) fn new(endpoint: &RdmaEndpoint, plan: Plan) -> io::Result<QpSet> {
        let domain = Arc::clone(endpoint.local_port.domain());
        let each = plan.depth + plan.receives;
        let queue = Queue::new(&domain, usize::from(plan.pairs) * each.max(1))?;
        let buffers = usize::from(plan.pairs) * plan.receives;
        let mut memory = Memory::touched(2 * plan.size + buffers * (plan.size + ROUTE_LEN))?;
        let access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ;
        let registration = domain.register_for(memory.as_mut_ptr(), memory.len(), access)?;
        Ok(QpSet {
            pairs: Vec::new(),
            to: None,
            queue,
            registration,
            memory,
            domain,
            plan,
            peer: Address::default(),
        })
    }

    /// Puts `bytes`, a message, into the source and others into the target, before anything is
    /// sent.
    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        let (source, rest) = self.memory.split_at_mut(self.plan.size);
        source.copy_from_slice(bytes);
        rest[..bytes.len()].fill(bytes.first().map_or(0, |first| !first));
    }

    /// Whether the target has `bytes`, when nothing more comes.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        self.memory[self.plan.size..2 * self.plan.size] == *bytes
    }

    /// Makes the queue pairs of a connection by exchange, or of datagrams, and readies their
    /// receives.
    ///
    /// # Errors
    /// When the device has no queue pair left.
    pub(crate) fn prepare(&mut self, endpoint: &RdmaEndpoint) -> io::Result<()> {
        for on in 0..usize::from(self.plan.pairs) {
            let own = OwnedQp::new(&self.domain, &mut self.attributes())?;
            match self.plan.datagrams {
                true => own.init_for_datagrams(endpoint.port(), DATAGRAM_KEY)?,
                false => own.init(endpoint.port())?,
            }
            self.pairs.push(Pair::new(Ends::Owned(own))?);
            self.receive_all(on)?;
        }
        Ok(())
    }

    /// Whether the device speaks iWARP.
    pub(crate) fn is_iwarp(&self) -> bool {
        self.domain.is_iwarp()
    }

    /// What the peer must know of this end.
    pub(crate) fn address(&self, endpoint: &RdmaEndpoint, sequence: u32) -> Address {
        let keys = self.registration.keys();
        Address {
            gid: endpoint.local_port.gid,
            lid: endpoint.local_port.lid,
            mtu: endpoint.local_port.mtu,
            numbers: self.pairs.iter().filter_map(|pair| pair.ends.number()).collect(),
            sequence: sequence & 0xff_ffff,
            memory: keys.address,
            key: keys.remote,
            listens: endpoint.listener.port(),
        }
    }

    /// Connects the prepared queue pairs with the peer's, with what both have told each other;
    /// `timeout` is the exponent of 4.096 us.
    ///
    /// # Errors
    /// When the device refuses.
    pub(crate) fn join(
        &mut self,
        endpoint: &RdmaEndpoint,
        own: &Address,
        peer: &Address,
        timeout: u8,
    ) -> io::Result<()> {
        if peer.numbers.len() != self.pairs.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the ends have different numbers of queue pairs",
            ));
        }
        let reads = Reads { answered: self.reads(), asked: self.reads() };
        for (pair, number) in self.pairs.iter().zip(&peer.numbers) {
            let Ends::Owned(ends) = &pair.ends else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            if self.plan.datagrams {
                ends.open_for_datagrams(own.sequence)?;
                continue;
            }
            let address_handle = endpoint.local_port.address_handle_to(peer.gid, peer.lid);
            let to = Peer {
                address_handle,
                mtu: own.mtu.min(peer.mtu),
                number: *number,
                first_packet: peer.sequence,
            };
            ends.connect(to, own.sequence, timeout, reads, NotReady::NEVER_ENDS)?;
        }
        if self.plan.datagrams {
            let mut address_handle = endpoint.local_port.address_handle_to(peer.gid, peer.lid);
            // SAFETY: the domain is alive and the address handle is read before the call returns.
            let raw = unsafe {
                (self.domain.library.ibv_create_ah)(
                    self.domain.raw.as_ptr(),
                    &raw mut address_handle,
                )
            };
            let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
            self.to = Some(Handle { library: self.domain.library, raw });
        }
        self.peer = peer.clone();
        Ok(())
    }

    /// Connects by rdma_cm to the peer, which [answers](Self::answer) at `ip`.
    ///
    /// # Errors
    /// When no device leads there, or the peer does not accept in time.
    pub(crate) fn dial(
        &mut self,
        ip: IpAddr,
        own: &Address,
        peer: &Address,
        timeout: Duration,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| {
            Error::new(
                Fault::Between,
                ErrorCode::NoRdmaPath,
                format!("no RDMA connection to {ip}: {error}"),
            )
            .hint("`rdma link` shows whether both ports are up")
        };
        for _ in 0..self.plan.pairs {
            let connecting = Connecting::resolve(SocketAddr::new(ip, peer.listens), timeout)?;
            let id = self.with_pair(connecting.id).map_err(failed)?;
            let proof = own.sequence.to_be_bytes();
            let deadline = Instant::now() + timeout;
            id.connect(&proof, self.reads(), NotReady::NEVER_ENDS, deadline).map_err(failed)?;
            self.take(id).map_err(failed)?;
        }
        self.peer = peer.clone();
        Ok(())
    }

    /// Takes the peer's connections by rdma_cm, in the order in which it makes them.
    ///
    /// # Errors
    /// When they do not come in time.
    pub(crate) fn answer(
        &mut self,
        endpoint: &RdmaEndpoint,
        peer: &Address,
        timeout: Duration,
    ) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        while self.pairs.len() < usize::from(self.plan.pairs) {
            let Some(Request { id, private_data }) = endpoint.listener.next()? else {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                wait(&mut [PollFd::new(&endpoint.listener, PollFlags::IN)], left)?;
                continue;
            };
            if !private_data.starts_with(&peer.sequence.to_be_bytes()) {
                // Of an earlier run that came to nothing; dropped, it is refused.
                continue;
            }
            let id = self.with_pair(id)?;
            id.accept(&[], self.reads(), NotReady::NEVER_ENDS)?;
            id.events.wait_for(Kind::Established, deadline)?;
            self.take(id)?;
        }
        self.peer = peer.clone();
        Ok(())
    }

    /// `id` with a queue pair.
    fn with_pair(&self, id: Id) -> io::Result<Id> {
        id.expect_device_of(&self.domain)?;
        id.create_pair(&self.domain, &mut self.attributes())?;
        Ok(id)
    }

    /// Keeps a connected queue pair and readies its receives.
    fn take(&mut self, id: Id) -> io::Result<()> {
        self.pairs.push(Pair::new(Ends::Managed(id))?);
        self.receive_all(self.pairs.len() - 1)
    }

    /// RDMA READs that a queue pair of this device may have unanswered.
    fn reads(&self) -> u8 {
        self.domain.limits().map_or(1, |limits| limits.reads.clamp(1, READS) as u8)
    }

    fn attributes(&self) -> QueuePairAttributes {
        let kind = if self.plan.datagrams { DATAGRAMS } else { RELIABLE_CONNECTION };
        self.queue.attributes(kind, self.plan.depth.max(1), self.plan.receives.max(1))
    }
}

impl Pair {
    fn new(ends: Ends) -> io::Result<Pair> {
        let raw = ends.queue_pair().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pair { raw, ends })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Either kind destroys its queue pair then.
        if let Ends::Managed(id) = &self.ends {
            id.disconnect();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by `join`, and the queue pairs that used it are gone.
        let _ = unsafe { (self.library.ibv_destroy_ah)(self.raw.as_ptr()) };
    }
}
