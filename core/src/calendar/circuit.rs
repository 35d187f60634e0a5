//! From the book to devices: which circuits should be there now, and the steps from what is there.
//!
//! The steps are those of a reconcile loop: each can be repeated, and after all of them what is
//! there is what should be. Timers only say when to look again.

use super::reservation::{Reservation, ReservationId, ReservationState};
use super::routes::CircuitRoute;
use super::topology::SiteId;
use super::volume::Leg;
use crate::units::{Rate, Span, Time};
use std::collections::BTreeMap;

/// Routes of one reservation at most, each a circuit of its own.
const ROUTES: u32 = 16;

/// A circuit's number: that of its reservation, and which of its routes it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitNumber(pub u32);

impl CircuitNumber {
    /// The circuit of a reservation's route at `at`; nothing where there are too many.
    pub fn of(id: ReservationId, at: usize) -> Option<CircuitNumber> {
        let at = u32::try_from(at).ok().filter(|at| *at < ROUTES)?;
        u32::try_from(id.0).ok()?.checked_mul(ROUTES)?.checked_add(at).map(CircuitNumber)
    }

    /// Whose it is.
    pub fn reservation(self) -> ReservationId {
        ReservationId(u64::from(self.0 / ROUTES))
    }

    /// Which of its routes it takes.
    pub fn route(self) -> usize {
        (self.0 % ROUTES) as usize
    }
}

/// The routes of a reservation, each once: legs over one route are one circuit, whose rate changes.
pub fn routes(legs: &[Leg]) -> Vec<&CircuitRoute> {
    let mut once = Vec::new();
    for leg in legs {
        if !once.contains(&&leg.route) {
            once.push(&leg.route);
        }
    }
    once
}

/// A circuit as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredCircuit {
    /// Where it begins.
    pub from: SiteId,
    /// Where it ends.
    pub to: SiteId,
    /// Over which links.
    pub route: CircuitRoute,
    /// What it carries.
    pub rate: Rate,
    /// Whether both directions carry it.
    pub both_ways: bool,
    /// Whether it carries anything yet.
    pub open: bool,
}

/// A circuit as a device has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActualCircuit {
    /// What it carries.
    pub rate: Rate,
    /// Whether it carries anything.
    pub open: bool,
    /// Whether its ends and route are those that were ordered, as far as the device can tell.
    pub as_ordered: bool,
}

/// A step of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitStep {
    /// Make it ready, shut.
    Prepare(CircuitNumber, DesiredCircuit),
    /// Open it.
    Open(CircuitNumber),
    /// Give it another rate, while it carries.
    Change(CircuitNumber, Rate),
    /// Shut it.
    Shut(CircuitNumber),
    /// Take it down.
    Remove(CircuitNumber),
}

/// The circuits that should be there at `now`, made ready `ahead` of their time and kept, shut, for
/// `linger` after it.
pub fn desired<'a>(
    reservations: impl IntoIterator<Item = &'a Reservation>,
    now: Time,
    ahead: Span,
    linger: Span,
) -> BTreeMap<CircuitNumber, DesiredCircuit> {
    let mut wanted = BTreeMap::new();
    for reservation in reservations {
        if reservation.state != ReservationState::Provisioned {
            continue;
        }
        for (at, route) in routes(&reservation.legs).into_iter().enumerate() {
            let Some(number) = CircuitNumber::of(reservation.id, at) else { continue };
            let legs = || reservation.legs.iter().filter(|leg| leg.route == *route);
            let active = legs().find(|leg| leg.window.contains(now));
            let near = || {
                legs().find(|leg| leg.window.start <= now + ahead && now < leg.window.end + linger)
            };
            if let Some(leg) = active.or_else(near) {
                let circuit = DesiredCircuit {
                    from: reservation.from,
                    to: reservation.to,
                    route: route.clone(),
                    rate: leg.rate,
                    both_ways: reservation.both_ways,
                    open: active.is_some(),
                };
                wanted.insert(number, circuit);
            }
        }
    }
    wanted
}

/// When what is desired changes next after `now`.
pub fn next_change<'a>(
    reservations: impl IntoIterator<Item = &'a Reservation>,
    now: Time,
    ahead: Span,
    linger: Span,
) -> Option<Time> {
    let provisioned = reservations.into_iter().filter(|r| r.state == ReservationState::Provisioned);
    let times = provisioned.flat_map(|reservation| &reservation.legs).flat_map(|leg| {
        let (start, end) = (leg.window.start, leg.window.end);
        [start - ahead, start, end, end + linger]
    });
    times.filter(|time| *time > now).min()
}

/// The steps from `actual` to `desired`: what must stop first, then what must begin, then what only
/// has to be ready or gone.
pub fn steps(
    desired: &BTreeMap<CircuitNumber, DesiredCircuit>,
    actual: &BTreeMap<CircuitNumber, ActualCircuit>,
) -> Vec<CircuitStep> {
    let (mut first, mut then, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (&number, there) in actual {
        let wanted = desired.get(&number).filter(|_| there.as_ordered);
        if there.open && wanted.is_none_or(|wanted| !wanted.open) {
            first.push(CircuitStep::Shut(number));
        }
        match wanted {
            None => last.push(CircuitStep::Remove(number)),
            Some(wanted) => {
                if wanted.rate < there.rate {
                    first.push(CircuitStep::Change(number, wanted.rate));
                } else if wanted.rate > there.rate {
                    then.push(CircuitStep::Change(number, wanted.rate));
                }
                if wanted.open && !there.open {
                    then.push(CircuitStep::Open(number));
                }
            }
        }
    }
    for (&number, wanted) in desired {
        if !actual.contains_key(&number) {
            let prepare = CircuitStep::Prepare(number, wanted.clone());
            if wanted.open {
                then.extend([prepare, CircuitStep::Open(number)]);
            } else {
                last.push(prepare);
            }
        }
    }
    first.into_iter().chain(then).chain(last).collect()
}

/// What is booked for a circuit at `now`, if it should be up then.
pub(super) fn active_leg(
    reservation: &Reservation,
    number: CircuitNumber,
    now: Time,
) -> Option<&Leg> {
    let route = *routes(&reservation.legs).get(number.route())?;
    let mut legs = reservation.legs.iter().filter(|leg| leg.route == *route);
    let leg = legs.find(|leg| leg.window.contains(now))?;
    (reservation.state == ReservationState::Provisioned).then_some(leg)
}

/// What an agent says of a circuit against what is booked for it at `now`: how they differ, if they
/// do. One that is made ready before its time, or is down after it, does not.
pub fn contradiction(
    reservation: &Reservation,
    number: CircuitNumber,
    now: Time,
    is_up: bool,
    rate: Rate,
) -> Option<String> {
    let Some(leg) = active_leg(reservation, number, now) else {
        return is_up.then(|| "it is up outside of its time".to_owned());
    };
    if !is_up {
        return Some("it is not up in its time".to_owned());
    }
    (leg.rate != rate).then(|| format!("its device has {rate}, and {} is booked", leg.rate))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::calendar::{LinkId, TimeWindow};
    use crate::units::Rng;

    fn second(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn leg(start: u64, end: u64, rate: u64, link: u32) -> Leg {
        Leg {
            window: TimeWindow { start: second(start), end: second(end) },
            rate: Rate::from_bps(rate),
            route: vec![LinkId(link)],
        }
    }

    /// One that is provisioned, from the first site to the second and back.
    pub(in crate::calendar) fn reservation(id: u64, legs: Vec<Leg>) -> Reservation {
        Reservation {
            id: ReservationId(id),
            version: 1,
            owner: String::new(),
            project: String::new(),
            label: String::new(),
            from: SiteId(0),
            to: SiteId(1),
            both_ways: true,
            legs,
            state: ReservationState::Provisioned,
            ended: None,
            held_until: None,
            priority: 0,
            stranded: false,
            created: Time::ZERO,
        }
    }

    /// What a device that does each step has afterwards.
    fn obey(actual: &mut BTreeMap<CircuitNumber, ActualCircuit>, steps: &[CircuitStep]) {
        for step in steps {
            match step {
                CircuitStep::Prepare(number, circuit) => {
                    let rate = circuit.rate;
                    let new = ActualCircuit { rate, open: false, as_ordered: true };
                    actual.insert(*number, new);
                }
                CircuitStep::Open(number) => actual.get_mut(number).expect("there").open = true,
                CircuitStep::Shut(number) => actual.get_mut(number).expect("there").open = false,
                CircuitStep::Change(number, rate) => {
                    actual.get_mut(number).expect("there").rate = *rate;
                }
                CircuitStep::Remove(number) => drop(actual.remove(number)),
            }
        }
    }

    #[test]
    fn a_circuit_is_ready_before_its_time_and_open_in_it() {
        let known = [reservation(3, vec![leg(10, 20, 5, 0), leg(20, 30, 7, 0)])];
        let (ahead, linger) = (Span::from_secs(2), Span::from_secs(1));
        let mut actual = BTreeMap::new();
        let mut seen = Vec::new();
        let mut now = Time::ZERO;
        loop {
            let wanted = desired(&known, now, ahead, linger);
            let todo = steps(&wanted, &actual);
            obey(&mut actual, &todo);
            assert_eq!(steps(&wanted, &actual), [], "nothing is left to do");
            seen.extend(
                actual.values().map(|c| (now.as_nanos() / 1_000_000_000, c.rate.as_bps(), c.open)),
            );
            match next_change(&known, now, ahead, linger) {
                Some(next) => now = next,
                None => break,
            }
        }
        let expected = [
            (8, 5, false),
            (10, 5, true),
            (18, 5, true),
            (20, 7, true),
            (21, 7, true),
            (30, 7, false),
        ];
        assert_eq!(seen, expected);
        assert!(actual.is_empty());
    }

    #[test]
    fn any_device_is_brought_to_what_is_booked() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let known: Vec<Reservation> = (1..1 + rng.below(6))
                .map(|id| {
                    let start = rng.below(20);
                    let legs = vec![leg(
                        start,
                        start + 1 + rng.below(20),
                        1 + rng.below(9),
                        rng.below(3) as u32,
                    )];
                    let mut known = reservation(id, legs);
                    if rng.below(4) == 0 {
                        known.state = ReservationState::Released;
                    }
                    known
                })
                .collect();
            // A device that has been meddled with: strangers, other rates, other routes.
            let mut actual = BTreeMap::new();
            for _ in 0..rng.below(5) {
                let number = CircuitNumber::of(ReservationId(1 + rng.below(8)), 0);
                let (open, as_ordered) = (rng.below(2) == 0, rng.below(4) > 0);
                let rate = Rate::from_bps(1 + rng.below(9));
                let there = ActualCircuit { rate, open, as_ordered };
                actual.insert(number.expect("a number"), there);
            }
            let now = second(rng.below(40));
            let wanted = desired(&known, now, Span::from_secs(2), Span::ZERO);
            for _ in 0..2 {
                let todo = steps(&wanted, &actual);
                obey(&mut actual, &todo);
            }
            assert_eq!(steps(&wanted, &actual), [], "seed {seed}");
            let open = |number: &CircuitNumber| wanted.get(number).is_some_and(|c| c.open);
            assert!(actual.iter().all(|(number, c)| c.open == open(number)), "seed {seed}");
            assert_eq!(actual.len(), wanted.len(), "seed {seed}");
        }
    }

    #[test]
    fn a_word_that_is_not_as_booked_is_found() {
        let mut known = reservation(3, vec![leg(10, 20, 5, 0), leg(15, 30, 7, 1)]);
        let differs = |known: &Reservation, route, at, is_up, rate| {
            let number = CircuitNumber::of(known.id, route).expect("a number");
            contradiction(known, number, second(at), is_up, Rate::from_bps(rate)).is_some()
        };
        for (route, at, is_up, rate, expected) in [
            (0, 9, false, 5, false),
            (0, 9, true, 5, true),
            (0, 10, true, 5, false),
            (0, 10, false, 5, true),
            (0, 10, true, 7, true),
            (0, 15, true, 7, true),
            (0, 20, true, 5, true),
            (1, 14, true, 7, true),
            (1, 15, true, 7, false),
            (1, 15, true, 5, true),
            (1, 15, false, 7, true),
            (1, 30, true, 7, true),
            (1, 30, false, 7, false),
            (2, 15, true, 7, true),
        ] {
            let seen = differs(&known, route, at, is_up, rate);
            assert_eq!(seen, expected, "{route} {at} {is_up} {rate}");
        }
        known.state = ReservationState::Released;
        assert!(differs(&known, 0, 12, true, 5) && !differs(&known, 0, 12, false, 5));
    }

    #[test]
    fn numbers_tell_whose_a_circuit_is() {
        let number = CircuitNumber::of(ReservationId(17), 2).expect("a number");
        assert_eq!((number.reservation(), number.route()), (ReservationId(17), 2));
        assert_eq!(CircuitNumber::of(ReservationId(17), 16), None);
        assert_eq!(CircuitNumber::of(ReservationId(u64::MAX), 0), None);
    }
}
