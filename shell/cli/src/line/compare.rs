//! `farline line compare`: tests of several paths side by side.

use crate::output::Output;
use crate::provenance::command;
use farline::plan::document::{check, write};
use farline_core::line::{LineComparison, LineDocument};
use farline_core::units::Error;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline line compare sonet.json mpls.json
  farline line compare sonet.json mpls.json both.json --composed -o three.html

The documents are those that `farline line TARGET -o FILE.json` writes. With
--composed the last path is made of the others, and what they predict of it
stands next to it.";

/// Put line tests of several paths side by side
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Documents of line tests
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// The last is composed of the others
    #[arg(long)]
    composed: bool,
    /// A page [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    args.out.iter().try_for_each(|file| check(file))?;
    let documents = args
        .files
        .iter()
        .map(|file| {
            let json = super::text_of(file)?;
            let document =
                LineDocument::read(&json).map_err(|error| error.while_doing(file.display()))?;
            let name =
                file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
            Ok((name, document))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let comparison = LineComparison::of(&documents, args.composed)?;
    if let Some(file) = &args.out {
        write(file, comparison.page(&[command()]).html().as_bytes())?;
    }
    output.result(&comparison, comparison.section().plain())?;
    Ok(ExitCode::SUCCESS)
}
