//! What a database's connection does, whichever it is, and why it did not.

use super::{Row, Value};
use farline_core::units::Error;
use std::fmt::Debug;

/// Why a connection did not do something.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// Whether a new connection may do it: this one was broken before it began.
    pub(super) broke: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, broke: false }
    }
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotCommitted {
    pub(crate) error: Error,
    /// Whether it may have been all the same: the connection broke before the database said so.
    pub(crate) in_doubt: bool,
}

impl From<Error> for NotCommitted {
    fn from(error: Error) -> NotCommitted {
        NotCommitted { error, in_doubt: false }
    }
}

impl NotCommitted {
    /// The error, for who has no way to find out whether it was.
    pub(crate) fn told(self) -> Error {
        let mut error = self.error;
        if self.in_doubt {
            error.message += "; whether it was written is not known";
        }
        error
    }
}

/// A connection to a database, which knows no table. After a failure of a statement within a
/// transaction, all that may follow is `rollback`.
pub(super) trait Connection: Send + Debug {
    /// How messages call the database; without secrets.
    fn name(&self) -> String;
    /// Makes sure that nobody else holds the schema's lock as long as this connection lives.
    fn lock(&mut self) -> Result<(), Error>;
    /// A query that counts the schema's tables `meta`: 1 or 0.
    fn is_made(&self) -> &'static str;
    /// Makes room for tables, within a transaction, and waits for who else does.
    fn make_room(&mut self) -> Result<(), Failure>;
    /// Runs statements that define tables.
    fn define(&mut self, sql: &'static str) -> Result<(), Failure>;
    fn begin(&mut self) -> Result<(), Failure>;
    fn commit(&mut self) -> Result<(), NotCommitted>;
    fn rollback(&mut self);
    fn query(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure>;
    /// Returns how many rows it changed.
    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Failure>;
    /// Runs a statement once for the values of each row, in order.
    fn execute_each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<(), Failure>;
}
