//! Profiles that are measured, over emulated links or a real path.

use super::ticker::Ticker;
use crate::duration::duration;
use crate::output::Output;
use farline::plan::document::{DocumentPlace, DocumentReservation, text};
use farline::prober::LinkBench;
use farline::run_dir::name_here;
use farline_core::experiment::ExperimentRun;
use farline_core::profile::{Bench, Document, Experiment, Grid, Job};
use farline_core::units::Error;
use std::time::Instant;

/// What its links are called: one at a time, so a second profile is told that the name is taken.
const LINK: &str = "profile";
/// How long one repetition takes besides its own time: the link, the ends, connecting.
const AROUND_S: f64 = 1.0;

/// `grid` at the highest rate that this machine carries exactly, as trials on links of its own say.
///
/// # Errors
/// Those of [`Grid::carried`]: what it carries at no rate is not measured.
pub(super) fn scaled(grid: Grid, output: &Output) -> Result<Grid, Error> {
    let run = |trial: &Grid, job: &Job| {
        LinkBench::new(name_here(LINK), None, trial)?.run(trial, job).map(|found| found.invalid)
    };
    let chosen = grid.carried(run, |k, why| {
        if !output.quiet() {
            eprintln!("farline: not at 1/{k} of the rate on this machine: {why}");
        }
    })?;
    if chosen.scale > 1 && !output.quiet() {
        let how = if chosen.time_scaled {
            "rates are divided by it, round trips multiplied"
        } else {
            "rates and packets are divided by it"
        };
        eprintln!("farline: measuring scaled {}: {how}, windows in packets are kept", chosen.scale);
    }
    Ok(chosen)
}

/// The bench of emulated links for `grid`.
pub(super) fn links(grid: &Grid) -> Result<LinkBench, Error> {
    LinkBench::new(name_here(LINK), None, grid)
}

/// Runs what is missing of `document`; after each repetition every one of `files` holds it, from
/// which `again` goes on.
pub(super) fn run<D: Document>(
    document: &mut D,
    files: &mut [DocumentPlace],
    again: &str,
    bench: &mut dyn Bench<D::Grid>,
    output: &Output,
) -> Result<(), Error> {
    let began = Instant::now();
    let mut ran = 0u32;
    while let Some(job) = document.next(1).pop() {
        let len = text(document)?.len() as u64;
        let places: Vec<DocumentReservation<'_>> =
            files.iter_mut().map(|file| file.reserve(len)).collect::<Result<_, _>>()?;
        let start = crate::provenance::moment();
        let name = D::Grid::cell_name(&job.cell);
        let ran_in = {
            let grid = document.grid().under(&job.cell);
            let (name, seconds, (done, cells)) =
                (name.clone(), grid.longest_run_s(), document.progress());
            let left = left(document, began.elapsed().as_secs_f64(), ran);
            let words = move |so_far: f64| {
                let left = duration((left - so_far).max(0.0));
                format!(
                    "[{done}/{cells}] {so_far:.0} of {seconds:.0} s; at most {left} left; {name}"
                )
            };
            let _ticker = Ticker::start(output, words);
            bench.run(&grid, &job)
        };
        let mut one = match ran_in {
            Ok(one) => one,
            Err(error) => {
                drop(places);
                return Err(resumable(error, files, again));
            }
        };
        one.began_at(&start);
        ran += 1;
        let found = document.grid().found(&one);
        // The first cause; the document has all.
        let first = |why: &str| why.split("; ").next().map(|why| format!(", INVALID: {why}"));
        let invalid = one.invalid().and_then(first).unwrap_or_default();
        document.record(&job, one);
        let bytes = text(document)?;
        places.into_iter().try_for_each(|place| place.write(&bytes))?;
        if !output.quiet() {
            let (done, cells) = document.progress();
            let left = duration(left(document, began.elapsed().as_secs_f64(), ran));
            eprintln!("[{done}/{cells}] {name}: {found}{invalid}; at most {left} left");
        }
    }
    Ok(())
}

/// How long it still takes at most, in seconds, after `ran` repetitions in `elapsed` seconds.
fn left(document: &impl Document, elapsed: f64, ran: u32) -> f64 {
    let each = if ran == 0 { 0.0 } else { elapsed / f64::from(ran) };
    f64::from(document.most_left()) * each.max(document.grid().longest_run_s() + AROUND_S)
}

fn resumable(error: Error, files: &[DocumentPlace], again: &str) -> Error {
    match files.first() {
        Some(file) => {
            let so_far =
                format!("what ran is in the file; go on with `{again} {}`", file.file().display());
            let hint =
                error.hint.as_ref().map_or(so_far.clone(), |hint| format!("{hint}; {so_far}"));
            error.hint(hint)
        }
        None => error,
    }
}
