//! The lists that go before and behind a tree's data, written while they are sent: that of a
//! million files has a hundred megabytes, which neither end holds as text.

use super::{Audit, BLOCK_LEN};
use crate::stores::{BytesSink, BytesSource, Sink, Source};
use crate::sys::lock::lock;
use farline_core::transfer::{
    DigestVerdict, Entry, Layout, ManifestIndex, ManifestParser, VerdictList,
};
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest manifest that either end takes: some million entries.
pub(crate) const MANIFEST_LIMIT: usize = 256 << 20;
/// The shortest block of a list: a new connection sends less than this in its first round trip.
const LIST_BLOCK_LEN: usize = 64 << 10;

/// How a list of `len` bytes is cut to be sent over so many channels: each carries a part of it,
/// for over a long path the window of one takes round trips to grow to a list of thousands of
/// files.
pub(crate) fn list_layout(len: usize, channels: usize) -> Arc<Layout> {
    let part = len.div_ceil(channels.max(1)).next_power_of_two();
    Arc::new(Layout::of_file(len as u64, part.clamp(LIST_BLOCK_LEN, BLOCK_LEN)))
}

/// A list that is sent as a transfer of its own.
pub(crate) trait List: Source {
    /// Bytes of it.
    fn len(&self) -> usize;
}

impl List for BytesSource {
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The manifest of a layout.
pub(crate) struct ManifestSource {
    layout: Arc<Layout>,
    index: ManifestIndex,
}

impl ManifestSource {
    pub(crate) fn of(layout: &Arc<Layout>) -> ManifestSource {
        ManifestSource { layout: Arc::clone(layout), index: ManifestIndex::of(layout.entries()) }
    }
}

impl List for ManifestSource {
    fn len(&self) -> usize {
        self.index.text_len() as usize
    }
}

impl Source for ManifestSource {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        match self.index.write(self.layout.entries(), offset, into) {
            true => Ok(()),
            false => Err(beyond_end()),
        }
    }
}

/// What a sender says of each file when all that was lacking has gone.
pub(crate) struct VerdictSource<'a> {
    audit: &'a Audit,
    entries: usize,
}

impl VerdictSource<'_> {
    pub(crate) fn of<'a>(audit: &'a Audit, layout: &Layout) -> VerdictSource<'a> {
        VerdictSource { audit, entries: layout.entries().len() }
    }
}

impl List for VerdictSource<'_> {
    fn len(&self) -> usize {
        self.entries * DigestVerdict::WIRE_LEN
    }
}

impl Source for VerdictSource<'_> {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset.saturating_add(into.len()) > self.len() {
            return Err(beyond_end());
        }
        let (first, mut skipped) =
            (offset / DigestVerdict::WIRE_LEN, offset % DigestVerdict::WIRE_LEN);
        let digests = lock(&self.audit.digests);
        let mut left = into;
        for entry in first..self.entries {
            let wire = digests.verdict(entry).encode();
            let len = (wire.len() - skipped).min(left.len());
            let (part, rest) = left.split_at_mut(len);
            part.copy_from_slice(&wire[skipped..skipped + len]);
            (left, skipped) = (rest, 0);
            if left.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Takes in what a sender says of each file, which is a third as long when it is read.
pub(crate) struct VerdictSink(Mutex<VerdictList>);

impl VerdictSink {
    pub(crate) fn new(layout: &Layout) -> VerdictSink {
        VerdictSink(Mutex::new(VerdictList::awaited(layout.entries().len())))
    }

    /// Bytes of the list.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).wire_len()
    }

    /// What came.
    ///
    /// # Errors
    /// As [`VerdictList::finish`].
    pub(crate) fn finish(self) -> Result<VerdictList, Error> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

impl Sink for VerdictSink {
    fn write(&self, _entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        lock(&self.0).take(offset, bytes)
    }
}

/// The entries of the manifest that came, whose text goes as they are read.
///
/// # Errors
/// Which line makes no sense: the peer's fault.
pub(crate) fn entries_of(text: BytesSink) -> Result<Vec<Entry>, Error> {
    let mut parser = ManifestParser::default();
    let entries = text.into_parts().try_for_each(|part| parser.push(&part));
    entries
        .and_then(|()| parser.finish())
        .map_err(|error| Error::new(Fault::There, ErrorCode::BadManifest, error.to_string()))
}

fn beyond_end() -> Error {
    Error::new(Fault::Bug, ErrorCode::ReadBeyondEnd, "read beyond the end of a list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::transfer::{Digests, EntryKind};

    #[test]
    fn verdicts_are_the_same_in_parts_and_whole() {
        let file = |index: usize| Entry {
            path: index.to_string().into_bytes(),
            kind: EntryKind::File { len: index as u64 % 3 },
            mode: 0o644,
            modified_ns: 0,
            changed_ns: 0,
            attributes: None,
        };
        let layout = Layout::new((0..100).map(file).collect(), 1024);
        let audit = Audit::resumed(Digests::new(&layout, Some(super::super::LOCAL_DIGESTS)));
        audit.cannot_read(7, beyond_end());
        let whole: Vec<u8> = audit.finish().0.into_iter().flat_map(DigestVerdict::encode).collect();
        let source = VerdictSource::of(&audit, &layout);
        assert_eq!(source.len(), whole.len());
        for (from, len) in [(0, 3_300), (1, 3_299), (32, 2), (33, 33), (3_299, 1), (50, 0)] {
            let mut part = vec![0; len];
            source.read(0, from as u64, &mut part).expect("within the list");
            assert_eq!(part, whole[from..from + len], "{len} bytes from {from}");
        }
        assert!(source.read(0, 3_299, &mut [0; 2]).is_err());
    }
}
