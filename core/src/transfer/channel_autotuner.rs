//! Adapts a transfer while it runs: more channels while they help, another congestion control when
//! losses are not congestion.
//!
//! The choice before a transfer knows the round trip but not the rate. The transfer's first blocks
//! are the probe that tells it; then the tuner looks at one window of time after the other, and
//! changes one thing at a time, so that the next windows show what it did.
//!
//! *Channels* are doubled while the network is what limits and each doubling brings at least
//! [`WORTH`] more. *Loss* without a queue shortly before is not congestion, since congestion fills
//! a queue first, be it a shallow one: a control that halves its window for it wastes the path
//! (Mathis et al. 1997: rate ~ MSS / (RTT sqrt(p))), and BBR, which does not take a loss for
//! congestion (Cardwell et al. 2016), takes its place. Losses with a queue are left to the control
//! that made the queue, and those of the first growth of the windows, which ends in an overflow, to
//! nobody. A queue of a millisecond may be a busy host's lateness instead: where losses go on and
//! no longer queue is ever seen, BBR is tried for some windows, and the first control comes back
//! where it brings nothing.

use super::losses::JudgedSample;
use super::path_sample::PathSample;
use super::probe::{Measured, Probe};
use crate::congestion::{Algorithm, ControlName};
use crate::plan::{ChannelLimits, Reason};
use crate::units::{Bytes, Rate, Span};
use std::collections::VecDeque;

const MOST_STREAMS: usize = ChannelLimits::TRANSFER as usize;

/// The least window over which a rate is believed; longer paths need [`WINDOW_TRIPS`] round trips.
const WINDOW: Span = Span::from_millis(1_000);
const WINDOW_TRIPS: f64 = 8.0;

/// Growth from one window to the next below this means that the ramp-up is over.
const STEADY: f64 = 1.05;

/// Windows after a change in which growth is waited out: a loss-limited control may grow for ever.
const PATIENCE: u32 = 4;

/// What a doubling of the channels must bring to be kept up.
const WORTH: f64 = 1.10;

/// Windows with losses without a queue after which they count as the path's own.
const LOSSY_WINDOWS: u32 = 2;

/// Windows with losses next to what may be a queue or a busy host, after which BBR is tried; what
/// it must bring to stay, and over how many windows that is seen.
const DOUBTFUL_WINDOWS: usize = 6;
const TRIAL_WORTH: f64 = 1.15;
const TRIAL_WINDOWS: usize = 2;

/// What to change, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Nothing: what the first blocks showed.
    Measured {
        /// What.
        why: Reason,
    },
    /// Open this many more channels.
    AddChannels {
        /// How many.
        count: usize,
        /// Why.
        why: Reason,
    },
    /// Give all channels this congestion control.
    Congestion {
        /// Its name.
        name: ControlName,
        /// Why.
        why: Reason,
    },
    /// Give all channels the congestion control back that they had before.
    Restore {
        /// What the other one brought.
        found: Rate,
        /// What it had been before.
        before: Rate,
    },
}

/// What the tuner may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuningLimits {
    /// The largest window that the sending host lets one channel grow to.
    pub window_limit: Bytes,
    /// The number of channels: false when the user fixed it or the peer takes no more.
    pub channels: bool,
    /// To BBR: false when the user fixed a control, this host has no BBR, or BBR is in use.
    pub bbr: bool,
}

/// Watches a transfer and says what to change.
#[derive(Debug)]
pub struct ChannelAutotuner {
    tuning_limits: TuningLimits,
    /// Until the first blocks have told the rate.
    probe: Option<Probe>,
    opened: Option<Opened>,
    /// The rate of the last whole window.
    last: Rate,
    /// Windows since the last change.
    since_change: u32,
    /// The steady rate before the last doubling.
    before: Option<Rate>,
    lossy: u32,
    /// Rates of windows with losses of which it is not certain that a queue overflowed.
    doubtful: Vec<f64>,
    trial: Option<BbrTrial>,
    advice: VecDeque<Advice>,
}

/// BBR in the place of a control that may have been the right one.
#[derive(Debug)]
struct BbrTrial {
    before: f64,
    rates: Vec<f64>,
}

/// A window that is being filled.
#[derive(Clone, Copy, Debug)]
struct Opened {
    first: PathSample,
    samples: u32,
    bound: u32,
    stray: u64,
    overflowed: u64,
    /// Whether there was a queue for certain.
    queued: bool,
}

impl Opened {
    fn at(judged: &JudgedSample) -> Opened {
        let (first, queued) = (judged.sample, judged.has_long_queue);
        Opened { first, samples: 0, bound: 0, stray: 0, overflowed: 0, queued }
    }
}

impl ChannelAutotuner {
    /// Nothing seen yet.
    pub fn new(tuning_limits: TuningLimits) -> ChannelAutotuner {
        ChannelAutotuner {
            tuning_limits,
            probe: Some(Probe::default()),
            opened: None,
            last: Rate::from_bps(0),
            since_change: 0,
            before: None,
            lossy: 0,
            doubtful: Vec::new(),
            trial: None,
            advice: VecDeque::new(),
        }
    }

    /// Takes in a sample; several a second.
    pub fn handle(&mut self, judged: &JudgedSample) {
        let JudgedSample { sample, lost, has_long_queue, .. } = *judged;
        let Some(mut window) = self.opened else {
            self.opened = Some(Opened::at(judged));
            return;
        };
        window.samples += 1;
        window.bound += u32::from(sample.network_bound);
        window.stray += lost.stray;
        window.overflowed += lost.overflowed;
        window.queued |= has_long_queue;
        if let Some(probe) = &mut self.probe {
            self.opened = Some(window);
            if let Some(measured) = probe.handle(&sample) {
                self.probe = None;
                self.opened = Some(Opened::at(judged));
                self.choose(&measured, &sample, window.bound * 2 > window.samples);
            }
            return;
        }
        let length = WINDOW.max(sample.min_rtt.mul_f64(WINDOW_TRIPS));
        if sample.at.since(window.first.at) < length {
            self.opened = Some(window);
            return;
        }
        self.opened = Some(Opened::at(judged));
        self.judge(&window, &sample);
    }

    /// What to change next; `None` until something is seen.
    pub fn poll(&mut self) -> Option<Advice> {
        self.advice.pop_front()
    }

    /// The first choice from the rate as well as the round trip.
    fn choose(&mut self, measured: &Measured, end: &PathSample, bound: bool) {
        let Measured { rate, took } = *measured;
        self.last = rate;
        let channels = end.channels.max(1);
        let held = Bytes(rate.bytes_in(end.rtt).0 / channels as u64);
        let why = Reason::FirstBlocks { rate, channels, took, held };
        self.advice.push_back(Advice::Measured { why });
        let room = channels.min(MOST_STREAMS.saturating_sub(channels));
        if bound
            && self.tuning_limits.channels
            && room > 0
            && held.0 * 2 >= self.tuning_limits.window_limit.0
        {
            self.before = Some(rate);
            self.since_change = 0;
            let window = self.tuning_limits.window_limit;
            let why = Reason::WindowsFull { channels: channels + room, held, window };
            self.advice.push_back(Advice::AddChannels { count: room, why });
        }
    }

    fn judge(&mut self, window: &Opened, end: &PathSample) {
        let bytes = Bytes(end.delivered.0.saturating_sub(window.first.delivered.0));
        let rate = Rate::of(bytes, end.at.since(window.first.at));
        let bound = window.bound * 2 > window.samples;
        let grew = rate.as_bps() as f64 > self.last.as_bps() as f64 * STEADY;
        self.last = rate;
        self.since_change += 1;
        self.lossy += u32::from(bound && window.stray > window.overflowed);
        self.doubt(window, rate, bound);
        if self.trial.is_some() {
            return self.try_on(rate);
        }
        if self.before.is_some() && self.since_change == 1 {
            // What was opened may have begun in the middle of this window.
            return;
        }
        if !bound {
            // What was learnt of the network is stale when something else limited meanwhile.
            self.before = None;
            return;
        }
        if self.tuning_limits.bbr && self.lossy >= LOSSY_WINDOWS {
            let why = Reason::LossWithoutQueue { rtt: end.rtt, min_rtt: end.min_rtt };
            return self.take_bbr(why);
        }
        if self.tuning_limits.bbr && self.doubtful.len() >= DOUBTFUL_WINDOWS {
            let before = mean(&self.doubtful);
            self.trial = Some(BbrTrial { before, rates: Vec::new() });
            return self.take_bbr(Reason::DoubtfulLoss);
        }
        if grew && self.since_change < PATIENCE || !self.tuning_limits.channels || end.channels == 0
        {
            return;
        }
        if let Some(before) = self.before
            && (rate.as_bps() as f64) < before.as_bps() as f64 * WORTH
        {
            self.tuning_limits.channels = false;
            return;
        }
        let count = end.channels.min(MOST_STREAMS.saturating_sub(end.channels));
        if count == 0 {
            self.tuning_limits.channels = false;
            return;
        }
        self.before = Some(rate);
        self.since_change = 0;
        let (channels, before) = (end.channels + count, end.channels);
        let why = Reason::NetworkLimits { channels, before, rate };
        self.advice.push_back(Advice::AddChannels { count, why });
    }

    /// Once: what BBR brings is not asked again.
    fn take_bbr(&mut self, why: Reason) {
        self.tuning_limits.bbr = false;
        self.since_change = 0;
        self.advice.push_back(Advice::Congestion { name: Algorithm::Bbr.into(), why });
    }

    /// Collects the windows that speak for a trial; a queue for certain ends all doubt.
    fn doubt(&mut self, window: &Opened, rate: Rate, bound: bool) {
        if !self.tuning_limits.bbr {
            // Nothing could follow, and a copy may take days.
            return;
        }
        if window.queued {
            self.doubtful.clear();
        } else if bound && window.overflowed > 0 {
            self.doubtful.push(rate.as_bps() as f64);
        }
    }

    /// A window with BBR on trial, whose first is of both controls.
    fn try_on(&mut self, rate: Rate) {
        let Some(mut trial) = self.trial.take_if(|_| self.since_change > 1) else { return };
        trial.rates.push(rate.as_bps() as f64);
        if trial.rates.len() < TRIAL_WINDOWS {
            self.trial = Some(trial);
        } else if mean(&trial.rates) < trial.before * TRIAL_WORTH {
            let found = Rate::from_bps(mean(&trial.rates) as u64);
            let before = Rate::from_bps(trial.before as u64);
            self.advice.push_back(Advice::Restore { found, before });
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::losses::LossJudge;
    use super::*;
    use crate::units::Rng;
    use crate::units::Time;

    /// A path on which `n` channels of a loss-limited control share a capacity, and BBR fills it.
    struct Path {
        capacity: f64,
        rtt: f64,
        loss: f64,
        /// What one channel's window allows.
        window: f64,
        /// Whether a full path shows a queue.
        queue: bool,
        /// What a busy host adds to every round trip.
        late: Span,
    }

    impl Path {
        fn rate(&self, channels: usize, bbr: bool) -> f64 {
            // Mathis et al.: 1.22 segments of 1,448 bytes.
            let by_loss = if self.loss > 0.0 && !bbr {
                1.22 * 11_584.0 / (self.rtt * self.loss.sqrt())
            } else {
                f64::MAX
            };
            (by_loss.min(self.window / self.rtt) * channels as f64).min(self.capacity)
        }
    }

    struct Run {
        channels: usize,
        bbr: bool,
        rate: f64,
        changes: Vec<Advice>,
    }

    fn run(path: &Path, tuning_limits: TuningLimits, network_bound: bool, seed: u64) -> Run {
        let (mut judge, mut tuner) = (LossJudge::default(), ChannelAutotuner::new(tuning_limits));
        let mut noise = Rng::new(seed);
        let (mut channels, mut bbr, mut rate, mut acked, mut lost) = (2, false, 0.0, 0.0, 0.0);
        let mut changes = Vec::new();
        for step in 0..600u64 {
            // A tenth of a second; the rate approaches what the path allows within a second or so.
            let target = path.rate(channels, bbr) * (0.98 + 0.04 * noise.unit());
            rate += (target - rate) * 0.3;
            acked += rate / 8.0 * 0.1;
            lost += rate / 11_584.0 * 0.1 * path.loss;
            let full = path.queue && rate > path.capacity * 0.9;
            let min_rtt = Span::from_secs_f64(path.rtt);
            tuner.handle(&judge.handle(PathSample {
                at: Time::ZERO + Span::from_millis(step * 100),
                channels,
                delivered: Bytes(acked as u64),
                retransmits: lost as u64,
                rtt: path.late + if full { min_rtt.mul_f64(1.5) } else { min_rtt },
                min_rtt,
                network_bound,
                rwnd_limited: Span::ZERO,
                filled: 0,
                starved: 0,
                sndbuf_limited: Span::ZERO,
                silence: Span::ZERO,
                is_model_based: bbr,
            }));
            while let Some(advice) = tuner.poll() {
                match &advice {
                    Advice::Measured { .. } => {}
                    Advice::AddChannels { count, .. } => channels += count,
                    Advice::Congestion { .. } => bbr = true,
                    Advice::Restore { .. } => bbr = false,
                }
                changes.push(advice);
            }
        }
        Run { channels, bbr, rate, changes }
    }

    /// It holds more than the windows of a few channels.
    const WINDOW_LIMITED: Path = Path {
        capacity: 9e9,
        rtt: 0.163,
        loss: 0.0,
        window: 8e6 * 8.0 * 4.0,
        queue: true,
        late: Span::ZERO,
    };

    const FREE: TuningLimits =
        TuningLimits { window_limit: Bytes::mib(32), channels: true, bbr: true };

    /// What was changed, without what was only said.
    fn changed(run: &Run) -> usize {
        run.changes.iter().filter(|advice| !matches!(advice, Advice::Measured { .. })).count()
    }

    #[test]
    fn a_window_limited_path_gets_channels_until_they_bring_nothing() {
        for seed in 0..200 {
            let run = run(&WINDOW_LIMITED, FREE, true, seed);
            assert!(
                run.channels >= 8 && run.rate > 0.85 * WINDOW_LIMITED.capacity,
                "seed {seed}: {} at {:.2e}",
                run.channels,
                run.rate
            );
            assert!(!run.bbr, "seed {seed}: nothing was lost");
        }
    }

    #[test]
    fn a_full_path_gets_one_doubling_and_no_more() {
        for seed in 0..200 {
            let path = Path {
                capacity: 1e9,
                rtt: 0.03,
                loss: 0.0,
                window: 1e12,
                queue: true,
                late: Span::ZERO,
            };
            let run = run(&path, FREE, true, seed);
            assert_eq!((run.channels, changed(&run)), (4, 1), "seed {seed}: {:?}", run.changes);
        }
    }

    #[test]
    fn losses_lead_to_bbr_only_where_there_is_no_queue() {
        for seed in 0..200 {
            let lossy = Path {
                capacity: 5e9,
                rtt: 0.08,
                loss: 1e-4,
                window: 1e12,
                queue: false,
                late: Span::ZERO,
            };
            let run_lossy = run(&lossy, FREE, true, seed);
            assert!(
                run_lossy.bbr && run_lossy.rate > 0.9 * lossy.capacity,
                "seed {seed}: {:.2e}",
                run_lossy.rate
            );
            // A queue that overflows now and then: the loss rate is small, the control fills the
            // path.
            let full = Path {
                capacity: 1e9,
                rtt: 0.08,
                loss: 1e-9,
                window: 1e12,
                queue: true,
                late: Span::ZERO,
            };
            assert!(!run(&full, FREE, true, seed).bbr, "seed {seed}");
        }
    }

    #[test]
    fn what_the_user_fixed_and_what_the_network_does_not_limit_stay() {
        let lossy = Path {
            capacity: 5e9,
            rtt: 0.08,
            loss: 1e-4,
            window: 1e7,
            queue: false,
            late: Span::ZERO,
        };
        let fixed = TuningLimits { channels: false, bbr: false, ..FREE };
        assert_eq!(changed(&run(&lossy, fixed, true, 1)), 0);
        assert_eq!(changed(&run(&lossy, FREE, false, 1)), 0);
    }

    #[test]
    fn the_probe_says_the_rate_and_full_windows_get_channels() {
        for seed in 0..200 {
            let run = run(&WINDOW_LIMITED, FREE, true, seed);
            let [Advice::Measured { why }, Advice::AddChannels { count: 2, .. }, ..] =
                &run.changes[..]
            else {
                panic!("seed {seed}: {:?}", run.changes)
            };
            assert!(matches!(why, Reason::FirstBlocks { channels: 2, .. }), "{why}");
        }
    }

    #[test]
    fn bbr_on_trial_stays_where_it_brings_something() {
        let alone = TuningLimits { channels: false, ..FREE };
        for seed in 0..200 {
            let late = Span::from_millis(2);
            let lossy =
                Path { capacity: 5e8, rtt: 0.02, loss: 1e-3, window: 1e12, queue: false, late };
            let tried = run(&lossy, alone, true, seed);
            assert!(
                tried.bbr && tried.rate > 0.9 * lossy.capacity,
                "seed {seed}: {:?}",
                tried.changes
            );
            let full = Path { rtt: 0.004, loss: 1e-4, ..lossy };
            let tried = run(&full, alone, true, seed);
            assert!(!tried.bbr, "seed {seed}: {:?}", tried.changes);
            assert!(
                matches!(
                    &tried.changes[..],
                    [.., Advice::Congestion { .. }, Advice::Restore { .. }]
                ),
                "seed {seed}: {:?}",
                tried.changes
            );
        }
    }
}
