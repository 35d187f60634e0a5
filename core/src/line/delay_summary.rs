//! What delays amount to.

use serde::{Deserialize, Serialize};

/// What delays amount to, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelaySummary {
    /// The mean of all.
    pub mean_ns: f64,
    /// Within what the mean lies at 95 %, from the means of parts in time; absent for few.
    pub mean_ci95_ns: Option<(f64, f64)>,
    /// Their standard deviation.
    pub sd_ns: f64,
    /// The least.
    pub min_ns: f64,
    /// Half are below.
    pub median_ns: f64,
    /// 90 % are.
    pub p90_ns: f64,
    /// 99 % are.
    pub p99_ns: f64,
    /// 99.9 % are.
    pub p999_ns: f64,
    /// The largest.
    pub max_ns: f64,
}
