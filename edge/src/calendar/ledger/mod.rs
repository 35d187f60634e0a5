//! The calendar's database: the newest version of every reservation, the log in which every change
//! is chained to the one before it, tokens, and requests that must not be done twice.
//!
//! One change is one transaction, durable when it returns. [`Ledger`] chains, checks and imports;
//! `tables` has every statement, on the layer of SQL in `database`.

mod entry;
mod tables;
#[cfg(test)]
pub(super) mod tests;

pub(super) use entry::{DoneRequest, Entry, Logged, RecordKind};

use super::identity::{NewToken, StoredToken};
use super::wire::{ReservationDocument, StateDocument};
use crate::database::{Database, DatabaseAddress, NotCommitted};
use entry::{Change, LogEnd, chained};
use farline_core::calendar::ReservationId;
use farline_core::units::{Error, ErrorCode, Fault};
use std::path::Path;
use std::time::Duration;
use tables::{CALENDAR, Tables};

/// How long a request's key is remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// The database of one calendar.
#[derive(Debug)]
pub struct Ledger {
    tables: Tables,
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
        Ledger::over(Database::open(&CALENDAR, path)?)
    }

    /// Opens the PostgreSQL database at `url`, and makes its tables where there are none. It waits
    /// for replies: not to be called where a task of an async runtime runs.
    ///
    /// # Errors
    /// When it cannot be reached, loses what it said was durable, has tables of a later version, or
    /// this build knows no PostgreSQL.
    pub fn connect(url: &DatabaseAddress) -> Result<Ledger, Error> {
        Ledger::over(Database::connect(&CALENDAR, url)?)
    }

    pub(super) fn over(database: Database) -> Result<Ledger, Error> {
        let mut tables = Tables(database);
        let end = tables.end()?;
        Ok(Ledger { tables, end })
    }

    /// Becomes the one that changes the book, as long as this ledger lives.
    ///
    /// # Errors
    /// When another calendar is.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        self.tables.0.lock()?;
        // Nobody goes on with the log from here.
        self.end = self.tables.end()?;
        Ok(())
    }

    /// Reads every record of `kind`: those that are not over, or all.
    pub(super) fn records(
        &mut self,
        kind: RecordKind,
        all: bool,
        each: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.tables.records(kind, all, each)
    }

    /// The highest number that a record of `kind` has; 0 where there is none.
    pub(super) fn last_id(&mut self, kind: RecordKind) -> Result<u64, Error> {
        self.tables.last_id(kind)
    }

    /// The body of one record.
    pub(super) fn record(&mut self, kind: RecordKind, id: u64) -> Result<Option<String>, Error> {
        self.tables.record(kind, id)
    }

    /// Makes `entries` durable in one transaction, with the requests that they were done for;
    /// returns the number of the last entry.
    pub(super) fn write(
        &mut self,
        entries: &[Entry],
        done: &[DoneRequest],
    ) -> Result<u64, NotCommitted> {
        let mut end = self.end.clone();
        let mut hashes = Vec::with_capacity(entries.len());
        for entry in entries {
            end.seq += 1;
            let Entry { at, actor, verb, kind, body, .. } = entry;
            end.hash = chained(&end.hash, end.seq, [at, actor, verb, kind.as_str(), body]);
            hashes.push(end.hash.clone());
        }
        self.tables.append(&Change { after: &self.end, entries, hashes: &hashes, done })?;
        self.end = end;
        Ok(self.end.seq)
    }

    /// What the log has beyond what is known of it: entries that were in doubt, and became durable.
    /// The log must go on from where it was known.
    ///
    /// # Errors
    /// When the database cannot be read, or is not what it was.
    pub(super) fn news(&mut self) -> Result<Vec<Logged>, Error> {
        let before = self.end.seq.saturating_sub(1);
        let mut entries = self.tables.log_after(before, PAGE)?.into_iter();
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
        self.tables.0.probe(now)
    }

    /// Takes reservations over from elsewhere, with an entry of the log for each; nobody looks
    /// whether they fit.
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
            kind: RecordKind::Reservation,
            id: document.id.parse::<ReservationId>().map_or(0, |id| id.0),
            over: document.state == StateDocument::Terminated,
            body: serde_json::to_string(&document).unwrap_or_default(),
        };
        let entries: Vec<Entry> = documents.into_iter().map(entry).collect();
        self.write(&entries, &[]).map_err(NotCommitted::told)
    }

    /// The request of `actor` with that key, if it was done.
    pub(super) fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
        self.tables.done(actor, key)
    }

    /// Forgets requests that were done long before `now`, in seconds since 1970.
    pub(super) fn forget(&mut self, now: i64) -> Result<(), Error> {
        self.tables.forget(now - REMEMBERED.as_secs() as i64)
    }

    /// Up to `limit` entries of the log after `seq`.
    pub(super) fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        self.tables.log_after(seq, limit)
    }

    /// The number of the last entry that is known.
    pub(super) fn last_seq(&self) -> u64 {
        self.end.seq
    }

    /// Checks the chain of the whole log, and that every record is the last that the log says of
    /// it; returns how many entries there are, and the hash of the last.
    ///
    /// # Errors
    /// The first entry that does not follow from the one before.
    pub fn verify(&mut self) -> Result<(u64, String), Error> {
        let mut end = LogEnd::default();
        loop {
            let entries = self.tables.log_after(end.seq, PAGE)?;
            for entry in &entries {
                end = self.follows(&end, entry)?;
            }
            if entries.is_empty() {
                break;
            }
        }
        match self.tables.strays()? {
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
        let hash = chained(&end.hash, seq, [at, actor, verb, kind.as_str(), body]);
        if entry.hash != hash {
            return Err(self.broken(format!("entry {seq} of the log was changed")));
        }
        Ok(LogEnd { seq, hash })
    }

    fn broken(&self, what: String) -> Error {
        self.tables
            .0
            .error(Fault::Here, what)
            .hint("somebody changed the database by hand: restore it from a backup")
    }

    /// Adds a token.
    ///
    /// # Errors
    /// When one of that name is there.
    pub fn add_token(&mut self, token: &NewToken, digest: &str) -> Result<(), Error> {
        let body = serde_json::to_string(token)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::CalendarStore, error.to_string()))?;
        if self.tables.add_token(&token.name, digest, &body)? {
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
        self.tables.revoke_token(name)
    }

    /// Every token, without its secret, which nobody has but its owner.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn tokens(&mut self) -> Result<Vec<StoredToken>, Error> {
        let read = |(digest, body): (String, String)| {
            Some(StoredToken { digest, token: serde_json::from_str(&body).ok()? })
        };
        Ok(self.tables.tokens()?.into_iter().filter_map(read).collect())
    }
}
