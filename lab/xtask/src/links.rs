//! The documents' links to one another, and the places in the code that they name: each leads to a
//! file that is there, and to a heading in it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Every link of the Markdown files at `root` and below `docs` that leads nowhere.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for document in documents(root)? {
        let text = fs::read_to_string(&document).with_context(|| document.display().to_string())?;
        let name = document.strip_prefix(root).unwrap_or(&document).display();
        let folder = document.parent().unwrap_or(root);
        for (line, target) in targets(&text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { folder.join(file) };
            let leads_there = match (path.exists(), heading) {
                (exists, "") => exists,
                (false, _) => false,
                (true, heading) => fs::read_to_string(&path)?
                    .lines()
                    .any(|line| anchor(line) == Some(heading.into())),
            };
            if !leads_there {
                found.push(format!("{name}:{line}: `{target}` leads nowhere"));
            }
        }
        // A decision names what was there on its day.
        let is_history = document.starts_with(root.join("docs/decisions"));
        let gone = places(&text).filter(|(_, place)| !is_history && !is_place(root, place));
        found.extend(gone.map(|(line, place)| format!("{name}:{line}: `{place}` is not there")));
    }
    Ok(found)
}

/// Places in the code that are named as `core/plan` or `edge/src/node/mod.rs`, with their lines.
fn places(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_-.".contains(c);
    text.lines().enumerate().flat_map(move |(at, line)| {
        line.split('`')
            .skip(1)
            .step_by(2)
            .filter(move |word| {
                let room = word.split_once('/').map(|(room, _)| room);
                matches!(room, Some("core" | "edge" | "shell" | "lab")) && word.chars().all(is_path)
            })
            .map(move |place| (at + 1, place))
    })
}

/// Whether a module, a file or a folder has that name, with or without `src` behind the room's.
fn is_place(root: &Path, place: &str) -> bool {
    let (room, rest) = place.split_once('/').unwrap_or((place, ""));
    [root.join(place), root.join(room).join("src").join(rest)]
        .iter()
        .any(|path| path.exists() || path.with_extension("rs").exists())
}

/// The Markdown files of people's reading.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut open = vec![root.to_owned(), root.join("docs")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() && folder != root {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The targets of `[words](target)` within this repository, with their lines.
fn targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
            .filter(|target| !target.contains("://") && !target.contains(' '))
            .map(move |target| (at + 1, target))
    })
}

/// The name by which a heading is linked to, as forges make it.
fn anchor(line: &str) -> Option<String> {
    let words = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_code_are_found() {
        let text =
            "In `core/plan` and `edge/src/lib.rs`;\n`a/b`, `core/X`, `cargo xtask`, `lab/guest`.";
        let found: Vec<_> = places(text).collect();
        assert_eq!(found, [(1, "core/plan"), (1, "edge/src/lib.rs"), (2, "lab/guest")]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (place, is_there) in [
            ("core/plan", true),
            ("core/plan/model", true),
            ("lab/guest", true),
            ("core/no", false),
        ] {
            assert_eq!(is_place(&root, place), is_there, "{place}");
        }
    }

    #[test]
    fn links_are_found_and_those_to_elsewhere_are_not() {
        let text = "See [a](a.md) and\n[b](b/c.md#what-it-is), [web](https://x.org/y).";
        assert_eq!(targets(text).collect::<Vec<_>>(), [(1, "a.md"), (2, "b/c.md#what-it-is")]);
        assert_eq!(anchor("## What it *is*: now").as_deref(), Some("what-it-is-now"));
        assert_eq!(anchor("no heading"), None);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let root = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).expect("a folder");
        fs::write(root.join("README.md"), "[a](docs/a.md#one) [b](docs/b.md)").expect("written");
        fs::write(root.join("docs/a.md"), "# One\n[c](#two) [up](../README.md)").expect("written");
        let found = check(&root).expect("read");
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(
            found,
            ["README.md:1: `docs/b.md` leads nowhere", "docs/a.md:2: `#two` leads nowhere"]
        );
    }
}
