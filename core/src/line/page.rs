//! A line test as one page: the verdict first, a strip of time, what was lost and how, delays.

use super::delay::ClockState;
use super::delay_summary::DelaySummary;
use super::document::LineDocument;
use super::outcome::LineOutcome;
use super::ratio::Ratio;
use super::receive_drops::ReceiveDrops;
use super::scientific::{counted, scientific};
use super::strip::StripPart;
use super::verdict::{percent, words};
use crate::report::{
    Axis, Card, ColumnSource, ColumnValues, Columns, Histogram, LineChart, Mark, PageSpec,
    ReportDocument, Section, Series, TableSpec, broken,
};
use crate::units::Span;

/// Bars of the histogram.
const BARS: usize = 60;
/// Columns of a terminal that names take, and how many it has at least for values to stand next to
/// them.
const KEYS: usize = 22;
const LEAST_ASIDE: usize = 60;

impl ReportDocument for LineDocument {
    fn spec(&self) -> PageSpec {
        let word = match self.outcome {
            LineOutcome::Passed => "passed",
            LineOutcome::Failed => "failed",
            LineOutcome::Undecided => "not decided",
            LineOutcome::Measured => "measured",
            LineOutcome::Unfit => "not fit to say",
            LineOutcome::BrokenOff => "broken off",
        };
        let begun = self.begun.as_deref().map_or(String::new(), |at| format!("from {at} to "));
        PageSpec {
            title: format!("Line test of {}: {word}", self.settings.target),
            lead: format!("{}. Farline {}, {}{}.", self.verdict, self.farline, begun, self.date),
            sections: [self.overview(), self.strip_section(), self.losses(), self.delays()]
                .map(Some)
                .to_vec(),
            source: (LineDocument::SCHEMA.to_owned(), String::new()),
        }
    }

    /// A row for each part of the strip.
    fn columns(&self) -> Columns {
        let rows: Vec<(u64, &StripPart)> =
            (0..).step_by(self.strip_seconds as usize).zip(&self.strip).collect();
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("target", self.settings.target.clone()),
        ];
        let mut table = Columns::of(
            about,
            &rows,
            &[
                ("second", ColumnSource::Whole(|row| Some(row.0))),
                ("sent", ColumnSource::Whole(|row| Some(row.1.sent))),
                ("lost", ColumnSource::Whole(|row| Some(row.1.lost))),
                ("wrong_frames", ColumnSource::Whole(|row| Some(row.1.wrong_frames))),
                ("untested_seconds", ColumnSource::Whole(|row| Some(row.1.untested))),
                ("rtt_ns", ColumnSource::Real(|row| (row.1.rtts > 0).then_some(row.1.rtt_ns))),
            ],
        );
        let seconds = ColumnValues::Whole(vec![Some(self.strip_seconds); rows.len()]);
        table.columns.insert(1, ("seconds", seconds));
        table
    }
}

impl LineDocument {
    /// What a terminal of `width` columns shows: what has no room next to its name stands below it.
    pub fn plain(&self, width: usize) -> String {
        let mut lines = broken(&self.verdict, width);
        let mut say = |key: &str, value: String| match width < LEAST_ASIDE {
            true => {
                lines.push(key.to_owned());
                let below = broken(&value, width.saturating_sub(2));
                lines.extend(below.iter().map(|line| format!("  {line}")));
            }
            false => {
                let keys = std::iter::once(key).chain(std::iter::repeat(""));
                let values = broken(&value, width - KEYS);
                lines.extend(keys.zip(&values).map(|(key, line)| format!("{key:<KEYS$}{line}")));
            }
        };
        say("offered", self.offered());
        if let Some(carried) = self.carried_words() {
            say("carried", carried);
        }
        say("frames lost", ratio_words(self.loss.as_ref(), "frames") + &self.no_burst_words());
        if let Some(said) = self.decided_in_bursts_words() {
            say("in bursts", said);
        }
        say("lost or wrong", ratio_words(self.bit_errors.as_ref(), "bits"));
        say("wrong in payload", ratio_words(self.payload_bit_errors.as_ref(), "bits compared"));
        let order = &self.sums;
        if let Some(model) = &self.gilbert_elliott {
            say("bursts", model.words());
        }
        say("order", format!("{} out of order, {} came twice", order.reordered, order.duplicates));
        if self.sums.errored > 0 {
            say("errored seconds", self.errored_words());
        }
        if self.sums.dark > 0 {
            say("availability", self.availability_words());
        }
        match &self.rtt {
            Some(rtt) => say("round trip", delay_words(rtt)),
            None if self.sums.tested > 0 => {
                say("round trip", "no delay packet came back".to_owned());
            }
            None => {}
        }
        if let Some(there) = &self.one_way_delay {
            let by_clocks = self.clocks.filter(|clocks| clocks.offset_noise_ns > 0.0);
            let by_clocks = by_clocks.map_or(String::new(), |clocks| {
                format!("; +-{} by the clocks, if the ways differ", nanos(clocks.offset_bound_ns))
            });
            say("one-way delay", delay_words(there) + &by_clocks);
        }
        if let Some(clocks) = &self.clocks {
            say("clocks", self.clock_words(clocks));
        }
        if self.clock_steps > 0 {
            say("clock set", self.step_words());
        }
        if self.impossible_times > 0 {
            say("times there", self.impossible_words());
        }
        if let Some(refused) = self.refused_answers.words() {
            say("answers refused", refused);
        }
        if self.link_late > 0 {
            say("late link", self.late_words());
        }
        if let Some(untested) = self.untested_words() {
            say("untested", untested);
        }
        if let Some(dropped) = self.own_drops_words() {
            say("own drops", dropped);
        }
        lines.join("\n")
    }

    /// In how much of the time anything came.
    fn availability_words(&self) -> String {
        format!(
            "{:.3} %: in {} nothing came",
            self.availability() * 100.0,
            counted(self.sums.dark, "tested second", "tested seconds")
        )
    }

    /// What a clock that was set means for delays.
    fn step_words(&self) -> String {
        format!(
            "A clock was set {} while the test ran; one-way delays are of the time since",
            counted(self.clock_steps, "time", "times")
        )
    }

    fn offered(&self) -> String {
        let settings = &self.settings;
        let burst = match settings.burst {
            1 => "single frames".to_owned(),
            count => format!("{count} frames back to back"),
        };
        format!("{}, {} % of {}, {burst}", settings.frames, settings.load_percent, settings.rate)
    }

    fn clock_words(&self, clocks: &super::delay::ClockDifference) -> String {
        if clocks.offset_noise_ns == 0.0 && clocks.offset_ns == 0.0 {
            return "both ends read one clock".to_owned();
        }
        let state = |state: &ClockState| match state.is_synchronised {
            true => format!("synchronised within {}", nanos(state.error_ns as f64)),
            false => "not synchronised".to_owned(),
        };
        let states = self.clock_states.map_or(String::new(), |(here, there)| {
            format!("; by the kernels: here {}, there {}", state(&here), state(&there))
        });
        format!(
            "{} ahead there (+-{} of noise; +-{} if the ways differ), {:.2} ppm faster ({:.2} to \
             {:.2}){states}",
            nanos(clocks.offset_ns),
            nanos(clocks.offset_noise_ns),
            nanos(clocks.offset_bound_ns),
            clocks.skew_ppm,
            clocks.skew_ci_ppm.0,
            clocks.skew_ci_ppm.1
        )
    }

    /// What is said of times that cannot be.
    fn impossible_words(&self) -> String {
        let rest = match self.one_way_delay {
            Some(_) => "one-way delays are of the others",
            None => {
                "no one-way delay is taken from them, and round trips have what it took in them"
            }
        };
        format!(
            "{} before what was answered came, or after a longer wait than there was time for, says \
             the other end; that cannot be: {rest}",
            counted(self.impossible_times, "answer left", "answers left")
        )
    }

    /// Why seconds do not count; `None` where all do.
    fn untested_words(&self) -> Option<String> {
        let sums = &self.sums;
        let parts = [
            (sums.sender_late, "this host did not send in time"),
            (sums.sender_drops, "this host dropped packets"),
            (sums.receiver_drops, "the receiver dropped packets"),
            (sums.away, "an end was away"),
            (sums.impossible_counts, "the other end counted what was never sent"),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(seconds, _)| *seconds > 0)
            .map(|(seconds, why)| format!("{seconds} s: {why}"))
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// What each end dropped itself, place by place; `None` where that is nothing.
    fn own_drops_words(&self) -> Option<String> {
        let (totals, sender) = (&self.totals, &self.sender);
        let counted = |count: u64, place: &str| (count > 0).then(|| format!("{count} {place}"));
        let devices = |drops: Option<ReceiveDrops>| drops.and_then(|drops| drops.words());
        let there =
            [counted(totals.own_drops, "by its socket or ring"), devices(totals.device_drops)];
        let here = [counted(sender.own_drops, "on their way out"), devices(sender.device_drops)];
        let said = [("there", there), ("here", here)].map(|(end, drops)| {
            let drops: Vec<String> = drops.into_iter().flatten().collect();
            (!drops.is_empty()).then(|| format!("{end}: {}", drops.join(", ")))
        });
        let said: Vec<String> = said.into_iter().flatten().collect();
        (!said.is_empty()).then(|| format!("{}; none of these is the line's", said.join("; ")))
    }

    /// Which seconds are not in the delays.
    fn late_words(&self) -> String {
        format!(
            "in {} the emulated link itself was late, by its own account: no delay of these counts, \
             where there are others",
            counted(self.link_late, "second", "seconds")
        )
    }

    fn overview(&self) -> Section {
        let mut cards = vec![
            Card::new("Offered", self.offered()),
            Card::new("Tested", words(Span::from_secs(self.sums.tested))),
            Card::new("Untested", words(Span::from_secs(self.sums.untested()))),
            Card::new("Frames sent", self.sums.sent),
            Card::new("Frames lost", self.sums.lost),
        ];
        cards.extend(self.carried_cards());
        if let Some(ratio) = &self.bit_errors {
            cards.push(Card::new("Bit error ratio at most", scientific(ratio.below, 3)));
        }
        if self.sums.dark > 0 {
            cards.push(Card::new("Availability", self.availability_words()));
        }
        let section = Section::new("The test").cards(cards);
        let section = match self.own_drops_words() {
            None => section,
            Some(said) => section.text(format!("Packets that an end dropped itself: {said}.")),
        };
        match self.untested_words() {
            None => section,
            Some(said) => section
                .warning(format!("Some seconds count neither for nor against the line. {said}.")),
        }
    }

    fn strip_section(&self) -> Section {
        let width = self.strip_seconds as f64;
        let at = |index: usize| index as f64 * width;
        let points = |of: &dyn Fn(&StripPart) -> Option<f64>| -> Vec<(f64, f64)> {
            let found = self.strip.iter().enumerate();
            found.filter_map(|(index, part)| Some((at(index), of(part)?))).collect()
        };
        let lost = points(&|part| {
            (part.sent > 0).then(|| (part.lost + part.wrong_frames) as f64 / part.sent as f64 * 1e6)
        });
        let rtts = points(&|part| (part.rtts > 0).then(|| part.rtt_ns / 1e6));
        // One for parts that follow each other.
        let mut untested: Vec<(usize, usize, u64)> = Vec::new();
        for (index, part) in self.strip.iter().enumerate().filter(|(_, part)| part.untested > 0) {
            match untested.last_mut() {
                Some((_, end, seconds)) if *end == index => {
                    (*end, *seconds) = (index + 1, *seconds + part.untested);
                }
                _ => untested.push((index, index + 1, part.untested)),
            }
        }
        let mark = |(from, to, seconds): (usize, usize, u64)| Mark {
            from: at(from),
            to: at(to),
            name: format!("{seconds} s untested"),
        };
        let marks: Vec<Mark> = untested.into_iter().map(mark).collect();
        // Of all that there is a chart of: the same place is the same time.
        let end = at(self.strip.len());
        let seconds = || Axis::new("Time", "s").covering(0.0, end);
        let chart = |title: &str, y: Axis, name: &str, points: Vec<(f64, f64)>| LineChart {
            title: title.to_owned(),
            x: seconds(),
            y,
            series: vec![Series::new(name, points)],
            marks: marks.clone(),
        };
        let mut section = Section::new("Over time");
        if lost.len() > 1 {
            section = section.chart(chart(
                "Frames lost or wrong over time",
                Axis::new("Lost or wrong", "of a million"),
                "lost or wrong",
                lost,
            ));
        }
        if rtts.len() > 1 {
            section = section.chart(chart(
                "Round trip over time",
                Axis::new("Round trip", "ms"),
                "round trip",
                rtts,
            ));
        }
        section.note(format!(
            "Each point is {}. Shaded: seconds that do not count.",
            words(Span::from_secs(self.strip_seconds))
        ))
    }

    fn losses(&self) -> Section {
        let rows = [
            ("Frames that did not come, of those sent", self.loss, "frames"),
            (
                "Frames that did not come or had a wrong bit, of the bits sent",
                self.bit_errors,
                "bits",
            ),
            (
                "Frames with a wrong bit that no checksum saw, of the bits compared",
                self.payload_bit_errors,
                "bits",
            ),
        ];
        let percent = percent(self.settings.confidence);
        let table = TableSpec::new()
            .words("Ratio", |row: &(&str, Ratio, &str)| row.0.to_owned())
            .figures("Events", |row| row.1.events.to_string())
            .figures("Of", |row| format!("{:.4e} {}", row.1.trials, row.2))
            .figures("Ratio", |row| scientific(row.1.value(), 3))
            .figures(format!("Interval, {percent} %"), |row| {
                format!("{} to {}", scientific(row.1.low, 2), scientific(row.1.high, 2))
            })
            .figures(format!("Below, {percent} %"), |row| scientific(row.1.below, 3));
        let rows = rows.iter().filter_map(|(name, ratio, unit)| Some((*name, (*ratio)?, *unit)));
        let mut section = Section::new("What was lost, and what was wrong").table(table.of(rows)).note(
            "A network device drops a frame whose checksum is wrong, so wrong bits of a line are \
             lost frames here; the second row is the bit error ratio if that is the only reason. \
             The third is what got past the checksums.",
        );
        let runs = &self.totals.runs;
        for said in [self.few_bursts_words(), self.decided_in_bursts_words()].into_iter().flatten()
        {
            section = section.text(said);
        }
        if runs.lost > 0 {
            let powers = |counts: &[u64]| -> Vec<(u64, u64)> {
                let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
                some.map(|(power, count)| (1 << power, *count)).collect()
            };
            let spec = |name: &str| {
                TableSpec::new()
                    .words(name, |row: &(u64, u64)| match row.0 {
                        1 => "1".to_owned(),
                        least => format!("{least} to {}", least * 2 - 1),
                    })
                    .figures("How often", |row| row.1.to_string())
            };
            section = section
                .text(format!(
                    "{} lost in {}, the longest of {}. A lost frame was in a burst of {:.1} on \
                     average.",
                    counted(runs.lost, "frame was", "frames were"),
                    counted(runs.runs, "run", "runs"),
                    runs.longest,
                    runs.dispersion()
                ))
                .table(spec("Frames lost in a row").of(powers(&runs.by_length)))
                .table(spec("Frames from one loss to the next").of(powers(&runs.by_distance)));
        }
        if self.restarts > 0 {
            section = section.text(format!(
                "The other end lost its account {}: what it had counted since it was last asked, up to \
                 a second each time, is in no run and no distance.",
                counted(self.restarts, "time", "times")
            ));
        }
        if !self.has_tested_runs && self.sums.untested() > 0 && runs.lost > 0 {
            section = section.text(
                "Runs and distances are of all frames, also of those in seconds that do not count: \
                 the other end does not tell them apart.",
            );
        }
        if let Some(gilbert) = &self.gilbert {
            section = section.text(format!(
                "Gilbert's model: after a frame that came one is lost with probability {:.3e} \
                 ({:.2e} to {:.2e} at 95 %), and after a lost one one comes with {:.3} ({:.3} to \
                 {:.3}). Were losses independent, the two would add up to 1.",
                gilbert.turns_bad,
                gilbert.turns_bad_ci95.0,
                gilbert.turns_bad_ci95.1,
                gilbert.turns_good,
                gilbert.turns_good_ci95.0,
                gilbert.turns_good_ci95.1
            ));
        }
        if let Some(model) = &self.gilbert_elliott {
            section = section.text(model.said());
        }
        section.text(format!(
            "{} out of order (RFC 4737), by {} at most; {} came twice.",
            counted(self.totals.reordered, "frame came", "frames came"),
            counted(self.totals.longest_extent, "frame", "frames"),
            self.totals.duplicates
        ))
    }

    fn delays(&self) -> Section {
        let rows = [
            ("There", self.one_way_delay),
            ("Back", self.one_way_delay_back),
            ("Round trip", self.rtt),
        ];
        let figure = |of: fn(&DelaySummary) -> f64| {
            move |row: &(&str, DelaySummary)| format!("{:.3}", of(&row.1) / 1e6)
        };
        let table = TableSpec::new()
            .words("Delay, ms", |row: &(&str, DelaySummary)| row.0.to_owned())
            .figures("Mean", figure(|delay| delay.mean_ns))
            .figures("95 %", |row| match row.1.mean_ci95_ns {
                Some((low, high)) => format!("{:.3}..{:.3}", low / 1e6, high / 1e6),
                None => "-".to_owned(),
            })
            .figures("sd", figure(|delay| delay.sd_ns))
            .figures("sd, %", |row| format!("{:.3}", row.1.sd_ns / row.1.mean_ns * 100.0))
            .figures("Least", figure(|delay| delay.min_ns))
            .figures("Median", figure(|delay| delay.median_ns))
            .figures("99 %", figure(|delay| delay.p99_ns))
            .figures("99.9 %", figure(|delay| delay.p999_ns))
            .figures("Most", figure(|delay| delay.max_ns));
        let rows: Vec<_> =
            rows.iter().filter_map(|(name, delay)| Some((*name, (*delay)?))).collect();
        if rows.is_empty() {
            return Section::new("Delay").text("No packet came back, so delays are not known.");
        }
        let mut section = Section::new("Delay").table(table.of(rows));
        if let Some(clocks) = &self.clocks {
            section = section.text(format!("Clocks: {}.", self.clock_words(clocks)));
        }
        if let Some(times) = self.kernel_times.words() {
            section = section.text(format!("{times}."));
        }
        if self.impossible_times > 0 {
            section = section.warning(format!("{}.", self.impossible_words()));
        }
        if let Some(refused) = self.refused_answers.words() {
            section = section.warning(format!("Answers refused: {refused}."));
        }
        if self.clock_steps > 0 {
            section = section.warning(format!("{}.", self.step_words()));
        }
        if self.link_late > 0 {
            section = section.warning(format!("Delays: {}.", self.late_words()));
        }
        if let Some(variation) = self.delay_variation_ns {
            section = section.text(format!(
                "Packets that follow each other differ by {} on average (IPDV, RFC 3393); of the \
                 delays there, 99 % are less than {} above the least (PDV).",
                nanos(variation),
                self.one_way_delay
                    .map_or("?".to_owned(), |delay| nanos(delay.p99_ns - delay.min_ns))
            ));
        }
        match self.histogram() {
            Some(chart) => section.chart(chart),
            None => section,
        }
    }

    /// How often the delay there was how long.
    fn histogram(&self) -> Option<Histogram> {
        let (least, most) = (*self.delays_ns.first()?, *self.delays_ns.last()?);
        let width = (most - least).max(1.0) / BARS as f64;
        let mut counts = vec![0_u64; BARS];
        for delay in &self.delays_ns {
            counts[(((delay - least) / width) as usize).min(BARS - 1)] += 1;
        }
        let edge = |index: usize| (least + width * (index + 1) as f64) / 1e6;
        let there = self.one_way_delay?;
        Some(Histogram {
            title: "One-way delay there".to_owned(),
            x: Axis::new("One-way delay there", "ms").without_zero(),
            y: Axis::new("Packets", "").log(),
            buckets: counts.iter().enumerate().map(|(i, count)| (edge(i), *count)).collect(),
            marks: vec![
                (format!("mean {}", nanos(there.mean_ns)), there.mean_ns / 1e6),
                (format!("99 % {}", nanos(there.p99_ns)), there.p99_ns / 1e6),
            ],
        })
    }
}

/// Nanoseconds with a unit that fits, also below zero.
fn nanos(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", Span::from_nanos(value.abs().round() as u64))
}

fn ratio_words(ratio: Option<&Ratio>, of: &str) -> String {
    let Some(ratio) = ratio else { return "nothing to count of".to_owned() };
    let head = format!("{} of {:.3e} {of}", ratio.events, ratio.trials);
    let percent = percent(ratio.confidence);
    match ratio.events {
        0 => format!("{head}: below {:.2e} at {percent} %", ratio.below),
        _ => format!(
            "{head}: {} ({} to {} at {percent} %)",
            scientific(ratio.value(), 2),
            scientific(ratio.low, 2),
            scientific(ratio.high, 2)
        ),
    }
}

fn delay_words(delay: &DelaySummary) -> String {
    let interval = delay.mean_ci95_ns.map_or(String::new(), |(low, high)| {
        format!(" ({} to {} at 95 %)", nanos(low), nanos(high))
    });
    format!(
        "mean {}{interval}, sd {}, 99 % below {}",
        nanos(delay.mean_ns),
        nanos(delay.sd_ns),
        nanos(delay.p99_ns)
    )
}
