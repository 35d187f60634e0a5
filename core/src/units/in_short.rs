//! Long paths and commands in messages: their two ends, without what would steer a terminal.

use super::escaped;

/// Characters that a message has of one at most.
const MOST: usize = 160;

/// `text`, or its beginning and end where it is long, its controls written out.
pub fn in_short(text: &str) -> String {
    let text = &*escaped(text);
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= MOST {
        return text.to_owned();
    }
    let part = |of: &[char]| of.iter().collect::<String>();
    format!("{}...{}", part(&chars[..MOST * 2 / 3]), part(&chars[chars.len() - MOST / 3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_its_two_ends() {
        assert_eq!(in_short("a/b"), "a/b");
        let long = format!("begin{}end", "\u{e4}".repeat(4000));
        let short = in_short(&long);
        assert!(short.starts_with("begin") && short.ends_with("end"), "{short}");
        assert!(short.chars().count() < 170, "{short}");
    }
}
