//! Rows as typed columns, for whatever reads tables: the type of each column is said once, and
//! every format follows it.

use std::fmt::Write;

/// A table by columns; each has a value, or none, for every row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// What the rows are of, for formats with room for it: the document's schema first.
    pub about: Vec<(&'static str, String)>,
    /// Names, units included, and what stands in them.
    pub columns: Vec<(&'static str, ColumnValues)>,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Words.
    Text(Vec<Option<String>>),
    /// Whole numbers: counts, bytes, bits per second, nanoseconds.
    Whole(Vec<Option<u64>>),
    /// Any numbers: seconds, shares.
    Real(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
    /// A list of whole numbers in each row.
    Wholes(Vec<Vec<u64>>),
}

/// How a column takes its values from rows of type `R`.
pub enum ColumnSource<R> {
    /// As [`ColumnValues::Text`].
    Text(fn(&R) -> Option<String>),
    /// As [`ColumnValues::Whole`].
    Whole(fn(&R) -> Option<u64>),
    /// As [`ColumnValues::Real`].
    Real(fn(&R) -> Option<f64>),
    /// As [`ColumnValues::Flag`].
    Flag(fn(&R) -> Option<bool>),
    /// As [`ColumnValues::Wholes`].
    Wholes(fn(&R) -> Vec<u64>),
}

impl<R> ColumnSource<R> {
    fn of(&self, rows: &[R]) -> ColumnValues {
        match self {
            ColumnSource::Text(value) => ColumnValues::Text(rows.iter().map(value).collect()),
            ColumnSource::Whole(value) => ColumnValues::Whole(rows.iter().map(value).collect()),
            ColumnSource::Real(value) => ColumnValues::Real(rows.iter().map(value).collect()),
            ColumnSource::Flag(value) => ColumnValues::Flag(rows.iter().map(value).collect()),
            ColumnSource::Wholes(value) => ColumnValues::Wholes(rows.iter().map(value).collect()),
        }
    }
}

impl ColumnValues {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        match self {
            ColumnValues::Text(all) => all.len(),
            ColumnValues::Whole(all) => all.len(),
            ColumnValues::Real(all) => all.len(),
            ColumnValues::Flag(all) => all.len(),
            ColumnValues::Wholes(all) => all.len(),
        }
    }

    /// The value of `row` as text, empty where there is none; a list has blanks between its
    /// numbers.
    fn text(&self, row: usize) -> String {
        fn text<T: ToString>(all: &[Option<T>], row: usize) -> String {
            all.get(row).and_then(Option::as_ref).map(T::to_string).unwrap_or_default()
        }
        match self {
            ColumnValues::Text(all) => text(all, row),
            ColumnValues::Whole(all) => text(all, row),
            ColumnValues::Real(all) => text(all, row),
            ColumnValues::Flag(all) => text(all, row),
            ColumnValues::Wholes(all) => {
                let list = all.get(row).map(Vec::as_slice).unwrap_or_default();
                list.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

impl Columns {
    /// The columns called `sources` of `rows`.
    pub fn of<R>(
        about: Vec<(&'static str, String)>,
        rows: &[R],
        sources: &[(&'static str, ColumnSource<R>)],
    ) -> Columns {
        Columns {
            about,
            columns: sources.iter().map(|(name, source)| (*name, source.of(rows))).collect(),
        }
    }

    /// As comma-separated values (RFC 4180): a line of names, and a line for each row.
    pub fn csv(&self) -> String {
        let mut text = self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        text.push_str("\r\n");
        for row in 0..self.columns.first().map_or(0, |(_, values)| values.rows()) {
            let fields: Vec<String> =
                self.columns.iter().map(|(_, values)| quoted(values.text(row))).collect();
            // Writing to a string does not fail.
            let _ = write!(text, "{}\r\n", fields.join(","));
        }
        text
    }
}

/// RFC 4180, section 2: a field with a comma, a quote or a line end stands in quotes, its own
/// quotes doubled.
fn quoted(field: String) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}
