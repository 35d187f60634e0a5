//! The channel autotuner over simulated paths: how long a copy takes as it began, and as the tuner
//! changes it.

use farline_core::congestion::sim::{FlowScenario, Simulation};
use farline_core::congestion::{Algorithm, Constants, Start};
use farline_core::plan::Reason;
use farline_core::transfer::{Advice, ChannelAutotuner, LossJudge, PathSample, TuningLimits};
use farline_core::units::{Bytes, Rate, Span, Time};
use farline_core::wan::Direction;

/// How often a sender looks at its channels.
const LOOK_EVERY: Span = Span::from_millis(100);
/// Payload of a packet.
const SEGMENT: u64 = 1448;
/// After this a copy is given up.
const LONGEST: Span = Span::from_secs(600);

/// A copy over a path.
#[derive(Clone, Copy, Debug)]
pub struct TunedCopy {
    /// Of the path.
    pub rate: Rate,
    /// Of the path.
    pub rtt: Span,
    /// Of the path, in bandwidth-delay products.
    pub queue: f64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// What is copied.
    pub size: Bytes,
    /// Channels to begin with.
    pub channels: usize,
    /// Of all random choices.
    pub seed: u64,
}

/// What became of a copy.
#[derive(Clone, Debug)]
pub struct Finished {
    /// From the first packet to the last.
    pub took: Span,
    /// Segments sent again.
    pub lost: u64,
    /// What was changed, and when.
    pub changes: Vec<(Span, Reason)>,
}

/// Runs the copy with CUBIC, and with the tuner if it is `tuned`.
///
/// # Panics
/// When it does not end within ten minutes.
pub fn copy(copy: &TunedCopy, tuned: bool) -> Finished {
    let one_way = copy.rtt.mul_f64(0.5);
    let bdp = copy.rate.bytes_in(copy.rtt);
    let mut direction = Direction::new(copy.rate, one_way, copy.rtt);
    direction.loss = copy.loss;
    direction.queue = Bytes(((bdp.0 as f64 * copy.queue) as u64).max(3 * 1538));
    let flow = (Algorithm::Cubic, Constants::Linux, Start::default());
    let mut simulation = Simulation::new(&FlowScenario {
        direction,
        changes: Vec::new(),
        flows: vec![flow; copy.channels],
        sample_every: Span::from_millis(10),
        train: 1,
        seed: copy.seed,
    });
    let mut judge = LossJudge::default();
    let mut tuner = ChannelAutotuner::new(TuningLimits {
        window_limit: Bytes::mib(64),
        channels: tuned,
        bbr: tuned,
    });
    let (mut channels, mut algorithm, mut changes) = (copy.channels, Algorithm::Cubic, Vec::new());
    let delivered =
        |simulation: &Simulation, n: usize| (0..n).map(|i| simulation.delivered(i)).sum::<u64>();
    let packets = copy.size.0.div_ceil(SEGMENT);
    let (mut until, mut min_rtt) = (LOOK_EVERY, Span::from_secs(10));
    loop {
        simulation.run(until, |simulation| delivered(simulation, channels) >= packets);
        let now = simulation.now().since(Time::ZERO);
        let lost = (0..channels).map(|i| simulation.lost(i)).sum();
        let arrived = delivered(&simulation, channels);
        if arrived >= packets {
            return Finished { took: now, lost, changes };
        }
        assert!(now < LONGEST, "{copy:?} does not end");
        until = until + LOOK_EVERY;
        let rtts: Vec<Span> = (0..channels)
            .filter_map(|i| simulation.trace(i).last().map(|point| point.rtt))
            .filter(|&rtt| rtt > Span::ZERO)
            .collect();
        let Some(&least) = rtts.iter().min() else { continue };
        min_rtt = min_rtt.min(least);
        tuner.handle(&judge.handle(PathSample {
            at: simulation.now(),
            channels,
            delivered: Bytes(arrived * SEGMENT),
            retransmits: lost,
            rtt: least,
            min_rtt,
            rwnd_limited: Span::ZERO,
            filled: 0,
            starved: 0,
            sndbuf_limited: Span::ZERO,
            silence: Span::ZERO,
            network_bound: true,
            is_model_based: algorithm == Algorithm::Bbr,
        }));
        while let Some(advice) = tuner.poll() {
            let why = match advice {
                Advice::AddChannels { count, why } => {
                    for _ in 0..count {
                        simulation.add(algorithm, Constants::Linux, Start::default());
                    }
                    channels += count;
                    why
                }
                Advice::Congestion { name, why } => {
                    algorithm = name.algorithm().expect("a control that is simulated");
                    (0..channels).for_each(|i| simulation.replace(i, algorithm, Constants::Linux));
                    why
                }
                Advice::Restore { found, before } => {
                    algorithm = Algorithm::Cubic;
                    (0..channels).for_each(|i| simulation.replace(i, algorithm, Constants::Linux));
                    Reason::Restored { control: algorithm.into(), found, before }
                }
                Advice::Measured { why } => why,
            };
            changes.push((now, why));
        }
    }
}
