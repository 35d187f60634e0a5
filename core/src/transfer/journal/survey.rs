//! What a journal says to one who knows nothing of its transfer: the files, and how much of each is
//! durable.

use super::{
    BEGIN, BLOCKS, FILE, FILE_UNCHANGED, FORGET, FileFacts, HEAD_LEN, LANDED, RANGES, VALUE,
    VERSION, number, parse_landed, payload_len,
};
use crate::units::ByteRanges;
use crc_fast::crc32_iscsi;
use std::collections::BTreeMap;

/// A journal read without a layout, record by record.
#[derive(Debug, Default)]
pub struct Survey {
    /// What identifies the transfer: block length, use of digests, source. `None` before the first
    /// record.
    begun: Option<(u64, u8, [u8; 32])>,
    numbers: BTreeMap<u32, Vec<u8>>,
    files: BTreeMap<Vec<u8>, Surveyed>,
}

/// A file that a journal speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// The source's, with the length of the whole.
    pub facts: FileFacts,
    /// What of it is durable.
    pub held: ByteRanges,
}

impl Survey {
    /// Takes one record in; false when it is damaged or makes no sense here, and reading must end.
    pub fn record(&mut self, head: &[u8; HEAD_LEN], payload: &[u8]) -> bool {
        let sum = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        payload_len(head) == Some(payload.len())
            && sum == crc32_iscsi(payload)
            && self.understand(payload).is_some()
    }

    /// The identity of the source; `None` when the journal says nothing.
    pub fn source(&self) -> Option<[u8; 32]> {
        self.begun.map(|(.., source)| source)
    }

    /// The files, by their paths below the journal's place.
    pub fn files(self) -> BTreeMap<Vec<u8>, Surveyed> {
        self.files
    }

    fn understand(&mut self, payload: &[u8]) -> Option<()> {
        let (&kind, rest) = payload.split_first()?;
        if kind == BEGIN {
            let (&version, rest) = rest.split_first()?;
            let (block_len, rest) = number::<4>(rest)?;
            let (&digests, source) = rest.split_first()?;
            if version != VERSION || block_len == 0 {
                return None;
            }
            let transfer = (block_len, digests, source.try_into().ok()?);
            // What was said in blocks of another length stays as good.
            let is_other =
                |before: (u64, u8, [u8; 32])| (before.1, before.2) != (digests, transfer.2);
            if self.begun.replace(transfer).is_some_and(is_other) {
                self.files.values_mut().for_each(|file| file.held = ByteRanges::new());
                self.numbers.clear();
            }
            return Some(());
        }
        let (block_len, digests, _) = self.begun?;
        let digests = digests > 0;
        match kind {
            FILE | FILE_UNCHANGED => {
                let (number_of, rest) = number::<4>(rest)?;
                let (facts, path) = FileFacts::parse(kind, rest)?;
                let file = self.files.entry(path.to_vec()).or_default();
                // The same name with other facts: what was said before is of another file.
                if file.facts != facts {
                    *file = Surveyed { facts, held: ByteRanges::new() };
                }
                self.numbers.insert(number_of as u32, path.to_vec());
            }
            BLOCKS => {
                let (number_of, rest) = number::<4>(rest)?;
                let (first, values) = number::<8>(rest)?;
                let (values, []) = values.as_chunks::<VALUE>() else { return None };
                let start = first.checked_mul(block_len)?;
                let end = start.checked_add(block_len.checked_mul(values.len() as u64)?)?;
                self.hold(number_of as u32, start, end, digests)?;
            }
            RANGES => {
                let (number_of, pairs) = number::<4>(rest)?;
                let (pairs, []) = pairs.as_chunks::<16>() else { return None };
                for pair in pairs {
                    let (start, end) = (number::<8>(&pair[..8])?.0, number::<8>(&pair[8..])?.0);
                    self.hold(number_of as u32, start, end, !digests)?;
                }
            }
            LANDED => {
                let (number_of, _) = parse_landed(rest)?;
                // Nothing hidden is left of it.
                self.numbers.get(&number_of)?;
            }
            FORGET => {
                self.files.remove(rest);
                self.numbers.retain(|_, path| path != rest);
            }
            _ => return None,
        }
        Some(())
    }

    /// `kept` says whether this transfer goes on from records of this kind.
    fn hold(&mut self, number_of: u32, start: u64, end: u64, kept: bool) -> Option<()> {
        let file = self.files.get_mut(self.numbers.get(&number_of)?)?;
        let end = end.min(file.facts.len);
        if start >= end {
            return None;
        }
        if kept {
            file.held.insert(start..end);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PartialOrigin, begin, blocks, file, forget, ranges};
    use super::*;
    use crate::transfer::DigestAlgorithm;
    use proptest::prelude::*;

    fn facts(len: u64, modified_ns: i64) -> FileFacts {
        FileFacts { len, modified_ns, changed_ns: 9 }
    }

    fn survey(mut journal: &[u8]) -> BTreeMap<Vec<u8>, Surveyed> {
        let mut survey = Survey::default();
        while let Some((head, rest)) = journal.split_first_chunk::<HEAD_LEN>() {
            let Some(payload) = payload_len(head).and_then(|len| rest.get(..len)) else { break };
            if !survey.record(head, payload) {
                break;
            }
            journal = &rest[payload.len()..];
        }
        survey.files()
    }

    fn written(digests: bool) -> Vec<u8> {
        let digests = digests.then_some(DigestAlgorithm::Blake3);
        let mut journal = Vec::new();
        begin(&PartialOrigin { source: [5; 32], digests }, 1024, &mut journal);
        file(0, &facts(5000, 1), b"d/a", &mut journal);
        file(7, &facts(10, 2), b"b", &mut journal);
        journal
    }

    #[test]
    fn it_tells_every_file_and_what_is_durable_of_it() {
        let mut journal = written(true);
        blocks(0, 1, &[[1; 32], [2; 32]], &mut journal);
        blocks(7, 0, &[[3; 32]], &mut journal);
        let files = survey(&journal);
        assert_eq!(
            (files[&b"d/a"[..]].facts.len, files[&b"d/a"[..]].held.to_string()),
            (5000, "1024-3072".to_owned())
        );
        assert_eq!(files[&b"b"[..]].held.to_string(), "0-10", "the last block ends with the file");
        // Changed at the source, then forgotten.
        file(0, &facts(6000, 1), b"d/a", &mut journal);
        assert_eq!(
            (survey(&journal)[&b"d/a"[..]].facts.len, survey(&journal)[&b"d/a"[..]].held.total()),
            (6000, 0)
        );
        forget(b"d/a", &mut journal);
        assert_eq!(survey(&journal).keys().collect::<Vec<_>>(), [&b"b"[..]]);
        // In blocks of another length the same transfer goes on from all of this.
        begin(
            &PartialOrigin { source: [5; 32], digests: Some(DigestAlgorithm::Blake3) },
            4096,
            &mut journal,
        );
        assert_eq!(survey(&journal)[&b"b"[..]].held.total(), 10);
        // A transfer from elsewhere goes on from nothing.
        begin(
            &PartialOrigin { source: [6; 32], digests: Some(DigestAlgorithm::Blake3) },
            1024,
            &mut journal,
        );
        assert_eq!(survey(&journal)[&b"b"[..]].held.total(), 0);
    }

    #[test]
    fn ranges_count_without_digests_and_damage_ends_the_reading() {
        let mut held = ByteRanges::new();
        held.insert(3..50);
        for (digests, total) in [(false, 47), (true, 0)] {
            let mut journal = written(digests);
            ranges(0, &held, &mut journal);
            assert_eq!(survey(&journal)[&b"d/a"[..]].held.total(), total, "digests {digests}");
        }
        let mut journal = written(false);
        let good = journal.len();
        ranges(0, &held, &mut journal);
        journal[good + HEAD_LEN + 6] ^= 1;
        ranges(7, &held, &mut journal);
        assert!(survey(&journal).values().all(|file| file.held.is_empty()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_surveyed_without_panic(kind in 0u8..7, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let mut journal = written(true);
            let mut payload = vec![kind];
            payload.extend(&bytes);
            super::super::record(&payload, &mut journal);
            for file in survey(&journal).values() {
                prop_assert!(file.held.total() <= file.facts.len);
            }
        }
    }
}
