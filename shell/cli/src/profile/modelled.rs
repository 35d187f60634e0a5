//! Profiles by the model: many repetitions next to each other, each kept as soon as it has run.

use super::ending::Ending;
use super::ticker::Ticker;
use crate::output::Output;
use farline::plan::document::{DocumentPlace, text};
use farline_core::profile::{Document, Experiment, Job, Profile, repetition};
use farline_core::units::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(50);
/// Of the time that it takes, writing takes one part of so many at most.
const PART: u32 = 10;

/// Runs what is missing of `profile` by the model. `documents` hold each repetition as soon as
/// writing it takes a small part of the time; all that ran when a signal asks for the `ending`.
pub(super) fn simulate(
    profile: &mut Profile,
    documents: &mut [DocumentPlace],
    ending: &Ending,
    output: &Output,
) -> Result<(), Error> {
    let (ran, most) = (Arc::new(AtomicU32::new(0)), profile.most_left());
    let seen = Arc::clone(&ran);
    // Most, because a cell may need fewer.
    let _ticker = Ticker::start(output, move |seconds| {
        let ran = seen.load(Ordering::Relaxed);
        let left = f64::from(most.saturating_sub(ran)) * seconds / f64::from(ran.max(1));
        let left = if ran == 0 {
            String::new()
        } else {
            format!("; at most {} left", crate::duration::duration(left))
        };
        format!("{ran} of at most {most} repetitions simulated{left}")
    });
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut saving = Saving { next: Instant::now(), failed: None };
    loop {
        // Many at a time, so that no worker waits long for the others.
        let jobs = profile.next(workers * 8);
        if jobs.is_empty() || saving.failed.is_some() {
            return saving.failed.map_or(Ok(()), Err);
        }
        let grid = profile.grid.clone();
        let run = |job: &Job| {
            let one = repetition(&grid.under(&job.cell), job);
            ran.fetch_add(1, Ordering::Relaxed);
            one
        };
        let mut turns = Turns::of(&jobs);
        as_they_come(&jobs, workers, run, |done| {
            for (job, one) in done.into_iter().flat_map(|(place, one)| turns.next(place, one)) {
                profile.record(&jobs[job], one);
            }
            if ending.is_asked() {
                saving.save(profile, documents);
                ending.end(saving.failed.as_ref());
            }
            Instant::now() < saving.next || saving.save(profile, documents)
        });
    }
}

/// When a document is written next, and why it could not be.
struct Saving {
    next: Instant,
    failed: Option<Error>,
}

impl Saving {
    /// Whether all could be written.
    fn save(&mut self, profile: &Profile, documents: &mut [DocumentPlace]) -> bool {
        let began = Instant::now();
        let saved = documents.iter_mut().try_for_each(|file| file.write(&text(profile)?));
        self.failed = saved.err();
        self.next = Instant::now() + began.elapsed() * PART;
        self.failed.is_none()
    }
}

/// Repetitions of one cell in their order, whichever was first: a document does not show how many
/// processors there were.
struct Turns<R> {
    /// Those of each cell that are still to be recorded, in their order.
    cells: Vec<(usize, Vec<usize>)>,
    waiting: Vec<(usize, R)>,
}

impl<R> Turns<R> {
    fn of(jobs: &[Job]) -> Turns<R> {
        let mut cells: Vec<(usize, Vec<usize>)> = Vec::new();
        for (place, job) in jobs.iter().enumerate() {
            match cells.iter_mut().find(|(cell, _)| *cell == job.place) {
                Some((_, places)) => places.push(place),
                None => cells.push((job.place, vec![place])),
            }
        }
        Turns { cells, waiting: Vec::new() }
    }

    /// What may be recorded now that the job at `place` gave `one`.
    fn next(&mut self, place: usize, one: R) -> Vec<(usize, R)> {
        self.waiting.push((place, one));
        let mut now = Vec::new();
        let Some((_, places)) = self.cells.iter_mut().find(|(_, places)| places.contains(&place))
        else {
            return now;
        };
        while let Some(found) = places
            .first()
            .and_then(|first| self.waiting.iter().position(|(place, _)| place == first))
        {
            places.remove(0);
            now.push(self.waiting.swap_remove(found));
        }
        now
    }
}

/// What `run` makes of each of `items`, on as many threads as there are workers. `each` is given
/// what has come, which may be nothing; where it says false no other item begins.
fn as_they_come<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    run: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(Option<(usize, R)>) -> bool,
) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            let (tell, next, stop, run) = (tell.clone(), &next, &stop, &run);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { return };
                    // Nobody listens any more where it was broken off.
                    let _ = tell.send((place, run(item)));
                }
            });
        }
        drop(tell);
        loop {
            let come = match told.recv_timeout(LOOK) {
                Ok(come) => Some(come),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !each(come) {
                stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
}

/// What `run` makes of each of `items`, in their order, on as many threads as there are workers.
pub(super) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let all: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    as_they_come(items, workers, run, |come| {
        all.lock().unwrap_or_else(PoisonError::into_inner).extend(come);
        true
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Whichever thread was first.
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::congestion::Algorithm;
    use farline_core::profile::{Environment, Grid, PathPoint, ProfileKind, Repetitions};
    use std::sync::mpsc::sync_channel;

    fn jobs() -> Vec<Job> {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid {
            streams: vec![1, 2],
            repetitions: Repetitions { least: 2, most: 2, half_width: 0.0 },
            ..Grid::new("custom", vec![path], vec![Algorithm::Reno])
        };
        Profile::new(grid, ProfileKind::Modelled, Environment::default(), "")
            .expect("a grid")
            .next(4)
    }

    #[test]
    fn what_ran_is_kept_while_another_still_runs() {
        // The first ends when the three others have come.
        let (go, wait) = sync_channel::<()>(0);
        let (wait, mut come) = (Mutex::new(wait), Vec::new());
        let run = |item: &usize| {
            if *item == 0 {
                let _ = wait.lock().expect("one waits").recv();
            }
            *item
        };
        let mut go = Some(go);
        as_they_come(&[0, 1, 2, 3], 2, run, |one| {
            come.extend(one.map(|(place, _)| place));
            if come.len() == 3 {
                go.take();
            }
            true
        });
        assert_eq!(come, [1, 2, 3, 0]);
    }

    #[test]
    fn the_repetitions_of_a_cell_are_in_their_order() {
        let mut jobs = jobs();
        jobs.push(jobs[0].clone());
        let cells: Vec<usize> = jobs.iter().map(|job| job.place).collect();
        let mut turns = Turns::of(&jobs);
        let later = cells.iter().rposition(|cell| *cell == cells[0]).expect("two of it");
        assert!(later > 0 && turns.next(later, "later").is_empty());
        assert_eq!(turns.next(0, "first"), [(0, "first"), (later, "later")]);
        // Another cell waits for nothing.
        let other = cells.iter().position(|cell| *cell != cells[0]).expect("two cells");
        assert_eq!(turns.next(other, "other"), [(other, "other")]);
    }

    #[test]
    fn results_are_in_the_order_of_their_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(side_by_side(&items, 4, |item| item * 2)[99], 198);
        assert!(side_by_side(&items, 4, |item| *item).is_sorted());
    }
}
