//! How much memory the staging pools of all sessions of a node may take together: who comes when
//! little is left has a smaller pool, and goes on.

use super::lock::lock;
use farline_core::units::Bytes;
use std::sync::{Arc, Mutex};

/// The memory of all pools.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    taken: Mutex<Taken>,
    most: u64,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// Pools that have less than was asked for.
    short: usize,
}

/// What a part of a pool takes of it, given back when it is unmapped.
#[derive(Debug)]
pub(in crate::sys) struct PoolShare {
    memory: Arc<PoolMemory>,
    bytes: u64,
    is_short: bool,
}

impl PoolMemory {
    pub(crate) fn new(most: Bytes) -> Arc<PoolMemory> {
        Arc::new(PoolMemory { taken: Mutex::default(), most: most.0 })
    }

    /// Whether some pool has less than was asked for.
    pub(crate) fn is_short(&self) -> bool {
        lock(&self.taken).short > 0
    }

    /// Takes `asked` slots of `slot_len` bytes, or as many as half of what is left has room for, so
    /// that something is left for the next: `least` in any case. Returns how many.
    pub(in crate::sys) fn take(
        self: &Arc<PoolMemory>,
        (least, asked): (usize, usize),
        slot_len: usize,
    ) -> (usize, PoolShare) {
        let mut taken = lock(&self.taken);
        let count = asked.min(self.room(&taken, slot_len)).max(least);
        let (bytes, is_short) = (count as u64 * slot_len as u64, count < asked);
        taken.bytes += bytes;
        taken.short += usize::from(is_short);
        drop(taken);
        (count, PoolShare { memory: Arc::clone(self), bytes, is_short })
    }

    /// Takes `count` slots of `slot_len` bytes more for a pool; none where there is no room for all
    /// of them.
    pub(in crate::sys) fn take_all(
        self: &Arc<PoolMemory>,
        count: usize,
        slot_len: usize,
    ) -> Option<PoolShare> {
        let mut taken = lock(&self.taken);
        if count > self.room(&taken, slot_len) {
            return None;
        }
        let bytes = count as u64 * slot_len as u64;
        taken.bytes += bytes;
        drop(taken);
        Some(PoolShare { memory: Arc::clone(self), bytes, is_short: false })
    }

    /// Slots that one may take of what is left.
    fn room(&self, taken: &Taken, slot_len: usize) -> usize {
        let half = self.most.saturating_sub(taken.bytes) / 2;
        usize::try_from(half / slot_len.max(1) as u64).unwrap_or(usize::MAX)
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        let mut taken = lock(&self.memory.taken);
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        taken.short = taken.short.saturating_sub(usize::from(self.is_short));
    }
}

#[cfg(test)]
impl PoolMemory {
    /// Bytes that are taken of it.
    pub(crate) fn taken(&self) -> u64 {
        lock(&self.taken).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_share_what_all_have_and_each_has_its_least() {
        let memory = PoolMemory::new(Bytes(256));
        let take = || memory.take((2, 64), 1);
        let mut pools: Vec<_> = (0..100).map(|_| take()).collect();
        let counts: Vec<usize> = pools.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts[..8], [64, 64, 64, 32, 16, 8, 4, 2]);
        assert!(counts[8..].iter().all(|&count| count == 2), "{counts:?}");
        assert_eq!(memory.taken(), counts.iter().sum::<usize>() as u64);
        assert!(memory.is_short());
        assert!(memory.take_all(1, 1).is_none());
        // What is given back is there for the next.
        pools.truncate(2);
        assert!(!memory.is_short());
        assert_eq!(memory.taken(), 128);
        assert!(memory.take_all(65, 1).is_none());
        let more = memory.take_all(64, 1).expect("there is room");
        assert_eq!(memory.taken(), 192);
        drop((more, pools));
        assert_eq!((memory.taken(), memory.is_short(), take().0), (0, false, 64));
    }
}
