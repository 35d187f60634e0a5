//! What a database promises whichever it is, over SQLite and over connections that break on
//! purpose. `lab/tests/it/calendar_postgres.rs` has the same over PostgreSQL.

use super::connection::{Connection, Failure};
use super::*;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

static NAMES: Schema = Schema {
    owner: "test",
    code: ErrorCode::CalendarStore,
    locks: [101, 102],
    versions: &[
        "CREATE TABLE IF NOT EXISTS name (name TEXT NOT NULL, PRIMARY KEY (name));",
        "CREATE TABLE IF NOT EXISTS age (name TEXT NOT NULL, age BIGINT, PRIMARY KEY (name));",
    ],
};
static FIRST: Schema = Schema {
    owner: "test",
    code: ErrorCode::CalendarStore,
    locks: [101, 102],
    versions: &[NAMES.versions[0]],
};

const ADD: &str = "INSERT INTO name VALUES ($1)";
const ALL: &str = "SELECT name FROM name ORDER BY name";

/// What a connection that is not to be relied on does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mishap {
    /// Is found to be broken by the first statement after `begin`, once.
    Breaks,
    /// Breaks while it commits, which it has done.
    Doubt,
    /// Panics while it commits.
    Panics,
}

/// A connection to SQLite to which one thing happens.
#[derive(Debug)]
struct Unreliable {
    real: sqlite::Sqlite,
    mishap: Option<Mishap>,
}

impl Connection for Unreliable {
    fn name(&self) -> String {
        self.real.name()
    }

    fn lock(&mut self) -> Result<(), Error> {
        self.real.lock()
    }

    fn is_made(&self) -> &'static str {
        self.real.is_made()
    }

    fn make_room(&mut self) -> Result<(), Failure> {
        self.real.make_room()
    }

    fn define(&mut self, sql: &'static str) -> Result<(), Failure> {
        self.real.define(sql)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.real.begin()
    }

    fn commit(&mut self) -> Result<(), NotCommitted> {
        if self.mishap == Some(Mishap::Panics) {
            panic!("on purpose");
        }
        self.real.commit()?;
        match self.mishap.take_if(|mishap| *mishap == Mishap::Doubt) {
            Some(_) => Err(NotCommitted { error: gone(), in_doubt: true }),
            None => Ok(()),
        }
    }

    fn rollback(&mut self) {
        self.real.rollback();
    }

    fn query(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        self.real.query(sql, values)
    }

    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Failure> {
        if self.mishap.take_if(|mishap| *mishap == Mishap::Breaks).is_some() {
            return Err(Failure { error: gone(), broke: true });
        }
        self.real.execute(sql, values)
    }

    fn execute_each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<(), Failure> {
        self.real.execute_each(sql, rows)
    }
}

fn gone() -> Error {
    Error::new(Fault::There, ErrorCode::CalendarStore, "the connection is gone")
}

/// The database at `path`, to which `mishap` happens.
pub(crate) fn unreliable(
    schema: &'static Schema,
    path: &Path,
    mishap: Mishap,
) -> Result<Database, Error> {
    drop(Database::open(schema, path)?);
    let real = sqlite::Sqlite::open(schema, path)?;
    Database::over(schema, Box::new(Unreliable { real, mishap: Some(mishap) }))
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    (folder, path)
}

fn add(database: &mut Database, name: &str) -> Result<u64, NotCommitted> {
    database.transaction(|all| all.execute(ADD, &[name.into()]))
}

fn names(database: &mut Database) -> Vec<String> {
    database.query(ALL, &[], |row| row.text(0)).expect("reads")
}

#[test]
fn each_parameter_is_the_one_of_its_number() {
    let (_folder, path) = folder();
    let mut database = Database::open(&NAMES, &path).expect("opens");
    let sql = "SELECT $2, $1, $2";
    let read = |row: &mut Row| Ok((row.text(0)?, row.number::<u8>(1)?, row.text(2)?));
    let found = database.query(sql, &[7_i64.into(), "b".into()], read);
    assert_eq!(found, Ok(vec![("b".to_owned(), 7, "b".to_owned())]));
    let wrong = database.query(sql, &[700_i64.into(), "b".into()], read).expect_err("too high");
    assert!(wrong.message.contains("column 2 of its reply is no number"), "{wrong}");
}

#[test]
fn tables_are_brought_to_this_version_and_no_further() {
    let (_folder, path) = folder();
    let mut first = Database::open(&FIRST, &path).expect("opens");
    assert_eq!(add(&mut first, "ada"), Ok(1));
    drop(first);
    for _ in 0..2 {
        let mut second = Database::open(&NAMES, &path).expect("is brought to it once");
        assert_eq!(names(&mut second), ["ada"]);
        let ages = second.query("SELECT count(*) FROM age", &[], |row| row.int(0));
        assert_eq!(ages, Ok(vec![0]));
    }
    let error = Database::open(&FIRST, &path).expect_err("it knows no second version");
    assert!(error.message.contains("has tables of version 2"), "{error}");
}

#[test]
fn who_reads_and_then_writes_is_not_overtaken() {
    let (_folder, path) = folder();
    let mut first = Database::open(&NAMES, &path).expect("opens");
    let mut second = Some(Database::open(&NAMES, &path).expect("opens"));
    let (wrote, has_written) = channel();
    std::thread::scope(|scope| {
        let outcome = first.transaction(|all| {
            assert_eq!(all.query(ALL, &[], |row| row.text(0))?, [""; 0]);
            let (mut second, wrote) = (second.take().expect("once"), wrote.clone());
            let waits = scope.spawn(move || {
                let outcome = add(&mut second, "eve");
                let _ = wrote.send(());
                outcome
            });
            // Time enough for one that would not wait.
            let _ = has_written.recv_timeout(Duration::from_millis(200));
            Ok((all.execute(ADD, &["ada".into()])?, waits))
        });
        let (rows, waits) = outcome.expect("it has its turn");
        assert_eq!((rows, waits.join().expect("no panic")), (1, Ok(1)));
    });
    assert_eq!(names(&mut first), ["ada", "eve"]);
}

#[test]
fn a_failure_that_is_passed_over_commits_nothing() {
    let (_folder, path) = folder();
    let mut database = Database::open(&NAMES, &path).expect("opens");
    let outcome = database.transaction(|all| {
        all.execute(ADD, &["ada".into()])?;
        let _ = all.execute(ADD, &["ada".into()]);
        let _ = all.execute(ADD, &["eve".into()]);
        Ok(())
    });
    let not = outcome.expect_err("one of two");
    assert!(!not.in_doubt && not.error.message.contains("UNIQUE"), "{not:?}");
    assert_eq!(names(&mut database), [""; 0]);
    assert_eq!(add(&mut database, "ada"), Ok(1), "it goes on");
}

#[test]
fn what_panics_leaves_no_transaction_open() {
    let (_folder, path) = folder();
    let mut database = Database::open(&NAMES, &path).expect("opens");
    let panics = std::panic::AssertUnwindSafe(|| {
        database.transaction(|all| -> Result<(), Error> {
            all.execute(ADD, &["ada".into()])?;
            panic!("on purpose");
        })
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(names(&mut database), [""; 0]);
    assert_eq!(add(&mut database, "eve"), Ok(1));
}

#[test]
fn what_a_broken_connection_had_begun_is_begun_again() {
    let (_folder, path) = folder();
    let mut database = unreliable(&NAMES, &path, Mishap::Breaks).expect("opens");
    let mut runs = 0;
    let outcome = database.transaction(|all| {
        runs += 1;
        all.execute(ADD, &["ada".into()])
    });
    assert_eq!((outcome, runs), (Ok(1), 2));
    assert_eq!(names(&mut database), ["ada"]);
}

#[test]
fn a_commit_in_doubt_is_told_and_not_repeated() {
    let (_folder, path) = folder();
    let mut database = unreliable(&NAMES, &path, Mishap::Doubt).expect("opens");
    let mut runs = 0;
    let outcome = database.transaction(|all| {
        runs += 1;
        all.execute(ADD, &["ada".into()])
    });
    let not = outcome.expect_err("nobody knows");
    assert!(not.in_doubt && runs == 1, "{not:?}");
    assert!(not.told().message.ends_with("whether it was written is not known"));
    assert_eq!(names(&mut database), ["ada"]);
}
