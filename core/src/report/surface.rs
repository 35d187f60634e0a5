//! Surfaces: a value over two axes as a landscape that can be turned; without JavaScript it stands
//! still.

use super::markup::{Svg, TEXT, text_width};
use std::fmt::Write;

/// Values over two axes of few values each; the same data as a heat map, for the shape rather than
/// the numbers.
#[derive(Clone, Debug)]
pub struct Surface {
    /// What the chart shows, in a few words: read out where it cannot be seen.
    pub title: String,
    /// What the height measures, with its unit.
    pub value: String,
    /// What the columns are.
    pub across: String,
    /// What the rows are.
    pub along: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Each row's name and values, `None` where there is none: the landscape has a hole there.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// The value at full height; several surfaces with the same can be compared.
    pub most: f64,
}

/// Steps of colour that the style sheet knows: `h0`, the weakest, to `h9`.
const STEPS: f64 = 10.0;
/// How the landscape is turned at first, in radians; `turn.js` has the same projection.
const TURNED: f64 = -0.6;
/// How far it is tilted towards the reader: the sine of the angle.
const TILT: f64 = 0.5;

/// The greatest height, as a share of the picture's; `turn.js` has it too.
const HIGH: f64 = 0.3;

/// A point: column, row and height, each from 0 to 1.
type Point = (f64, f64, f64);

impl Surface {
    /// Whether there is a landscape at all: fewer points make no face.
    pub fn has_faces(&self) -> bool {
        self.rows.len() > 1 && self.columns.len() > 1 && !self.faces().is_empty()
    }

    /// The chart as SVG, `width` by `height` pixels.
    pub(super) fn svg(&self, width: f64, height: f64) -> String {
        let attributes = format!(
            " class=\"surface\" tabindex=\"0\" data-turned=\"{TURNED}\" data-tilt=\"{TILT}\""
        );
        let mut svg = Svg::new(width, height, &self.title, &attributes);
        svg.text("caption", "start", (2.0, TEXT), &self.value);
        let view = View::new(width, height);
        let floor = [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0)];
        svg.placed_polygon("floor", &place(&floor), &floor.map(|point| view.project(point)), "");
        let mut faces = self.faces();
        // What is farther away is drawn first.
        let depth = |face: &[Point; 4]| face.iter().map(|point| View::depth(*point)).sum::<f64>();
        faces.sort_by(|a, b| depth(&a.0).total_cmp(&depth(&b.0)));
        for (corners, value, tip) in faces {
            let share = if self.most > 0.0 { (value / self.most).clamp(0.0, 1.0) } else { 0.0 };
            let colour = (share * STEPS).floor().min(STEPS - 1.0) as usize;
            let class = format!("face h{colour}");
            svg.placed_polygon(
                &class,
                &place(&corners),
                &corners.map(|point| view.project(point)),
                &tip,
            );
        }
        for (text, point) in self.labels(&view) {
            let (x, y) = view.project(point);
            let half = text_width(&text) / 2.0 + 2.0;
            let at = (x.clamp(half, (width - half).max(half)), y.min(height - 4.0));
            svg.placed_text("value", &place(&[point]), at, &text);
        }
        svg.finish()
    }

    /// Four neighbours each, their mean, and what a pointer reads out.
    fn faces(&self) -> Vec<([Point; 4], f64, String)> {
        let (across, along) =
            ((self.columns.len() - 1).max(1) as f64, (self.rows.len() - 1).max(1) as f64);
        let value = |column: usize, row: usize| {
            self.rows.get(row)?.1.get(column).copied().flatten().filter(|v| v.is_finite())
        };
        let mut faces = Vec::new();
        for row in 1..self.rows.len() {
            for column in 1..self.columns.len() {
                let around =
                    [(column - 1, row - 1), (column, row - 1), (column, row), (column - 1, row)];
                let values: Option<Vec<f64>> =
                    around.iter().map(|(column, row)| value(*column, *row)).collect();
                let Some(values) = values else { continue };
                let mut corners = [(0.0, 0.0, 0.0); 4];
                for ((corner, (column, row)), value) in corners.iter_mut().zip(around).zip(&values)
                {
                    let height = if self.most > 0.0 { value / self.most } else { 0.0 };
                    *corner = (column as f64 / across, row as f64 / along, height);
                }
                let (name, column) = (&self.rows[row].0, &self.columns[column]);
                faces.push((
                    corners,
                    values.iter().sum::<f64>() / 4.0,
                    format!("{name}, {column}: {:.2}", values[2]),
                ));
            }
        }
        faces
    }

    /// The ends of both axes, and their names between them.
    fn labels(&self, view: &View) -> Vec<(String, Point)> {
        // Along the two near edges of the floor, where the landscape covers nothing as it is first
        // drawn.
        let mut labels =
            vec![(self.across.clone(), (0.5, 1.18, 0.0)), (self.along.clone(), (-0.25, 0.5, 0.0))];
        let ends = |names: &[&String]| match names {
            [first, .., last] => vec![((*first).clone(), 0.0), ((*last).clone(), 1.0)],
            _ => Vec::new(),
        };
        let columns: Vec<&String> = self.columns.iter().collect();
        let rows: Vec<&String> = self.rows.iter().map(|(name, _)| name).collect();
        labels.extend(ends(&columns).into_iter().map(|(name, at)| (name, (at, 1.08, 0.0))));
        // A long name ends before the corner, where the first column's stands.
        let beside =
            |name: &str| ((text_width(name) / 2.0 + 12.0) / (view.wide * TURNED.cos())).max(0.3);
        labels.extend(
            ends(&rows).into_iter().map(|(name, at)| (name.clone(), (-beside(&name), at, 0.0))),
        );
        labels
    }
}

/// Points as `turn.js` reads them.
fn place(points: &[Point]) -> String {
    let mut text = String::new();
    for (i, (u, v, w)) in points.iter().enumerate() {
        let _ = write!(text, "{}{u:.3} {v:.3} {w:.3}", if i > 0 { ";" } else { "" });
    }
    text
}

/// From the unit cube to the picture.
struct View {
    centre: (f64, f64),
    wide: f64,
    high: f64,
}

impl View {
    fn new(width: f64, height: f64) -> View {
        // Names stand next to the corners, the caption above.
        View {
            centre: (width / 2.0, height * 0.62),
            wide: (width * 0.42).min(height * 0.75),
            high: height * HIGH,
        }
    }

    fn project(&self, point: Point) -> (f64, f64) {
        let (u, v) = (point.0 - 0.5, point.1 - 0.5);
        let x = u * TURNED.cos() - v * TURNED.sin();
        (
            self.centre.0 + x * self.wide,
            self.centre.1 + View::depth(point) * self.wide * TILT - point.2 * self.high,
        )
    }

    /// How near a point is.
    fn depth((u, v, _): Point) -> f64 {
        (u - 0.5) * TURNED.sin() + (v - 0.5) * TURNED.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surface_has_a_face_per_four_neighbours_within_its_box() {
        let row = |name: &str, values: [Option<f64>; 3]| (name.to_owned(), values.to_vec());
        let surface = Surface {
            title: "Throughput".to_owned(),
            value: "Gbit/s".to_owned(),
            across: "Streams".to_owned(),
            along: "Path".to_owned(),
            columns: ["1", "5", "10"].map(str::to_owned).to_vec(),
            rows: vec![
                row("near", [Some(9.0), Some(9.2), Some(9.2)]),
                row("far", [Some(1.0), Some(4.0), Some(8.0)]),
                row("farther", [None, Some(2.0), Some(7.0)]),
            ],
            most: 9.2,
        };
        assert!(surface.has_faces());
        let (svg, wide) = (surface.svg(380.0, 300.0), surface.svg(920.0, 340.0));
        assert_eq!(
            svg.matches("class=\"face").count(),
            3,
            "one has a corner without a value: {svg}"
        );
        assert!(svg.contains("far, 10: 8.00</title>") && !svg.contains("NaN"), "{svg}");
        for (svg, width, height) in [(svg, 380.0, 300.0), (wide, 920.0, 340.0)] {
            for points in svg.split(" points=\"").skip(1).filter_map(|rest| rest.split('"').next())
            {
                for pair in points.split(' ') {
                    let (x, y) = pair.split_once(',').expect("two numbers");
                    let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                    assert!((0.0..=width).contains(&x) && (TEXT..=height).contains(&y), "{pair}");
                }
            }
        }
        assert!(!Surface { columns: vec!["1".to_owned()], ..surface }.has_faces());
    }
}
