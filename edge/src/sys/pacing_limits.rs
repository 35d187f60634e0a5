//! Limits that refuse nothing, and pace: which of them struck, for the operator of a node and its
//! client to hear.

use std::sync::atomic::{AtomicU8, Ordering};

/// A limit that refuses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacingLimit {
    /// What the connections of a session keep over UDT and QUIC.
    ChannelBuffers,
    /// What the staging pools of all sessions take.
    StagingMemory,
    /// Files of a tree that are open.
    TreeFiles,
    /// Short files of trees that have no name yet.
    UnnamedFiles,
    /// Blocks of zeros that are not sent.
    Zeros,
}

impl PacingLimit {
    /// All of them.
    pub(crate) const ALL: [PacingLimit; 5] = [
        PacingLimit::ChannelBuffers,
        PacingLimit::StagingMemory,
        PacingLimit::TreeFiles,
        PacingLimit::UnnamedFiles,
        PacingLimit::Zeros,
    ];

    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PacingLimit::ChannelBuffers => "channel_buffers",
            PacingLimit::StagingMemory => "staging_memory",
            PacingLimit::TreeFiles => "tree_files",
            PacingLimit::UnnamedFiles => "unnamed_files",
            PacingLimit::Zeros => "zeros",
        }
    }

    /// What it does.
    pub(crate) fn what(self) -> &'static str {
        match self {
            PacingLimit::ChannelBuffers => {
                "the buffers that connections of a session share were full, or too small for the path"
            }
            PacingLimit::StagingMemory => {
                "the memory for blocks on their way was taken by other transfers: this one had less"
            }
            PacingLimit::TreeFiles => {
                "files of the tree were closed before their end, and opened again for the rest"
            }
            PacingLimit::UnnamedFiles => {
                "short files had a name from their beginning, since too many had none yet"
            }
            PacingLimit::Zeros => {
                "blocks of zeros that were not sent waited, since others move files"
            }
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Those that struck since somebody last asked.
#[derive(Debug, Default)]
pub(crate) struct PacingLimits(AtomicU8);

impl PacingLimits {
    /// One did.
    pub(crate) fn strike(&self, limit: PacingLimit) {
        // Often for each block: what is there already is not written again.
        if self.0.load(Ordering::Relaxed) & limit.bit() == 0 {
            self.0.fetch_or(limit.bit(), Ordering::Relaxed);
        }
    }

    /// Which did; from here on none.
    pub(crate) fn take(&self) -> Vec<PacingLimit> {
        let bits = self.0.swap(0, Ordering::Relaxed);
        PacingLimit::ALL.into_iter().filter(|limit| bits & limit.bit() != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_struck_is_told_once() {
        let limits = PacingLimits::default();
        assert_eq!(limits.take(), []);
        for limit in [PacingLimit::Zeros, PacingLimit::TreeFiles, PacingLimit::Zeros] {
            limits.strike(limit);
        }
        assert_eq!(limits.take(), [PacingLimit::TreeFiles, PacingLimit::Zeros]);
        assert_eq!(limits.take(), []);
    }
}
