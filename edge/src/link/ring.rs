//! A ring of bytes that packets are read into and written from: nothing is copied in between.
//!
//! Records lie one after the other; each is whole, so a record that would cross the end starts at
//! the beginning instead. They are freed from the oldest, when all frames of it are delivered or
//! dropped.

use crate::sys::memory::Memory;
use crate::sys::tun;
use farline_core::units::Time;
use std::collections::VecDeque;
use std::io;

/// Records begin at multiples of this, so that headers do not straddle cache lines more than they
/// must.
const ALIGN: usize = 8;

#[derive(Debug)]
struct Record {
    offset: usize,
    len: usize,
    frames_left: u32,
    read_at: Time,
}

/// Packets in flight, named by consecutive tokens.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Memory,
    head: usize,
    records: VecDeque<Record>,
    first: u64,
}

impl Ring {
    /// A ring that holds at least `bytes` of packets, all of it in memory before this returns.
    ///
    /// # Errors
    /// What the kernel says when it has no such amount of memory.
    pub(super) fn new(bytes: usize) -> io::Result<Ring> {
        let memory = Memory::touched(bytes + 3 * tun::LARGEST)?;
        let records = VecDeque::with_capacity(bytes / 4096);
        Ok(Ring { memory, head: 0, records, first: 0 })
    }

    /// Room for the next packet, or `None` while the ring is full.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        let Some(tail) = self.records.front().map(|record| record.offset) else {
            self.head = 0;
            return self.memory.get_mut(..tun::LARGEST);
        };
        if self.head >= tail {
            if self.memory.len() - self.head < tun::LARGEST {
                if tail <= tun::LARGEST {
                    return None;
                }
                self.head = 0;
            }
        } else if tail - self.head <= tun::LARGEST {
            return None;
        }
        self.memory.get_mut(self.head..self.head + tun::LARGEST)
    }

    /// Keeps the `len` bytes just read into [`room`](Ring::room) as a packet of `frames`; returns
    /// its token.
    pub(super) fn push(&mut self, len: usize, frames: u32, read_at: Time) -> u64 {
        self.records.push_back(Record { offset: self.head, len, frames_left: frames, read_at });
        self.head += len.next_multiple_of(ALIGN);
        self.first + self.records.len() as u64 - 1
    }

    /// When a packet that has frames left was read.
    pub(super) fn read_at(&self, token: u64) -> Time {
        self.records[(token - self.first) as usize].read_at
    }

    /// The bytes of a packet that has frames left.
    pub(super) fn packet(&mut self, token: u64) -> &mut [u8] {
        let record = &self.records[(token - self.first) as usize];
        &mut self.memory[record.offset..record.offset + record.len]
    }

    /// Notes that `frames` more frames of a packet are delivered or dropped.
    pub(super) fn done(&mut self, token: u64, frames: u32) {
        self.records[(token - self.first) as usize].frames_left -= frames;
        while self.records.front().is_some_and(|record| record.frames_left == 0) {
            self.records.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_bytes_while_the_ring_wraps() {
        let mut ring = Ring::new(400_000).expect("it is allowed");
        let mut rng = farline_core::units::Rng::new(5);
        let mut live: Vec<(u64, u8, usize)> = Vec::new();
        let mut full = 0;
        for step in 0..20_000u64 {
            let len = 20 + rng.below(60_000) as usize;
            match ring.room() {
                Some(room) => {
                    let fill = step as u8;
                    room[..len].fill(fill);
                    live.push((ring.push(len, 2, Time::from_nanos(step)), fill, len));
                }
                None => full += 1,
            }
            if rng.below(3) > 0 && !live.is_empty() {
                let (token, fill, len) = live.swap_remove(rng.below(live.len() as u64) as usize);
                assert_eq!(ring.packet(token), vec![fill; len]);
                assert_eq!(ring.read_at(token).as_nanos() as u8, fill);
                ring.done(token, 1);
                ring.done(token, 1);
            }
        }
        assert!(full > 100, "the ring was never full: {full}");
    }
}
