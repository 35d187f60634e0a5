//! The ledger in SQLite: one file in WAL mode, synchronous FULL.

use super::{Change, DoneRequest, LedgerStore, LogEnd, Logged, NotWritten};
use farline_core::units::{Error, ErrorCode, Fault};
use rusqlite::{Connection, OptionalExtension, params};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// The database of one calendar in a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    files: LedgerFiles,
    /// Locked while this one alone may change the book.
    lock: Option<File>,
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

impl Sqlite {
    /// Opens the database at `path`, and makes it where there is none.
    pub(super) fn open(path: &Path) -> Result<Sqlite, Error> {
        let connection = Connection::open(path).map_err(|error| failed(path, &error))?;
        let files = LedgerFiles(Vec::new());
        let mut store = Sqlite { connection, path: path.to_owned(), files, lock: None };
        store.set_up().map_err(|error| failed(path, &error))?;
        store.files = LedgerFiles::of(path);
        Ok(store)
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
}

impl LedgerStore for Sqlite {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn lock(&mut self) -> Result<(), Error> {
        let path = self.path.with_extension("lock");
        let failed = |error: &dyn std::fmt::Display| {
            let message = format!("{}: {error}", path.display());
            Error::new(Fault::Here, ErrorCode::CalendarStore, message)
        };
        let file = File::create(&path).map_err(|error| failed(&error))?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                failed(&"another calendar runs on this database").hint("end it first")
            }
            std::fs::TryLockError::Error(error) => failed(&error),
        })?;
        self.lock = Some(file);
        Ok(())
    }

    fn meta(&mut self, key: &str) -> Result<Option<String>, Error> {
        let row = |row: &rusqlite::Row<'_>| row.get(0);
        let found = self.connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], row);
        found.optional().map_err(|error| self.failed(&error))
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.files.check()?;
        let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
        self.connection.execute(sql, [key, value]).map(drop).map_err(|error| self.failed(&error))
    }

    fn records(
        &mut self,
        kind: &str,
        all: bool,
        each: &mut dyn FnMut(&str) -> Result<(), Error>,
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

    fn last_id(&mut self, kind: &str) -> Result<u64, Error> {
        let sql = "SELECT coalesce(max(id), 0) FROM record WHERE kind = ?1";
        let found = self.connection.query_row(sql, [kind], |row| row.get(0));
        found.map_err(|error| self.failed(&error))
    }

    fn record(&mut self, kind: &str, id: u64) -> Result<Option<String>, Error> {
        let sql = "SELECT body FROM record WHERE kind = ?1 AND id = ?2";
        let found = self.connection.query_row(sql, params![kind, id], |row| row.get(0));
        found.optional().map_err(|error| self.failed(&error))
    }

    fn end(&mut self) -> Result<LogEnd, Error> {
        end_of(&self.connection).map_err(|error| self.failed(&error))
    }

    fn append(&mut self, change: &Change<'_>) -> Result<(), NotWritten> {
        self.files.check()?;
        let path = self.path.clone();
        let mut write = || -> rusqlite::Result<Result<(), Error>> {
            let transaction = self.connection.transaction()?;
            if let Err(error) = change.check(&end_of(&transaction)?) {
                return Ok(Err(error));
            }
            let mut seq = change.after.seq;
            for (entry, hash) in change.entries.iter().zip(change.hashes) {
                seq += 1;
                let sql = "INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                let mut log = transaction.prepare_cached(sql)?;
                let (at, actor, verb) = (&entry.at, &entry.actor, &entry.verb);
                log.execute(params![seq, at, actor, verb, entry.kind, entry.body, hash])?;
                let mut record = transaction.prepare_cached(
                    "INSERT INTO record VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO UPDATE SET over = ?3, body = ?4",
                )?;
                record.execute(params![entry.kind, entry.id, entry.over, entry.body])?;
            }
            for done in change.done {
                let sql = "INSERT OR REPLACE INTO done VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let mut insert = transaction.prepare_cached(sql)?;
                let (request, status) = (&done.request, done.status);
                insert
                    .execute(params![done.actor, done.key, request, status, done.body, done.at])?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        };
        Ok(write().map_err(|error| failed(&path, &error))??)
    }

    fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
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

    fn forget(&mut self, before: i64) -> Result<(), Error> {
        let sql = "DELETE FROM done WHERE at < ?1";
        self.connection.execute(sql, [before]).map(drop).map_err(|error| self.failed(&error))
    }

    fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        let read = || -> rusqlite::Result<Vec<Logged>> {
            let sql = "SELECT seq, at, actor, verb, kind, body, hash FROM log WHERE seq > ?1
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
                    hash: row.get(6)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.failed(&error))
    }

    fn strays(&mut self) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM record AS r WHERE NOT EXISTS
                   (SELECT 1 FROM log WHERE log.kind = r.kind AND log.body = r.body)";
        let strays = self.connection.query_row(sql, [], |row| row.get(0));
        strays.map_err(|error| self.failed(&error))
    }

    fn add_token(&mut self, name: &str, digest: &str, body: &str) -> Result<bool, Error> {
        let sql = "INSERT INTO token VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let added = self.connection.execute(sql, [name, digest, body]);
        added.map(|rows| rows == 1).map_err(|error| self.failed(&error))
    }

    fn revoke_token(&mut self, name: &str) -> Result<bool, Error> {
        let removed = self.connection.execute("DELETE FROM token WHERE name = ?1", [name]);
        removed.map(|rows| rows > 0).map_err(|error| self.failed(&error))
    }

    fn tokens(&mut self) -> Result<Vec<(String, String)>, Error> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement =
                self.connection.prepare_cached("SELECT digest, body FROM token ORDER BY name")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read().map_err(|error| self.failed(&error))
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

/// The last entry.
fn end_of(connection: &Connection) -> rusqlite::Result<LogEnd> {
    let sql = "SELECT seq, hash FROM log ORDER BY seq DESC LIMIT 1";
    let end = |row: &rusqlite::Row<'_>| Ok(LogEnd { seq: row.get(0)?, hash: row.get(1)? });
    Ok(connection.query_row(sql, [], end).optional()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;

    fn append(store: &mut Sqlite, ids: &[u64], body: &str) -> Result<(), NotWritten> {
        let entry = |id: &u64| Entry {
            at: "2026-11-25T00:00:00Z".to_owned(),
            actor: "ada".to_owned(),
            verb: "reserve".to_owned(),
            kind: "reservation",
            id: *id,
            over: false,
            body: body.to_owned(),
        };
        let entries: Vec<Entry> = ids.iter().map(entry).collect();
        let (after, hashes) = (store.end()?, vec![vec![1; 32]; ids.len()]);
        store.append(&Change { after: &after, entries: &entries, hashes: &hashes, done: &[] })
    }

    #[test]
    fn a_full_database_takes_nothing_and_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Sqlite::open(&folder.path().join("db")).expect("opens");
        assert_eq!(append(&mut store, &[1], "a"), Ok(()));
        let pages: i64 = store
            .connection
            .query_row("PRAGMA page_count", [], |row| row.get(0))
            .expect("a number");
        store.connection.pragma_update(None, "max_page_count", pages).expect("set");
        let large = "x".repeat(100_000);
        let error = append(&mut store, &[2, 3], &large).expect_err("full");
        assert!(!error.in_doubt);
        assert_eq!((error.error.fault, error.error.code), (Fault::Here, ErrorCode::CalendarStore));
        assert!(error.error.hint.is_some_and(|hint| hint.contains("make room")));
        assert_eq!(store.end().map(|end| end.seq), Ok(1), "all of it, or nothing");
        store.connection.pragma_update(None, "max_page_count", 1_000_000).expect("set");
        assert_eq!(append(&mut store, &[2, 3], &large), Ok(()));
        assert_eq!(store.end().map(|end| end.seq), Ok(3));
    }
}
