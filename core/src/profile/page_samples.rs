//! A profile's page: how often which throughput was seen, where there are samples enough to say.

use super::document::Profile;
use crate::report::{Axis, Histogram, Section};

/// Fewer samples make no histogram.
const LEAST: usize = 100;
/// Bars of it.
const BARS: usize = 40;

impl Profile {
    /// The samples of the cell that has most of them, after its ramp; the Trans-European paper's
    /// figure 7 in another form.
    pub(super) fn how_often(&self) -> Option<Section> {
        let (unit, unit_name) = self.rate_unit();
        let (result, samples) = self
            .plain()
            .map(|result| (result, result.settled(self.grid.sample_s)))
            .map(|(result, gbps)| {
                (result, gbps.into_iter().map(|one| one * 1e9 / unit).collect::<Vec<f64>>())
            })
            .filter(|(_, samples)| samples.len() >= LEAST)
            .max_by_key(|(_, samples)| samples.len())?;
        let least = samples.iter().copied().min_by(f64::total_cmp)?;
        let most = samples.iter().copied().max_by(f64::total_cmp)?;
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        // A rate that never changes fills one bar.
        let each = ((most - least) / BARS as f64).max(most * 1e-4).max(1e-9);
        let mut buckets: Vec<(f64, u64)> =
            (0..=BARS).map(|i| (least + i as f64 * each, 0)).collect();
        for sample in &samples {
            // The first bucket ends where the samples begin, and is empty.
            let place = 1 + ((sample - least) / each) as usize;
            buckets[place.min(BARS)].1 += 1;
        }
        let chart = Histogram {
            title: format!("How often which throughput: {}, {}", result.cell.name(), self.label()),
            x: Axis::new(format!("Goodput, {}", self.label()), unit_name),
            y: Axis::new("Samples", "").log(),
            buckets,
            marks: vec![(format!("least {least:.3}"), least), (format!("mean {mean:.3}"), mean)],
        };
        Some(
            Section::new("How often which throughput")
                .text(format!(
                    "The {} samples of {} s after the ramp of {}, all valid repetitions together.",
                    samples.len(),
                    self.grid.sample_s,
                    result.cell.name()
                ))
                .chart(chart),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Form, Profile, preset};
    use crate::report::ReportDocument;

    #[test]
    fn a_long_stream_has_a_histogram_and_short_ones_have_none() {
        let html = |seconds: f64| {
            let mut grid = preset("wanphy-stability", Form::Quick).expect("a preset");
            (grid.seconds, grid.sample_s) = (seconds, 1.0);
            Profile::modelled(grid).page(&[]).html()
        };
        let (long, short) = (html(60.0), html(20.0));
        assert!(
            long.contains("How often which throughput")
                && long.contains("least 5.")
                && !long.contains("NaN")
        );
        assert!(!short.contains("How often which throughput"));
    }
}
