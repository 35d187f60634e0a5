//! The fifth problem: move a volume of bytes and finish as early as can be.
//!
//! Of the problems of Lin and Wu (2013) these are the ones with an exact solution: a fixed rate on
//! a fixed route (FPFB), and a rate and route that change at no cost (VPVB). Both are solved for
//! one route at a time and for several at once (a largest flow). A fixed route with a variable
//! rate, and a price on changing, are NP-complete; neither is offered as exact.

use super::network::NetworkView;
use super::routes::{self, CircuitRoute};
use super::search::{SitePair, highest_rate};
use super::window::TimeWindow;
use crate::units::{Bytes, Rate, Span, Time};
use serde::{Deserialize, Serialize};

/// One piece of a booking: a rate on a route from when to when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// From when to when.
    pub window: TimeWindow,
    /// What it carries.
    pub rate: Rate,
    /// Over which links.
    pub route: CircuitRoute,
}

impl Leg {
    /// What it carries in all.
    pub fn volume(&self) -> Bytes {
        self.rate.bytes_in(self.window.duration())
    }
}

/// How the rate may run, and over how many routes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeShape {
    /// Whether rate and route may change from one breakpoint to the next.
    pub variable: bool,
    /// Whether several routes may carry it at once.
    pub several: bool,
}

/// A volume to move.
#[derive(Clone, Copy, Debug)]
pub struct VolumeProblem {
    /// How much.
    pub volume: Bytes,
    /// Not before its start, and all of it by its end.
    pub search: TimeWindow,
    /// No faster than this in all: the slower end of the transfer.
    pub limit: Rate,
    /// What the booking may look like.
    pub shape: VolumeShape,
}

/// The booking with the earliest end, if one ends in time. Its legs are in order of time, those of
/// one time next to each other.
pub fn earliest_finish(
    view: NetworkView<'_>,
    ends: SitePair,
    problem: &VolumeProblem,
) -> Option<Vec<Leg>> {
    if problem.volume == Bytes(0) || problem.limit == Rate::default() {
        return None;
    }
    if problem.shape.variable {
        by_slices(view, ends, problem)
    } else {
        one_window(view, ends, problem)
    }
}

/// The routes of `window` and the sum of their rates, at most the problem's limit.
fn routes_in(
    view: NetworkView<'_>,
    ends: SitePair,
    problem: &VolumeProblem,
    window: TimeWindow,
) -> (Rate, Vec<(Rate, CircuitRoute)>) {
    let routes = if problem.shape.several {
        let width = |link| view.least_free(link, window);
        routes::several(view.topology(), ends.0, ends.1, problem.limit, width)
    } else {
        let found = highest_rate(view, ends, window);
        found.map(|(rate, route)| (rate.min(problem.limit), route)).into_iter().collect()
    };
    (Rate::from_bps(routes.iter().map(|(rate, _)| rate.as_bps()).sum()), routes)
}

/// Fixed rate: the earliest end over all starts.
///
/// An optimal window starts where the search does or at a breakpoint: else it could start earlier
/// at the same rate, and end earlier. From a given start the rate falls as the window grows; so
/// each window that is too short for the volume at its own rate says how long it must be at least,
/// and the first that is long enough is the shortest.
fn one_window(view: NetworkView<'_>, ends: SitePair, problem: &VolumeProblem) -> Option<Vec<Leg>> {
    let shortest = problem.limit.time_for(problem.volume);
    let mut best: Option<(Time, Vec<Leg>)> = None;
    for start in view.breakpoints(problem.search) {
        let must_end_by = best.as_ref().map_or(problem.search.end, |(end, _)| *end);
        let mut window = TimeWindow::lasting(start, shortest);
        if window.end > must_end_by || (best.is_some() && window.end == must_end_by) {
            break;
        }
        loop {
            let (rate, routes) = routes_in(view, ends, problem, window);
            let needed = TimeWindow::lasting(start, rate.time_for(problem.volume));
            if rate == Rate::default() || needed.end > must_end_by {
                break;
            }
            if needed.end <= window.end {
                if best.as_ref().is_none_or(|(end, _)| window.end < *end) {
                    let leg = |(rate, route)| Leg { window, rate, route };
                    best = Some((window.end, routes.into_iter().map(leg).collect()));
                }
                break;
            }
            window = needed;
        }
    }
    best.map(|(_, legs)| legs)
}

/// Variable rate: as much as goes in each slice between two breakpoints, until the volume is moved.
fn by_slices(view: NetworkView<'_>, ends: SitePair, problem: &VolumeProblem) -> Option<Vec<Leg>> {
    /// Bits times nanoseconds in a second.
    const UNIT: u128 = 8_000_000_000;
    let mut times = view.breakpoints(problem.search);
    times.push(problem.search.end);
    let mut left = u128::from(problem.volume.0) * UNIT;
    let mut legs: Vec<Leg> = Vec::new();
    for pair in times.windows(2) {
        let mut window = TimeWindow { start: pair[0], end: pair[1] };
        let (rate, routes) = routes_in(view, ends, problem, window);
        if rate == Rate::default() || window.is_empty() {
            continue;
        }
        let bps = u128::from(rate.as_bps());
        let most = bps * u128::from(window.duration().as_nanos());
        let done = most >= left;
        if done {
            let nanos = u64::try_from(left.div_ceil(bps)).unwrap_or(u64::MAX);
            window = TimeWindow::lasting(window.start, Span::from_nanos(nanos));
        }
        for (rate, route) in routes {
            let goes_on = legs.iter_mut().rev().find(|leg| {
                leg.window.end == window.start && leg.rate == rate && leg.route == route
            });
            match goes_on {
                Some(leg) => leg.window.end = window.end,
                None => legs.push(Leg { window, rate, route }),
            }
        }
        if done {
            return Some(legs);
        }
        left -= most;
    }
    None
}
