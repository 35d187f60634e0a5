//! The progress of one transfer: a bar on a terminal, below its figures where it has no room before
//! them, one plain line a minute elsewhere, nothing when asked to be quiet.
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
pub(crate) struct ProgressLine {
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

/// Below this width a bar gives way to the words behind it.
const USUAL_COLUMNS: usize = 80;
/// What a bar takes at least, with its brackets and the space behind; and on a narrower terminal.
const LEAST_BAR: usize = 11;
const SHORT_BAR: usize = 8;
/// From so many columns on a bar has a line of its own where it has no room before the words.
const LEAST_BELOW: usize = 20;
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
    pub(crate) fn update(&mut self, sample: &ProgressLine) {
        let moved = Bytes(sample.bytes_done.0.saturating_sub(sample.bytes_there.0));
        self.pace.push(sample.elapsed, moved);
        let rate = self.pace.rate();
        match &mut self.face {
            Face::Bar(bar) => draw(bar, &self.label, sample, rate, columns()),
            Face::Lines(next) => {
                if is_due(next, sample.elapsed) {
                    let line = describe(&self.label, sample, rate, usize::MAX).0;
                    // A stderr that is gone is no reason to end a transfer.
                    let _ = writeln!(io::stderr().lock(), "{line}");
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

/// Whether a line is to come now; the one after it is then a minute away.
fn is_due(next: &mut Span, elapsed: Span) -> bool {
    let is_due = elapsed >= *next;
    if is_due {
        *next = elapsed + LINE_EVERY;
    }
    is_due
}

/// The width of the terminal behind stderr.
pub(crate) fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(1)
}

/// Shows `sample` on a terminal of so many columns.
fn draw(bar: &ProgressBar, label: &str, sample: &ProgressLine, rate: Option<Rate>, columns: usize) {
    let (text, with_bar) = describe(label, sample, rate, columns);
    let place = match with_bar {
        true => BarPlace::Before,
        false if sample.bytes_total.is_some() && columns >= LEAST_BELOW => BarPlace::Below,
        false => BarPlace::Nowhere,
    };
    // First: each of the others draws.
    bar.set_style(style(place, columns));
    if let Some(total) = sample.bytes_total {
        bar.set_length(total.0);
    }
    bar.set_position(sample.bytes_done.0);
    bar.set_message(text);
}

/// Where the bar stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarPlace {
    /// Before the words.
    Before,
    /// On a line of its own below them, where both have no room on one.
    Below,
    /// Nowhere: there is no room, or nobody knows how much there is to do.
    Nowhere,
}

fn style(place: BarPlace, columns: usize) -> ProgressStyle {
    let template = match place {
        BarPlace::Before => "[{wide_bar:.cyan}] {msg}".to_owned(),
        // The last column stays free, as behind the words. They come first: a terminal that shows
        // a ctrl-C as `^C` goes to the next line for it, and what is cleared then is the bar.
        BarPlace::Below => format!("{{msg}}\n[{{bar:{}.cyan}}]", columns.saturating_sub(3)),
        BarPlace::Nowhere => "{msg}".to_owned(),
    };
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// How much of its words a line has, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Words {
    All,
    /// It is the only one that is shown.
    NoLabel,
    /// The percentage has them already.
    NoBytes,
    /// `141/400` without what that counts.
    NoFiles,
    /// `path` in place of `limit: path rate`, and one blank between two figures.
    Short,
    /// A clock next to a rate is the time left.
    NoLeft,
    /// `12.3G`, as the flags have it.
    NoUnit,
}

/// What a line may be, with a bar before it or without, the fullest first: the bar goes before
/// words do, and words before figures.
const FORMS: [(Words, bool); 14] = [
    (Words::All, true),
    (Words::NoLabel, true),
    (Words::NoBytes, true),
    (Words::NoFiles, true),
    (Words::All, false),
    (Words::NoLabel, false),
    (Words::NoBytes, false),
    (Words::NoFiles, false),
    (Words::Short, true),
    (Words::Short, false),
    (Words::NoLeft, true),
    (Words::NoLeft, false),
    (Words::NoUnit, true),
    (Words::NoUnit, false),
];

/// One line with as much of the truth as fits into `columns`, and whether there is room for a bar
/// before it.
fn describe(
    label: &str,
    sample: &ProgressLine,
    rate: Option<Rate>,
    columns: usize,
) -> (String, bool) {
    let least = if columns < USUAL_COLUMNS { SHORT_BAR } else { LEAST_BAR };
    for (words, with_bar) in FORMS {
        let room = if with_bar { columns.saturating_sub(least) } else { columns };
        let line = joined(&figures(label, sample, rate, words), words);
        if line.chars().count() < room && (!with_bar || sample.bytes_total.is_some()) {
            return (line, with_bar);
        }
    }
    // The least wanted goes first.
    let mut parts = figures(label, sample, rate, Words::NoUnit);
    while parts.len() > 1 && joined(&parts, Words::NoUnit).chars().count() >= columns {
        let least = (0..parts.len()).min_by_key(|&at| parts[at].0);
        least.into_iter().for_each(|at| drop(parts.remove(at)));
    }
    (joined(&parts, Words::NoUnit), false)
}

fn joined(parts: &[(u8, String)], words: Words) -> String {
    let shown: Vec<&str> = parts.iter().map(|(_, part)| &part[..]).collect();
    shown.join(if words < Words::Short { "  " } else { " " })
}

/// The figures as they stand on the line, each with how much it is wanted.
fn figures(
    label: &str,
    sample: &ProgressLine,
    rate: Option<Rate>,
    words: Words,
) -> Vec<(u8, String)> {
    let is_short = words >= Words::Short;
    let bytes = match sample.bytes_total {
        Some(total) => format!("{} of {total}", sample.bytes_done),
        None => sample.bytes_done.to_string(),
    };
    // Where it is not known how many bytes there are, they are all there is to say of how far it
    // is.
    let tells_bytes = words < Words::NoBytes || sample.bytes_total.is_none();
    let unit = if words < Words::NoFiles { " files" } else { "" };
    let files = match (sample.files_done, sample.files_total) {
        (_, Some(1)) | (None, None) => None,
        (Some(done), Some(total)) => Some(format!("{done}/{total}{unit}")),
        (Some(done), None) => Some(format!("{done} files")),
        (None, Some(total)) => Some(format!("{total} files")),
    };
    let left =
        sample.bytes_total.zip(rate).filter(|(_, rate)| rate.as_bps() > 0).map(|(total, rate)| {
            let bytes = Bytes(total.0.saturating_sub(sample.bytes_done.0));
            let left = if words < Words::NoLeft { " left" } else { "" };
            format!("{}{left}", clock(rate.time_for(bytes)))
        });
    let percent = sample.bytes_total.filter(|total| total.0 > 0).map(|total| {
        let percent = u128::from(sample.bytes_done.0) * 100 / u128::from(total.0);
        format!("{percent}{}", if is_short { "%" } else { " %" })
    });
    let limit = sample.limited_by.map(|limit| match limit {
        limit if is_short => in_a_word(limit).to_owned(),
        // "Limit: rate limit" says nothing.
        Limit::RateLimit => "limit: as asked".to_owned(),
        limit => format!("limit: {}", limit.name().replace('_', " ")),
    });
    let rate = rate.map(|rate| match rate.to_string() {
        text if words < Words::NoUnit => text,
        // As the flags have it: `12.3G`.
        text => text.trim_end_matches("bit/s").replace(' ', ""),
    });
    let all = [
        (0, (words < Words::NoLabel).then(|| format!("{label}:"))),
        (6, percent),
        (1, tells_bytes.then_some(bytes)),
        (2, files),
        (4, rate),
        (5, left),
        (3, limit),
    ];
    all.into_iter().filter_map(|(wanted, part)| Some((wanted, part?))).collect()
}

/// What limits, where there is no room for its name.
fn in_a_word(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu => "cpu",
        Limit::DiskRead => "read",
        Limit::DiskWrite => "write",
        Limit::Network => "net",
        Limit::ReceiverWindow => "rwnd",
        Limit::SendBuffer => "sndbuf",
        Limit::SetUp => "setup",
        Limit::Peer => "peer",
        Limit::RateLimit => "asked",
        Limit::PipeRead => "stdin",
        Limit::PipeWrite => "stdout",
        Limit::SlowStart => "start",
        Limit::Loss => "loss",
        Limit::PathRate => "path",
        other => other.name(),
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
    use indicatif::TermLike;
    use std::sync::{Arc, Mutex};

    fn sample(millis: u64, mib: u64) -> ProgressLine {
        ProgressLine {
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
    fn without_a_terminal_a_line_comes_once_a_minute() {
        let mut next = LINE_EVERY;
        let due: Vec<u64> =
            (0..400).filter(|&second| is_due(&mut next, Span::from_secs(second))).collect();
        assert_eq!(due, [60, 120, 180, 240, 300, 360]);
        // Where nothing was heard for long the next one is a minute from then.
        let due: Vec<u64> = [1_000, 1_030, 1_059, 1_061]
            .into_iter()
            .filter(|&second| is_due(&mut next, Span::from_secs(second)))
            .collect();
        assert_eq!(due, [1_000, 1_061]);
    }

    const FAST: Option<Rate> = Some(Rate::from_bps(8_000_000_000));

    #[test]
    fn a_line_tells_all_where_there_is_room() {
        let (line, _) = describe("run7", &sample(1_000, 512), FAST, usize::MAX);
        assert_eq!(
            line,
            "run7:  50 %  512 MiB of 1 GiB  3/4 files  8.00 Gbit/s  1 s left  limit: path rate"
        );
    }

    #[test]
    fn a_narrow_terminal_keeps_what_is_wanted_most() {
        for columns in [1, 8, 12, 20, 30, 40, 50, 60, 79, 80, 100] {
            let (line, with_bar) = describe("run7", &sample(1_000, 512), FAST, columns);
            let bar = if with_bar { SHORT_BAR } else { 0 };
            assert!(line.chars().count() + bar < columns || line == "50%", "{columns}: {line}");
        }
        for (columns, line) in [
            (18, "50% 8.00G 1 s"),
            (30, "50% 3/4 8.00 Gbit/s 1 s path"),
            (40, "50% 3/4 8.00 Gbit/s 1 s left path"),
            (60, "[50 %  3/4  8.00 Gbit/s  1 s left  limit: path rate"),
            (80, "[50 %  3/4 files  8.00 Gbit/s  1 s left  limit: path rate"),
        ] {
            let (said, with_bar) = describe("run7", &sample(1_000, 512), FAST, columns);
            assert_eq!(format!("{}{said}", if with_bar { "[" } else { "" }), line, "{columns}");
        }
    }

    /// A terminal of so many columns, which keeps what the last drawing wrote.
    #[derive(Clone, Debug)]
    struct Screen(u16, Arc<Mutex<(String, String)>>);

    impl Screen {
        /// The rows that this fills on such a terminal, without colours.
        fn rows(&self) -> Vec<String> {
            let drawn = self.1.lock().expect("no panic").1.clone();
            let mut plain = String::new();
            for (at, part) in drawn.split('\u{1b}').enumerate() {
                plain.push_str(if at == 0 {
                    part
                } else {
                    part.split_once('m').expect("a colour").1
                });
            }
            let all: Vec<char> = plain.chars().filter(|&one| one != '\r').collect();
            let rows = all.chunks(self.0.into()).map(|row| row.iter().collect::<String>());
            rows.map(|row| row.trim_end().to_owned()).collect()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            self.0
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.1.lock().expect("no panic").0.push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            let mut drawn = self.1.lock().expect("no panic");
            drawn.1 = std::mem::take(&mut drawn.0);
            Ok(())
        }
    }

    /// What `sample` looks like on a terminal of so many columns.
    fn seen(sample: &ProgressLine, columns: u16) -> Vec<String> {
        let screen = Screen(columns, Arc::default());
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let bar = ProgressBar::with_draw_target(None, target);
        draw(&bar, "run7", sample, FAST, columns.into());
        let rows = screen.rows();
        bar.abandon();
        rows
    }

    #[test]
    fn terminals_of_all_widths_show_a_bar_and_never_wrap() {
        let half = sample(1_000, 512);
        assert_eq!(
            seen(&half, 40),
            ["50% 3/4 8.00 Gbit/s 1 s left path", "[==================>                  ]"]
        );
        assert_eq!(
            seen(&half, 60),
            ["[===>   ] 50 %  3/4  8.00 Gbit/s  1 s left  limit: path rate"]
        );
        assert_eq!(
            seen(&half, 80),
            ["[==========>          ] 50 %  3/4 files  8.00 Gbit/s  1 s left  limit: path rate"]
        );
        assert_eq!(
            seen(&half, 120),
            ["[==================>                 ] run7:  50 %  512 MiB of 1 GiB  3/4 files  \
              8.00 Gbit/s  1 s left  limit: path rate"]
        );
        for columns in 1..=130 {
            for sample in [half, ProgressLine { files_total: None, files_done: None, ..half }] {
                let rows = seen(&sample, columns);
                let bar = rows.iter().position(|row| row.starts_with('[') && row.contains('='));
                assert!(columns < 20 || bar.is_some(), "{columns}: {rows:?}");
                // Without one it is one line, as with one before the words.
                assert!(rows.len() == 1 + bar.unwrap_or(0) || columns < 4, "{columns}: {rows:?}");
            }
        }
    }

    #[test]
    fn forty_columns_tell_how_far_fast_long_and_why() {
        let sample = ProgressLine {
            bytes_done: Bytes::mib(9_999_999),
            bytes_total: Some(Bytes::mib(10_000_000)),
            files_done: Some(123_456),
            files_total: Some(400_000),
            ..sample(1_000, 0)
        };
        for limit in Limit::ALL {
            let sample = ProgressLine { limited_by: Some(limit), ..sample };
            for rate in [1_000, 12_300_000_000] {
                let (line, _) = describe("run7", &sample, Some(Rate::from_bps(rate)), 40);
                let figures = [if rate == 1_000 { "1.00" } else { "12.3" }, "123456/400000"];
                assert!(figures.iter().all(|figure| line.contains(figure)), "{line}");
                let left = clock(Rate::from_bps(rate).time_for(Bytes::mib(1)));
                assert!(line.starts_with("99% ") && line.contains(&left), "{line}");
                assert!(line.ends_with(in_a_word(limit)), "{line}");
            }
        }
    }

    #[test]
    fn unknown_totals_and_stalls_promise_no_time_left() {
        let mut unknown = sample(1_000, 512);
        (unknown.bytes_total, unknown.files_total) = (None, None);
        let (line, with_bar) = describe("run7", &unknown, FAST, 99);
        assert_eq!(line, "run7:  512 MiB  3 files  8.00 Gbit/s  limit: path rate");
        assert!(!with_bar);
        assert!(
            !describe("run7", &sample(1_000, 512), Some(Rate::from_bps(0)), 99).0.contains("left")
        );
    }

    #[test]
    fn times_left_read_like_a_clock() {
        assert_eq!(clock(Span::from_millis(6_100)), "7 s");
        assert_eq!(clock(Span::from_secs(247)), "4:07");
        assert_eq!(clock(Span::from_secs(54_249)), "15:04:09");
    }
}
