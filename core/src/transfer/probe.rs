//! Learns a path's rate from the first blocks of the transfer itself, so that no round trip goes
//! into asking.
//!
//! The sender's windows double each round trip until something holds them: BBR's test for a full
//! pipe (Cardwell et al. 2016, section 4.1) says when, three rounds in a row in which the best rate
//! has grown by less than a quarter. Until then a rate is what the windows allow, not what the path
//! does. What is told is the rate of these rounds together and not the best of them:
//! acknowledgements that come in bursts make single rounds faster than any path.

use super::path_sample::PathSample;
use super::rounds::Rounds;
use crate::units::{Bytes, Rate, Span};

/// Rounds without growth that end the probe.
const ROUNDS: u32 = 3;

/// What the first blocks showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// The rate of the rounds without growth.
    pub(super) rate: Rate,
    /// How long it took to learn.
    pub(super) took: Span,
}

/// Watches the first blocks.
#[derive(Debug)]
pub(super) struct Probe {
    first: Option<PathSample>,
    /// The end of the last round that grew.
    grown: Option<PathSample>,
    rounds: Rounds,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { first: None, grown: None, rounds: Rounds::of(1.0) }
    }
}

impl Probe {
    /// Takes in a sample; returns once, when the rate is known.
    pub(super) fn handle(&mut self, sample: &PathSample) -> Option<Measured> {
        let first = *self.first.get_or_insert(*sample);
        let rate = self.rounds.rate(sample)?;
        if rate <= 0.0 {
            // Nothing has come back yet.
            return None;
        }
        if self.rounds.judge(rate) {
            self.grown = Some(*sample);
        }
        let grown = self.grown.unwrap_or(first);
        let bytes = Bytes(sample.delivered.0.saturating_sub(grown.delivered.0));
        (self.rounds.flat >= ROUNDS).then(|| Measured {
            rate: Rate::of(bytes, sample.at.since(grown.at)),
            took: sample.at.since(first.at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rng, Time};

    /// Channels whose windows double each round trip from ten segments until the path is full; of
    /// what came in a round trip or 20 ms a part may be acknowledged only later.
    fn run(rtt: f64, capacity: f64, channels: usize, seed: u64) -> Measured {
        let (mut probe, mut noise) = (Probe::default(), Rng::new(seed));
        let mut arrived = 0.0;
        for step in 0..1000u64 {
            let now = step as f64 * 0.1;
            let window = channels as f64 * 14_480.0 * (now / rtt).min(40.0).exp2();
            let rate = (window / rtt).min(capacity / 8.0);
            arrived += rate * 0.1;
            let acked = (arrived - rate * rtt.min(0.02) * noise.unit()).max(0.0);
            let sample = PathSample {
                at: Time::ZERO + Span::from_millis(step * 100),
                channels,
                delivered: Bytes(acked as u64),
                retransmits: 0,
                rtt: Span::from_secs_f64(rtt),
                min_rtt: Span::from_secs_f64(rtt),
                network_bound: true,
                rwnd_limited: Span::ZERO,
                filled: 0,
                starved: 0,
                sndbuf_limited: Span::ZERO,
                silence: Span::ZERO,
                is_model_based: false,
            };
            if let Some(measured) = probe.handle(&sample) {
                return measured;
            }
        }
        panic!("seed {seed}: no end of probing");
    }

    #[test]
    fn the_first_blocks_tell_the_paths_rate_once_windows_grew() {
        for seed in 0..100 {
            for (rtt, capacity, channels) in [
                (0.0003, 8e9, 1),
                (0.0268, 1e9, 4),
                (0.0268, 1e10, 2),
                (0.163, 1e10, 4),
                (0.163, 1e8, 1),
            ] {
                let measured = run(rtt, capacity, channels, seed);
                let rate = measured.rate.as_bps() as f64;
                // What came in 20 of 300 ms may be counted too much.
                assert!(
                    (0.85..1.08).contains(&(rate / capacity)),
                    "seed {seed}, rtt {rtt}: {} of {capacity:.1e}",
                    measured.rate
                );
                let ramp =
                    rtt * (capacity / 8.0 * rtt / 14_480.0 / channels as f64).log2().max(0.0);
                let took = measured.took.as_secs_f64();
                assert!(
                    took <= ramp + 5.5 * rtt.max(0.1) + 0.2,
                    "seed {seed}: {took} s after a ramp of {ramp}"
                );
            }
        }
    }
}
