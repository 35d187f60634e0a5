//! A transaction: statements that are durable together, or not at all.

use super::connection::{Connection, Failure};
use super::{Row, Value, WrongColumn};
use farline_core::units::{Error, ErrorCode, Fault};

/// A transaction that has begun. What was done in it is taken back, unless it comes to its end.
pub(crate) struct Transaction<'a> {
    pub(super) connection: &'a mut dyn Connection,
    pub(super) code: ErrorCode,
    /// What went wrong first: nothing is tried after that.
    pub(super) failed: Option<Failure>,
    pub(super) is_whole: bool,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.connection.rollback();
        }
    }
}

impl Transaction<'_> {
    fn run<T>(
        &mut self,
        step: impl FnOnce(&mut dyn Connection) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        if let Some(failure) = &self.failed {
            return Err(failure.error.clone());
        }
        step(&mut *self.connection).map_err(|failure| {
            let error = failure.error.clone();
            self.failed = Some(failure);
            error
        })
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
        let rows = self.run(|connection| connection.query(sql, values))?;
        super::value::read(rows, read).map_err(|wrong| {
            let message = format!("{}: {wrong}", self.connection.name());
            Error::new(Fault::Here, self.code, message)
        })
    }

    /// Runs `sql` with `values`; returns how many rows it changed.
    ///
    /// # Errors
    /// When the database refuses it.
    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        self.run(|connection| connection.execute(sql, values))
    }

    /// Runs `sql` once for the values of each row, in order, without waiting in between.
    ///
    /// # Errors
    /// When the database refuses one.
    pub(crate) fn execute_each(
        &mut self,
        sql: &'static str,
        rows: &[Vec<Value<'_>>],
    ) -> Result<(), Error> {
        self.run(|connection| connection.execute_each(sql, rows))
    }

    pub(super) fn make_room(&mut self) -> Result<(), Error> {
        self.run(|connection| connection.make_room())
    }

    pub(super) fn define(&mut self, sql: &'static str) -> Result<(), Error> {
        self.run(|connection| connection.define(sql))
    }
}
