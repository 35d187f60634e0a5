//! A table's rows as a terminal shows them, and the statistics of what stands in them.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// A heading over rows.
pub(crate) fn heading(text: &str) {
    println!("\n{text}\n{}", "-".repeat(text.chars().count()));
}

/// What was measured, its figure, and what was asked of it.
pub(crate) fn row(label: &str, value: &str, asked: &str) {
    println!("  {label:<58} {value:<28} {asked}");
}

/// The middle value; of an even number, the mean of both.
///
/// # Errors
/// When there is none: every run failed.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Result<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let above = *values.get(middle).context("no run of this side came to a good end")?;
    Ok(if values.len() % 2 == 1 { above } else { f64::midpoint(values[middle - 1], above) })
}

/// One side of a comparison: its name, and what a run of it measures.
pub(crate) type Side<'a, T> = (String, Box<dyn FnMut() -> Result<T> + 'a>);

/// A side.
pub(crate) fn side<'a, T>(
    name: impl Into<String>,
    run: impl FnMut() -> Result<T> + 'a,
) -> Side<'a, T> {
    (name.into(), Box::new(run))
}

/// What each side measured, by its name.
pub(crate) struct Results<T>(BTreeMap<String, Vec<T>>);

/// Runs the sides in turns, `runs` times each.
///
/// # Errors
/// As the sides.
pub(crate) fn in_turns<T>(runs: usize, mut sides: Vec<Side<'_, T>>) -> Result<Results<T>> {
    let mut results = Results(BTreeMap::new());
    for _ in 0..runs {
        for (name, side) in &mut sides {
            results.0.entry(name.clone()).or_default().push(side()?);
        }
    }
    Ok(results)
}

impl<T> Results<T> {
    /// The runs of a side.
    pub(crate) fn of(&self, name: &str) -> &[T] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure of a side's runs.
    ///
    /// # Errors
    /// When the side did not run.
    pub(crate) fn median(&self, name: &str, figure: impl Fn(&T) -> f64) -> Result<f64> {
        median(self.of(name).iter().map(figure)).with_context(|| name.to_owned())
    }
}

impl Results<f64> {
    /// The median of a side.
    ///
    /// # Errors
    /// When the side did not run.
    pub(crate) fn middle(&self, name: &str) -> Result<f64> {
        self.median(name, |value| *value)
    }
}

/// Bit/s as a table shows them.
pub(crate) fn gbit(rate: f64) -> String {
    format!("{:.2} Gbit/s", rate / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_both() {
        assert_eq!(median([3.0, 1.0, 2.0]).expect("three"), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]).expect("four"), 2.5);
        assert!(median([]).is_err());
    }

    #[test]
    fn sides_run_in_turns() {
        let order = std::cell::RefCell::new(String::new());
        let note = |letter| {
            order.borrow_mut().push(letter);
            Ok(1.0)
        };
        let sides = vec![side("a", || note('a')), side("b", || note('b'))];
        let results = in_turns(3, sides).expect("no side fails");
        assert_eq!((results.of("a").len(), results.of("b").len()), (3, 3));
        assert_eq!(*order.borrow(), "ababab");
    }
}
