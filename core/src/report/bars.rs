//! Bar charts: one bar across the page for each name, with its value at its end.

use super::axis::Axis;
use super::markup::{LETTER, Svg, TEXT, text_width};

/// Horizontal bars in groups; they are as readable on a phone as on a desk.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// What the chart shows, in a few words: read out where it cannot be seen.
    pub title: String,
    /// What the bars' lengths measure, from zero.
    pub value: Axis,
    /// Groups of bars, each with its heading, which may be empty.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Whose value it is.
    pub name: String,
    /// The value in the axis' unit.
    pub value: f64,
    /// The value as it is written at the bar's end.
    pub label: String,
    /// The colour, 0 to 5; the same number is the same colour in every chart of a page.
    pub colour: usize,
}

impl BarChart {
    const ROW: f64 = 24.0;

    /// The chart as SVG, `width` pixels wide and as high as it has to be.
    pub(super) fn svg(&self, width: f64) -> String {
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let widest =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(text_width).fold(0.0, f64::max);
        let names = widest(&mut bars().map(|bar| bar.name.as_str())).min(width * 0.4);
        let labels = widest(&mut bars().map(|bar| bar.label.as_str())) + 8.0;
        let left = names + 10.0;
        let scale = self.value.scale(bars().map(|bar| bar.value), left, width - labels, 4);
        let headings = self.groups.iter().filter(|(heading, _)| !heading.is_empty()).count();
        let height = 22.0 + headings as f64 * Self::ROW + bars().count() as f64 * Self::ROW;

        let mut svg = Svg::new(width, height, &self.title, "");
        svg.text("caption", "start", (2.0, TEXT), &self.value.caption());
        let mut y = 22.0;
        for (heading, bars) in &self.groups {
            if !heading.is_empty() {
                svg.text("name", "start", (2.0, y + 16.0), heading);
                y += Self::ROW;
            }
            for bar in bars {
                let end = scale.place(bar.value);
                let fits = (names / LETTER) as usize;
                let name: String = bar.name.chars().take(fits.max(1)).collect();
                svg.text("tick", "end", (left - 6.0, y + 15.0), &name);
                svg.rect(
                    &format!("bar c{}", bar.colour % 6),
                    (left, y + 3.0),
                    (end - left, 16.0),
                    &format!("{}: {}", bar.name, bar.label),
                );
                svg.text("value", "start", (end + 5.0, y + 15.0), &bar.label);
                y += Self::ROW;
            }
        }
        svg.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |name: &str, value: f64| Bar {
            name: name.to_owned(),
            value,
            label: format!("{value}"),
            colour: 0,
        };
        let groups = vec![("files".to_owned(), vec![bar("a", 10.0), bar("b", 5.0)])];
        let chart =
            BarChart { title: "Rates".to_owned(), value: Axis::new("Rate", "Gbit/s"), groups };
        let svg = chart.svg(300.0);
        let widths: Vec<f64> = svg
            .split("<rect")
            .skip(1)
            .filter_map(|rect| rect.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert!(widths.len() == 2 && (widths[0] - 2.0 * widths[1]).abs() < 0.2, "{widths:?}");
    }
}
