//! Flags of the command line in the library's words: a message names a setting by `units::Setting`,
//! which the command puts into its flag.

use crate::house::{is_test, module_path, read_sources};
use crate::source::Facts;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Files of the library that name flags, and how often: of other programs, which people are told to
/// run, and of what runs on another host, which is a command line.
const NAMED: &[(&str, usize)] = &[
    ("core/src/host/judge.rs", 1),
    ("core/src/host/network.rs", 1),
    ("edge/src/client/ssh.rs", 1),
];

/// Every file of the library at `root` that names more flags than it may, or fewer than the list
/// says.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for room in ["core/src", "edge/src"] {
        read_sources(root, &root.join(room), &mut files)?;
    }
    let counts = files.iter().filter(|(path, _)| !is_test(path)).filter_map(|(path, text)| {
        // What is no Rust is reported by the house's own check.
        let facts = Facts::read(text, &module_path(path), false).ok()?;
        Some((path.as_str(), facts.named_flags))
    });
    Ok(compare(&counts.collect(), NAMED))
}

/// What `counts` has beyond `known`, and what of `known` it has no more.
fn compare(counts: &BTreeMap<&str, usize>, known: &[(&str, usize)]) -> Vec<String> {
    let may = |path: &str| known.iter().find(|(file, _)| *file == path).map_or(0, |(_, n)| *n);
    let more = counts.iter().filter(|&(path, count)| *count > may(path)).map(|(path, count)| {
        let may = may(path);
        format!(
            "{path}: names {count} flags of the command line, at most {may}: units::Setting names \
             settings of the library"
        )
    });
    let has = |path: &str| counts.get(path).copied().unwrap_or_default();
    let fewer = known.iter().filter(|(path, count)| has(path) < *count).map(|(path, count)| {
        let has = has(path);
        format!("{path}: names {has} flags, not {count}; say so in lab/xtask/src/flags.rs")
    });
    more.chain(fewer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_as_many_flags_as_the_list_has_and_no_more() {
        let counts = BTreeMap::from([("a.rs", 2), ("b.rs", 0), ("c.rs", 1)]);
        assert_eq!(compare(&counts, &[("a.rs", 2), ("c.rs", 1)]), Vec::<String>::new());
        let found = compare(&counts, &[("a.rs", 1), ("b.rs", 3), ("c.rs", 1), ("gone.rs", 1)]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs: names 2") && found[1].starts_with("b.rs: names 0"));
    }
}
