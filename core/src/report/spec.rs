//! Tables and lines as specifications: what stands in a column next to its heading, and a series
//! of what was found along an axis.

use super::axis::Axis;
use super::heat::HeatMap;
use super::line::{LineChart, Series};
use super::page::{Page, Section, Table};
use super::surface::Surface;

/// What stands in a column of a row of type `R`.
type Shown<'a, R> = dyn Fn(&R) -> String + 'a;

/// A column: its heading, whether it holds numbers, and what stands in it.
struct Column<'a, R>(String, bool, Box<Shown<'a, R>>);

/// The columns of a table whose rows are values of type `R`.
pub struct TableSpec<'a, R>(Vec<Column<'a, R>>);

impl<R> Default for TableSpec<'_, R> {
    fn default() -> Self {
        TableSpec(Vec::new())
    }
}

impl<'a, R> TableSpec<'a, R> {
    /// A table without columns.
    pub fn new() -> TableSpec<'a, R> {
        TableSpec::default()
    }

    /// Adds a column of words.
    #[must_use]
    pub fn words(
        mut self,
        heading: impl Into<String>,
        shown: impl Fn(&R) -> String + 'a,
    ) -> TableSpec<'a, R> {
        self.0.push(Column(heading.into(), false, Box::new(shown)));
        self
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn figures(
        mut self,
        heading: impl Into<String>,
        shown: impl Fn(&R) -> String + 'a,
    ) -> TableSpec<'a, R> {
        self.0.push(Column(heading.into(), true, Box::new(shown)));
        self
    }

    /// Goes on with `more` where there is something to show in it.
    #[must_use]
    pub fn when(
        self,
        is_shown: bool,
        more: impl FnOnce(TableSpec<'a, R>) -> TableSpec<'a, R>,
    ) -> TableSpec<'a, R> {
        if is_shown { more(self) } else { self }
    }

    /// The table of `rows`.
    pub fn of(&self, rows: impl IntoIterator<Item = R>) -> Table {
        let cells = |row: R| (self.0.iter().map(|Column(.., shown)| shown(&row)).collect(), false);
        Table {
            columns: self.0.iter().map(|Column(name, right, _)| (name.clone(), *right)).collect(),
            rows: rows.into_iter().map(cells).collect(),
        }
    }
}

/// What was found somewhere on an axis: where, how much, and from where to where it may be.
type Found = (f64, f64, Option<(f64, f64)>);

impl Series {
    /// A line through `points`.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().collect();
        Series { name: name.into(), points, ..Series::default() }
    }

    /// A line through what was found, in whatever order.
    pub fn through(name: impl Into<String>, found: impl IntoIterator<Item = Found>) -> Series {
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let band = found.iter().filter_map(|(x, _, band)| band.map(|(low, high)| (*x, low, high)));
        let band = band.collect();
        Series { band, ..Series::new(name, found.into_iter().map(|(x, y, _)| (x, y))) }
    }

    /// A line for each name, in the order in which names come, through what was found under it.
    pub fn grouped(found: impl IntoIterator<Item = (String, Found)>) -> Vec<Series> {
        let mut lines: Vec<(String, Vec<Found>)> = Vec::new();
        for (name, one) in found {
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(one),
                None => lines.push((name, vec![one])),
            }
        }
        lines.into_iter().map(|(name, all)| Series::through(name, all)).collect()
    }
}

impl LineChart {
    /// `series` over common axes, without marks.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> LineChart {
        LineChart { title: title.into(), x, y, series, marks: Vec::new() }
    }
}

impl HeatMap {
    /// The same as a landscape, whose rows are along what is called `along`.
    pub fn surface(&self, along: &str) -> Surface {
        let HeatMap { title, value, across, columns, rows, most } = self.clone();
        let title = format!("The same as a surface: {title}");
        Surface { title, value, across, along: along.to_owned(), columns, rows, most }
    }
}

impl Page {
    /// Ends the page with the commands that give it again, and puts the document into it from which
    /// it was made, as JSON of `schema`; `more` is what else there is to say of it.
    #[must_use]
    pub fn made_from(self, json: String, schema: &str, more: &str, commands: &[String]) -> Page {
        let again =
            Section::new("How to get this page again").commands(commands.join("\n")).note(format!(
                "The document behind this page is in the page itself: the element with the id \
                 data, schema {schema}.{more}"
            ));
        self.section(again).data(json)
    }
}

/// By how much a figure is off, which is `share` of what it should be, in per cent: `+3 %`, and `0
/// %` without a sign.
pub fn off_by(share: f64, digits: usize) -> String {
    let text = format!("{:+.digits$} %", share * 100.0);
    let is_zero = !text.chars().any(|letter| ('1'..='9').contains(&letter));
    if is_zero { text.trim_start_matches(['+', '-']).to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_columns_in_order_and_a_row_for_each_value() {
        let spec = |all| {
            TableSpec::new()
                .words("Name", |row: &(&str, u32)| row.0.to_owned())
                .when(all, |spec| spec.figures("Count", |row| row.1.to_string()))
        };
        let table = spec(true).of([("a", 1), ("b", 2)]);
        assert_eq!(table.columns, [("Name".to_owned(), false), ("Count".to_owned(), true)]);
        assert_eq!(table.rows[1], (vec!["b".to_owned(), "2".to_owned()], false));
        assert_eq!(spec(false).of([("a", 1)]).columns.len(), 1);
    }

    #[test]
    fn a_line_is_in_order_with_a_band_where_one_is_known() {
        let line = Series::through("a", [(2.0, 5.0, None), (1.0, 4.0, Some((3.0, 5.0)))]);
        assert_eq!(line.points, [(1.0, 4.0), (2.0, 5.0)]);
        assert_eq!(line.band, [(1.0, 3.0, 5.0)]);
    }

    #[test]
    fn nothing_off_has_no_sign() {
        let shown = [0.031, -0.031, -0.0002, 0.0, 0.1].map(|share| off_by(share, 1));
        assert_eq!(shown, ["+3.1 %", "-3.1 %", "0.0 %", "0.0 %", "+10.0 %"]);
        assert!(off_by(f64::NAN, 0).contains("NaN"));
    }
}
