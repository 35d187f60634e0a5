//! Throughput over time: where the ramp ends, and how long a flow needs to come back.

use serde::{Deserialize, Serialize};

/// A series cut in its ramp and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Samples that belong to the ramp.
    pub ramp: usize,
    /// Mean of the ramp; zero when there is none.
    pub ramp_mean: f64,
    /// Mean of what follows.
    pub steady_mean: f64,
}

/// Cuts `series` at the first sample from which the mean of the rest is reached: what is below it
/// is the ramp.
///
/// The level asked for is `share`, such as 0.9, of the median of the series' second half, so that
/// neither the ramp itself nor a late dip decides. A series that never gets there is all ramp.
/// `None` for an empty one.
pub fn split(series: &[f64], share: f64) -> Option<Split> {
    let mut later = series.get(series.len() / 2..).filter(|half| !half.is_empty())?.to_vec();
    later.sort_by(f64::total_cmp);
    let level = share * later[later.len() / 2];
    let ramp = series.iter().position(|sample| *sample >= level).unwrap_or(series.len());
    let mean = |part: &[f64]| {
        if part.is_empty() { 0.0 } else { part.iter().sum::<f64>() / part.len() as f64 }
    };
    let steady = if ramp < series.len() { &series[ramp..] } else { series };
    Some(Split { ramp, ramp_mean: mean(&series[..ramp]), steady_mean: mean(steady) })
}

/// How many samples after `from` the series is back at `share` of its mean before, for `hold`
/// samples on end.
///
/// `None` when there was nothing before, or it never comes back.
pub fn recovery(series: &[f64], from: usize, share: f64, hold: usize) -> Option<usize> {
    let before = series.get(..from).filter(|before| !before.is_empty())?;
    // The ramp would pull the mean down: only the half just before counts.
    let before = &before[before.len() / 2..];
    let level = share * before.iter().sum::<f64>() / before.len() as f64;
    let after = series.get(from..)?;
    // It must fall first: samples that still leave before the fall are not a recovery.
    let fell = after.iter().position(|sample| *sample < level).unwrap_or(0);
    (fell..(after.len() + 1).saturating_sub(hold.max(1)))
        .find(|&i| after[i..i + hold.max(1)].iter().all(|sample| *sample >= level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ramp_ends_where_the_level_is_reached() {
        let series = [1.0, 2.0, 4.0, 8.0, 9.5, 9.6, 3.0, 9.4, 9.5, 9.5];
        let found = split(&series, 0.9).expect("a series");
        assert_eq!((found.ramp, found.ramp_mean), (4, 3.75));
        assert!((found.steady_mean - 8.416_666_7).abs() < 1e-6);
        assert_eq!(split(&[], 0.9), None);
    }

    #[test]
    fn recovery_counts_from_the_burst_to_the_last_return() {
        let mut series = vec![5.0; 10];
        series.extend([5.0, 1.0, 2.0, 4.9, 3.0, 4.6, 4.8, 5.0, 5.0]);
        assert_eq!(recovery(&series, 10, 0.9, 1), Some(3));
        assert_eq!(recovery(&series, 10, 0.9, 3), Some(5), "a short return does not count");
        assert_eq!(recovery(&series[..15], 10, 0.9, 3), None);
        assert_eq!(recovery(&[], 0, 0.9, 1), None);
        assert_eq!(
            recovery(&[5.0; 20], 10, 0.9, 3),
            Some(0),
            "what does not fall has nothing to recover"
        );
    }

    proptest! {
        #[test]
        fn a_split_keeps_every_sample(series in prop::collection::vec(0.0f64..10.0, 1..60)) {
            let found = split(&series, 0.9).expect("a series");
            prop_assert!(found.ramp <= series.len());
            if found.ramp < series.len() {
                let whole = found.ramp_mean * found.ramp as f64 + found.steady_mean * (series.len() - found.ramp) as f64;
                prop_assert!((whole - series.iter().sum::<f64>()).abs() < 1e-9);
            }
        }
    }
}
