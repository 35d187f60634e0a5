//! Maintenance: a link is closed for a while, what can be moved is moved, and what cannot is said.

use super::{Book, BookRecord, Decision, LinkClosure};
use crate::calendar::network::NetworkTimelines;
use crate::calendar::refusal::{BookingRefusal, RefusalCause};
use crate::calendar::reservation::Reservation;
use crate::calendar::search::fixed_slot;
use crate::calendar::topology::LinkId;
use crate::calendar::volume::Leg;
use crate::calendar::window::TimeWindow;
use crate::units::Time;
use std::sync::Arc;

impl Book {
    pub(super) fn close(
        &self,
        now: Time,
        link: LinkId,
        window: TimeWindow,
        reason: &str,
    ) -> Result<Decision, BookingRefusal> {
        let refuse = |detail: &str| Err(BookingRefusal::new(RefusalCause::BadRequest, detail));
        if link.0 as usize >= self.network.topology.link_count() {
            return refuse("there is no such link");
        }
        if window.is_empty() || window.end <= now {
            return refuse("the window ends in the past or before it starts");
        }
        let closure = LinkClosure {
            id: self.next_closure,
            link,
            window,
            reason: reason.to_owned(),
            withdrawn: false,
        };
        let both = [link, self.network.topology.link(link).reverse];
        let hit = |leg: &Leg| {
            leg.window.overlaps(&window) && leg.route.iter().any(|link| both.contains(link))
        };
        let mut affected: Vec<&Arc<Reservation>> =
            self.standing().filter(|reservation| reservation.legs.iter().any(hit)).collect();
        // Who has more priority moves first, then who came first.
        affected
            .sort_by_key(|reservation| (std::cmp::Reverse(reservation.priority), reservation.id));
        let mut network = self.network.clone();
        network.close(link, window);
        let mut records = vec![BookRecord::Closure(closure)];
        for reservation in affected {
            let moved = moved(&mut network, now, reservation, hit);
            let stranded = moved.is_none();
            records.push(BookRecord::Reservation(Arc::new(Reservation {
                legs: moved.unwrap_or_else(|| reservation.legs.clone()),
                stranded,
                version: reservation.version + 1,
                ..Reservation::clone(reservation)
            })));
        }
        Ok(Decision { records })
    }

    pub(super) fn reopen(&self, closure: u64) -> Result<Decision, BookingRefusal> {
        let Some(old) = self.closures.get(&closure) else {
            let detail = format!("there is no closure {closure}");
            return Err(BookingRefusal::new(RefusalCause::NotFound, detail));
        };
        if old.withdrawn {
            return Ok(Decision::default());
        }
        let mut records = vec![BookRecord::Closure(LinkClosure { withdrawn: true, ..old.clone() })];
        // What was stranded by this closure alone is whole again.
        let mut network = self.network.clone();
        network.reopen(old.link, old.window);
        for reservation in self.standing().filter(|reservation| reservation.stranded) {
            let closed = reservation.legs.iter().any(|leg| {
                leg.route.iter().any(|link| {
                    self.closures().filter(|other| other.id != closure).any(|other| {
                        let both = [other.link, self.network.topology.link(other.link).reverse];
                        both.contains(link) && other.window.overlaps(&leg.window)
                    })
                })
            });
            if !closed {
                records.push(BookRecord::Reservation(Arc::new(Reservation {
                    stranded: false,
                    version: reservation.version + 1,
                    ..Reservation::clone(reservation)
                })));
            }
        }
        Ok(Decision { records })
    }
}

/// The legs of `reservation` with each that is `hit` on another route, booked in `network`; `None`,
/// and nothing changed, when one of them finds none.
fn moved(
    network: &mut NetworkTimelines,
    now: Time,
    reservation: &Reservation,
    hit: impl Fn(&Leg) -> bool,
) -> Option<Vec<Leg>> {
    let mut trial = network.clone();
    let mut legs = Vec::new();
    for leg in &reservation.legs {
        if !hit(leg) || leg.window.end <= now {
            legs.push(leg.clone());
            continue;
        }
        let taken = trial.view(reservation.both_ways).taken(&leg.route);
        trial.give_back(&taken, leg.window, leg.rate);
        let ahead = TimeWindow { start: leg.window.start.max(now), end: leg.window.end };
        if leg.window.start < now {
            let used = TimeWindow { start: leg.window.start, end: now };
            trial.book(&taken, used, leg.rate);
            legs.push(Leg { window: used, ..leg.clone() });
        }
        let view = trial.view(reservation.both_ways);
        let route = fixed_slot(view, (reservation.from, reservation.to), leg.rate, ahead)?;
        let taken = view.taken(&route);
        trial.book(&taken, ahead, leg.rate);
        legs.push(Leg { window: ahead, rate: leg.rate, route });
    }
    *network = trial;
    Some(legs)
}
