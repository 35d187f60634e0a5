//! What the sender says of every file of a tree: a byte and a digest each, for there are millions.

use super::{Digest, DigestVerdict};
use crate::transfer::layout::Layout;
use crate::units::{Error, ErrorCode, Fault};

/// Bytes of a CRC-64, which is the shorter digest.
const SHORT: usize = 8;

/// Verdicts on the entries of a layout, by their places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictList {
    /// The first bytes of the wire form.
    statuses: Vec<u8>,
    /// Of each verdict as many bytes as the longest digest has; zeros where it has none.
    digests: Vec<u8>,
    digest_len: usize,
}

impl VerdictList {
    fn with_capacity(entries: usize) -> VerdictList {
        VerdictList {
            statuses: Vec::with_capacity(entries),
            digests: Vec::with_capacity(entries * SHORT),
            digest_len: SHORT,
        }
    }

    /// Reads the list of verdicts on the entries of `layout`, which comes in parts of any length.
    ///
    /// # Errors
    /// When it is malformed, or of another number of entries: the sender's fault.
    pub fn decode_for(
        layout: &Layout,
        parts: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<VerdictList, Error> {
        let entries = layout.entries().len();
        let mut verdicts = VerdictList::with_capacity(entries);
        // What the part before ended with.
        let mut rest = Vec::new();
        let mut is_sound = true;
        let mut take = |wire: &[u8]| match DigestVerdict::decode(wire) {
            Some(verdict) if verdicts.len() < entries => verdicts.push(verdict),
            _ => is_sound = false,
        };
        for part in parts {
            let lacking = match rest.len() {
                0 => 0,
                len => DigestVerdict::WIRE_LEN - len,
            };
            let part = part.as_ref();
            let (end, part) = part.split_at(lacking.min(part.len()));
            rest.extend(end);
            if rest.len() == DigestVerdict::WIRE_LEN {
                take(&rest);
                rest.clear();
            }
            let whole = part.chunks_exact(DigestVerdict::WIRE_LEN);
            rest.extend(whole.remainder());
            whole.for_each(&mut take);
        }
        match is_sound && rest.is_empty() && verdicts.len() == entries {
            true => Ok(verdicts),
            false => Err(Error::new(
                Fault::There,
                ErrorCode::BadDigests,
                "the list of digests does not fit the list of files",
            )),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    /// The verdict on an entry.
    pub fn get(&self, entry: usize) -> Option<DigestVerdict> {
        let mut wire = [0; DigestVerdict::WIRE_LEN];
        wire[0] = *self.statuses.get(entry)?;
        let digest = self.digests.get(entry * self.digest_len..)?.get(..self.digest_len)?;
        wire[1..][..self.digest_len].copy_from_slice(digest);
        DigestVerdict::decode(&wire)
    }

    fn push(&mut self, verdict: DigestVerdict) {
        let wire = verdict.encode();
        let (status, digest) = (wire[0], &wire[1..]);
        if digest[self.digest_len..].iter().any(|&byte| byte != 0) {
            self.lengthen();
        }
        self.statuses.push(status);
        self.digests.extend(&digest[..self.digest_len]);
    }

    /// Makes room for digests of any length.
    fn lengthen(&mut self) {
        let longer = self.digests.chunks_exact(self.digest_len).flat_map(|digest| {
            let mut longer = Digest::default();
            longer[..digest.len()].copy_from_slice(digest);
            longer
        });
        self.digests = longer.collect();
        self.digest_len = size_of::<Digest>();
    }
}

impl FromIterator<DigestVerdict> for VerdictList {
    fn from_iter<I: IntoIterator<Item = DigestVerdict>>(verdicts: I) -> VerdictList {
        let mut list = VerdictList::with_capacity(0);
        verdicts.into_iter().for_each(|verdict| list.push(verdict));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_cross_the_wire() {
        let short = std::array::from_fn(|byte| if byte < SHORT { 7 } else { 0 });
        let verdicts = [
            DigestVerdict::Read(short),
            DigestVerdict::Unreadable,
            DigestVerdict::Part,
            DigestVerdict::Read([9; 32]),
            DigestVerdict::Uncomputed,
        ];
        let wire: Vec<u8> = verdicts.iter().flat_map(|verdict| verdict.encode()).collect();
        let layout = |files: usize| {
            let one = Layout::of_file(1, 1024).entries()[0].clone();
            Layout::new(vec![one; files], 1024)
        };
        for part in 1..=wire.len() {
            let read = VerdictList::decode_for(&layout(5), wire.chunks(part)).expect("sound");
            assert_eq!(read, verdicts.into_iter().collect(), "in parts of {part}");
            let read: Vec<_> = (0..6).filter_map(|entry| read.get(entry)).collect();
            assert_eq!(read, verdicts);
        }
        let odd: Vec<u8> = [7; DigestVerdict::WIRE_LEN].into();
        for (files, wrong) in
            [(4, &wire[..]), (6, &wire), (5, &wire[1..]), (5, &wire[..99]), (1, &odd)]
        {
            let read = VerdictList::decode_for(&layout(files), [wrong]);
            assert_eq!(read.map_err(|error| error.code), Err(ErrorCode::BadDigests), "{files}");
        }
    }

    #[test]
    fn a_verdict_by_crc_takes_nine_bytes() {
        let crc = std::array::from_fn(|byte| if byte < SHORT { 7 } else { 0 });
        let list: VerdictList = std::iter::repeat_n(DigestVerdict::Read(crc), 1_000).collect();
        assert_eq!(list.statuses.len() + list.digests.len(), 9_000);
        assert_eq!((list.len(), list.is_empty()), (1_000, false));
    }
}
