//! What a sender left out of a tree, as one line to its client: `FARLINE omitted=NAME PATH WORDS`
//! (docs/protocol.md, O-4).
//!
//! NAME is the error's name of the table of replies, PATH is below the tree and percent-encoded,
//! WORDS go to the end of the line.

use super::{MAX_LINE, fault};
use crate::units::{Error, in_short, percent};

/// The FEAT line of a server that names what it leaves out.
pub const FEATURE: &str = "FARLINE OMITTED";
/// What such a line begins with.
const PREFIX: &str = "FARLINE omitted=";
/// Bytes of an encoded path, and of words, that have room in a line. Of longer ones it has the two
/// ends.
const MOST_PATH: usize = MAX_LINE - 2 * MOST_WORDS;
const MOST_WORDS: usize = 1024;

/// The line that says that `path` is left out because of `error`.
pub fn omission_line(path: &[u8], error: &Error) -> String {
    let mut words = error.message.replace(|c: char| c.is_control(), " ");
    if words.len() > MOST_WORDS {
        words = in_short(&words);
    }
    let encoded = |path: &[u8]| {
        let mut encoded = Vec::new();
        percent::encode(path, |byte| byte.is_ascii_graphic(), &mut encoded);
        encoded
    };
    let mut at = encoded(path);
    if at.len() > MOST_PATH {
        at = encoded(in_short(&String::from_utf8_lossy(path)).as_bytes());
    }
    format!("{PREFIX}{} {} {words}", fault::name_of(error), String::from_utf8_lossy(&at))
}

/// The path and the reason, as a client tells it, or nothing when `line` is no such line.
pub fn parse_omission(line: &str) -> Option<(Vec<u8>, Error)> {
    let (name, rest) = line.strip_prefix(PREFIX)?.split_once(' ')?;
    let (path, words) = rest.split_once(' ')?;
    let words: String = words.chars().filter(|c| !c.is_control()).collect();
    Some((
        percent::decode(path.as_bytes())?,
        fault::error_named(name, format!("the other end left it out: {words}")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{ErrorCode, Fault};
    use proptest::prelude::*;

    #[test]
    fn a_nodes_own_fault_is_the_other_ends_at_its_client() {
        let error =
            Error::new(Fault::Here, ErrorCode::PermissionDenied, "list a: Permission denied");
        let (path, back) = parse_omission(&omission_line(b"a", &error)).expect("our own line");
        assert_eq!(
            (&path[..], back.code, back.fault),
            (&b"a"[..], ErrorCode::PermissionDenied, Fault::Refused)
        );
        assert!(back.message.ends_with("list a: Permission denied"), "{back}");
        let fifo = Error::new(Fault::You, ErrorCode::NotAFile, "f is a FIFO, not a file");
        let back = parse_omission(&omission_line(b"f", &fifo)).expect("our own line").1;
        assert_eq!((back.code, back.fault), (ErrorCode::NotAFile, Fault::You));
    }

    #[test]
    fn a_path_that_no_line_can_carry_is_named_in_short() {
        let path = b"\xe4".repeat(4000);
        let error = Error::new(Fault::You, ErrorCode::NotAFile, "x".repeat(4000));
        let line = omission_line(&path, &error);
        assert!(line.len() + "114 \r\n".len() <= MAX_LINE, "{}", line.len());
        let (path, error) = parse_omission(&line).expect("our own line");
        assert_eq!(error.code, ErrorCode::NotAFile);
        assert!(String::from_utf8_lossy(&path).contains("..."), "{path:?}");
    }

    #[test]
    fn a_name_of_a_later_version_is_an_error_of_the_other_end() {
        let (path, error) =
            parse_omission("FARLINE omitted=QUARANTINED a%20b why").expect("a line");
        assert_eq!(
            (&path[..], error.code, error.fault),
            (&b"a b"[..], ErrorCode::Io, Fault::There)
        );
        assert_eq!(parse_omission("FARLINE changed=x y z"), None);
        assert_eq!(parse_omission("FARLINE omitted=IO %4 why"), None);
    }

    proptest! {
        #[test]
        fn any_path_survives(path in prop::collection::vec(1u8.., 0..40), words in ".{0,40}") {
            let error = Error::new(Fault::Here, ErrorCode::Storage, words);
            let line = omission_line(&path, &error);
            prop_assert!(!line.contains(['\r', '\n']));
            prop_assert_eq!(parse_omission(&line).expect("our own line").0, path);
        }

        #[test]
        fn any_line_is_safe(line in "FARLINE omitted=.{0,60}") {
            let _ = parse_omission(&line);
        }
    }
}
