//! The first four of the five problems: a fixed slot, the highest rate in a slot, the first slot,
//! and all slots.
//!
//! The names are those of Sahni, Rao and Ranka (2006) and of Lin and Wu (2012). The tests hold them
//! against brute force, and all slots against a second algorithm that shares nothing but the lists.

use super::network::NetworkView;
use super::routes::{self, CircuitRoute, leaving_cut, reachable};
use super::topology::SiteId;
use super::window::{TimeSet, TimeWindow};
use crate::units::{Rate, Span, Time};
use std::collections::BTreeSet;

/// From where to where.
pub type SitePair = (SiteId, SiteId);

/// The shortest route on which `rate` is free in all of `window`.
pub fn fixed_slot(
    view: NetworkView<'_>,
    (from, to): SitePair,
    rate: Rate,
    window: TimeWindow,
) -> Option<CircuitRoute> {
    routes::shortest(view.topology(), from, to, |link| view.has_free(link, window, rate))
}

/// The highest rate that is free on one route in all of `window`, and that route.
pub fn highest_rate(
    view: NetworkView<'_>,
    (from, to): SitePair,
    window: TimeWindow,
) -> Option<(Rate, CircuitRoute)> {
    routes::widest(view.topology(), from, to, |link| view.least_free(link, window))
        .filter(|(rate, _)| *rate > Rate::default())
}

/// The first slot of `duration` in `search` in which `rate` is free, and its route.
///
/// From a start at which no route is open, the next start worth trying is the earliest at which
/// some link opens that leads out of what can be reached: until then all that was reached leads
/// nowhere else. So each step crosses a breakpoint of the cut, and no slot is passed over.
pub fn first_slot(
    view: NetworkView<'_>,
    (from, to): SitePair,
    rate: Rate,
    duration: Span,
    search: TimeWindow,
) -> Option<(Time, CircuitRoute)> {
    let topology = view.topology();
    let mut start = search.start;
    loop {
        let slot = TimeWindow::lasting(start, duration);
        if slot.end > search.end {
            return None;
        }
        let open = |link| view.has_free(link, slot, rate);
        let reached = reachable(topology, from, open);
        if reached[to.0 as usize] {
            return Some((start, routes::shortest(topology, from, to, open)?));
        }
        let later = TimeWindow { start, end: search.end };
        start = leaving_cut(topology, &reached)
            .filter_map(|link| view.first_start(link, rate, duration, later))
            .min()?;
    }
}

/// Every start in `search` of a slot of `duration` in which `rate` is free on some route.
///
/// Extended Bellman-Ford over the algebra of sets of starts: a route is open where all its links
/// are (intersection), a site is reached where some route is (union).
pub fn all_slots(
    view: NetworkView<'_>,
    (from, to): SitePair,
    rate: Rate,
    duration: Span,
    search: TimeWindow,
) -> TimeSet {
    let topology = view.topology();
    let mut reached = vec![TimeSet::default(); topology.sites().len()];
    if search.start + duration > search.end {
        return TimeSet::default();
    }
    let last = (search.end - duration) + Span::from_nanos(1);
    reached[from.0 as usize] = TimeSet::of(TimeWindow { start: search.start, end: last });
    let mut starts: Vec<Option<TimeSet>> = vec![None; topology.link_count()];
    // Sites whose set grew. Each is looked at again at most once a round, as in Bellman-Ford.
    let mut grown = BTreeSet::from([from]);
    while !grown.is_empty() {
        for site in std::mem::take(&mut grown) {
            for &id in topology.leaving(site) {
                let next = topology.link(id).to;
                if next == from || site == to {
                    continue;
                }
                let open = starts[id.0 as usize]
                    .get_or_insert_with(|| view.starts(id, rate, duration, search));
                let through = reached[site.0 as usize].intersection(open);
                if through.is_empty() {
                    continue;
                }
                let union = reached[next.0 as usize].union(&through);
                if union != reached[next.0 as usize] {
                    reached[next.0 as usize] = union;
                    grown.insert(next);
                }
            }
        }
    }
    std::mem::take(&mut reached[to.0 as usize])
}
