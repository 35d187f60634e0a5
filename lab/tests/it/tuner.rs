//! The channel autotuner over simulated paths: it makes no copy slower, and lossy ones faster.

use farline_core::plan::Reason;
use farline_core::units::{Bytes, Rate, Span};
use farline_lab::tuner::{TunedCopy, copy};

/// How many times as long a copy of four seconds takes when it is tuned.
fn ratio(path: TunedCopy) -> f64 {
    let path = TunedCopy { size: Bytes(path.rate.as_bps() / 2), ..path };
    copy(&path, true).took.as_secs_f64() / copy(&path, false).took.as_secs_f64()
}

const PATH: TunedCopy = TunedCopy {
    rate: Rate::from_bps(100_000_000),
    rtt: Span::from_millis(40),
    queue: 1.0,
    loss: 0.0,
    size: Bytes(0),
    channels: 1,
    seed: 1,
};

#[test]
fn the_tuner_makes_no_copy_slower() {
    for rtt in [10, 40, 160].map(Span::from_millis) {
        for queue in [0.05, 0.1, 0.2, 0.4, 1.0, 4.0] {
            for loss in [0.0, 1e-5, 1e-3] {
                for channels in [1, 4] {
                    for seed in 1..=2 {
                        let path = TunedCopy { rtt, queue, loss, channels, seed, ..PATH };
                        let ratio = ratio(path);
                        assert!(ratio < 1.03, "{path:?}: {ratio:.3} times as long");
                    }
                }
            }
        }
    }
}

#[test]
fn a_path_that_loses_by_itself_gets_bbr() {
    for seed in 1..=5 {
        let path = TunedCopy { loss: 3e-3, seed, size: Bytes(50_000_000), ..PATH };
        let ratio = ratio(path);
        assert!(ratio < 0.7, "seed {seed}: {ratio:.3} times as long");
        let changes = copy(&path, true).changes;
        assert!(
            changes.iter().any(|(_, why)| matches!(
                why,
                Reason::LossWithoutQueue { .. } | Reason::DoubtfulLoss
            )),
            "{changes:?}"
        );
    }
}
