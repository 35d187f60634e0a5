//! Nothing is decided by words for people: sources that ask a message, a note or a string that says
//! what kind a thing is, where a code, an enum or a field should say it.

use crate::house::{is_test, read_sources};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// What people and programs meet: the lab's own errors are nobody's.
const SOURCES: [&str; 3] = ["core/src", "edge/src", "shell/cli/src"];
/// Names of what holds words for people.
const WORDS: [&str; 6] = ["message", "note", "hint", "said", "evidence", "remark"];
/// Names of what says what a thing is: an enum, and no string that is held against a literal.
const KINDS: [&str; 2] = ["kind", "across"];
/// What asks words what they say; a literal or a constant follows.
const ASKS: [&str; 6] = [".contains(", ".starts_with(", ".ends_with(", ".find(", " == ", " != "];
/// Files that must ask words, for these are other programs' or the kernel's, which say no more:
/// with the reason. This list only shrinks.
const MUST_ASK: [(&str, &str); 5] = [
    ("edge/src/client/ssh.rs", "OpenSSH tells a refusal from a lost path by words alone"),
    ("edge/src/sys/route.rs", "the kernel's name of a queueing discipline"),
    ("edge/src/sys/queueing.rs", "the kernel's names of disciplines and filters"),
    ("edge/src/circuit/linux/base.rs", "the kernel's name of a queueing discipline"),
    ("edge/src/circuit/linux/mod.rs", "the kernel's name of a queueing discipline"),
];

/// What the sources of the workspace at `root` decide by words.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for folder in SOURCES {
        read_sources(root, &root.join(folder), &mut files)?;
    }
    let mut found: Vec<String> =
        files.iter().flat_map(|(path, text)| by_words(path, text)).collect();
    found.extend(needless(&files));
    Ok(found)
}

/// A file without the tests at its bottom.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// Lines that ask words for people what a code, an enum or a field should say.
fn by_words(path: &str, text: &str) -> Vec<String> {
    if is_test(path) || MUST_ASK.iter().any(|(file, _)| *file == path) {
        return Vec::new();
    }
    let asking = |(at, line): (usize, &str)| asked(line).map(|word| (at + 1, word));
    let asking = product(text).lines().enumerate().filter_map(asking);
    asking
        .map(|(at, word)| {
            format!("{path}:{at}: decide by a code, an enum or a field, not by what `{word}` says")
        })
        .collect()
}

/// Files that ask words no more, and stand on the list still.
fn needless(files: &BTreeMap<String, String>) -> Vec<String> {
    let asks = |file: &str| {
        files.get(file).is_some_and(|text| product(text).lines().any(|line| asked(line).is_some()))
    };
    let needless = MUST_ASK.iter().filter(|(file, _)| !asks(file));
    needless
        .map(|(file, _)| format!("{file}: asks no words any more; take it out of MUST_ASK"))
        .collect()
}

/// Which words `line` asks what they say, if it does and is no comment.
fn asked(line: &str) -> Option<&'static str> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let asks = |word: &str, rest: &str| {
        let rest = rest.strip_prefix("()").unwrap_or(rest);
        let argument = ASKS.iter().find_map(|ask| rest.strip_prefix(ask));
        // An error's message is held against nothing. A kind that is held against a constant may be
        // a number of the kernel's.
        argument.is_some_and(|said| {
            word == "message" || said.starts_with('"') || !KINDS.contains(&word) && is_name(said)
        })
    };
    let is_asked = |word: &&str| {
        line.match_indices(*word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
            is_whole && asks(word, &line[at + word.len()..])
        })
    };
    WORDS.into_iter().chain(KINDS).find(is_asked)
}

/// Whether `argument` begins with the name of a constant.
fn is_name(argument: &str) -> bool {
    let name = argument.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    let is_shout = name.len() > 1 && !name.contains(|c: char| c.is_ascii_lowercase());
    is_shout && name.starts_with(char::is_alphabetic) && !argument[name.len()..].starts_with("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_by_a_message_is_named() {
        let text = "if error.message.contains(\"no room\") {}\n#[cfg(test)]\nmessage == words\n";
        assert_eq!(by_words("edge/src/a.rs", text).len(), 1);
        assert_eq!(by_words("edge/src/a/tests.rs", text), Vec::<String>::new());
        assert_eq!(by_words("edge/src/a.rs", "say(&error.message)"), Vec::<String>::new());
    }

    #[test]
    fn who_decides_by_a_note_or_a_kind_is_named() {
        let decides = [
            "let gave_way = notes.iter().any(|note| note.contains(RATE_FELL));",
            "if said.starts_with(RATE_FELL) {",
            "let why = notes.iter().find(|note| note.contains(\"instead of\"));",
            "409 if refusal.kind.ends_with(\"wrong-state\") => {",
            "let record = if entry.kind == \"closure\" { closure() } else { other() };",
            "if error.hint() == \"try again\" {",
        ];
        for line in decides {
            assert_eq!(by_words("edge/src/a.rs", line).len(), 1, "{line}");
        }
        let does_not = [
            "if entry.kind == EntryKind::Directory {",
            "if kind == wanted {",
            "// if note.contains(\"that\")",
            "if !self.notes.contains(&note) {",
            "if said.contains(&b'/') {",
            "let footnote = footnote.contains(\"x\");",
        ];
        for line in does_not {
            assert_eq!(by_words("edge/src/a.rs", line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(by_words(MUST_ASK[0].0, "said.contains(\"denied\")"), Vec::<String>::new());
        assert_eq!(needless(&BTreeMap::new()).len(), MUST_ASK.len());
    }
}
