//! The calendar's tables: all that knows their names, their columns and the statements on them.

use super::entry::{Change, DoneRequest, Entry, LogEnd, Logged, RecordKind};
use crate::database::{Database, NotCommitted, Row, Schema, Value, WrongColumn};
use farline_core::units::{Error, ErrorCode};

pub(super) static CALENDAR: Schema = Schema {
    owner: "calendar",
    code: ErrorCode::CalendarStore,
    locks: [1, 2],
    versions: &["
CREATE TABLE IF NOT EXISTS record (
  kind TEXT NOT NULL, id BIGINT NOT NULL, over BOOLEAN NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, id));
CREATE TABLE IF NOT EXISTS log (
  seq BIGINT PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, hash BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS done (
  actor TEXT NOT NULL, key TEXT NOT NULL, request BYTEA NOT NULL, status INTEGER NOT NULL,
  body TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (actor, key));
CREATE TABLE IF NOT EXISTS token (
  name TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, body TEXT NOT NULL, PRIMARY KEY (name));
"],
};

const LOG_END: &str = "SELECT seq, hash FROM log ORDER BY seq DESC LIMIT 1";
const LOG_AFTER: &str = "SELECT seq, at, actor, verb, kind, body, hash FROM log
  WHERE seq > $1 ORDER BY seq LIMIT $2";
const ADD_TO_LOG: &str = "INSERT INTO log VALUES ($1, $2, $3, $4, $5, $6, $7)";

const RECORD: &str = "SELECT body FROM record WHERE kind = $1 AND id = $2";
const RECORDS: &str = "SELECT id, body FROM record
  WHERE kind = $1 AND over <= $2 AND id > $3 ORDER BY id LIMIT $4";
const LAST_ID: &str = "SELECT coalesce(max(id), 0) FROM record WHERE kind = $1";
const STRAYS: &str = "SELECT count(*) FROM record AS r WHERE NOT EXISTS
  (SELECT 1 FROM log WHERE log.kind = r.kind AND log.body = r.body)";
const SET_RECORD: &str = "INSERT INTO record VALUES ($1, $2, $3, $4)
  ON CONFLICT (kind, id) DO UPDATE SET over = excluded.over, body = excluded.body";

const DONE: &str = "SELECT request, status, body, at FROM done WHERE actor = $1 AND key = $2";
const SET_DONE: &str = "INSERT INTO done VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (actor, key) DO UPDATE SET request = excluded.request, status = excluded.status,
  body = excluded.body, at = excluded.at";
const FORGET: &str = "DELETE FROM done WHERE at < $1";

const TOKENS: &str = "SELECT digest, body FROM token ORDER BY name";
const ADD_TOKEN: &str = "INSERT INTO token VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const REVOKE_TOKEN: &str = "DELETE FROM token WHERE name = $1";

/// Records that are read at a time.
const RECORDS_AT_ONCE: usize = 10_000;

/// The tables of one calendar.
#[derive(Debug)]
pub(super) struct Tables(pub(super) Database);

fn log_end(row: &mut Row) -> Result<LogEnd, WrongColumn> {
    Ok(LogEnd { seq: row.number(0)?, hash: row.bytes(1)? })
}

fn logged(row: &mut Row) -> Result<Logged, WrongColumn> {
    Ok(Logged {
        seq: row.number(0)?,
        at: row.text(1)?,
        actor: row.text(2)?,
        verb: row.text(3)?,
        kind: row.text(4)?,
        body: row.text(5)?,
        hash: row.bytes(6)?,
    })
}

fn log_row<'a>(seq: u64, entry: &'a Entry, hash: &'a Vec<u8>) -> Vec<Value<'a>> {
    let Entry { at, actor, verb, kind, body, .. } = entry;
    vec![
        seq.into(),
        at.into(),
        actor.into(),
        verb.into(),
        kind.as_str().into(),
        body.into(),
        hash.into(),
    ]
}

fn record_row(entry: &Entry) -> Vec<Value<'_>> {
    vec![entry.kind.as_str().into(), entry.id.into(), entry.over.into(), (&entry.body).into()]
}

fn done_row(done: &DoneRequest) -> Vec<Value<'_>> {
    let status = i64::from(done.status);
    let DoneRequest { actor, key, request, body, at, .. } = done;
    vec![actor.into(), key.into(), request.into(), status.into(), body.into(), (*at).into()]
}

impl Tables {
    /// The last entry of the log.
    pub(super) fn end(&mut self) -> Result<LogEnd, Error> {
        Ok(self.0.query(LOG_END, &[], log_end)?.pop().unwrap_or_default())
    }

    /// Writes all of `change`, if the log ends where it follows.
    pub(super) fn append(&mut self, change: &Change<'_>) -> Result<(), NotCommitted> {
        let numbered = (change.after.seq + 1..).zip(change.entries).zip(change.hashes);
        let log: Vec<_> = numbered.map(|((seq, entry), hash)| log_row(seq, entry, hash)).collect();
        let records: Vec<_> = change.entries.iter().map(record_row).collect();
        let done: Vec<_> = change.done.iter().map(done_row).collect();
        self.0.transaction(|all| {
            change.check(&all.query(LOG_END, &[], log_end)?.pop().unwrap_or_default())?;
            all.execute_each(ADD_TO_LOG, &log)?;
            all.execute_each(SET_RECORD, &records)?;
            all.execute_each(SET_DONE, &done)
        })
    }

    /// Up to `limit` entries of the log after `seq`, in order.
    pub(super) fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        self.0.query(LOG_AFTER, &[seq.into(), (limit as u64).into()], logged)
    }

    /// Reads every record of `kind`: those that are not over, or all.
    pub(super) fn records(
        &mut self,
        kind: RecordKind,
        all: bool,
        mut each: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut after = -1_i64;
        loop {
            let limit = (RECORDS_AT_ONCE as u64).into();
            let values = [kind.as_str().into(), all.into(), after.into(), limit];
            let rows = self.0.query(RECORDS, &values, |row| Ok((row.int(0)?, row.text(1)?)))?;
            for (id, body) in &rows {
                after = *id;
                each(body)?;
            }
            if rows.len() < RECORDS_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// The highest number that a record of `kind` has; 0 where there is none.
    pub(super) fn last_id(&mut self, kind: RecordKind) -> Result<u64, Error> {
        let found = self.0.query(LAST_ID, &[kind.as_str().into()], |row| row.number(0))?;
        Ok(found.first().copied().unwrap_or_default())
    }

    /// The body of one record.
    pub(super) fn record(&mut self, kind: RecordKind, id: u64) -> Result<Option<String>, Error> {
        Ok(self.0.query(RECORD, &[kind.as_str().into(), id.into()], |row| row.text(0))?.pop())
    }

    /// How many records are not as the log has them.
    pub(super) fn strays(&mut self) -> Result<u64, Error> {
        let found = self.0.query(STRAYS, &[], |row| row.number(0))?;
        Ok(found.first().copied().unwrap_or_default())
    }

    /// The request of `actor` with that key, if it was done.
    pub(super) fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
        let found = self.0.query(DONE, &[actor.into(), key.into()], |row| {
            Ok(DoneRequest {
                actor: actor.to_owned(),
                key: key.to_owned(),
                request: row.bytes(0)?,
                status: row.number(1)?,
                body: row.text(2)?,
                at: row.int(3)?,
            })
        });
        Ok(found?.pop())
    }

    /// Forgets requests that were done before `before`, in seconds since 1970.
    pub(super) fn forget(&mut self, before: i64) -> Result<(), Error> {
        let forgotten = self.0.transaction(|all| all.execute(FORGET, &[before.into()]));
        forgotten.map(drop).map_err(NotCommitted::told)
    }

    /// Adds a token; returns whether there was none of that name.
    pub(super) fn add_token(
        &mut self,
        name: &str,
        digest: &str,
        body: &str,
    ) -> Result<bool, Error> {
        let token = [name.into(), digest.into(), body.into()];
        let added = self.0.transaction(|all| all.execute(ADD_TOKEN, &token));
        added.map(|rows| rows == 1).map_err(NotCommitted::told)
    }

    /// Removes a token; returns whether there was one.
    pub(super) fn revoke_token(&mut self, name: &str) -> Result<bool, Error> {
        let revoked = self.0.transaction(|all| all.execute(REVOKE_TOKEN, &[name.into()]));
        revoked.map(|rows| rows > 0).map_err(NotCommitted::told)
    }

    /// Digest and body of each token.
    pub(super) fn tokens(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.0.query(TOKENS, &[], |row| Ok((row.text(0)?, row.text(1)?)))
    }
}
