//! What is no store of its own: a list of bytes that is sent or received, and endless zeros.

use super::{Sink, Source};
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::{Mutex, PoisonError};

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

/// Collects one file of at most `limit` bytes in memory.
#[derive(Debug)]
pub struct BytesSink {
    bytes: Mutex<Vec<u8>>,
    limit: usize,
}

impl BytesSink {
    /// An empty sink for at most `limit` bytes.
    pub fn new(limit: usize) -> BytesSink {
        BytesSink { bytes: Mutex::new(Vec::new()), limit }
    }

    /// What came.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what came, leaving nothing.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
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
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - part.len()..end].copy_from_slice(part);
        Ok(())
    }
}
