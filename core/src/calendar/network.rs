//! The network with its time-bandwidth lists: what a search looks at and a booking changes.

use super::timeline::Timeline;
use super::topology::{LinkId, Topology};
use super::window::{TimeSet, TimeWindow};
use crate::units::{Rate, Span, Time};
use std::sync::Arc;

/// A topology and the list of each of its directed links.
///
/// A clone is a snapshot: it shares all lists, and a booking copies only those that it changes.
#[derive(Clone, Debug)]
pub struct NetworkTimelines {
    /// The network.
    pub topology: Arc<Topology>,
    timelines: Vec<Arc<Timeline>>,
}

impl NetworkTimelines {
    /// `topology` with nothing booked.
    pub fn new(topology: Arc<Topology>) -> NetworkTimelines {
        let timelines =
            topology.links().map(|(_, link)| Arc::new(Timeline::new(link.capacity))).collect();
        NetworkTimelines { topology, timelines }
    }

    /// The list of `link`.
    pub fn timeline(&self, link: LinkId) -> &Timeline {
        &self.timelines[link.0 as usize]
    }

    fn timeline_mut(&mut self, link: LinkId) -> &mut Timeline {
        Arc::make_mut(&mut self.timelines[link.0 as usize])
    }

    /// Books `rate` on every link of `route`.
    pub fn book(&mut self, route: &[LinkId], window: TimeWindow, rate: Rate) {
        route.iter().for_each(|link| self.timeline_mut(*link).book(window, rate));
    }

    /// Gives back what [`book`](Self::book) took.
    pub fn give_back(&mut self, route: &[LinkId], window: TimeWindow, rate: Rate) {
        route.iter().for_each(|link| self.timeline_mut(*link).give_back(window, rate));
    }

    /// Closes both directions of `link` in `window`.
    pub fn close(&mut self, link: LinkId, window: TimeWindow) {
        self.timeline_mut(link).close(window);
        let reverse = self.topology.link(link).reverse;
        self.timeline_mut(reverse).close(window);
    }

    /// Takes back [`close`](Self::close).
    pub fn reopen(&mut self, link: LinkId, window: TimeWindow) {
        self.timeline_mut(link).reopen(window);
        let reverse = self.topology.link(link).reverse;
        self.timeline_mut(reverse).reopen(window);
    }

    /// How a search for a circuit of one or both directions sees the lists.
    pub fn view(&self, both_ways: bool) -> NetworkView<'_> {
        NetworkView { network: self, both_ways }
    }
}

/// The lists as a circuit sees them: one that carries both ways needs the bandwidth of both.
#[derive(Clone, Copy, Debug)]
pub struct NetworkView<'a> {
    /// The network.
    pub network: &'a NetworkTimelines,
    /// Whether the circuit carries its rate in both directions.
    pub both_ways: bool,
}

impl<'a> NetworkView<'a> {
    /// The topology.
    pub fn topology(&self) -> &'a Topology {
        &self.network.topology
    }

    fn there_and_back(&self, link: LinkId) -> (&'a Timeline, Option<&'a Timeline>) {
        let reverse = self.topology().link(link).reverse;
        (self.network.timeline(link), self.both_ways.then(|| self.network.timeline(reverse)))
    }

    /// The links that a circuit over `route` takes bandwidth from.
    pub fn taken(&self, route: &[LinkId]) -> Vec<LinkId> {
        let back = |link: &LinkId| self.topology().link(*link).reverse;
        let backs = route.iter().filter(|_| self.both_ways).map(back);
        route.iter().copied().chain(backs).collect()
    }

    /// What is free on `link` in every instant of `window`.
    pub fn least_free(&self, link: LinkId, window: TimeWindow) -> Rate {
        let (there, back) = self.there_and_back(link);
        let free = there.least_free(window);
        back.map_or(free, |back| free.min(back.least_free(window)))
    }

    /// Whether `rate` is free on `link` in every instant of `window`.
    pub fn has_free(&self, link: LinkId, window: TimeWindow, rate: Rate) -> bool {
        let (there, back) = self.there_and_back(link);
        there.has_free(window, rate) && back.is_none_or(|back| back.has_free(window, rate))
    }

    /// The starts from which `rate` is free on `link`.
    pub fn starts(&self, link: LinkId, rate: Rate, span: Span, search: TimeWindow) -> TimeSet {
        let (there, back) = self.there_and_back(link);
        let starts = there.starts(rate, span, search);
        match back {
            Some(back) if !starts.is_empty() => {
                starts.intersection(&back.starts(rate, span, search))
            }
            _ => starts,
        }
    }

    /// The earliest of them.
    pub fn first_start(
        &self,
        link: LinkId,
        rate: Rate,
        span: Span,
        mut search: TimeWindow,
    ) -> Option<Time> {
        let (there, back) = self.there_and_back(link);
        let Some(back) = back else { return there.first_start(rate, span, search) };
        // Each start that one direction allows is tried on the other, which names a later one.
        loop {
            let start = there.first_start(rate, span, search)?;
            let other = back.first_start(rate, span, TimeWindow { start, ..search })?;
            if start == other {
                return Some(start);
            }
            search.start = other;
        }
    }

    /// Every instant in `search` at which some link's free bandwidth changes, and `search.start`.
    pub fn breakpoints(&self, search: TimeWindow) -> Vec<Time> {
        let mut times = vec![search.start];
        for (id, _) in self.topology().links() {
            self.network.timeline(id).breakpoints_in(search, &mut times);
        }
        times.sort_unstable();
        times.dedup();
        times
    }
}
