//! Buffers of one length for what comes in, which are used again once nobody reads them any more.

use crate::sys::lock::lock;
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// Buffers that are kept for later; more than a reader takes at once are given back.
const MOST_SPARE: usize = 32;

/// Where buffers come from and return to.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    len: usize,
    spare: Arc<Mutex<Vec<Box<[u8]>>>>,
}

/// A buffer that somebody reads.
struct PooledBuffer {
    buffer: Box<[u8]>,
    filled: usize,
    home: Buffers,
}

impl Buffers {
    /// Of `len` bytes each.
    pub(super) fn of(len: usize) -> Buffers {
        Buffers { len, spare: Arc::default() }
    }

    /// A buffer with anything in it.
    pub(super) fn take(&self) -> Box<[u8]> {
        let spare = lock(&self.spare).pop();
        spare.unwrap_or_else(|| vec![0; self.len].into_boxed_slice())
    }

    /// The first `filled` bytes of a buffer, to read; it returns here when they are dropped.
    pub(super) fn lend(&self, buffer: Box<[u8]>, filled: usize) -> Bytes {
        Bytes::from_owner(PooledBuffer { buffer, filled, home: self.clone() })
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut spare = lock(&self.home.spare);
        if spare.len() < MOST_SPARE {
            spare.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_part_is_dropped() {
        let buffers = Buffers::of(8);
        let mut buffer = buffers.take();
        buffer.copy_from_slice(b"abcdefgh");
        let whole = buffers.lend(buffer, 6);
        let part = whole.slice(2..4);
        drop(whole);
        assert_eq!((&part[..], lock(&buffers.spare).len()), (&b"cd"[..], 0));
        drop(part);
        assert_eq!(lock(&buffers.spare).len(), 1);
        assert_eq!((buffers.take().len(), lock(&buffers.spare).len()), (8, 0));
    }

    #[test]
    fn no_more_are_kept_than_a_reader_takes_at_once() {
        let buffers = Buffers::of(8);
        let lent: Vec<Bytes> =
            (0..2 * MOST_SPARE).map(|_| buffers.lend(buffers.take(), 8)).collect();
        drop(lent);
        assert_eq!(lock(&buffers.spare).len(), MOST_SPARE);
    }
}
