//! `farline line --preset wanphy-raw`: a paper's tests of raw Ethernet over an emulated link.

use super::raw::{LINK_DEVICE, document, settings};
use super::state_file::StateFile;
use super::vlan::VlanTag;
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::{LineRequestOptions, LinkFarEnd, run_over};
use farline::link::{Link, Settings};
use farline::run_dir::name_here;
use farline_core::line::{
    EthernetFraming, FrameMix, LinePreset, LineSettings, Pattern, PresetFigure, PresetState,
    RawDocument, RawPort, RawRow, TestedSecond,
};
use farline_core::report::{Columns, PageSpec, ReportDocument, Section};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span};
use farline_core::wan;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// So that the largest frame of the paper's switches fits.
const MTU: u32 = 9_234;
/// What the port holds of what comes too fast.
const PORT_BUFFER: Span = Span::from_millis(3);
/// Seconds of each size in the quick form.
const QUICK: u64 = 1;

/// What came of it.
#[derive(Serialize)]
struct RawPresetReport<'a> {
    schema: &'static str,
    farline: &'static str,
    date: String,
    preset: &'a str,
    is_full: bool,
    /// What the paper prints, and what was found.
    figures: &'a [PresetFigure],
    /// One sender, by size.
    sizes: &'a RawDocument,
    /// Senders into one port at the same time.
    together: &'a [RawRow],
    /// Messages of all of them that came, in per cent of the line's rate.
    together_percent: f64,
    /// The port, and the paper's figures, as pages and terminals have them.
    #[serde(skip)]
    shown: [Section; 2],
}

impl ReportDocument for RawPresetReport<'_> {
    fn spec(&self) -> PageSpec {
        let PageSpec { title, lead, mut sections, .. } = self.sizes.spec();
        sections.extend(self.shown.iter().cloned().map(Some));
        PageSpec { title, lead, sections, source: (self.schema.to_owned(), String::new()) }
    }

    /// A row for each size.
    fn columns(&self) -> Columns {
        self.sizes.columns()
    }
}

/// Runs what is left of `state`, which is kept in `file` where there is one; what was not whole
/// begins anew.
pub(super) fn run(
    preset: &LinePreset,
    mut state: PresetState,
    file: Option<&StateFile>,
    out: &[PathBuf],
    output: &Output,
) -> Result<ExitCode, Error> {
    let is_full = state.is_full;
    let save = |state: &PresetState| {
        if let Some(file) = file {
            file.save(state, output);
        }
    };
    let tests = preset.tests(is_full)?;
    let test = tests
        .first()
        .ok_or_else(|| Error::new(Fault::Bug, ErrorCode::LineDocument, "the preset has no path"))?;
    let (path, seconds) = (&test.settings.target, test.settings.most_seconds);
    let framing = VlanTag::framing(LINK_DEVICE.to_owned(), None);
    let each = if is_full { seconds } else { QUICK };
    let left = preset.sizes().iter().skip(state.sizes.len());
    if left.len() > 0 {
        over(path, test.wan.clone(), output, |link| {
            for size in left {
                output.remark(format_args!("{size} B: {each} s"));
                let frames = FrameMix::fixed(*size, Pattern::Cjpat);
                let options = LineRequestOptions::new(settings(path, &frames, &framing, each));
                state.sizes.push(RawRow::of(&run_over(link, &options, |_| Ok(()))?.whole()?));
                save(&state);
            }
            Ok(())
        })?;
    }
    let rate = test.settings.rate;
    let rates = preset.sender_rates(rate);
    output.remark(format_args!("{} senders into one port of {rate}: {seconds} s", rates.len()));
    let mut wan = test.wan.clone();
    for direction in [&mut wan.a_to_b, &mut wan.b_to_a] {
        *direction = wan::Direction::new(rate, direction.one_way_delay, direction.one_way_delay);
        // A port's buffer: what waits in it when the senders end counts for more the longer it is.
        direction.queue = rate.bytes_in(PORT_BUFFER);
    }
    let senders = over(path, wan, output, |link| at_once(link, &rates, &test.settings, &framing))?;
    let port = RawPort { rate, senders };
    let together_percent = port.percent();
    state.is_over = true;
    save(&state);
    let sizes = document(path, state.sizes);
    let found = |_: Option<&str>, figure: &str| match figure {
        "raw_best_gbps" => sizes.best().map(|row| row.throughput_bps() / 1e9),
        "raw_together_percent" => Some(together_percent),
        _ => None,
    };
    let figures = preset.against_paper_by(found, |_, _| None);
    let together: Vec<RawRow> = port.senders.iter().map(|(row, _)| *row).collect();
    let report = RawPresetReport {
        schema: "farline/line-raw-preset/1",
        farline: env!("CARGO_PKG_VERSION"),
        date: now(),
        preset: &preset.name,
        is_full,
        figures: &figures,
        sizes: &sizes,
        together: &together,
        together_percent,
        shown: [port.section(), preset.section(&figures)],
    };
    let written = write_each(out, |file| write_as_named(file, &report));
    let [port, against_paper] = &report.shown;
    let text = [super::plain(&sizes.section()), super::plain(port), super::plain(against_paper)];
    output.result(&report, text.join("\n\n"))?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Does `work` over a link of Ethernet that is there for it alone.
fn over<T>(
    path: &str,
    wan: wan::LinkSettings,
    output: &Output,
    work: impl FnOnce(&Link) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut link = Settings::new(path, wan);
    (link.name, link.with_parent) =
        (name_here(&format!("raw-{path}-{}", std::process::id())), true);
    (link.ethernet, link.mtu) = (true, MTU);
    let link = Link::up(&link)?;
    let done = work(&link);
    let valid = link.stats().map(|stats| stats.valid);
    link.down()?;
    if valid.is_ok_and(|valid| !valid) {
        output.remark(format_args!(
            "{path}: more was sent than this machine's devices and emulator take, so that these \
             are figures of this machine"
        ));
    }
    done
}

/// Senders of these rates at the same time, to one far end.
fn at_once(
    link: &Link,
    rates: &[Rate],
    test: &LineSettings,
    framing: &EthernetFraming,
) -> Result<Vec<(RawRow, Vec<TestedSecond>)>, Error> {
    let far = LinkFarEnd::start(link, Some(framing))?;
    let lost = || Error::new(Fault::Bug, ErrorCode::ThreadLost, "a test's thread ended early");
    std::thread::scope(|scope| {
        let begun: Vec<_> = rates
            .iter()
            .map(|&rate| {
                let ethernet = Some(framing.clone());
                let settings = LineSettings { rate, ethernet, burst: 1, ..test.clone() };
                let (far, options) = (&far, LineRequestOptions::new(settings));
                scope.spawn(move || {
                    let mut seconds = Vec::new();
                    let test = far.test(&options, |progress| {
                        seconds.extend_from_slice(progress.news);
                        Ok(())
                    })?;
                    Ok((RawRow::of(&test.whole()?), seconds))
                })
            })
            .collect();
        begun.into_iter().map(|test| test.join().map_err(|_| lost())?).collect()
    })
}
