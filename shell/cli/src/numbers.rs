//! Numbers and addresses as flags take them, and what is said of others.

use clap::Error;
use farline_core::units::Span;
use std::error::Error as _;
use std::net::SocketAddr;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Whole seconds: a bare number of them, or a time with a unit.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time such as 60, 90s or 2min");
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let span: Span = text.parse().map_err(|_| wrong())?;
    let nanos = span.as_nanos();
    if !nanos.is_multiple_of(1_000_000_000) {
        return Err(format!("`{text}` is no number of whole seconds"));
    }
    Ok(nanos / 1_000_000_000)
}

/// Where to listen.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not an address with its port, such as 0.0.0.0:2811 or [::]:2811")
    })
}

/// What the parser of a plain number said of a value, and what it means.
pub(crate) fn meant(wrong: &Error) -> Option<(String, &'static str)> {
    let source = wrong.source()?;
    let meaning = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::Empty) => "a number is missing",
        Some(IntErrorKind::PosOverflow) => "the number is too large",
        Some(_) => "not a whole number",
        None => {
            source.downcast_ref::<ParseFloatError>()?;
            "not a number"
        }
    };
    Some((source.to_string(), meaning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::Parser;

    #[test]
    fn seconds_need_no_unit_and_may_have_one() {
        for (text, value) in [("60", 60), ("0", 0), ("90s", 90), ("2min", 120), ("0s", 0)] {
            assert_eq!(seconds(text), Ok(value), "{text}");
        }
        for text in ["", "x", "5 parsecs", "-1", "1.5"] {
            let said = seconds(text).expect_err(text);
            assert_eq!(said, format!("`{text}` is not a time such as 60, 90s or 2min"));
        }
        assert!(seconds("1500ms").is_err_and(|said| said.contains("whole seconds")));
    }

    #[test]
    fn a_number_that_is_none_is_called_so() {
        for (value, said) in [("x", "not a whole number"), ("", "a number is missing")] {
            let wrong = Cli::try_parse_from(["farline", "sync", "--max-delete", value, "a", "b"]);
            let wrong = wrong.err().expect("no number");
            assert_eq!(meant(&wrong).map(|(_, meaning)| meaning), Some(said), "{value}");
        }
        assert!(address("foo").is_err_and(|said| said.contains("[::]:2811")));
        assert_eq!(address("[::]:2811"), Ok(SocketAddr::from(([0; 8], 2811))));
    }
}
