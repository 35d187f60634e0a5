//! What a link tells about itself while it runs and at its end.

use super::accuracy::{Accuracy, LinkDelay, lateness_limit};
use farline_core::wan;
use serde::{Deserialize, Serialize};

/// Counters and accuracy of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DirectionStats {
    /// What the model did: frames offered, delivered, dropped by cause.
    pub model: wan::Counters,
    /// Packets lost because the emulator had no CPU time: dropped by the sending device before they
    /// were read, or refused by the receiving one. Each makes the run invalid.
    pub overrun: u64,
    /// How late packets were written, against the model.
    pub lateness: Accuracy,
    /// How much too late packets may have been stamped when read, at most: what one that found the
    /// model's wire idle may have waited in the device since that was last seen empty or woke us,
    /// and with it those behind it.
    pub stamping: Accuracy,
    /// The delay that packets were given, by the link's own clock.
    #[serde(default)]
    pub delay: LinkDelay,
    /// The same of packets of at most 200 bytes, as probes of delays are.
    #[serde(default)]
    pub short_delay: LinkDelay,
}

/// What `link stats` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The link's name.
    pub name: String,
    /// The path it was made from.
    pub path: String,
    /// Propagation there and back, in microseconds.
    pub rtt_us: f64,
    /// Since it came up.
    pub uptime_seconds: f64,
    /// Whether the movers run with real-time priority.
    pub realtime: bool,
    /// Whether results measured over this link may be believed.
    pub valid: bool,
    /// When not: why.
    pub invalid_because: Vec<String>,
    /// The limit on the 99th percentile of lateness, in microseconds.
    pub lateness_limit_us: f64,
    /// What side a sends to side b.
    pub a_to_b: DirectionStats,
    /// What side b sends to side a.
    pub b_to_a: DirectionStats,
}

impl Stats {
    /// Decides `valid` and `invalid_because` from the rest.
    pub(super) fn judge(&mut self, settings: &wan::LinkSettings) {
        self.lateness_limit_us = lateness_limit(settings.rtt()).as_nanos() as f64 / 1e3;
        self.invalid_because.clear();
        for (name, direction) in [("a to b", &self.a_to_b), ("b to a", &self.b_to_a)] {
            for (what, accuracy) in
                [("written", &direction.lateness), ("read", &direction.stamping)]
            {
                if accuracy.p99_us > self.lateness_limit_us {
                    let (late, limit) = (accuracy.p99_us, self.lateness_limit_us);
                    self.invalid_because.push(format!(
                        "{name}: 1 % of the packets were {what} more than {late:.0} us late, \
                         above the limit of {limit:.0} us"
                    ));
                }
            }
            if direction.overrun > 0 {
                let lost = direction.overrun;
                self.invalid_because.push(format!(
                    "{name}: {lost} packets were lost for lack of CPU time, not by the model"
                ));
            }
        }
        self.valid = self.invalid_because.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::{Rate, Span};

    #[test]
    fn a_run_is_invalid_when_late_or_overrun_and_says_why() {
        let settings =
            wan::LinkSettings::new(Rate::from_bps(10_000_000_000), Span::from_millis(163));
        let mut stats = Stats {
            name: "n".into(),
            path: "usn-8600".into(),
            rtt_us: 163_000.0,
            uptime_seconds: 1.0,
            realtime: true,
            valid: false,
            invalid_because: vec![],
            lateness_limit_us: 0.0,
            a_to_b: DirectionStats::default(),
            b_to_a: DirectionStats::default(),
        };
        stats.judge(&settings);
        assert!(stats.valid);
        stats.a_to_b.lateness.p99_us = 3_300.0;
        stats.b_to_a.overrun = 1;
        stats.judge(&settings);
        assert!(!stats.valid);
        assert_eq!(stats.invalid_because.len(), 2, "{:?}", stats.invalid_because);
    }
}
