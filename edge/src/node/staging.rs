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
        let slots = pool_within(&self.shared.staging, count, BLOCK_LEN, block).map_err(|error| {
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
