//! Where a line test stands: one line on a terminal, one a minute elsewhere.

use crate::output::Output;
use farline::line::LineProgress;
use farline_core::line::words;
use farline_core::units::Span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};

/// Seconds of the test between two lines where nobody looks at a terminal.
const LINE_EVERY: u64 = 60;

pub(super) enum LineFace {
    Terminal(ProgressBar),
    /// When the next is due, and whether it was said that the other end is silent.
    Lines(u64, bool),
    Silent,
}

impl LineFace {
    pub(super) fn new(output: &Output) -> LineFace {
        match (output.quiet(), io::stderr().is_terminal(), output.json()) {
            (true, _, _) | (false, false, true) => LineFace::Silent,
            (false, true, _) => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                let plain = ProgressStyle::with_template("{wide_msg}");
                LineFace::Terminal(bar.with_style(plain.unwrap_or(ProgressStyle::default_bar())))
            }
            (false, false, false) => LineFace::Lines(LINE_EVERY, false),
        }
    }

    pub(super) fn show(&mut self, progress: &LineProgress<'_>) {
        match self {
            LineFace::Terminal(bar) => bar.set_message(line(progress)),
            LineFace::Lines(next, is_silent) => {
                let was_silent = std::mem::replace(is_silent, progress.silence.is_some());
                if *is_silent && !was_silent {
                    let _ = writeln!(io::stderr().lock(), "{}", line(progress));
                }
                if progress.test.next_second() >= *next {
                    *next += LINE_EVERY;
                    // A stderr that is gone is no reason to end a test.
                    let _ = writeln!(io::stderr().lock(), "{}", line(progress));
                }
            }
            LineFace::Silent => {}
        }
    }

    pub(super) fn clear(&self) {
        if let LineFace::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// What counts comes first: a narrow terminal shows the begin.
fn line(progress: &LineProgress<'_>) -> String {
    let (test, sums) = (progress.test, &progress.test.sums);
    let silence = progress.silence.map_or(String::new(), |silence| {
        format!("no answer for {}; ", words(Span::from_secs(silence.as_nanos() / 1_000_000_000)))
    });
    let mut said = format!(
        "{silence}{} tested, {} lost, {} wrong",
        words(Span::from_secs(sums.tested)),
        sums.lost,
        sums.wrong_frames
    );
    if sums.untested() > 0 {
        said += &format!(", {} s untested", sums.untested());
    }
    let ends = test.settings.most_seconds.saturating_sub(test.next_second());
    let ends = words(Span::from_secs(ends));
    match test.left() {
        Some(left) => said += &format!("; passes in {} at best, ends in {ends}", words(left)),
        None => said += &format!("; ends in {ends}"),
    }
    said
}
