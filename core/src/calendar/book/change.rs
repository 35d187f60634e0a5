//! Changing a reservation in place: its rate, its start, its end; all of it or nothing.

use super::{Book, BookRecord, Decision, ReservationChange};
use crate::calendar::policy::BookingRights;
use crate::calendar::refusal::{self, BookingRefusal, RefusalCause};
use crate::calendar::request::BookingProblem;
use crate::calendar::reservation::{Reservation, ReservationId};
use crate::calendar::search::fixed_slot;
use crate::calendar::volume::Leg;
use crate::calendar::window::TimeWindow;
use crate::units::{Rate, Time};
use std::sync::Arc;

impl Book {
    pub(super) fn change(
        &self,
        now: Time,
        id: ReservationId,
        change: &ReservationChange,
        version: Option<u64>,
        rights: &BookingRights,
    ) -> Result<Decision, BookingRefusal> {
        let old = self.found(id, version)?;
        let refuse = |cause, detail: &str| Err(BookingRefusal::new(cause, detail));
        if !old.takes_bandwidth() || old.due().is_some_and(|due| due <= now) {
            return refuse(RefusalCause::WrongState, "it is over");
        }
        // What has been used stays as it was; only what lies ahead is booked anew.
        let (past, ahead): (Vec<&Leg>, Vec<&Leg>) =
            old.legs.iter().partition(|leg| leg.window.end <= now);
        let [leg] = ahead[..] else {
            return refuse(
                RefusalCause::WrongState,
                "its rate or route varies over time: cancel it and ask again",
            );
        };
        let begun = leg.window.start < now;
        let start = change.start.unwrap_or(leg.window.start);
        if begun && change.start.is_some_and(|start| start != leg.window.start) {
            return refuse(RefusalCause::WrongState, "it has begun: its start stays");
        }
        let window = TimeWindow { start, end: change.end.unwrap_or(leg.window.end) };
        if window.is_empty() {
            return refuse(RefusalCause::BadRequest, "the slot ends before it starts");
        }
        if !begun && start + self.limits.tolerance < now {
            return refuse(RefusalCause::BadRequest, "the slot begins in the past");
        }
        if window.end <= now {
            return refuse(RefusalCause::BadRequest, "the slot ends in the past");
        }
        if window.end > now + self.limits.horizon {
            return refuse(RefusalCause::BadRequest, "the slot ends too far ahead");
        }
        let rate = change.rate.unwrap_or(leg.rate);
        if rate == Rate::default() {
            return refuse(RefusalCause::BadRequest, "a rate of zero carries nothing");
        }
        let ahead = TimeWindow { start: window.start.max(now), end: window.end };
        let network = self.network_without([old]);
        let view = network.view(old.both_ways);
        let ends = (old.from, old.to);
        let stays = leg.route.iter().all(|link| view.has_free(*link, ahead, rate));
        let route = match stays {
            true => Some(leg.route.clone()),
            false => fixed_slot(view, ends, rate, ahead),
        };
        let Some(route) = route else {
            let problem = BookingProblem::Fixed { rate, window: ahead };
            let horizon = now + self.limits.horizon;
            let mut alternatives = refusal::alternatives(view, ends, &problem, horizon);
            // A change is of one leg: what takes several is no alternative to it.
            alternatives.retain(|a| a.legs.len() == 1 && rights.check(ends, &a.legs).is_ok());
            return Err(BookingRefusal {
                cause: RefusalCause::NoCapacity,
                detail: format!("{rate} is not free for {id} in that slot"),
                obstacles: refusal::obstacles(view, ends, rate, ahead),
                alternatives,
            });
        };
        let mut legs: Vec<Leg> = past.into_iter().cloned().collect();
        if begun && (rate != leg.rate || route != leg.route) {
            let used = TimeWindow { start: leg.window.start, end: now };
            legs.push(Leg { window: used, ..leg.clone() });
            legs.push(Leg { window: ahead, rate, route });
        } else {
            legs.push(Leg { window, rate, route });
        }
        if legs == old.legs {
            return Ok(Decision::default());
        }
        let denied = |detail: String| BookingRefusal::new(RefusalCause::Denied, detail);
        // Cutting back is nobody's to forbid: rights and quotas bind what is more than it was.
        let new = Reservation { legs, version: old.version + 1, ..Reservation::clone(old) };
        if new.volume() > old.volume() || rate > leg.rate {
            rights.check(ends, &new.legs).map_err(denied)?;
            let mut quota = self.policy.of(&old.project).clone();
            if old.state != super::ReservationState::Held {
                quota.held = None;
            }
            let more = crate::units::Bytes(new.volume().0.saturating_sub(old.volume().0));
            self.project_use(&old.project)
                .check(&quota, more)
                .map_err(|detail| BookingRefusal::new(RefusalCause::OverQuota, detail))?;
        }
        Ok(Decision { records: vec![BookRecord::Reservation(Arc::new(new))] })
    }
}
