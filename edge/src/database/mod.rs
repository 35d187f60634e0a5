//! What must survive, in SQL: one layer over SQLite and PostgreSQL, in which every statement is
//! written once.
//!
//! How it fits: a subsystem says which tables it has (`Schema`); a `Database` opens them, brings
//! them to this version, and runs statements with `Value`s and `Row`s; `sqlite` and `postgres` are
//! two `Connection`s, which know no table. The calendar's ledger stands on it.
//!
//! Statements are constants in the words of PostgreSQL that SQLite has too: parameters are `$1`,
//! `$2`, and `ON CONFLICT (...) DO UPDATE SET a = excluded.a` is what both call an upsert. Nothing
//! that comes from outside becomes SQL.
//!
//! Invariants: whatever is written is written in a transaction, which is durable when it returns;
//! reads are asked again where a connection turns out to be broken, and a commit never is.

mod address;
mod connection;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
#[cfg(test)]
pub(crate) mod tests;
mod transaction;
mod value;

pub use address::DatabaseAddress;
pub(crate) use connection::NotCommitted;
pub(crate) use transaction::Transaction;
pub(crate) use value::{Row, Value, WrongColumn};

use connection::{Connection, Failure};
use farline_core::units::{Error, ErrorCode, Fault};
use std::path::Path;

/// The tables of one subsystem.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Whose they are, as messages say it. In PostgreSQL they stand in the schema `farline_OWNER`.
    pub(crate) owner: &'static str,
    /// The code of its errors.
    pub(crate) code: ErrorCode,
    /// Advisory locks in PostgreSQL, which no other schema has: of the one who writes, and of the
    /// one who makes tables.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "SQLite locks files"))]
    pub(crate) locks: [i32; 2],
    /// What makes of each version's tables those of the next, the first of none: in PostgreSQL's
    /// types, and with `IF NOT EXISTS`. SQLite keeps a table by its key where its definition ends
    /// with `PRIMARY KEY (...)`.
    pub(crate) versions: &'static [&'static str],
}

/// What the layer itself keeps with a schema's tables: their version, and when it was last tried to
/// write.
const META: &str =
    "CREATE TABLE IF NOT EXISTS meta (key TEXT, value TEXT NOT NULL, PRIMARY KEY (key));";
const NOTED: &str = "SELECT value FROM meta WHERE key = $1";
const NOTE: &str =
    "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// A database with the tables of one schema.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Box<dyn Connection>,
    schema: &'static Schema,
}

impl Database {
    /// Opens the SQLite database at `path`, and makes it where there is none.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or of a later version.
    pub(crate) fn open(schema: &'static Schema, path: &Path) -> Result<Database, Error> {
        Database::over(schema, Box::new(sqlite::Sqlite::open(schema, path)?))
    }

    /// Opens the PostgreSQL database at `url`, and makes its tables where there are none. It waits
    /// for replies: not to be called where a task of an async runtime runs.
    ///
    /// # Errors
    /// When it cannot be reached, loses what it said was durable, or has tables of a later version.
    #[cfg(feature = "postgres")]
    pub(crate) fn connect(
        schema: &'static Schema,
        url: &DatabaseAddress,
    ) -> Result<Database, Error> {
        Database::over(schema, Box::new(postgres::Postgres::new(schema, url)?))
    }

    /// Says that this build knows no PostgreSQL.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "postgres"))]
    pub(crate) fn connect(schema: &'static Schema, _: &DatabaseAddress) -> Result<Database, Error> {
        Err(Error::not_built(format!("a {}'s database in PostgreSQL", schema.owner), "postgres"))
    }

    fn over(schema: &'static Schema, connection: Box<dyn Connection>) -> Result<Database, Error> {
        let mut database = Database { connection, schema };
        database.migrate()?;
        Ok(database)
    }

    /// How messages call it; without secrets.
    pub(crate) fn name(&self) -> String {
        self.connection.name()
    }

    /// An error of this database's.
    pub(crate) fn error(&self, fault: Fault, what: impl std::fmt::Display) -> Error {
        Error::new(fault, self.schema.code, format!("{}: {what}", self.name()))
    }

    /// Becomes the one that writes, as long as this database is open.
    ///
    /// # Errors
    /// When another is.
    pub(crate) fn lock(&mut self) -> Result<(), Error> {
        self.connection.lock()
    }

    /// Runs `sql` with `values`, and reads each row.
    ///
    /// # Errors
    /// When the database cannot be read, or has other columns.
    pub(crate) fn query<T>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        read: impl FnMut(&mut Row) -> Result<T, WrongColumn>,
    ) -> Result<Vec<T>, Error> {
        let rows = match self.connection.query(sql, values) {
            Err(failure) if failure.broke => self.connection.query(sql, values),
            outcome => outcome,
        };
        let rows = rows.map_err(|failure| failure.error)?;
        value::read(rows, read).map_err(|wrong| self.error(Fault::Here, wrong))
    }

    /// Has `work` change what it likes: all of it is durable when this returns, or nothing. `work`
    /// is run once more where the connection turns out to have been broken.
    ///
    /// # Errors
    /// What `work` says, or why it was not written.
    pub(crate) fn transaction<T>(
        &mut self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, NotCommitted> {
        let value = match self.uncommitted(&mut work) {
            Err(failure) if failure.broke => self.uncommitted(&mut work),
            outcome => outcome,
        };
        let value = value.map_err(|failure| failure.error)?;
        self.connection.commit()?;
        Ok(value)
    }

    /// All of a transaction but its end.
    fn uncommitted<T>(
        &mut self,
        work: &mut impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        self.connection.begin()?;
        let code = self.schema.code;
        let connection = &mut *self.connection;
        let mut transaction = Transaction { connection, code, failed: None, is_whole: false };
        let outcome = work(&mut transaction);
        // A statement that failed has undone what was before it, whatever `work` makes of that.
        if let Some(failure) = transaction.failed.take() {
            return Err(failure);
        }
        transaction.is_whole = outcome.is_ok();
        Ok(outcome?)
    }

    /// Brings the tables to this version.
    fn migrate(&mut self) -> Result<(), Error> {
        let versions = self.schema.versions;
        if self.version()? == versions.len() {
            return Ok(());
        }
        let is_made = self.connection.is_made();
        let migrated = self.transaction(|transaction| {
            transaction.make_room()?;
            // Another may have made them meanwhile.
            let there = transaction.query(is_made, &[], |row| row.int(0))?;
            let noted = match there.first() {
                Some(1) => transaction.query(NOTED, &["version".into()], |row| row.text(0))?,
                _ => Vec::new(),
            };
            let known = noted.first().and_then(|text| text.parse().ok()).unwrap_or(0);
            if known >= versions.len() {
                return Ok(());
            }
            transaction.define(META)?;
            for version in versions.iter().skip(known) {
                transaction.define(version)?;
            }
            let newest = versions.len().to_string();
            transaction.execute(NOTE, &["version".into(), (&newest).into()]).map(drop)
        });
        migrated.map_err(NotCommitted::told)
    }

    /// The version of the tables; 0 where there are none.
    ///
    /// # Errors
    /// When they are of a later one.
    fn version(&mut self) -> Result<usize, Error> {
        if self.query(self.connection.is_made(), &[], |row| row.int(0))? != [1] {
            return Ok(0);
        }
        let noted = self.query(NOTED, &["version".into()], |row| row.text(0))?;
        let Some(noted) = noted.first() else { return Ok(0) };
        let version = noted.parse().ok().filter(|known| *known <= self.schema.versions.len());
        version.ok_or_else(|| {
            let message = format!("{} has tables of version {noted}", self.name());
            Error::new(Fault::Here, self.schema.code, message)
                .hint("a newer farline wrote it: use that")
        })
    }

    /// Writes something, to see whether that can be done.
    ///
    /// # Errors
    /// When it cannot.
    pub(crate) fn probe(&mut self, now: i64) -> Result<(), Error> {
        let now = now.to_string();
        let written =
            self.transaction(|all| all.execute(NOTE, &["probe".into(), (&now).into()]).map(drop));
        written.map_err(NotCommitted::told)
    }
}
