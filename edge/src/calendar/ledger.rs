//! The calendar's database: the newest version of every reservation, the log in which every change
//! is chained to the one before it, tokens, and requests that must not be done twice.
//!
//! One change is one transaction, durable when it returns (SQLite in WAL mode, synchronous FULL).

use super::identity::{NewToken, StoredToken};
use super::wire::{ReservationDocument, StateDocument};
use aws_lc_rs::digest::{Context, SHA256};
use farline_core::calendar::ReservationId;
use farline_core::units::{Error, ErrorCode, Fault};
use rusqlite::{Connection, OptionalExtension, params};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a request's key is remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// The version of the tables.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record (
  kind TEXT NOT NULL, id INTEGER NOT NULL, over INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS done (
  actor TEXT NOT NULL, key TEXT NOT NULL, request BLOB NOT NULL, status INTEGER NOT NULL,
  body TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (actor, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token (
  name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, body TEXT NOT NULL) WITHOUT ROWID;
";

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

/// The database of one calendar.
#[derive(Debug)]
pub struct Ledger {
    connection: Connection,
    path: PathBuf,
    files: LedgerFiles,
}

/// The files that are open. SQLite goes on writing to one that was removed, and says that all is well.
#[derive(Debug)]
struct LedgerFiles(Vec<(PathBuf, (u64, u64))>);

impl LedgerFiles {
    /// Those of the database at `path`: itself, and its write-ahead log.
    fn of(path: &Path) -> LedgerFiles {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let paths = [path.to_owned(), PathBuf::from(wal)];
        let known = |path: PathBuf| device(&path).map(|known| (path, known));
        LedgerFiles(paths.into_iter().filter_map(known).collect())
    }

    /// Refuses to go on where one of them is not the file that was opened.
    fn check(&self) -> Result<(), Error> {
        let Some((path, _)) = self.0.iter().find(|(path, known)| device(path) != Some(*known))
        else {
            return Ok(());
        };
        let what = if path.exists() { "is another file than was opened" } else { "is gone" };
        let message = format!("the calendar's database: {} {what}", path.display());
        Err(Error::new(Fault::Here, ErrorCode::CalendarStore, message)
            .hint("put the database's files back, or restore a backup and start anew"))
    }
}

/// The device and the number of the file at `path`.
fn device(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Ledger {
    /// Opens the database at `path`, and makes it where there is none.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or of a later version.
    pub fn open(path: &Path) -> Result<Ledger, Error> {
        let connection = Connection::open(path).map_err(|error| failed(path, &error))?;
        let files = LedgerFiles(Vec::new());
        let mut ledger = Ledger { connection, path: path.to_owned(), files };
        ledger.set_up().map_err(|error| failed(path, &error))?;
        ledger.files = LedgerFiles::of(path);
        let version = ledger.meta("version")?.and_then(|text| text.parse::<i64>().ok());
        match version {
            None => ledger.set_meta("version", &VERSION.to_string())?,
            Some(VERSION) => {}
            Some(other) => {
                let message = format!("{} has tables of version {other}", path.display());
                return Err(Error::new(Fault::Here, ErrorCode::CalendarStore, message)
                    .hint("a newer farline wrote it: use that"));
            }
        }
        Ok(ledger)
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::from_secs(5))?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.execute_batch(TABLES)
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        failed(&self.path, error)
    }

    pub(super) fn meta(&self, key: &str) -> Result<Option<String>, Error> {
        let row = |row: &rusqlite::Row<'_>| row.get(0);
        let found = self.connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], row);
        found.optional().map_err(|error| self.failed(&error))
    }

    pub(super) fn set_meta(&self, key: &str, value: &str) -> Result<(), Error> {
        let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
        self.connection.execute(sql, [key, value]).map(drop).map_err(|error| self.failed(&error))
    }

    /// Reads every record of `kind`: those that are not over, or all.
    pub(super) fn records(
        &self,
        kind: &str,
        all: bool,
        mut each: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut read = || -> rusqlite::Result<Result<(), Error>> {
            let sql = "SELECT body FROM record WHERE kind = ?1 AND over <= ?2 ORDER BY id";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![kind, all])?;
            while let Some(row) = rows.next()? {
                let body = row.get_ref(0)?.as_str()?;
                if let Err(error) = each(body) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        };
        read().map_err(|error| self.failed(&error))?
    }

    /// The highest number that a record of `kind` has; 0 where there is none.
    pub(super) fn last_id(&self, kind: &str) -> Result<u64, Error> {
        let sql = "SELECT coalesce(max(id), 0) FROM record WHERE kind = ?1";
        let found = self.connection.query_row(sql, [kind], |row| row.get(0));
        found.map_err(|error| self.failed(&error))
    }

    /// The body of one record.
    pub(super) fn record(&self, kind: &str, id: u64) -> Result<Option<String>, Error> {
        let sql = "SELECT body FROM record WHERE kind = ?1 AND id = ?2";
        let found = self.connection.query_row(sql, params![kind, id], |row| row.get(0));
        found.optional().map_err(|error| self.failed(&error))
    }

    /// Makes `entries` durable in one transaction, with the requests that they were done for; returns
    /// the number of the last entry.
    pub(super) fn write(&mut self, entries: &[Entry], done: &[DoneRequest]) -> Result<u64, Error> {
        self.files.check()?;
        let path = self.path.clone();
        let mut write = || -> rusqlite::Result<u64> {
            let change = self.connection.transaction()?;
            let (mut seq, mut hash) = last_entry(&change)?;
            for entry in entries {
                seq += 1;
                hash = chained(&hash, seq, entry);
                let mut log =
                    change.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
                log.execute(params![
                    seq,
                    entry.at,
                    entry.actor,
                    entry.verb,
                    entry.kind,
                    entry.body,
                    hash
                ])?;
                let mut record = change.prepare_cached(
                    "INSERT INTO record VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO UPDATE SET over = ?3, body = ?4",
                )?;
                record.execute(params![entry.kind, entry.id, entry.over, entry.body])?;
            }
            for request in done {
                let mut insert = change.prepare_cached(
                    "INSERT OR REPLACE INTO done VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                insert.execute(params![
                    request.actor,
                    request.key,
                    request.request,
                    request.status,
                    request.body,
                    request.at
                ])?;
            }
            change.commit()?;
            Ok(seq)
        };
        write().map_err(|error| failed(&path, &error))
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
        self.write(&entries, &[])
    }

    /// The request of `actor` with that key, if it was done.
    pub(super) fn done(&self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
        let sql = "SELECT request, status, body, at FROM done WHERE actor = ?1 AND key = ?2";
        let found = self.connection.query_row(sql, [actor, key], |row| {
            Ok(DoneRequest {
                actor: actor.to_owned(),
                key: key.to_owned(),
                request: row.get(0)?,
                status: row.get(1)?,
                body: row.get(2)?,
                at: row.get(3)?,
            })
        });
        found.optional().map_err(|error| self.failed(&error))
    }

    /// Forgets requests that were done long before `now`, in seconds since 1970.
    pub(super) fn forget(&self, now: i64) -> Result<(), Error> {
        let before = now - REMEMBERED.as_secs() as i64;
        let sql = "DELETE FROM done WHERE at < ?1";
        self.connection.execute(sql, [before]).map(drop).map_err(|error| self.failed(&error))
    }

    /// Up to `limit` entries of the log after `seq`.
    pub(super) fn log_after(&self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        let read = || -> rusqlite::Result<Vec<Logged>> {
            let sql = "SELECT seq, at, actor, verb, kind, body FROM log WHERE seq > ?1
                       ORDER BY seq LIMIT ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![seq, limit as i64], |row| {
                Ok(Logged {
                    seq: row.get(0)?,
                    at: row.get(1)?,
                    actor: row.get(2)?,
                    verb: row.get(3)?,
                    kind: row.get(4)?,
                    body: row.get(5)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.failed(&error))
    }

    /// The number of the last entry.
    pub(super) fn last_seq(&self) -> Result<u64, Error> {
        last_entry(&self.connection).map(|(seq, _)| seq).map_err(|error| self.failed(&error))
    }

    /// Checks the chain of the whole log, and that every record is the last that the log says of it;
    /// returns how many entries there are, and the hash of the last.
    ///
    /// # Errors
    /// The first entry that does not follow from the one before.
    pub fn verify(&self) -> Result<(u64, String), Error> {
        let broken = |what: String| {
            let message = format!("{}: {what}", self.path.display());
            Error::new(Fault::Here, ErrorCode::CalendarStore, message)
                .hint("somebody changed the database by hand: restore it from a backup")
        };
        let read = || -> rusqlite::Result<Result<(u64, Vec<u8>), Error>> {
            let sql = "SELECT seq, at, actor, verb, kind, body, hash FROM log ORDER BY seq";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            let (mut last, mut hash) = (0_u64, vec![0; 32]);
            while let Some(row) = rows.next()? {
                let seq: u64 = row.get(0)?;
                let kind: String = row.get(4)?;
                let entry = Entry {
                    at: row.get(1)?,
                    actor: row.get(2)?,
                    verb: row.get(3)?,
                    kind: if kind == "closure" { "closure" } else { "reservation" },
                    id: 0,
                    over: false,
                    body: row.get(5)?,
                };
                if seq != last + 1 {
                    return Ok(Err(broken(format!("entry {} of the log is missing", last + 1))));
                }
                hash = chained(&hash, seq, &entry);
                if row.get::<_, Vec<u8>>(6)? != hash {
                    return Ok(Err(broken(format!("entry {seq} of the log was changed"))));
                }
                last = seq;
            }
            Ok(Ok((last, hash)))
        };
        let (last, hash) = read().map_err(|error| self.failed(&error))??;
        let sql = "SELECT count(*) FROM record AS r WHERE NOT EXISTS
                   (SELECT 1 FROM log WHERE log.kind = r.kind AND log.body = r.body)";
        let strays: u64 = self
            .connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| self.failed(&error))?;
        if strays > 0 {
            return Err(broken(format!("{strays} records are not as the log has them")));
        }
        Ok((last, hash.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Adds a token.
    ///
    /// # Errors
    /// When one of that name is there.
    pub fn add_token(&self, token: &NewToken, digest: &str) -> Result<(), Error> {
        let body = serde_json::to_string(token)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::CalendarStore, error.to_string()))?;
        let sql = "INSERT INTO token VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let added = self.connection.execute(sql, [&token.name, digest, &body]);
        match added.map_err(|error| self.failed(&error))? {
            1 => Ok(()),
            _ => Err(Error::new(
                Fault::You,
                ErrorCode::CalendarRequest,
                format!("there is a token called `{}`", token.name),
            )
            .hint("revoke it first, or take another name")),
        }
    }

    /// Removes a token; returns whether there was one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn revoke_token(&self, name: &str) -> Result<bool, Error> {
        let removed = self.connection.execute("DELETE FROM token WHERE name = ?1", [name]);
        removed.map(|rows| rows > 0).map_err(|error| self.failed(&error))
    }

    /// Every token, without its secret, which nobody has but its owner.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn tokens(&self) -> Result<Vec<StoredToken>, Error> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement =
                self.connection.prepare_cached("SELECT digest, body FROM token ORDER BY name")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = read().map_err(|error| self.failed(&error))?;
        Ok(rows
            .into_iter()
            .filter_map(|(digest, body)| {
                Some(StoredToken { digest, token: serde_json::from_str(&body).ok()? })
            })
            .collect())
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> Error {
    let message = format!("the calendar's database {}: {error}", path.display());
    let made = Error::new(Fault::Here, ErrorCode::CalendarStore, message);
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => made.hint("make room on its disk"),
        Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly) => {
            made.hint("its folder must exist and be writable: see --state")
        }
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            made.hint("restore it from a backup")
        }
        _ => made,
    }
}

/// The number and hash of the last entry.
fn last_entry(connection: &Connection) -> rusqlite::Result<(u64, Vec<u8>)> {
    let sql = "SELECT seq, hash FROM log ORDER BY seq DESC LIMIT 1";
    let found = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(found.unwrap_or_else(|| (0, vec![0; 32])))
}

/// The hash of an entry: SHA-256 of the one before it and of all that the entry says. Each part
/// stands after its length, so that no two entries are the same bytes.
fn chained(before: &[u8], seq: u64, entry: &Entry) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    digest.update(before);
    digest.update(&seq.to_be_bytes());
    for part in [&entry.at, &entry.actor, &entry.verb, entry.kind, &entry.body] {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, body: &str) -> Entry {
        let (at, actor) = ("2026-11-25T00:00:00Z".to_owned(), "ada".to_owned());
        let (verb, body) = ("reserve".to_owned(), body.to_owned());
        Entry { at, actor, verb, kind: "reservation", id, over: false, body }
    }

    #[test]
    fn what_was_written_is_there_again_and_chained() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("calendar.db");
        let done = DoneRequest {
            actor: "ada".into(),
            key: "k".into(),
            request: vec![1],
            status: 201,
            body: "{}".into(),
            at: 5,
        };
        let mut ledger = Ledger::open(&path).expect("opens");
        assert_eq!(ledger.write(&[entry(1, "a"), entry(2, "b")], &[]), Ok(2));
        assert_eq!(ledger.write(&[entry(1, "c")], std::slice::from_ref(&done)), Ok(3));
        drop(ledger);
        let ledger = Ledger::open(&path).expect("opens again");
        let mut bodies = Vec::new();
        let each = |body: &str| {
            bodies.push(body.to_owned());
            Ok(())
        };
        ledger.records("reservation", true, each).expect("reads");
        assert_eq!(bodies, ["c", "b"], "the newest of each");
        assert_eq!(ledger.log_after(1, 9).expect("reads").len(), 2);
        assert_eq!(ledger.done("ada", "k"), Ok(Some(done)));
        assert_eq!(ledger.done("eve", "k"), Ok(None));
        assert_eq!(ledger.verify().expect("whole").0, 3);
    }

    #[test]
    fn a_change_by_hand_is_found() {
        for (sql, word) in [
            ("UPDATE log SET body = 'x' WHERE seq = 2", "entry 2"),
            ("UPDATE log SET actor = 'eve' WHERE seq = 1", "entry 1"),
            ("DELETE FROM log WHERE seq = 2", "entry 2"),
            ("UPDATE record SET body = 'x' WHERE id = 3", "records"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut ledger = Ledger::open(&folder.path().join("db")).expect("opens");
            let entries = [entry(1, "a"), entry(2, "b"), entry(3, "c")];
            ledger.write(&entries, &[]).expect("writes");
            ledger.connection.execute(sql, []).expect("changed");
            let error = ledger.verify().expect_err(sql);
            assert!(error.message.contains(word), "{sql}: {error}");
        }
    }

    #[test]
    fn a_full_database_takes_nothing_and_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ledger = Ledger::open(&folder.path().join("db")).expect("opens");
        assert_eq!(ledger.write(&[entry(1, "a")], &[]), Ok(1));
        let pages: i64 = ledger
            .connection
            .query_row("PRAGMA page_count", [], |row| row.get(0))
            .expect("a number");
        ledger.connection.pragma_update(None, "max_page_count", pages).expect("set");
        let large = entry(3, &"x".repeat(100_000));
        let error = ledger.write(&[entry(2, "b"), large.clone()], &[]).expect_err("full");
        assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::CalendarStore));
        assert!(error.hint.is_some_and(|hint| hint.contains("make room")));
        assert_eq!(ledger.last_seq(), Ok(1), "all of it, or nothing");
        ledger.connection.pragma_update(None, "max_page_count", 1_000_000).expect("set");
        assert_eq!(ledger.write(&[entry(2, "b"), large], &[]), Ok(3));
        assert_eq!(ledger.verify().expect("whole").0, 3);
    }

    #[test]
    fn what_was_taken_away_is_not_written_to() {
        for (name, replace) in [("db", false), ("db-wal", false), ("db", true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let (file, away) = (folder.path().join(name), folder.path().join("away"));
            let mut ledger = Ledger::open(&folder.path().join("db")).expect("opens");
            assert_eq!(ledger.write(&[entry(1, "a")], &[]), Ok(1));
            std::fs::rename(&file, &away).expect("away");
            if replace {
                std::fs::copy(&away, &file).expect("copied");
            }
            let error = ledger.write(&[entry(2, "b")], &[]).expect_err(name);
            let word = if replace { "another file" } else { "is gone" };
            assert!(error.message.contains(word), "{error}");
            std::fs::rename(&away, &file).expect("back");
            assert_eq!(ledger.write(&[entry(2, "b")], &[]), Ok(2), "{name}");
        }
    }

    #[test]
    fn what_is_no_database_is_said_to_be_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        std::fs::write(&path, vec![b'x'; 8192]).expect("written");
        let error = Ledger::open(&path).expect_err("no database");
        assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::CalendarStore));
        assert!(Ledger::open(&folder.path().join("missing/db")).is_err());
    }
}
