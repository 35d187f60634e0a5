//! Whether a block that arrived is what its sender read.

use crate::stores::Sink;
use crate::sys::lock::lock;
use farline_core::gridftp::checked::Check;
use farline_core::transfer::{Block, BlockDigest, DigestAlgorithm, Digests, Layout, PieceDigest};
use std::sync::{Arc, Mutex};

/// What the blocks of a transfer are held against.
pub(super) struct BlockCheck<'a> {
    pub(super) layout: Arc<Layout>,
    /// Is told of the values of good blocks.
    pub(super) sink: &'a dyn Sink,
    /// Where the files' digests are collected, if they are.
    pub(super) digests: Option<&'a Mutex<Digests>>,
    pub(super) algorithm: Option<DigestAlgorithm>,
}

impl BlockCheck<'_> {
    /// Whether a block is what its sender read; notes its digests if it is. Without `bytes` it is
    /// zeros, which were not sent. `pieces` is scratch.
    pub(super) fn is_good(
        &self,
        bytes: Option<&[u8]>,
        block: &Block,
        check: Option<Check>,
        pieces: &mut Vec<PieceDigest>,
    ) -> bool {
        let fits = || {
            check.is_none_or(|check| match bytes {
                Some(bytes) => check.fits(bytes),
                None => check.fits_zeros(block.len as u64),
            })
        };
        let told = check.as_ref().and_then(Check::digest);
        let (Some(digests), Some(algorithm)) = (self.digests, self.algorithm) else {
            return fits();
        };
        // What the digest says of every byte needs no second sum.
        let is_by_digest = algorithm == DigestAlgorithm::Crc64Nvme && told.is_some();
        if !is_by_digest && !fits() {
            return false;
        }
        pieces.clear();
        let mut digest_of_block = BlockDigest::default();
        for piece in self.layout.pieces(block.offset, block.len) {
            let range = piece.block_offset..piece.block_offset + piece.len;
            let digest = match bytes {
                Some(bytes) => PieceDigest::of(&self.layout, &piece, &bytes[range], algorithm),
                None => PieceDigest::of_zeros(&self.layout, &piece, algorithm),
            };
            digest_of_block.add(&digest);
            pieces.push(digest);
        }
        if told.is_some_and(|told| *told != digest_of_block.finish()) {
            return false;
        }
        let mut digests = lock(digests);
        for piece in pieces.iter() {
            digests.insert(piece);
            if told.is_none() {
                digests.doubt(piece.entry());
            }
        }
        if told.is_some() {
            self.sink.record(pieces);
        }
        true
    }
}
