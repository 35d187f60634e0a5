//! The documents' links to one another: each leads to a file that is there, and to a heading in it.

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
    }
    Ok(found)
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
