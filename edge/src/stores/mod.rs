//! Store drivers: where bytes rest. A [`Source`] is read, a [`Sink`] is written, both by entry and
//! offset, from many threads.
//!
//! What a store can is data ([`StoreDriver`]), and the stores that there are are a value
//! ([`StoreRegistry`]); a program adds its own. One suite, `conformance`, runs over each.

mod address;
mod attributes;
mod backup;
mod bytes;
mod checksum;
mod driver;
mod file_limit;
mod file_system;
mod files;
mod hidden;
mod landing;
mod leftover;
mod listed;
mod memory;
mod new_name;
mod not_kept;
mod null;
mod openfile;
mod partial;
mod posix;
mod prefetch;
mod receipts;
mod registry;
mod root;
mod slow;
mod standard;
mod tree_receipt;
mod unnamed;
mod walk;

pub(crate) use crate::sys::words::plain;
pub use address::StoreAddress;
pub use attributes::NotSet;
pub(crate) use attributes::{gather, gather_metered};
pub use backup::BackupPlace;
pub use bytes::{BytesSink, BytesSource, ZeroSource};
pub(crate) use checksum::ChecksumAlgorithm;
pub use driver::{
    Access, LandingOptions, Listing, Store, StoreCapabilities, StoreDriver, StoreForm,
};
pub(crate) use file_limit::{FileLimit, FilePlace};
pub use files::PosixStore;
pub(crate) use hidden::is_hidden;
pub(crate) use landing::name_of_another;
pub use landing::{Landed, PosixSink};
pub(crate) use leftover::lock_if_free;
pub use leftover::{Leftover, Leftovers, Removal};
pub use listed::Part;
pub(crate) use listed::place_in;
pub use memory::MemorySource;
pub(crate) use new_name::rename_new;
pub(crate) use not_kept::LinkedFiles;
pub use not_kept::NotKept;
pub use openfile::DirectIo;
pub use partial::ResumeState;
pub(crate) use partial::{has_journal, journal_path};
pub use posix::PosixSource;
pub(crate) use prefetch::{Prefetch, UntilDropped};
pub(crate) use receipts::{Parcel, Receipts, receipts_folder, temporary_beside};
pub use receipts::{Receipt, receipts_in, state_folder};
pub use registry::StoreRegistry;
pub use root::Root;
pub(crate) use slow::SlowSink;
pub use slow::SlowSource;
pub(crate) use standard::{StandardStreams, one_file};
pub use tree_receipt::LandedTree;
pub(crate) use tree_receipt::TreeReceipt;
pub(crate) use unnamed::UnnamedFile;
pub use walk::{WalkProblem, walk};
pub(crate) use walk::{
    Walked, folders_above, is_special, join, stat, stat_entry, times, walk_linked, walk_metered,
};

use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{Digests, PieceDigest, VerdictList};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault, Setting};
use std::collections::BTreeSet;
use std::fmt;
use std::io;

/// Zeros to be written, summed or compared with.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What is sent.
pub trait Source: Send + Sync {
    /// Fills `into` with the bytes of `entry` from `offset`.
    ///
    /// # Errors
    /// When they cannot be read, or the file is shorter than it was when the transfer was planned.
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error>;
}

/// What is received.
pub trait Sink: Send + Sync {
    /// Puts `bytes` at `offset` of `entry`. Parts come in any order and never overlap.
    ///
    /// # Errors
    /// When they cannot be written: no space, no permission.
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Puts so many zeros at `offset` of `entry`, as [`Self::write`] puts bytes, which is how it is
    /// done where a sink knows no shorter way.
    ///
    /// # Errors
    /// As of [`Self::write`].
    fn write_zeros(&self, entry: usize, offset: u64, len: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(ZEROS.len() as u64);
            self.write(entry, offset.saturating_add(done), &ZEROS[..part as usize])?;
            done += part;
        }
        Ok(())
    }

    /// Whether parts must come in ascending order, one at a time.
    fn wants_order(&self) -> bool {
        false
    }

    /// Whether it keeps a journal of what is durable.
    fn journals(&self) -> bool {
        false
    }

    /// What would survive a crash, of the layout's space.
    fn durable(&self) -> ByteRanges {
        ByteRanges::new()
    }

    /// Files that have their final names by now, where they land one by one.
    fn landed(&self) -> Option<u64> {
        None
    }

    /// Notes the values of all pieces of a block, in their order, which arrived as it was sent and
    /// will be written, for the journal.
    fn record(&self, _block: &[PieceDigest]) {}

    /// Makes durable what was written, and journals it. What cannot be is sent again after a crash:
    /// no error.
    fn checkpoint(&self) {}
}

/// Fills its second argument with what lies at its first.
pub type ReadBack = Box<dyn Fn(u64, &mut [u8]) -> Result<(), Error> + Send>;

/// A sink in which the files of a layout land, whatever kind of store it is.
pub trait Landing: Sink + fmt::Debug {
    /// Makes room for `entry` now, so that what stands in its way is known before data moves.
    ///
    /// # Errors
    /// When it cannot be made.
    fn open(&self, _entry: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the tree's folders, so that writing finds them.
    ///
    /// # Errors
    /// When one cannot be made.
    fn make_folders(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Folders of the tree that cannot be made or used, by their paths, of which making them has
    /// said nothing; landing names them, with all that was to be in them.
    fn refused_folders(&self) -> Vec<(Vec<u8>, Error)> {
        Vec::new()
    }

    /// Claims the destination for a transfer from `origin`, and finds what is held there of it;
    /// nothing where nothing can be kept.
    ///
    /// # Errors
    /// When another transfer writes there (`busy`).
    fn begin(&self, _origin: PartialOrigin) -> Result<Option<ResumeState>, Error> {
        Ok(None)
    }

    /// The transfer was refused for what it is: nothing of it is kept.
    fn refuse(&self) {}

    /// Nothing comes of these entries, and what does is dropped: what is at their places stays.
    fn leave(&self, entries: &BTreeSet<usize>);

    /// Reads back what was written of `entry` before it has landed, as a function of offset and
    /// room; `None` where nothing is kept.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn read_back(&self, _entry: usize) -> Result<Option<ReadBack>, Error> {
        Ok(None)
    }

    /// Lands every file whose digest is what the sender says (`verdicts`, by entry), or every file
    /// when there are none.
    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed;
}

impl Landing for PosixSink {
    fn open(&self, entry: usize) -> Result<(), Error> {
        PosixSink::open(self, entry)
    }

    fn make_folders(&self) -> Result<(), Error> {
        PosixSink::make_folders(self)
    }

    fn refused_folders(&self) -> Vec<(Vec<u8>, Error)> {
        PosixSink::refused_folders(self)
    }

    fn begin(&self, origin: PartialOrigin) -> Result<Option<ResumeState>, Error> {
        PosixSink::begin(self, origin).map(Some)
    }

    fn refuse(&self) {
        PosixSink::refuse(self);
    }

    fn leave(&self, entries: &BTreeSet<usize>) {
        PosixSink::leave(self, entries);
    }

    fn read_back(&self, entry: usize) -> Result<Option<ReadBack>, Error> {
        PosixSink::read_back(self, entry).map(Some)
    }

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        PosixSink::land(self, check)
    }
}

/// The error of a store that a node's operator does not let clients use.
pub(crate) fn not_allowed(message: String) -> Error {
    Error::new(Fault::Refused, ErrorCode::StoreNotAllowed, message).hint(format!(
        "the node's operator can allow it: {} and {}",
        Setting::AllowNull,
        Setting::AllowMemory
    ))
}

/// An error of this host's storage, with the path and what to do about the common ones.
pub(crate) fn storage_error(doing: &str, path: &[u8], error: &io::Error) -> Error {
    let message = format!("{doing} {}: {}", in_short(path), plain(error));
    let said = match error.kind() {
        io::ErrorKind::NotFound => Error::new(Fault::You, ErrorCode::PathNotFound, message),
        io::ErrorKind::AlreadyExists => Error::new(Fault::You, ErrorCode::PathExists, message),
        io::ErrorKind::IsADirectory => Error::new(Fault::You, ErrorCode::IsADirectory, message),
        io::ErrorKind::NotADirectory => Error::new(Fault::You, ErrorCode::NotADirectory, message),
        io::ErrorKind::DirectoryNotEmpty => {
            Error::new(Fault::You, ErrorCode::DirectoryNotEmpty, message)
        }
        io::ErrorKind::InvalidFilename => {
            let message = format!("{doing} {}: {}", in_short(path), too_long(path));
            Error::new(Fault::You, ErrorCode::InvalidName, message)
                .hint("give it a shorter name, or a place with a shorter path")
        }
        io::ErrorKind::InvalidInput => Error::new(Fault::You, ErrorCode::InvalidName, message),
        io::ErrorKind::PermissionDenied => {
            Error::new(Fault::Here, ErrorCode::PermissionDenied, message)
                .hint("check the permissions of the file and of every folder above it")
        }
        io::ErrorKind::StorageFull => Error::new(Fault::Here, ErrorCode::NoSpace, message)
            .hint("free space at the destination and run the same command again"),
        io::ErrorKind::QuotaExceeded => Error::new(Fault::Here, ErrorCode::QuotaExceeded, message),
        io::ErrorKind::ReadOnlyFilesystem => Error::new(Fault::Here, ErrorCode::ReadOnly, message),
        _ => Error::new(Fault::Here, ErrorCode::Storage, message),
    };
    match error.raw_os_error() {
        Some(number) => said.caused_by(io::Error::from_raw_os_error(number)),
        None => said,
    }
}

/// Bytes of a name on every usual file system (NAME_MAX).
const NAME_MAX: usize = 255;
/// Bytes of a path that Linux takes in one call (PATH_MAX, without the byte at its end).
const PATH_MAX: usize = 4095;

/// Which part of `path`, that the system found too long, is, and what the limit is.
fn too_long(path: &[u8]) -> String {
    match path.split(|&byte| byte == b'/').map(<[u8]>::len).find(|&len| len > NAME_MAX) {
        Some(len) => format!("a name in it has {len} bytes, and {NAME_MAX} is the most"),
        None if path.len() > PATH_MAX => {
            format!("the path has {} bytes, and {PATH_MAX} is the most", path.len())
        }
        None => "too long for that file system".to_owned(),
    }
}

/// `path` for people, who need no more than the two ends of a long one.
pub(crate) fn in_short(path: &[u8]) -> String {
    farline_core::units::in_short(&String::from_utf8_lossy(path))
}

#[cfg(test)]
mod conformance;

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn what_is_too_long_is_said_with_its_length_and_limit() {
        let too_long = io::Error::from_raw_os_error(rustix::io::Errno::NAMETOOLONG.raw_os_error());
        let deep = [b"x".repeat(200), b"/".to_vec()].concat().repeat(22);
        let name = [b"dst/", &b"n".repeat(300)[..]].concat();
        for (path, says) in [
            (&deep[..], "the path has 4422 bytes, and 4095 is the most"),
            (&name, "a name in it has 300 bytes, and 255 is the most"),
        ] {
            let error = storage_error("write", path, &too_long);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::InvalidName));
            assert!(error.message.contains(says), "{error}");
            assert!(error.message.len() < 400, "{error}");
        }
    }

    #[test]
    fn a_storage_error_carries_the_systems() {
        let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let error = storage_error("writing", b"a", &full);
        assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::NoSpace));
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), full.raw_os_error());
        let own = storage_error("writing", b"a", &io::Error::other("no more"));
        assert!(own.source().is_none());
    }
}
