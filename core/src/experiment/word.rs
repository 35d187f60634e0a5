//! What tells cells apart in words: values of an axis that a flag takes as a document has them, and
//! the name of a cell.

use crate::units::{Error, ErrorCode, Fault};
use serde::de::DeserializeOwned;
use std::fmt::Display;

/// The value that a document calls `text`, in small letters or large ones.
///
/// # Errors
/// One of these fault and code: that it is no `what`, and as a hint that `known` are.
pub(crate) fn word<T: DeserializeOwned>(
    text: &str,
    (fault, code): (Fault, ErrorCode),
    what: &str,
    known: &str,
) -> Result<T, Error> {
    serde_json::from_value(text.to_lowercase().into()).map_err(|_| {
        Error::new(fault, code, format!("`{text}` is no {what}")).hint(format!("{known} are"))
    })
}

/// Flags take the values of an axis by [`word`].
macro_rules! from_word {
    ($axis:ty, $fault:expr, $code:expr, $what:literal, $known:literal) => {
        impl std::str::FromStr for $axis {
            type Err = $crate::units::Error;

            fn from_str(text: &str) -> Result<$axis, $crate::units::Error> {
                $crate::experiment::word(text, ($fault, $code), $what, $known)
            }
        }
    };
}
pub(crate) use from_word;

/// The name of a cell: what is said of every one, and behind it what differs from the usual.
pub(crate) struct CellName(String);

impl CellName {
    /// What is said of every cell.
    pub(crate) fn new(always: String) -> CellName {
        CellName(always)
    }

    /// Adds `value`, where there is one, with `words` before it.
    pub(crate) fn with(mut self, words: &str, value: Option<impl Display>) -> CellName {
        self.0.extend(value.map(|value| format!("{words}{value}")));
        self
    }

    /// The name.
    pub(crate) fn whole(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::verbs::{QpService, Setup, VerbsMetric};
    use crate::profile::{Order, StagingStore, TrafficDirection};

    #[test]
    fn words_are_taken_as_documents_have_them_and_others_refused() {
        assert_eq!("RC".parse(), Ok(QpService::Rc));
        assert_eq!("exchange".parse(), Ok(Setup::Exchange));
        assert_eq!("both-ways".parse(), Ok(VerbsMetric::BothWays));
        assert_eq!("synchronous".parse(), Ok(Order::Synchronous));
        assert_eq!("back".parse(), Ok(TrafficDirection::Back));
        let error = "tape".parse::<StagingStore>().expect_err("no store");
        assert_eq!(error.message, "`tape` is no store");
        assert_eq!(error.hint.as_deref(), Some("memory and file are"));
    }
}
