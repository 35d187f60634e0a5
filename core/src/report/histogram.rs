//! Histograms: how often a value fell between two others, with marks at the figures that matter.

use super::axis::{Axis, short};
use super::line::frame;
use super::markup::{Svg, TEXT, text_width};

/// Counts between edges.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// What the chart shows, in a few words: read out where it cannot be seen.
    pub title: String,
    /// The measured value; mostly logarithmic.
    pub x: Axis,
    /// How often; logarithmic where rare values matter.
    pub y: Axis,
    /// Each bucket's upper edge in the unit of `x`, ascending, and its count. A bucket begins where
    /// the one before ends.
    pub buckets: Vec<(f64, u64)>,
    /// Upright lines with what is written next to them, such as `p99 430 us`.
    pub marks: Vec<(String, f64)>,
}

impl Histogram {
    /// The chart as SVG, `width` by `height` pixels.
    pub(super) fn svg(&self, width: f64, height: f64) -> String {
        let (top, bottom) = (26.0 + 14.0 * self.marks.len() as f64, height - 40.0);
        let counts = self.buckets.iter().map(|(_, count)| *count as f64);
        // A count of one must show above the axis, so a logarithmic scale begins below it.
        let y = self.y.scale(counts.filter(|count| *count > 0.0), bottom, top, 4);
        let y = if y.low > 0.0 { y.counting_from(0.5) } else { y };
        let left = 12.0 + y.ticks().iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max);
        let edges = self
            .buckets
            .iter()
            .map(|(upper, _)| *upper)
            .chain(self.marks.iter().map(|(_, at)| *at));
        let begin = self.begin();
        let x = self.x.scale(edges.chain([begin]), left, width - 14.0, (width / 90.0) as usize);

        let mut svg = Svg::new(width, height, &self.title, "");
        frame(&mut svg, &self.x, &x, &self.y, &y);
        let (mut from, mut lower) = (x.place(begin), if self.x.is_log() { 0.0 } else { begin });
        for (upper, count) in &self.buckets {
            let to = x.place(*upper);
            if *count > 0 {
                let at = y.place(*count as f64);
                let tip =
                    format!("{} to {} {}: {count}", short(lower), short(*upper), self.x.unit());
                svg.rect("bar c0", (from, at), ((to - from - 1.0).max(1.0), bottom - at), &tip);
            }
            (from, lower) = (to, *upper);
        }
        for (i, (name, value)) in self.marks.iter().enumerate() {
            let at = x.place(*value);
            let level = 26.0 + 14.0 * i as f64;
            svg.line("limit", (at, level - 8.0), (at, bottom));
            let (anchor, at) = if at + 4.0 + text_width(name) > width {
                ("end", at - 4.0)
            } else {
                ("start", at + 4.0)
            };
            svg.text("name", anchor, (at, level + TEXT / 4.0), name);
        }
        svg.finish()
    }

    /// Where the first bucket begins to be drawn: it is as wide as the second. On a logarithmic
    /// axis it begins at zero, which is infinitely far away.
    fn begin(&self) -> f64 {
        let first = self.buckets.first().map_or(1.0, |(upper, _)| *upper);
        let second = self.buckets.get(1).map(|(upper, _)| *upper);
        if self.x.is_log() {
            let ratio = second.map(|upper| upper / first).filter(|ratio| ratio.is_finite());
            return first / ratio.unwrap_or(2.0);
        }
        let begin = second.map_or(first, |upper| 2.0 * first - upper);
        // What ends at zero or above it may have no value below.
        if first >= 0.0 { begin.max(0.0) } else { begin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_one_width_are_drawn_so() {
        let chart = Histogram {
            title: "Delay".to_owned(),
            x: Axis::new("Delay", "ms").without_zero(),
            y: Axis::new("Packets", "").log(),
            buckets: vec![(10.5, 5), (10.75, 7), (11.0, 9)],
            marks: Vec::new(),
        };
        let svg = chart.svg(400.0, 240.0);
        assert!(svg.contains("10.25 to 10.5 ms: 5</title>"), "{svg}");
        let widths: Vec<f64> = svg
            .split("<rect class=\"bar")
            .skip(1)
            .filter_map(|rest| rest.split(" width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths.len(), 3, "{svg}");
        let is_alike = |width: &f64| (width - widths[0]).abs() < 0.3 && *width > 50.0;
        assert!(widths.iter().all(is_alike), "{widths:?}");
    }

    #[test]
    fn a_rare_value_shows_on_a_logarithmic_axis() {
        let chart = Histogram {
            title: "Delay error".to_owned(),
            x: Axis::new("Delay error", "us").log(),
            y: Axis::new("Packets", "").log(),
            buckets: vec![(1.0, 5), (10.0, 100_000), (100.0, 0), (1_000.0, 1)],
            marks: vec![("p99 9 us".to_owned(), 9.0)],
        };
        let svg = chart.svg(400.0, 240.0);
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(
            svg.contains("100 to 1000 us: 1</title>") && svg.contains(">p99 9 us</text>"),
            "{svg}"
        );
        let heights = svg
            .split("height=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(heights.clone().all(|height| height > 5.0), "{svg}");
        assert!(!svg.contains(">0.5</text>"), "half a packet is none: {svg}");
    }

    #[test]
    fn what_is_never_negative_begins_at_zero() {
        let chart = Histogram {
            title: "Goodput".to_owned(),
            x: Axis::new("Goodput", "Gbit/s"),
            y: Axis::new("Samples", "").log(),
            buckets: vec![(0.0, 3), (0.0005, 7), (0.001, 9)],
            marks: Vec::new(),
        };
        let svg = chart.svg(400.0, 240.0);
        assert!(!svg.contains(">-0"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
    }
}
