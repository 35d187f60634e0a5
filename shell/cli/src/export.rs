//! What a document is written as: each file as its name wants it.

mod parquet;

use crate::provenance::command;
use farline::plan::document::write;
use farline_core::report::{Page, ReportDocument, Section};
use farline_core::units::{Error, ErrorCode, Fault};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Whether `file` is to hold the document itself, and not what is made of it and does not hold all.
#[cfg(feature = "profile")]
pub(crate) fn is_document(file: &Path) -> bool {
    !["html", "csv", "parquet"].iter().any(|extension| is(file, extension))
}

/// Whether `file` is to be a page.
pub(crate) fn is_page(file: &Path) -> bool {
    is(file, "html")
}

/// Writes those of `files` that are pages or tables of `document`.
#[cfg(feature = "profile")]
pub(crate) fn write_made(files: &[PathBuf], document: &impl ReportDocument) -> Result<(), Error> {
    files
        .iter()
        .filter(|file| !is_document(file))
        .try_for_each(|file| write_as_named(file, document))
}

/// Writes each of `files`, whatever comes of the others: a disk that is full loses none for which
/// there is room elsewhere.
///
/// # Errors
/// The first, with what was said of the others.
pub(crate) fn write_each(
    files: &[PathBuf],
    write: impl Fn(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut failed = files.iter().filter_map(|file| write(file).err());
    let Some(mut first) = failed.next() else { return Ok(()) };
    for other in failed {
        first.message = format!("{}; {}", first.message, other.message);
    }
    Err(first)
}

/// Writes `document` as what the name of `file` says: a page, a table, or itself.
pub(crate) fn write_as_named(file: &Path, document: &impl ReportDocument) -> Result<(), Error> {
    write_with(file, document, &[])
}

/// The same, with one more section on a page.
pub(crate) fn write_with(
    file: &Path,
    document: &impl ReportDocument,
    more: &[Section],
) -> Result<(), Error> {
    match file {
        file if is_page(file) => {
            let page = document.page(&[command()]);
            write(file, more.iter().cloned().fold(page, Page::section).html().as_bytes())
        }
        file if is(file, "csv") => write(file, document.columns().csv().as_bytes()),
        file if is(file, "parquet") => write(file, &parquet::encoded(&document.columns())?),
        file => write_json(file, document),
    }
}

/// Writes `document` itself.
pub(crate) fn write_json(file: &Path, document: &impl Serialize) -> Result<(), Error> {
    let json = serde_json::to_vec(document)
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileDocument, error.to_string()))?;
    write(file, &json)
}

fn is(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
