//! The staging pool of a session, of memory that all sessions of a node share.

use super::config::Config;
use super::data::DataPlane;
use crate::mover::BLOCK_LEN;
use crate::sys::pacing_limits::PacingLimit;
use crate::sys::pool::{Slot, pool_within};
use crate::sys::pool_memory::PoolMemory;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::sync::Arc;

/// A session's pool to begin with; what is not used of it takes no memory.
const STAGING: Bytes = Bytes::mib(64);

/// Slots that a session has whatever others have, and more where it has more channels.
const LEAST_SLOTS: usize = 8;

/// What all sessions have together beyond that.
const ALL_STAGING: Bytes = Bytes(2 << 30);

/// What all sessions' pools share: of those that an operator wants larger, a few at once.
pub(super) fn memory(config: &Config) -> Arc<PoolMemory> {
    let few = config.staging.map_or(0, |staging| staging.0.saturating_mul(8));
    PoolMemory::new(ALL_STAGING.max(Bytes(few)))
}

impl DataPlane {
    /// Slots of a pool that nobody else has part of.
    pub(super) fn staging_slots(&self) -> usize {
        usize::try_from(self.shared.config.staging.unwrap_or(STAGING).0).unwrap_or(usize::MAX)
            / BLOCK_LEN
    }

    /// The session's pool, of `least` slots at least.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub(super) fn slots(&mut self, least: usize) -> Result<Vec<Slot>, Error> {
        self.pool(least, self.staging_slots().max(least))
    }

    /// The same for a transfer that has one block in hand at a time.
    ///
    /// # Errors
    /// As [`Self::slots`].
    pub(super) fn one_slot(&mut self) -> Result<Vec<Slot>, Error> {
        self.pool(1, 1)
    }

    fn pool(&mut self, least: usize, asked: usize) -> Result<Vec<Slot>, Error> {
        let slots = std::mem::take(&mut self.slots);
        if slots.len() >= least {
            return Ok(slots);
        }
        drop(slots);
        let block = self.longest_block.map_or(BLOCK_LEN, |longest| longest.0 as usize);
        let count = (least.max(LEAST_SLOTS.min(asked)), asked);
        let slots =
            pool_within(&self.shared.staging, count, BLOCK_LEN, block).map_err(|error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::NoMemory,
                    format!("no memory for the staging pool: {error}"),
                )
            })?;
        if slots.len() < asked {
            self.struck.strike(PacingLimit::StagingMemory);
        }
        Ok(slots)
    }

    /// Keeps the pool for the next transfer, unless another session has less than it asked for.
    /// What devices know of the pool stays: to tell them anew takes long.
    pub(super) fn keep_slots(&mut self, slots: Vec<Slot>) {
        let is_registered = self.channels.iter().any(|channel| channel.depth() > 1);
        if is_registered || !self.shared.staging.is_short() {
            self.slots = slots;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use super::super::accounts::Shown;
    use super::super::arrival::Arrival;
    use super::super::config::ConfigFile;
    use super::*;
    use crate::mover::LiveRate;
    use crate::stores::Root;
    use farline_core::gridftp::Pathname;
    use farline_core::units::{Rate, Span};
    use std::net::SocketAddr;

    /// Three sessions of a node whose pools have so much together.
    fn sessions(memory: Bytes) -> [DataPlane; 3] {
        let dir = tempfile::tempdir().expect("a folder");
        let file = ConfigFile { root: Some(dir.path().to_owned()), ..ConfigFile::default() };
        let config = file.build().expect("all that a node needs");
        let root = Root::open(dir.path()).expect("it is there").exported();
        let shared = Shared::new(config, root, None, None, Pathname::root());
        let shared = Arc::new(Shared { staging: PoolMemory::new(memory), ..shared });
        let here = SocketAddr::from(([127, 0, 0, 1], 2811));
        [(); 3].map(|()| {
            let arrival = Arrival {
                local: here,
                peer: here,
                over_ssh: false,
                rtt: Span::ZERO,
                one_port: None,
                certificate: None,
            };
            let limit = LiveRate::new(Rate::default());
            DataPlane::new(Arc::clone(&shared), arrival, Shown::default(), limit)
        })
    }

    #[test]
    fn who_comes_when_little_is_left_has_a_smaller_pool() {
        let [mut first, mut second, mut third] = sessions(Bytes::mib(160));
        let one = first.slots(3).expect("memory");
        assert_eq!((one.len(), first.struck.take()), (64, Vec::new()));
        let two = second.slots(3).expect("memory");
        assert_eq!((two.len(), second.struck.take()), (48, vec![PacingLimit::StagingMemory]));
        // So many channels, whatever others have; and one block at a time is never too much.
        let three = third.slots(40).expect("memory");
        assert_eq!((three.len(), third.struck.take()), (40, vec![PacingLimit::StagingMemory]));
        let four = third.one_slot().expect("memory");
        assert_eq!((four.len(), third.struck.take()), (1, Vec::new()));
        // Nobody keeps any while somebody has less than it asked for.
        first.keep_slots(one);
        assert!(first.slots.is_empty());
        drop((two, three, four));
        let one = first.slots(3).expect("memory");
        first.keep_slots(one);
        assert_eq!(first.slots.len(), 64);
        let least = second.slots(3).expect("memory");
        assert_eq!(least.len(), 48, "what the first keeps is its own until its next transfer");
    }
}
