//! What kind of problem a refusal is: what a program decides by, and the URN says.

/// How the URN of each kind begins.
const URN: &str = "urn:farline:calendar:";

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::calendar) enum ProblemKind {
    BadRequest,
    Busy,
    Denied,
    InDoubt,
    KeyReused,
    Method,
    NoCapacity,
    NotFound,
    NotJson,
    OverQuota,
    Stale,
    Store,
    TooLarge,
    Unknown,
    WrongState,
}

/// Each kind, as its URN ends.
const KINDS: [(ProblemKind, &str); 15] = [
    (ProblemKind::BadRequest, "bad-request"),
    (ProblemKind::Busy, "busy"),
    (ProblemKind::Denied, "denied"),
    (ProblemKind::InDoubt, "in-doubt"),
    (ProblemKind::KeyReused, "key-reused"),
    (ProblemKind::Method, "method"),
    (ProblemKind::NoCapacity, "no-capacity"),
    (ProblemKind::NotFound, "not-found"),
    (ProblemKind::NotJson, "not-json"),
    (ProblemKind::OverQuota, "over-quota"),
    (ProblemKind::Stale, "stale"),
    (ProblemKind::Store, "store"),
    (ProblemKind::TooLarge, "too-large"),
    (ProblemKind::Unknown, "unknown"),
    (ProblemKind::WrongState, "wrong-state"),
];

impl ProblemKind {
    /// As a document has it for its `type`.
    pub(in crate::calendar) fn urn(self) -> String {
        let name = KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name);
        format!("{URN}{name}")
    }

    /// The kind of a document's `type`; nothing for one of a later version's.
    pub(in crate::calendar) fn of(urn: &str) -> Option<ProblemKind> {
        let slug = urn.strip_prefix(URN)?;
        KINDS.iter().find(|(_, name)| *name == slug).map(|(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_as_it_is_written() {
        for (kind, name) in KINDS {
            assert_eq!(kind.urn(), format!("urn:farline:calendar:{name}"));
            assert_eq!(ProblemKind::of(&kind.urn()), Some(kind));
        }
        for other in ["urn:farline:calendar:", "urn:elsewhere:busy", "busy", "about:blank"] {
            assert_eq!(ProblemKind::of(other), None, "{other}");
        }
    }
}
