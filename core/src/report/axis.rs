//! Axes: from values to pixels, and the ticks that people expect (1, 2 or 5 times a power of ten).

/// What a chart's axis measures.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    label: String,
    unit: String,
    log: bool,
    without_zero: bool,
    covers: Option<(f64, f64)>,
}

impl Axis {
    /// An axis for `label` in `unit`, such as `"Throughput"` in `"Gbit/s"`; the unit may be empty
    /// for a count.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            unit: unit.into(),
            log: false,
            without_zero: false,
            covers: None,
        }
    }

    /// The same axis, which begins near the least value: for values that lie close together far
    /// from zero.
    #[must_use]
    pub fn without_zero(mut self) -> Axis {
        self.without_zero = true;
        self
    }

    /// The same axis, which reaches from `low` to `high` at least: for charts of one page that are
    /// to be read together.
    #[must_use]
    pub fn covering(mut self, low: f64, high: f64) -> Axis {
        self.covers = Some((low, high));
        self
    }

    /// The same axis, logarithmic: equal distances are equal factors.
    #[must_use]
    pub fn log(mut self) -> Axis {
        self.log = true;
        self
    }

    /// `Throughput (Gbit/s)`.
    pub(super) fn caption(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} ({})", self.label, self.unit)
        }
    }

    /// Whether equal distances are equal factors.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    /// The scale that shows `values` between the pixels `from` and `to`.
    ///
    /// A linear scale starts at zero, so that lengths can be compared, and ends at a tick. A
    /// logarithmic one covers the values above zero.
    pub(super) fn scale(
        &self,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
        ticks: usize,
    ) -> Scale {
        let covered = self.covers.into_iter().flat_map(|(low, high)| [low, high]);
        let values = values.chain(covered);
        let values = values.filter(|value| value.is_finite() && (!self.log || *value > 0.0));
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if self.log {
            // Without a value, one decade; with a single one, the decade around it.
            let low = if low.is_finite() { low } else { 1.0 };
            let high = if high > low { high } else { low * 10.0 };
            return Scale { low, high, log: true, step: 1.0, whole: false, from, to };
        }
        let low = if self.without_zero && low.is_finite() { low } else { low.min(0.0) };
        let high = if high > low { high } else { low + 1.0 };
        let step = nice_step((high - low) / ticks.max(1) as f64);
        let (low, high) = ((low / step).floor() * step, (high / step - 1e-9).ceil() * step);
        Scale { low, high, log: false, step, whole: false, from, to }
    }
}

/// The smallest of 1, 2, 5, 10 times a power of ten that is not below `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= raw * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

/// Values between `low` and `high` on the pixels between `from` and `to`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
    step: f64,
    whole: bool,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    /// The pixel of `value`; what lies outside the scale is put on its edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// The same scale of counts, from a value below the lowest: only whole numbers have a label.
    pub(super) fn counting_from(mut self, low: f64) -> Scale {
        (self.low, self.whole) = (low, true);
        self
    }

    /// The values worth a label, with it.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            return self.log_ticks();
        }
        // The number of digits is the step's, so that 0.5 stands next to 1.0 and 10 next to 20.
        let digits = (-self.step.log10().floor()).max(0.0) as usize;
        let count = ((self.high - self.low) / self.step).round() as usize;
        let value = |i: usize| self.low + i as f64 * self.step;
        (0..=count)
            .map(|i| match digits {
                0..=DIGITS => (value(i), format!("{:.digits$}", value(i) + 0.0)),
                // A row of zeros is not read.
                _ => (value(i), in_powers(value(i), digits)),
            })
            .collect()
    }

    /// A tick for each decade; of fewer than three also those between them, and of what lies
    /// between two of these a few even steps.
    fn log_ticks(&self) -> Vec<(f64, String)> {
        let within =
            |value: &f64| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(value);
        let factors: &[u32] = if self.high / self.low < 1e3 { &[1, 2, 5] } else { &[1] };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let powers = (first..=last).flat_map(|power| factors.iter().map(move |one| (*one, power)));
        // Read from text, a power of ten is the nearest number to it.
        let values = powers.filter_map(|(one, power)| format!("{one}e{power}").parse().ok());
        let ticks: Vec<f64> = values.filter(within).collect();
        if self.whole {
            let whole = ticks.into_iter().filter(|value| *value >= 1.0);
            return whole.map(|value| (value, short(value))).collect();
        }
        if ticks.len() > 1 {
            return ticks.into_iter().map(|value| (value, short(value))).collect();
        }
        let step = nice_step((self.high - self.low) / 4.0);
        let even = Scale { log: false, step, ..self.clone() };
        let low = (self.low / step - 1e-9).ceil() * step;
        let high = (self.high / step + 1e-9).floor() * step;
        Scale { low, high, ..even }.ticks()
    }
}

/// More digits behind the point are not read.
const DIGITS: usize = 4;

/// A number of so many digits behind the point as `2e-6`.
fn in_powers(value: f64, digits: usize) -> String {
    let rounded: f64 = format!("{value:.digits$}").parse().unwrap_or(value);
    // Minus zero would print its sign.
    if rounded == 0.0 { "0".to_owned() } else { format!("{rounded:e}") }
}

/// A number in few letters: `1e-6`, `0.01`, `1`, `100`, `10k`, `1M`.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{}G", v / 1e9),
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e4 => format!("{}k", v / 1e3),
        v if v > 0.0 && v < 1e-4 => format!("{v:e}"),
        v => format!("{v}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], axis: &Axis, ticks: usize) -> Vec<String> {
        axis.scale(values.iter().copied(), 0.0, 100.0, ticks)
            .ticks()
            .into_iter()
            .map(|(_, label)| label)
            .collect()
    }

    #[test]
    fn ticks_are_round_and_reach_around_the_values() {
        let axis = Axis::new("Throughput", "Gbit/s");
        assert_eq!(labels(&[0.3, 8.7], &axis, 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&[2.0], &axis, 5), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(&[61.0], &axis, 6), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(&[0.013], &axis, 3), ["0.000", "0.005", "0.010", "0.015"]);
        assert_eq!(labels(&[-3.0, 3.0], &axis, 3), ["-4", "-2", "0", "2", "4"]);
        let wider = axis.covering(0.0, 7.0);
        assert_eq!(labels(&[2.0, 3.0], &wider, 3), labels(&[0.5], &wider, 3));
    }

    #[test]
    fn an_axis_without_values_still_has_ticks() {
        assert_eq!(labels(&[], &Axis::new("Time", "s"), 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&[0.0, f64::NAN], &Axis::new("Time", "s"), 2), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&[], &Axis::new("Count", "").log(), 2), ["1", "2", "5", "10"]);
    }

    #[test]
    fn a_logarithmic_axis_has_a_tick_for_each_decade() {
        let axis = Axis::new("Count", "").log();
        assert_eq!(labels(&[0.0, 0.5, 20_000.0], &axis, 5), ["1", "10", "100", "1000", "10k"]);
        let scale = axis.scale([1.0, 100.0].into_iter(), 0.0, 200.0, 5);
        assert!((scale.place(10.0) - 100.0).abs() < 1e-9);
        assert!((scale.place(0.0) - 0.0).abs() < 1e-9, "zero lies on the edge");
    }

    #[test]
    fn small_steps_are_written_in_few_letters() {
        let axis = Axis::new("Loss", "");
        assert_eq!(labels(&[0.0, 1e-5], &axis, 5), ["0", "2e-6", "4e-6", "6e-6", "8e-6", "1e-5"]);
        assert_eq!(labels(&[1.2e-7], &axis, 3), ["0", "5e-8", "1e-7", "1.5e-7"]);
        assert_eq!(
            labels(&[0.0, 2e-3], &axis, 4),
            ["0.0000", "0.0005", "0.0010", "0.0015", "0.0020"]
        );
    }

    #[test]
    fn a_short_logarithmic_axis_has_ticks_between_decades() {
        let axis = Axis::new("Round-trip time", "ms").log();
        assert_eq!(labels(&[26.8, 163.0], &axis, 5), ["50", "100"]);
        assert_eq!(labels(&[1.0, 163.0], &axis, 5), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&[0.03, 0.2], &axis, 5), ["0.05", "0.1", "0.2"]);
        // Between two of them, too.
        assert_eq!(labels(&[110.0, 190.0], &axis, 5), ["120", "140", "160", "180"]);
        assert_eq!(labels(&[1e-6, 2e-5], &axis, 5), ["1e-6", "2e-6", "5e-6", "1e-5", "2e-5"]);
    }
}
