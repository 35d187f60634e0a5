//! What the ledger keeps: entries of the log, each chained to the one before it, and what was done.

use aws_lc_rs::digest::{Context, SHA256};
use farline_core::units::{Error, ErrorCode, Fault};

/// What a record is of. The words are the database's, and the log's hashes go over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::calendar) enum RecordKind {
    Reservation,
    Closure,
}

impl RecordKind {
    /// As the database has it.
    pub(in crate::calendar) fn as_str(self) -> &'static str {
        match self {
            RecordKind::Reservation => "reservation",
            RecordKind::Closure => "closure",
        }
    }
}

/// A record to be written: the newest version of one thing, and its entry in the log.
#[derive(Clone, Debug)]
pub(in crate::calendar) struct Entry {
    pub(in crate::calendar) at: String,
    pub(in crate::calendar) actor: String,
    pub(in crate::calendar) verb: String,
    pub(in crate::calendar) kind: RecordKind,
    pub(in crate::calendar) id: u64,
    /// Whether nothing more happens to it.
    pub(in crate::calendar) over: bool,
    pub(in crate::calendar) body: String,
}

/// A line of the log as it is stored.
#[derive(Clone, Debug)]
pub(in crate::calendar) struct Logged {
    pub(in crate::calendar) seq: u64,
    pub(in crate::calendar) at: String,
    pub(in crate::calendar) actor: String,
    pub(in crate::calendar) verb: String,
    /// As it is stored: the hash goes over it, whether this version knows it or not.
    pub(super) kind: String,
    pub(in crate::calendar) body: String,
    /// Of this entry and all before it.
    pub(super) hash: Vec<u8>,
}

impl Logged {
    /// What the entry is of; nothing where a later version wrote it.
    pub(in crate::calendar) fn record_kind(&self) -> Option<RecordKind> {
        let all = [RecordKind::Reservation, RecordKind::Closure];
        all.into_iter().find(|kind| kind.as_str() == self.kind)
    }
}

/// A request that was done, by the key that its client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::calendar) struct DoneRequest {
    pub(in crate::calendar) actor: String,
    pub(in crate::calendar) key: String,
    /// Digest of what was asked.
    pub(in crate::calendar) request: Vec<u8>,
    pub(in crate::calendar) status: u16,
    pub(in crate::calendar) body: String,
    /// Seconds since 1970.
    pub(in crate::calendar) at: i64,
}

/// The last entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    pub(super) seq: u64,
    pub(super) hash: Vec<u8>,
}

impl Default for LogEnd {
    fn default() -> LogEnd {
        LogEnd { seq: 0, hash: vec![0; 32] }
    }
}

/// One change: all of it is written, or nothing.
pub(super) struct Change<'a> {
    /// Where the log must end for the change to follow.
    pub(super) after: &'a LogEnd,
    pub(super) entries: &'a [Entry],
    /// Of each entry.
    pub(super) hashes: &'a [Vec<u8>],
    pub(super) done: &'a [DoneRequest],
}

impl Change<'_> {
    /// Refuses a log that does not end where it should.
    pub(super) fn check(&self, end: &LogEnd) -> Result<(), Error> {
        if end == self.after {
            return Ok(());
        }
        let message = format!(
            "the calendar's log ends with entry {}, and this calendar knows it up to {}",
            end.seq, self.after.seq
        );
        Err(Error::new(Fault::Here, ErrorCode::CalendarStore, message)
            .hint("two calendars must not share a database: end the other"))
    }
}

/// The hash of an entry: SHA-256 of the one before it and of all that the entry says. Each part
/// stands after its length, so that no two entries are the same bytes.
pub(super) fn chained(before: &[u8], seq: u64, parts: [&str; 5]) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    digest.update(before);
    digest.update(&seq.to_be_bytes());
    for part in parts {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finish().as_ref().to_vec()
}
