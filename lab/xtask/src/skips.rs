//! Which tests a run skipped and why, as `farline_lab::skip` notes them in the folder of build
//! results, and which of them CI may skip.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What CI may skip: a table of tests and why that is allowed.
const ALLOWED: &str = "lab/skips.toml";

/// The list of a run, a line for each skip: the test, a tab, the reason.
fn list(root: &Path) -> PathBuf {
    // Where cargo builds: this program stands in target/PROFILE.
    let target =
        std::env::current_exe().ok().and_then(|this| Some(this.ancestors().nth(2)?.into()));
    target.unwrap_or_else(|| root.join("target")).join("skipped.tsv")
}

/// Begins a new list.
pub(crate) fn forget(root: &Path) -> Result<()> {
    match fs::remove_file(list(root)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Notes that `test` was not run.
pub(crate) fn note(root: &Path, test: &str, reason: &str) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(list(root))?;
    Ok(writeln!(file, "{test}\t{reason}")?)
}

/// What was skipped, each test once.
fn skipped(text: &str) -> BTreeSet<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(test, reason)| (test.to_owned(), reason.to_owned())).collect()
}

/// Names each skipped test with its reason.
pub(crate) fn print(root: &Path) {
    let skipped = skipped(&fs::read_to_string(list(root)).unwrap_or_default());
    if skipped.is_empty() {
        return;
    }
    println!("\n== skipped");
    for (test, reason) in skipped {
        println!("  {test}: {reason}");
    }
}

/// With `strict` an error for each skip that the committed list does not allow.
pub(crate) fn check(root: &Path, strict: bool) -> Result<()> {
    let allowed = fs::read_to_string(root.join(ALLOWED)).context(ALLOWED)?;
    let skipped = skipped(&fs::read_to_string(list(root)).unwrap_or_default());
    let surprises = not_allowed(&allowed, &skipped)?;
    if strict && !surprises.is_empty() {
        bail!("skipped, and not on the list {ALLOWED}: {}", surprises.join(", "));
    }
    Ok(())
}

/// The tests of the committed list that are none.
pub(crate) fn unknown(root: &Path) -> Result<Vec<String>> {
    let allowed = fs::read_to_string(root.join(ALLOWED)).context(ALLOWED)?;
    let allowed: BTreeMap<String, String> = toml::from_str(&allowed).context(ALLOWED)?;
    let is_test = |name: &str| {
        let Some((modules, test)) = name.rsplit_once("::") else { return false };
        let file = format!("lab/tests/it/{}.rs", modules.replace("::", "/"));
        fs::read_to_string(root.join(file))
            .is_ok_and(|source| source.contains(&format!("\nfn {test}() {{")))
    };
    let unknown = allowed.keys().filter(|name| !is_test(name));
    Ok(unknown.map(|name| format!("{ALLOWED}: there is no test `{name}`")).collect())
}

fn not_allowed(allowed: &str, skipped: &BTreeSet<(String, String)>) -> Result<Vec<String>> {
    let allowed: BTreeMap<String, String> = toml::from_str(allowed).context(ALLOWED)?;
    let unknown = skipped.iter().filter(|(test, _)| !allowed.contains_key(test));
    Ok(unknown.map(|(test, reason)| format!("{test} ({reason})")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_is_not_on_the_list_is_named() {
        let skipped = skipped(
            "page::turns\tno browser\nlink::rtt\tno namespaces\nlink::rtt\tno namespaces\n",
        );
        let allowed = "\"page::turns\" = \"CI has no browser\"\n";
        let found = not_allowed(allowed, &skipped).expect("a table");
        assert_eq!(found, ["link::rtt (no namespaces)"]);
    }
}
