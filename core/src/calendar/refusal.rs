//! Why a booking is refused, what stood in the way, and what could be had instead.

use super::network::NetworkView;
use super::request::BookingProblem;
use super::routes::{self, leaving_cut, reachable};
use super::search::{SitePair, first_slot, highest_rate};
use super::topology::LinkId;
use super::volume::{Leg, VolumeProblem, VolumeShape, earliest_finish};
use super::window::TimeWindow;
use crate::units::{Bytes, Rate, Time};
use serde::{Deserialize, Serialize};

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCause {
    /// The request makes no sense: an end before its start, a slot in the past.
    BadRequest,
    /// Whoever asks may not have it.
    Denied,
    /// The project has as much as it may.
    OverQuota,
    /// The bandwidth is not free.
    NoCapacity,
    /// There is no such reservation.
    NotFound,
    /// The reservation has another version than the one that was meant.
    Stale,
    /// The reservation is in a state in which that cannot be.
    WrongState,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingRefusal {
    /// Its kind.
    pub cause: RefusalCause,
    /// What is wrong, in one line.
    pub detail: String,
    /// What stood in the way.
    pub obstacles: Vec<Obstacle>,
    /// What could be had instead, each as it stands.
    pub alternatives: Vec<Alternative>,
}

impl BookingRefusal {
    /// A refusal without alternatives.
    pub(super) fn new(cause: RefusalCause, detail: impl Into<String>) -> BookingRefusal {
        let (obstacles, alternatives) = Default::default();
        BookingRefusal { cause, detail: detail.into(), obstacles, alternatives }
    }
}

/// A link that every route would have had to take, and that had too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The directed link.
    pub link: LinkId,
    /// When it first had too little.
    pub window: TimeWindow,
    /// What was free then.
    pub free: Rate,
}

/// What an alternative changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlternativeKind {
    /// The same at a later time.
    Later,
    /// The same time at the highest rate there is.
    Slower,
    /// The same rate over several routes at once.
    SeveralRoutes,
    /// The same volume at a lower rate for longer.
    Longer,
    /// The same volume at a rate that changes.
    Variable,
    /// The most that can be moved in the time.
    Less,
}

/// What could be booked instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// What it changes.
    pub kind: AlternativeKind,
    /// What would be booked.
    pub legs: Vec<Leg>,
}

/// The links that stood in the way of `rate` in `window`.
pub(super) fn obstacles(
    view: NetworkView<'_>,
    (from, to): SitePair,
    rate: Rate,
    window: TimeWindow,
) -> Vec<Obstacle> {
    let topology = view.topology();
    let reached = reachable(topology, from, |link| view.has_free(link, window, rate));
    if reached[to.0 as usize] {
        return Vec::new();
    }
    let mut found = Vec::new();
    for link in leaving_cut(topology, &reached) {
        let short = view
            .taken(&[link])
            .into_iter()
            .filter_map(|link| Some((link, view.network.timeline(link).shortage(window, rate)?)))
            .min_by_key(|(_, interval)| interval.free);
        found.extend(short.map(|(link, interval)| Obstacle {
            link,
            window: interval.window.intersection(&window),
            free: interval.free,
        }));
    }
    found
}

/// What could be had instead of what `problem` asks, up to `horizon`. Each is different, and each
/// could be booked now.
pub(super) fn alternatives(
    view: NetworkView<'_>,
    ends: SitePair,
    problem: &BookingProblem,
    horizon: Time,
) -> Vec<Alternative> {
    let mut found: Vec<Alternative> = Vec::new();
    let mut offer = |kind, legs: Vec<Leg>| {
        if !legs.is_empty() && found.iter().all(|other: &Alternative| other.legs != legs) {
            found.push(Alternative { kind, legs });
        }
    };
    let one = |window, rate, route| vec![Leg { window, rate, route }];
    let (rate, slot) = problem.as_slot();
    let whole = TimeWindow { start: slot.start, end: horizon };
    if let BookingProblem::Volume { volume, shape, limit, .. } = problem {
        let search = whole;
        let free = VolumeShape { variable: true, several: true };
        let late = VolumeProblem { volume: *volume, search, limit: *limit, shape: *shape };
        for shape in [*shape, VolumeShape { variable: true, ..*shape }, free] {
            let legs = earliest_finish(view, ends, &VolumeProblem { shape, search: slot, ..late });
            let in_time = if shape.several {
                AlternativeKind::SeveralRoutes
            } else {
                AlternativeKind::Variable
            };
            offer(in_time, legs.unwrap_or_default());
        }
        offer(AlternativeKind::Later, earliest_finish(view, ends, &late).unwrap_or_default());
        let variable = VolumeProblem { shape: free, ..late };
        offer(
            AlternativeKind::Variable,
            earliest_finish(view, ends, &variable).unwrap_or_default(),
        );
        if let Some((highest, route)) = highest_rate(view, ends, slot) {
            offer(AlternativeKind::Less, one(slot, highest.min(*limit), route));
        }
        return found;
    }
    if let Some((start, route)) = first_slot(view, ends, rate, slot.duration(), whole) {
        let window = TimeWindow::lasting(start, slot.duration());
        offer(AlternativeKind::Later, one(window, rate, route));
    }
    if let Some((highest, route)) = highest_rate(view, ends, slot) {
        offer(AlternativeKind::Slower, one(slot, highest.min(rate), route));
    }
    let width = |link| view.least_free(link, slot);
    let several = routes::several(view.topology(), ends.0, ends.1, rate, width);
    if several.iter().map(|(rate, _)| rate.as_bps()).sum::<u64>() == rate.as_bps() {
        let leg = |(rate, route)| Leg { window: slot, rate, route };
        offer(AlternativeKind::SeveralRoutes, several.into_iter().map(leg).collect());
    }
    let volume = VolumeProblem {
        volume: Bytes(rate.bytes_in(slot.duration()).0.max(1)),
        search: whole,
        limit: rate,
        shape: VolumeShape { variable: false, several: false },
    };
    offer(AlternativeKind::Longer, earliest_finish(view, ends, &volume).unwrap_or_default());
    let shape = VolumeShape { variable: true, several: false };
    let variable = VolumeProblem { shape, ..volume };
    offer(AlternativeKind::Variable, earliest_finish(view, ends, &variable).unwrap_or_default());
    found
}
