//! Bar charts: one bar across the page for each name, with its value at its end.

use super::axis::{Axis, Scale};
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
    /// The height of a line of text above a bar.
    const LINE: f64 = 16.0;
    /// What a bar has of the chart's width at least, were it the longest.
    const LEAST: f64 = 0.4;

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|(_, bars)| bars)
    }

    /// The chart as SVG, `width` pixels wide and as high as it has to be.
    pub(super) fn svg(&self, width: f64) -> String {
        let widest = |text: fn(&Bar) -> &str| {
            self.bars().map(|bar| text_width(text(bar))).fold(0.0, f64::max)
        };
        let (names, labels) = (widest(|bar| &bar.name), widest(|bar| &bar.label) + 8.0);
        // Where both leave no room for the bars, they stand above them.
        if width - names - 10.0 - labels < Self::LEAST * width {
            return self.stacked(width);
        }
        let left = names + 10.0;
        let scale = self.scale(left, width - labels);
        let headings = self.groups.iter().filter(|(heading, _)| !heading.is_empty()).count();
        let height = 22.0 + (headings + self.bars().count()) as f64 * Self::ROW;
        let mut svg = self.begun(width, height);
        let mut y = 22.0;
        for (heading, bars) in &self.groups {
            y = Self::heading(&mut svg, heading, y);
            for bar in bars {
                let end = scale.place(bar.value);
                svg.text("tick", "end", (left - 6.0, y + 15.0), &bar.name);
                bar.rect(&mut svg, (left, y + 3.0), end - left);
                svg.text("value", "start", (end + 5.0, y + 15.0), &bar.label);
                y += Self::ROW;
            }
        }
        svg.finish()
    }

    /// The same, with each bar below its name and its value.
    fn stacked(&self, width: f64) -> String {
        let (left, right) = (2.0, width - 2.0);
        let scale = self.scale(left, right);
        // Where there is room for both in a line, they share it.
        let lines = |bar: &Bar| {
            let (names, labels) =
                (broken(&bar.name, right - left), broken(&bar.label, right - left));
            let share = names.len() == 1
                && labels.len() == 1
                && text_width(&bar.name) + text_width(&bar.label) + 12.0 < right - left;
            (names, labels, share)
        };
        let high = |bar: &Bar| {
            let (names, labels, share) = lines(bar);
            let count = if share { 1 } else { names.len() + labels.len() };
            count as f64 * Self::LINE + Self::ROW
        };
        let headings = self.groups.iter().filter(|(heading, _)| !heading.is_empty()).count();
        let height = 22.0 + headings as f64 * Self::ROW + self.bars().map(high).sum::<f64>();
        let mut svg = self.begun(width, height);
        let mut y = 22.0;
        for (heading, bars) in &self.groups {
            y = Self::heading(&mut svg, heading, y);
            for bar in bars {
                let (names, labels, share) = lines(bar);
                for name in names {
                    svg.text("tick", "start", (left, y + 13.0), &name);
                    y += Self::LINE;
                }
                for label in labels {
                    match share {
                        true => svg.text("value", "end", (right, y + 13.0 - Self::LINE), &label),
                        false => {
                            svg.text("value", "start", (left, y + 13.0), &label);
                            y += Self::LINE;
                        }
                    }
                }
                bar.rect(&mut svg, (left, y + 1.0), scale.place(bar.value) - left);
                y += Self::ROW;
            }
        }
        svg.finish()
    }

    fn scale(&self, from: f64, to: f64) -> Scale {
        self.value.scale(self.bars().map(|bar| bar.value), from, to, 4)
    }

    fn begun(&self, width: f64, height: f64) -> Svg {
        let mut svg = Svg::new(width, height, &self.title, "");
        svg.text("caption", "start", (2.0, TEXT), &self.value.caption());
        svg
    }

    /// Writes the heading of a group, if it has one; where its bars begin.
    fn heading(svg: &mut Svg, heading: &str, y: f64) -> f64 {
        if heading.is_empty() {
            return y;
        }
        svg.text("name", "start", (2.0, y + 16.0), heading);
        y + Self::ROW
    }
}

impl Bar {
    fn rect(&self, svg: &mut Svg, at: (f64, f64), long: f64) {
        let tip = format!("{}: {}", self.name, self.label);
        svg.rect(&format!("bar c{}", self.colour % 6), at, (long, 16.0), &tip);
    }
}

/// `text` in lines of at most `width` pixels, broken between words, and within one that is longer.
fn broken(text: &str, width: f64) -> Vec<String> {
    let most = ((width / LETTER) as usize).max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(most) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + part.chars().count() < most => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
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

    #[test]
    fn a_phone_shows_every_bar_next_to_long_texts() {
        let long = "9.21 Gbit/s of 9.29, and what it says behind it is longer than a phone is wide";
        let bar = |name: &str, label: &str| Bar {
            name: name.to_owned(),
            value: 10.0,
            label: label.to_owned(),
            colour: 0,
        };
        let name = "icpp08-ipoib over usn-8600 with sixteen streams";
        let groups = vec![("files".to_owned(), vec![bar(name, "10 Gbit/s"), bar("b", long)])];
        let (title, value) = ("Rates".to_owned(), Axis::new("Rate", "Gbit/s"));
        let chart = BarChart { title, value, groups };
        for width in [320.0, 380.0, 920.0] {
            let svg = chart.svg(width);
            let number = |tag: &str, key: &str| -> f64 {
                let value = tag.split(&format!(" {key}=\"")).nth(1).expect("a key");
                value.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
            };
            for rect in svg.split("<rect").skip(1) {
                assert!(number(rect, "width") >= 0.3 * width, "{width}: {svg}");
            }
            // Nothing is cut, and no line of text is written over another.
            let mut boxes: Vec<(f64, f64, f64)> = Vec::new();
            for text in svg.split("<text").skip(1) {
                let words = text.split('>').nth(1).and_then(|rest| rest.split('<').next());
                let wide = text_width(words.expect("words"));
                let at = number(text, "x");
                let from = if text.contains("anchor=\"end\"") { at - wide } else { at };
                assert!(from >= 0.0 && from + wide <= width, "{width}: {text}");
                boxes.push((number(text, "y"), from, from + wide));
            }
            for (i, one) in boxes.iter().enumerate() {
                let meets = |other: &(f64, f64, f64)| {
                    (one.0 - other.0).abs() < TEXT && one.1 < other.2 && other.1 < one.2
                };
                assert!(!boxes[i + 1..].iter().any(meets), "{width}: {one:?} of {boxes:?}");
            }
            let words: String = long.split(' ').collect();
            let shown: String = svg.split("class=\"value\"").skip(1).collect();
            let shown: String = shown.split(['<', '>', ' ']).collect();
            assert!(words.contains("9.21") && shown.contains("Gbit/s"), "{width}");
        }
    }
}
