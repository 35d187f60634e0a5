//! Numbers with units as people write them, split; and what is said of others.

use std::fmt;

/// Splits `163ms` into its number and its unit; refuses as not `expected` what has no finite,
/// non-negative number.
pub(super) fn number_and_unit<'a>(
    text: &'a str,
    expected: &'static str,
) -> Result<(f64, &'a str), ParseQuantityError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(end);
    let number: f64 = digits.parse().map_err(|_| ParseQuantityError::new(text, expected))?;
    Ok((number, unit.trim_start()))
}

/// A text that is not the quantity that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    expected: &'static str,
    most: Option<&'static str>,
}

impl ParseQuantityError {
    /// More than there is room for.
    pub(super) fn above(text: &str, most: &'static str) -> ParseQuantityError {
        ParseQuantityError { text: text.to_owned(), expected: "", most: Some(most) }
    }

    pub(super) fn new(text: &str, expected: &'static str) -> ParseQuantityError {
        ParseQuantityError { text: text.to_owned(), expected, most: None }
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "`{}` is too much: less than {most} is possible", self.text),
            None => write!(f, "`{}` is not {}", self.text, self.expected),
        }
    }
}

impl std::error::Error for ParseQuantityError {}
