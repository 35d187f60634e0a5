//! The address of a database, which is never printed with its password.

use farline_core::units::{Error, ErrorCode, Fault};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// The URL of a PostgreSQL database: `postgres://USER@HOST/NAME`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DatabaseAddress(String);

impl DatabaseAddress {
    /// All of it, with what is secret.
    #[cfg(feature = "postgres")]
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for DatabaseAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<DatabaseAddress, Error> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(DatabaseAddress(text.to_owned()));
        }
        // The text may hold a password: it is not repeated.
        let message = "a database is postgres://USER@HOST/NAME";
        Err(Error::new(Fault::You, ErrorCode::BadConfig, message)
            .hint("leave it out for SQLite in the state folder"))
    }
}

impl TryFrom<String> for DatabaseAddress {
    type Error = Error;

    fn try_from(text: String) -> Result<DatabaseAddress, Error> {
        text.parse()
    }
}

/// Without password and parameters.
impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let (plain, more) = rest.split_once('?').unwrap_or((rest, ""));
        if more.contains('@') && !plain.contains('@') {
            // A password with a question mark, or a parameter with an `@`: who knows.
            return f.write_str("postgres://...");
        }
        // A password may hold an `@`, and a name of a host none.
        let (user, place) = plain.rsplit_once('@').unwrap_or(("", plain));
        let user = user.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { "" } else { "@" };
        write!(f, "postgres://{user}{at}{place}")
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        for (text, shown) in [
            (
                "postgres://ada:s3cret@db.example.org/farline",
                "postgres://ada@db.example.org/farline",
            ),
            ("postgresql://ada:s3c@ret@db/farline?password=s3cret", "postgres://ada@db/farline"),
            ("postgres:///farline?host=/run/x&password=s3cret", "postgres:///farline"),
            ("postgres://db", "postgres://db"),
            ("postgres://ada:s3c?ret@db/farline", "postgres://..."),
            ("postgres:///farline?password=s3c@ret", "postgres://..."),
        ] {
            let url: DatabaseAddress = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("s3c"), "{url:?}");
        }
        let error = "mysql://ada:s3cret@db".parse::<DatabaseAddress>().expect_err("another");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
