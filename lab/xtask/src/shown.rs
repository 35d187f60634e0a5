//! The tests that the documents on security name: each is there, so that no promise is shown by a
//! test that was renamed or dropped.

use crate::house::{module_path, read_sources};
use crate::source::Facts;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 2] = ["docs/security.md", "docs/security-calendar.md"];
/// Where tests stand that such a document may name.
const SOURCES: [&str; 4] = ["core/src", "edge/src", "lab/tests", "shell/cli/src"];

/// Every name in the documents that is of no test, nor of a module with tests.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for folder in SOURCES {
        read_sources(root, &root.join(folder), &mut files)?;
    }
    let tests = tests(&files);
    let mut found = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).context(document)?;
        found.extend(unknown(document, &text, &tests));
    }
    Ok(found)
}

/// Each test with its modules before it, whether it stands in its module's file or next to it.
fn tests(files: &BTreeMap<String, String>) -> BTreeSet<Vec<String>> {
    let mut all = BTreeSet::new();
    for (path, text) in files {
        let module = match path.strip_prefix("lab/tests/it/") {
            Some(below) => module_path(below),
            None => module_path(path),
        };
        // What is no Rust is reported by the house's own check.
        let facts = Facts::read(text, &module, true).unwrap_or_default();
        all.extend(facts.tests.into_iter().map(|(name, _)| [&module[..], &[name]].concat()));
    }
    all
}

/// The names in `text` that none of `tests` has, each with its line.
fn unknown(document: &str, text: &str, tests: &BTreeSet<Vec<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_test_name(name)) {
            let parts: Vec<&str> = name.trim_end_matches("::").split("::").collect();
            if !tests.iter().any(|test| is_of(test, &parts)) {
                let line = index + 1;
                found.push(format!("{document}:{line}: there is no test `{name}`, nor in it one"));
            }
        }
    }
    found
}

/// Whether `parts` name `test`, by itself behind modules that it is in, or by those modules alone.
fn is_of(test: &[String], parts: &[&str]) -> bool {
    let Some((name, modules)) = test.split_last() else { return false };
    let are_in = |parts: &[&str]| modules.windows(parts.len()).any(|run| run == parts);
    let by_name = parts.split_last().is_some_and(|(last, rest)| last == name && are_in(rest));
    by_name || are_in(parts)
}

/// Whether that is written as tests and modules are: `module::name`, `module::`.
fn is_test_name(text: &str) -> bool {
    let is_word = |word: &str| {
        let is_of_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_of_word)
    };
    text.contains("::") && text.strip_suffix("::").unwrap_or(text).split("::").all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let files = [
            ("lab/tests/it/adversary.rs", "#[test]\nfn nobody_is_kept_out() {}\nfn begun() {}"),
            ("edge/src/node/tests.rs", "#[test]\nfn it_ends() {}"),
            ("core/src/gridftp/checked/mod.rs", "#[cfg(test)] mod tests { #[test] fn holds() {} }"),
            ("core/src/units/time.rs", "pub fn now() {}"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        unknown("docs/security.md", line, &tests(&BTreeMap::from(files)))
    }

    #[test]
    fn tests_and_modules_with_tests_are_found() {
        for line in [
            "| a | b | `adversary::nobody_is_kept_out`, `node::it_ends` |",
            "| a | b | core's `gridftp::checked`, `checked::holds`, `adversary::` |",
            "`user = NAME`, `fd00::/8`, `::1` and `Identities::of_file` are no tests",
        ] {
            assert_eq!(found(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn a_name_of_no_test_is_caught() {
        for name in [
            // Renamed; no test but a function; another module's; a module without tests; half a
            // name.
            "adversary::nobody_is_let_in",
            "adversary::begun",
            "node::nobody_is_kept_out",
            "units::time",
            "adversaries::",
            "node::it",
        ] {
            let said = found(&format!("| a |\n| b | `{name}` |"));
            let expected = format!("docs/security.md:2: there is no test `{name}`, nor in it one");
            assert_eq!(said, [expected]);
        }
    }
}
