//! `docs/words.md` against the sources: one word for one thing, in the names of public types.
//!
//! A name means one type in all of them. Each of its words stands in the page: in the table where
//! Farline means something of its own by it, else among the plain words.

use crate::house::{is_test, module_path, read_sources};
use crate::source::{Facts, words};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/words.md";
/// The heading of the words that need no explanation.
const PLAIN: &str = "## Plain words";
/// The crates whose names are for others to read.
const CRATES: [&str; 2] = ["core/src", "edge/src"];
/// Every machine has these, and names them by its module: `server::Input`, `wan::Output`.
const OF_EVERY_MACHINE: [&str; 3] = ["Event", "Input", "Output"];

/// Every violation in the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut files = BTreeMap::new();
    for folder in CRATES {
        read_sources(root, &root.join(folder), &mut files)?;
    }
    Ok(violations(&page, &files))
}

/// The violations of the crates: the text of their files, by path.
fn violations(page: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let known = known_words(page);
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_test(path) && !stands_in(path)) {
        // What is no Rust is reported by the house's own check.
        let Ok(facts) = Facts::read(text, &module_path(path), false) else { continue };
        for (name, line) in facts.public_types {
            places.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    let mut found = Vec::new();
    for (name, places) in &places {
        if places.len() > 1 && !OF_EVERY_MACHINE.contains(&name.as_str()) {
            found.push(format!(
                "{}: `{name}` means another type in {}; give each a name of its own",
                places[0],
                places[1..].join(" and ")
            ));
        }
        for word in words(name).iter().filter(|word| !word.is_empty() && !is_known(word, &known)) {
            found.push(format!(
                "{}: `{name}`: `{word}` does not stand in {PAGE}; take a word that does, or add it",
                places[0]
            ));
        }
    }
    found
}

/// The words of the table's first column and of the plain words, in small letters.
fn known_words(page: &str) -> BTreeSet<String> {
    let (table, plain) = page.split_once(PLAIN).unwrap_or((page, ""));
    let terms = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    terms
        .chain([plain])
        .flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether a file has, for a build without a feature, the names of the part that it brings.
fn stands_in(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("no_"))
}

/// Whether `word`, its singular or its plural is known.
fn is_known(word: &str, known: &BTreeSet<String>) -> bool {
    known.contains(word)
        || known.contains(&format!("{word}s"))
        || word.strip_suffix('s').is_some_and(|one| known.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "| word | meaning |\n|---|---|\n| block, slot | of staging |\n\n## Plain \
        words\n\nInput Id Size";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        violations(TEXT, &files.collect())
    }

    #[test]
    fn names_of_known_words_are_in_order() {
        let text =
            "pub struct BlockSize;\npub enum Slots {}\nstruct Hidden;\npub(crate) struct Too;";
        assert_eq!(found(&[("core/src/a.rs", text)]), Vec::<String>::new());
    }

    #[test]
    fn finds_a_word_that_the_page_lacks() {
        let found = found(&[("core/src/a.rs", "\npub struct SlotDesk;")]);
        assert!(found.len() == 1 && found[0].starts_with("core/src/a.rs:2: `SlotDesk`: `desk`"));
    }

    #[test]
    fn what_stands_in_for_a_part_has_its_names() {
        let files =
            [("edge/src/a.rs", "pub struct Slot;"), ("edge/src/no_a.rs", "pub enum Slot {}")];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn finds_a_name_that_means_two_things() {
        let twice = [("core/src/a.rs", "pub struct Slot;"), ("core/src/b.rs", "pub enum Slot {}")];
        let said = found(&twice);
        assert!(
            said.len() == 1 && said[0].contains("`Slot` means another type in core/src/b.rs:1")
        );
        let crates =
            [("core/src/a.rs", "pub struct Slot;"), ("edge/src/b.rs", "pub trait Slot {}")];
        assert_eq!(found(&crates).len(), 1, "the library has the core's names too");
        let machines =
            [("core/src/a.rs", "pub enum Input {}"), ("core/src/b.rs", "pub enum Input {}")];
        assert_eq!(found(&machines), Vec::<String>::new());
        let tests =
            [("core/src/a.rs", "pub struct Slot;"), ("core/src/tests.rs", "pub struct Slot;")];
        assert_eq!(found(&tests), Vec::<String>::new());
    }
}
