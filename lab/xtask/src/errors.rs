//! `docs/errors.md` against `units::ErrorCode` and the sources: the table of codes is written from
//! the enum, each code is in use with its faults, and each test that the page names is there.

use crate::house::is_test;
use anyhow::{Context, Result};
use farline_core::units::{ErrorCode, Fault, Retry};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/errors.md";
/// What people and programs meet: the lab's own errors are nobody's.
const SOURCES: [&str; 3] = ["core/src", "edge/src", "shell/cli/src"];
/// The enum's own file.
const ENUM: &str = "core/src/units/error_code.rs";
/// Calls that say the fault by their name: they stand in the modules `link`, `kernelcc` and
/// `transfer`.
const NAMED: [(&str, &str); 4] =
    [("here(", "Here"), ("you(", "You"), ("wrong(", "You"), ("self.fail(", "There")];

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

/// Faults by code, both as Rust spells them.
type Codes = BTreeMap<String, BTreeSet<String>>;

/// Writes the table of codes into the page.
pub(crate) fn write(root: &Path) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let fresh = with_table(&page).with_context(|| format!("{PAGE} has no table of codes"))?;
    fs::write(root.join(PAGE), fresh).context(PAGE)
}

/// What the page, the enum and the sources of the workspace at `root` disagree about.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut found = Vec::new();
    if with_table(&page).as_ref() != Some(&page) {
        found.push(format!("{PAGE}: the table of codes is stale; run `cargo xtask errors`"));
    }
    for (file, test) in named_tests(&page) {
        let path = format!("lab/tests/it/{}.rs", file.replace("::", "/"));
        let source = fs::read_to_string(root.join(path)).unwrap_or_default();
        if !source.contains(&format!("\nfn {test}() {{")) {
            found.push(format!("{PAGE}: there is no test `{file}::{test}`"));
        }
    }
    let mut files = BTreeMap::new();
    for folder in SOURCES {
        crate::house::read_sources(root, &root.join(folder), &mut files)?;
    }
    let mut used = Codes::new();
    for (_, text) in files.iter().filter(|(path, _)| !is_test(path) && path.as_str() != ENUM) {
        read_source(product(text), &mut used);
    }
    found.extend(files.iter().flat_map(|(path, text)| by_words(path, text)));
    found.extend(needless(&files));
    found.extend(compare(&used, ErrorCode::ALL));
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

/// Codes whose faults in the sources are others than those of the enum.
fn compare(used: &Codes, codes: &[ErrorCode]) -> Vec<String> {
    let mut found = Vec::new();
    for code in codes {
        let listed: BTreeSet<String> =
            code.faults().iter().map(|fault| format!("{fault:?}")).collect();
        match used.get(&format!("{code:?}")) {
            None => found.push(format!("{ENUM}: nothing says `{code}`")),
            Some(used) if *used != listed => found.push(format!(
                "{ENUM}: `{code}` has the faults {listed:?}, the sources say {used:?}"
            )),
            Some(_) => {}
        }
    }
    found
}

/// `page` with the table as the enum has it now; nothing when it has no table.
fn with_table(page: &str) -> Option<String> {
    let (before, rest) = page.split_once("| code | ")?;
    let (_, after) = rest.split_once("\n\n")?;
    Some(format!("{before}{}\n{after}", table(ErrorCode::ALL)))
}

/// The table of codes in Markdown.
fn table(codes: &[ErrorCode]) -> String {
    let mut table =
        "| code | fault and exit code | again | what happened |\n|---|---|---|---|\n".to_owned();
    for code in codes {
        let exit = |fault: Fault| match code {
            // The signal's number decides, as a shell has it: SIGHUP, SIGINT, SIGTERM.
            ErrorCode::Interrupted => "129, 130 or 143".to_owned(),
            _ => fault.exit_code().to_string(),
        };
        let faults =
            code.faults().iter().map(|&fault| format!("{} {}", fault_name(fault), exit(fault)));
        let faults: Vec<String> = faults.collect();
        let retry = match code.retry() {
            Retry::Never => "",
            Retry::Now => "now",
            Retry::After => "later",
        };
        table += &format!("| `{code}` | {} | {retry} | {} |\n", faults.join(", "), code.meaning());
    }
    table
}

/// As JSON has it.
fn fault_name(fault: Fault) -> String {
    format!("{fault:?}").to_lowercase()
}

/// Such as `` `copy::a_tree_goes` ``, file and function.
fn named_tests(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|name| name.rsplit_once("::"))
}

/// Pairs of a fault and a code, whichever comes first, and calls that say the fault by their name.
fn read_source(text: &str, used: &mut Codes) {
    let mut add = |code: &str, fault: &str| {
        used.entry(code.to_owned()).or_default().insert(fault.to_owned());
    };
    for (at, path) in text.match_indices("ErrorCode::") {
        let before = text[..at].trim_end();
        let (code, rest) = identifier(&text[at + path.len()..]);
        let named = NAMED.iter().find(|(call, _)| before.ends_with(call));
        let ahead = before
            .strip_suffix(',')
            .and_then(|before| before.rsplit_once("Fault::"))
            .map(|(_, fault)| fault)
            .filter(|fault| identifier(fault).1.is_empty());
        let behind = rest.strip_prefix(", Fault::").map(|rest| identifier(rest).0);
        for fault in named.map(|(_, fault)| *fault).into_iter().chain(ahead).chain(behind) {
            add(code, fault);
        }
    }
}

/// The identifier that `text` begins with, and what follows.
fn identifier(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(pairs: &[(&str, &[&str])]) -> Codes {
        pairs
            .iter()
            .map(|(code, faults)| {
                ((*code).to_owned(), faults.iter().map(|&fault| fault.to_owned()).collect())
            })
            .collect()
    }

    #[test]
    fn codes_are_found_however_they_are_laid_out() {
        let text = "Error::new(Fault::You, ErrorCode::Busy, x); Error::new(\n    Fault::Here,\n    \
            ErrorCode::Busy,\n); row(ErrorCode::Io, Fault::There, 1, \"C\"); \
                    self.fail(ErrorCode::Usage, \"words\"); Error::new(Fault::You, code, x); \
                    error.code == ErrorCode::Storage; Fault::exit_code";
        let mut used = Codes::new();
        read_source(text, &mut used);
        assert_eq!(
            used,
            codes(&[("Busy", &["You", "Here"]), ("Io", &["There"]), ("Usage", &["There"])])
        );
    }

    #[test]
    fn a_signal_has_exit_codes_of_its_own() {
        let table = table(&[ErrorCode::Interrupted, ErrorCode::IntoItself]);
        assert!(table.contains("| `interrupted` | you 129, 130 or 143 |"), "{table}");
        assert!(table.contains("| `into-itself` | you 2 |"), "{table}");
    }

    #[test]
    fn codes_that_are_unused_or_have_other_faults_are_named() {
        let used = codes(&[("Busy", &["Refused"]), ("Io", &["Here"])]);
        assert_eq!(compare(&used, &[ErrorCode::Busy]), Vec::<String>::new());
        assert_eq!(compare(&used, &[ErrorCode::Io, ErrorCode::Usage]).len(), 2);
    }

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

    #[test]
    fn tests_are_named_by_file_and_function() {
        let row = "| a case | `code` 2 | `copy::it_lands`, `peers::it_is_refused` |";
        assert_eq!(
            named_tests(row).collect::<Vec<_>>(),
            [("copy", "it_lands"), ("peers", "it_is_refused")]
        );
    }

    #[test]
    fn the_table_is_replaced_and_the_rest_stays() {
        let row = table(&[ErrorCode::Busy]);
        assert!(row.ends_with(
            "| `busy` | refused 6 | later | another transfer writes to the same target, or others have all ports for data |\n"
        ));
        let page = "# Codes\n\n| code | old |\n|---|---|\n| `a-b` | x |\n\n# More\n";
        let fresh = with_table(page).expect("a table");
        assert!(
            fresh.starts_with("# Codes\n\n| code | fault") && fresh.ends_with(" |\n\n# More\n")
        );
        assert!(!fresh.contains("`a-b`"));
        assert_eq!(with_table(&fresh).as_ref(), Some(&fresh));
        assert_eq!(with_table("no table"), None);
    }
}
