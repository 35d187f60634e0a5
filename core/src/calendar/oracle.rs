//! The searches held against brute force: every simple route, every start, every end, one by one.

use super::*;
use crate::units::{Bytes, Rate, Rng, Span, Time};
use std::sync::Arc;

/// A byte in a nanosecond: rates are whole numbers of it, so that volumes come out without a rest.
const UNIT: u64 = 8_000_000_000;
/// Instants that are looked at.
const TICKS: u64 = 14;

pub(super) fn at(tick: u64) -> Time {
    Time::from_nanos(tick)
}

pub(super) fn window(start: u64, end: u64) -> TimeWindow {
    TimeWindow { start: at(start), end: at(end) }
}

fn rate(units: u64) -> Rate {
    Rate::from_bps(units * UNIT)
}

/// All slots by trying: between two starts at which some link opens or shuts nothing changes, so
/// one search for a route tells of each such piece.
fn all_slots_by_trying(
    view: NetworkView<'_>,
    (from, to): SitePair,
    rate: Rate,
    duration: Span,
    search: TimeWindow,
) -> TimeSet {
    let topology = view.topology();
    let starts: Vec<TimeSet> =
        topology.links().map(|(id, _)| view.starts(id, rate, duration, search)).collect();
    let mut edges: Vec<Time> =
        starts.iter().flat_map(TimeSet::windows).flat_map(|w| [w.start, w.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut slots = TimeSet::default();
    for pair in edges.windows(2) {
        let open = |link: LinkId| starts[link.0 as usize].contains(pair[0]);
        if routes::reachable(topology, from, open)[to.0 as usize] {
            slots.push(TimeWindow { start: pair[0], end: pair[1] });
        }
    }
    slots
}

/// A random network of 2 to 5 sites with random bookings and closures.
fn drawn(rng: &mut Rng) -> NetworkTimelines {
    let sites = 2 + rng.below(4);
    let mut spec = TopologySpec { name: "drawn".into(), ..TopologySpec::default() };
    spec.sites = (0..sites).map(|site| format!("s{site}")).collect();
    for link in 0..1 + rng.below(8) {
        let a = rng.below(sites);
        let b = (a + 1 + rng.below(sites - 1)) % sites;
        spec.links.push(LinkSpec {
            between: [format!("s{a}"), format!("s{b}")],
            rate: format!("{}G", 8 * (1 + rng.below(5))),
            one_way_delay: format!("{}ms", 1 + rng.below(9)),
            name: Some(format!("l{link}")),
        });
    }
    let topology = Topology::new(&spec).expect("makes sense");
    let mut network = NetworkTimelines::new(Arc::new(topology));
    for _ in 0..rng.below(16) {
        let link = LinkId(rng.below(network.topology.link_count() as u64) as u32);
        let start = rng.below(TICKS);
        let slot = window(start, start + 1 + rng.below(TICKS - start));
        let free = network.timeline(link).least_free(slot).as_bps() / UNIT;
        if rng.below(8) == 0 {
            network.close(link, slot);
        } else if free > 0 {
            network.book(&[link], slot, rate(1 + rng.below(free)));
        }
    }
    network
}

/// What is free on `route` in one instant.
fn free_at(view: NetworkView<'_>, route: &[LinkId], tick: u64) -> u64 {
    let links = view.taken(route);
    let free = |link: &LinkId| {
        let line = view.network.timeline(*link);
        line.intervals(at(tick)).next().map_or(0, |interval| interval.free.as_bps())
    };
    links.iter().map(free).min().unwrap_or(0) / UNIT
}

fn free_over(view: NetworkView<'_>, route: &[LinkId], start: u64, end: u64) -> u64 {
    (start..end).map(|tick| free_at(view, route, tick)).min().unwrap_or(0)
}

/// Every route without a site twice.
fn simple_routes(topology: &Topology, from: SiteId, to: SiteId) -> Vec<CircuitRoute> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(route) = open.pop() {
        let end = route.last().map_or(from, |id| topology.link(*id).to);
        if end == to {
            found.push(route);
            continue;
        }
        for &id in topology.leaving(end) {
            let next = topology.link(id).to;
            let passed = route.iter().any(|id: &LinkId| topology.link(*id).to == next);
            if next != from && !passed {
                open.push(route.iter().copied().chain([id]).collect());
            }
        }
    }
    found
}

/// A largest flow by brute force: the least cut over all sets of sites with `from` and without
/// `to`.
fn least_cut(view: NetworkView<'_>, from: SiteId, to: SiteId, start: u64, end: u64) -> u64 {
    let topology = view.topology();
    let sites = topology.sites().len();
    let mut least = u64::MAX;
    for set in 0_u32..1 << sites {
        let has = |site: SiteId| set >> site.0 & 1 == 1;
        if has(from) && !has(to) {
            let over = topology.links().filter(|(_, link)| has(link.from) && !has(link.to));
            least = least.min(over.map(|(id, _)| free_over(view, &[id], start, end)).sum());
        }
    }
    least
}

/// What `legs` take stays within what is free, and each leads from one end to the other.
pub(super) fn fits(view: NetworkView<'_>, ends: SitePair, legs: &[Leg]) -> bool {
    let mut network = view.network.clone();
    for leg in legs {
        let now = network.view(view.both_ways);
        let free = leg.route.iter().all(|id| now.least_free(*id, leg.window) >= leg.rate);
        if !free || !view.topology().is_route(&leg.route, ends.0, ends.1) || leg.window.is_empty() {
            return false;
        }
        let taken = now.taken(&leg.route);
        network.book(&taken, leg.window, leg.rate);
    }
    true
}

/// Runs `check` with random networks, ends and directions.
fn over_seeds(seeds: u64, check: impl Fn(u64, NetworkView<'_>, SitePair, &mut Rng)) {
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let network = drawn(&mut rng);
        let sites = network.topology.sites().len() as u64;
        let from = rng.below(sites);
        let to = (from + 1 + rng.below(sites - 1)) % sites;
        let view = network.view(rng.below(2) == 0);
        check(seed, view, (SiteId(from as u32), SiteId(to as u32)), &mut rng);
    }
}

#[test]
fn fixed_slots_and_highest_rates_are_exact() {
    over_seeds(3_000, |seed, view, ends, rng| {
        let routes = simple_routes(view.topology(), ends.0, ends.1);
        let start = rng.below(TICKS);
        let end = start + 1 + rng.below(TICKS - start);
        let best = routes.iter().map(|route| free_over(view, route, start, end)).max().unwrap_or(0);
        let found = search::highest_rate(view, ends, window(start, end));
        assert_eq!(found.map_or(0, |(found, _)| found.as_bps() / UNIT), best, "seed {seed}");
        let wanted = 1 + rng.below(6);
        let shortest = routes
            .iter()
            .filter(|route| free_over(view, route, start, end) >= wanted)
            .map(|route| view.topology().delay(route))
            .min();
        let found = search::fixed_slot(view, ends, rate(wanted), window(start, end));
        let delay = found.as_ref().map(|route| view.topology().delay(route));
        assert_eq!(delay, shortest, "seed {seed}");
        if let Some(route) = found {
            let leg = Leg { window: window(start, end), rate: rate(wanted), route };
            assert!(fits(view, ends, &[leg]), "seed {seed}");
        }
    });
}

#[test]
fn first_and_all_slots_are_exact_by_both_algorithms() {
    over_seeds(3_000, |seed, view, ends, rng| {
        let routes = simple_routes(view.topology(), ends.0, ends.1);
        let (wanted, duration) = (1 + rng.below(5), 1 + rng.below(5));
        let (start, end) = (rng.below(4), TICKS - rng.below(4));
        let span = Span::from_nanos(duration);
        let all = search::all_slots(view, ends, rate(wanted), span, window(start, end));
        let tried = all_slots_by_trying(view, ends, rate(wanted), span, window(start, end));
        assert_eq!(all, tried, "seed {seed}: two algorithms");
        let mut first = None;
        for tick in 0..=TICKS {
            let open = tick >= start
                && tick + duration <= end
                && routes
                    .iter()
                    .any(|route| free_over(view, route, tick, tick + duration) >= wanted);
            assert_eq!(all.contains(at(tick)), open, "seed {seed} at {tick}");
            first = first.or(open.then_some(at(tick)));
        }
        let found = search::first_slot(view, ends, rate(wanted), span, window(start, end));
        assert_eq!(found.as_ref().map(|(time, _)| *time), first, "seed {seed}");
        if let Some((time, route)) = found {
            let leg = Leg { window: TimeWindow::lasting(time, span), rate: rate(wanted), route };
            assert!(fits(view, ends, &[leg]), "seed {seed}");
        }
    });
}

#[test]
fn volumes_finish_as_early_as_can_be() {
    over_seeds(3_000, |seed, view, ends, rng| {
        let routes = simple_routes(view.topology(), ends.0, ends.1);
        let (volume, limit) = (1 + rng.below(30), 1 + rng.below(7));
        let (start, end) = (rng.below(4), TICKS - rng.below(4));
        for shape in [(false, false), (false, true), (true, false), (true, true)] {
            let shape = VolumeShape { variable: shape.0, several: shape.1 };
            let carries = |from, to| {
                let one = || routes.iter().map(|r| free_over(view, r, from, to)).max().unwrap_or(0);
                let several = shape.several && !routes.is_empty();
                limit.min(if several { least_cut(view, ends.0, ends.1, from, to) } else { one() })
            };
            // With whole bytes in each nanosecond, variable rates end in the first instant by which
            // the sum is enough.
            let best = if shape.variable {
                let mut sum = 0;
                (start..end).find_map(|tick| {
                    sum += carries(tick, tick + 1);
                    (sum >= volume).then_some(tick + 1)
                })
            } else {
                let windows = (start..end).flat_map(|s| (s + 1..=end).map(move |e| (s, e)));
                let enough = windows.filter(|(s, e)| carries(*s, *e) * (e - s) >= volume);
                enough.map(|(_, end)| end).min()
            };
            let problem = VolumeProblem {
                volume: Bytes(volume),
                search: window(start, end),
                limit: rate(limit),
                shape,
            };
            let found = volume::earliest_finish(view, ends, &problem);
            let finish =
                found.as_ref().and_then(|legs| legs.iter().map(|leg| leg.window.end).max());
            assert_eq!(finish, best.map(at), "seed {seed} {shape:?}");
            if let Some(legs) = found {
                let moved: u64 = legs.iter().map(|leg| leg.volume().0).sum();
                assert!(
                    moved >= volume && fits(view, ends, &legs),
                    "seed {seed} {shape:?} {legs:?}"
                );
                let together = |tick| {
                    let now = legs.iter().filter(|leg| leg.window.contains(at(tick)));
                    now.map(|leg| leg.rate.as_bps() / UNIT).sum::<u64>()
                };
                assert!((start..end).all(|tick| together(tick) <= limit), "seed {seed} {shape:?}");
            }
        }
    });
}

#[test]
fn two_routes_share_no_link_where_two_exist() {
    over_seeds(2_000, |seed, view, ends, _| {
        let topology = view.topology();
        let open = |id: LinkId| free_at(view, &[id], 0) > 0;
        let routes = simple_routes(topology, ends.0, ends.1);
        let routes: Vec<_> = routes.into_iter().filter(|r| r.iter().all(|id| open(*id))).collect();
        let fibre = |id: &LinkId| id.0 / 2;
        let mut best = None;
        for a in &routes {
            for b in &routes {
                if !a.iter().any(|id| b.iter().any(|other| fibre(id) == fibre(other))) {
                    let sum = topology.delay(a) + topology.delay(b);
                    best = Some(best.map_or(sum, |best: Span| best.min(sum)));
                }
            }
        }
        let found = routes::disjoint(topology, ends.0, ends.1, open);
        let sum = found.map(|[a, b]| {
            assert!(!a.iter().any(|id| b.iter().any(|other| fibre(id) == fibre(other))));
            assert!(topology.is_route(&a, ends.0, ends.1) && topology.is_route(&b, ends.0, ends.1));
            topology.delay(&a) + topology.delay(&b)
        });
        assert_eq!(sum, best, "seed {seed}");
    });
}
