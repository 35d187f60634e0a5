//! The ledger over SQLite; `lab/tests/it/calendar_postgres.rs` has it over PostgreSQL.

use super::*;
use crate::database::tests::{Mishap, unreliable};

/// A ledger that panics when it writes.
pub(in crate::calendar) fn panicking(path: &Path) -> Result<Ledger, Error> {
    Ledger::over(unreliable(&CALENDAR, path, Mishap::Panics)?)
}

fn entry(id: u64, body: &str) -> Entry {
    let (at, actor) = ("2026-11-25T00:00:00Z".to_owned(), "ada".to_owned());
    let (verb, body) = ("reserve".to_owned(), body.to_owned());
    Entry { at, actor, verb, kind: RecordKind::Reservation, id, over: false, body }
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
    let mut ledger = Ledger::open(&path).expect("opens again");
    let mut bodies = Vec::new();
    let each = |body: &str| {
        bodies.push(body.to_owned());
        Ok(())
    };
    ledger.records(RecordKind::Reservation, true, each).expect("reads");
    assert_eq!(bodies, ["c", "b"], "the newest of each");
    assert_eq!(ledger.log_after(1, 9).expect("reads").len(), 2);
    assert_eq!(ledger.done("ada", "k"), Ok(Some(done)));
    assert_eq!(ledger.done("eve", "k"), Ok(None));
    assert_eq!(ledger.verify().expect("whole").0, 3);
}

/// What Farline made of a new file before its tables had a layer of their own.
const BEFORE: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE record (
  kind TEXT NOT NULL, id INTEGER NOT NULL, over INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE log (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL);
CREATE TABLE done (
  actor TEXT NOT NULL, key TEXT NOT NULL, request BLOB NOT NULL, status INTEGER NOT NULL,
  body TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (actor, key)) WITHOUT ROWID;
CREATE TABLE token (
  name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, body TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('version', '1');
INSERT INTO token VALUES ('ada', 'digest', '{}');
";

#[test]
fn tables_of_an_earlier_farline_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    rusqlite::Connection::open(&path).and_then(|by| by.execute_batch(BEFORE)).expect("made");
    for seq in [1, 2] {
        let mut ledger = Ledger::open(&path).expect("opens");
        assert_eq!(ledger.write(&[entry(seq, "a")], &[]), Ok(seq));
        assert_eq!(ledger.tables.tokens(), Ok(vec![("digest".to_owned(), "{}".to_owned())]));
        assert_eq!(ledger.verify().expect("whole").0, seq);
    }
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
        let path = folder.path().join("db");
        let mut ledger = Ledger::open(&path).expect("opens");
        let entries = [entry(1, "a"), entry(2, "b"), entry(3, "c")];
        ledger.write(&entries, &[]).expect("writes");
        rusqlite::Connection::open(&path).and_then(|by| by.execute(sql, [])).expect("changed");
        let error = ledger.verify().expect_err(sql);
        assert!(error.message.contains(word), "{sql}: {error}");
    }
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
        assert!(error.error.message.contains(word) && !error.in_doubt, "{error:?}");
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

#[test]
fn what_is_in_the_log_without_us_is_taken_over_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let mut ledger = Ledger::open(&path).expect("opens");
    assert_eq!(ledger.write(&[entry(1, "a")], &[]), Ok(1));
    // As it is when a commit's reply is lost: the log has more than its writer knows.
    let mut other = Ledger::open(&path).expect("opens");
    assert_eq!(other.write(&[entry(2, "b"), entry(3, "c")], &[]), Ok(3));
    let error = ledger.write(&[entry(4, "d")], &[]).expect_err("it does not follow");
    assert!(error.error.message.contains("ends with entry 3"), "{error:?}");
    let news: Vec<String> =
        ledger.news().expect("reads").into_iter().map(|entry| entry.body).collect();
    assert_eq!(news, ["b", "c"]);
    assert!(ledger.news().expect("reads").is_empty());
    assert_eq!(ledger.write(&[entry(4, "d")], &[]), Ok(4));
    // A database that was put back to what it was before has lost what was said yes to.
    let sql = "DELETE FROM log WHERE seq = 4";
    rusqlite::Connection::open(&path).and_then(|by| by.execute(sql, [])).expect("changed");
    let error = ledger.news().expect_err("lost");
    assert!(error.message.contains("entry 4 of the log is lost"), "{error}");
}

#[test]
fn one_calendar_alone_changes_a_book() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let mut first = Ledger::open(&path).expect("opens");
    first.lock().expect("it is the first");
    let mut second = Ledger::open(&path).expect("whoever looks may");
    let error = second.lock().expect_err("another runs");
    assert!(error.message.contains("another calendar runs"), "{error}");
    drop(first);
    second.lock().expect("the first is gone");
}
