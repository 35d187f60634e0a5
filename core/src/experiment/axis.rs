//! The axes of a grid: from their list follow its cells, what is refused, what an outline says, and
//! the charts of what was found along them.

use crate::plan::PathPoint;
use crate::units::{Error, ErrorCode, Fault, Rate};

/// Puts the value at a place of an axis into a cell.
type Put<C> = dyn Fn(&mut C, usize);

/// An axis with numbers on it, as a chart of cells of type `C` has it.
#[derive(Clone, Copy)]
pub struct ChartAxis<C> {
    /// What stands along it.
    pub name: &'static str,
    /// Of its numbers.
    pub unit: &'static str,
    /// Whether its values are spread over powers.
    pub is_log: bool,
    /// Where a cell lies on it; NaN for one without a value.
    pub at: fn(&C) -> f64,
    /// What the line of a cell over another axis is called after it.
    pub words: fn(&C) -> String,
}

/// One axis: its values in words, and how each is put into a cell of type `C`.
pub struct GridAxis<C> {
    name: &'static str,
    words: Vec<String>,
    unit: &'static str,
    short: Option<String>,
    shown: u8,
    is_repeated: bool,
    put: Box<Put<C>>,
    chart: Option<ChartAxis<C>>,
}

impl<C> GridAxis<C> {
    /// The axis of `values`, called `name` in a refusal; `words` are those of one value, `put` puts
    /// one into a cell.
    pub fn new<V: Clone + PartialEq + 'static>(
        name: &'static str,
        values: &[V],
        words: impl Fn(&V) -> String,
        put: impl Fn(&mut C, &V) + 'static,
    ) -> GridAxis<C> {
        let all = values.to_vec();
        GridAxis {
            name,
            words: values.iter().map(words).collect(),
            unit: "",
            short: None,
            shown: 0,
            is_repeated: values.iter().enumerate().any(|(i, value)| values[..i].contains(value)),
            put: Box::new(move |cell, i| put(cell, &all[i])),
            chart: None,
        }
    }

    /// The axis of kinds, each with a name of its own.
    pub fn named<V: Copy + PartialEq + 'static>(
        name: &'static str,
        values: &[V],
        word: fn(V) -> &'static str,
        put: impl Fn(&mut C, V) + 'static,
    ) -> GridAxis<C> {
        let words = |value: &V| word(*value).to_owned();
        GridAxis::new(name, values, words, move |cell, value| put(cell, *value))
    }

    /// The axis of paths, by their names.
    pub fn paths(paths: &[PathPoint], put: impl Fn(&mut C, PathPoint) + 'static) -> GridAxis<C> {
        let words = |path: &PathPoint| path.name.clone();
        GridAxis::new("paths", paths, words, move |cell, path| put(cell, path.clone()))
    }

    /// The axis of other traffic on the path.
    pub fn cross_traffic(rates: &[Rate], put: impl Fn(&mut C, Rate) + 'static) -> GridAxis<C> {
        let put = move |cell: &mut C, rate: &Rate| put(cell, *rate);
        GridAxis::new("cross-traffic", rates, Rate::to_string, put).unit(" of other traffic")
    }

    /// What stands behind its values in an outline, such as ` of window`.
    #[must_use]
    pub fn unit(self, unit: &'static str) -> GridAxis<C> {
        GridAxis { unit, ..self }
    }

    /// What an outline says in place of the list of its values, such as `1 to 20 streams`.
    #[must_use]
    pub fn short(self, short: Option<String>) -> GridAxis<C> {
        GridAxis { short, ..self }
    }

    /// Its rank in an outline, 0 unless said; among equals the outer of two axes comes first.
    #[must_use]
    pub fn shown(self, rank: u8) -> GridAxis<C> {
        GridAxis { shown: rank, ..self }
    }

    /// How a chart has it.
    #[must_use]
    pub fn chart(self, chart: ChartAxis<C>) -> GridAxis<C> {
        GridAxis { chart: Some(chart), ..self }
    }

    /// How a chart has it; `None` for one of a single value, or without numbers.
    pub fn charted(self) -> Option<ChartAxis<C>> {
        self.chart.filter(|_| self.words.len() > 1)
    }

    /// Where it stands in an outline.
    pub(super) fn rank(&self) -> u8 {
        self.shown
    }

    /// Its values in words; `None` where it has but one.
    pub(super) fn varied(&self) -> Option<String> {
        let list = || format!("{}{}", self.words.join(", "), self.unit);
        (self.words.len() > 1).then(|| self.short.clone().unwrap_or_else(list))
    }
}

/// `first` with each combination of the axes' values put in; the last axis varies first.
pub(super) fn expand<C: Clone>(first: C, axes: &[GridAxis<C>]) -> Vec<C> {
    axes.iter().fold(vec![first], |cells, axis| {
        let each = |cell: &C| {
            let put = |i| {
                let mut cell = cell.clone();
                (axis.put)(&mut cell, i);
                cell
            };
            (0..axis.words.len()).map(put).collect::<Vec<C>>()
        };
        cells.iter().flat_map(each).collect()
    })
}

/// Refuses axes that are empty, have a value twice, or have more than `most` cells.
pub(super) fn check<C>(axes: &[GridAxis<C>], most: usize) -> Result<(), Error> {
    let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::ProfileGrid, message));
    for GridAxis { name, words, is_repeated, .. } in axes {
        if words.is_empty() {
            return wrong(format!("the axis of {name} is empty: the grid has no cell"));
        }
        if *is_repeated {
            return wrong(format!(
                "the axis of {name} has a value twice: its cells could not be told apart"
            ));
        }
    }
    let cells = axes.iter().try_fold(1usize, |cells, axis| cells.checked_mul(axis.words.len()));
    if cells.is_none_or(|cells| cells > most) {
        return wrong(format!("the grid has more than {most} cells"));
    }
    Ok(())
}
