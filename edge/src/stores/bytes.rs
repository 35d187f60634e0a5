//! What is no store of its own: a list of bytes that is sent or received, and endless zeros.

use super::{Sink, Source};
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A list of bytes as the one file of a transfer: a manifest, a listing.
#[derive(Debug)]
pub struct BytesSource(pub Vec<u8>);

impl Source for BytesSource {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = self.0.get(from..).and_then(|rest| rest.get(..into.len()));
        let part = part.ok_or_else(|| {
            Error::new(
                Fault::Bug,
                ErrorCode::ReadBeyondEnd,
                "read beyond the end of a list of bytes",
            )
        })?;
        into.copy_from_slice(part);
        Ok(())
    }
}

/// Any number of zeros: what a benchmark sends so that no disk is measured.
#[derive(Debug)]
pub struct ZeroSource;

impl Source for ZeroSource {
    fn read(&self, _entry: usize, _offset: u64, _into: &mut [u8]) -> Result<(), Error> {
        // Slots begin as zeros and this source writes nothing else into them.
        Ok(())
    }
}

/// Bytes of a part of what a [`BytesSink`] collects.
const PART_LEN: usize = 1 << 20;

/// Collects one file of at most `limit` bytes in memory, in parts that can be given back one by
/// one.
#[derive(Debug)]
pub struct BytesSink {
    collected: Mutex<Collected>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Collected {
    /// Each of [`PART_LEN`]; what has not come is zeros.
    parts: Vec<Vec<u8>>,
    len: usize,
}

impl Collected {
    fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        self.len = self.len.max(at + bytes.len());
        let parts = self.len.div_ceil(PART_LEN);
        if self.parts.len() < parts {
            self.parts.resize_with(parts, Vec::new);
        }
        while !bytes.is_empty() {
            let (part, within) = (&mut self.parts[at / PART_LEN], at % PART_LEN);
            let len = bytes.len().min(PART_LEN - within);
            if part.len() < within + len {
                part.resize(within + len, 0);
            }
            part[within..within + len].copy_from_slice(&bytes[..len]);
            (at, bytes) = (at + len, &bytes[len..]);
        }
    }

    fn into_parts(self) -> impl Iterator<Item = Vec<u8>> {
        let mut left = self.len;
        self.parts.into_iter().map(move |mut part| {
            part.resize(left.min(PART_LEN), 0);
            left -= part.len();
            part
        })
    }
}

impl BytesSink {
    /// An empty sink for at most `limit` bytes.
    pub fn new(limit: usize) -> BytesSink {
        BytesSink { collected: Mutex::default(), limit }
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        lock(&self.collected)
    }

    /// How many bytes came, holes counted in.
    pub fn len(&self) -> usize {
        self.collected().len
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What came.
    pub fn into_bytes(self) -> Vec<u8> {
        self.take()
    }

    /// What came, in parts: each goes when it is dropped.
    pub fn into_parts(self) -> impl Iterator<Item = Vec<u8>> {
        self.collected.into_inner().unwrap_or_else(PoisonError::into_inner).into_parts()
    }

    /// Takes what came, leaving nothing.
    pub fn take(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in std::mem::take(&mut *self.collected()).into_parts() {
            match bytes.is_empty() {
                true => bytes = part,
                false => bytes.extend(part),
            }
        }
        bytes
    }
}

impl Sink for BytesSink {
    fn write(&self, _entry: usize, offset: u64, part: &[u8]) -> Result<(), Error> {
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(part.len()));
        let Some(end) = end.filter(|&end| end <= self.limit) else {
            let message = format!("the peer sent a list of more than {} bytes", self.limit);
            return Err(Error::new(Fault::There, ErrorCode::ListTooLong, message)
                .hint("copy the tree in parts"));
        };
        self.collected().write(end - part.len(), part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_any_order_make_the_whole() {
        let bytes: Vec<u8> = (0..3 * PART_LEN + 5).map(|i| (i / 7) as u8).collect();
        let sink = || {
            let sink = BytesSink::new(bytes.len());
            let cuts = [0, PART_LEN - 3, 3 * PART_LEN, bytes.len()];
            for cut in cuts.windows(2).rev() {
                let part = &bytes[cut[0]..cut[1]];
                sink.write(0, cut[0] as u64, part).expect("within the limit");
            }
            sink
        };
        assert_eq!(sink().len(), bytes.len());
        assert!(sink().into_bytes() == bytes);
        assert!(sink().into_parts().collect::<Vec<_>>().concat() == bytes);
        assert!(sink().write(0, bytes.len() as u64, b"x").is_err(), "beyond the limit");
    }

    #[test]
    fn what_did_not_come_is_zeros() {
        let sink = BytesSink::new(4 * PART_LEN);
        sink.write(0, 3 * PART_LEN as u64, b"end").expect("within the limit");
        sink.write(0, 1, b"x").expect("within the limit");
        let bytes = sink.take();
        assert_eq!((bytes.len(), &bytes[..3]), (3 * PART_LEN + 3, &b"\0x\0"[..]));
        assert!(bytes.ends_with(b"\0end"));
        assert_eq!(sink.take(), b"", "it was taken");
    }
}
