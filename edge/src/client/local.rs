//! Copies within this host: the same tree, staging and landing, without a network.

use super::copy::Copy;
use super::location::last_name;
use crate::mover::BLOCK_LEN;
use crate::stores::{PosixSink, PosixSource, Root, Sink, Source, look, walk};
use farline_core::transfer::{Digests, EntryKind, Layout, PieceDigest, Verdict};
use farline_core::units::{Error, Fault};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a copy lands on this host: a root that exists and a start beneath it.
pub(super) struct Destination {
    pub(super) root: Arc<Root>,
    pub(super) start: Vec<u8>,
}

/// Decides where something called `name` lands: in `to` when that is a folder or is written as one, else under `to`'s own
/// name. `contents` says that a folder's content goes without the folder's name.
pub(super) fn destination(to: &Path, name: &[u8], is_folder: bool, contents: bool, several: bool) -> Result<Destination, Error> {
    let bytes = to.as_os_str().as_bytes();
    if is_folder || several || bytes.ends_with(b"/") || to.is_dir() {
        std::fs::create_dir_all(to).map_err(|error| crate::stores::storage_error("create directory", bytes, &error))?;
        let start = if contents { Vec::new() } else { name.to_vec() };
        return Ok(Destination { root: Arc::new(Root::open(to)?), start });
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Destination { root: Arc::new(Root::open(parent)?), start: last_name(bytes).to_vec() })
}

pub(super) async fn run(copy: &mut Copy<'_>, from: &Path, to: &Path, several: bool) -> Result<(), Error> {
    let bytes = from.as_os_str().as_bytes();
    let meta = std::fs::metadata(from).map_err(|error| crate::stores::storage_error("read", bytes, &error))?;
    if meta.is_dir() && !copy.options.recursive {
        return Err(Error::new(Fault::You, "is-a-directory", format!("{} is a directory", from.display()))
            .hint("add -r to copy it with all that is in it"));
    }
    let real = from.canonicalize().map_err(|error| crate::stores::storage_error("read", bytes, &error))?;
    let name = last_name(bytes).to_vec();
    let (root, start, entries) = if meta.is_dir() {
        let root = Arc::new(Root::open(&real)?);
        let (entries, problems) = walk(&root, b"")?;
        copy.ledger.failures.extend(problems.into_iter().map(|problem| (problem.path, problem.error)));
        (root, Vec::new(), entries)
    } else {
        let root = Arc::new(Root::open(real.parent().unwrap_or(Path::new("/")))?);
        let start = last_name(real.as_os_str().as_bytes()).to_vec();
        let entry = look(&root, &start, b"")?;
        (root, start, vec![entry])
    };
    let contents = bytes.ends_with(b"/") || matches!(&name[..], b"." | b"..");
    let place = destination(to, &name, meta.is_dir(), contents, several)?;
    let landing = to.canonicalize().unwrap_or_else(|_| to.to_owned());
    if meta.is_dir() && landing.starts_with(&real) {
        return Err(Error::new(Fault::You, "into-itself", format!("{} lies inside {}", to.display(), from.display())));
    }
    let layout = Arc::new(Layout::new(entries, BLOCK_LEN));
    let files = layout.entries().iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })).count() as u64;
    copy.live.expect(layout.payload(), files);
    let source = PosixSource::new(root, start, Arc::clone(&layout));
    let sink = PosixSink::new(place.root, place.start, Arc::clone(&layout), true);
    let landed = copy
        .attend(None, move |live| {
            sink.make_folders()?;
            let digests = Mutex::new(Digests::new(&layout));
            let unreadable = Mutex::new(Vec::new());
            let next = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(4)) {
                    scope.spawn(|| {
                        let mut buffer = vec![0; BLOCK_LEN];
                        loop {
                            let index = next.fetch_add(1, Ordering::Relaxed);
                            if index >= layout.block_count() || live.cancel.reason().is_some() {
                                return;
                            }
                            let block = layout.block(index);
                            for piece in layout.pieces(block.offset, block.len) {
                                let bytes = &mut buffer[..piece.len];
                                if let Err(error) = source.read(piece.entry, piece.file_offset, bytes) {
                                    digests.lock().unwrap_or_else(PoisonError::into_inner).fail(piece.entry);
                                    unreadable.lock().unwrap_or_else(PoisonError::into_inner).push((piece.entry, error));
                                    continue;
                                }
                                let digest = PieceDigest::of(&layout, &piece, bytes);
                                digests.lock().unwrap_or_else(PoisonError::into_inner).insert(&digest);
                                if let Err(error) = sink.write(piece.entry, piece.file_offset, bytes) {
                                    live.cancel.cancel(error);
                                    return;
                                }
                            }
                            live.tally.add_bytes(block.len);
                        }
                    });
                }
            });
            if let Some(error) = live.cancel.reason() {
                return Err(error);
            }
            let digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
            let verdicts: Vec<Verdict> = digests.verdicts();
            let mut landed = sink.land(Some((&verdicts, &digests)));
            // The reader's own words say more than the verdict does.
            for (index, error) in unreadable.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let path = &layout.entries()[index].path;
                if let Some(failure) = landed.failures.iter_mut().find(|(failed, _)| failed == path) {
                    failure.1 = error;
                }
            }
            Ok(landed)
        })
        .await?;
    copy.ledger.verified_how = "not verified: a copy within this host is not read back";
    copy.ledger.bytes += landed.bytes;
    copy.ledger.files += landed.files;
    copy.ledger.failures.extend(landed.failures);
    copy.settle();
    Ok(())
}
