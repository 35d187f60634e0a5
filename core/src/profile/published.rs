//! The papers' own numbers, to stand next to ours: what `presets/tcp.toml` has under `printed`.

use super::presets::FILE;
use crate::congestion::Algorithm;
use serde::Deserialize;
use std::sync::LazyLock;

/// What of a modelled page was measured.
pub(super) const THEIRS: &str = "the papers' figures, which are called theirs";

/// What SC08 printed of one congestion control over one length (figures 2 and 3).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Sc08 {
    /// The congestion control.
    pub congestion: Algorithm,
    /// Miles of fibre.
    pub miles: f64,
    /// The path, by its name here.
    pub path: String,
    /// Mean over 5 to 15 streams and ten repetitions, in Gbit/s.
    pub gbps: f64,
    /// Standard deviation in Mbit/s.
    pub sd_mbps: f64,
    /// Decrease per mile in Mbit/s; none for the base length.
    pub dpm_mbps: Option<f64>,
    /// What a single stream got in Gbit/s, as the text says it (section III.C).
    pub single: String,
    /// The best number of streams with its Gbit/s (section III.C); not given for the base length.
    pub peak: Option<(u32, f64)>,
}

#[derive(Default, Deserialize)]
struct Printed {
    sc08: Vec<Sc08>,
}

/// SC08's tables.
pub static SC08: LazyLock<Vec<Sc08>> =
    LazyLock::new(|| FILE.section::<Printed>("printed").unwrap_or_default().sc08);

/// SC08's row for `congestion` over `path`.
pub fn sc08(congestion: Algorithm, path: &str) -> Option<&'static Sc08> {
    SC08.iter().find(|row| row.congestion == congestion && row.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::decrease_per_mile;

    #[test]
    fn the_papers_throughputs_give_the_papers_decrease_per_mile() {
        for row in SC08.iter().filter(|row| row.dpm_mbps.is_some()) {
            let base = sc08(row.congestion, "usn-0.2").expect("the base length");
            let found =
                decrease_per_mile((base.miles, base.gbps * 1e3), (row.miles, row.gbps * 1e3))
                    .expect("another length");
            let printed = row.dpm_mbps.expect("a printed value");
            // The throughputs are printed to 0.01 Gbit/s, which leaves each end 5 Mbit/s; the
            // result is printed to 0.01.
            let rounding = 10.0 / (row.miles - base.miles) + 0.005;
            // One value is out of the paper's own line: H-TCP over 8600 miles is printed as 0.87;
            // its throughputs give 0.863.
            let known = (row.congestion, row.path.as_str()) == (Algorithm::HTcp, "usn-8600");
            assert!(((found - printed).abs() <= rounding) != known, "{row:?}: {found:.4}");
            assert!((found - printed).abs() < 0.01, "{row:?}: {found:.4}");
        }
    }

    #[test]
    fn the_papers_mean_decrease_is_that_of_its_three_lengths() {
        for (congestion, printed) in [(Algorithm::Bic, 1.34), (Algorithm::HTcp, 1.29)] {
            let found: Vec<f64> = SC08
                .iter()
                .filter(|row| row.congestion == congestion)
                .filter_map(|row| row.dpm_mbps)
                .collect();
            assert!((found.iter().sum::<f64>() / 3.0 - printed).abs() < 0.006, "{congestion}");
        }
    }
}
