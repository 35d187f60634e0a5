//! Line charts: named series over one axis, each line with its name next to it.

use super::axis::{Axis, Scale};
use super::markup::{Svg, TEXT, px, text_width};

/// Series of points over common axes.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What the chart shows, in a few words: read out where it cannot be seen.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// At most six can be told apart.
    pub series: Vec<Series>,
    /// What happened when.
    pub marks: Vec<Mark>,
}

/// Something that happened, from one place of the horizontal axis to another, or at one.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where it began.
    pub from: f64,
    /// Where it was over.
    pub to: f64,
    /// What it was.
    pub name: String,
}

/// A named line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The name written next to the line.
    pub name: String,
    /// Points in the axes' units, in ascending order of x.
    pub points: Vec<(f64, f64)>,
    /// How sure the points are: low and high at each x, in ascending order; may be empty.
    pub band: Vec<(f64, f64, f64)>,
    /// What happened to it: where, and what it was; may be empty.
    pub events: Vec<(f64, String)>,
}

/// The colours and dashes that the style sheet knows.
const STYLES: usize = 6;
/// Half of the height of an event's tick on its line.
const TICK: f64 = 5.0;
/// Between two labels of an axis.
const GAP: f64 = 4.0;
/// More points than pixels only make the page heavy.
const POINTS: usize = 600;

impl LineChart {
    /// The chart as SVG, `width` by `height` pixels.
    pub(super) fn svg(&self, width: f64, height: f64) -> String {
        let values = |pick: fn(&(f64, f64)) -> f64| {
            self.series.iter().flat_map(move |series| series.points.iter().map(pick))
        };
        let (top, bottom) = (26.0, height - 40.0);
        let bands =
            self.series.iter().flat_map(|series| series.band.iter().map(|(_, _, high)| *high));
        let y = self.y.scale(values(|point| point.1).chain(bands), bottom, top, 5);
        let left = 12.0 + y.ticks().iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max);
        let x = self.x.scale(values(|point| point.0), left, width - 14.0, (width / 90.0) as usize);

        // How a script goes from pixels to values.
        let log = [(&self.x, "x"), (&self.y, "y")]
            .map(|(axis, name)| if axis.is_log() { name } else { "" })
            .concat();
        let log = if log.is_empty() { log } else { format!(" data-log=\"{log}\"") };
        let scales = format!(
            " class=\"lines\"{log} data-x=\"{} {} {} {} {}\" data-y=\"{} {} {} {} {}\"",
            x.low,
            x.high,
            px(x.from),
            px(x.to),
            super::markup::escape(self.x.unit()),
            y.low,
            y.high,
            px(y.from),
            px(y.to),
            super::markup::escape(self.y.unit()),
        );
        let mut svg = Svg::new(width, height, &self.title, &scales);
        frame(&mut svg, &self.x, &x, &self.y, &y);
        let marks = || self.marks.iter().filter(|mark| mark.from >= x.low && mark.to <= x.high);
        for mark in marks() {
            let (from, to) = (x.place(mark.from), x.place(mark.to));
            match to - from > 1.0 {
                true => svg.rect("span", (from, top), (to - from, bottom - top), &mark.name),
                false => svg.line("event", (from, top), (from, bottom)),
            }
        }
        for (i, series) in
            self.series.iter().enumerate().filter(|(_, series)| series.band.len() > 1)
        {
            let low = series.band.iter().map(|(at, low, _)| (x.place(*at), y.place(*low)));
            let high = series.band.iter().rev().map(|(at, _, high)| (x.place(*at), y.place(*high)));
            svg.polygon(&format!("band c{}", i % STYLES), &low.chain(high).collect::<Vec<_>>());
        }
        let lines: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| {
                thinned(&series.points).into_iter().map(|(a, b)| (x.place(a), y.place(b))).collect()
            })
            .collect();
        for (i, (series, line)) in self.series.iter().zip(&lines).enumerate() {
            svg.polyline(&format!("line c{}", i % STYLES), &series.name, line);
        }
        for (i, (series, line)) in self.series.iter().zip(&lines).enumerate() {
            for (at, what) in series.events.iter().filter(|(at, _)| (x.low..=x.high).contains(at)) {
                let (at, level) = (x.place(*at), level(line, x.place(*at)));
                svg.tip_line(
                    &format!("loss c{}", i % STYLES),
                    (at, level - TICK),
                    (at, level + TICK),
                    what,
                );
            }
        }
        let dots: Vec<(f64, f64)> = lines.iter().flat_map(|line| dotted(line)).collect();
        let mut placed: Vec<Label> = Vec::new();
        for (i, (series, line)) in self.series.iter().zip(&lines).enumerate() {
            let Some(label) =
                Label::place(&series.name, line, &dots, &placed, (left, x.to), (top, bottom))
            else {
                continue;
            };
            let swatch = label.y - 4.0;
            svg.line(
                &format!("line c{}", i % STYLES),
                (label.x, swatch),
                (label.x + Label::SWATCH, swatch),
            );
            svg.text("name", "start", (label.x + Label::SWATCH + 5.0, label.y), &series.name);
            placed.push(label);
        }
        // Next to what they name, and over the lines.
        for (i, mark) in marks().enumerate() {
            let (from, to) = (x.place(mark.from), x.place(mark.to));
            let (anchor, at) = if to + text_width(&mark.name) > x.to {
                ("end", from - 3.0)
            } else {
                ("start", to + 3.0)
            };
            svg.text("value", anchor, (at, bottom - 8.0 - (TEXT + 2.0) * i as f64), &mark.name);
        }
        svg.finish()
    }
}

/// Draws both axes with their ticks and captions.
pub(super) fn frame(svg: &mut Svg, x_axis: &Axis, x: &Scale, y_axis: &Axis, y: &Scale) {
    svg.text("caption", "start", (2.0, TEXT), &y_axis.caption());
    for (value, label) in y.ticks() {
        let at = y.place(value);
        svg.line("grid", (x.from, at), (x.to, at));
        svg.text("tick", "end", (x.from - 6.0, at + 4.0), &label);
    }
    // The end of the last label.
    let mut end = f64::NEG_INFINITY;
    for (value, label) in x.ticks() {
        // Digits are wider than most letters.
        let (at, wide) = (x.place(value), text_width(&label) * 1.1);
        svg.line("mark", (at, y.from), (at, y.from + 4.0));
        // No label may run out of the picture.
        let (anchor, from) = match () {
            () if at + wide / 2.0 > svg.width() => ("end", at - wide),
            () if at - wide / 2.0 < 0.0 => ("start", at),
            () => ("middle", at - wide / 2.0),
        };
        // A mark without one is read; two over each other are not.
        if from > end {
            svg.text("tick", anchor, (at, y.from + 17.0), &label);
            end = from + wide + GAP;
        }
    }
    svg.line("axis", (x.from, y.from), (x.to, y.from));
    let bottom = svg.height() - 6.0;
    svg.text("caption", "end", (x.to, bottom), &x_axis.caption());
}

/// At most `POINTS` points, keeping the lowest and the highest of each group, so that no spike is
/// lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(POINTS + 2);
    for group in points.chunks(points.len().div_ceil(POINTS / 2)) {
        let low = group.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = group.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let (Some((i, low)), Some((j, high))) = (low, high) {
            kept.extend(if i <= j { [*low, *high] } else { [*high, *low] });
        }
    }
    kept
}

/// How high `line` is at `x`, between its points.
fn level(line: &[(f64, f64)], x: f64) -> f64 {
    let next = line.partition_point(|point| point.0 < x);
    match (next.checked_sub(1).and_then(|before| line.get(before)), line.get(next)) {
        (Some(a), Some(b)) if b.0 > a.0 => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
        (Some(point), _) | (None, Some(point)) => point.1,
        (None, None) => 0.0,
    }
}

/// Points every few pixels along a line: what a label should not cover.
fn dotted(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut dots = line.to_vec();
    for pair in line.windows(2) {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let steps = ((x2 - x1).hypot(y2 - y1) / 4.0) as usize;
        dots.extend(
            (1..steps)
                .map(|i| i as f64 / steps as f64)
                .map(|share| (x1 + share * (x2 - x1), y1 + share * (y2 - y1))),
        );
    }
    dots
}

/// Where a series' name stands: its left end and its base line.
struct Label {
    x: f64,
    y: f64,
    width: f64,
}

impl Label {
    /// The piece of line before a name.
    const SWATCH: f64 = 16.0;

    /// The place near `line` and within the plot that covers the least of what is drawn.
    fn place(
        name: &str,
        line: &[(f64, f64)],
        dots: &[(f64, f64)],
        placed: &[Label],
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
    ) -> Option<Label> {
        // Names are bold.
        let width = Label::SWATCH + 5.0 + text_width(name) * 1.1;
        let last = line.len().checked_sub(1)?;
        let peak = (0..=last).min_by(|a, b| line[*a].1.total_cmp(&line[*b].1))?;
        let mut best: Option<(f64, Label)> = None;
        for anchor in [peak, last, last / 2, last * 3 / 4, last / 4, 0] {
            let (x, y) = line[anchor];
            for (dx, dy) in [
                (-width / 2.0, -8.0),
                (8.0, 4.0),
                (8.0, -10.0),
                (-width / 2.0, 18.0),
                (-width - 8.0, 4.0),
                (8.0, 18.0),
                (-width / 2.0, -26.0),
            ] {
                let label = Label {
                    x: (x + dx).clamp(left + 4.0, (right - width).max(left + 4.0)),
                    y: (y + dy).clamp(top + TEXT, bottom - 5.0),
                    width,
                };
                let covered = dots.iter().filter(|dot| label.covers(**dot)).count() as f64;
                let clashes = placed.iter().filter(|other| label.clashes(other)).count() as f64;
                // Far from its line a name is worth less.
                let away = (label.x - (x + dx)).abs() + (label.y - (y + dy)).abs();
                let cost = covered + clashes * 1_000.0 + away / 10.0;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, label));
                }
            }
        }
        if best.as_ref().is_some_and(|(cost, _)| *cost < 1_000.0) {
            return best.map(|(_, label)| label);
        }
        // On a narrow picture no place near the line is free: the piece of line before the name
        // says whose it is.
        let room = (right - width - left).max(0.0);
        for row in 1..((bottom - top) / (TEXT + 4.0)) as usize {
            for share in [0.0, 0.5, 1.0] {
                let label = Label {
                    x: left + 4.0 + share * (room - 4.0).max(0.0),
                    y: top + row as f64 * (TEXT + 4.0),
                    width,
                };
                let covered = dots.iter().filter(|dot| label.covers(**dot)).count() as f64;
                let clashes = placed.iter().filter(|other| label.clashes(other)).count() as f64;
                let cost = covered + clashes * 1_000.0 + 50.0;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, label));
                }
            }
        }
        best.map(|(_, label)| label)
    }

    fn covers(&self, (x, y): (f64, f64)) -> bool {
        (self.x - 2.0..=self.x + self.width + 2.0).contains(&x)
            && (self.y - TEXT..=self.y + 4.0).contains(&y)
    }

    fn clashes(&self, other: &Label) -> bool {
        self.x < other.x + other.width + 6.0
            && other.x < self.x + self.width + 6.0
            && (self.y - other.y).abs() < TEXT + 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> LineChart {
        let (x, y) = (Axis::new("Time", "s"), Axis::new("Throughput", "Gbit/s"));
        LineChart { title: "Throughput of <two> tools".to_owned(), x, y, series, marks: Vec::new() }
    }

    #[test]
    fn a_small_chart_is_drawn_like_this() {
        let svg = chart(vec![Series {
            name: "a&b".to_owned(),
            points: vec![(0.0, 0.0), (1.0, 1.0)],
            ..Series::default()
        }])
        .svg(180.0, 120.0);
        let golden = concat!(
            r#"<svg viewBox="0 0 180 120" role="img" class="lines" data-x="0 1 31.8 166 s" data-y="0 1 80 26 Gbit/s">"#,
            r#"<title>Throughput of &lt;two&gt; tools</title>"#,
            r#"<text class="caption" text-anchor="start" x="2" y="12">Throughput (Gbit/s)</text>"#,
        );
        assert!(svg.starts_with(golden), "{svg}");
        assert!(
            svg.contains(
                r#"<polyline class="line c0" data-name="a&amp;b" points="31.8,80 166,26"/>"#
            ),
            "{svg}"
        );
        assert!(svg.contains(">a&amp;b</text>") && svg.ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn a_script_is_told_which_axis_is_logarithmic() {
        let mut chart = chart(vec![Series {
            name: "a".to_owned(),
            points: vec![(0.1, 0.0), (10.0, 1.0)],
            ..Series::default()
        }]);
        assert!(!chart.svg(180.0, 120.0).contains("data-log"));
        chart.x = chart.x.log();
        assert!(
            chart.svg(180.0, 120.0).contains(" data-log=\"x\" "),
            "{}",
            chart.svg(180.0, 120.0)
        );
    }

    #[test]
    fn an_empty_series_draws_nothing_and_breaks_nothing() {
        let svg =
            chart(vec![Series { name: "none".to_owned(), ..Series::default() }]).svg(300.0, 200.0);
        assert!(!svg.contains("NaN") && !svg.contains(">none<"), "{svg}");
    }

    #[test]
    fn a_band_lies_around_its_line_and_widens_the_scale() {
        let band = vec![(0.0, 0.5, 1.5), (1.0, 0.5, 4.0)];
        let svg = chart(vec![Series {
            name: "a".to_owned(),
            points: vec![(0.0, 1.0), (1.0, 1.0)],
            band,
            ..Series::default()
        }])
        .svg(180.0, 120.0);
        assert!(svg.contains("<polygon class=\"band c0\""), "{svg}");
        assert!(svg.contains("data-y=\"0 4 "), "the band's top is in the scale: {svg}");
    }

    #[test]
    fn an_event_is_a_tick_on_its_line() {
        let events = vec![(0.5, "3 packets <lost>".to_owned()), (7.0, "outside".to_owned())];
        let points = vec![(0.0, 0.0), (1.0, 1.0)];
        let svg = chart(vec![Series { name: "a".to_owned(), points, events, ..Series::default() }])
            .svg(180.0, 120.0);
        // Half way between 31.8 and 166, and between 80 and 26.
        let tick = r#"<line class="loss c0" x1="98.9" y1="48" x2="98.9" y2="58"><title>3 packets &lt;lost&gt;</title></line>"#;
        assert!(svg.contains(tick) && !svg.contains("outside"), "{svg}");
    }

    #[test]
    fn names_do_not_stand_on_each_other() {
        let line = |level: f64| (0..50).map(|i| (f64::from(i) * 6.0, level)).collect::<Vec<_>>();
        let (near, nearer) = (line(100.0), line(101.0));
        let dots = [dotted(&near), dotted(&nearer)].concat();
        let first = Label::place("globus-url-copy", &near, &dots, &[], (0.0, 300.0), (20.0, 200.0))
            .expect("a place");
        let placed = [first];
        let second = Label::place("rsync", &nearer, &dots, &placed, (0.0, 300.0), (20.0, 200.0))
            .expect("a place");
        assert!(
            !second.clashes(&placed[0]),
            "{} {} / {} {}",
            second.x,
            second.y,
            placed[0].x,
            placed[0].y
        );
    }

    #[test]
    fn six_long_names_find_room_next_to_overlapping_lines() {
        let line =
            |level: f64| (0..50).map(|i| (40.0 + f64::from(i) * 6.0, level)).collect::<Vec<_>>();
        let lines: Vec<_> = (0..6).map(|i| line(30.0 + f64::from(i))).collect();
        let dots: Vec<_> = lines.iter().flat_map(|line| dotted(line)).collect();
        let mut placed: Vec<Label> = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            let name = format!("usn-8600 htcp {i} streams");
            let label = Label::place(&name, line, &dots, &placed, (40.0, 366.0), (26.0, 260.0))
                .expect("a place");
            assert!(placed.iter().all(|other| !label.clashes(other)), "{i}");
            placed.push(label);
        }
    }

    #[test]
    fn thinning_keeps_the_spike() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        points[7_777].1 = 9.0;
        let kept = thinned(&points);
        assert!(
            kept.len() <= POINTS + 2 && kept.iter().any(|point| point.1 == 9.0),
            "{} points",
            kept.len()
        );
    }

    #[test]
    fn no_tick_is_cut_or_written_over_another() {
        let mut chart = chart(vec![Series {
            name: "a".to_owned(),
            points: vec![(0.0, 1.0), (9_900_000_000.0, 2.0)],
            ..Series::default()
        }]);
        chart.x = Axis::new("Loss", "").covering(0.0, 9_900_000_000.0);
        for width in [120.0, 180.0, 300.0, 380.0, 920.0] {
            let svg = chart.svg(width, 160.0);
            let mut last = 0.0;
            for text in
                svg.split("<text class=\"tick\"").skip(1).filter(|text| text.contains("y=\"137\""))
            {
                let value = |key: &str| {
                    text.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next())
                };
                let words = text.split('>').nth(1).and_then(|rest| rest.split('<').next());
                let (at, wide): (f64, f64) = (
                    value(" x").and_then(|text| text.parse().ok()).expect("a place"),
                    text_width(words.expect("words")),
                );
                let from = match value("anchor") {
                    Some("start") => at,
                    Some("end") => at - wide,
                    _ => at - wide / 2.0,
                };
                assert!(from >= last && from + wide <= width + 0.5, "{width}: {svg}");
                last = from + wide;
            }
            assert!(last > 0.0, "{svg}");
        }
    }
}
