//! What a client asks for: one of the five problems between two sites.

use super::network::NetworkView;
use super::policy::BookingRights;
use super::search::{SitePair, first_slot, fixed_slot, highest_rate};
use super::volume::{Leg, VolumeProblem, VolumeShape, earliest_finish};
use super::window::TimeWindow;
use crate::units::{Bytes, Rate, Span};

/// A problem whose solution can be booked. (The fifth, all slots, lists them.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookingProblem {
    /// This rate in this slot.
    Fixed {
        /// The rate.
        rate: Rate,
        /// The slot.
        window: TimeWindow,
    },
    /// The highest rate in this slot.
    Highest {
        /// The slot.
        window: TimeWindow,
        /// No less than this.
        at_least: Rate,
        /// No more than this.
        at_most: Rate,
    },
    /// The first slot.
    First {
        /// The rate.
        rate: Rate,
        /// How long.
        duration: Span,
        /// Within this.
        search: TimeWindow,
    },
    /// A volume by a deadline.
    Volume {
        /// How much.
        volume: Bytes,
        /// From when on, and by when.
        search: TimeWindow,
        /// The slower end's rate.
        limit: Rate,
        /// What the booking may look like.
        shape: VolumeShape,
    },
    /// These legs and no others: an alternative that was offered, or a route of one's own.
    Legs(Vec<Leg>),
}

impl BookingProblem {
    /// When it begins at the earliest and has to end at the latest.
    pub fn window(&self) -> TimeWindow {
        match self {
            BookingProblem::Fixed { window, .. } | BookingProblem::Highest { window, .. } => {
                *window
            }
            BookingProblem::First { search, .. } | BookingProblem::Volume { search, .. } => *search,
            BookingProblem::Legs(legs) => TimeWindow {
                start: legs.iter().map(|leg| leg.window.start).min().unwrap_or_default(),
                end: legs.iter().map(|leg| leg.window.end).max().unwrap_or_default(),
            },
        }
    }

    /// The rate and slot that it would be content with first: what a refusal is measured against.
    pub(super) fn as_slot(&self) -> (Rate, TimeWindow) {
        match *self {
            BookingProblem::Fixed { rate, window } => (rate, window),
            BookingProblem::Legs(_) => (self.rate(), self.window()),
            BookingProblem::Highest { window, at_least, .. } => {
                (at_least.max(Rate::from_bps(1)), window)
            }
            BookingProblem::First { rate, duration, search } => {
                (rate, TimeWindow::lasting(search.start, duration))
            }
            BookingProblem::Volume { volume, search, limit, .. } => {
                let bits = u128::from(volume.0) * 8_000_000_000;
                let nanos = u128::from(search.duration().as_nanos().max(1));
                let rate = u64::try_from(bits.div_ceil(nanos)).unwrap_or(u64::MAX);
                (Rate::from_bps(rate).min(limit), search)
            }
        }
    }

    /// The highest rate that it names.
    pub(super) fn rate(&self) -> Rate {
        match self {
            BookingProblem::Fixed { rate, .. } | BookingProblem::First { rate, .. } => *rate,
            BookingProblem::Highest { at_least, .. } => *at_least,
            BookingProblem::Legs(legs) => legs.iter().map(|leg| leg.rate).max().unwrap_or_default(),
            BookingProblem::Volume { .. } => Rate::from_bps(1),
        }
    }

    /// Its solution, if the bandwidth is free.
    pub fn solve(&self, view: NetworkView<'_>, ends: SitePair) -> Option<Vec<Leg>> {
        match *self {
            BookingProblem::Fixed { rate, window } => {
                let route = fixed_slot(view, ends, rate, window)?;
                Some(vec![Leg { window, rate, route }])
            }
            BookingProblem::Highest { window, at_least, at_most } => {
                let (rate, route) = highest_rate(view, ends, window)?;
                let rate = rate.min(at_most);
                (rate >= at_least).then(|| vec![Leg { window, rate, route }])
            }
            BookingProblem::First { rate, duration, search } => {
                let (start, route) = first_slot(view, ends, rate, duration, search)?;
                Some(vec![Leg { window: TimeWindow::lasting(start, duration), rate, route }])
            }
            BookingProblem::Volume { volume, search, limit, shape } => {
                let problem = VolumeProblem { volume, search, limit, shape };
                earliest_finish(view, ends, &problem)
            }
            BookingProblem::Legs(ref legs) => fit(view, ends, legs).then(|| legs.clone()),
        }
    }
}

/// Whether `legs` lead from one end to the other and can be booked together.
fn fit(view: NetworkView<'_>, ends: SitePair, legs: &[Leg]) -> bool {
    let mut network = view.network.clone();
    !legs.is_empty()
        && legs.iter().all(|leg| {
            let now = network.view(view.both_ways);
            let is_route = view.topology().is_route(&leg.route, ends.0, ends.1);
            let free = is_route
                && !leg.window.is_empty()
                && leg.rate > Rate::default()
                && leg.route.iter().all(|link| now.has_free(*link, leg.window, leg.rate));
            let taken = if free { now.taken(&leg.route) } else { Vec::new() };
            network.book(&taken, leg.window, leg.rate);
            free
        })
}

/// A request for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingRequest {
    /// From where to where.
    pub ends: SitePair,
    /// What.
    pub problem: BookingProblem,
    /// Whether the circuit carries its rate in both directions.
    pub both_ways: bool,
    /// Who asks.
    pub owner: String,
    /// For which project.
    pub project: String,
    /// What the owner calls it.
    pub label: String,
    /// How long it is only held. None: it stands at once.
    pub hold: Option<Span>,
    /// Whether a circuit is made of it as soon as its slot begins.
    pub provision: bool,
    /// What the owner may book.
    pub rights: BookingRights,
}
