//! The queue pairs of one channel with their completion queue, and the slots that the device may touch meanwhile.

use super::abi::*;
use super::connection::{Connecting, Id, Request};
use super::events::{Events, Gone, Kind, wait};
use super::exchanged::Own;
use super::memory::{Access, Domain, Keys, Registration};
use super::queue::{Queue, post_receive, post_send};
use crate::sys::memory::Memory;
use crate::sys::pool::Slot;
use farline_core::rdma::Failure;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Completions read in one call.
const BATCH: usize = 32;

/// The sizes of a link.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many queue pairs.
    pub pairs: u8,
    /// Work requests in each send queue.
    pub sends: usize,
    /// Receives posted on each queue pair.
    pub receives: usize,
    /// The longest record in bytes.
    pub record_len: usize,
}

/// What a device has done.
#[derive(Debug)]
pub enum Completion {
    /// A record came; its receive is posted again.
    Record {
        /// On which queue pair.
        on: u8,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The peer wrote to memory, with an immediate; the receive is posted again.
    Written {
        /// On which queue pair.
        on: u8,
        /// The immediate.
        immediate: u32,
        /// Bytes that it wrote.
        len: u32,
    },
    /// A record of ours was sent.
    RecordSent {
        /// On which queue pair.
        on: u8,
    },
    /// A slot of ours was written; it is still held.
    SlotSent {
        /// On which queue pair.
        on: u8,
        /// Its number.
        slot: usize,
    },
    /// A slot of ours has what was read into it; it is still held.
    SlotRead {
        /// On which queue pair.
        on: u8,
        /// Its number.
        slot: usize,
    },
    /// A work request failed, and with it the queue pair.
    Failed(Failure),
}

/// The queue pairs of one channel.
pub struct Link {
    // Dropped in this order, after `Drop` has destroyed the queue pairs.
    pub(super) pairs: Vec<Option<Pair>>,
    queue: Queue,
    records: Records,
    pub(super) domain: Arc<Domain>,
    shape: Shape,
    /// By queue pair: whether an answer to [`Self::ask_after_peer`] is due.
    pub(super) asked: Vec<bool>,
    held: BTreeMap<usize, (Slot, Keys)>,
    gone: Option<Gone>,
}

pub(super) struct Pair {
    pub(super) ends: Ends,
    pub(super) established: bool,
}

/// By whom a queue pair was connected.
pub(super) enum Ends {
    /// By rdma_cm.
    Managed(Id),
    /// By ourselves.
    Own(Own),
}

impl Pair {
    fn queue_pair(&self) -> Option<NonNull<QueuePair>> {
        match &self.ends {
            Ends::Managed(id) => id.queue_pair(),
            Ends::Own(own) => Some(own.raw),
        }
    }

    /// Where rdma_cm tells of it.
    fn events(&self) -> Option<&Events> {
        match &self.ends {
            Ends::Managed(id) => Some(&id.events),
            Ends::Own(_) => None,
        }
    }
}

/// Registered memory for records: those to be received first, by queue pair, then those to be sent.
struct Records {
    registration: Registration,
    memory: Memory,
    free: Vec<usize>,
}

// SAFETY: libibverbs allows its calls from any thread, and a link is used by one at a time.
unsafe impl Send for Link {}

/// What a work request's number says, in its two highest bytes; a buffer's or slot's number is in the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    Receive = 1,
    Record = 2,
    Write = 3,
    /// [`Link::ask_after_peer`].
    Nothing = 4,
    Read = 5,
}

pub(super) fn number(job: Job, on: u8, index: usize) -> u64 {
    (job as u64) << 56 | u64::from(on) << 48 | index as u64
}

impl Link {
    /// A link without connections.
    ///
    /// # Errors
    /// When the device has no room for it, or may not pin the memory.
    pub fn new(domain: Arc<Domain>, shape: Shape) -> io::Result<Link> {
        let pairs = usize::from(shape.pairs);
        // One more send of each pair asks after the peer.
        let queue = Queue::new(&domain, pairs * (shape.sends + 1 + shape.receives))?;
        let buffers = pairs * (shape.receives + shape.sends);
        let mut memory = Memory::touched(buffers * shape.record_len)?;
        let registration = domain.register(memory.as_mut_ptr(), memory.len(), Access::Sent)?;
        let records = Records { registration, memory, free: (pairs * shape.receives..buffers).collect() };
        let asked = vec![false; pairs];
        let pairs = (0..pairs).map(|_| None).collect();
        Ok(Link { pairs, queue, records, domain, shape, asked, held: BTreeMap::new(), gone: None })
    }

    /// Makes a connection the queue pair `on`; answers with the peer's private data.
    ///
    /// # Errors
    /// When the device has no queue pair left, or the peer does not accept.
    pub fn connect(
        &mut self,
        on: u8,
        connecting: Connecting,
        private_data: &[u8],
        ack_timeout: u8,
        timeout: Duration,
    ) -> io::Result<Vec<u8>> {
        let id = connecting.id;
        self.prepare(on, &id, ack_timeout)?;
        let answer = id.connect(private_data, Instant::now() + timeout)?;
        self.pairs[usize::from(on)] = Some(Pair { ends: Ends::Managed(id), established: true });
        Ok(answer)
    }

    /// Accepts a request as the queue pair `on`, which is there once [`Self::is_established`] says so.
    ///
    /// # Errors
    /// When the device has no queue pair left, or who asked is gone: the request, to be refused.
    pub fn accept(&mut self, on: u8, request: Request, private_data: &[u8], ack_timeout: u8) -> Result<(), Request> {
        let Request { mut id, private_data: theirs } = request;
        match self.prepare(on, &id, ack_timeout).and_then(|()| id.accept(private_data)) {
            Ok(()) => {
                self.pairs[usize::from(on)] = Some(Pair { ends: Ends::Managed(id), established: false });
                Ok(())
            }
            Err(_) => {
                // It has its receives in this link's records and tells its completion queue, and the caller may drop the link first.
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

    /// What a queue pair is created with.
    pub(super) fn attributes(&self) -> QueuePairAttributes {
        let capacities = Capacities {
            sends: self.shape.sends as u32 + 1,
            receives: self.shape.receives as u32,
            send_pieces: 1,
            receive_pieces: 1,
            inline_len: 0,
        };
        QueuePairAttributes {
            context: std::ptr::null_mut(),
            send_queue: self.queue.raw.as_ptr(),
            receive_queue: self.queue.raw.as_ptr(),
            shared_receives: std::ptr::null_mut(),
            capacities,
            kind: RELIABLE_CONNECTION,
            signal_all: 1,
        }
    }

    /// Posts every receive of a new queue pair.
    pub(super) fn receive_all(&self, on: u8, pair: Option<NonNull<QueuePair>>) -> io::Result<()> {
        let pair = pair.ok_or(io::ErrorKind::NotConnected)?;
        let first = usize::from(on) * self.shape.receives;
        (first..first + self.shape.receives).try_for_each(|buffer| self.receive_into(pair, on, buffer))
    }

    /// Whether every queue pair is there.
    ///
    /// # Errors
    /// When one of them will not be.
    pub fn is_established(&mut self) -> io::Result<bool> {
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
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pairs.iter().flatten().filter_map(Pair::events).map(AsFd::as_fd)
    }

    /// Whether the device speaks iWARP.
    pub fn is_iwarp(&self) -> bool {
        self.domain.is_iwarp()
    }

    /// Keeps a slot while a device may use it. Answers where it lies, and the key for the peer.
    ///
    /// # Errors
    /// When its memory cannot be registered; the slot is held all the same.
    pub fn hold(&mut self, slot: Slot, access: Access) -> io::Result<(u64, u32)> {
        let keys = self.domain.keys(&slot, access);
        let told = keys.as_ref().map_or((0, 0), |keys| (keys.address, keys.remote));
        self.held.insert(slot.index(), (slot, *keys.as_ref().unwrap_or(&Keys { address: 0, local: 0, remote: 0 })));
        keys.map(|_| told)
    }

    /// How many slots are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Gives a slot back. The caller knows from a completion that the device is done with it, or has [shut](Self::shut) the link.
    pub fn release(&mut self, slot: usize) -> Option<Slot> {
        let (slot, _) = self.held.remove(&slot)?;
        self.domain.let_go(&slot);
        Some(slot)
    }

    /// Any held slot, of a link that was shut.
    pub fn release_any(&mut self) -> Option<Slot> {
        let first = *self.held.keys().next()?;
        self.release(first)
    }

    /// Makes void the keys that the peer was told, of slots that were given back.
    pub fn close_keys(&self) {
        self.domain.close();
    }

    /// Sends a record.
    ///
    /// # Errors
    /// When the queue pair is broken or there is no buffer.
    pub fn post(&mut self, on: u8, bytes: &[u8]) -> io::Result<()> {
        let buffer = self.records.free.pop().filter(|_| bytes.len() <= self.shape.record_len);
        let buffer = buffer.ok_or_else(|| io::Error::other("no buffer for a record"))?;
        let at = buffer * self.shape.record_len;
        self.records.memory[at..at + bytes.len()].copy_from_slice(bytes);
        let keys = self.records.registration.keys();
        let piece = Piece { address: keys.address + at as u64, len: bytes.len() as u32, local_key: keys.local };
        self.request(on, OP_SEND, number(Job::Record, on, buffer), piece, 0, 0, 0)
    }

    /// Writes the first `len` bytes of a held slot to the peer's memory.
    ///
    /// # Errors
    /// When the queue pair is broken or the slot is not held.
    pub fn write(&mut self, on: u8, slot: usize, len: u32, address: u64, key: u32, immediate: Option<u32>) -> io::Result<()> {
        let piece = self.start_of(slot, len)?;
        let opcode = if immediate.is_some() { OP_WRITE_WITH_IMMEDIATE } else { OP_WRITE };
        self.request(on, opcode, number(Job::Write, on, slot), piece, immediate.unwrap_or(0), address, key)
    }

    /// Reads `len` bytes of the peer's memory into a held slot, from its start.
    ///
    /// # Errors
    /// When the queue pair is broken or the slot is not held.
    pub fn read(&mut self, on: u8, slot: usize, len: u32, address: u64, key: u32) -> io::Result<()> {
        let piece = self.start_of(slot, len)?;
        self.request(on, OP_READ, number(Job::Read, on, slot), piece, 0, address, key)
    }

    /// The first `len` bytes of a held slot.
    fn start_of(&self, slot: usize, len: u32) -> io::Result<Piece> {
        let (held, keys) = self.held.get(&slot).ok_or_else(|| io::Error::other("the slot is not held"))?;
        if held.len() < len as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Piece { address: keys.address, len, local_key: keys.local })
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of one work request")]
    pub(super) fn request(
        &self,
        on: u8,
        opcode: u32,
        id: u64,
        mut piece: Piece,
        immediate: u32,
        remote_address: u64,
        remote_key: u32,
    ) -> io::Result<()> {
        let pair = self.pairs.get(usize::from(on)).and_then(Option::as_ref).and_then(Pair::queue_pair);
        let pair = pair.ok_or(io::ErrorKind::NotConnected)?;
        let mut request = SendRequest {
            id,
            next: std::ptr::null_mut(),
            pieces: &raw mut piece,
            piece_count: 1,
            opcode,
            flags: 0,
            immediate: immediate.to_be(),
            remote_address,
            remote_key,
            rest: [0; 9],
        };
        // SAFETY: the queue pair is alive; what the request points to is registered, and held or a record's buffer.
        unsafe { post_send(pair, &raw mut request) }
    }

    fn receive_into(&self, pair: NonNull<QueuePair>, on: u8, buffer: usize) -> io::Result<()> {
        let keys = self.records.registration.keys();
        let address = keys.address + (buffer * self.shape.record_len) as u64;
        let mut piece = Piece { address, len: self.shape.record_len as u32, local_key: keys.local };
        let mut request = ReceiveRequest {
            id: number(Job::Receive, on, buffer),
            next: std::ptr::null_mut(),
            pieces: &raw mut piece,
            piece_count: 1,
        };
        // SAFETY: as in `request`; the buffer lies in the records' memory.
        unsafe { post_receive(pair, &raw mut request) }
    }

    /// Takes what the device has done, without waiting; answers whether there was any.
    ///
    /// # Errors
    /// When the device fails.
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> io::Result<bool> {
        let mut done = [WorkCompletion::default(); BATCH];
        let count = self.queue.poll(&mut done)?;
        for completion in &done[..count] {
            into.extend(self.take(completion)?);
        }
        Ok(count > 0)
    }

    fn take(&mut self, done: &WorkCompletion) -> io::Result<Option<Completion>> {
        let (on, index) = ((done.id >> 48) as u8, (done.id & 0xffff_ffff_ffff) as usize);
        if done.id >> 56 == Job::Record as u64 {
            self.records.free.push(index);
        }
        if let Some(failure) = Failure::of_status(done.status) {
            return Ok(Some(Completion::Failed(failure)));
        }
        if done.id >> 56 == Job::Record as u64 {
            return Ok(Some(Completion::RecordSent { on }));
        }
        if done.id >> 56 == Job::Nothing as u64 {
            self.asked[usize::from(on)] = false;
            return Ok(None);
        }
        if done.id >> 56 == Job::Write as u64 {
            return Ok(Some(Completion::SlotSent { on, slot: index }));
        }
        if done.id >> 56 == Job::Read as u64 {
            return Ok(Some(Completion::SlotRead { on, slot: index }));
        }
        let completion = if done.opcode == DONE_RECEIVE_WITH_IMMEDIATE {
            Completion::Written { on, immediate: u32::from_be(done.immediate), len: done.byte_len }
        } else {
            let at = index * self.shape.record_len;
            let len = (done.byte_len as usize).min(self.shape.record_len);
            Completion::Record { on, bytes: self.records.memory[at..at + len].to_vec() }
        };
        if let Some(pair) = self.pairs.get(usize::from(on)).and_then(Option::as_ref).and_then(Pair::queue_pair) {
            self.receive_into(pair, on, index)?;
        }
        Ok(Some(completion))
    }

    /// Waits until the device has done something, `wake` becomes readable, or the time is over; answers whether it slept for that.
    ///
    /// # Errors
    /// When the peer is gone and all that it sent was taken, or the device was removed.
    pub fn wait(&mut self, into: &mut Vec<Completion>, wake: BorrowedFd<'_>, most: Duration) -> io::Result<bool> {
        if self.poll(into)? {
            return Ok(false);
        }
        if let Some(why) = self.gone {
            return Err(why.into());
        }
        self.queue.arm()?;
        // What was done before the queue was armed tells nobody.
        if self.poll(into)? {
            return Ok(false);
        }
        let mut watched = vec![PollFd::new(&self.queue, PollFlags::IN), PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        watched.extend(self.pairs.iter().flatten().filter_map(Pair::events).map(|events| PollFd::new(events, PollFlags::IN)));
        wait(&mut watched, most)?;
        self.queue.disarm();
        self.hear()?;
        self.poll(into).map(|_| true)
    }

    /// Takes what librdmacm has to say of the connections.
    fn hear(&mut self) -> io::Result<()> {
        for pair in self.pairs.iter().flatten() {
            while let Some(event) = pair.events().map(Events::next).transpose()?.flatten() {
                if let Kind::Gone(why) = event.kind
                    && self.gone != Some(Gone::Removed)
                {
                    self.gone = Some(why);
                }
            }
        }
        Ok(())
    }

    /// Whether the device of a link that failed is gone.
    pub fn is_removed(&mut self) -> bool {
        self.hear().is_err() || self.gone == Some(Gone::Removed)
    }

    /// Ends every connection. The device touches none of the held slots any more.
    pub fn shut(&mut self) {
        for pair in self.pairs.iter_mut().flatten() {
            if let Ends::Managed(id) = &mut pair.ends {
                id.disconnect();
                id.destroy_pair();
            }
        }
        self.pairs.clear();
    }
}

impl Drop for Link {
    /// What was told of slots that nobody took back is void too: other links of the session share the protection domain.
    fn drop(&mut self) {
        self.shut();
        let held: Vec<Slot> = std::iter::from_fn(|| self.release_any()).collect();
        self.close_keys();
        drop(held);
    }
}
