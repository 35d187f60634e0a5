//! A connection to SQLite: one file in WAL mode, synchronous FULL.

use super::connection::{Connection, Failure, NotCommitted};
use super::{Row, Schema, Value};
use farline_core::units::{Error, Fault, Setting};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What SQLite calls PostgreSQL's types, and how it keeps a table in the order of its key. A key
/// that is one `INTEGER PRIMARY KEY` is the row's own number here.
const WORDS: [(&str, &str); 3] =
    [("BIGINT", "INTEGER"), ("BYTEA", "BLOB"), ("));", ")) WITHOUT ROWID;")];

/// How long it waits for another process that writes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Statements that stay prepared.
const PREPARED: usize = 64;

/// The database of one subsystem in a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: rusqlite::Connection,
    schema: &'static Schema,
    path: PathBuf,
    files: DatabaseFiles,
    /// Locked while this one alone may write.
    lock: Option<File>,
}

/// The files that are open. SQLite goes on writing to one that was removed, and says that all is
/// well.
#[derive(Debug)]
struct DatabaseFiles(Vec<(PathBuf, (u64, u64))>);

impl DatabaseFiles {
    /// Those of the database at `path`: itself, and its write-ahead log.
    fn of(path: &Path) -> DatabaseFiles {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let paths = [path.to_owned(), PathBuf::from(wal)];
        let known = |path: PathBuf| device(&path).map(|known| (path, known));
        DatabaseFiles(paths.into_iter().filter_map(known).collect())
    }

    /// The one that is not the file that was opened, and what it is.
    fn astray(&self) -> Option<String> {
        let (path, _) = self.0.iter().find(|(path, known)| device(path) != Some(*known))?;
        let what = if path.exists() { "is another file than was opened" } else { "is gone" };
        Some(format!("{} {what}", path.display()))
    }
}

/// The device and the number of the file at `path`.
fn device(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Sqlite {
    /// Opens the database at `path`, and makes it where there is none.
    pub(super) fn open(schema: &'static Schema, path: &Path) -> Result<Sqlite, Error> {
        let opened = rusqlite::Connection::open(path);
        let connection = opened.map_err(|error| failed(schema, path, &error))?;
        let files = DatabaseFiles(Vec::new());
        let mut open = Sqlite { connection, schema, path: path.to_owned(), files, lock: None };
        open.set_up().map_err(|error| failed(schema, path, &error))?;
        open.files = DatabaseFiles::of(path);
        Ok(open)
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(TIMEOUT)?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.set_prepared_statement_cache_capacity(PREPARED);
        // The first look makes the write-ahead log, which is one of the files from then on.
        self.connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        work(&self.connection).map_err(|error| failed(self.schema, &self.path, &error).into())
    }
}

impl Connection for Sqlite {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn lock(&mut self) -> Result<(), Error> {
        let path = self.path.with_extension("lock");
        let failed = |error: &dyn std::fmt::Display| {
            let message = format!("{}: {error}", path.display());
            Error::new(Fault::Here, self.schema.code, message)
        };
        let file = File::create(&path).map_err(|error| failed(&error))?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                failed(&format!("another {} runs on this database", self.schema.owner))
                    .hint("end it first")
            }
            std::fs::TryLockError::Error(error) => failed(&error),
        })?;
        self.lock = Some(file);
        Ok(())
    }

    fn is_made(&self) -> &'static str {
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'"
    }

    fn make_room(&mut self) -> Result<(), Failure> {
        // Whoever has begun to write is alone.
        Ok(())
    }

    fn define(&mut self, sql: &'static str) -> Result<(), Failure> {
        let sql = WORDS.iter().fold(sql.to_owned(), |sql, (word, here)| sql.replace(word, here));
        self.run(|connection| connection.execute_batch(&sql))
    }

    fn begin(&mut self) -> Result<(), Failure> {
        if let Some(astray) = self.files.astray() {
            let message = format!("the {}'s database: {astray}", self.schema.owner);
            return Err(Error::new(Fault::Here, self.schema.code, message)
                .hint("put the database's files back, or restore a backup and start anew")
                .into());
        }
        // One that reads first and then writes would be refused at once where another process wrote
        // meanwhile; this one waits for its turn at the beginning.
        self.run(|connection| connection.execute_batch("BEGIN IMMEDIATE"))
    }

    fn commit(&mut self) -> Result<(), NotCommitted> {
        let committed = self.connection.execute_batch("COMMIT");
        committed.map_err(|error| {
            let failed_to_sync =
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure);
            self.rollback();
            // What was not synchronized may be found in the log after a crash, whole.
            NotCommitted {
                error: failed(self.schema, &self.path, &error),
                in_doubt: failed_to_sync,
            }
        })
    }

    fn rollback(&mut self) {
        // Some failures have done so already.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn query(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(&numbered(sql))?;
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let columns = (0..columns).map(|at| value(row.get_ref(at)?));
                found.push(Row(columns.collect::<rusqlite::Result<_>>()?));
            }
            Ok(found)
        })
    }

    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Failure> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(&numbered(sql))?;
            statement.execute(rusqlite::params_from_iter(values)).map(|rows| rows as u64)
        })
    }

    fn execute_each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<(), Failure> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(&numbered(sql))?;
            let mut each = rows.iter();
            each.try_for_each(|row| statement.execute(rusqlite::params_from_iter(row)).map(drop))
        })
    }
}

/// `sql` with SQLite's own numbered parameters: `$1` is a name to it, whose number is the order in
/// which it first stands there.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Bool(is) => ValueRef::Integer(i64::from(*is)),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// What stands in a column; `None` for what has no type of ours.
fn value(column: ValueRef<'_>) -> rusqlite::Result<Option<Value<'static>>> {
    Ok(match column {
        ValueRef::Integer(number) => Some(Value::Int(number)),
        ValueRef::Text(_) => Some(Value::Text(Cow::Owned(column.as_str()?.to_owned()))),
        ValueRef::Blob(bytes) => Some(Value::Bytes(Cow::Owned(bytes.to_owned()))),
        ValueRef::Null | ValueRef::Real(_) => None,
    })
}

fn failed(schema: &Schema, path: &Path, error: &rusqlite::Error) -> Error {
    let message = format!("the {}'s database {}: {error}", schema.owner, path.display());
    let made = Error::new(Fault::Here, schema.code, message);
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => made.hint("make room on its disk"),
        Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly) => {
            made.hint(format!("its folder must exist and be writable: see {}", Setting::State))
        }
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            made.hint("restore it from a backup")
        }
        _ => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::ErrorCode;

    static TEXTS: Schema =
        Schema { owner: "test", code: ErrorCode::CalendarStore, locks: [101, 102], versions: &[] };

    #[test]
    fn a_full_database_takes_nothing_and_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Sqlite::open(&TEXTS, &folder.path().join("db")).expect("opens");
        store.define("CREATE TABLE text (text TEXT)").expect("made");
        let write = |store: &mut Sqlite, texts: &[&str]| -> Result<(), Error> {
            let rows: Vec<Vec<Value<'_>>> = texts.iter().map(|text| vec![(*text).into()]).collect();
            store.begin().map_err(|failure| failure.error)?;
            let written = store.execute_each("INSERT INTO text VALUES ($1)", &rows);
            if written.is_err() {
                store.rollback();
            }
            written.map_err(|failure| failure.error)?;
            store.commit().map_err(|not| not.error)
        };
        let count = |store: &mut Sqlite, sql| {
            let mut rows = store.query(sql, &[]).expect("a number");
            rows[0].int(0).expect("a number")
        };
        assert_eq!(write(&mut store, &["a"]), Ok(()));
        let pages = count(&mut store, "PRAGMA page_count");
        store.connection.pragma_update(None, "max_page_count", pages).expect("set");
        let large = "x".repeat(100_000);
        let error = write(&mut store, &["b", &large]).expect_err("full");
        assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::CalendarStore));
        assert!(error.hint.is_some_and(|hint| hint.contains("make room")));
        let all = "SELECT count(*) FROM text";
        assert_eq!(count(&mut store, all), 1, "all of it, or nothing");
        store.connection.pragma_update(None, "max_page_count", 1_000_000).expect("set");
        assert_eq!(write(&mut store, &["b", &large]), Ok(()));
        assert_eq!(count(&mut store, all), 3);
    }
}
