//! What the sender says of every file of a tree: a byte and a digest each, for there are millions.

use super::{Digest, DigestVerdict};
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
    /// How far the wire form has come.
    end: usize,
}

impl VerdictList {
    /// A list of so many verdicts, of which none has come.
    pub fn awaited(entries: usize) -> VerdictList {
        VerdictList {
            statuses: vec![0; entries],
            digests: vec![0; entries * SHORT],
            digest_len: SHORT,
            end: 0,
        }
    }

    /// Bytes of its wire form.
    pub fn wire_len(&self) -> usize {
        self.len() * DigestVerdict::WIRE_LEN
    }

    /// Takes in a part of the wire form, from its byte `offset` on, in any order: what has 33 bytes
    /// there has 9 here.
    ///
    /// # Errors
    /// When it goes beyond the last entry: the sender's fault.
    pub fn take(&mut self, offset: u64, mut part: &[u8]) -> Result<(), Error> {
        let at = usize::try_from(offset).ok();
        let end = at.and_then(|at| at.checked_add(part.len()));
        let (Some(mut at), Some(end)) = (at, end.filter(|&end| end <= self.wire_len())) else {
            return Err(unfit());
        };
        self.end = self.end.max(end);
        while !part.is_empty() {
            let (entry, within) = (at / DigestVerdict::WIRE_LEN, at % DigestVerdict::WIRE_LEN);
            let (of_entry, rest) = part.split_at(part.len().min(DigestVerdict::WIRE_LEN - within));
            self.put(entry, within, of_entry);
            (at, part) = (at + of_entry.len(), rest);
        }
        Ok(())
    }

    /// Puts bytes of one verdict in their place.
    fn put(&mut self, entry: usize, within: usize, wire: &[u8]) {
        let (digest, from) = match (within, wire.split_first()) {
            (0, Some((&status, digest))) => {
                self.statuses[entry] = status;
                (digest, 0)
            }
            _ => (wire, within.saturating_sub(1)),
        };
        let kept = self.digest_len.saturating_sub(from).min(digest.len());
        if digest[kept..].iter().any(|&byte| byte != 0) {
            self.lengthen();
            return self.put(entry, within, wire);
        }
        let to = entry * self.digest_len + from;
        if kept > 0 {
            self.digests[to..to + kept].copy_from_slice(&digest[..kept]);
        }
    }

    /// The list, which has come to its end.
    ///
    /// # Errors
    /// When it is malformed, or has fewer verdicts than there are entries: the sender's fault.
    pub fn finish(self) -> Result<VerdictList, Error> {
        let is_sound = |status: &u8| DigestVerdict::is_status(*status);
        match self.end == self.wire_len() && self.statuses.iter().all(is_sound) {
            true => Ok(self),
            false => Err(unfit()),
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
        let wire: Vec<_> = verdicts.into_iter().map(DigestVerdict::encode).collect();
        let mut list = VerdictList::awaited(wire.len());
        list.end = list.wire_len();
        wire.iter().enumerate().for_each(|(entry, verdict)| list.put(entry, 0, verdict));
        list
    }
}

fn unfit() -> Error {
    let message = "the list of digests does not fit the list of files";
    Error::new(Fault::There, ErrorCode::BadDigests, message)
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
        let read_in = |entries: usize, parts: &[(usize, &[u8])]| {
            let mut list = VerdictList::awaited(entries);
            parts.iter().try_for_each(|&(at, part)| list.take(at as u64, part))?;
            list.finish()
        };
        for len in 1..=wire.len() {
            let mut parts: Vec<(usize, &[u8])> =
                wire.chunks(len).enumerate().map(|(part, bytes)| (part * len, bytes)).collect();
            for _ in 0..2 {
                let read = read_in(5, &parts).expect("sound");
                assert_eq!(read, verdicts.into_iter().collect(), "in parts of {len}");
                let read: Vec<_> = (0..6).filter_map(|entry| read.get(entry)).collect();
                assert_eq!(read, verdicts);
                parts.reverse();
            }
        }
        let odd = [7; DigestVerdict::WIRE_LEN];
        for (entries, at, wrong) in
            [(4, 0, &wire[..]), (6, 0, &wire), (5, 1, &wire), (5, 0, &wire[..99]), (1, 0, &odd)]
        {
            let read = read_in(entries, &[(at, wrong)]).map_err(|error| error.code);
            assert_eq!(read, Err(ErrorCode::BadDigests), "{entries}");
        }
        assert!(VerdictList::awaited(1).take(u64::MAX, &wire).is_err());
    }

    #[test]
    fn a_verdict_by_crc_takes_nine_bytes() {
        let crc = std::array::from_fn(|byte| if byte < SHORT { 7 } else { 0 });
        let list: VerdictList = std::iter::repeat_n(DigestVerdict::Read(crc), 1_000).collect();
        assert_eq!(list.statuses.len() + list.digests.len(), 9_000);
        assert_eq!((list.len(), list.is_empty()), (1_000, false));
    }
}
