//! Profiles that are measured, over emulated links or a real path.

use super::print::rate;
use super::ticker::Ticker;
use crate::duration::duration;
use crate::output::Output;
use farline::plan::document::{DocumentReservation, text};
use farline::prober::LinkBench;
use farline::run_dir::name_here;
use farline_core::profile::{Bench, Grid, Job, Profile, Repetition};
use farline_core::units::Error;
use std::path::PathBuf;
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
        let how = if chosen.stretched {
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

/// Runs what is missing of `profile`; after each repetition every one of `documents` holds it.
pub(super) fn run(
    profile: &mut Profile,
    documents: &[&PathBuf],
    bench: &mut dyn Bench,
    output: &Output,
) -> Result<(), Error> {
    let began = Instant::now();
    let mut ran = 0u32;
    while let Some(job) = profile.next(1).pop() {
        let len = text(profile)?.len() as u64;
        let places: Vec<DocumentReservation> = documents
            .iter()
            .map(|file| DocumentReservation::reserve(file, len))
            .collect::<Result<_, _>>()?;
        let start = super::moment();
        let ran_in = {
            let grid = profile.grid.under(&job.cell);
            let (name, seconds, (done, cells)) =
                (job.cell.name(), grid.seconds, profile.progress());
            let left = left(profile, began.elapsed().as_secs_f64(), ran);
            let words = move |so_far: f64| {
                let left = duration((left - so_far).max(0.0));
                format!(
                    "[{done}/{cells}] {so_far:.0} of {seconds:.0} s; at most {left} left; {name}"
                )
            };
            let _ticker = Ticker::start(output, words);
            bench.run(&grid, &job)
        };
        let mut repetition = ran_in.map_err(|error| resumable(error, documents))?;
        repetition.began = Some(start);
        ran += 1;
        profile.record(&job, repetition);
        let document = text(profile)?;
        places.into_iter().try_for_each(|place| place.write(&document))?;
        if let Some(one) = profile.cells.get(job.place).and_then(|result| result.repetitions.last())
            && !output.quiet()
        {
            say(profile, &job, one, left(profile, began.elapsed().as_secs_f64(), ran));
        }
    }
    Ok(())
}

/// How long it still takes at most, in seconds, after `ran` repetitions in `elapsed` seconds.
fn left(profile: &Profile, elapsed: f64, ran: u32) -> f64 {
    let each = if ran == 0 { 0.0 } else { elapsed / f64::from(ran) };
    f64::from(profile.most_left()) * each.max(profile.grid.seconds + AROUND_S)
}

/// One line for each repetition: where the profile stands, what was found, how long it still takes
/// at most.
fn say(profile: &Profile, job: &Job, one: &Repetition, left: f64) {
    let (done, cells) = profile.progress();
    let left = duration(left);
    // The first cause; the document has all.
    let first = |why: &String| why.split("; ").next().map(|why| format!(", INVALID: {why}"));
    let invalid = one.invalid.as_ref().and_then(first).unwrap_or_default();
    let full = one.whole.receiver_bps.as_bps() as f64 * f64::from(profile.grid.scale);
    let scaled = if profile.grid.scale > 1 { " at the full rate" } else { "" };
    eprintln!(
        "[{done}/{cells}] {}: {}{scaled}{invalid}; at most {left} left",
        job.cell.name(),
        rate(full)
    );
}

fn resumable(error: Error, documents: &[&PathBuf]) -> Error {
    match documents.first() {
        Some(file) => {
            let so_far = format!(
                "what ran is in the file; go on with `farline profile --resume {}`",
                file.display()
            );
            let hint =
                error.hint.as_ref().map_or(so_far.clone(), |hint| format!("{hint}; {so_far}"));
            error.hint(hint)
        }
        None => error,
    }
}
