//! Which files of a tree are meant, in rsync's language of patterns: the first rule that matches a
//! path decides, and what is below an excluded folder is excluded with it.

mod pattern;
mod rules;

use crate::units::Error;
use pattern::NamePattern;

/// Wildcards that are held against one name, as a shell has them: a dot at its beginning must be
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameGlob {
    pattern: NamePattern,
    takes_hidden: bool,
}

impl NameGlob {
    /// Takes one part of a path; `None` when it has no wildcards, or none that make sense, and so
    /// means itself.
    pub fn parse(part: &[u8]) -> Option<NameGlob> {
        if part.contains(&b'/') || !part.iter().any(|byte| b"*?[".contains(byte)) {
            return None;
        }
        let pattern = NamePattern::parse(&[b"/", part].concat()).ok()?;
        Some(NameGlob { pattern, takes_hidden: part.starts_with(b".") })
    }

    /// Whether it matches all of `name`.
    pub fn matches(&self, name: &[u8]) -> bool {
        (self.takes_hidden || !name.starts_with(b".")) && self.pattern.matches(name, false)
    }
}

/// Reads a file of rules, given its name: the core touches none.
pub type FilterReader<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Vec<u8>, Error>;

/// Rules in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFilter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    is_include: bool,
    pattern: NamePattern,
}

/// What a line is when it does not say so itself: the flags `--exclude` and `--include`, their
/// files, and `--filter`, whose rules always say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// A pattern to exclude, or `+ PATTERN`.
    Exclude,
    /// A pattern to include, or `- PATTERN`.
    Include,
    /// A rule: `- PATTERN`, `+ PATTERN`, `. FILE` or `!`.
    Rule,
}

impl FileFilter {
    /// Adds what stands on one line of a command. `read` is given the name of a file to merge.
    ///
    /// # Errors
    /// When it is no rule, with the column; what `read` says.
    pub fn add(
        &mut self,
        form: FilterForm,
        text: &[u8],
        read: FilterReader<'_>,
    ) -> Result<(), Error> {
        rules::add(self, form, text, read)
    }

    /// Adds what stands in a file, one rule a line; empty lines and those that begin with `#` or
    /// `;` are comments.
    ///
    /// # Errors
    /// When a line is no rule, with file, line and column; what `read` says.
    pub fn add_file(
        &mut self,
        form: FilterForm,
        file: &[u8],
        read: FilterReader<'_>,
    ) -> Result<(), Error> {
        rules::add_file(self, form, file, read, 0)
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether `path`, relative to where the copy begins, or a folder above it is excluded.
    pub fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        !self.is_empty()
            && (above.into_iter().any(|end| self.excludes_itself(&path[..end], true))
                || self.excludes_itself(path, is_folder))
    }

    fn excludes_itself(&self, path: &[u8], is_folder: bool) -> bool {
        let first = self.rules.iter().find(|rule| rule.pattern.matches(path, is_folder));
        first.is_some_and(|rule| !rule.is_include)
    }
}

#[cfg(test)]
mod tests;
