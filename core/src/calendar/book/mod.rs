//! The calendar's one writer as a machine: it decides what a request changes, and applies what has
//! been made durable.
//!
//! `handle` and `poll` decide and change nothing; what they decide are whole new values of what is
//! kept ([`BookRecord`]). The edge makes them durable and has them applied. So a full disk costs an
//! answer and never a booking, and a restart applies what was stored, in any order.

mod change;
mod maintenance;
mod preempt;
mod reserve;

use super::network::NetworkTimelines;
use super::policy::{BookingPolicy, ProjectUse};
use super::refusal::{BookingRefusal, RefusalCause};
use super::request::BookingRequest;
use super::reservation::{EndCause, Reservation, ReservationId, ReservationState, ReservationVerb};
use super::topology::{LinkId, Topology};
use super::window::TimeWindow;
use crate::units::{Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bounds of what is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookLimits {
    /// How far ahead bookings may reach.
    pub horizon: Span,
    /// The longest hold.
    pub longest_hold: Span,
    /// How far in the past a slot may begin and still be taken for one that begins now.
    pub tolerance: Span,
}

impl Default for BookLimits {
    fn default() -> BookLimits {
        BookLimits {
            horizon: Span::from_secs(400 * 86_400),
            longest_hold: Span::from_secs(900),
            tolerance: Span::from_secs(5),
        }
    }
}

/// A window in which a link is closed for maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkClosure {
    /// Its number.
    pub id: u64,
    /// One direction of the link; both are closed.
    pub link: LinkId,
    /// When.
    pub window: TimeWindow,
    /// What is done there.
    pub reason: String,
    /// Whether it was taken back.
    pub withdrawn: bool,
}

/// One thing that is kept, whole, in its newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookRecord {
    /// A reservation.
    Reservation(Arc<Reservation>),
    /// A closure.
    Closure(LinkClosure),
}

/// What an owner wants changed of a reservation that stands; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationChange {
    /// The rate.
    pub rate: Option<Rate>,
    /// The start.
    pub start: Option<Time>,
    /// The end.
    pub end: Option<Time>,
}

/// A request to the book.
#[derive(Clone, Debug)]
pub enum BookOrder {
    /// Book.
    Reserve(BookingRequest),
    /// Commit, abort, provision, release or terminate.
    Perform {
        /// Which.
        id: ReservationId,
        /// What to do.
        verb: ReservationVerb,
        /// The version that is meant; any when `None`.
        version: Option<u64>,
    },
    /// Change in place.
    Change {
        /// Which.
        id: ReservationId,
        /// To what.
        change: ReservationChange,
        /// The version that is meant; any when `None`.
        version: Option<u64>,
        /// What the owner may book.
        rights: super::policy::BookingRights,
    },
    /// Close a link for maintenance, and move what can be moved.
    Close {
        /// One direction of it.
        link: LinkId,
        /// When.
        window: TimeWindow,
        /// Why.
        reason: String,
    },
    /// Take a closure back.
    Reopen {
        /// Its number.
        closure: u64,
    },
}

/// What to make durable, and then to apply. The first record is the one that was asked about; none,
/// when all is already as was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// New values, in order.
    pub records: Vec<BookRecord>,
}

/// The calendar.
#[derive(Clone, Debug)]
pub struct Book {
    network: NetworkTimelines,
    policy: BookingPolicy,
    limits: BookLimits,
    reservations: BTreeMap<ReservationId, Arc<Reservation>>,
    closures: BTreeMap<u64, LinkClosure>,
    /// The reservations that take bandwidth, by when something happens to them by itself.
    due: BTreeSet<(Time, ReservationId)>,
    uses: BTreeMap<String, ProjectUse>,
    next_id: u64,
    next_closure: u64,
    /// The latest time that was told.
    latest: Time,
}

impl Book {
    /// An empty book.
    pub fn new(topology: Arc<Topology>, policy: BookingPolicy, limits: BookLimits) -> Book {
        Book {
            network: NetworkTimelines::new(topology),
            policy,
            limits,
            reservations: BTreeMap::new(),
            closures: BTreeMap::new(),
            due: BTreeSet::new(),
            uses: BTreeMap::new(),
            next_id: 1,
            next_closure: 1,
            latest: Time::ZERO,
        }
    }

    /// The network with its lists; a clone of it is a snapshot.
    pub fn network(&self) -> &NetworkTimelines {
        &self.network
    }

    /// Its bounds.
    pub fn limits(&self) -> &BookLimits {
        &self.limits
    }

    /// A reservation.
    pub fn reservation(&self, id: ReservationId) -> Option<&Arc<Reservation>> {
        self.reservations.get(&id)
    }

    /// Every reservation, in the order of their numbers.
    pub fn reservations(&self) -> impl DoubleEndedIterator<Item = &Arc<Reservation>> {
        self.reservations.values()
    }

    /// The reservations that are not over.
    pub fn standing(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.due.iter().filter_map(|(_, id)| self.reservations.get(id))
    }

    /// Every closure that was not taken back.
    pub fn closures(&self) -> impl Iterator<Item = &LinkClosure> {
        self.closures.values().filter(|closure| !closure.withdrawn)
    }

    /// The closure of that number, also one that was withdrawn.
    pub fn closure(&self, id: u64) -> Option<&LinkClosure> {
        self.closures.get(&id)
    }

    /// What `project` has.
    pub fn project_use(&self, project: &str) -> ProjectUse {
        self.uses.get(project).copied().unwrap_or_default()
    }

    /// `now`, or the latest time that was told: a clock that steps back brings nothing back.
    pub fn now(&self, now: Time) -> Time {
        self.latest.max(now)
    }

    /// Leaves out the numbers up to these: they were given to what is over.
    pub fn skip_numbers(&mut self, reservations: u64, closures: u64) {
        self.next_id = self.next_id.max(reservations + 1);
        self.next_closure = self.next_closure.max(closures + 1);
    }

    /// Takes in what time it is: of all later decisions none is made before it.
    pub fn advance(&mut self, now: Time) {
        self.latest = self.now(now);
    }

    /// Decides what `order` changes.
    ///
    /// # Errors
    /// A refusal with what stood in the way, and what could be had instead.
    pub fn handle(&self, now: Time, order: &BookOrder) -> Result<Decision, BookingRefusal> {
        let now = self.now(now);
        match order {
            BookOrder::Reserve(request) => self.reserve(now, request),
            BookOrder::Perform { id, verb, version } => {
                self.change_state(now, *id, *verb, *version)
            }
            BookOrder::Change { id, change, version, rights } => {
                self.change(now, *id, change, *version, rights)
            }
            BookOrder::Close { link, window, reason } => self.close(now, *link, *window, reason),
            BookOrder::Reopen { closure } => self.reopen(*closure),
        }
    }

    /// What timers make due by `now`: holds that ran out, reservations whose schedule ended.
    pub fn poll(&self, now: Time) -> Decision {
        let now = self.now(now);
        let due = self.due.iter().take_while(|(time, _)| *time <= now);
        let over = |reservation: &Arc<Reservation>| {
            let held = reservation.state == ReservationState::Held;
            let cause = if held { EndCause::Expired } else { EndCause::Passed };
            BookRecord::Reservation(Arc::new(ended(reservation, cause)))
        };
        Decision {
            records: due.filter_map(|(_, id)| self.reservations.get(id)).map(over).collect(),
        }
    }

    /// When `poll` has something to say next.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    fn change_state(
        &self,
        now: Time,
        id: ReservationId,
        verb: ReservationVerb,
        version: Option<u64>,
    ) -> Result<Decision, BookingRefusal> {
        let old = self.found(id, version)?;
        let wrong = || {
            let state = format!("{:?}", old.state).to_lowercase();
            let verb = format!("{verb:?}").to_lowercase();
            BookingRefusal::new(
                RefusalCause::WrongState,
                format!("{id} is {state}: it cannot {verb}"),
            )
        };
        let (state, cause) = old.state.after(verb).ok_or_else(wrong)?;
        if old.due().is_some_and(|due| due <= now) {
            // Its timer ran out, whether or not that has been written down yet.
            return Err(BookingRefusal::new(
                RefusalCause::WrongState,
                format!("{id} is over: its time has run out"),
            ));
        }
        if state == old.state {
            return Ok(Decision::default());
        }
        let new = match cause {
            Some(cause) => ended(old, cause),
            None => Reservation {
                state,
                held_until: None,
                version: old.version + 1,
                ..Reservation::clone(old)
            },
        };
        Ok(Decision { records: vec![BookRecord::Reservation(Arc::new(new))] })
    }

    fn found(
        &self,
        id: ReservationId,
        version: Option<u64>,
    ) -> Result<&Arc<Reservation>, BookingRefusal> {
        let missing =
            || BookingRefusal::new(RefusalCause::NotFound, format!("there is no reservation {id}"));
        let found = self.reservations.get(&id).ok_or_else(missing)?;
        match version.filter(|version| *version != found.version) {
            None => Ok(found),
            Some(version) => Err(BookingRefusal::new(
                RefusalCause::Stale,
                format!("{id} has version {}, and version {version} was meant", found.version),
            )),
        }
    }

    /// Applies a record that is durable; returns what takes it back.
    pub fn apply(&mut self, record: &BookRecord) -> Option<BookRecord> {
        match record {
            BookRecord::Reservation(new) => {
                let old = self.reservations.insert(new.id, Arc::clone(new));
                self.next_id = self.next_id.max(new.id.0 + 1);
                if let Some(old) = &old {
                    self.count(old, false);
                }
                self.count(new, true);
                old.map(BookRecord::Reservation)
            }
            BookRecord::Closure(new) => {
                let old = self.closures.insert(new.id, new.clone());
                self.next_closure = self.next_closure.max(new.id + 1);
                if let Some(old) = old.as_ref().filter(|old| !old.withdrawn) {
                    self.network.reopen(old.link, old.window);
                }
                if !new.withdrawn {
                    self.network.close(new.link, new.window);
                }
                old.map(BookRecord::Closure)
            }
        }
    }

    /// Takes back what [`apply`](Self::apply) did, given what that returned: for records that did
    /// not become durable after all. Numbers that were given stay given.
    pub fn take_back(&mut self, record: &BookRecord, before: Option<BookRecord>) {
        if let Some(before) = before {
            self.apply(&before);
            return;
        }
        match record {
            BookRecord::Reservation(new) => {
                if let Some(new) = self.reservations.remove(&new.id) {
                    self.count(&new, false);
                }
            }
            BookRecord::Closure(new) => {
                if let Some(new) = self.closures.remove(&new.id).filter(|new| !new.withdrawn) {
                    self.network.reopen(new.link, new.window);
                }
            }
        }
    }

    /// Takes a reservation into, or out of, the lists, the timers and the uses.
    fn count(&mut self, reservation: &Reservation, add: bool) {
        let Some(due) = reservation.due() else { return };
        let usage = self.uses.entry(reservation.project.clone()).or_default();
        let volume = u128::from(reservation.volume().0);
        let held = if reservation.state == ReservationState::Held { volume } else { 0 };
        if add {
            usage.held += held;
            usage.booked += volume;
            self.due.insert((due, reservation.id));
        } else {
            usage.held = usage.held.saturating_sub(held);
            usage.booked = usage.booked.saturating_sub(volume);
            self.due.remove(&(due, reservation.id));
        }
        let taken: Vec<_> = reservation.taken(self.network.view(false)).collect();
        for (links, window, rate) in taken {
            if add {
                self.network.book(&links, window, rate);
            } else {
                self.network.give_back(&links, window, rate);
            }
        }
    }

    /// The network without what `reservations` take.
    fn network_without<'a>(
        &self,
        reservations: impl IntoIterator<Item = &'a Arc<Reservation>>,
    ) -> NetworkTimelines {
        let mut network = self.network.clone();
        for reservation in reservations {
            for (links, window, rate) in reservation.taken(self.network.view(false)) {
                network.give_back(&links, window, rate);
            }
        }
        network
    }
}

/// `reservation`, over because of `cause`.
fn ended(reservation: &Reservation, cause: EndCause) -> Reservation {
    Reservation {
        state: ReservationState::Terminated,
        ended: Some(cause),
        held_until: None,
        version: reservation.version + 1,
        ..reservation.clone()
    }
}

#[cfg(test)]
mod tests;
