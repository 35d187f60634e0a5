//! `docs/errors.md` against the sources: every error code with its faults, and none that is gone;
//! and every test that it names.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "docs/errors.md";
/// What people and programs meet: the lab's own errors are nobody's.
const SOURCES: [&str; 3] = ["core/src", "edge/src", "shell/cli/src"];

/// Faults, as the document spells them, by code.
type Codes = BTreeMap<String, BTreeSet<String>>;

/// Every difference between the table and the sources of the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for folder in SOURCES {
        crate::house::read_sources(root, &root.join(folder), &mut files)?;
    }
    let mut said = Codes::new();
    for (_, text) in files.iter().filter(|(path, _)| !path.ends_with("tests.rs")) {
        read_source(text.split("#[cfg(test)]").next().unwrap_or_default(), &mut said);
    }
    let document = fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    let table = read_table(&document);
    let mut found = Vec::new();
    for (file, test) in named_tests(&document) {
        let source =
            fs::read_to_string(root.join(format!("lab/tests/it/{file}.rs"))).unwrap_or_default();
        if !source.contains(&format!("\nfn {test}() {{")) {
            found.push(format!("{TABLE}: there is no test `{file}::{test}`"));
        }
    }
    for (code, faults) in &said {
        match table.get(code) {
            None => found.push(format!("{TABLE}: no row for `{code}` ({faults:?})")),
            Some(listed) if listed != faults => {
                found.push(format!(
                    "{TABLE}: `{code}` is listed as {listed:?}, the sources say {faults:?}"
                ));
            }
            Some(_) => {}
        }
    }
    found.extend(
        table
            .keys()
            .filter(|code| !said.contains_key(*code))
            .map(|code| format!("{TABLE}: nothing says `{code}`")),
    );
    Ok(found)
}

/// Rows such as `` | `busy` | refused 6 | ... | ``.
fn read_table(text: &str) -> Codes {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let code = cells.next()?.strip_suffix('`')?.to_owned();
        Some((code, cells.next()?.split(", ").map(str::to_owned).collect()))
    };
    text.lines().filter_map(row).collect()
}

/// Such as `` `copy::a_tree_goes` ``, file and function.
fn named_tests(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"))
}

/// `Fault::You, "code"`, the rows of the wire's table, which have it the other way round, and the
/// receiver's own complaints of its peer.
fn read_source(text: &str, said: &mut Codes) {
    for (at, _) in text.match_indices("Fault::") {
        let rest = &text[at + "Fault::".len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let Some(fault) = listed(&rest[..end]) else { continue };
        let after = rest[end..].strip_prefix(',').and_then(|rest| quoted(rest.trim_start()));
        let before = text[..at]
            .trim_end()
            .strip_suffix("\",")
            .and_then(|rest| rest.rsplit_once("row(\""))
            .map(|(_, code)| code);
        for code in [after, before.filter(|code| is_code(code))].into_iter().flatten() {
            said.entry(code.to_owned()).or_default().insert(fault.to_owned());
        }
    }
    for (at, call) in text.match_indices("self.fail(") {
        if let Some(code) = quoted(text[at + call.len()..].trim_start()) {
            said.entry(code.to_owned()).or_default().extend(listed("There").map(str::to_owned));
        }
    }
}

/// The code in quotation marks that `text` begins with.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split_once('"').map(|(code, _)| code).filter(|code| is_code(code))
}

fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// A fault as the document lists it, with its exit code; CONTRIBUTING.md has the same.
fn listed(fault: &str) -> Option<&'static str> {
    Some(match fault {
        "You" => "you 2",
        "Here" => "here 3",
        "There" => "there 4",
        "Between" => "between 5",
        "Refused" => "refused 6",
        "Bug" => "bug 70",
        _ => return None,
    })
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
        let text = "Error::new(Fault::You, \"a-b\", x); Error::new(\n    Fault::Here,\n    \
            \"a-b\",\n); row(\"c\", Fault::There, 1, \"C\"); \
                    self.fail(\"d\", \"words\"); Error::new(Fault::You, code, \"not this\"); \
                    Fault::exit_code";
        let mut said = Codes::new();
        read_source(text, &mut said);
        assert_eq!(
            said,
            codes(&[("a-b", &["you 2", "here 3"]), ("c", &["there 4"]), ("d", &["there 4"])])
        );
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
    fn rows_are_read_and_headings_are_not() {
        let table =
            "| code | fault | what |\n|---|---|---|\n| `a-b` | you 2, here 3 | words | `x` |\n";
        assert_eq!(read_table(table), codes(&[("a-b", &["you 2", "here 3"])]));
    }
}
