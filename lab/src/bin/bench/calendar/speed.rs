//! How long the searches take, and how that grows with what is booked.

use crate::table::{heading, row};
use anyhow::Result;
use farline_core::calendar::{
    CircuitRoute, LinkId, LinkSpec, NetworkTimelines, NetworkView, SiteId, TimeWindow, Topology,
    TopologySpec, VolumeProblem, VolumeShape, routes, search, volume,
};
use farline_core::units::{Bytes, Rate, Rng, Span, Time};
use std::sync::Arc;
use std::time::Instant;

const SITES: u64 = 100;
const LINKS: u64 = 400;
/// Searches of each kind, where so many reservations stand.
fn searches(reservations: usize) -> usize {
    (10_000_000 / reservations).clamp(30, 1_000)
}

/// Four weeks, in which all is booked.
const MONTH: u64 = 28 * 86_400;

fn second(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

/// 100 sites and 400 links: a ring, so that all is joined, and random chords.
fn drawn(rng: &mut Rng) -> NetworkTimelines {
    let mut spec = TopologySpec { name: "drawn".to_owned(), ..TopologySpec::default() };
    spec.sites = (0..SITES).map(|site| format!("s{site}")).collect();
    for link in 0..LINKS {
        let a = if link < SITES { link } else { rng.below(SITES) };
        let b = if link < SITES { (a + 1) % SITES } else { (a + 1 + rng.below(SITES - 1)) % SITES };
        spec.links.push(LinkSpec {
            between: [format!("s{a}"), format!("s{b}")],
            rate: "100G".to_owned(),
            one_way_delay: format!("{}ms", 1 + rng.below(20)),
            name: Some(format!("l{link}")),
        });
    }
    NetworkTimelines::new(Arc::new(Topology::new(&spec).expect("makes sense")))
}

fn ends(rng: &mut Rng) -> (SiteId, SiteId) {
    let from = rng.below(SITES);
    let to = (from + 1 + rng.below(SITES - 1)) % SITES;
    (SiteId(from as u32), SiteId(to as u32))
}

/// The route of least delay that has `rate` free in `window`. A look at a list of many reservations
/// costs more than a search: what is on the route of least delay alone is looked at, and what of it
/// is full is left out of the next.
fn free_route(
    view: NetworkView<'_>,
    ends: (SiteId, SiteId),
    window: TimeWindow,
    rate: Rate,
) -> Option<CircuitRoute> {
    let mut full = vec![false; view.topology().link_count()];
    loop {
        let open = |link: LinkId| !full[link.0 as usize];
        let route = routes::shortest(view.topology(), ends.0, ends.1, open)?;
        let mut is_free = true;
        for link in route.iter().filter(|link| !view.has_free(**link, window, rate)) {
            full[link.0 as usize] = true;
            is_free = false;
        }
        if is_free {
            return Some(route);
        }
    }
}

/// Books until `count` reservations stand; each is shorter and slower the more there are, so that
/// the network stays about as full.
fn fill(network: &mut NetworkTimelines, rng: &mut Rng, from: usize, count: usize) {
    let share = (count as f64 / 10_000.0).max(1.0).sqrt();
    for _ in from..count {
        let ends = ends(rng);
        let rate = Rate::from_bps((1_000_000 + rng.below((20e9 / share) as u64)).max(1_000_000));
        let start = rng.below(MONTH);
        let length = (600.0 + rng.below(36_000) as f64 / share) as u64;
        let window = TimeWindow { start: second(start), end: second(start + length) };
        // Every one is booked both ways, so that the lists of both directions are the same.
        if let Some(route) = free_route(network.view(false), ends, window, rate) {
            let taken = network.view(true).taken(&route);
            network.book(&taken, window, rate);
        }
    }
}

/// What a search took, in milliseconds: median and 99th percentile of all runs.
struct Took {
    median: f64,
    p99: f64,
    /// The 99th percentile of this thread's processor time: what is left when others use the
    /// machine.
    own_p99: f64,
}

fn timed(searches: usize, mut search: impl FnMut(&mut Rng)) -> Took {
    let mut rng = Rng::new(99);
    let own = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    };
    let (mut millis, mut owns): (Vec<f64>, Vec<f64>) = (0..searches)
        .map(|_| {
            let (begun, before) = (Instant::now(), own());
            search(&mut rng);
            (begun.elapsed().as_secs_f64() * 1e3, own() - before)
        })
        .unzip();
    millis.sort_by(f64::total_cmp);
    owns.sort_by(f64::total_cmp);
    let p99 = searches * 99 / 100;
    Took { median: millis[searches / 2], p99: millis[p99], own_p99: owns[p99] }
}

pub(super) fn run(most: usize) -> Result<()> {
    let mut rng = Rng::new(1);
    let mut network = drawn(&mut rng);
    let mut filled = 0;
    for count in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|count| *count <= most) {
        let begun = Instant::now();
        fill(&mut network, &mut rng, filled, count);
        filled = count;
        let breakpoints: usize =
            network.topology.links().map(|(id, _)| network.timeline(id).breakpoints()).sum();
        heading(&format!(
            "Speed: {SITES} sites, {LINKS} links both ways, {count} reservations asked for, {} breakpoints a list",
            breakpoints / network.topology.link_count()
        ));
        row("they were booked in", &format!("{:.1} s", begun.elapsed().as_secs_f64()), "");
        let searches = searches(count);
        let view = network.view(true);
        let month = TimeWindow { start: second(0), end: second(MONTH) };
        let drawn = |rng: &mut Rng| {
            let rate = Rate::from_bps((5 + rng.below(90)) * 1_000_000_000);
            (ends(rng), rate, Span::from_secs(3_600 * (1 + rng.below(24))))
        };
        let asked = |text: &'static str| if count == 10_000 { text } else { "" };
        let told = |name: &str, took: Took, asked: &str| {
            let Took { median, p99, own_p99 } = took;
            let seen = format!("{median:.2} ms, p99 {p99:.2} ms ({own_p99:.2} of its own)");
            row(name, &seen, asked);
        };
        let fixed = timed(searches, |rng| {
            let (ends, rate, duration) = drawn(rng);
            let window = TimeWindow::lasting(second(rng.below(MONTH / 2)), duration);
            let _ = search::fixed_slot(view, ends, rate, window);
        });
        told("fixed slot", fixed, asked("p99 below 1 ms"));
        let highest = timed(searches, |rng| {
            let (ends, _, duration) = drawn(rng);
            let window = TimeWindow::lasting(second(rng.below(MONTH / 2)), duration);
            let _ = search::highest_rate(view, ends, window);
        });
        told("highest rate", highest, "");
        let first = timed(searches, |rng| {
            let (ends, rate, duration) = drawn(rng);
            let _ = search::first_slot(view, ends, rate, duration, month);
        });
        told("first slot", first, asked("p99 below 10 ms"));
        let all = timed(searches, |rng| {
            let (ends, rate, duration) = drawn(rng);
            let _ = search::all_slots(view, ends, rate, duration, month);
        });
        told("all slots, over four weeks", all, asked("p99 below 100 ms"));
        let moved = timed(searches, |rng| {
            let (ends, limit, _) = drawn(rng);
            let volume = Bytes((1 + rng.below(40)) * 1_000_000_000_000);
            let shape = VolumeShape { variable: false, several: false };
            let problem = VolumeProblem { volume, search: month, limit, shape };
            let _ = volume::earliest_finish(view, ends, &problem);
        });
        told("volume of 1 to 40 TB, one rate on one route", moved, "");
    }
    Ok(())
}
