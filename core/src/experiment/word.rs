//! Values of an axis that are words: a flag takes them as a document has them.

use serde::de::DeserializeOwned;

/// The value that a document calls `text`, if there is one.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(text.into()).ok()
}

#[cfg(test)]
mod tests {
    use crate::profile::verbs::{QpService, Setup, VerbsMetric};
    use crate::profile::{Order, Store, TrafficDirection};

    #[test]
    fn words_are_taken_as_documents_have_them_and_others_refused() {
        assert_eq!("RC".parse(), Ok(QpService::Rc));
        assert_eq!("exchange".parse(), Ok(Setup::Exchange));
        assert_eq!("both-ways".parse(), Ok(VerbsMetric::BothWays));
        assert_eq!("synchronous".parse(), Ok(Order::Synchronous));
        assert_eq!("back".parse(), Ok(TrafficDirection::Back));
        let error = "tape".parse::<Store>().expect_err("no store");
        assert_eq!(error.message, "`tape` is no store");
        assert_eq!(error.hint.as_deref(), Some("memory and file are"));
    }
}
