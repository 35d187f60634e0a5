//! A repetition over UDT in virtual time, packet by packet: its machine over the emulator's link.

use super::document::Job;
use super::grid::Grid;
use super::observe::Observed;
use super::repetition::{LimitedBy, Lost};
use crate::congestion::Algorithm;
use crate::udt::RateAlgorithm;
use crate::udt::sim::{UdtFlow, UdtScenario, UdtSimulation};
use crate::units::{Bytes, Rate, Span};
use crate::wan::{Change, EventSide};

/// The longest packet that an end offers, as the channel driver does.
const LONGEST_PACKET: u32 = 9_000;
/// What a node's end holds for a reader.
const ROOM: Bytes = Bytes::mib(128);
/// More than any flow sends.
const ENDLESS: Bytes = Bytes(1 << 50);
/// A sender that sends this part of what its host does is held back by its host.
const NEARLY: f64 = 0.97;

/// One way of `job`'s cell, whose streams are flows of UDT.
///
/// Memory is never short of bytes here, whatever the pool: a store that stalls is no part of it
/// ([`Profile::new`](super::Profile::new) refuses that).
pub(super) fn one_way(grid: &Grid, job: &Job, seed: u64) -> Observed {
    let cell = &job.cell;
    let streams = cell.streams as usize;
    let packet_len = cell.mtu.min(LONGEST_PACKET);
    let room = cell.window_bytes.unwrap_or(ROOM).0 / u64::from(packet_len);
    let share = grid.host_bps.map(|host| Rate::from_bps(host.as_bps() / u64::from(cell.streams)));
    let rate = match cell.congestion {
        Algorithm::Bbr => RateAlgorithm::Bbr,
        _ => RateAlgorithm::Native,
    };
    let flow = UdtFlow {
        room: u32::try_from(room).unwrap_or(u32::MAX),
        writes: share,
        ..UdtFlow::of(rate, ENDLESS)
    };
    let mut scenario = UdtScenario::new(cell.path.rate_bps, cell.path.rtt_ns, vec![flow; streams]);
    (scenario.packet_len, scenario.seed) = (packet_len, seed);
    let there = &mut scenario.directions.0;
    (there.queue, there.loss) = (cell.path.queue_bytes, cell.loss);
    if cell.cross_bps.as_bps() > 0 {
        scenario.changes.push((Span::ZERO, EventSide::AToB, Change::Cross(cell.cross_bps, None)));
    }
    if let Some(disturbance) = grid.disturbance {
        scenario.changes.push((disturbance.at_ns, EventSide::AToB, disturbance.change));
    }
    let mut simulation = UdtSimulation::new(&scenario);
    let each = |simulation: &UdtSimulation| -> Vec<u64> {
        (0..streams).map(|flow| simulation.received(flow).0).collect()
    };
    let repeats = |simulation: &UdtSimulation| -> u64 {
        (0..streams).map(|flow| simulation.repeats(flow).0).sum()
    };
    let (mut samples, mut losses) = (Vec::new(), Vec::new());
    let (mut bytes, mut again) = (0, 0);
    for sample in 1..=grid.samples() {
        let at_s = sample as f64 * grid.sample_s;
        simulation.run(Span::from_secs_f64(at_s));
        let (now, repeated) = (each(&simulation).iter().sum::<u64>(), repeats(&simulation));
        samples.push((now - bytes) as f64 * 8.0 / grid.sample_s);
        if repeated > again {
            losses.push(Lost { at_s, packets: repeated - again });
        }
        (bytes, again) = (now, repeated);
    }
    let seconds = grid.samples() as f64 * grid.sample_s;
    let sender_bps = bytes as f64 * 8.0 / seconds;
    let last = samples.last().copied().unwrap_or_default();
    let is_host = grid.host_bps.is_some_and(|host| last >= NEARLY * host.as_bps() as f64);
    Observed {
        sender_bps,
        sender_samples: samples.clone(),
        samples,
        streams: each(&simulation).iter().map(|&bytes| bytes as f64 * 8.0 / seconds).collect(),
        retransmits: again,
        reductions: None,
        timeouts: None,
        limited_by: if is_host { LimitedBy::Host } else { LimitedBy::Congestion },
        losses,
    }
}

#[cfg(test)]
mod tests {
    use crate::congestion::Algorithm;
    use crate::profile::{Copies, Grid, LimitedBy, PathPoint, Profile, ProfileDriver};
    use crate::units::{Rate, Span};

    fn modelled(host: Option<Rate>, loss: f64) -> (f64, LimitedBy, f64) {
        let path = PathPoint::custom(Rate::from_bps(200_000_000), Span::from_millis(20));
        let copies =
            Copies { drivers: vec![ProfileDriver::Tcp, ProfileDriver::Udt], ..Copies::usual() };
        let grid = Grid {
            copies: Some(copies),
            host_bps: host,
            losses: vec![loss],
            ..Grid::new("custom", vec![path], vec![Algorithm::Reno])
        };
        let profile = Profile::modelled(grid);
        let steady = |place: usize| {
            profile.cells[place].repetitions[0].steady.receiver_bps.as_bps() as f64 / 1e6
        };
        assert_eq!(profile.cells[1].cell.staged.map(|one| one.driver), Some(ProfileDriver::Udt));
        (steady(1), profile.cells[1].repetitions[0].limited_by, steady(0))
    }

    #[test]
    fn udt_fills_a_clean_path_and_a_lossy_one_sooner_than_reno() {
        let (clean, by, reno) = modelled(None, 0.0);
        assert!((170.0..200.0).contains(&clean) && by == LimitedBy::Congestion, "{clean} {by:?}");
        assert!(reno > 150.0, "{reno}");
        let (udt, _, reno) = modelled(None, 1e-3);
        assert!(udt > 1.3 * reno, "{udt} next to {reno} Mbit/s");
    }

    #[test]
    fn a_slow_host_holds_udt_back() {
        let (rate, by, _) = modelled(Some(Rate::from_bps(50_000_000)), 0.0);
        assert!((47.0..=50.5).contains(&rate) && by == LimitedBy::Host, "{rate} {by:?}");
    }
}
