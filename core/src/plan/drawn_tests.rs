//! Plans for paths drawn at random, held against packets: how far off the time is, and how often it
//! lies in the interval.

use super::*;
use crate::congestion::sim::{FlowScenario, Simulation};
use crate::congestion::{Algorithm, Constants, Start};
use crate::units::{Bytes, Rate, Rng, Span, Time};
use crate::wan::{Direction, frames};

/// A path, and what goes over it.
#[derive(Debug)]
struct Drawn {
    rate: Rate,
    rtt: Span,
    loss: f64,
    queue: Bytes,
    size: Bytes,
}

const MTU: u32 = 9_000;
const PATHS: usize = 100;
/// Faster paths have too many packets for a test.
const RATES: (f64, f64) = (50e6, 4e8);

impl Drawn {
    fn next(rng: &mut Rng) -> Drawn {
        let mut between = |low: f64, high: f64| low * (high / low).powf(rng.unit());
        let rate = Rate::from_bps(between(RATES.0, RATES.1) as u64);
        let rtt = Span::from_secs_f64(between(1e-3, 0.2));
        let (loss, is_clean) = (between(1e-7, 1e-3), between(1.0, 2.0) < 2.0_f64.powf(0.25));
        let queue = Bytes((rate.bytes_in(rtt).0 as f64 * between(0.1, 4.0)) as u64);
        let size = Bytes((rate.as_bps() as f64 / 8.0 * between(2.0, 8.0)) as u64);
        let loss = if is_clean { 0.0 } else { loss };
        Drawn { rate, rtt, loss, queue: queue.max(Bytes(3 * 9_038)), size }
    }

    fn input(&self) -> PlanInput {
        PlanInput {
            path: PathPoint::custom(self.rate, self.rtt),
            is_queue_known: false,
            loss: self.loss,
            window: None,
            host: None,
            mtu: MTU,
            available: vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr],
            source: PlanSource::Model,
        }
    }

    /// How long it takes, packet by packet.
    fn takes(&self, plan: &Plan, seed: u64) -> f64 {
        let one_way = Span::from_nanos(self.rtt.as_nanos() / 2);
        let mut direction = Direction::new(self.rate, one_way, self.rtt);
        (direction.queue, direction.loss) = (self.queue, self.loss);
        let start = Start { packet: Bytes(frames::wire_bytes(u64::from(MTU))), ..Start::default() };
        let mut simulation = Simulation::new(&FlowScenario {
            direction,
            changes: Vec::new(),
            flows: vec![(plan.congestion, Constants::Linux, start); plan.streams as usize],
            sample_every: Span::from_secs(1_000),
            train: 1,
            seed,
        });
        let packets = self.size.0.div_ceil(u64::from(MTU) - 52);
        let streams = plan.streams as usize;
        simulation.run(Span::from_secs(1_000), |simulation| {
            (0..streams).map(|i| simulation.delivered(i)).sum::<u64>() >= packets
        });
        let set_up = self.rtt.as_secs_f64() * super::advisor::SET_UP_TRIPS;
        set_up + simulation.now().since(Time::ZERO).as_secs_f64()
    }
}

/// In virtual time; `cargo xtask bench plan drawn` does the same over the emulated link.
#[test]
fn plans_hold_over_paths_drawn_at_random() {
    let mut rng = Rng::new(1);
    let (mut errors, mut held) = (Vec::new(), 0);
    for index in 0..PATHS {
        let drawn = Drawn::next(&mut rng);
        let plan = plan(&drawn.input(), drawn.size).expect("a plan");
        let took = drawn.takes(&plan, index as u64);
        let (low, high) = plan.interval_s;
        let holds = (low..=high).contains(&took);
        held += usize::from(holds);
        errors.push((plan.seconds / took - 1.0).abs());
        println!(
            "path {index}: {} x {}, loss {:.0e}, queue {}, {}: {} x {} {:.2} s ({low:.2} to \
             {high:.2}), took {took:.2}{}",
            drawn.rate,
            drawn.rtt,
            drawn.loss,
            drawn.queue,
            drawn.size,
            plan.streams,
            plan.congestion,
            plan.seconds,
            if holds { "" } else { ": NOT HELD" }
        );
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[PATHS / 2];
    println!("off by {:.1} % in the median, {held} of {PATHS} held", median * 100.0);
    assert!(median <= 0.1 && held * 10 >= PATHS * 9, "{median} in the median, {held} held");
}
