//! What statements are given and what rows have: the few types that both databases share.

use std::borrow::Cow;
use std::fmt;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// `BIGINT`.
    Int(i64),
    /// `BOOLEAN`; SQLite gives it back as a number.
    Bool(bool),
    /// `TEXT`.
    Text(Cow<'a, str>),
    /// `BYTEA`.
    Bytes(Cow<'a, [u8]>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

/// No database has numbers above an `i64`'s: what is higher is found nowhere.
impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value<'_> {
    fn from(is: bool) -> Self {
        Value::Bool(is)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::from(text.as_str())
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Value::Bytes(Cow::Borrowed(bytes))
    }
}

/// A row of a reply, whose columns are taken out by their place.
#[derive(Debug)]
pub(crate) struct Row(pub(super) Vec<Option<Value<'static>>>);

/// A column is not of the type that was asked for, or NULL, or not there.
#[derive(Debug, PartialEq)]
pub(crate) struct WrongColumn {
    at: usize,
    wanted: &'static str,
}

impl fmt::Display for WrongColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of its reply is no {}", self.at + 1, self.wanted)
    }
}

impl Row {
    fn take<T>(
        &mut self,
        at: usize,
        wanted: &'static str,
        read: impl FnOnce(Value<'static>) -> Option<T>,
    ) -> Result<T, WrongColumn> {
        let value = self.0.get_mut(at).and_then(Option::take);
        value.and_then(read).ok_or(WrongColumn { at, wanted })
    }

    /// The number in column `at`.
    pub(crate) fn int(&mut self, at: usize) -> Result<i64, WrongColumn> {
        self.take(at, "number", |value| match value {
            Value::Int(number) => Some(number),
            _ => None,
        })
    }

    /// The number in column `at`, which is never negative and is a `T`.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self, at: usize) -> Result<T, WrongColumn> {
        let number = self.int(at)?;
        T::try_from(number).map_err(|_| WrongColumn { at, wanted: "number of its range" })
    }

    /// The text in column `at`.
    pub(crate) fn text(&mut self, at: usize) -> Result<String, WrongColumn> {
        self.take(at, "text", |value| match value {
            Value::Text(text) => Some(text.into_owned()),
            _ => None,
        })
    }

    /// The bytes in column `at`.
    pub(crate) fn bytes(&mut self, at: usize) -> Result<Vec<u8>, WrongColumn> {
        self.take(at, "string of bytes", |value| match value {
            Value::Bytes(bytes) => Some(bytes.into_owned()),
            _ => None,
        })
    }
}

/// Reads each of `rows`.
pub(super) fn read<T>(
    rows: Vec<Row>,
    mut read: impl FnMut(&mut Row) -> Result<T, WrongColumn>,
) -> Result<Vec<T>, WrongColumn> {
    rows.into_iter().map(|mut row| read(&mut row)).collect()
}
