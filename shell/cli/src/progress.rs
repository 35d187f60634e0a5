//! The progress of one transfer: a bar on a terminal, one plain line a minute elsewhere, nothing
//! when asked to be quiet.
//!
//! Everything goes to stderr. Rate and time left come from the samples' own clock, over the last
//! seconds, so a path that changes its speed is seen to. The bar alone has a colour, where the
//! terminal has any and `NO_COLOR` does not say otherwise.

use crate::output::Output;
use farline_core::transfer::Limit;
use farline_core::units::{Bytes, Rate, Span, escaped};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Bytes that have arrived.
    pub(crate) bytes_done: Bytes,
    /// What of them was there and did not have to move: no part of the rate.
    pub(crate) bytes_there: Bytes,
    /// Bytes in all, when that is known.
    pub(crate) bytes_total: Option<Bytes>,
    /// Files that have arrived whole, where that is counted while they arrive.
    pub(crate) files_done: Option<u64>,
    /// Files in all, when that is known.
    pub(crate) files_total: Option<u64>,
    /// What holds it back now, when that is known.
    pub(crate) limited_by: Option<Limit>,
    /// Since the transfer began.
    pub(crate) elapsed: Span,
}

/// The progress of one transfer as the user sees it.
pub(crate) struct ProgressDisplay {
    label: String,
    face: Face,
    pace: Pace,
}

enum Face {
    Bar(ProgressBar),
    /// The earliest time of the next line.
    Lines(Span),
    Silent,
}

/// Below this width a bar says less than the figures in its place would.
const BAR_COLUMNS: usize = 40;
/// What a bar takes at least, with its brackets and the space behind.
const LEAST_BAR: usize = 11;
/// Between two lines where nobody looks at a terminal: a log, a batch system's file.
const LINE_EVERY: Span = Span::from_secs(60);

impl ProgressDisplay {
    /// Progress of what `label` names, shown the way that `output` and stderr call for.
    ///
    /// With `--json` a terminal still gets its bar, and what is not a terminal gets nothing.
    pub(crate) fn new(output: &Output, label: impl Into<String>) -> ProgressDisplay {
        let face = match (output.quiet(), io::stderr().is_terminal(), output.json()) {
            (true, _, _) | (false, false, true) => Face::Silent,
            (false, true, _) => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                Face::Bar(bar.with_finish(ProgressFinish::AndClear))
            }
            (false, false, false) => Face::Lines(LINE_EVERY),
        };
        ProgressDisplay { label: escaped(&label.into()).into_owned(), face, pace: Pace::default() }
    }

    /// Shows `sample`. Cheap: call it as often as is convenient.
    pub(crate) fn update(&mut self, sample: &Sample) {
        let moved = Bytes(sample.bytes_done.0.saturating_sub(sample.bytes_there.0));
        self.pace.push(sample.elapsed, moved);
        let rate = self.pace.rate();
        match &mut self.face {
            Face::Bar(bar) => {
                let columns = columns();
                let with_bar = columns >= BAR_COLUMNS && sample.bytes_total.is_some();
                let room = columns.saturating_sub(LEAST_BAR);
                let text =
                    describe(&self.label, sample, rate, if with_bar { room } else { columns });
                // First: each of the others draws.
                bar.set_style(style(with_bar));
                if let Some(total) = sample.bytes_total {
                    bar.set_length(total.0);
                }
                bar.set_position(sample.bytes_done.0);
                bar.set_message(text);
            }
            Face::Lines(next) => {
                if sample.elapsed >= *next {
                    *next = sample.elapsed + LINE_EVERY;
                    // A stderr that is gone is no reason to end a transfer.
                    let _ = writeln!(
                        io::stderr().lock(),
                        "{}",
                        describe(&self.label, sample, rate, usize::MAX)
                    );
                }
            }
            Face::Silent => {}
        }
    }

    /// What says a line while the progress is shown: above the bar, where there is one.
    pub(crate) fn speaker(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let (bar, is_silent) = match &self.face {
            Face::Bar(bar) => (Some(bar.clone()), false),
            Face::Lines(_) => (None, false),
            Face::Silent => (None, true),
        };
        move |line| match (&bar, escaped(line)) {
            (Some(bar), line) => bar.suspend(|| drop(writeln!(io::stderr().lock(), "{line}"))),
            (None, _) if is_silent => {}
            // A stderr that is gone is no reason to end a transfer.
            (None, line) => drop(writeln!(io::stderr().lock(), "{line}")),
        }
    }

    /// Clears the bar: what is said next is the result.
    pub(crate) fn finish(self) {
        if let Face::Bar(bar) = self.face {
            bar.finish_and_clear();
        }
    }
}

/// The width of the terminal behind stderr.
pub(crate) fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(1)
}

fn style(with_bar: bool) -> ProgressStyle {
    let template = if with_bar { "[{wide_bar:.cyan}] {msg}" } else { "{msg}" };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// One line with as much of the truth as fits into `columns`, the most wanted first to stay.
fn describe(label: &str, sample: &Sample, rate: Option<Rate>, columns: usize) -> String {
    let bytes = match sample.bytes_total {
        Some(total) => format!("{} of {total}", sample.bytes_done),
        None => sample.bytes_done.to_string(),
    };
    let files = match (sample.files_done, sample.files_total) {
        (_, Some(1)) | (None, None) => None,
        (Some(done), Some(total)) => Some(format!("{done} of {total} files")),
        (Some(done), None) => Some(format!("{done} files")),
        (None, Some(total)) => Some(format!("{total} files")),
    };
    let left =
        sample.bytes_total.zip(rate).filter(|(_, rate)| rate.as_bps() > 0).map(|(total, rate)| {
            let bytes = Bytes(total.0.saturating_sub(sample.bytes_done.0));
            format!("{} left", clock(rate.time_for(bytes)))
        });
    let percent = sample
        .bytes_total
        .filter(|total| total.0 > 0)
        .map(|total| format!("{} %", u128::from(sample.bytes_done.0) * 100 / u128::from(total.0)));
    let limit = sample.limited_by.map(|limit| match limit {
        // "Limit: rate limit" says nothing.
        Limit::RateLimit => "limit: as asked".to_owned(),
        limit => format!("limit: {}", limit.name().replace('_', " ")),
    });
    // As they stand on the line, with the order in which they go when it is too short.
    let mut parts = [
        (0, Some(format!("{label}:"))),
        (6, percent),
        // The percentage has them already.
        (1, Some(bytes)),
        (2, files),
        (4, rate.map(|rate| rate.to_string())),
        (5, left),
        (3, limit),
    ];
    loop {
        let shown: Vec<&str> = parts.iter().filter_map(|(_, part)| part.as_deref()).collect();
        let line = shown.join("  ");
        if line.chars().count() < columns || shown.len() <= 1 {
            return line;
        }
        let least = parts
            .iter()
            .enumerate()
            .filter(|(_, (_, part))| part.is_some())
            .min_by_key(|(_, (rank, _))| *rank);
        if let Some((i, _)) = least {
            parts[i].1 = None;
        }
    }
}

/// `7 s`, `4:07`, `15:04:09`: a time left, rounded up, for it is not over before.
fn clock(span: Span) -> String {
    let seconds = span.as_nanos().div_ceil(1_000_000_000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The rate over the last few seconds of samples.
#[derive(Default)]
struct Pace(VecDeque<(Span, Bytes)>);

impl Pace {
    /// Long enough to look calm, short enough to show that a path has stalled.
    const WINDOW: Span = Span::from_secs(4);

    fn push(&mut self, elapsed: Span, bytes: Bytes) {
        if self.0.back().is_some_and(|last| last.1 > bytes) {
            // Another pass, which found more of it there.
            self.0.clear();
        }
        self.0.push_back((elapsed, bytes));
        while self.0.len() > 2 && elapsed.saturating_sub(self.0[1].0) >= Self::WINDOW {
            self.0.pop_front();
        }
    }

    /// Nothing before a quarter of a second is covered: a rate over less is noise.
    fn rate(&self) -> Option<Rate> {
        let ((from, bytes_from), (to, bytes_to)) = (self.0.front()?, self.0.back()?);
        let span = to.saturating_sub(*from);
        (span >= Span::from_millis(250))
            .then(|| Rate::of(Bytes(bytes_to.0.saturating_sub(bytes_from.0)), span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: u64, mib: u64) -> Sample {
        Sample {
            bytes_done: Bytes::mib(mib),
            bytes_there: Bytes(0),
            bytes_total: Some(Bytes::mib(1024)),
            files_done: Some(3),
            files_total: Some(4),
            limited_by: Some(Limit::PathRate),
            elapsed: Span::from_millis(millis),
        }
    }

    #[test]
    fn rate_and_time_left_follow_the_last_seconds() {
        let mut pace = Pace::default();
        pace.push(Span::ZERO, Bytes(0));
        assert_eq!(pace.rate(), None, "one sample has no rate");
        for second in 1..=10 {
            pace.push(Span::from_secs(second), Bytes(1_000_000 * second));
        }
        assert_eq!(pace.rate(), Some(Rate::from_bps(8_000_000)));
        for second in 11..=15 {
            pace.push(Span::from_secs(second), Bytes(10_000_000));
        }
        assert_eq!(pace.rate(), Some(Rate::from_bps(0)), "a stall shows");
    }

    #[test]
    fn a_pass_that_begins_anew_has_a_rate_of_its_own() {
        let mut pace = Pace::default();
        for second in 0..=4 {
            pace.push(Span::from_secs(second), Bytes(1_000_000 * second));
        }
        assert_eq!(pace.rate(), Some(Rate::from_bps(8_000_000)));
        pace.push(Span::from_secs(5), Bytes(0));
        assert_eq!(pace.rate(), None, "a pass begins anew");
    }

    #[test]
    fn a_line_tells_all_where_there_is_room() {
        let line =
            describe("run7", &sample(1_000, 512), Some(Rate::from_bps(8_000_000_000)), usize::MAX);
        assert_eq!(
            line,
            "run7:  50 %  512 MiB of 1 GiB  3 of 4 files  8.00 Gbit/s  1 s left  limit: path rate"
        );
    }

    #[test]
    fn a_narrow_terminal_keeps_what_is_wanted_most() {
        let rate = Some(Rate::from_bps(8_000_000_000));
        for columns in [1, 8, 12, 20, 30, 40, 50, 80] {
            let line = describe("run7", &sample(1_000, 512), rate, columns);
            assert!(line.chars().count() < columns || line == "50 %", "{columns}: {line}");
        }
        assert_eq!(describe("run7", &sample(1_000, 512), rate, 30), "50 %  8.00 Gbit/s  1 s left");
        assert_eq!(
            describe("run7", &sample(1_000, 512), rate, 80 - LEAST_BAR),
            "50 %  3 of 4 files  8.00 Gbit/s  1 s left  limit: path rate"
        );
    }

    #[test]
    fn unknown_totals_and_stalls_promise_no_time_left() {
        let mut unknown = sample(1_000, 512);
        (unknown.bytes_total, unknown.files_total) = (None, None);
        assert_eq!(
            describe("run7", &unknown, Some(Rate::from_bps(8_000_000_000)), 99),
            "run7:  512 MiB  3 files  8.00 Gbit/s  limit: path rate"
        );
        assert!(
            !describe("run7", &sample(1_000, 512), Some(Rate::from_bps(0)), 99).contains("left")
        );
    }

    #[test]
    fn times_left_read_like_a_clock() {
        assert_eq!(clock(Span::from_millis(6_100)), "7 s");
        assert_eq!(clock(Span::from_secs(247)), "4:07");
        assert_eq!(clock(Span::from_secs(54_249)), "15:04:09");
    }
}
