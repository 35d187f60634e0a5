//! What stock servers said that they stored of our files: journals that are kept here, because such
//! a server keeps none.
//!
//! `docs/protocol.md`, clauses G-1 to G-4. A journal is of one target at one server; its records
//! are those of every other journal ([`farline_core::transfer::journal`]), its one file is the
//! temporary name at the server, and its ranges are the server's 111 markers.

use super::hidden::{PARTIAL_TAIL, hidden, recognise};
use super::partial::lock_journal;
use super::storage_error;
use farline_core::transfer::journal::{self, FileFacts, HEAD_LEN, PartialOrigin, Survey, Surveyed};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

/// What ends the names of these journals.
const TAIL: &str = ".receipts.farline";
/// Records name blocks of this length; these journals hold ranges only.
const BLOCK_LEN: usize = 1 << 20;

/// One file on its way to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel<'a> {
    /// The server: scheme, user, host and port as in a URL, without a password.
    pub(crate) server: &'a str,
    /// The path there that it is to have.
    pub(crate) target: &'a [u8],
    /// The source's identity and the file's facts.
    pub(crate) source: [u8; 32],
    pub(crate) facts: FileFacts,
}

/// The locked journal of a parcel.
#[derive(Debug)]
pub(crate) struct Receipts {
    file: File,
    path: PathBuf,
    temporary: Vec<u8>,
    len: u64,
    held: ByteRanges,
    /// Where the next record goes; `None` when one could not be written: what the others said stays
    /// true.
    end: Option<u64>,
}

/// A journal as `farline partials` finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The journal.
    pub journal: PathBuf,
    /// The partial file: `ftp://host:port/path`, its path as it is at the server.
    pub partial: Vec<u8>,
    /// What the server said that it stored.
    pub stored: u64,
    /// Bytes of the whole file.
    pub total: u64,
    /// When the journal was last written.
    pub changed: std::time::SystemTime,
    /// Whether a running copy holds it; `None` when this cannot be told.
    pub running: Option<bool>,
}

/// Where these journals lie; `None` when the user has no state directory.
pub(crate) fn receipts_folder() -> Option<PathBuf> {
    Some(state_folder()?.join("receipts"))
}

/// Farline's part of the user's state directory, as XDG has it; `None` when there is none.
pub fn state_folder() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("farline"))
}

/// A name for a partial file next to `target` that no other transfer has: whoever still writes
/// under another one disturbs nobody.
///
/// # Errors
/// When the kernel gives no random bytes.
pub(crate) fn temporary_beside(target: &[u8]) -> Result<Vec<u8>, Error> {
    let mut tag = [0; 6];
    let failed = |errno: rustix::io::Errno| {
        Error::new(Fault::Here, ErrorCode::NoRandomness, io::Error::from(errno).to_string())
    };
    getrandom(&mut tag, GetRandomFlags::empty()).map_err(failed)?;
    let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = target.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    Ok([&target[..name], &hidden(&target[name..], &format!(".{tag}{PARTIAL_TAIL}"))].concat())
}

impl Receipt {
    /// What it was to become: a URL, its path as it is at the server; a long name is cut.
    pub fn target(&self) -> Vec<u8> {
        let slash =
            self.partial.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, name) = self.partial.split_at(slash);
        [folder, &recognise(name).map_or(name.to_vec(), |known| known.name)].concat()
    }
}

impl Receipts {
    /// Locks the journal of `parcel` in `folder`, which is made. Returns also the partial file
    /// that it was of, where the source is another one since: that file is of no more use.
    ///
    /// # Errors
    /// When another copy holds it (`busy`), or the folder cannot be written.
    pub(crate) fn begin(
        folder: &Path,
        parcel: &Parcel<'_>,
    ) -> Result<(Receipts, Option<Vec<u8>>), Error> {
        let shown = folder.as_os_str().as_bytes();
        let failed = |error: io::Error| storage_error("write", shown, &error);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let mut hasher = blake3::Hasher::new_derive_key("farline 2026 receipts of a stock server");
        hasher.update(parcel.server.as_bytes()).update(b"\0").update(parcel.target);
        let name = format!("{}{TAIL}", &hasher.finalize().to_hex()[..32]);
        let file = lock_journal(&File::open(folder).map_err(failed)?, name.as_bytes())
            .map_err(failed)?
            .ok_or_else(|| {
                let target = String::from_utf8_lossy(parcel.target);
                Error::new(
                    Fault::Refused,
                    ErrorCode::Busy,
                    format!("another copy of this host is writing to {}{target}", parcel.server),
                )
                .hint("wait for it to end; `farline partials ls` shows what is written there")
            })?;
        let (survey, end) = read(&file);
        let same_source = survey.source() == Some(parcel.source);
        let before = survey.files().pop_first().and_then(|(path, facts)| {
            let at = path.strip_prefix(parcel.server.as_bytes())?.to_vec();
            Some((at, facts))
        });
        let mut receipts = Receipts {
            file,
            path: folder.join(name),
            temporary: Vec::new(),
            len: parcel.facts.len,
            held: ByteRanges::new(),
            end: Some(end),
        };
        match before {
            Some((at, Surveyed { facts, held })) if same_source && facts == parcel.facts => {
                // What a torn write left behind the good records goes.
                receipts.file.set_len(end).map_err(failed)?;
                (receipts.temporary, receipts.held) = (at, held);
                Ok((receipts, None))
            }
            other => {
                receipts.renew(parcel)?;
                Ok((receipts, other.map(|(at, _)| at)))
            }
        }
    }

    /// Begins again with nothing stored, under another temporary name.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) fn renew(&mut self, parcel: &Parcel<'_>) -> Result<(), Error> {
        self.temporary = temporary_beside(parcel.target)?;
        self.held = ByteRanges::new();
        let mut records = Vec::new();
        journal::begin(
            &PartialOrigin { source: parcel.source, digests: None },
            BLOCK_LEN,
            &mut records,
        );
        let path = [parcel.server.as_bytes(), &self.temporary].concat();
        journal::file(0, &parcel.facts, &path, &mut records);
        let written = self.file.set_len(0).and_then(|()| self.file.write_all_at(&records, 0));
        written
            .map_err(|error| storage_error("write", self.path.as_os_str().as_bytes(), &error))?;
        self.end = Some(records.len() as u64);
        Ok(())
    }

    /// Has the next copy begin anew: what is at the server may still change. Its name stays known,
    /// so that it can be removed.
    pub(crate) fn distrust(&mut self) {
        let mut records = Vec::new();
        // A source of no file: whatever comes next is another one.
        journal::begin(&PartialOrigin { source: [0; 32], digests: None }, BLOCK_LEN, &mut records);
        self.end = self
            .end
            .filter(|&at| self.file.write_all_at(&records, at).is_ok())
            .map(|at| at + records.len() as u64);
    }

    /// The partial file's path at the server.
    pub(crate) fn temporary(&self) -> &[u8] {
        &self.temporary
    }

    /// What the server said that it stored.
    pub(crate) fn held(&self) -> &ByteRanges {
        &self.held
    }

    /// Takes a 111 marker in.
    pub(crate) fn record(&mut self, marker: &ByteRanges) {
        let mut news = ByteRanges::new();
        for range in marker.iter() {
            // What lies behind the file's end is not of this file.
            let range = range.start.min(self.len)..range.end.min(self.len);
            for gap in self.held.gaps(range) {
                news.insert(gap);
            }
        }
        let Some(at) = self.end.filter(|_| !news.is_empty()) else { return };
        for range in news.iter() {
            self.held.insert(range);
        }
        let mut records = Vec::new();
        journal::ranges(0, &news, &mut records);
        // No fsync: what a crash of this host takes from the journal is sent again.
        self.end =
            self.file.write_all_at(&records, at).is_ok().then_some(at + records.len() as u64);
    }

    /// Removes the journal: its file has landed, or there is none.
    pub(crate) fn finish(self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Every journal in `folder`.
///
/// # Errors
/// When the folder is there and cannot be read.
pub fn receipts_in(folder: &Path) -> io::Result<Vec<Receipt>> {
    let items = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        items => items?.collect::<io::Result<Vec<_>>>()?,
    };
    let mut found: Vec<Receipt> = items.iter().filter_map(|item| receipt(&item.path())).collect();
    found.sort_by(|a, b| a.partial.cmp(&b.partial));
    Ok(found)
}

fn receipt(path: &Path) -> Option<Receipt> {
    path.file_name().filter(|name| name.as_bytes().ends_with(TAIL.as_bytes()))?;
    // Whoever ended meanwhile has left nothing.
    let file = File::open(path).ok()?;
    let running = is_held(&file);
    let changed = file.metadata().and_then(|meta| meta.modified()).ok()?;
    let (partial, surveyed) = read(&file).0.files().pop_first()?;
    Some(Receipt {
        journal: path.to_owned(),
        partial,
        stored: surveyed.held.total(),
        total: surveyed.facts.len,
        changed,
        running,
    })
}

/// Whether a running copy holds the journal; `None` when this cannot be told.
pub(super) fn is_held(file: &File) -> Option<bool> {
    use rustix::fs::{FlockOperation, flock};
    let running = match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    };
    let _ = flock(file, FlockOperation::Unlock);
    running
}

/// The records that are good, and where they end.
pub(super) fn read(file: &File) -> (Survey, u64) {
    let (mut survey, mut end) = (Survey::default(), 0);
    let mut reader = BufReader::new(file);
    let (mut head, mut payload) = ([0; HEAD_LEN], Vec::new());
    while reader.read_exact(&mut head).is_ok() {
        let Some(len) = journal::payload_len(&head) else { break };
        payload.resize(len, 0);
        if reader.read_exact(&mut payload).is_err() || !survey.record(&head, &payload) {
            break;
        }
        end += (HEAD_LEN + len) as u64;
    }
    (survey, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: FileFacts = FileFacts { len: 1000, modified_ns: 5, changed_ns: 6 };
    const PARCEL: Parcel<'_> = Parcel {
        server: "ftp://old.site:2811",
        target: b"/data/big",
        source: [7; 32],
        facts: FACTS,
    };

    fn ranges(text: &str) -> ByteRanges {
        ByteRanges::parse(text).expect("ranges")
    }

    #[test]
    fn receipts_are_there_for_the_same_source_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("made/for/it");
        let (mut receipts, stale) = Receipts::begin(&at, &PARCEL).expect("begun");
        assert_eq!((stale, receipts.held().total()), (None, 0));
        receipts.record(&ranges("0-100,200-300"));
        receipts.record(&ranges("50-250,900-5000"));
        let first = receipts.temporary().to_vec();
        assert!(
            first.starts_with(b"/data/.big.") && first.ends_with(b".farline"),
            "{}",
            String::from_utf8_lossy(&first)
        );
        assert_eq!(receipts_in(&at).expect("read")[0].running, Some(true));
        drop(receipts);
        let listed = &receipts_in(&at).expect("read")[0];
        assert_eq!((listed.stored, listed.total, listed.running), (400, 1000, Some(false)));
        assert_eq!(listed.partial, [b"ftp://old.site:2811", &first[..]].concat());
        assert_eq!(listed.target(), b"ftp://old.site:2811/data/big");
        let (receipts, _) = Receipts::begin(&at, &PARCEL).expect("again");
        assert_eq!(
            (receipts.held().to_string(), receipts.temporary()),
            ("0-300,900-1000".to_owned(), &first[..])
        );
        drop(receipts);
        for changed in [
            Parcel { facts: FileFacts { len: 1001, ..FACTS }, ..PARCEL },
            Parcel { facts: FileFacts { modified_ns: 6, ..FACTS }, ..PARCEL },
            Parcel { facts: FileFacts { changed_ns: 7, ..FACTS }, ..PARCEL },
            Parcel { source: [8; 32], ..PARCEL },
        ] {
            let (receipts, stale) = Receipts::begin(&at, &changed).expect("begun");
            assert!(
                stale.is_some()
                    && stale.as_deref() != Some(receipts.temporary())
                    && receipts.held().is_empty()
            );
        }
        let (mut receipts, _) = Receipts::begin(&at, &PARCEL).expect("begun");
        receipts.record(&ranges("0-100"));
        receipts.distrust();
        drop(receipts);
        let (receipts, stale) = Receipts::begin(&at, &PARCEL).expect("begun");
        assert!(
            stale.is_some() && receipts.held().is_empty(),
            "what is not trusted is not gone on with"
        );
        receipts.finish();
        assert_eq!(receipts_in(&at).expect("read"), []);
    }

    #[test]
    fn a_torn_record_costs_itself_and_the_next_is_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut receipts, _) = Receipts::begin(folder.path(), &PARCEL).expect("begun");
        receipts.record(&ranges("0-100"));
        let path = receipts.path.clone();
        receipts.record(&ranges("100-200"));
        drop(receipts);
        let bytes = std::fs::read(&path).expect("read");
        std::fs::write(&path, &bytes[..bytes.len() - 3]).expect("torn");
        let (mut receipts, _) = Receipts::begin(folder.path(), &PARCEL).expect("again");
        assert_eq!(receipts.held().to_string(), "0-100");
        receipts.record(&ranges("300-400"));
        drop(receipts);
        assert_eq!(
            Receipts::begin(folder.path(), &PARCEL).expect("again").0.held().to_string(),
            "0-100,300-400"
        );
    }
}
