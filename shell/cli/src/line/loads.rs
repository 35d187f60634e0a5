//! `--load`: one load, or several from one to another.

use std::fmt;
use std::str::FromStr;

/// RFC 2544, section 26.3: loads are at most a tenth of the rate apart.
const STEP: f64 = 10.0;

/// Loads in per cent of a rate, from the least on; never empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loads(Vec<f64>);

impl Loads {
    /// The loads.
    pub(super) fn all(&self) -> &[f64] {
        &self.0
    }

    /// The largest, which is the only one where one was asked for.
    pub(super) fn largest(&self) -> f64 {
        self.0.last().copied().unwrap_or(100.0)
    }

    /// Whether there are several.
    pub(super) fn is_range(&self) -> bool {
        self.0.len() > 1
    }
}

impl FromStr for Loads {
    type Err = String;
    fn from_str(text: &str) -> Result<Loads, String> {
        let percent = |text: &str| match text.parse::<f64>() {
            Ok(load) if load > 0.0 && load <= 100.0 => Ok(load),
            _ => Err(format!("`{text}` is no load: percent of --rate, above 0 and up to 100")),
        };
        let Some((from, rest)) = text.split_once("..") else {
            return Ok(Loads(vec![percent(text)?]));
        };
        let (to, step) = match rest.split_once('/') {
            Some((to, step)) => (to, percent(step)?),
            None => (rest, STEP),
        };
        let (from, to) = (percent(from)?, percent(to)?);
        if from >= to {
            return Err(format!("`{text}` goes nowhere: the smaller load comes first"));
        }
        let count = ((to - from) / step).ceil() as usize;
        if count > 1_000 {
            return Err(format!("`{text}` is more than 1,000 loads"));
        }
        // The last is always the one that was asked for.
        Ok(Loads((0..count).map(|n| from + n as f64 * step).chain([to]).collect()))
    }
}

impl fmt::Display for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one}"),
            many => write!(f, "{}..{}", many[0], self.largest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_load_or_several_are_read() {
        let all = |text: &str| text.parse().map(|loads: Loads| loads.0);
        assert_eq!(all("62.5"), Ok(vec![62.5]));
        assert_eq!(all("70..100"), Ok(vec![70.0, 80.0, 90.0, 100.0]));
        assert_eq!(all("10..75/40"), Ok(vec![10.0, 50.0, 75.0]));
        for wrong in ["", "0", "101", "x", "10..", "90..10", "10..100/0", "1..100/0.01", "NaN"] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }
}
