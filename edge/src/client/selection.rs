//! Which files of its sources a copy takes, and what a dry run says of them.

use crate::stores::{WalkProblem, folders_above, join};
use farline_core::copy::CopyReason;
use farline_core::filter::FileFilter;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a dry run says of verification.
pub(super) const DRY_RUN: &str = "a dry run: nothing was copied";

/// Which files of its sources a copy takes: all that no rule excludes, and where names are listed,
/// those and what is below them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    filter: FileFilter,
    listed: Option<BTreeSet<Vec<u8>>>,
}

impl Selection {
    /// What `filter` does not exclude.
    pub fn new(filter: FileFilter) -> Selection {
        Selection { filter, listed: None }
    }

    /// Of that only `names`, which are paths below the source.
    ///
    /// # Errors
    /// When a name leads out of the source.
    pub fn of_names<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Selection, Error> {
        let mut listed = BTreeSet::new();
        for name in names {
            let parts: Vec<&[u8]> = name
                .split(|byte| *byte == b'/')
                .filter(|part| !matches!(*part, b"" | b"."))
                .collect();
            if parts.contains(&&b".."[..]) {
                let message = format!("{} leads out of the source", String::from_utf8_lossy(name));
                return Err(Error::new(Fault::You, ErrorCode::BadFilter, message));
            }
            listed.insert(parts.join(&b'/'));
        }
        self.listed = Some(listed);
        Ok(self)
    }

    /// Whether it takes all there is.
    pub fn is_all(&self) -> bool {
        self.filter.is_empty() && self.listed.is_none()
    }

    /// Whether files are listed by name.
    pub(super) fn names_files(&self) -> bool {
        self.listed.is_some()
    }

    /// Whether it takes `path` of a source that goes under the name `top`.
    pub(super) fn takes(&self, top: &[u8], path: &[u8], is_folder: bool) -> bool {
        !self.filter.excludes(&join(top, path), is_folder)
            && self.listed.as_ref().is_none_or(|listed| is_listed(listed, path, is_folder))
    }

    /// Which of `entries` it does not take, by their number.
    pub(super) fn left_out(&self, top: &[u8], entries: &[Entry]) -> BTreeSet<usize> {
        if self.is_all() {
            return BTreeSet::new();
        }
        let takes = |entry: &Entry| self.takes(top, &entry.path, is_folder(entry));
        entries.iter().enumerate().filter(|(_, entry)| !takes(entry)).map(|(at, _)| at).collect()
    }

    /// What of `problems` is not excluded, and so a failure.
    pub(super) fn concerned(
        &self,
        top: &[u8],
        entries: &[Entry],
        problems: Vec<WalkProblem>,
    ) -> Vec<WalkProblem> {
        let folders: BTreeSet<&[u8]> =
            entries.iter().filter(|entry| is_folder(entry)).map(|entry| &entry.path[..]).collect();
        let concerns = |problem: &WalkProblem| {
            self.takes(top, &problem.path, folders.contains(&problem.path[..]))
        };
        problems.into_iter().filter(concerns).collect()
    }

    /// Names of the list that `entries` do not have, as failures.
    pub(super) fn missing(&self, entries: &[Entry]) -> Vec<(Vec<u8>, Error)> {
        let Some(listed) = &self.listed else { return Vec::new() };
        let there: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.path[..]).collect();
        let missing = listed.iter().filter(|name| !there.contains(&name[..]));
        missing
            .map(|name| {
                let message = "it is listed, and not in the source";
                (name.clone(), Error::new(Fault::You, ErrorCode::PathNotFound, message))
            })
            .collect()
    }
}

fn is_listed(listed: &BTreeSet<Vec<u8>>, path: &[u8], is_folder: bool) -> bool {
    let leads_there = || {
        let within = [path, b"/"].concat();
        path.is_empty()
            || listed.range(within.clone()..).next().is_some_and(|next| next.starts_with(&within))
    };
    listed.contains(path)
        || listed.contains(&b""[..])
        || folders_above(path).any(|folder| listed.contains(folder))
        || (is_folder && leads_there())
}

fn is_folder(entry: &Entry) -> bool {
    entry.kind == EntryKind::Directory
}

/// A file that a dry run would have copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedFile {
    /// Its path below the source.
    pub path: String,
    /// Why.
    pub reason: CopyReason,
    /// Its length.
    pub bytes: u64,
    /// Whether it is a symbolic link, which is counted as no file.
    #[serde(rename = "link", skip_serializing_if = "std::ops::Not::not")]
    pub is_link: bool,
}
