//! Booking: checks of the request, the search, quotas, and refusals with alternatives.

use super::{Book, BookRecord, Decision, ReservationState};
use crate::calendar::refusal::{self, BookingRefusal, RefusalCause};
use crate::calendar::request::{BookingProblem, BookingRequest};
use crate::calendar::reservation::{Reservation, ReservationId};
use crate::calendar::volume::Leg;
use crate::calendar::window::TimeWindow;
use crate::units::{Bytes, Rate, Time};
use std::sync::Arc;

fn bad(detail: impl Into<String>) -> BookingRefusal {
    BookingRefusal::new(RefusalCause::BadRequest, detail)
}

/// Says by whose clock: it may differ from that of who asks.
fn past(now: Time, start: Time) -> BookingRefusal {
    bad(format!("the slot begins in the past, by the calendar's clock {} ago", now.since(start)))
}

impl Book {
    pub(super) fn reserve(
        &self,
        now: Time,
        request: &BookingRequest,
    ) -> Result<Decision, BookingRefusal> {
        let request = BookingRequest { problem: self.timely(now, request)?, ..request.clone() };
        self.sensible(now, &request)?;
        let view = self.network.view(request.both_ways);
        let legs = match request.problem.solve(view, request.ends) {
            Some(legs) => legs,
            None => return self.preempt(now, &request).ok_or_else(|| self.refuse(now, &request)),
        };
        Ok(Decision { records: vec![self.admitted(now, &request, legs)?] })
    }

    /// What [`reserve`](super::BookOrder::Reserve) would book now, whatever policies and quotas
    /// say.
    ///
    /// # Errors
    /// A refusal with what stood in the way, and what could be had instead.
    pub fn search(&self, now: Time, request: &BookingRequest) -> Result<Vec<Leg>, BookingRefusal> {
        let now = self.now(now);
        let request = BookingRequest { problem: self.timely(now, request)?, ..request.clone() };
        self.sensible(now, &request)?;
        let solved = request.problem.solve(self.network.view(request.both_ways), request.ends);
        solved.ok_or_else(|| self.refuse(now, &request))
    }

    /// The record of a reservation of `legs`, where rights and quotas allow it.
    pub(super) fn admitted(
        &self,
        now: Time,
        request: &BookingRequest,
        legs: Vec<Leg>,
    ) -> Result<BookRecord, BookingRefusal> {
        let denied = |detail| BookingRefusal::new(RefusalCause::Denied, detail);
        request.rights.check(request.ends, &legs).map_err(denied)?;
        let policy = self.policy.of(&request.project);
        let (state, held_until) = match request.hold {
            Some(hold) => (ReservationState::Held, Some(now + hold.min(self.limits.longest_hold))),
            None if request.provision => (ReservationState::Provisioned, None),
            None => (ReservationState::Committed, None),
        };
        let reservation = Reservation {
            id: ReservationId(self.next_id),
            version: 1,
            owner: request.owner.clone(),
            project: request.project.clone(),
            label: request.label.clone(),
            from: request.ends.0,
            to: request.ends.1,
            both_ways: request.both_ways,
            legs,
            state,
            ended: None,
            held_until,
            priority: policy.priority,
            stranded: false,
            created: now,
        };
        let mut usage = self.project_use(&request.project);
        if state != ReservationState::Held {
            // A quota on holds does not bind what stands at once.
            usage.held = 0;
        }
        let mut quotas = policy.clone();
        if state != ReservationState::Held {
            quotas.held = None;
        }
        usage
            .check(&quotas, reservation.volume())
            .map_err(|detail| BookingRefusal::new(RefusalCause::OverQuota, detail))?;
        Ok(BookRecord::Reservation(Arc::new(reservation)))
    }

    /// The problem with a start that lies a little in the past moved to now.
    fn timely(
        &self,
        now: Time,
        request: &BookingRequest,
    ) -> Result<BookingProblem, BookingRefusal> {
        let mut problem = request.problem.clone();
        let start = match &mut problem {
            BookingProblem::Fixed { window, .. } | BookingProblem::Highest { window, .. } => {
                &mut window.start
            }
            BookingProblem::First { search, .. } | BookingProblem::Volume { search, .. } => {
                &mut search.start
            }
            BookingProblem::Legs(legs) => {
                // A leg that should have begun a moment ago begins now.
                for leg in legs.iter_mut().filter(|leg| leg.window.end > now) {
                    let begun = leg.window.start + self.limits.tolerance;
                    if begun >= now {
                        leg.window.start = leg.window.start.max(now);
                    }
                }
                if problem.window().start < now {
                    return Err(past(now, problem.window().start));
                }
                return Ok(problem);
            }
        };
        if *start + self.limits.tolerance < now {
            return Err(past(now, *start));
        }
        *start = now.max(*start);
        Ok(problem)
    }

    /// Refuses what makes no sense, whatever is booked.
    fn sensible(&self, now: Time, request: &BookingRequest) -> Result<(), BookingRefusal> {
        let topology = &self.network.topology;
        let sites = topology.sites().len() as u32;
        let (from, to) = request.ends;
        if from.0 >= sites || to.0 >= sites {
            return Err(bad("there is no such site"));
        }
        if from == to {
            return Err(bad("a circuit joins two different sites"));
        }
        let window = request.problem.window();
        if window.is_empty() {
            return Err(bad("the slot ends before it starts"));
        }
        if window.end > now + self.limits.horizon {
            let days = self.limits.horizon.as_secs_f64() / 86_400.0;
            return Err(bad(format!("the slot ends more than {days:.0} days from now")));
        }
        let rate = request.problem.rate();
        if rate == Rate::default() {
            return Err(bad("a rate of zero carries nothing"));
        }
        let capacity = topology.links().map(|(_, link)| link.capacity).max().unwrap_or_default();
        if rate > capacity {
            return Err(bad(format!("{rate} is more than any link carries ({capacity})")));
        }
        match &request.problem {
            BookingProblem::First { duration, search, .. } if *duration > search.duration() => {
                Err(bad("the slot is longer than the time it is searched in"))
            }
            BookingProblem::First { duration, .. } if duration.as_nanos() == 0 => {
                Err(bad("a slot of no length carries nothing"))
            }
            BookingProblem::Legs(legs)
                if legs.iter().any(|leg| !topology.is_route(&leg.route, from, to)) =>
            {
                Err(bad("a leg's route does not lead from one site to the other"))
            }
            BookingProblem::Legs(legs)
                if legs.iter().any(|leg| leg.window.is_empty() || leg.rate == Rate::default()) =>
            {
                Err(bad("a leg carries nothing"))
            }
            BookingProblem::Volume { volume: Bytes(0), .. } => Err(bad("there is nothing to move")),
            BookingProblem::Volume { limit, .. } if *limit == Rate::default() => {
                Err(bad("a rate of zero carries nothing"))
            }
            BookingProblem::Highest { at_least, at_most, .. } if at_least > at_most => {
                Err(bad("the lowest rate is above the highest"))
            }
            _ => Ok(()),
        }
    }

    /// The refusal of a request whose bandwidth is not free.
    pub(super) fn refuse(&self, now: Time, request: &BookingRequest) -> BookingRefusal {
        let view = self.network.view(request.both_ways);
        let (rate, slot) = request.problem.as_slot();
        let horizon = now + self.limits.horizon;
        let mut alternatives = refusal::alternatives(view, request.ends, &request.problem, horizon);
        // What may not be had anyway is no alternative.
        alternatives
            .retain(|alternative| request.rights.check(request.ends, &alternative.legs).is_ok());
        let obstacles = refusal::obstacles(view, request.ends, rate, slot);
        let [from, to] =
            [request.ends.0, request.ends.1].map(|site| self.network.topology.site_name(site));
        let detail = match &request.problem {
            BookingProblem::Fixed { rate, .. } => {
                format!("{rate} from {from} to {to} is not free in that slot")
            }
            BookingProblem::Highest { at_least, .. } => {
                format!("{at_least} from {from} to {to} is not free in that slot")
            }
            BookingProblem::First { rate, duration, .. } => {
                format!("{rate} from {from} to {to} is not free for {duration} in that time")
            }
            BookingProblem::Legs(_) => {
                format!("what was chosen from {from} to {to} is not free any more")
            }
            BookingProblem::Volume { volume, .. } => {
                format!("{volume} cannot be moved from {from} to {to} by then")
            }
        };
        BookingRefusal { cause: RefusalCause::NoCapacity, detail, obstacles, alternatives }
    }

    /// The window that a search of `problem` may use, from `now` on.
    pub fn searchable(&self, now: Time, window: TimeWindow) -> TimeWindow {
        TimeWindow { start: window.start.max(now), end: window.end.min(now + self.limits.horizon) }
    }
}
