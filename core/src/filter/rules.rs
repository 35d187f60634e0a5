//! Rules as they are written, on a command line and in files.

use super::pattern::NamePattern;
use super::{FileFilter, FilterForm, FilterReader, Rule};
use crate::units::{Error, ErrorCode, Fault};

/// Files that merge files that merge files: deeper is a circle.
const DEEPEST: usize = 16;

/// What a line says, with the column where its argument begins.
enum Said<'a> {
    Pattern { is_include: bool, text: &'a [u8], column: usize },
    Merge(&'a [u8]),
    Clear,
}

pub(super) fn add(
    filter: &mut FileFilter,
    form: FilterForm,
    text: &[u8],
    read: FilterReader<'_>,
) -> Result<(), Error> {
    let shown = String::from_utf8_lossy(text).into_owned();
    add_line(filter, form, text, read, 0, &|column, why| {
        wrong(format!("filter `{shown}`, column {column}: {why}"))
    })
}

pub(super) fn add_file(
    filter: &mut FileFilter,
    form: FilterForm,
    file: &[u8],
    read: FilterReader<'_>,
    depth: usize,
) -> Result<(), Error> {
    let name = String::from_utf8_lossy(file).into_owned();
    if depth > DEEPEST {
        return Err(wrong(format!("{name}: the files merge each other without end")));
    }
    let text = read(file)?;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.first(), None | Some(b'#' | b';')) {
            continue;
        }
        add_line(filter, form, line, read, depth, &|column, why| {
            wrong(format!("{name}, line {}, column {column}: {why}", index + 1))
        })?;
    }
    Ok(())
}

fn wrong(message: String) -> Error {
    Error::new(Fault::You, ErrorCode::BadFilter, message)
}

fn add_line(
    filter: &mut FileFilter,
    form: FilterForm,
    line: &[u8],
    read: FilterReader<'_>,
    depth: usize,
    at: &dyn Fn(usize, &str) -> Error,
) -> Result<(), Error> {
    let said = match form {
        FilterForm::Rule => rule(line),
        form => Ok(pattern(form, line)),
    };
    match said.map_err(|(byte, why)| at(byte + 1, why))? {
        Said::Clear => filter.rules.clear(),
        Said::Merge(file) => add_file(filter, FilterForm::Rule, file, read, depth + 1)?,
        Said::Pattern { text: b"", column, .. } => {
            return Err(at(column + 1, "a pattern is missing"));
        }
        Said::Pattern { is_include, text, column } => {
            let pattern =
                NamePattern::parse(text).map_err(|(byte, why)| at(column + byte + 1, why))?;
            filter.rules.push(Rule { is_include, pattern });
        }
    }
    Ok(())
}

/// A line of `--exclude` or `--include`: a pattern, for which a sign may stand.
fn pattern(form: FilterForm, line: &[u8]) -> Said<'_> {
    match line {
        b"!" => Said::Clear,
        [b'-', b' ', text @ ..] => Said::Pattern { is_include: false, text, column: 2 },
        [b'+', b' ', text @ ..] => Said::Pattern { is_include: true, text, column: 2 },
        text => Said::Pattern { is_include: form == FilterForm::Include, text, column: 0 },
    }
}

/// A line of `--filter`: a rule's sign or name, a space or `_`, and its argument.
fn rule(line: &[u8]) -> Result<Said<'_>, (usize, &'static str)> {
    let end = line.iter().position(|byte| b" _".contains(byte)).unwrap_or(line.len());
    let (name, text) = (&line[..end], line.get(end + 1..).unwrap_or(b""));
    let column = (end + 1).min(line.len());
    match name {
        b"-" | b"exclude" => Ok(Said::Pattern { is_include: false, text, column }),
        b"+" | b"include" => Ok(Said::Pattern { is_include: true, text, column }),
        b"." | b"merge" if text.is_empty() => Err((column, "the name of a file is missing")),
        b"." | b"merge" => Ok(Said::Merge(text)),
        b"!" | b"clear" if text.is_empty() => Ok(Said::Clear),
        b"!" | b"clear" => Err((column, "nothing may follow the rule that clears")),
        [b'-' | b'+' | b'.', _, ..] => {
            Err((1, "modifiers are not known: a space follows the sign"))
        }
        _ => Err((0, "no such rule: it begins with `- `, `+ `, `. ` or `!`")),
    }
}
