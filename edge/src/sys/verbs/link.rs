//! The queue pairs of one channel with their completion queue, and the slots that the device may
//! touch meanwhile.

mod completions;
mod requests;

pub(crate) use completions::Completion;
pub(super) use requests::{Job, number};

use super::abi::*;
use super::connection::{Connecting, Id, NotReady, Request};
use super::events::{ConnectionError, Events, Kind};
use super::memory::{Access, Domain, Keys};
use super::owned_qp::Ends;
use super::queue::Queue;
use crate::sys::pool::Slot;
use requests::Records;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The sizes of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many queue pairs.
    pub pairs: u8,
    /// Work requests in each send queue.
    pub sends: usize,
    /// Receives posted on each queue pair.
    pub receives: usize,
    /// The longest record in bytes.
    pub record_len: usize,
}

/// The queue pairs of one channel.
pub(crate) struct RdmaConnection {
    // Dropped in this order, after `Drop` has destroyed the queue pairs.
    pub(super) pairs: Vec<Option<Pair>>,
    queue: Queue,
    records: Records,
    pub(super) domain: Arc<Domain>,
    shape: Shape,
    /// By queue pair: whether an answer to [`Self::ask_after_peer`] is due.
    pub(super) asked: Vec<bool>,
    held: BTreeMap<usize, (Slot, Keys)>,
    gone: Option<ConnectionError>,
}

pub(super) struct Pair {
    pub(super) ends: Ends,
    pub(super) established: bool,
}

impl Pair {
    /// Where rdma_cm tells of it.
    fn events(&self) -> Option<&Events> {
        match &self.ends {
            Ends::Managed(id) => Some(&id.events),
            Ends::Owned(_) => None,
        }
    }
}

// SAFETY: libibverbs allows its calls from any thread, and a link is used by one at a time.
unsafe impl Send for RdmaConnection {}

impl RdmaConnection {
    /// A link without connections.
    ///
    /// # Errors
    /// When the device has no room for it, or may not pin the memory.
    pub(crate) fn new(domain: Arc<Domain>, shape: Shape) -> io::Result<RdmaConnection> {
        let pairs = usize::from(shape.pairs);
        // One more send of each pair asks after the peer.
        let queue = Queue::new(&domain, pairs * (shape.sends + 1 + shape.receives))?;
        let records = Records::new(&domain, pairs, &shape)?;
        let asked = vec![false; pairs];
        let pairs = (0..pairs).map(|_| None).collect();
        Ok(RdmaConnection {
            pairs,
            queue,
            records,
            domain,
            shape,
            asked,
            held: BTreeMap::new(),
            gone: None,
        })
    }

    /// Makes a connection the queue pair `on`; returns the peer's private data.
    ///
    /// # Errors
    /// When the device has no queue pair left, or the peer does not accept.
    pub(crate) fn connect(
        &mut self,
        on: u8,
        connecting: Connecting,
        private_data: &[u8],
        ack_timeout: u8,
        timeout: Duration,
    ) -> io::Result<Vec<u8>> {
        let id = connecting.id;
        self.prepare(on, &id, ack_timeout)?;
        let answer =
            id.connect(private_data, MOST_READS, NotReady::ENDS, Instant::now() + timeout)?;
        self.pairs[usize::from(on)] = Some(Pair { ends: Ends::Managed(id), established: true });
        Ok(answer)
    }

    /// Accepts a request as the queue pair `on`, which is there once [`Self::is_established`] says
    /// so.
    ///
    /// # Errors
    /// When the device has no queue pair left, or who asked is gone: the request, to be refused.
    pub(crate) fn accept(
        &mut self,
        on: u8,
        request: Request,
        private_data: &[u8],
        ack_timeout: u8,
    ) -> Result<(), Request> {
        let Request { mut id, private_data: theirs } = request;
        match self
            .prepare(on, &id, ack_timeout)
            .and_then(|()| id.accept(private_data, MOST_READS, NotReady::ENDS))
        {
            Ok(()) => {
                self.pairs[usize::from(on)] =
                    Some(Pair { ends: Ends::Managed(id), established: false });
                Ok(())
            }
            Err(_) => {
                // It has its receives in this link's records and tells its completion queue, and
                // the caller may drop the link first.
                id.destroy_pair();
                Err(Request { id, private_data: theirs })
            }
        }
    }

    /// Gives a connection its queue pair, with every receive posted.
    fn prepare(&mut self, on: u8, id: &Id, ack_timeout: u8) -> io::Result<()> {
        if self.pairs.get(usize::from(on)).is_none_or(Option::is_some) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        id.expect_device_of(&self.domain)?;
        id.set_ack_timeout(ack_timeout);
        id.create_pair(&self.domain, &mut self.attributes())?;
        self.receive_all(on, id.queue_pair())
    }

    /// What a queue pair is created with; one more send asks after the peer.
    pub(super) fn attributes(&self) -> QueuePairAttributes {
        self.queue.attributes(RELIABLE_CONNECTION, self.shape.sends + 1, self.shape.receives)
    }

    /// Whether every queue pair is there.
    ///
    /// # Errors
    /// When one of them will not be.
    pub(crate) fn is_established(&mut self) -> io::Result<bool> {
        for pair in self.pairs.iter_mut().flatten() {
            while let Some(event) = pair.events().map(Events::next).transpose()?.flatten() {
                match event.kind {
                    Kind::Established => pair.established = true,
                    Kind::Gone(why) => return Err(why.into()),
                    _ => {}
                }
            }
        }
        Ok(self.pairs.iter().all(|pair| pair.as_ref().is_some_and(|pair| pair.established)))
    }

    /// Descriptors that become readable when [`Self::is_established`] may have news.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pairs.iter().flatten().filter_map(Pair::events).map(AsFd::as_fd)
    }

    /// Keeps a slot while a device may use it. Answers where it lies, and the key for the peer.
    ///
    /// # Errors
    /// When its memory cannot be registered; the slot is held all the same.
    pub(crate) fn hold(&mut self, slot: Slot, access: Access) -> io::Result<(u64, u32)> {
        let keys = self.domain.keys(&slot, access);
        let told = keys.as_ref().map_or((0, 0), |keys| (keys.address, keys.remote));
        self.held.insert(
            slot.index(),
            (slot, *keys.as_ref().unwrap_or(&Keys { address: 0, local: 0, remote: 0 })),
        );
        keys.map(|_| told)
    }

    /// How many slots are held.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Gives a slot back. The caller knows from a completion that the device is done with it, or
    /// has [shut](Self::shut) the link.
    pub(crate) fn release(&mut self, slot: usize) -> Option<Slot> {
        let (slot, _) = self.held.remove(&slot)?;
        self.domain.let_go(&slot);
        Some(slot)
    }

    /// Any held slot, of a link that was shut.
    pub(crate) fn release_any(&mut self) -> Option<Slot> {
        let first = *self.held.keys().next()?;
        self.release(first)
    }

    /// Makes void the keys that the peer was told, of slots that were given back.
    pub(crate) fn close_keys(&self) {
        self.domain.close();
    }

    /// Ends every connection. The device touches none of the held slots any more.
    pub(crate) fn shut(&mut self) {
        for pair in self.pairs.iter_mut().flatten() {
            if let Ends::Managed(id) = &mut pair.ends {
                id.disconnect();
                id.destroy_pair();
            }
        }
        self.pairs.clear();
    }
}

impl Drop for RdmaConnection {
    /// What was told of slots that nobody took back is void too: other links of the session share
    /// the protection domain.
    fn drop(&mut self) {
        self.shut();
        let held: Vec<Slot> = std::iter::from_fn(|| self.release_any()).collect();
        self.close_keys();
        drop(held);
    }
}
