//! The papers' line tests, as a TOML file has them.

use super::document::LineDocument;
use super::frames::FrameMix;
use super::settings::{LineCriterion, LineSettings};
use crate::report::{Section, TableSpec};
use crate::units::{Error, ErrorCode, Fault, Rate, Span};
use crate::wan::{Direction, LinkSettings};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

const FILE: &str = include_str!("presets.toml");

/// A paper's line test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinePreset {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// How it is done here.
    pub note: String,
    frames: String,
    quick: PresetForm,
    full: PresetForm,
    /// Frame sizes of a test of raw Ethernet, one after the other as fast as a host can.
    #[serde(default)]
    sizes: Vec<u32>,
    /// Parts of the line's rate that hosts send into one port at the same time.
    #[serde(default)]
    senders: Vec<f64>,
    printed: Vec<PrintedFigure>,
    paths: Vec<PresetPath>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetForm {
    rate: String,
    seconds: u64,
    ber: Option<f64>,
    /// Of its decision; 0.95 where that is not said.
    confidence: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedFigure {
    path: Option<String>,
    what: String,
    figure: String,
    value: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetPath {
    name: String,
    rtt: String,
    jitter: String,
}

/// A figure that a paper prints, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresetFigure {
    /// Of which path; of the only one where that is not said.
    pub path: Option<String>,
    /// What it is, with its unit.
    pub what: String,
    /// What the paper prints.
    pub paper: f64,
    /// What the emulated link says itself.
    pub link: Option<f64>,
    /// What was measured.
    pub here: Option<f64>,
}

/// A path of a preset: the link that stands for it, and what is sent over it.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetTest {
    /// The link.
    pub wan: LinkSettings,
    /// What is sent.
    pub settings: LineSettings,
}

#[derive(Deserialize)]
struct Presets {
    preset: Vec<LinePreset>,
}

impl LinePreset {
    /// All of them.
    ///
    /// # Errors
    /// [`Fault::Bug`], as presets are a part of Farline.
    pub fn all() -> Result<Vec<LinePreset>, Error> {
        toml::from_str::<Presets>(FILE).map(|file| file.preset).map_err(wrong)
    }

    /// The one called `name`.
    ///
    /// # Errors
    /// [`Fault::You`] with the names that there are.
    pub fn named(name: &str) -> Result<LinePreset, Error> {
        let all = LinePreset::all()?;
        let names: Vec<String> = all.iter().map(|preset| preset.name.clone()).collect();
        all.into_iter().find(|preset| preset.name == name).ok_or_else(|| {
            let message = format!("there is no preset called `{name}`");
            Error::new(Fault::You, ErrorCode::LineSetting, message)
                .hint(format!("known presets: {}", names.join(", ")))
        })
    }

    /// Its tests in their order, in the quick form or in full.
    ///
    /// # Errors
    /// [`Fault::Bug`], when the file has a quantity that is none.
    pub fn tests(&self, is_full: bool) -> Result<Vec<PresetTest>, Error> {
        let form = if is_full { &self.full } else { &self.quick };
        let rate: Rate = form.rate.parse().map_err(wrong)?;
        let frames: FrameMix = self.frames.parse()?;
        let of = |path: &PresetPath| {
            let rtt: Span = path.rtt.parse().map_err(wrong)?;
            let jitter: Span = path.jitter.parse().map_err(wrong)?;
            let there = Span::from_nanos(rtt.as_nanos() / 2);
            let way = |delay| Direction { jitter, ..Direction::new(LINE_RATE, delay, rtt) };
            let wan = LinkSettings {
                a_to_b: way(there),
                b_to_a: way(rtt.saturating_sub(there)),
                script: Vec::new(),
                seed: 1,
            };
            let settings = LineSettings {
                target: path.name.clone(),
                rate,
                load_percent: 100.0,
                frames: frames.clone(),
                ethernet: None,
                burst: 1,
                criterion: form.ber.map(LineCriterion::BitErrors),
                confidence: form.confidence.unwrap_or(0.95),
                loss_burst: 1.0,
                most_seconds: form.seconds,
                most_frames: None,
            };
            Ok(PresetTest { wan, settings })
        };
        self.paths.iter().map(of).collect()
    }

    /// Whether its frames are raw Ethernet.
    pub fn is_raw(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// The frame sizes of a test of raw Ethernet.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// The rates that senders of a test of raw Ethernet send into one port whose line carries
    /// `rate`.
    pub fn sender_rates(&self, rate: Rate) -> Vec<Rate> {
        let part = |part: &f64| Rate::from_bps((rate.as_bps() as f64 * part) as u64);
        self.senders.iter().map(part).collect()
    }

    /// What the paper prints next to what was measured: the figure of a path's document, by its
    /// name, and what the emulated link says of it itself.
    pub fn against_paper(&self, documents: &[LineDocument]) -> Vec<PresetFigure> {
        let of = |path: Option<&str>| {
            let is_it =
                |document: &&LineDocument| path.is_none_or(|path| path == document.settings.target);
            documents.iter().find(is_it)
        };
        self.against_paper_by(
            |path, figure| of(path).and_then(|document| document.figure(figure)),
            |path, figure| of(path)?.link_account?.figure(figure),
        )
    }

    /// The same, of figures that `found` and `own` have by path and name.
    pub fn against_paper_by(
        &self,
        found: impl Fn(Option<&str>, &str) -> Option<f64>,
        own: impl Fn(Option<&str>, &str) -> Option<f64>,
    ) -> Vec<PresetFigure> {
        let of = |printed: &PrintedFigure| PresetFigure {
            path: printed.path.clone(),
            what: printed.what.clone(),
            paper: printed.value,
            link: own(printed.path.as_deref(), &printed.figure),
            here: found(printed.path.as_deref(), &printed.figure),
        };
        self.printed.iter().map(of).collect()
    }

    /// The table of `figures`.
    pub fn section(&self, figures: &[PresetFigure]) -> Section {
        let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.4}"));
        let has_own = figures.iter().any(|figure| figure.link.is_some());
        let table = TableSpec::new()
            .words("Figure", |figure: &&PresetFigure| match &figure.path {
                Some(path) => format!("{path}: {}", figure.what),
                None => figure.what.clone(),
            })
            .figures("Paper", |figure| format!("{:.4}", figure.paper))
            .when(has_own, |table| {
                table.figures("The link itself", move |figure| shown(figure.link))
            })
            .figures("Here", move |figure| shown(figure.here));
        Section::new("The paper's figures, and ours")
            .text(format!("{}.", self.about))
            .table(table.of(figures))
            .note(self.note.clone())
    }
}

/// What the papers' circuits carry: OC-192 with 10GBASE-W.
const LINE_RATE: Rate = Rate::from_bps(9_290_000_000);

fn wrong(why: impl Display) -> Error {
    Error::new(Fault::Bug, ErrorCode::LineDocument, format!("the file of presets: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{DelaySample, DelaySums, LineTest, LinkAccount};
    use crate::units::{Rng, Time};
    use crate::wan::{Frames, OneWayLink, Output, Packet};

    /// When a packet that leaves at `at` arrives.
    fn arrives(link: &mut OneWayLink, at: Time) -> Time {
        link.handle(at, Packet { token: 0, frames: Frames::one(72) });
        match link.poll(at + Span::from_secs(1)) {
            Output::Deliver { due, .. } => due,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_preset_gives_the_papers_delays_back_in_virtual_time() {
        for preset in LinePreset::all().expect("presets") {
            let mut documents = Vec::new();
            for PresetTest { wan, settings } in preset.tests(false).expect("tests") {
                let (mut there, mut back) = (
                    OneWayLink::new(Time::ZERO, &wan.a_to_b, [], &Rng::new(1)),
                    OneWayLink::new(Time::ZERO, &wan.b_to_a, [], &Rng::new(2)),
                );
                let mut test = LineTest::new(settings, true);
                for n in 0..4_000_u64 {
                    let sent = Time::from_nanos(n * 2_000_000_000);
                    let received = arrives(&mut there, sent);
                    let came = arrives(&mut back, received);
                    test.delay.add(&DelaySample { sent, received, returned: received, came });
                }
                let way = DelaySums::of(2, 500.0, 1.0);
                test.link_account = Some(LinkAccount { there: way, back: way });
                documents.push(test.document("0", "today"));
            }
            for printed in preset.printed.iter().filter(|printed| printed.figure.starts_with("rtt"))
            {
                let target = |document: &&LineDocument| document.settings.target.clone();
                let document = documents
                    .iter()
                    .find(|it| printed.path.as_ref().is_none_or(|path| *path == target(it)))
                    .expect("a path of the preset");
                let found = document.figure(&printed.figure).expect("a figure");
                let off = (found / printed.value - 1.0).abs();
                let most = if printed.figure.contains("sd") { 0.05 } else { 1e-3 };
                assert!(off < most, "{}: {found} for {}", printed.what, printed.value);
            }
            let plain = preset.section(&preset.against_paper(&documents)).plain();
            assert!(plain.contains("Paper"), "{plain}");
            let has_rtt = preset.printed.iter().any(|printed| printed.figure.contains("rtt"));
            assert_eq!(plain.contains("1.0000"), has_rtt, "{plain}");
        }
    }

    #[test]
    fn the_papers_two_hosts_send_more_than_the_line_carries() {
        let preset = LinePreset::named("wanphy-raw").expect("it is there");
        let rate = Rate::from_bps(9_290_000_000);
        let rates = preset.sender_rates(rate);
        // Of messages: what is on the wire is preamble, header, FCS and gap more.
        let message = |rate: &Rate| rate.as_bps() as f64 / 1e9 * 9_000.0 / 9_038.0;
        let gbps: Vec<f64> = rates.iter().map(message).collect();
        assert!(rates.iter().map(|rate| rate.as_bps()).sum::<u64>() > rate.as_bps());
        assert!((gbps[0] - 5.163).abs() < 1e-3 && (gbps[1] - 4.130).abs() < 1e-3, "{gbps:?}");
        let found = |_: Option<&str>, figure: &str| (figure == "raw_best_gbps").then_some(1.25);
        let plain = preset.section(&preset.against_paper_by(found, |_, _| None)).plain();
        assert!(preset.is_raw() && plain.contains("5.163") && plain.contains("1.25"), "{plain}");
    }

    #[test]
    fn a_preset_that_decides_can_pass_in_its_time() {
        let mut deciding = 0;
        for preset in LinePreset::all().expect("presets") {
            for settings in [false, true]
                .iter()
                .flat_map(|is_full| preset.tests(*is_full).expect("tests"))
                .map(|test| test.settings)
            {
                let Some(best) = settings.at_best() else { continue };
                deciding += 1;
                let has = Span::from_secs(settings.most_seconds);
                assert!(best <= has, "{}: {best} at best, and it has {has}", preset.name);
            }
        }
        assert_eq!(deciding, 2);
    }

    #[test]
    fn an_unknown_preset_names_the_known_ones() {
        let error = LinePreset::named("ixia").expect_err("there is none");
        assert!(error.hint.is_some_and(|hint| hint.contains("wanphy-line, wanphy-raw")));
        assert!(LinePreset::named("wanphy-line").expect("it is there").tests(true).is_ok());
    }
}
