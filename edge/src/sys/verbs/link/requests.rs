//! What a link hands to its device: records from memory of its own, writes from held slots and
//! reads into them, receives.

use super::{RdmaConnection, Shape};
use crate::sys::memory::Memory;
use crate::sys::verbs::abi::*;
use crate::sys::verbs::memory::{Access, Domain, Registration};
use crate::sys::verbs::queue::{post_receive, post_send};
use std::io;
use std::ptr::NonNull;

/// Registered memory for records: those to be received first, by queue pair, then those to be sent.
pub(super) struct Records {
    registration: Registration,
    memory: Memory,
    free: Vec<usize>,
}

impl Records {
    pub(super) fn new(domain: &Domain, pairs: usize, shape: &Shape) -> io::Result<Records> {
        let buffers = pairs * (shape.receives + shape.sends);
        let mut memory = Memory::touched(buffers * shape.record_len)?;
        let registration = domain.register(memory.as_mut_ptr(), memory.len(), Access::Sent)?;
        Ok(Records { registration, memory, free: (pairs * shape.receives..buffers).collect() })
    }

    /// The buffer of a record that was sent serves again.
    pub(super) fn put_back(&mut self, buffer: usize) {
        self.free.push(buffer);
    }

    /// The first bytes of a buffer.
    pub(super) fn read(&self, buffer: usize, shape: &Shape, len: usize) -> Vec<u8> {
        let at = buffer * shape.record_len;
        self.memory[at..at + len.min(shape.record_len)].to_vec()
    }
}

/// What a work request's number says, in its two highest bytes; a buffer's or slot's number is in
/// the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::sys::verbs) enum Job {
    Receive = 1,
    Record = 2,
    Write = 3,
    /// [`RdmaConnection::ask_after_peer`].
    Nothing = 4,
    Read = 5,
}

pub(in crate::sys::verbs) fn number(job: Job, on: u8, index: usize) -> u64 {
    (job as u64) << 56 | u64::from(on) << 48 | index as u64
}

impl RdmaConnection {
    /// Posts every receive of a new queue pair.
    pub(in crate::sys::verbs) fn receive_all(
        &self,
        on: u8,
        pair: Option<NonNull<QueuePair>>,
    ) -> io::Result<()> {
        let pair = pair.ok_or(io::ErrorKind::NotConnected)?;
        let first = usize::from(on) * self.shape.receives;
        (first..first + self.shape.receives)
            .try_for_each(|buffer| self.receive_into(pair, on, buffer))
    }

    /// Sends a record.
    ///
    /// # Errors
    /// When the queue pair is broken or there is no buffer.
    pub(crate) fn post(&mut self, on: u8, bytes: &[u8]) -> io::Result<()> {
        let buffer = self.records.free.pop().filter(|_| bytes.len() <= self.shape.record_len);
        let buffer = buffer.ok_or_else(|| io::Error::other("no buffer for a record"))?;
        let at = buffer * self.shape.record_len;
        self.records.memory[at..at + bytes.len()].copy_from_slice(bytes);
        let keys = self.records.registration.keys();
        let sge = Sge {
            address: keys.address + at as u64,
            len: bytes.len() as u32,
            local_key: keys.local,
        };
        self.request(on, OP_SEND, number(Job::Record, on, buffer), sge, 0, 0, 0)
    }

    /// Writes the first `len` bytes of a held slot to the peer's memory.
    ///
    /// # Errors
    /// When the queue pair is broken or the slot is not held.
    pub(crate) fn write(
        &mut self,
        on: u8,
        slot: usize,
        len: u32,
        address: u64,
        key: u32,
        immediate: Option<u32>,
    ) -> io::Result<()> {
        let sge = self.start_of(slot, len)?;
        let opcode = if immediate.is_some() { OP_WRITE_WITH_IMMEDIATE } else { OP_WRITE };
        self.request(
            on,
            opcode,
            number(Job::Write, on, slot),
            sge,
            immediate.unwrap_or(0),
            address,
            key,
        )
    }

    /// Reads `len` bytes of the peer's memory into a held slot, from its start.
    ///
    /// # Errors
    /// When the queue pair is broken or the slot is not held.
    pub(crate) fn read(
        &mut self,
        on: u8,
        slot: usize,
        len: u32,
        address: u64,
        key: u32,
    ) -> io::Result<()> {
        let sge = self.start_of(slot, len)?;
        self.request(on, OP_READ, number(Job::Read, on, slot), sge, 0, address, key)
    }

    /// The first `len` bytes of a held slot.
    fn start_of(&self, slot: usize, len: u32) -> io::Result<Sge> {
        let (held, keys) =
            self.held.get(&slot).ok_or_else(|| io::Error::other("the slot is not held"))?;
        if held.len() < len as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Sge { address: keys.address, len, local_key: keys.local })
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of one work request")]
    pub(in crate::sys::verbs) fn request(
        &self,
        on: u8,
        opcode: u32,
        id: u64,
        mut sge: Sge,
        immediate: u32,
        remote_address: u64,
        remote_key: u32,
    ) -> io::Result<()> {
        let pair = self
            .pairs
            .get(usize::from(on))
            .and_then(Option::as_ref)
            .and_then(|pair| pair.ends.queue_pair());
        let pair = pair.ok_or(io::ErrorKind::NotConnected)?;
        let mut request = SendRequest {
            id,
            next: std::ptr::null_mut(),
            sges: &raw mut sge,
            sge_count: 1,
            opcode,
            flags: 0,
            immediate: immediate.to_be(),
            remote_address,
            remote_key,
            rest: [0; 9],
        };
        // SAFETY: the queue pair is alive; what the request points to is registered, and held or a
        // record's buffer.
        unsafe { post_send(pair, &raw mut request) }
    }

    pub(super) fn receive_into(
        &self,
        pair: NonNull<QueuePair>,
        on: u8,
        buffer: usize,
    ) -> io::Result<()> {
        let keys = self.records.registration.keys();
        let address = keys.address + (buffer * self.shape.record_len) as u64;
        let mut sge = Sge { address, len: self.shape.record_len as u32, local_key: keys.local };
        let mut request = ReceiveRequest {
            id: number(Job::Receive, on, buffer),
            next: std::ptr::null_mut(),
            sges: &raw mut sge,
            sge_count: 1,
        };
        // SAFETY: as in `request`; the buffer lies in the records' memory.
        unsafe { post_receive(pair, &raw mut request) }
    }
}
