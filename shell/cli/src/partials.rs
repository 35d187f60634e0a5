//! `farline partials`: what broken-off copies left behind, listed and removed.

use crate::connect;
use crate::duration::duration;
use crate::interrupt;
use crate::node::hello;
use crate::output::Output;
use clap::Subcommand;
use farline::client::{Location, Remote, remove_elsewhere, stored_elsewhere};
use farline::stores::{LandedTree, Leftover, Leftovers, Receipt, Removal};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span, escaped};
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline partials ls /data
  farline partials rm /data/run7
  farline partials rm ftp://old.site:2811/data/

A copy that is broken off keeps what is durable in hidden files next to its
target, for the same command to go on from. `rm` gives that up for good.
`farline cp -r` leaves them out. What is left at a server that is not Farline is
known to the host that copied there, by the server's word.";

/// List or remove what broken-off copies left behind
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List partial files: how much is durable, how old, whether a copy runs.
    #[command(after_help = "Example:\n  farline partials ls /data")]
    Ls {
        /// Directories, each with everything below it, or URLs of servers that are not Farline
        /// [default: . and all such servers]
        #[arg(value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
    /// Remove partial files and their journals, unless a running copy holds them.
    #[command(after_help = "Example:\n  farline partials rm /data/run7 /data/big.h5")]
    Rm {
        /// Directories with everything below, files by their target's name or their own, or URLs at
        /// servers that are not Farline
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}

/// One line of the documents; its text is lossy where names are not UTF-8.
#[derive(Serialize)]
struct Row {
    target: String,
    /// Of a tree to or from a server that is not Farline: how many files have landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    landed_files: Option<u64>,
    partial: Option<String>,
    journal: Option<String>,
    durable_bytes: Bytes,
    total_bytes: Option<Bytes>,
    disk_bytes: Bytes,
    age: Span,
    running: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

/// The document of `ls`; its schema is `farline/partials/1`.
#[derive(Serialize)]
struct ListDocument {
    schema: &'static str,
    partials: Vec<Row>,
    problems: Vec<Problem>,
}

/// The document of `rm`; its schema is `farline/partials-rm/1`.
#[derive(Serialize)]
struct RemoveDocument {
    schema: &'static str,
    removed: Vec<Row>,
    kept: Vec<Row>,
    problems: Vec<Problem>,
}

/// A folder that could not be read.
#[derive(Serialize)]
struct Problem {
    path: String,
    error: Error,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match args.action {
        Action::Ls { dirs } if dirs.is_empty() => {
            let here = PathBuf::from(".");
            let is_below = below(&here);
            let all = LandedTree::all()?.into_iter();
            let trees = all.filter(|tree| !tree.target.starts_with(b"/") || is_below(tree));
            let mut rows: Vec<Row> = trees.map(|tree| row_of_tree(&tree, None)).collect();
            rows.extend(stored_elsewhere()?.iter().map(|receipt| row_elsewhere(receipt, None)));
            list(&[here], rows, output)
        }
        Action::Ls { dirs } => {
            let (mut here, mut rows) = (Vec::new(), Vec::new());
            for dir in dirs {
                let trees = match server_of(&dir)? {
                    Some(remote) => {
                        let trees = trees_at(&remote)?;
                        let stored = stored_at(&remote, trees.is_empty())?;
                        rows.extend(stored.iter().map(|receipt| row_elsewhere(receipt, None)));
                        trees
                    }
                    None => {
                        let is_below = below(&dir);
                        here.push(dir);
                        LandedTree::all()?.into_iter().filter(|tree| is_below(tree)).collect()
                    }
                };
                rows.extend(trees.iter().map(|tree| row_of_tree(tree, None)));
            }
            list(&here, rows, output)
        }
        Action::Rm { paths } => remove(&paths, output),
    }
}

/// The server that a path is of, when it is a URL of one.
fn server_of(path: &Path) -> Result<Option<Remote>, Error> {
    let is_url = path.to_str().is_some_and(|text| text.contains("://"));
    Ok(match is_url.then(|| Location::parse(path.as_os_str())).transpose()? {
        Some(Location::Remote(remote)) => Some(remote),
        _ => None,
    })
}

/// Whether a tree goes to `dir` of this host, or below it.
fn below(dir: &Path) -> impl Fn(&LandedTree) -> bool + use<> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    move |tree| Path::new(OsStr::from_bytes(&tree.target)).starts_with(&dir)
}

/// As journals have it, without the slash at its end.
fn name_of(remote: &Remote) -> Vec<u8> {
    let named = [remote.place().as_bytes(), &remote.path].concat();
    named.strip_suffix(b"/").unwrap_or(&named).to_vec()
}

fn is_at(target: &[u8], named: &[u8]) -> bool {
    target.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Trees on their way to `remote` or below it.
fn trees_at(remote: &Remote) -> Result<Vec<LandedTree>, Error> {
    let named = name_of(remote);
    Ok(LandedTree::all()?.into_iter().filter(|tree| is_at(&tree.target, &named)).collect())
}

/// What was left at `remote`: of the target that it names, or of those below it. Where nothing was,
/// it may be a node to be `asked`.
fn stored_at(remote: &Remote, asked: bool) -> Result<Vec<Receipt>, Error> {
    let named = name_of(remote);
    let is_there = |receipt: &Receipt| receipt.partial == named || is_at(&receipt.target(), &named);
    let stored: Vec<Receipt> = stored_elsewhere()?.into_iter().filter(is_there).collect();
    // A Farline node keeps its own account of what is left there, beneath its root.
    if asked && stored.is_empty() && (remote.farline || hello(remote, &connect::usual())?.farline) {
        let message =
            format!("{} is a Farline node: what is left there is listed there", remote.server());
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
            .hint(format!("at {}: `farline partials ls DIR`", remote.host)));
    }
    Ok(stored)
}

fn list(dirs: &[PathBuf], mut rows: Vec<Row>, output: &Output) -> Result<ExitCode, Error> {
    let mut problems = Vec::new();
    for dir in dirs {
        let all = Leftovers::below(dir)?;
        rows.extend(all.found.iter().map(|left| row(left, None)));
        problems.extend(problems_of(all));
    }
    let mut text = if rows.is_empty() {
        "no partial files".to_owned()
    } else {
        format!("{:>9} {:>9} {:>8}  {:<10}  target", "durable", "total", "age", "state")
    };
    for row in &rows {
        let state = match row.running {
            Some(true) => "running",
            Some(false) => "broken off",
            None => "unknown",
        };
        let total = row.total_bytes.map_or("?".to_owned(), |total| total.to_string());
        let (durable, age) = (row.durable_bytes.to_string(), duration(row.age.as_secs_f64()));
        let landed = match row.landed_files {
            Some(1) => " (1 file of a tree)".to_owned(),
            Some(files) => format!(" ({files} files of a tree)"),
            None => String::new(),
        };
        text.push_str(&format!(
            "\n{durable:>9} {total:>9} {age:>8}  {state:<10}  {}{landed}",
            escaped(&row.target)
        ));
    }
    let failed: Vec<Error> = problems.iter().map(|problem| problem.error.clone()).collect();
    output
        .result(&ListDocument { schema: "farline/partials/1", partials: rows, problems }, text)?;
    Ok(end(&failed, output))
}

fn remove(paths: &[PathBuf], output: &Output) -> Result<ExitCode, Error> {
    let (mut removed, mut kept, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        if let Some(remote) = server_of(path)? {
            let trees = trees_at(&remote)?;
            let is_tree = !trees.is_empty();
            forget(trees, &mut removed, &mut kept);
            for (receipt, result) in remove_at(&remote, !is_tree)? {
                match result {
                    Ok(()) => removed.push(row_elsewhere(&receipt, None)),
                    Err(error) => kept.push(row_elsewhere(&receipt, Some(error))),
                }
            }
            continue;
        }
        let outcome = if path.is_dir() {
            let is_below = below(path);
            let trees = LandedTree::all()?.into_iter().filter(|tree| is_below(tree)).collect();
            forget(trees, &mut removed, &mut kept);
            let all = Leftovers::below(path)?;
            let outcome = all.remove(&|_| true);
            problems.extend(problems_of(all));
            outcome
        } else {
            remove_file(path)?
        };
        for (left, result) in outcome {
            match result {
                Ok(()) => removed.push(row(&left, None)),
                Err(error) => kept.push(row(&left, Some(error))),
            }
        }
    }
    let freed = Bytes(removed.iter().map(|row| row.disk_bytes.0).sum());
    let lines =
        removed.iter().map(|row| format!("removed what was left of {}\n", escaped(&row.target)));
    // What lay elsewhere took room there.
    let freed = if freed.0 > 0 { format!(", {freed} freed") } else { String::new() };
    let text = format!("{}{} removed{freed}", lines.collect::<String>(), removed.len());
    let errors = kept
        .iter()
        .filter_map(|row| row.error.clone())
        .chain(problems.iter().map(|problem| problem.error.clone()));
    let failed: Vec<Error> = errors.collect();
    output.result(
        &RemoveDocument { schema: "farline/partials-rm/1", removed, kept, problems },
        text,
    )?;
    Ok(end(&failed, output))
}

/// What was left at a server, and what became of its removal.
type RemovalElsewhere = (Receipt, Result<(), Error>);

/// Gives up what journals know of `trees`.
fn forget(trees: Vec<LandedTree>, removed: &mut Vec<Row>, kept: &mut Vec<Row>) {
    for tree in trees {
        match tree.forget() {
            Ok(()) => removed.push(row_of_tree(&tree, None)),
            Err(error) => kept.push(row_of_tree(&tree, Some(error))),
        }
    }
}

/// Removes what was left at a server that is not Farline; nothing left may be an error.
fn remove_at(remote: &Remote, must_be: bool) -> Result<Vec<RemovalElsewhere>, Error> {
    let stored = stored_at(remote, must_be)?;
    if stored.is_empty() && must_be {
        return Err(nothing_of(&remote.to_string()));
    }
    let runtime = interrupt::runtime("start")?;
    let removal = |receipt: Receipt| {
        let removed = runtime.block_on(remove_elsewhere(&receipt, remote));
        (receipt, removed)
    };
    Ok(stored.into_iter().map(removal).collect())
}

fn nothing_of(what: &str) -> Error {
    Error::new(Fault::You, ErrorCode::NoPartial, format!("there is no partial file of {what}"))
        .hint("`farline partials ls DIR` lists what there is")
}

/// Removes what is left of one file, named as its target or by its own hidden name.
fn remove_file(path: &Path) -> Result<Vec<Removal>, Error> {
    let nothing = || nothing_of(&path.display().to_string());
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|_| nothing())?;
    let full = folder.join(path.file_name().ok_or_else(nothing)?);
    let is_it = |left: &Leftover| {
        left.target == full
            || left.partial.as_ref() == Some(&full)
            || left.journal.as_ref() == Some(&full)
    };
    let outcome = Leftovers::below(&folder)?.remove(&is_it);
    if outcome.is_empty() { Err(nothing()) } else { Ok(outcome) }
}

/// Prints what failed, where the document does not say it, and returns the exit code.
fn end(failed: &[Error], output: &Output) -> ExitCode {
    if !output.json() {
        for error in failed {
            output.error(error);
        }
    }
    failed.first().map_or(ExitCode::SUCCESS, |error| ExitCode::from(error.fault.exit_code()))
}

fn problems_of(all: Leftovers) -> impl Iterator<Item = Problem> {
    all.problems.into_iter().map(|problem| Problem {
        path: String::from_utf8_lossy(&problem.path).into_owned(),
        error: problem.error,
    })
}

fn row(left: &Leftover, error: Option<Error>) -> Row {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Row {
        target: text(&left.target),
        landed_files: None,
        partial: left.partial.as_deref().map(text),
        journal: left.journal.as_deref().map(text),
        durable_bytes: Bytes(left.durable),
        total_bytes: left.total.map(Bytes),
        disk_bytes: Bytes(left.on_disk),
        age: left.age,
        running: left.running,
        error,
    }
}

/// A tree whose whole length nobody has noted; what landed of it is at its place.
fn row_of_tree(tree: &LandedTree, error: Option<Error>) -> Row {
    Row {
        target: String::from_utf8_lossy(&tree.target).into_owned(),
        landed_files: Some(tree.files),
        partial: None,
        journal: Some(tree.journal.to_string_lossy().into_owned()),
        durable_bytes: Bytes(tree.bytes),
        total_bytes: None,
        disk_bytes: Bytes(0),
        age: tree.changed.elapsed().unwrap_or_default().into(),
        running: tree.running,
        error,
    }
}

/// What is elsewhere takes no room here but its journal.
fn row_elsewhere(receipt: &Receipt, error: Option<Error>) -> Row {
    Row {
        target: String::from_utf8_lossy(&receipt.target()).into_owned(),
        landed_files: None,
        partial: Some(String::from_utf8_lossy(&receipt.partial).into_owned()),
        journal: Some(receipt.journal.to_string_lossy().into_owned()),
        durable_bytes: Bytes(receipt.stored),
        total_bytes: Some(Bytes(receipt.total)),
        disk_bytes: Bytes(0),
        age: receipt.changed.elapsed().unwrap_or_default().into(),
        running: receipt.running,
        error,
    }
}
