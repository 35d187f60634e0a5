//! `farline line compare`: tests of several paths side by side.

use super::{not_over, text_of};
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use farline::plan::document::check;
use farline_core::line::{LineComparison, documents_in};
use farline_core::units::Error;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline line compare sonet.json mpls.json
  farline line compare sonet.json mpls.json both.json --composed -o three.html

The documents are those that `farline line TARGET -o FILE.json` writes, and
those of a preset, of which each path is taken. With --composed the last path is made of the others, and what they predict of it
stands next to it.";

/// Put line tests of several paths side by side
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Documents of line tests
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// The last is composed of the others
    #[arg(long)]
    composed: bool,
    /// .html, .csv, .parquet, or document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    not_over(&args.out, &args.files)?;
    args.out.iter().try_for_each(|file| check(file))?;
    let mut documents = Vec::new();
    for file in &args.files {
        let stem = file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
        let found = documents_in(&text_of(file)?, &stem)
            .map_err(|error| error.while_doing(file.display()))?;
        for (name, document) in found {
            // Two of one name are told apart by their files.
            let is_taken = documents.iter().any(|(other, _)| *other == name);
            let name = if is_taken { format!("{name} ({})", file.display()) } else { name };
            documents.push((name, document));
        }
    }
    let comparison = LineComparison::of(&documents, args.composed)?;
    let written = write_each(&args.out, |file| write_as_named(file, &comparison));
    output.result(&comparison, super::plain(&comparison.section()))?;
    written?;
    Ok(ExitCode::SUCCESS)
}
