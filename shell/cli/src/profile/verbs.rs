//! Profiles of RDMA, and TCP beside it: the papers' experiments over verbs, by the model.

use super::document::write;
use super::export::{is_document, write_made};
use super::{Args, now, side_by_side, simulate};
use crate::output::Output;
use farline_core::profile::verbs::{BESIDE, Beside, Grid, Profile, Way, beside, modelled, preset};
use farline_core::profile::{Columns, Environment, Form, Grid as TcpGrid, Kind, Profile as TcpProfile};
use farline_core::report::Page;
use farline_core::units::{Error, Fault};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Of a profile of more cells only the page, the table and the document have all.
const CELLS: usize = 60;

/// What was asked for.
pub(super) enum Asked {
    /// RDMA alone.
    Verbs(Grid),
    /// TCP, and RDMA.
    Beside(Box<TcpGrid>, Grid),
}

/// What was asked for, when it is a preset of this file.
pub(super) fn asked(args: &Args) -> Result<Option<Asked>, Error> {
    let Some(name) = &args.preset else { return Ok(None) };
    let form = if args.full { Form::Full } else { Form::Quick };
    let wrong = |message: String| Error::new(Fault::You, "profile-preset", message);
    let (tcp, rdma) = match (name == BESIDE.0, preset(name, form)?) {
        (true, _) => beside(form).map(|(tcp, rdma)| (Some(tcp), rdma))?,
        (false, Some(rdma)) => (None, rdma),
        (false, None) => return Ok(None),
    };
    if !args.simulate {
        return Err(wrong(format!("`{name}` is of RDMA, which this command models only")).hint("give --simulate"));
    }
    if args.scale.is_some() {
        return Err(wrong(format!("`{name}` is not divided: it is modelled at its own rate")).hint("leave --scale out"));
    }
    let (seed, runs) = args.axes.of_verbs().map_err(|flag| {
        wrong(format!("`{name}` has axes of its own: {flag} is not one of them")).hint("it takes --seed and --repetitions")
    })?;
    let rdma = Grid { seed: seed.unwrap_or(rdma.seed), repetitions: runs.unwrap_or(rdma.repetitions).max(1), ..rdma };
    Ok(Some(match tcp {
        Some(tcp) => Asked::Beside(Box::new(args.axes.over(tcp)?), rdma),
        None => Asked::Verbs(rdma),
    }))
}

pub(super) fn run(asked: Asked, args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let rdma = |grid: Grid| {
        let mut profile = Profile::new(grid, now());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let runs = side_by_side(&profile.cells, workers, |result| modelled(&profile.grid, &result.cell));
        for (result, runs) in profile.cells.iter_mut().zip(runs) {
            result.modelled = runs;
        }
        profile
    };
    match asked {
        Asked::Verbs(grid) => {
            let profile = rdma(grid);
            write_all(&args.out, &profile, || profile.columns(), |command| profile.page(command))?;
            output.result(&profile, table(&profile))?;
        }
        Asked::Beside(tcp, grid) => {
            let mut tcp = TcpProfile::new(*tcp, Kind::Modelled, Environment::default(), now())?;
            simulate(&mut tcp, &[])?;
            let both = Beside::new(tcp, rdma(grid));
            write_all(&args.out, &both, || both.columns(), |command| both.page(command))?;
            output.result(&both, verdicts(&both))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes each of `files` as its name wants it: a page, a table or the document.
fn write_all(
    files: &[PathBuf],
    document: &impl Serialize,
    columns: impl Fn() -> Columns,
    page: impl Fn(&[String]) -> Page,
) -> Result<(), Error> {
    for file in files.iter().filter(|file| is_document(file)) {
        let json = serde_json::to_vec_pretty(document)
            .map_err(|error| Error::new(Fault::Bug, "profile-document", format!("the document: {error}")))?;
        write(file, &json)?;
    }
    write_made(files, columns, page)
}

/// A profile of RDMA on a terminal.
fn table(profile: &Profile) -> String {
    let cells = profile.cells.len();
    let mut lines = vec![format!("{}: {cells} cells, modelled, not measured", profile.grid.name)];
    lines.push(format!("{:<64} {:>12} {:>10}", "cell", "mean", "sd"));
    for result in profile.cells.iter().take(CELLS) {
        let Some(found) = result.summary(Kind::Modelled) else { continue };
        let line = match result.cell.way {
            Way::RoundTrip => format!("{:>12.1} {:>10.1} us", found.mean, found.sd),
            _ => format!("{:>12.6} {:>10.6} Gbit/s", found.mean, found.sd),
        };
        lines.push(format!("{:<64} {line}", result.cell.name()));
    }
    if cells > CELLS {
        lines.push(format!("and {} cells more: -o FILE.html, FILE.csv or FILE.json has all", cells - CELLS));
    }
    lines.join("\n")
}

/// What to use when, on a terminal.
fn verdicts(both: &Beside) -> String {
    let mut lines = vec![format!("{}: modelled, not measured; payload in Gbit/s", BESIDE.0)];
    for verdict in both.verdicts() {
        lines.push(format!("{} beside {}: {}: {}", verdict.path.name, verdict.cross, verdict.choice.name(), verdict.why));
    }
    lines.join("\n")
}
