//! A page of sections, and the HTML that it becomes.

use super::markup::{escape, script_data};
use super::{BarChart, HeatMap, Histogram, LineChart, Surface};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const HOVER: &str = include_str!("hover.js");
const TURN: &str = include_str!("turn.js");
/// The widths for which every chart is drawn, in pixels: a desk's and a phone's.
const DESK: f64 = 920.0;
const PHONE: f64 = 380.0;
/// So many letters have room in a card.
const UNBROKEN: usize = 10;

/// One self-contained page.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<Section>,
    data: Option<String>,
}

/// A heading with what stands below it.
#[derive(Clone, Debug)]
pub struct Section {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub(super) enum Block {
    Cards(Vec<Card>),
    Chart(Chart),
    Commands(String),
    Note(String),
    Table(Table),
    Text(String),
    Warning(String),
}

/// One key with its value.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is.
    pub key: String,
    /// What it amounts to, with its unit.
    pub value: String,
}

/// Rows under headings.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Each column's heading, and whether it holds numbers, which stand to the right.
    pub columns: Vec<(String, bool)>,
    /// Rows of cells, and whether the row is the one to look at.
    pub rows: Vec<(Vec<String>, bool)>,
}

/// A picture of data.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Bars by name.
    Bars(BarChart),
    /// Colours by row and column.
    Heat(HeatMap),
    /// Counts by value.
    Histogram(Histogram),
    /// Lines over an axis.
    Lines(LineChart),
    /// A landscape over rows and columns.
    Surface(Surface),
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), lead: String::new(), sections: Vec::new(), data: None }
    }

    /// The sentence below the title.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Page {
        self.lead = text.into();
        self
    }

    /// Adds `section` below those that are there.
    #[must_use]
    pub fn section(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }

    /// Puts the JSON text that the page was made from into it, in the element with the id `data`.
    #[must_use]
    pub fn data(mut self, json: impl Into<String>) -> Page {
        self.data = Some(json.into());
        self
    }

    /// The page as HTML: one file that loads nothing.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        if !self.lead.is_empty() {
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(&self.lead));
        }
        for section in &self.sections {
            section.write(&mut html);
        }
        if let Some(data) = &self.data {
            let _ = writeln!(
                html,
                "<script type=\"application/json\" id=\"data\">{}</script>",
                script_data(data)
            );
        }
        let _ = write!(html, "<script>\n{HOVER}{TURN}</script>\n</body>\n</html>\n");
        html
    }
}

impl Section {
    /// A section without content.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Section {
        self.with(Block::Text(text.into()))
    }

    /// Adds a remark in small print.
    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Section {
        self.with(Block::Note(text.into()))
    }

    /// Adds a remark that must not be overlooked.
    #[must_use]
    pub fn warning(self, text: impl Into<String>) -> Section {
        self.with(Block::Warning(text.into()))
    }

    /// Adds figures side by side.
    #[must_use]
    pub fn cards(self, cards: Vec<Card>) -> Section {
        self.with(Block::Cards(cards))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Section {
        self.with(Block::Table(table))
    }

    /// Adds a chart.
    #[must_use]
    pub fn chart(self, chart: impl Into<Chart>) -> Section {
        self.with(Block::Chart(chart.into()))
    }

    /// Adds command lines as they are typed.
    #[must_use]
    pub fn commands(self, lines: impl Into<String>) -> Section {
        self.with(Block::Commands(lines.into()))
    }

    fn with(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }

    fn write(&self, html: &mut String) {
        let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&self.title));
        for block in &self.blocks {
            // Writing to a string cannot fail.
            let _ = match block {
                Block::Cards(cards) => {
                    let cards = cards.iter().map(|card| {
                        format!(
                            "<div><dt>{}</dt><dd>{}</dd></div>",
                            escape(&card.key),
                            card.value_html()
                        )
                    });
                    writeln!(html, "<dl class=\"cards\">{}</dl>", cards.collect::<String>())
                }
                Block::Chart(chart) => writeln!(html, "{}", chart.html()),
                Block::Commands(lines) => writeln!(html, "<pre>{}</pre>", escape(lines)),
                Block::Note(text) => writeln!(html, "<p class=\"note\">{}</p>", escape(text)),
                Block::Table(table) => writeln!(html, "{}", table.html()),
                Block::Text(text) => writeln!(html, "<p>{}</p>", escape(text)),
                Block::Warning(text) => {
                    writeln!(html, "<p class=\"warning\" role=\"note\">{}</p>", escape(text))
                }
            };
        }
        html.push_str("</section>\n");
    }
}

impl Card {
    /// The value, in whose lists a name is not broken at its hyphens.
    fn value_html(&self) -> String {
        let part = |part: &str| match part.contains('-')
            && !part.contains(' ')
            && part.len() <= UNBROKEN
        {
            true => format!("<span class=\"whole\">{}</span>", escape(part)),
            false => escape(part),
        };
        self.value.split(", ").map(part).collect::<Vec<_>>().join(", ")
    }

    /// A card for `key` with `value`.
    pub fn new(key: impl Into<String>, value: impl ToString) -> Card {
        Card { key: key.into(), value: value.to_string() }
    }
}

impl Table {
    /// The headings of a column of words and columns of numbers behind it.
    pub fn headings(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<(String, bool)> {
        names.into_iter().enumerate().map(|(i, name)| (name.into(), i > 0)).collect()
    }

    fn html(&self) -> String {
        let class = |right: bool| if right { " class=\"right\"" } else { "" };
        // A phone shows a table of more columns as a list.
        let wide = if self.columns.len() > 3 { " class=\"wide\"" } else { "" };
        let mut html = format!("<div class=\"scroll\"><table{wide}><thead><tr>");
        for (heading, right) in &self.columns {
            let _ = write!(html, "<th scope=\"col\"{}>{}</th>", class(*right), escape(heading));
        }
        html.push_str("</tr></thead><tbody>");
        for (cells, strong) in &self.rows {
            html.push_str(if *strong { "<tr class=\"strong\">" } else { "<tr>" });
            for (cell, (heading, right)) in cells.iter().zip(&self.columns) {
                let _ = write!(
                    html,
                    "<td{} data-label=\"{}\">{}</td>",
                    class(*right),
                    escape(heading),
                    escape(cell)
                );
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        html
    }
}

impl Chart {
    /// The chart for a desk and for a phone; the style sheet shows one of them.
    fn html(&self) -> String {
        let draw = |width: f64, height: f64| match self {
            Chart::Bars(chart) => chart.svg(width),
            Chart::Heat(chart) => chart.svg(width),
            Chart::Histogram(chart) => chart.svg(width, height),
            Chart::Lines(chart) => chart.svg(width, height),
            Chart::Surface(chart) => chart.svg(width, height),
        };
        let readout = if matches!(self, Chart::Lines(_)) { "<output></output>" } else { "" };
        let desk = format!("<figure class=\"desk\">{}{readout}</figure>", draw(DESK, 340.0));
        let phone = format!("<figure class=\"phone\">{}{readout}</figure>", draw(PHONE, 300.0));
        desk + &phone
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Chart {
        Chart::Bars(chart)
    }
}

impl From<HeatMap> for Chart {
    fn from(chart: HeatMap) -> Chart {
        Chart::Heat(chart)
    }
}

impl From<Histogram> for Chart {
    fn from(chart: Histogram) -> Chart {
        Chart::Histogram(chart)
    }
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Chart {
        Chart::Lines(chart)
    }
}

impl From<Surface> for Chart {
    fn from(chart: Surface) -> Chart {
        Chart::Surface(chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_wherever_it_stands() {
        let evil = "<img src=x onerror=\"alert('1')\">";
        let table = Table {
            columns: vec![(evil.to_owned(), true)],
            rows: vec![(vec![evil.to_owned()], false)],
        };
        let section =
            Section::new(evil).text(evil).note(evil).warning(evil).commands(evil).table(table);
        let html = Page::new(evil)
            .lead(evil)
            .section(section.cards(vec![Card::new(evil, evil)]))
            .data(evil)
            .html();
        assert!(!html.contains("<img"), "{html}");
    }

    #[test]
    fn a_page_loads_nothing() {
        // A reference into the page itself loads nothing.
        let html = Page::new("Empty").html().replace("url(#", "");
        for loader in ["src=", "href=", "url(", "@import", "fetch(", "http:", "https:"] {
            assert!(!html.contains(loader), "{loader} in {html}");
        }
    }
}
