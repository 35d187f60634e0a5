//! What a profile is written as next to its document: each file as its name wants it.

use super::parquet;
use crate::provenance::command;
use farline::plan::document::write;
use farline_core::report::ReportDocument;
use farline_core::units::Error;
use std::path::{Path, PathBuf};

/// The formats that are made of a document and do not hold all of it.
const MADE: [&str; 3] = ["html", "csv", "parquet"];

/// Whether `file` is to hold the document itself.
pub(super) fn is_document(file: &Path) -> bool {
    !MADE.iter().any(|extension| is(file, extension))
}

/// Writes those of `files` that are pages or tables of `document`.
pub(super) fn write_made(files: &[PathBuf], document: &impl ReportDocument) -> Result<(), Error> {
    for file in files {
        match file {
            file if is(file, "csv") => write(file, document.columns().csv().as_bytes())?,
            file if is(file, "parquet") => write(file, &parquet::encoded(&document.columns())?)?,
            file if is(file, "html") => write(file, document.page(&[command()]).html().as_bytes())?,
            _ => {}
        }
    }
    Ok(())
}

fn is(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}
