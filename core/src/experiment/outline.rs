//! An experiment in one line: how many cells it has, how often and how long they run, what varies.

use super::axis::GridAxis;

/// What an outline is made of.
pub struct Outline {
    text: String,
    varied: Vec<String>,
}

impl Outline {
    /// Of so many cells and these axes.
    pub fn new<C>(cells: usize, axes: &[GridAxis<C>]) -> Outline {
        let text = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
        let mut shown: Vec<&GridAxis<C>> = axes.iter().collect();
        shown.sort_by_key(|axis| axis.rank());
        Outline { text, varied: shown.into_iter().filter_map(GridAxis::varied).collect() }
    }

    /// Adds `words` to what it says of the cells.
    #[must_use]
    pub fn say(mut self, words: impl AsRef<str>) -> Outline {
        self.text.push_str(words.as_ref());
        self
    }

    /// Adds something that varies, or that happens.
    #[must_use]
    pub fn varied(mut self, words: impl Into<String>) -> Outline {
        self.varied.push(words.into());
        self
    }

    /// The line: cells first, then what varies.
    pub fn line(&self) -> String {
        match self.varied[..] {
            [] => self.text.clone(),
            _ => format!("{}: {}", self.text, self.varied.join("; ")),
        }
    }

    /// `once`, `3 times`, `5 to 10 times`.
    pub(crate) fn times(least: u32, most: u32) -> String {
        match (least, most) {
            (1, 1) => "once".to_owned(),
            _ if least == most => format!("{least} times"),
            _ => format!("{least} to {most} times"),
        }
    }

    /// `at most 33 min`, or hours.
    pub(crate) fn at_most(seconds: f64) -> String {
        match seconds / 60.0 {
            minutes if minutes < 120.0 => format!("at most {minutes:.0} min"),
            minutes => format!("at most {:.0} h", minutes / 60.0),
        }
    }
}
