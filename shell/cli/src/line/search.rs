//! `farline line --search`: the highest load that is carried, by halving or for several loss ratios
//! at once, and the longest burst.

use super::report::{LineReport, Shown, tried};
use super::steps::tested;
use super::target::LineTarget;
use crate::output::Output;
use farline::line::LineRequestOptions;
use farline_core::line::{
    BurstBuffer, BurstSearch, BurstTrial, GoalOutcome, LineDocument, LineSettings, LoadSearch,
    RatioSearch, SearchGoal, scientific, words,
};
use farline_core::report::{ColumnSource, Columns, Section, TableSpec};
use farline_core::units::{Error, Fault, Probability, Rate, Span};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::Ordering;

/// How exact a load is found by halving, in per cent of the rate.
const PRECISION: f64 = 1.0;
/// Trials that decide on a load in a search for several ratios.
const TRIALS: u64 = 21;
/// The ratios where none are given: no loss, and half a per cent.
const RATIOS: [f64; 2] = [0.0, 0.005];
/// How often the longest burst is looked for, and how long the first one is (RFC 2544, section
/// 26.4).
const REPEATS: usize = 10;
const LONGEST_BURST: u64 = 2;
/// A burst that took longer than this part more, or this long, was not sent as asked.
const MOST_SLOWER: f64 = 0.05;
const MOST_LATER: f64 = 0.002;
/// A trial in which less than this part was sent says nothing.
const ENOUGH: f64 = 0.98;

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SearchFor {
    /// RFC 2544's throughput, with at most this loss.
    Halving(f64),
    /// MLRsearch's, for each of these losses.
    Ratios(Vec<f64>),
    /// The longest burst, so often.
    Bursts(usize),
}

impl FromStr for SearchFor {
    type Err = String;
    fn from_str(text: &str) -> Result<SearchFor, String> {
        let ratio = |text: &str| match text.parse::<Probability>() {
            Ok(ratio) if (0.0..1.0).contains(&ratio.0) => Ok(ratio.0),
            Ok(_) => Err(format!("`{text}` is no loss ratio: from 0 to below 1")),
            Err(error) => Err(format!("{error}; or mlr, or bursts")),
        };
        let repeats = |text: &str| match text.parse() {
            Ok(repeats) if (1..=1_000).contains(&repeats) => Ok(SearchFor::Bursts(repeats)),
            _ => Err(format!("`{text}` times is not 1 to 1000")),
        };
        match text {
            "mlr" => Ok(SearchFor::Ratios(RATIOS.to_vec())),
            "bursts" => Ok(SearchFor::Bursts(REPEATS)),
            _ => match (text.strip_prefix("bursts:"), text.contains(',')) {
                (Some(times), _) => repeats(times),
                (None, true) => {
                    text.split(',').map(ratio).collect::<Result<_, _>>().map(SearchFor::Ratios)
                }
                (None, false) => ratio(text).map(SearchFor::Halving),
            },
        }
    }
}

impl SearchFor {
    /// How long a trial, a load, or a burst lasts where nothing else is said.
    pub(super) fn usual_seconds(&self, usual: u64) -> u64 {
        match self {
            SearchFor::Halving(_) => usual,
            SearchFor::Ratios(_) => TRIALS,
            SearchFor::Bursts(_) => LONGEST_BURST,
        }
    }

    /// Looks for it.
    pub(super) fn run(
        &self,
        target: &LineTarget,
        options: &LineRequestOptions,
        out: &[PathBuf],
        output: &Output,
    ) -> Result<ExitCode, Error> {
        match self {
            SearchFor::Halving(goal) => halving(target, options, *goal, (out, output)),
            SearchFor::Ratios(ratios) => several(target, options, ratios, (out, output)),
            SearchFor::Bursts(repeats) => bursts(target, options, *repeats, (out, output)),
        }
    }
}

/// What a search by halving found.
#[derive(Serialize)]
struct Found<'a> {
    load_percent: f64,
    is_host_limited: bool,
    search: &'a LoadSearch,
}

/// What a search for several ratios found.
#[derive(Serialize)]
struct FoundRatios<'a> {
    rate: Rate,
    outcomes: &'a [GoalOutcome],
    trial_seconds: f64,
    search: &'a RatioSearch,
}

/// What a search for bursts found.
#[derive(Serialize)]
struct FoundBursts<'a> {
    rate: Rate,
    throughput: Rate,
    is_unlimited: bool,
    buffer: Option<BurstBuffer>,
    search: &'a BurstSearch,
}

/// What a search that found something ends with, and one that the user or a host ended.
fn exit_code(is_found: bool) -> ExitCode {
    if is_found { ExitCode::SUCCESS } else { ExitCode::from(Fault::Here.exit_code()) }
}

/// Whether the user ended it with the trial of `document`, or the other end is gone.
fn is_ended(options: &LineRequestOptions, document: &LineDocument, output: &Output) -> bool {
    let why = match (options.stop.load(Ordering::Relaxed), &document.broken_off) {
        (true, _) => "ended by you",
        (false, Some(why)) => why,
        (false, None) => return false,
    };
    output.remark(format_args!("{why}: what follows is of the trials until then"));
    true
}

fn told(load_percent: f64, loss: Option<f64>, output: &Output) {
    output.remark(format_args!(
        "{load_percent:.2} %: {}",
        loss.map_or("a host did not keep up".to_owned(), |loss| format!(
            "loss {}",
            scientific(loss, 1)
        ))
    ));
}

/// The highest load with at most `goal` of the frames lost.
fn halving(
    target: &LineTarget,
    options: &LineRequestOptions,
    goal: f64,
    (out, output): (&[PathBuf], &Output),
) -> Result<ExitCode, Error> {
    let (mut search, mut is_whole) = (LoadSearch::new(goal, PRECISION), true);
    while let Some(load_percent) = search.next() {
        let document =
            tested(target, options, LineSettings { load_percent, ..options.settings.clone() })?;
        if is_ended(options, &document, output) {
            is_whole = false;
            break;
        }
        let fit = document.outcome.is_fit();
        let loss = document.loss.filter(|_| fit).map(|loss| loss.value());
        told(load_percent, loss, output);
        search.record(loss);
    }
    let (load_percent, is_host_limited) = (search.carried_percent(), search.is_host_limited());
    let rate = options.settings.rate;
    let mut text =
        format!("{load_percent:.1} % of {rate} is carried with loss of at most {goal:e}");
    if is_host_limited {
        text += "; above it a host did not keep up, so that the line may carry more";
    }
    let trials = &search.trials;
    let shown = Shown {
        title: "Throughput by halving",
        sections: vec![
            Section::new("The highest load that is carried").text(format!("{text}.")),
            tried(trials.iter().map(|trial| (trial.load_percent, trial.loss))),
        ],
        text,
        columns: Columns::of(
            Vec::new(),
            trials,
            &[
                ("load_percent", ColumnSource::Real(|trial| Some(trial.load_percent))),
                ("loss", ColumnSource::Real(|trial| trial.loss)),
            ],
        ),
    };
    let found = Found { load_percent, is_host_limited, search: &search };
    LineReport::new("farline/line-search/1", options, found, shown).finish(out, output)?;
    Ok(exit_code(is_whole && load_percent > 0.0 && !is_host_limited))
}

/// The loss of a trial; `None` where a host did not keep up. A trial may be so short that none of
/// its seconds is whole, so that the load is looked at over all of it.
fn loss_of(document: &LineDocument) -> Option<f64> {
    let sender = &document.sender;
    let planned = document.settings.frames_a_second() * sender.took_ns as f64 / 1e9;
    let is_fit = document.outcome.is_fit() && sender.frames as f64 >= planned * ENOUGH;
    document.loss.filter(|_| is_fit).map(|loss| loss.value())
}

/// The highest loads for each of `ratios`.
fn several(
    target: &LineTarget,
    options: &LineRequestOptions,
    ratios: &[f64],
    (out, output): (&[PathBuf], &Output),
) -> Result<ExitCode, Error> {
    let sum = options.settings.most_seconds;
    let seconds = (sum / TRIALS).max(1) as f64;
    let goal = |ratio: &f64| SearchGoal {
        initial_seconds: seconds,
        final_seconds: seconds,
        ..SearchGoal::of_seconds(*ratio, sum as f64)
    };
    let (mut search, mut is_whole) = (RatioSearch::new(ratios.iter().map(goal).collect()), true);
    while let Some((load_percent, seconds)) = search.next() {
        let most_seconds = seconds as u64;
        let settings = LineSettings { load_percent, most_seconds, ..options.settings.clone() };
        let document = tested(target, options, settings)?;
        if is_ended(options, &document, output) {
            is_whole = false;
            break;
        }
        let loss = loss_of(&document);
        told(load_percent, loss, output);
        search.record(loss);
    }
    let outcomes = search.outcomes();
    let rate = options.settings.rate;
    let load = |percent: Option<f64>| match percent {
        Some(percent) => format!("{percent:.2}"),
        None => "-".to_owned(),
    };
    let table = TableSpec::new()
        .figures("Loss, at most", |row: &GoalOutcome| row.goal.loss_ratio.to_string())
        .figures("Throughput, %", |row| load(row.throughput_percent))
        .figures("Mbit/s", |row| {
            let bps = |percent: f64| percent / 100.0 * rate.as_bps() as f64;
            row.throughput_percent.map_or("-".to_owned(), |it| format!("{:.1}", bps(it) / 1e6))
        })
        .figures("Carried, %", |row| load(row.lower_percent))
        .figures("Not carried, %", |row| load(row.upper_percent))
        .words("", |row| {
            if row.is_host_limited { "a host did not keep up" } else { "" }.to_owned()
        });
    let spent = Span::from_secs_f64(search.seconds());
    let section = Section::new(format!("Throughput by MLRsearch, of {rate}"))
        .table(table.of(outcomes.iter().copied()))
        .note(format!("{} trials, {} of sending.", search.trials.len(), words(spent)));
    let trials = &search.trials;
    let shown = Shown {
        title: "Throughput by MLRsearch",
        text: super::plain(&section),
        sections: vec![section, tried(trials.iter().map(|trial| (trial.load_percent, trial.loss)))],
        columns: Columns::of(
            Vec::new(),
            trials,
            &[
                ("load_percent", ColumnSource::Real(|trial| Some(trial.load_percent))),
                ("seconds", ColumnSource::Real(|trial| Some(trial.seconds))),
                ("loss", ColumnSource::Real(|trial| trial.loss)),
            ],
        ),
    };
    let found =
        FoundRatios { rate, outcomes: &outcomes, trial_seconds: search.seconds(), search: &search };
    LineReport::new("farline/line-mlrsearch/1", options, found, shown).finish(out, output)?;
    let is_found =
        |outcome: &GoalOutcome| outcome.lower_percent.is_some() && !outcome.is_host_limited;
    Ok(exit_code(is_whole && outcomes.iter().all(is_found)))
}

/// What came of a burst: frames that did not come, or `None` where a host did not keep up. A burst
/// that was slower than asked and lost frames all the same would lose them at its rate too.
fn lost_of(document: &LineDocument) -> Option<u64> {
    let (sender, totals) = (&document.sender, &document.totals);
    let planned = sender.frames as f64 / document.settings.frames_a_second();
    let took = sender.took_ns as f64 / 1e9;
    let is_in_time = took <= (planned * (1.0 + MOST_SLOWER)).max(planned + MOST_LATER);
    let lost = sender.frames.saturating_sub(totals.received);
    let is_own = sender.own_drops + totals.own_drops > 0;
    (!is_own && (is_in_time || lost > 0)).then_some(lost)
}

/// The longest burst that comes without loss, `repeats` times.
fn bursts(
    target: &LineTarget,
    options: &LineRequestOptions,
    repeats: usize,
    (out, output): (&[PathBuf], &Output),
) -> Result<ExitCode, Error> {
    let (settings, rate) = (&options.settings, options.settings.rate);
    let most = settings.frames_a_second() * settings.most_seconds as f64;
    let wire_bytes = rate.as_bps() as f64 / 8.0 / settings.frames_a_second();
    let (mut search, mut is_whole) = (BurstSearch::new(most as u64, repeats), true);
    // What left the buffer while the longest burst with losses came: all that the line carries.
    let (mut longest, mut throughput) = (0, rate);
    while let Some(frames) = search.next() {
        // The burst ends it; the time is for a host that cannot send so fast.
        let most_seconds = 2 * settings.most_seconds + 1;
        let settings = LineSettings { most_seconds, most_frames: Some(frames), ..settings.clone() };
        let document = tested(target, options, settings)?;
        if is_ended(options, &document, output) {
            is_whole = false;
            break;
        }
        let (lost, totals) = (lost_of(&document), &document.totals);
        if lost > Some(0) && frames > longest && totals.came_ns > 0 {
            let bits = totals.received as f64 * wire_bytes * 8.0;
            let bps = bits / (totals.came_ns as f64 / 1e9);
            (longest, throughput) = (frames, Rate::from_bps(bps as u64).min(rate));
        }
        output.remark(format_args!(
            "{frames} frames: {}",
            lost.map_or("a host did not keep up".to_owned(), |lost| format!("{lost} lost"))
        ));
        search.record(lost);
    }
    let (buffer, is_unlimited) =
        (search.buffer(rate, wire_bytes, throughput), search.is_unlimited());
    let text = match buffer {
        None => "a host did not keep up: no burst was sent as asked".to_owned(),
        Some(_) if is_unlimited => format!(
            "bursts of {} frames, which take {} at {rate}, come without loss: the line carries \
             the rate",
            search.most_frames,
            words(Span::from_secs(settings.most_seconds)),
        ),
        Some(found) => {
            let frames = found.frames;
            format!(
                "bursts of {:.1} frames at {rate} come without loss: mean of {}, {} to {}, \
                 sd {:.1}\n\
                 which take {}; {throughput} left meanwhile, so that the buffer holds {}, {:.0} \
                 bytes of the wire",
                frames.mean,
                frames.n,
                frames.min,
                frames.max,
                frames.sd,
                found.implied,
                found.corrected,
                found.corrected_bytes,
            )
        }
    };
    let trials: Vec<(usize, BurstTrial)> = (1..).zip(search.trials.iter().copied()).collect();
    let table = TableSpec::new()
        .figures("Trial", |row: &(usize, BurstTrial)| row.0.to_string())
        .figures("Frames", |row| row.1.frames.to_string())
        .figures("Lost", |row| {
            row.1.lost.map_or("a host did not keep up".to_owned(), |lost| lost.to_string())
        });
    let shown = Shown {
        title: "Longest burst without loss",
        sections: vec![
            Section::new("The longest burst that comes")
                .text(format!("{}.", text.replace('\n', " "))),
            Section::new("What was tried, in order").table(table.of(trials)),
        ],
        text,
        columns: Columns::of(
            Vec::new(),
            &search.trials,
            &[
                ("frames", ColumnSource::Whole(|trial| Some(trial.frames))),
                ("lost", ColumnSource::Whole(|trial| trial.lost)),
            ],
        ),
    };
    let found = FoundBursts { rate, throughput, is_unlimited, buffer, search: &search };
    LineReport::new("farline/line-bursts/1", options, found, shown).finish(out, output)?;
    Ok(exit_code(is_whole && buffer.is_some() && !search.is_host_limited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_read() {
        let read = |text: &str| text.parse::<SearchFor>();
        assert_eq!(read("0"), Ok(SearchFor::Halving(0.0)));
        assert_eq!(read("1e-3"), Ok(SearchFor::Halving(0.001)));
        assert_eq!(read("mlr"), Ok(SearchFor::Ratios(vec![0.0, 0.005])));
        assert_eq!(read("0,0.005,0.1"), Ok(SearchFor::Ratios(vec![0.0, 0.005, 0.1])));
        assert_eq!(read("bursts"), Ok(SearchFor::Bursts(10)));
        assert_eq!(read("bursts:50"), Ok(SearchFor::Bursts(50)));
        for wrong in ["", "1", "-1", "0,", "0,x", "bursts:0", "bursts:x", "burst", "NaN"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
