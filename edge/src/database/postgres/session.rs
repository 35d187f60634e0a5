//! A session at a server: statements with values, prepared once, and what a failure of one means.

use super::super::{Row, Value};
use farline_core::units::Error;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

/// Statements that are on their way at once.
const AT_ONCE: usize = 256;

/// Why something was not done at a database.
pub(super) enum Trouble {
    /// By what PostgreSQL or the connection said.
    Said(tokio_postgres::Error),
    /// No reply came in time.
    Late,
    /// By what is in it.
    Other(Error),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        Trouble::Said(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Other(error)
    }
}

impl Trouble {
    /// Whether the session goes on.
    pub(super) fn leaves_session(&self) -> bool {
        match self {
            Trouble::Said(error) => error
                .as_db_error()
                .is_some_and(|said| said.parsed_severity() == Some(Severity::Error)),
            Trouble::Late => false,
            Trouble::Other(_) => true,
        }
    }

    /// Whether it was the session that failed, and at once.
    pub(super) fn broke_session(&self) -> bool {
        matches!(self, Trouble::Said(_)) && !self.leaves_session()
    }
}

/// A session that has begun.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    prepared: BTreeMap<&'static str, Statement>,
}

/// A value as PostgreSQL's client takes it, and its type.
fn parameter<'a>(value: &'a Value<'_>) -> (&'a (dyn ToSql + Sync), Type) {
    match value {
        Value::Int(number) => (number, Type::INT8),
        Value::Bool(is) => (is, Type::BOOL),
        Value::Text(text) => (text, Type::TEXT),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

fn parameters<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| parameter(value).0).collect()
}

/// What stands in a column; `None` for NULL and for what has no type of ours.
fn column(
    row: &tokio_postgres::Row,
    at: usize,
) -> Result<Option<Value<'static>>, tokio_postgres::Error> {
    Ok(match *row.columns()[at].type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map(Value::Int),
        Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(|number| Value::Int(number.into())),
        Type::BOOL => row.try_get::<_, Option<bool>>(at)?.map(Value::Bool),
        Type::TEXT => {
            row.try_get(at).map(|text: Option<String>| text.map(Cow::Owned).map(Value::Text))?
        }
        Type::BYTEA => {
            row.try_get(at).map(|bytes: Option<Vec<u8>>| bytes.map(Cow::Owned).map(Value::Bytes))?
        }
        _ => None,
    })
}

impl Session {
    pub(super) fn new(client: Client) -> Session {
        Session { client, prepared: BTreeMap::new() }
    }

    async fn prepared(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Statement, Trouble> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let types: Vec<Type> = values.iter().map(|value| parameter(value).1).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs statements without values.
    pub(super) async fn define(&mut self, sql: &str) -> Result<(), Trouble> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Trouble> {
        let statement = self.prepared(sql, values).await?;
        let rows = self.client.query(&statement, &parameters(values)).await?;
        let row = |row: &tokio_postgres::Row| {
            let columns = (0..row.len()).map(|at| column(row, at));
            Ok(Row(columns.collect::<Result<_, tokio_postgres::Error>>()?))
        };
        rows.iter().map(row).collect()
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, Trouble> {
        let statement = self.prepared(sql, values).await?;
        Ok(self.client.execute(&statement, &parameters(values)).await?)
    }

    /// Runs `sql` once for each row; the next is on its way before the reply to the one before has
    /// come.
    pub(super) async fn execute_each(
        &mut self,
        sql: &'static str,
        rows: &[Vec<Value<'_>>],
    ) -> Result<(), Trouble> {
        let Some(first) = rows.first() else { return Ok(()) };
        let statement = self.prepared(sql, first).await?;
        let rows: Vec<_> = rows.iter().map(|row| parameters(row)).collect();
        for rows in rows.chunks(AT_ONCE) {
            let mut sent = Vec::with_capacity(rows.len());
            for row in rows {
                let mut reply = Box::pin(self.client.execute(&statement, row));
                // The first look sends it.
                match poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await {
                    Poll::Ready(outcome) => drop(outcome?),
                    Poll::Pending => sent.push(reply),
                }
            }
            for reply in sent {
                reply.await?;
            }
        }
        Ok(())
    }
}
