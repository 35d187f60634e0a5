//! Standard input and output as a store: one file whose bytes come, and go, in ascending order.

use super::driver::{Access, LandingOptions, Store, StoreCapabilities, StoreDriver, StoreForm};
use super::landing::check_digest;
use super::{Landed, Landing, Sink, storage_error};
use crate::drivers::Values;
use farline_core::transfer::{Digests, Layout, VerdictList};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The driver.
pub(super) fn driver() -> StoreDriver {
    let capabilities = StoreCapabilities {
        source: true,
        sink: true,
        access: Access::Ordered,
        paths: false,
        keeps: false,
        journals: false,
        durable: false,
    };
    let about = "standard input, standard output";
    let open = |_: &Values| Ok(Arc::new(StandardStreams::default()) as Arc<dyn Store>);
    let driver = StoreDriver::new("standard", about, capabilities, open);
    StoreDriver { form: StoreForm::Dash, ..driver }
}

/// Standard input and output.
#[derive(Debug, Default)]
pub(crate) struct StandardStreams {
    /// What stands for them where they are not this process's own.
    pub(super) instead: Option<(File, File)>,
}

impl Store for StandardStreams {
    fn stream(&self) -> Result<File, Error> {
        let input = match &self.instead {
            None => open_stream(&io::stdin()),
            Some((input, _)) => input.as_fd().try_clone_to_owned(),
        };
        own(input, "read", b"standard input")
    }

    fn sink(
        &self,
        _start: &[u8],
        layout: &Arc<Layout>,
        _options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        let output = match &self.instead {
            None => open_stream(&io::stdout()),
            Some((_, output)) => output.as_fd().try_clone_to_owned(),
        };
        let output = own(output, "write", b"standard output")?;
        StreamSink::new(output, layout).map(|sink| Box::new(sink) as Box<dyn Landing>)
    }
}

/// A stream of this process. One that was closed is /dev/null by now, open both ways: Rust's
/// runtime does that, so that no file takes its number. A copy from it would be an empty file, and
/// one to it gone.
fn open_stream(stream: &impl AsFd) -> io::Result<OwnedFd> {
    let is_null = || {
        let (stat, null) = (fstat(stream)?, rustix::fs::stat("/dev/null")?);
        let is_both = fcntl_getfl(stream)?.contains(OFlags::RDWR);
        Ok::<_, Errno>(is_both && (stat.st_mode, stat.st_rdev) == (null.st_mode, null.st_rdev))
    };
    match is_null() {
        Ok(true) => Err(Errno::BADF.into()),
        _ => stream.as_fd().try_clone_to_owned(),
    }
}

fn own(stream: io::Result<OwnedFd>, doing: &str, name: &[u8]) -> Result<File, Error> {
    stream.map(File::from).map_err(|error| {
        let said = storage_error(doing, name, &error);
        match error.raw_os_error() {
            Some(libc::EBADF) => said.hint("it is closed; to throw data away: null:"),
            _ => said,
        }
    })
}

/// Standard output, not buffered here: the staging pool is buffer enough.
#[derive(Debug)]
pub(super) struct StreamSink {
    file: File,
    /// Where the next part begins.
    next: AtomicU64,
}

impl StreamSink {
    /// Takes the one file of `layout`.
    ///
    /// # Errors
    /// When it has more.
    pub(super) fn new(file: File, layout: &Layout) -> Result<StreamSink, Error> {
        match layout.entries().len() {
            1 => Ok(StreamSink { file, next: AtomicU64::new(0) }),
            _ => Err(one_file()),
        }
    }
}

/// What is no single file has no place in a stream.
pub(crate) fn one_file() -> Error {
    let message = "one file goes to standard output, no folder and no list of files";
    Error::new(Fault::You, ErrorCode::OneFile, message)
}

fn failed(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::new(
            Fault::Here,
            ErrorCode::OutputClosed,
            "who read standard output went away before the end of the file",
        ),
        _ => storage_error("write", b"standard output", error),
    }
}

impl Sink for StreamSink {
    fn write(&self, _entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.next.swap(offset + bytes.len() as u64, Ordering::AcqRel) != offset {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::OutOfOrder,
                "bytes for standard output came out of order",
            ));
        }
        (&self.file).write_all(bytes).map_err(|error| failed(&error))
    }

    fn wants_order(&self) -> bool {
        true
    }
}

impl Landing for StreamSink {
    /// It has nothing at its place that could stay.
    fn leave(&self, _entries: &BTreeSet<usize>) {}

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let bytes = self.next.load(Ordering::Acquire);
        match check_digest(0, check) {
            Ok(()) => Landed { files: 1, bytes, ..Landed::default() },
            Err(error) => Landed { failures: vec![(b"-".to_vec(), error)], ..Landed::default() },
        }
    }
}
