//! The hidden names of partial files and journals: made, and recognised (`docs/protocol.md`,
//! clauses ).

/// What ends the names of partial files and of journals.
pub(super) const PARTIAL_TAIL: &str = ".farline";
/// What ends the names of journals.
pub(super) const JOURNAL_TAIL: &str = ".journal.farline";
/// Hexadecimal digits of a tag.
const TAG_LEN: usize = 12;
/// The longest name that Linux file systems take.
pub(super) const NAME_MAX: usize = 255;

/// A hidden name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hidden {
    /// Whether it is a journal's; else it is a partial file's.
    pub(super) is_journal: bool,
    /// The name that it was made of; cut, with a mark behind it, where it was too long.
    pub(super) name: Vec<u8>,
    /// The digits that tell places and paths apart.
    pub(super) tag: String,
}

/// `.NAME` and `tail`, the name cut where the file system's limit asks for it.
pub(super) fn hidden(name: &[u8], tail: &str) -> Vec<u8> {
    let kept = &name[..name.len().min(NAME_MAX - 1 - tail.len())];
    // A cut name may meet another one; what was cut off tells them apart.
    if kept.len() < name.len() {
        let mark = blake3::hash(name).to_hex();
        let kept = &kept[..kept.len() - 16];
        return [b".", kept, &mark.as_bytes()[..16], tail.as_bytes()].concat();
    }
    [b".", kept, tail.as_bytes()].concat()
}

/// Whether `name` is one that Farline makes for what has not landed.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    recognise(name).is_some()
}

/// Takes `name` apart; `None` when it is not of the form that Farline makes.
pub(super) fn recognise(name: &[u8]) -> Option<Hidden> {
    let rest = name.strip_prefix(b".")?;
    let (rest, is_journal) = match rest.strip_suffix(JOURNAL_TAIL.as_bytes()) {
        Some(rest) => (rest, true),
        None => (rest.strip_suffix(PARTIAL_TAIL.as_bytes())?, false),
    };
    let (name, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_LEN)?)?;
    let name = name.strip_suffix(b".").filter(|name| !name.is_empty())?;
    let is_tag = tag.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_tag.then(|| Hidden {
        is_journal,
        name: name.to_vec(),
        tag: String::from_utf8_lossy(tag).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_recognised_and_what_users_make_is_not() {
        for (name, is_journal) in
            [(&b"x"[..], false), (b"a.b c", true), (&[b'n'; 255], false), (&[0xff; 255], true)]
        {
            let tail =
                format!(".0123456789ab{}", if is_journal { JOURNAL_TAIL } else { PARTIAL_TAIL });
            let made = hidden(name, &tail);
            assert!(made.len() <= NAME_MAX);
            let known = recognise(&made).expect("ours");
            assert_eq!((known.is_journal, &known.tag[..]), (is_journal, "0123456789ab"));
            assert!(known.name == name || made.len() == NAME_MAX);
        }
        for name in [
            "x.farline",
            ".x.farline",
            ".x.0123456789AB.farline",
            ".x.123456789ab.farline",
            "..0123456789ab.farline",
        ] {
            assert_eq!(recognise(name.as_bytes()), None, "{name}");
        }
        assert_eq!(recognise(b".farline"), None);
    }
}
