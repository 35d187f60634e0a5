//! The ledger in PostgreSQL: the same tables in a schema of their own, written by the one calendar that
//! holds an advisory lock.
//!
//! A connection that breaks is made anew, later each time. Where it broke while a change was committed,
//! that change is in doubt until the log has been read again. The runtime is the store's own: its
//! methods wait, and are called from threads that may.

mod session;
mod tls;

use super::{Change, DoneRequest, LedgerAddress, LedgerStore, LogEnd, Logged, NotWritten};
use farline_core::units::Error;
use session::{Failure, Sessions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// How long a calendar that begins waits for one that ended to be gone.
const HANDOVER: Duration = Duration::from_secs(5);

/// The database of one calendar at a server.
#[derive(Debug)]
pub(super) struct Postgres(Sessions);

/// What PostgreSQL has for a number that is never negative.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(int: i64) -> u64 {
    u64::try_from(int).unwrap_or_default()
}

/// The last entry of the log.
async fn end(client: &Client) -> Result<LogEnd, tokio_postgres::Error> {
    let sql = "SELECT seq, hash FROM log ORDER BY seq DESC LIMIT 1";
    let row = client.query_typed_opt(sql, &[]).await?;
    let end = row.map(|row| Ok(LogEnd { seq: number(row.try_get(0)?), hash: row.try_get(1)? }));
    end.unwrap_or_else(|| Ok(LogEnd::default()))
}

/// Adds the entries of `change` to the log.
async fn log(client: &Client, change: &Change<'_>) -> Result<(), tokio_postgres::Error> {
    let seqs: Vec<i64> =
        (1..).take(change.entries.len()).map(|at| int(change.after.seq + at)).collect();
    let column = |text: fn(&super::Entry) -> &str| -> Vec<&str> {
        change.entries.iter().map(text).collect()
    };
    let (at, actor) = (column(|entry| &entry.at), column(|entry| &entry.actor));
    let (verb, kind) = (column(|entry| &entry.verb), column(|entry| entry.kind));
    let body = column(|entry| &entry.body);
    let texts = Type::TEXT_ARRAY;
    let sql = "INSERT INTO log SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)";
    client
        .execute_typed(
            sql,
            &[
                (&seqs, Type::INT8_ARRAY),
                (&at, texts.clone()),
                (&actor, texts.clone()),
                (&verb, texts.clone()),
                (&kind, texts.clone()),
                (&body, texts),
                (&change.hashes, Type::BYTEA_ARRAY),
            ],
        )
        .await
        .map(drop)
}

/// Makes each record what the last of its entries says.
async fn records(client: &Client, change: &Change<'_>) -> Result<(), tokio_postgres::Error> {
    let newest: BTreeMap<(&str, u64), &super::Entry> =
        change.entries.iter().map(|entry| ((entry.kind, entry.id), entry)).collect();
    let kind: Vec<&str> = newest.values().map(|entry| entry.kind).collect();
    let id: Vec<i64> = newest.values().map(|entry| int(entry.id)).collect();
    let over: Vec<bool> = newest.values().map(|entry| entry.over).collect();
    let body: Vec<&str> = newest.values().map(|entry| &*entry.body).collect();
    let sql = "INSERT INTO record SELECT * FROM unnest($1, $2, $3, $4)
               ON CONFLICT (kind, id) DO UPDATE SET over = excluded.over, body = excluded.body";
    let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
        (&kind, Type::TEXT_ARRAY),
        (&id, Type::INT8_ARRAY),
        (&over, Type::BOOL_ARRAY),
        (&body, Type::TEXT_ARRAY),
    ];
    client.execute_typed(sql, &columns).await.map(drop)
}

/// Remembers what was done.
async fn remember(client: &Client, done: &DoneRequest) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO done VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (actor, key) DO UPDATE SET
               request = excluded.request, status = excluded.status, body = excluded.body, at = excluded.at";
    let status = i32::from(done.status);
    let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 6] = [
        (&done.actor, Type::TEXT),
        (&done.key, Type::TEXT),
        (&done.request, Type::BYTEA),
        (&status, Type::INT4),
        (&done.body, Type::TEXT),
        (&done.at, Type::INT8),
    ];
    client.execute_typed(sql, &columns).await.map(drop)
}

/// Writes all of `change` but its end.
async fn written(client: &Client, change: &Change<'_>) -> Result<(), Failure> {
    client.batch_execute("BEGIN").await?;
    change.check(&end(client).await?)?;
    if !change.entries.is_empty() {
        log(client, change).await?;
        records(client, change).await?;
    }
    for done in change.done {
        remember(client, done).await?;
    }
    Ok(())
}

impl Postgres {
    /// Connects, and makes the tables where there are none.
    pub(super) fn connect(url: &LedgerAddress) -> Result<Postgres, Error> {
        let mut sessions = Sessions::new(url)?;
        sessions.run(async |_| Ok(()))?;
        Ok(Postgres(sessions))
    }
}

impl LedgerStore for Postgres {
    fn name(&self) -> String {
        self.0.name()
    }

    fn lock(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        // The server may not have noticed yet that the calendar before this one is gone.
        loop {
            match self.0.lock() {
                Err(_) if begun.elapsed() < HANDOVER => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                outcome => return outcome,
            }
        }
    }

    fn meta(&mut self, key: &str) -> Result<Option<String>, Error> {
        self.0.run(async |client| {
            let sql = "SELECT value FROM meta WHERE key = $1";
            let row = client.query_typed_opt(sql, &[(&key, Type::TEXT)]).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.0.run(async |client| {
            let sql = "INSERT INTO meta VALUES ($1, $2)
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            client.execute_typed(sql, &[(&key, Type::TEXT), (&value, Type::TEXT)]).await?;
            Ok(())
        })
    }

    fn records(
        &mut self,
        kind: &str,
        all: bool,
        each: &mut dyn FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        const PAGE: usize = 10_000;
        let mut after = -1_i64;
        loop {
            let rows = self.0.run(async |client| {
                let sql = "SELECT id, body FROM record WHERE kind = $1 AND over <= $2 AND id > $3
                           ORDER BY id LIMIT $4";
                let limit = PAGE as i64;
                let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
                    (&kind, Type::TEXT),
                    (&all, Type::BOOL),
                    (&after, Type::INT8),
                    (&limit, Type::INT8),
                ];
                let rows = client.query_typed(sql, &columns).await?;
                let row = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
                rows.iter().map(row).collect::<Result<Vec<(i64, String)>, Failure>>()
            })?;
            for (id, body) in &rows {
                after = *id;
                each(body)?;
            }
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn last_id(&mut self, kind: &str) -> Result<u64, Error> {
        self.0.run(async |client| {
            let sql = "SELECT coalesce(max(id), 0) FROM record WHERE kind = $1";
            let row = client.query_typed_one(sql, &[(&kind, Type::TEXT)]).await?;
            Ok(number(row.try_get(0)?))
        })
    }

    fn record(&mut self, kind: &str, id: u64) -> Result<Option<String>, Error> {
        self.0.run(async |client| {
            let sql = "SELECT body FROM record WHERE kind = $1 AND id = $2";
            let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                [(&kind, Type::TEXT), (&int(id), Type::INT8)];
            let row = client.query_typed_opt(sql, &columns).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn end(&mut self) -> Result<LogEnd, Error> {
        self.0.run(async |client| Ok(end(client).await?))
    }

    fn append(&mut self, change: &Change<'_>) -> Result<(), NotWritten> {
        // As long as nothing was committed, another connection may begin anew.
        self.0.run_for(change.entries.len(), async |client| written(client, change).await)?;
        self.0.commit()
    }

    fn done(&mut self, actor: &str, key: &str) -> Result<Option<DoneRequest>, Error> {
        self.0.run(async |client| {
            let sql = "SELECT request, status, body, at FROM done WHERE actor = $1 AND key = $2";
            let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                [(&actor, Type::TEXT), (&key, Type::TEXT)];
            let Some(row) = client.query_typed_opt(sql, &columns).await? else { return Ok(None) };
            Ok(Some(DoneRequest {
                actor: actor.to_owned(),
                key: key.to_owned(),
                request: row.try_get(0)?,
                status: u16::try_from(row.try_get::<_, i32>(1)?).unwrap_or_default(),
                body: row.try_get(2)?,
                at: row.try_get(3)?,
            }))
        })
    }

    fn forget(&mut self, before: i64) -> Result<(), Error> {
        self.0.run(async |client| {
            let sql = "DELETE FROM done WHERE at < $1";
            client.execute_typed(sql, &[(&before, Type::INT8)]).await?;
            Ok(())
        })
    }

    fn log_after(&mut self, seq: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        self.0.run(async |client| {
            let sql = "SELECT seq, at, actor, verb, kind, body, hash FROM log WHERE seq > $1
                       ORDER BY seq LIMIT $2";
            let (seq, limit) = (int(seq), int(limit as u64));
            let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                [(&seq, Type::INT8), (&limit, Type::INT8)];
            let entry = |row: &tokio_postgres::Row| {
                Ok(Logged {
                    seq: number(row.try_get(0)?),
                    at: row.try_get(1)?,
                    actor: row.try_get(2)?,
                    verb: row.try_get(3)?,
                    kind: row.try_get(4)?,
                    body: row.try_get(5)?,
                    hash: row.try_get(6)?,
                })
            };
            client.query_typed(sql, &columns).await?.iter().map(entry).collect()
        })
    }

    fn strays(&mut self) -> Result<u64, Error> {
        self.0.run(async |client| {
            let sql = "SELECT count(*) FROM record AS r WHERE NOT EXISTS
                       (SELECT 1 FROM log WHERE log.kind = r.kind AND log.body = r.body)";
            Ok(number(client.query_typed_one(sql, &[]).await?.try_get(0)?))
        })
    }

    fn add_token(&mut self, name: &str, digest: &str, body: &str) -> Result<bool, Error> {
        self.0.run(async |client| {
            let sql = "INSERT INTO token VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            let columns: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                [(&name, Type::TEXT), (&digest, Type::TEXT), (&body, Type::TEXT)];
            Ok(client.execute_typed(sql, &columns).await? == 1)
        })
    }

    fn revoke_token(&mut self, name: &str) -> Result<bool, Error> {
        self.0.run(async |client| {
            let sql = "DELETE FROM token WHERE name = $1";
            Ok(client.execute_typed(sql, &[(&name, Type::TEXT)]).await? > 0)
        })
    }

    fn tokens(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.0.run(async |client| {
            let rows =
                client.query_typed("SELECT digest, body FROM token ORDER BY name", &[]).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
    }
}
