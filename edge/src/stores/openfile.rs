//! An open file as transfers read and write it: past the page cache where that was asked for, and
//! without its holes.

use super::ZEROS;
use super::file_limit::FilePlace;
use crate::sys::lock::lock;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, open, seek};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};

/// What direct I/O asks of addresses, offsets and lengths: a page covers every disk of today.
const ALIGNMENT: usize = 4096;
/// A run of zeros from this length on becomes a hole: the least that is worth a call of its own.
const HOLE: usize = ZEROS.len();

/// The wish for direct I/O (`O_DIRECT`), and why it was not granted.
#[derive(Clone, Debug, Default)]
pub struct DirectIo(Option<Arc<Mutex<Option<io::ErrorKind>>>>);

impl DirectIo {
    /// Asks for it.
    pub fn wanted() -> DirectIo {
        DirectIo(Some(Arc::default()))
    }

    /// Whether it was asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// What a file system said that refused it, if one did: its files went through the page cache.
    pub fn refusal(&self) -> Option<io::ErrorKind> {
        *self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, file: &File, access: OFlags) -> Option<File> {
        let refused = self.0.as_ref()?;
        // A second description of the same file: the unaligned rest goes the ordinary way.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match open(path, access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()) {
            Ok(direct) => Some(direct.into()),
            Err(errno) => {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(io::Error::from(errno).kind());
                None
            }
        }
    }
}

/// A file, and the same again for direct I/O.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    direct: Option<File>,
    /// Who writes through the page cache. The kernel lets one at a time do so to a file; others
    /// would spin for it.
    turn: Mutex<()>,
    /// Whether less is allocated than the file is long.
    has_holes: bool,
    /// Given back when the file is closed: it is the last here.
    place: Option<FilePlace>,
}

impl OpenFile {
    /// Of a file that `is_short` nobody asks where its holes are: it is read at once.
    pub(super) fn to_read(file: File, direct: &DirectIo, is_short: bool) -> OpenFile {
        let has_holes = !is_short
            && file.metadata().is_ok_and(|meta| meta.blocks().saturating_mul(512) < meta.len());
        OpenFile {
            direct: direct.open(&file, OFlags::RDONLY),
            turn: Mutex::default(),
            has_holes,
            file,
            place: None,
        }
    }

    pub(super) fn to_write(file: File, direct: &DirectIo) -> OpenFile {
        OpenFile {
            direct: direct.open(&file, OFlags::WRONLY),
            turn: Mutex::default(),
            has_holes: false,
            file,
            place: None,
        }
    }

    /// The same file, for which this place was taken, if there was one.
    pub(super) fn at_place(self, place: Option<FilePlace>) -> OpenFile {
        OpenFile { place, ..self }
    }

    /// Whether a place was taken for it.
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// Fills `into` from `offset`; what lies in a hole is not read.
    pub(super) fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        if self.has_holes {
            match seek(&self.file, SeekFrom::Data(offset)) {
                // No data until the end: as long as the end is not before that of the part.
                Err(rustix::io::Errno::NXIO)
                    if self.file.metadata()?.len() >= offset + into.len() as u64 =>
                {
                    into.fill(0);
                    return Ok(());
                }
                Ok(data) if data >= offset + into.len() as u64 => {
                    into.fill(0);
                    return Ok(());
                }
                _ => {}
            }
        }
        let aligned = aligned(into, offset);
        let mut done = 0;
        if let Some(direct) = self.direct.as_ref().filter(|_| aligned > 0) {
            match direct.read_exact_at(&mut into[..aligned], offset) {
                Ok(()) => done = aligned,
                // Some file systems refuse the reading rather than the opening.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
        self.file.read_exact_at(&mut into[done..], offset + done as u64)
    }

    /// Puts `bytes` at `offset`.
    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let aligned = aligned(bytes, offset);
        let mut done = 0;
        if let Some(direct) = self.direct.as_ref().filter(|_| aligned > 0) {
            match direct.write_all_at(&bytes[..aligned], offset) {
                Ok(()) => done = aligned,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
        if done == bytes.len() {
            return Ok(());
        }
        let _turn = lock(&self.turn);
        self.file.write_all_at(&bytes[done..], offset + done as u64)
    }

    /// Puts so many zeros at `offset`, within the file's length: as a hole where the file system
    /// makes them.
    pub(super) fn write_hole_at(&self, len: u64, offset: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, len) {
            Ok(()) => Ok(()),
            // Some do not; whatever else is wrong, writing says too.
            Err(_) => self.write_zeros_at(len, offset),
        }
    }

    /// Puts so many zeros at `offset`.
    pub(super) fn write_zeros_at(&self, len: u64, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(ZEROS.len() as u64);
            self.write_all_at(&ZEROS[..part as usize], offset + done)?;
            done += part;
        }
        Ok(())
    }

    /// [`Self::write_all_at`] where nothing but zeros is now, within the file's length: long runs
    /// of zeros are left as the hole that they are.
    pub(super) fn write_around_zeros(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        data_runs(bytes)
            .try_for_each(|run| self.write_all_at(&bytes[run.clone()], offset + run.start as u64))
    }
}

/// How many of the first bytes direct I/O takes.
fn aligned(bytes: &[u8], offset: u64) -> usize {
    let fits =
        bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) && offset.is_multiple_of(ALIGNMENT as u64);
    if fits { bytes.len() - bytes.len() % ALIGNMENT } else { 0 }
}

/// The runs of `bytes` between stretches of [`HOLE`] zeros, on multiples of it.
fn data_runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let is_zero = |at: usize| {
            let part = &bytes[at..(at + HOLE).min(bytes.len())];
            part.first() == Some(&0) && *part == ZEROS[..part.len()]
        };
        while at < bytes.len() && is_zero(at) {
            at += HOLE;
        }
        let start = at;
        while at < bytes.len() && !is_zero(at) {
            at += HOLE;
        }
        (start < bytes.len()).then(|| start..at.min(bytes.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pool::pool;

    #[test]
    fn only_long_aligned_runs_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5 * HOLE + 10];
        assert_eq!(data_runs(&bytes).count(), 0);
        bytes[HOLE + 7] = 1;
        bytes[2 * HOLE] = 1;
        bytes[5 * HOLE + 9] = 1;
        let runs: Vec<_> = data_runs(&bytes).collect();
        assert_eq!(runs, [HOLE..3 * HOLE, 5 * HOLE..5 * HOLE + 10]);
        assert!(data_runs(&[1; 5]).eq(std::iter::once(0..5)));
        assert_eq!(data_runs(&[]).count(), 0);
    }

    #[test]
    fn zeros_are_put_over_what_was_there_and_nothing_else() {
        for direct in [DirectIo::default(), DirectIo::wanted()] {
            for (from, len) in [(0, 1 << 20), (4096, 300_000), (5, 7), (1 << 19, 1 << 19)] {
                for as_hole in [true, false] {
                    let file = tempfile::tempfile().expect("a file");
                    file.write_all_at(&vec![7; 1 << 20], 0).expect("written");
                    let open = OpenFile::to_write(file, &direct);
                    match as_hole {
                        true => open.write_hole_at(len, from),
                        false => open.write_zeros_at(len, from),
                    }
                    .expect("written");
                    let mut expected = vec![7; 1 << 20];
                    expected[from as usize..][..len as usize].fill(0);
                    let mut found = vec![1; 1 << 20];
                    open.file.read_exact_at(&mut found, 0).expect("as long as before");
                    assert!(found == expected, "{len} zeros at {from}");
                    assert_eq!(open.file.metadata().expect("known").len(), 1 << 20);
                }
            }
        }
    }

    #[test]
    fn a_file_with_holes_reads_as_it_is_directly_or_not() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len((3 << 20) + 5).expect("long");
        file.write_all_at(&[7; 5000], 1 << 20).expect("written");
        let mut expected = vec![0; (3 << 20) + 5];
        expected[1 << 20..(1 << 20) + 5000].fill(7);
        for direct in [DirectIo::default(), DirectIo::wanted()] {
            let open = OpenFile::to_read(file.try_clone().expect("again"), &direct, false);
            let mut slot = pool(1, 4 << 20).expect("memory").remove(0);
            slot.fill(9);
            for at in (0..expected.len()).step_by(1 << 20) {
                let end = (at + (1 << 20)).min(expected.len());
                open.read_exact_at(&mut slot[at..end], at as u64).expect("read");
            }
            assert!(slot[..expected.len()] == expected[..]);
            let beyond = open
                .read_exact_at(&mut slot[..100], (3 << 20) - 10)
                .expect_err("it ends before that");
            assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
