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

/// Each kind.
const KINDS: [ProblemKind; 15] = [
    ProblemKind::BadRequest,
    ProblemKind::Busy,
    ProblemKind::Denied,
    ProblemKind::InDoubt,
    ProblemKind::KeyReused,
    ProblemKind::Method,
    ProblemKind::NoCapacity,
    ProblemKind::NotFound,
    ProblemKind::NotJson,
    ProblemKind::OverQuota,
    ProblemKind::Stale,
    ProblemKind::Store,
    ProblemKind::TooLarge,
    ProblemKind::Unknown,
    ProblemKind::WrongState,
];

impl ProblemKind {
    /// How its URN ends.
    const fn slug(self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "bad-request",
            ProblemKind::Busy => "busy",
            ProblemKind::Denied => "denied",
            ProblemKind::InDoubt => "in-doubt",
            ProblemKind::KeyReused => "key-reused",
            ProblemKind::Method => "method",
            ProblemKind::NoCapacity => "no-capacity",
            ProblemKind::NotFound => "not-found",
            ProblemKind::NotJson => "not-json",
            ProblemKind::OverQuota => "over-quota",
            ProblemKind::Stale => "stale",
            ProblemKind::Store => "store",
            ProblemKind::TooLarge => "too-large",
            ProblemKind::Unknown => "unknown",
            ProblemKind::WrongState => "wrong-state",
        }
    }

    /// As a document has it for its `type`.
    pub(in crate::calendar) fn urn(self) -> String {
        format!("{URN}{}", self.slug())
    }

    /// The kind of a document's `type`; nothing for one of a later version's.
    pub(in crate::calendar) fn of(urn: &str) -> Option<ProblemKind> {
        let slug = urn.strip_prefix(URN)?;
        KINDS.into_iter().find(|kind| kind.slug() == slug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_as_it_is_written() {
        for kind in KINDS {
            assert!(kind.urn().starts_with("urn:farline:calendar:"));
            assert_eq!(ProblemKind::of(&kind.urn()), Some(kind));
        }
        for other in ["urn:farline:calendar:", "urn:elsewhere:busy", "busy", "about:blank"] {
            assert_eq!(ProblemKind::of(other), None, "{other}");
        }
    }
}
