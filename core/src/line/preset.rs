//! The papers' line tests, as a TOML file has them.

use super::document::{LineCriterion, LineDocument, LineSettings};
use super::frames::FrameMix;
use crate::report::{Section, TableSpec};
use crate::units::{Error, ErrorCode, Fault, Rate, Span};
use crate::wan::{Direction, Settings};
use serde::Deserialize;
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
    printed: Vec<PrintedFigure>,
    paths: Vec<PresetPath>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetForm {
    rate: String,
    seconds: u64,
    ber: Option<f64>,
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

/// A path of a preset: the link that stands for it, and what is sent over it.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetTest {
    /// The link.
    pub wan: Settings,
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
            let wan = Settings {
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
                burst: 1,
                criterion: form.ber.map(LineCriterion::BitErrors),
                confidence: 0.95,
                most_seconds: form.seconds,
            };
            Ok(PresetTest { wan, settings })
        };
        self.paths.iter().map(of).collect()
    }

    /// What the paper prints next to what was measured.
    pub fn beside(&self, documents: &[(String, LineDocument)]) -> Section {
        let rows: Vec<(String, f64, Option<f64>)> = self
            .printed
            .iter()
            .map(|printed| {
                let found = documents
                    .iter()
                    .find(|(name, _)| printed.path.as_ref().is_none_or(|path| path == name))
                    .and_then(|(_, document)| document.figure(&printed.figure));
                let path = printed.path.as_ref().map_or(String::new(), |path| format!("{path}: "));
                (format!("{path}{}", printed.what), printed.value, found)
            })
            .collect();
        let table = TableSpec::new()
            .words("Figure", |row: &(String, f64, Option<f64>)| row.0.clone())
            .figures("Paper", |row| format!("{:.4}", row.1))
            .figures("Here", |row| row.2.map_or("-".to_owned(), |found| format!("{found:.4}")));
        Section::new("The paper's figures, and ours")
            .text(format!("{}.", self.about))
            .table(table.of(rows))
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
    use crate::line::{DelaySample, LineTest};
    use crate::units::{Rng, Time};
    use crate::wan::{Frames, Link, Output, Packet};

    /// When a packet that leaves at `at` arrives.
    fn arrives(link: &mut Link, at: Time) -> Time {
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
                    Link::new(Time::ZERO, &wan.a_to_b, [], &Rng::new(1)),
                    Link::new(Time::ZERO, &wan.b_to_a, [], &Rng::new(2)),
                );
                let name = settings.target.clone();
                let mut test = LineTest::new(settings, true);
                for n in 0..4_000_u64 {
                    let sent = Time::from_nanos(n * 2_000_000_000);
                    let received = arrives(&mut there, sent);
                    let came = arrives(&mut back, received);
                    test.delay.add(&DelaySample { sent, received, returned: received, came });
                }
                documents.push((name, test.document("0", "today")));
            }
            for printed in preset.printed.iter().filter(|printed| printed.figure.starts_with("rtt"))
            {
                let (_, document) = documents
                    .iter()
                    .find(|(name, _)| printed.path.as_ref().is_none_or(|path| path == name))
                    .expect("a path of the preset");
                let found = document.figure(&printed.figure).expect("a figure");
                let off = (found / printed.value - 1.0).abs();
                let most = if printed.figure.contains("sd") { 0.05 } else { 1e-3 };
                assert!(off < most, "{}: {found} for {}", printed.what, printed.value);
            }
            assert!(preset.beside(&documents).plain().contains("Paper"));
        }
    }

    #[test]
    fn an_unknown_preset_names_the_known_ones() {
        let error = LinePreset::named("ixia").expect_err("there is none");
        assert!(error.hint.is_some_and(|hint| hint.contains("wanphy-line, usn-vlans")));
        assert!(LinePreset::named("wanphy-line").expect("it is there").tests(true).is_ok());
    }
}
