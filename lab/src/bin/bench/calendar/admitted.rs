//! How much of a week's requests is admitted, by three ways to say yes.
//!
//! The workload is that of the comparison of OSCARS, SuPA and SiteRM that Farline began with: a
//! port of 100 Gbit/s, 150 requests for a week, on the hour, 20 seeds. Its rates (5 to 40 Gbit/s)
//! and lengths (2 to 12 hours) were found so that exact admission takes what it took there: 85.8 of
//! 150, 64.8 %. Another 20 seeds are another figure; so many more are drawn here that the interval
//! says which it is.

use crate::table::{heading, row};
use farline_core::calendar::{
    LinkId, LinkSpec, NetworkTimelines, SiteId, TimeWindow, Topology, TopologySpec, VolumeProblem,
    VolumeShape, search, volume,
};
use farline_core::units::{Rate, Rng, Span, Time};
use std::sync::Arc;

/// As many times the 20 as make the interval a tenth of a request or so.
const SEEDS: u64 = 1000;
const REQUESTS: u64 = 150;
const WEEK: u64 = 168;

/// How a request that does not fit is treated.
#[derive(Clone, Copy, PartialEq)]
enum BookingPolicy {
    /// It is refused.
    Exact,
    /// It takes the first slot within a day.
    FirstSlot,
    /// Or else the same volume at a lower rate, begun and ended within a day of what was asked.
    Alternatives,
}

fn hour(hours: u64) -> Time {
    Time::from_nanos(hours * 3_600_000_000_000)
}

fn port() -> NetworkTimelines {
    let spec = TopologySpec {
        name: "port".to_owned(),
        sites: vec!["a".to_owned(), "b".to_owned()],
        links: vec![LinkSpec {
            between: ["a".to_owned(), "b".to_owned()],
            rate: "100G".to_owned(),
            one_way_delay: "1ms".to_owned(),
            name: None,
        }],
        ..TopologySpec::default()
    };
    NetworkTimelines::new(Arc::new(Topology::new(&spec).expect("makes sense")))
}

/// How many are admitted, and how much of the port's week they use.
fn week(seed: u64, way: BookingPolicy) -> (u64, f64) {
    let mut rng = Rng::new(seed);
    let mut network = port();
    let ends = (SiteId(0), SiteId(1));
    let (mut admitted, mut used) = (0, 0.0);
    for _ in 0..REQUESTS {
        let (hours, gbit) = (2 + rng.below(11), 5 + rng.below(36));
        let start = rng.below(WEEK - hours + 1);
        let rate = Rate::from_bps(gbit * 1_000_000_000);
        let duration = hour(hours).since(Time::ZERO);
        let view = network.view(false);
        let slot = TimeWindow::lasting(hour(start), duration);
        let latest = (start + hours + if way == BookingPolicy::Exact { 0 } else { 24 }).min(WEEK);
        let search = TimeWindow { start: hour(start), end: hour(latest) };
        let found = search::first_slot(view, ends, rate, duration, search);
        let leg = match found {
            Some((start, _)) => Some((TimeWindow::lasting(start, duration), rate)),
            None if way == BookingPolicy::Alternatives => {
                let shape = VolumeShape { variable: false, several: false };
                let volume = rate.bytes_in(slot.duration());
                let problem = VolumeProblem { volume, search, limit: rate, shape };
                let legs = volume::earliest_finish(view, ends, &problem);
                legs.and_then(|legs| legs.first().map(|leg| (leg.window, leg.rate)))
            }
            None => None,
        };
        if let Some((window, rate)) = leg {
            network.book(&[LinkId(0)], window, rate);
            admitted += 1;
            used += rate.as_bps() as f64 * window.duration().as_secs_f64();
        }
    }
    (admitted, used / (100e9 * Span::from_secs(WEEK * 3600).as_secs_f64()))
}

pub(super) fn run() {
    heading(&format!("Admitted: 150 requests for a week of 100 Gbit/s, {SEEDS} seeds"));
    for (way, name, asked) in [
        (BookingPolicy::Exact, "exact: the slot or nothing", "85.8 there, by which it is drawn"),
        (BookingPolicy::FirstSlot, "or the first slot within 24 h", "at least 105.8"),
        (BookingPolicy::Alternatives, "or the same volume at a lower rate within 24 h", "more"),
    ] {
        let weeks: Vec<(u64, f64)> = (0..SEEDS).map(|seed| week(seed, way)).collect();
        let count = SEEDS as f64;
        let admitted = weeks.iter().map(|week| week.0 as f64).sum::<f64>() / count;
        let squares = weeks.iter().map(|week| (week.0 as f64 - admitted).powi(2)).sum::<f64>();
        let deviation = (squares / (count - 1.0)).sqrt();
        let half = |seeds: f64| 1.96 * deviation / seeds.sqrt();
        let used = weeks.iter().map(|week| week.1).sum::<f64>() / count;
        let seen = format!(
            "{admitted:.1} +- {:.1} of 150 (20 seeds: +- {:.1}), {:.1} % used",
            half(count),
            half(20.0),
            100.0 * used
        );
        row(name, &seen, asked);
    }
}
