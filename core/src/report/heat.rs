//! Heat maps: a value for each row and column, as a colour and, where there is room, as a number.

use super::axis::short;
use super::markup::{Svg, TEXT, text_width};

/// Values over two axes of few values each.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// What the chart shows, in a few words: read out where it cannot be seen.
    pub title: String,
    /// What the colours measure, with its unit.
    pub value: String,
    /// What the columns are, with their unit.
    pub across: String,
    /// Names of the columns, left to right.
    pub columns: Vec<String>,
    /// Each row's name and values, `None` where there is none; the first row is on top.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// The value of the strongest colour; several maps with the same can be compared.
    pub most: f64,
}

/// How much wider than the average a name may be.
const WIDE: f64 = 1.08;

/// Steps of colour that the style sheet knows: `h0`, the weakest, to `h9`.
const STEPS: f64 = 10.0;

impl HeatMap {
    const ROW: f64 = 34.0;

    /// The chart as SVG, `width` pixels wide and as high as it has to be.
    pub(super) fn svg(&self, width: f64) -> String {
        // A name in wide letters takes more than the average, and what sticks out is cut.
        let left =
            10.0 + WIDE * self.rows.iter().map(|(name, _)| text_width(name)).fold(0.0, f64::max);
        let top = 50.0;
        let bottom = top + self.rows.len() as f64 * Self::ROW;
        let mut svg = Svg::new(width, bottom + 42.0, &self.title, "");
        svg.text("caption", "start", (2.0, TEXT), &self.value);
        self.legend(&mut svg, width);
        let step = (width - left - 4.0) / self.columns.len().max(1) as f64;
        // Not every column's name has room on a phone.
        let widest = self.columns.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        let every = ((widest + 4.0) / step).ceil().max(1.0) as usize;
        for (i, name) in self.columns.iter().enumerate().filter(|(i, _)| i % every == 0) {
            svg.text("tick", "middle", (left + (i as f64 + 0.5) * step, bottom + 16.0), name);
        }
        svg.text("caption", "end", (width - 4.0, bottom + 34.0), &self.across);
        for (row, (name, values)) in self.rows.iter().enumerate() {
            let y = top + row as f64 * Self::ROW;
            svg.text("tick", "end", (left - 6.0, y + Self::ROW / 2.0 + 4.0), name);
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let x = left + column as f64 * step;
                let share = if self.most > 0.0 { (value / self.most).clamp(0.0, 1.0) } else { 0.0 };
                let colour = (share * STEPS).floor().min(STEPS - 1.0) as usize;
                let label = digits(value);
                let across = self.columns.get(column).map_or("", String::as_str);
                let tip = format!("{name}, {across}: {label}");
                svg.rect(&format!("heat h{colour}"), (x, y), (step - 1.0, Self::ROW - 1.0), &tip);
                if text_width(&label) < step {
                    let ink = if colour >= 5 { "on-strong" } else { "on-weak" };
                    svg.text(ink, "middle", (x + step / 2.0, y + Self::ROW / 2.0 + 4.0), &label);
                }
            }
        }
        svg.finish()
    }

    /// The colours from zero to the most, in one line.
    fn legend(&self, svg: &mut Svg, width: f64) {
        let box_width = (width / 3.0 / STEPS).min(22.0);
        let most = digits(self.most);
        let left = 2.0 + text_width("0") + 4.0;
        svg.text("tick", "start", (2.0, 34.0), "0");
        for i in 0..STEPS as usize {
            let from = self.most * i as f64 / STEPS;
            let tip = format!("from {}", digits(from));
            svg.rect(
                &format!("heat h{i}"),
                (left + i as f64 * box_width, 24.0),
                (box_width, 12.0),
                &tip,
            );
        }
        svg.text("tick", "start", (left + STEPS * box_width + 5.0, 34.0), &most);
    }
}

/// Two significant digits or more: `9.21`, `0.07`, `81`; of what is smaller one: `0.004`, `3e-5`.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 1e4 => short(value.round()),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v == 0.0 || v >= 0.01 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_strongest_and_a_missing_one_blank() {
        let map = HeatMap {
            title: "Throughput".to_owned(),
            value: "Gbit/s".to_owned(),
            across: "Streams".to_owned(),
            columns: vec!["1".to_owned(), "2".to_owned()],
            rows: vec![
                ("near".to_owned(), vec![Some(9.21), Some(0.0)]),
                ("far".to_owned(), vec![None, Some(4.7)]),
            ],
            most: 9.21,
        };
        let svg = map.svg(400.0);
        assert_eq!(svg.matches("<rect").count(), 10 + 3, "{svg}");
        for words in [
            "near, 1: 9.21</title>",
            "far, 2: 4.70</title>",
            "heat h9\" x=\"",
            "heat h0\"",
            ">Streams</text>",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        let far = svg
            .split("far, 2")
            .next()
            .and_then(|before| before.rsplit("<rect class=\"").next())
            .expect("a box");
        assert!(far.starts_with("heat h5"), "4.7 of 9.21 is the sixth of ten colours: {far}");
        // A phone has room for boxes, not for numbers.
        let many = HeatMap {
            columns: (1..=20).map(|n| n.to_string()).collect(),
            rows: vec![("far".to_owned(), vec![Some(4.7); 20])],
            ..map
        };
        let svg = many.svg(380.0);
        assert!(!svg.contains(">4.70</text>") && !svg.contains("NaN"), "{svg}");
    }
}
