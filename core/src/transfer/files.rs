//! What a test's transfer moves and where it lands: files, and a disk that forgets what was not
//! synced.

use super::journal::{PartialOrigin, Recovered, Replay};
use super::*;
use crate::units::{ByteRanges, Rng};
use std::sync::Arc;

/// The length of a block.
pub(super) const BLOCK: usize = 1024;

/// A disk that forgets what was not synced.
pub(super) struct Disk {
    volatile: Vec<Vec<u8>>,
    durable: Vec<Vec<u8>>,
    pub(super) journal: Vec<u8>,
    pub(super) journal_durable: usize,
}

impl Disk {
    /// A power cut: of what was not synced each sector is old or new, and the journal's tail is
    /// torn and may be rubbish.
    pub(super) fn power_cut(&mut self, rng: &mut Rng) {
        for (volatile, durable) in self.volatile.iter_mut().zip(&mut self.durable) {
            for (new, old) in volatile.chunks_mut(512).zip(durable.chunks_mut(512)) {
                if rng.below(2) == 0 { new.copy_from_slice(old) } else { old.copy_from_slice(new) }
            }
        }
        let pending = (self.journal.len() - self.journal_durable) as u64;
        self.journal.truncate(self.journal_durable + rng.below(pending + 1) as usize);
        if rng.below(3) == 0 {
            self.journal.extend((0..rng.below(60)).map(|_| rng.next_u64() as u8));
        }
        self.journal_durable = self.journal.len();
    }

    /// What was written of a file is on the platters.
    pub(super) fn sync(&mut self, entry: usize) {
        self.durable[entry].clone_from(&self.volatile[entry]);
    }
}

/// The files of a transfer, at the source and on the disk.
pub(super) struct Files {
    pub(super) layout: Arc<Layout>,
    source: Vec<Vec<u8>>,
    pub(super) disk: Disk,
    pub(super) origin: PartialOrigin,
}

impl Files {
    /// Files of these lengths, with content of `rng`'s, compared by `digests`, if they are.
    pub(super) fn new(lens: &[u64], digests: Option<DigestAlgorithm>, rng: &mut Rng) -> Files {
        let entry = |(i, &len): (usize, &u64)| Entry {
            path: format!("f{i}").into_bytes(),
            kind: EntryKind::File { len },
            mode: 0o644,
            modified_ns: i as i64,
            changed_ns: 1,
            attributes: None,
        };
        let layout = Arc::new(Layout::new(lens.iter().enumerate().map(entry).collect(), BLOCK));
        let source: Vec<Vec<u8>> =
            lens.iter().map(|&len| (0..len).map(|_| rng.next_u64() as u8).collect()).collect();
        let empty: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len as usize]).collect();
        let (journal, journal_durable) = (Vec::new(), 0);
        let disk = Disk { volatile: empty.clone(), durable: empty, journal, journal_durable };
        let origin = PartialOrigin { source: [rng.next_u64() as u8; 32], digests };
        Files { layout, source, disk, origin }
    }

    /// What the journal says, which the disk must hold.
    pub(super) fn recover(&mut self) -> Recovered {
        let layout = Arc::clone(&self.layout);
        let mut replay = Replay::new(&layout, b"", self.origin);
        replay.all(&self.disk.journal);
        let recovered = replay.finish();
        for (&entry, held) in &recovered.held {
            for range in held.iter() {
                let (from, to) = (range.start as usize, range.end as usize);
                assert!(
                    self.disk.volatile[entry][from..to] == self.source[entry][from..to],
                    "the journal claims {from}-{to} of file {entry}, which the disk does not hold"
                );
            }
        }
        self.disk.journal.truncate(recovered.valid_len as usize);
        self.disk.journal_durable = self.disk.journal.len();
        recovered
    }

    /// The account of what is durable, of which `held` is from before.
    pub(super) fn account(&self, recovered: &Recovered, held: ByteRanges) -> Durability {
        let begun = recovered.valid_len > 0;
        Durability::new(Arc::clone(&self.layout), Vec::new(), self.origin, held, begun)
    }

    /// The digests of a block that arrived.
    pub(super) fn arrived(&self, block: Block, digests: &mut Digests, account: &mut Durability) {
        let Some(algorithm) = self.origin.digests else { return };
        let pieces = self.layout.pieces(block.offset, block.len).map(|piece| {
            let from = piece.file_offset as usize;
            let bytes = &self.source[piece.entry][from..from + piece.len];
            PieceDigest::of(&self.layout, &piece, bytes, algorithm)
        });
        let pieces: Vec<_> = pieces.collect();
        pieces.iter().for_each(|piece| digests.insert(piece));
        account.record(&pieces);
    }

    /// Writes a block.
    pub(super) fn write(&mut self, block: Block, account: &mut Durability) {
        for piece in self.layout.pieces(block.offset, block.len) {
            let range = piece.file_offset as usize..piece.file_offset as usize + piece.len;
            self.disk.volatile[piece.entry][range.clone()]
                .copy_from_slice(&self.source[piece.entry][range.clone()]);
            account.wrote(piece.entry, range.start as u64..range.end as u64);
        }
    }

    /// Fails unless every file on the disk is its source, and its digest too.
    pub(super) fn assert_landed(&self, digests: &Digests) {
        for (entry, source) in self.source.iter().enumerate() {
            assert!(self.disk.volatile[entry] == *source, "file {entry} differs from its source");
            let Some(algorithm) = self.origin.digests else { continue };
            let expected = match algorithm {
                DigestAlgorithm::Blake3 => blake3::hash(source).as_bytes().to_vec(),
                DigestAlgorithm::Crc64Nvme => crc_fast::crc64_nvme(source).to_be_bytes().to_vec(),
            };
            let found = digests.digest(entry);
            let found = found.map(|digest| digest[..algorithm.digest_len()].to_vec());
            assert_eq!(found, Some(expected), "file {entry}");
        }
    }
}
