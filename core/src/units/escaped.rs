//! Text of others for people: what would steer a terminal, or hide in a line, is written out.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would take `c` for an order, or a reader for nothing: C0 and C1 controls, and
/// the marks that turn the direction of text or break lines (Unicode UAX #9 and #14).
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `text` with every control written as `\x1b` or `\u{202e}`. What is printable stays, so that
/// doing it twice changes nothing.
///
/// Names come from peers and from whoever made a file: an escape sequence in one would move the
/// cursor, set the window's title or type for the user.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '\n' => plain.write_str("\\n"),
            '\r' => plain.write_str("\\r"),
            '\t' => plain.write_str("\\t"),
            c if steers(c) && u32::from(c) < 0x100 => write!(plain, "\\x{:02x}", u32::from(c)),
            c if steers(c) => write!(plain, "\\u{{{:x}}}", u32::from(c)),
            c => plain.write_char(c),
        };
    }
    Cow::Owned(plain)
}

/// The same of each line of `text`.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| steers(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(escaped).collect();
    Cow::Owned(lines.join("\n"))
}

/// A JSON text in which no control of Unicode stands as it is: JSON lets DEL and C1 through, and a
/// terminal takes U+009B for ESC and `[`. They stand in strings alone, where `\u` says the same.
pub fn escaped_json(json: String) -> String {
    if !json.chars().any(steers) {
        return json;
    }
    let mut plain = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // Writing to a string cannot fail.
        let _ = match u32::from(c) {
            code if steers(c) => write!(plain, "\\u{code:04x}"),
            _ => plain.write_char(c),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_cannot_steer_a_terminal() {
        let nasty = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\rd\ne\u{202e}f\u{7f}";
        assert_eq!(escaped(nasty), "a\\x1b]0;title\\x07b\\x9b2Jc\\rd\\ne\\u{202e}f\\x7f");
        assert_eq!(escaped_lines("a\nb\u{1b}c\n"), "a\nb\\x1bc\n");
        assert!(matches!(escaped("gr\u{fc}n \u{4e2d}\u{6587} %20"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left(text in any::<String>()) {
            let once = escaped(&text).into_owned();
            prop_assert!(!once.chars().any(steers));
            prop_assert_eq!(&*escaped(&once), &once[..]);
            let json = serde_json::to_string(&text).expect("a string");
            let plain = escaped_json(json);
            prop_assert!(!plain.chars().any(steers));
            prop_assert_eq!(serde_json::from_str::<String>(&plain).expect("the same"), text);
        }
    }
}
