//! The calendar's database: the newest version of every reservation, the log in which every change
//! is chained to the one before it, tokens, and requests that must not be done twice.
//!
//! One change is one transaction, durable when it returns. [`Ledger`] is what all databases have in
//! common; `sqlite` and `postgres` are two of them behind [`LedgerStore`].

mod address;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;

pub use address::LedgerAddress;

use super::identity::{NewToken, StoredToken};
use super::wire::{ReservationDocument, StateDocument};
use aws_lc_rs::digest::{Context, SHA256};
use farline_core::calendar::ReservationId;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

/// How long a request's key is remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// The version of the tables.
const VERSION: i64 = 1;

/// A record to be written: the newest version of one thing, and its entry in the log.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: String,
    pub(super) actor: String,
    pub(super) verb: String,
    /// `reservation` or `closure`.
    pub(super) kind: &'static str,
    pub(super) id: u64,
    /// Whether nothing more happens to it.
    pub(super) over: bool,
    pub(super) body: String,
}

/// A line of the log as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) actor: String,
    pub(super) verb: String,
    pub(super) kind: String,
    pub(super) body: String,
    /// Of this entry and all before it.
    hash: Vec<u8>,
}

/// A request that was done, by the key that its client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DoneRequest {
    pub(super) actor: String,
    pub(super) key: String,
    /// Digest of what was asked.
    pub(super) request: Vec<u8>,
    pub(super) status: u16,
    pub(super) body: String,
    /// Seconds since 1970.
    pub(super) at: i64,
}

/// The last entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogEnd {
    seq: u64,
    hash: Vec<u8>,
}

impl Default for LogEnd {
    fn default() -> LogEnd {
        LogEnd { seq: 0, hash: vec![0; 32] }
    }
}

/// Why a change was not written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotWritten {
    pub(super) error: Error,
    /// Whether it may have been all the same: the connection broke before the database said so.
    pub(super) in_doubt: bool,
}

impl From<Error> for NotWritten {
    fn from(error: Error) -> NotWritten {
        NotWritten { error, in_doubt: false }
    }
}

/// One change: all of it is written, or nothing.
struct Change<'a> {
    /// Where the log must end for the change to follow.
    after: &'a LogEnd,
    entries: &'a [Entry],
    /// Of each entry.
    hashes: &'a [Vec<u8>],
    done: &'a [DoneRequest],
}

impl Change<'_> {
    /// Refuses a log that does not end where it should.
    fn check(&self, end: &LogEnd) -> Result<(), Error> {
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

/// A database. Each method is one transaction.
trait LedgerStore: Send + Debug {
    /// How its messages call it; without secrets.
    fn name(&self) -> String;
    /// Makes sure that nobody else changes the book.
    fn lock(&mut self) -> Result<(), Error>;
    fn meta(&mut self, key: &str) -> Result<Option<String>, Error>;
    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), Error>;
    /// Reads every record of `kind`: those that are not over, or all.
    fn records(
        &mut self,
        kind: &str,
        all: bool,
        each: &mut dyn FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error>;
    fn last_id(&mut self, kind: &str) -> Result<u64, Error>;
    fn record(&mut self, kind: &str, id: u64) -> Result<Option<String>, Error>;
    fn end(&mut self) -> Result<LogEnd, Error>;
    fn append(&mut self, change: &Change<'_>) -> Result<(), NotWritten>;
    fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error>;
    /// Forgets requests that were done before `before`.
    fn forget(&mut self, before: i64) -> Result<(), Error>;
    /// Up to `limit` entries of the log after `seq`, in order.
    fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error>;
    /// How many records are not as the log has them.
    fn strays(&mut self) -> Result<u64, Error>;
    /// Adds a token; returns whether none of that name was there.
    fn add_token(&mut self, name: &str, digest: &str, body: &str) -> Result<bool, Error>;
    fn revoke_token(&mut self, name: &str) -> Result<bool, Error>;
    /// Digest and body of each token.
    fn tokens(&mut self) -> Result<Vec<(String, String)>, Error>;
}

/// The database of one calendar.
#[derive(Debug)]
pub struct Ledger {
    store: Box<dyn LedgerStore>,
    /// What is known of the log.
    end: LogEnd,
}

/// Entries that are read at a time.
const PAGE: usize = 1000;

impl Ledger {
    /// Opens the SQLite database at `path`, and makes it where there is none.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or of a later version.
    pub fn open(path: &Path) -> Result<Ledger, Error> {
        Ledger::over(Box::new(sqlite::Sqlite::open(path)?))
    }

    /// Opens the PostgreSQL database at `url`, and makes its tables where there are none. It waits for
    /// replies: not to be called where a task of an async runtime runs.
    ///
    /// # Errors
    /// When it cannot be reached, loses what it said was durable, or has tables of a later version.
    #[cfg(feature = "postgres")]
    pub fn connect(url: &LedgerAddress) -> Result<Ledger, Error> {
        Ledger::over(Box::new(postgres::Postgres::connect(url)?))
    }

    /// Says that this build knows no PostgreSQL.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "postgres"))]
    pub fn connect(_: &LedgerAddress) -> Result<Ledger, Error> {
        Err(Error::not_built("a calendar's database in PostgreSQL", "postgres"))
    }

    fn over(mut store: Box<dyn LedgerStore>) -> Result<Ledger, Error> {
        let version = store.meta("version")?.and_then(|text| text.parse::<i64>().ok());
        match version {
            None => store.set_meta("version", &VERSION.to_string())?,
            Some(VERSION) => {}
            Some(other) => {
                let message = format!("{} has tables of version {other}", store.name());
                return Err(Error::new(Fault::Here, ErrorCode::CalendarStore, message)
                    .hint("a newer farline wrote it: use that"));
            }
        }
        let end = store.end()?;
        Ok(Ledger { store, end })
    }

    /// Becomes the one that changes the book, as long as this ledger lives.
    ///
    /// # Errors
    /// When another calendar is.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        self.store.lock()?;
        // Nobody goes on with the log from here.
        self.end = self.store.end()?;
        Ok(())
    }

    /// Reads every record of `kind`: those that are not over, or all.
    pub(super) fn records(
        &mut self,
        kind: &str,
        all: bool,
        mut each: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.store.records(kind, all, &mut each)
    }

    /// The highest number that a record of `kind` has; 0 where there is none.
    pub(super) fn last_id(&mut self, kind: &str) -> Result<u64, Error> {
        self.store.last_id(kind)
    }

    /// The body of one record.
    pub(super) fn record(&mut self, kind: &str, id: u64) -> Result<Option<String>, Error> {
        self.store.record(kind, id)
    }

    /// Makes `entries` durable in one transaction, with the requests that they were done for; returns
    /// the number of the last entry.
    pub(super) fn write(
        &mut self,
        entries: &[Entry],
        done: &[DoneRequest],
    ) -> Result<u64, NotWritten> {
        let mut end = self.end.clone();
        let mut hashes = Vec::with_capacity(entries.len());
        for entry in entries {
            end.seq += 1;
            let Entry { at, actor, verb, kind, body, .. } = entry;
            end.hash = chained(&end.hash, end.seq, [at, actor, verb, kind, body]);
            hashes.push(end.hash.clone());
        }
        self.store.append(&Change { after: &self.end, entries, hashes: &hashes, done })?;
        self.end = end;
        Ok(self.end.seq)
    }

    /// What the log has beyond what is known of it: entries that were in doubt, and became durable. The
    /// log must go on from where it was known.
    ///
    /// # Errors
    /// When the database cannot be read, or is not what it was.
    pub(super) fn news(&mut self) -> Result<Vec<Logged>, Error> {
        let before = self.end.seq.saturating_sub(1);
        let mut entries = self.store.log_after(before, PAGE)?.into_iter();
        if self.end.seq > 0 {
            let known = entries.next().filter(|entry| entry.hash == self.end.hash);
            known
                .ok_or_else(|| self.broken(format!("entry {} of the log is lost", self.end.seq)))?;
        }
        let entries: Vec<Logged> = entries.collect();
        for entry in &entries {
            self.end = self.follows(&self.end, entry)?;
        }
        Ok(entries)
    }

    /// Writes something, to see whether that can be done.
    pub(super) fn probe(&mut self, now: i64) -> Result<(), Error> {
        self.store.set_meta("probe", &now.to_string())
    }

    /// Takes reservations over from elsewhere, with an entry of the log for each; nobody looks whether
    /// they fit.
    ///
    /// # Errors
    /// When they cannot be written: then none is.
    pub fn import(
        &mut self,
        documents: impl IntoIterator<Item = ReservationDocument>,
    ) -> Result<u64, Error> {
        let entry = |document: ReservationDocument| Entry {
            at: document.created.clone(),
            actor: "import".to_owned(),
            verb: "import".to_owned(),
            kind: "reservation",
            id: document.id.parse::<ReservationId>().map_or(0, |id| id.0),
            over: document.state == StateDocument::Terminated,
            body: serde_json::to_string(&document).unwrap_or_default(),
        };
        let entries: Vec<Entry> = documents.into_iter().map(entry).collect();
        self.write(&entries, &[]).map_err(|not| not.error)
    }

    /// The request of `actor` with that key, if it was done.
    pub(super) fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
        self.store.done(actor, key)
    }

    /// Forgets requests that were done long before `now`, in seconds since 1970.
    pub(super) fn forget(&mut self, now: i64) -> Result<(), Error> {
        self.store.forget(now - REMEMBERED.as_secs() as i64)
    }

    /// Up to `limit` entries of the log after `seq`.
    pub(super) fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        self.store.log_after(seq, limit)
    }

    /// The number of the last entry that is known.
    pub(super) fn last_seq(&self) -> u64 {
        self.end.seq
    }

    /// Checks the chain of the whole log, and that every record is the last that the log says of it;
    /// returns how many entries there are, and the hash of the last.
    ///
    /// # Errors
    /// The first entry that does not follow from the one before.
    pub fn verify(&mut self) -> Result<(u64, String), Error> {
        let mut end = LogEnd::default();
        loop {
            let entries = self.store.log_after(end.seq, PAGE)?;
            for entry in &entries {
                end = self.follows(&end, entry)?;
            }
            if entries.is_empty() {
                break;
            }
        }
        match self.store.strays()? {
            0 => Ok((end.seq, end.hash.iter().map(|byte| format!("{byte:02x}")).collect())),
            strays => Err(self.broken(format!("{strays} records are not as the log has them"))),
        }
    }

    /// The end of the log with `entry`, if that is the one that comes after `end`.
    fn follows(&self, end: &LogEnd, entry: &Logged) -> Result<LogEnd, Error> {
        let seq = end.seq + 1;
        if entry.seq != seq {
            return Err(self.broken(format!("entry {seq} of the log is missing")));
        }
        let Logged { at, actor, verb, kind, body, .. } = entry;
        let hash = chained(&end.hash, seq, [at, actor, verb, kind, body]);
        if entry.hash != hash {
            return Err(self.broken(format!("entry {seq} of the log was changed")));
        }
        Ok(LogEnd { seq, hash })
    }

    fn broken(&self, what: String) -> Error {
        let message = format!("{}: {what}", self.store.name());
        Error::new(Fault::Here, ErrorCode::CalendarStore, message)
            .hint("somebody changed the database by hand: restore it from a backup")
    }

    /// Adds a token.
    ///
    /// # Errors
    /// When one of that name is there.
    pub fn add_token(&mut self, token: &NewToken, digest: &str) -> Result<(), Error> {
        let body = serde_json::to_string(token)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::CalendarStore, error.to_string()))?;
        if self.store.add_token(&token.name, digest, &body)? {
            return Ok(());
        }
        let message = format!("there is a token called `{}`", token.name);
        Err(Error::new(Fault::You, ErrorCode::CalendarRequest, message)
            .hint("revoke it first, or take another name"))
    }

    /// Removes a token; returns whether there was one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn revoke_token(&mut self, name: &str) -> Result<bool, Error> {
        self.store.revoke_token(name)
    }

    /// Every token, without its secret, which nobody has but its owner.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn tokens(&mut self) -> Result<Vec<StoredToken>, Error> {
        let read = |(digest, body): (String, String)| {
            Some(StoredToken { digest, token: serde_json::from_str(&body).ok()? })
        };
        Ok(self.store.tokens()?.into_iter().filter_map(read).collect())
    }
}

/// The hash of an entry: SHA-256 of the one before it and of all that the entry says. Each part
/// stands after its length, so that no two entries are the same bytes.
fn chained(before: &[u8], seq: u64, parts: [&str; 5]) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    digest.update(before);
    digest.update(&seq.to_be_bytes());
    for part in parts {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finish().as_ref().to_vec()
}
