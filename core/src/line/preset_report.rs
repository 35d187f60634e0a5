//! What came of a paper's line test: the documents of its paths, next to what the paper prints.

use super::compare::LineComparison;
use super::document::LineDocument;
use super::preset::{LinePreset, PresetFigure};
use super::read::{read, schema_of};
use crate::report::{ColumnSource, Columns, PageSpec, ReportDocument};
use crate::units::Error;
use serde::{Deserialize, Serialize};

/// The document of a preset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresetReport {
    /// `farline/line-preset/1`.
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it ended, UTC.
    pub date: String,
    /// The preset's name.
    pub preset: String,
    /// Whether it was done in full.
    pub is_full: bool,
    /// What the paper prints, and what was found.
    pub figures: Vec<PresetFigure>,
    /// What came of each path, which is its target.
    pub documents: Vec<LineDocument>,
}

impl PresetReport {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line-preset/1";

    /// Reads a document.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) when it is none.
    pub fn read(json: &str) -> Result<PresetReport, Error> {
        read(json, "preset", PresetReport::SCHEMA, |document: &PresetReport| &document.schema)
    }

    /// The comparison of its paths, the last composed of the others; `None` of a single one, or
    /// where a path has no delays.
    pub fn comparison(&self) -> Option<LineComparison> {
        let named = |document: &LineDocument| (document.settings.target.clone(), document.clone());
        let named: Vec<_> = self.documents.iter().map(named).collect();
        LineComparison::of(&named, true).ok()
    }

    /// What a terminal of `width` columns shows.
    pub fn plain(&self, width: usize) -> String {
        let mut parts: Vec<String> = match self.comparison() {
            Some(comparison) => vec![comparison.section().plain_in(width)],
            None => self.documents.iter().map(|document| document.plain(width)).collect(),
        };
        parts.extend(self.against_paper().map(|section| section.plain_in(width)));
        parts.join("\n\n")
    }

    fn against_paper(&self) -> Option<crate::report::Section> {
        LinePreset::named(&self.preset).ok().map(|preset| preset.section(&self.figures))
    }
}

impl ReportDocument for PresetReport {
    fn spec(&self) -> PageSpec {
        let mut sections = match self.comparison() {
            Some(comparison) => comparison.spec().sections,
            None => self.documents.iter().flat_map(|document| document.spec().sections).collect(),
        };
        let at = sections.len().min(1);
        sections.insert(at, self.against_paper());
        let form = if self.is_full { "in full" } else { "quick form" };
        let verdicts: Vec<String> = self
            .documents
            .iter()
            .map(|document| format!("{}: {}", document.settings.target, document.verdict))
            .collect();
        PageSpec {
            title: format!("{}, {form}", self.preset),
            lead: format!("{}. Farline {}, {}.", verdicts.join(". "), self.farline, self.date),
            sections,
            source: (PresetReport::SCHEMA.to_owned(), String::new()),
        }
    }

    /// A row for each figure that the paper prints.
    fn columns(&self) -> Columns {
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.farline.clone()),
            ("date", self.date.clone()),
            ("preset", self.preset.clone()),
        ];
        figure_columns(about, &self.figures)
    }
}

/// A row for each figure that a paper prints.
fn figure_columns(about: Vec<(&'static str, String)>, figures: &[PresetFigure]) -> Columns {
    Columns::of(
        about,
        figures,
        &[
            ("path", ColumnSource::Text(|figure| figure.path.clone())),
            ("figure", ColumnSource::Text(|figure| Some(figure.what.clone()))),
            ("paper", ColumnSource::Real(|figure| Some(figure.paper))),
            ("link", ColumnSource::Real(|figure| figure.link)),
            ("here", ColumnSource::Real(|figure| figure.here)),
        ],
    )
}

/// The tests in `json` by their names: of a test's own document the one, called `name`; of a
/// preset's each path.
///
/// # Errors
/// [`Fault::You`](crate::units::Fault::You) when it is neither.
pub fn documents_in(json: &str, name: &str) -> Result<Vec<(String, LineDocument)>, Error> {
    if schema_of(json).as_deref() != Some(PresetReport::SCHEMA) {
        return Ok(vec![(name.to_owned(), LineDocument::read(json)?)]);
    }
    let documents = PresetReport::read(json)?.documents.into_iter();
    Ok(documents.map(|document| (document.settings.target.clone(), document)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{DelaySample, DelaySums, LineTest, LinkAccount};
    use crate::units::Time;

    fn report() -> PresetReport {
        let preset = LinePreset::named("usn-vlans").expect("it is there");
        let document = |settings| {
            let mut test = LineTest::new(settings, true);
            for n in 0..100 {
                let at = |ns: u64| Time::from_nanos(n * 10_000_000 + ns);
                test.delay.add(&DelaySample {
                    sent: at(0),
                    received: at(4_000_000),
                    returned: at(4_001_000),
                    came: at(8_001_000 + n),
                });
            }
            let way = DelaySums::of(100, 3_750.0, 1.0);
            test.link_account = Some(LinkAccount { there: way, back: way });
            test.document("0", "today")
        };
        let tests = preset.tests(false).expect("tests");
        let documents: Vec<_> = tests.into_iter().map(|test| document(test.settings)).collect();
        PresetReport {
            schema: PresetReport::SCHEMA.to_owned(),
            farline: "0".to_owned(),
            date: "today".to_owned(),
            preset: preset.name.clone(),
            is_full: false,
            figures: preset.against_paper(&documents),
            documents,
        }
    }

    #[test]
    fn the_papers_figures_and_each_path_are_in_it() {
        let report = report();
        let json = serde_json::to_string(&report).expect("JSON");
        assert!(json.contains("26.845877"), "the paper's: {json}");
        let documents = documents_in(&json, "usn").expect("a preset");
        let names: Vec<&str> = documents.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["sonet", "mpls", "composed"]);
        let csv = report.columns().csv();
        assert!(csv.contains("sonet,\"mean, ms\",26.845877,7.5,8.0"), "{csv}");
        let html = report.page(&[]).html();
        assert!(html.contains("Normalised histograms") && html.contains("Paper"), "{html}");
    }

    #[test]
    fn what_is_neither_is_refused() {
        let one = serde_json::to_string(&report().documents[0]).expect("JSON");
        assert_eq!(documents_in(&one, "a").expect("a test")[0].0, "a");
        for wrong in ["", "{}", "[]", "{\"schema\":\"farline/line-preset/1\"}"] {
            assert!(documents_in(wrong, "a").is_err(), "{wrong}");
        }
    }
}
