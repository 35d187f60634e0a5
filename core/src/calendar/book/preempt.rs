//! Pre-emption: where a policy says so, reservations of lower priority make room.

use super::{Book, BookRecord, Decision, EndCause, ended};
use crate::calendar::request::BookingRequest;
use crate::calendar::reservation::Reservation;
use crate::units::Time;
use std::sync::Arc;

impl Book {
    /// A booking for which others go: no more of them than must, those of least priority first, and
    /// of equal ones the newest. `None` where no policy allows it, or it would not help.
    pub(super) fn preempt(&self, now: Time, request: &BookingRequest) -> Option<Decision> {
        let policy = self.policy.of(&request.project);
        if !policy.may_preempt {
            return None;
        }
        let slot = request.problem.window();
        let lower = |reservation: &&Arc<Reservation>| {
            reservation.priority < policy.priority && reservation.window().overlaps(&slot)
        };
        let mut victims: Vec<&Arc<Reservation>> = self.standing().filter(lower).collect();
        victims
            .sort_by_key(|reservation| (reservation.priority, std::cmp::Reverse(reservation.id)));
        let solved = |victims: &[&Arc<Reservation>]| {
            let network = self.network_without(victims.iter().copied());
            request.problem.solve(network.view(request.both_ways), request.ends)
        };
        solved(&victims)?;
        // Each that need not go is spared, the most important first.
        let mut at = victims.len();
        while at > 0 {
            at -= 1;
            let spared = victims.remove(at);
            if solved(&victims).is_none() {
                victims.insert(at, spared);
            }
        }
        let legs = solved(&victims)?;
        let mut records = vec![self.admitted(now, request, legs).ok()?];
        records.extend(
            victims.into_iter().map(|victim| {
                BookRecord::Reservation(Arc::new(ended(victim, EndCause::PreEmpted)))
            }),
        );
        Some(Decision { records })
    }
}
