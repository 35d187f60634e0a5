//! The book against a second, plain one: an array of instants, every route tried one by one.

use super::*;
use crate::calendar::oracle::fits;
use crate::calendar::policy::{BookingRights, ProjectPolicy};
use crate::calendar::refusal::AlternativeKind;
use crate::calendar::request::BookingProblem;
use crate::calendar::topology::{SiteId, TopologySpec};
use crate::calendar::volume::VolumeShape;
use crate::units::{Bytes, Rng};

const GBIT: u64 = 1_000_000_000;

fn hour(hours: u64) -> Time {
    Time::from_nanos(hours * 3_600_000_000_000)
}

fn hours(start: u64, end: u64) -> TimeWindow {
    TimeWindow { start: hour(start), end: hour(end) }
}

fn gbit(rate: u64) -> Rate {
    Rate::from_bps(rate * GBIT)
}

/// Two ways from `a` to `d`: over `b` with 10 Gbit/s, over `c` with 4.
fn diamond() -> Topology {
    let spec = r#"
        name = "diamond"
        sites = ["a", "b", "c", "d"]
        link = [
          { between = ["a", "b"], rate = "10G", one_way_delay = "1ms" },
          { between = ["b", "d"], rate = "10G", one_way_delay = "1ms" },
          { between = ["a", "c"], rate = "4G", one_way_delay = "5ms" },
          { between = ["c", "d"], rate = "4G", one_way_delay = "5ms" },
        ]"#;
    Topology::new(&TopologySpec::from_toml(spec).expect("TOML")).expect("makes sense")
}

fn book() -> Book {
    Book::new(Arc::new(diamond()), BookingPolicy::default(), BookLimits::default())
}

fn anything() -> BookingRights {
    BookingRights { endpoints: (0..4).map(SiteId).collect(), ..BookingRights::default() }
}

fn request(problem: BookingProblem) -> BookingRequest {
    BookingRequest {
        ends: (SiteId(0), SiteId(3)),
        problem,
        both_ways: true,
        owner: "ada".into(),
        project: "climate".into(),
        label: String::new(),
        hold: None,
        provision: true,
        rights: anything(),
    }
}

fn fixed(rate: Rate, window: TimeWindow) -> BookOrder {
    BookOrder::Reserve(request(BookingProblem::Fixed { rate, window }))
}

/// Handles `order` at `now` and applies what it decides; returns the first record's reservation.
fn done(book: &mut Book, now: Time, order: &BookOrder) -> Result<Arc<Reservation>, BookingRefusal> {
    let decision = book.handle(now, order)?;
    for record in &decision.records {
        book.apply(record);
    }
    let first = decision.records.iter().find_map(|record| match record {
        BookRecord::Reservation(reservation) => Some(Arc::clone(reservation)),
        BookRecord::Closure(_) => None,
    });
    first.ok_or_else(|| BookingRefusal::new(RefusalCause::NotFound, "nothing changed"))
}

fn verb_order(id: ReservationId, verb: ReservationVerb) -> BookOrder {
    BookOrder::Perform { id, verb, version: None }
}

#[test]
fn a_refusal_says_what_stood_in_the_way_and_what_can_be_had() {
    let mut book = book();
    done(&mut book, hour(0), &fixed(gbit(8), hours(1, 3))).expect("free");
    done(&mut book, hour(0), &fixed(gbit(3), hours(2, 4))).expect("free on the other way");
    let refusal = done(&mut book, hour(0), &fixed(gbit(3), hours(1, 3))).expect_err("taken");
    assert_eq!(refusal.cause, RefusalCause::NoCapacity);
    let blocked: Vec<&str> = refusal
        .obstacles
        .iter()
        .map(|o| book.network.topology.link(o.link).name.as_str())
        .collect();
    assert_eq!(blocked, ["a>b", "a>c"]);
    assert_eq!(refusal.obstacles[1].window, hours(2, 3), "free until the second began");
    assert_eq!(refusal.obstacles[1].free, gbit(1));
    let kinds: Vec<AlternativeKind> = refusal.alternatives.iter().map(|a| a.kind).collect();
    for kind in [AlternativeKind::Later, AlternativeKind::Slower, AlternativeKind::SeveralRoutes] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    // 3 Gbit/s: 2 on the one way and 1 on the other, at the time that was asked for.
    for alternative in &refusal.alternatives {
        let legs = BookingProblem::Legs(alternative.legs.clone());
        let chosen = done(&mut book.clone(), hour(0), &BookOrder::Reserve(request(legs)));
        assert_eq!(chosen.expect("as offered").legs, alternative.legs);
    }
    let again = BookingProblem::Legs(refusal.alternatives[0].legs.clone());
    done(&mut book, hour(0), &BookOrder::Reserve(request(again.clone()))).expect("free");
    done(&mut book, hour(0), &BookOrder::Reserve(request(again.clone()))).expect("3 times 3 of 10");
    done(&mut book, hour(0), &BookOrder::Reserve(request(again.clone()))).expect("3 times 3 of 10");
    let gone = done(&mut book, hour(0), &BookOrder::Reserve(request(again)));
    assert!(!gone.expect_err("not free any more").alternatives.is_empty());
}

#[test]
fn a_hold_ends_by_itself_and_its_bandwidth_is_free_again() {
    let mut book = book();
    let hold = |seconds| {
        let problem = BookingProblem::Fixed { rate: gbit(10), window: hours(1, 2) };
        let hold = Some(Span::from_secs(seconds));
        BookOrder::Reserve(BookingRequest { hold, ..request(problem) })
    };
    let held = done(&mut book, hour(0), &hold(60)).expect("free");
    assert_eq!(held.state, ReservationState::Held);
    assert!(done(&mut book, hour(0), &hold(60)).is_err(), "held bandwidth is not free");
    let until = hour(0) + Span::from_secs(60);
    assert_eq!(book.next_due(), Some(until));
    let late = done(&mut book, until, &verb_order(held.id, ReservationVerb::Commit));
    assert_eq!(late.expect_err("too late").cause, RefusalCause::WrongState);
    for record in book.poll(until).records {
        book.apply(&record);
    }
    assert_eq!(book.reservation(held.id).and_then(|r| r.ended), Some(EndCause::Expired));
    let again = done(&mut book, until, &hold(60)).expect("free again");
    let committed =
        done(&mut book, until, &verb_order(again.id, ReservationVerb::Commit)).expect("held");
    assert_eq!((committed.state, committed.version), (ReservationState::Committed, 2));
    assert_eq!(book.next_due(), Some(hour(2)));
    let provisioned = done(&mut book, until, &verb_order(again.id, ReservationVerb::Provision));
    let provisioned = provisioned.expect("stands");
    assert_eq!(provisioned.active(hour(1)).count(), 1);
    assert_eq!(provisioned.active(hour(2)).count(), 0, "half-open");
    for record in book.poll(hour(2)).records {
        book.apply(&record);
    }
    assert_eq!(book.reservation(again.id).and_then(|r| r.ended), Some(EndCause::Passed));
    assert_eq!(book.project_use("climate"), ProjectUse::default());
}

#[test]
fn what_makes_no_sense_is_one_clear_refusal() {
    let mut book = book();
    let now = hour(10);
    for (problem, word) in [
        (BookingProblem::Fixed { rate: gbit(1), window: hours(8, 12) }, "past"),
        (BookingProblem::Fixed { rate: gbit(1), window: hours(14, 12) }, "before it starts"),
        (BookingProblem::Fixed { rate: gbit(11), window: hours(12, 14) }, "any link"),
        (BookingProblem::Fixed { rate: gbit(0), window: hours(12, 14) }, "zero"),
        (BookingProblem::Fixed { rate: gbit(1), window: hours(12, 100_000) }, "days"),
        (
            BookingProblem::First {
                rate: gbit(1),
                duration: Span::from_secs(9_000),
                search: hours(12, 13),
            },
            "longer",
        ),
    ] {
        let refusal = done(&mut book, now, &BookOrder::Reserve(request(problem.clone())));
        let refusal = refusal.expect_err("refused");
        assert_eq!(refusal.cause, RefusalCause::BadRequest, "{problem:?}");
        assert!(refusal.detail.contains(word), "{}", refusal.detail);
    }
    let same = BookingRequest {
        ends: (SiteId(1), SiteId(1)),
        ..request(BookingProblem::Fixed { rate: gbit(1), window: hours(12, 14) })
    };
    assert!(done(&mut book, now, &BookOrder::Reserve(same)).is_err());
}

#[test]
fn a_change_is_whole_or_not_at_all() {
    let mut book = book();
    let first = done(&mut book, hour(0), &fixed(gbit(6), hours(1, 5))).expect("free");
    let second = done(&mut book, hour(0), &fixed(gbit(4), hours(3, 5))).expect("free");
    let change = |rate, end, version| BookOrder::Change {
        id: first.id,
        change: ReservationChange { rate, end, start: None },
        version,
        rights: anything(),
    };
    let before = book.network.clone();
    let refused = done(&mut book, hour(0), &change(Some(gbit(7)), None, None)).expect_err("taken");
    assert_eq!(refused.cause, RefusalCause::NoCapacity);
    assert!(!refused.alternatives.is_empty());
    for (id, _) in book.network.topology.links() {
        assert_eq!(book.network.timeline(id), before.timeline(id), "nothing changed");
    }
    let stale = done(&mut book, hour(0), &change(Some(gbit(5)), None, Some(7)));
    assert_eq!(stale.expect_err("another version").cause, RefusalCause::Stale);
    // In the middle of its slot: what was used stays, the rest has the new rate.
    let changed = done(&mut book, hour(2), &change(Some(gbit(5)), Some(hour(4)), Some(1)));
    let changed = changed.expect("less fits");
    let legs: Vec<_> = changed.legs.iter().map(|leg| (leg.window, leg.rate)).collect();
    assert_eq!(legs, [(hours(1, 2), gbit(6)), (hours(2, 4), gbit(5))]);
    assert_eq!(changed.version, 2);
    // The other moves to the wider way only with what is free there.
    let wider = BookOrder::Change {
        id: second.id,
        change: ReservationChange { rate: Some(gbit(5)), ..ReservationChange::default() },
        version: None,
        rights: anything(),
    };
    assert_eq!(done(&mut book, hour(2), &wider).expect("fits").legs[0].rate, gbit(5));
}

#[test]
fn maintenance_moves_what_it_can_and_says_what_it_cannot() {
    let mut book = book();
    let small = done(&mut book, hour(0), &fixed(gbit(3), hours(1, 5))).expect("free");
    let large = done(&mut book, hour(0), &fixed(gbit(5), hours(2, 4))).expect("free");
    let link = book.network.topology.link_named("b>d").expect("a link");
    let close = BookOrder::Close { link, window: hours(3, 6), reason: "new optics".into() };
    done(&mut book, hour(0), &close).expect("closed");
    let small = Arc::clone(book.reservation(small.id).expect("there"));
    let over: Vec<&str> = small.legs[0]
        .route
        .iter()
        .map(|id| book.network.topology.link(*id).name.as_str())
        .collect();
    assert_eq!((over, small.stranded), (vec!["a>c", "c>d"], false));
    assert!(book.reservation(large.id).is_some_and(|large| large.stranded));
    assert!(done(&mut book, hour(0), &fixed(gbit(2), hours(3, 4))).is_err(), "closed");
    done(&mut book, hour(0), &BookOrder::Reopen { closure: 1 }).expect("whole again");
    assert!(book.reservation(large.id).is_some_and(|large| !large.stranded));
    done(&mut book, hour(0), &fixed(gbit(2), hours(3, 4))).expect("open");
}

#[test]
fn others_make_room_only_where_a_policy_says_so() {
    let mut policy = BookingPolicy::default();
    let urgent = ProjectPolicy { priority: 9, may_preempt: true, ..ProjectPolicy::default() };
    policy.projects.insert("urgent".into(), urgent);
    let mut book = Book::new(Arc::new(diamond()), policy, BookLimits::default());
    let old = done(&mut book, hour(0), &fixed(gbit(5), hours(1, 3))).expect("free");
    let new = done(&mut book, hour(0), &fixed(gbit(5), hours(1, 3))).expect("free");
    let small = done(&mut book, hour(0), &fixed(gbit(4), hours(1, 3))).expect("free");
    let plain = done(&mut book, hour(0), &fixed(gbit(5), hours(1, 3))).expect_err("no policy");
    assert_eq!(plain.cause, RefusalCause::NoCapacity);
    let mut asked = request(BookingProblem::Fixed { rate: gbit(5), window: hours(1, 2) });
    asked.project = "urgent".into();
    done(&mut book, hour(0), &BookOrder::Reserve(asked)).expect("room is made");
    let ended = |id| book.reservation(id).and_then(|r| r.ended);
    assert_eq!(ended(new.id), Some(EndCause::PreEmpted), "the newest of equals goes");
    assert_eq!((ended(old.id), ended(small.id)), (None, None), "no more than must");
}

#[test]
fn quotas_bound_holds_and_bookings() {
    let mut policy = BookingPolicy::default();
    let quota = ProjectPolicy {
        held: Some(Bytes(450_000_000_000)),
        booked: Some(Bytes(900_000_000_000)),
        ..ProjectPolicy::default()
    };
    policy.others = quota;
    let mut book = Book::new(Arc::new(diamond()), policy, BookLimits::default());
    // 1 Gbit/s for an hour is 450 GB.
    let hold = |window| {
        let problem = BookingProblem::Fixed { rate: gbit(1), window };
        BookOrder::Reserve(BookingRequest { hold: Some(Span::from_secs(60)), ..request(problem) })
    };
    done(&mut book, hour(0), &hold(hours(1, 2))).expect("within");
    let squatter = done(&mut book, hour(0), &hold(hours(5, 6))).expect_err("holds all it may");
    assert_eq!(squatter.cause, RefusalCause::OverQuota);
    done(&mut book, hour(0), &fixed(gbit(1), hours(1, 2))).expect("a booking is no hold");
    let more = done(&mut book, hour(0), &fixed(gbit(1), hours(3, 4))).expect_err("booked");
    assert_eq!(more.cause, RefusalCause::OverQuota);
}

/// The plain second book: what each standing reservation takes, counted anew for each instant.
fn plain_use(book: &Book, link: LinkId, tick: u64) -> u64 {
    let standing = book.reservations.values().filter(|r| r.state != ReservationState::Terminated);
    let mut sum = 0;
    for reservation in standing {
        for leg in &reservation.legs {
            let crosses = leg.route.iter().any(|id| {
                *id == link
                    || (reservation.both_ways && book.network.topology.link(*id).reverse == link)
            });
            if crosses && leg.window.contains(hour(tick)) {
                sum += leg.rate.as_bps();
            }
        }
    }
    sum
}

/// Random reserve, change, commit, abort, time-out, release and terminate operations; returns how
/// many were admitted and how many refused.
fn random_life(seed: u64, operations: u64) -> (u64, u64) {
    const TICKS: u64 = 24;
    let mut rng = Rng::new(seed);
    let mut book = book();
    let (mut now, mut admitted, mut refused) = (0, 0, 0);
    let mut ids = Vec::new();
    for _ in 0..operations {
        if rng.below(12) == 0 && now + 1 < TICKS {
            now += 1;
        }
        for record in book.poll(hour(now)).records {
            book.apply(&record);
        }
        let some = (!ids.is_empty()).then(|| ids[rng.below(ids.len() as u64) as usize]);
        let start = now + rng.below(TICKS - now);
        let slot = hours(start, start + 1 + rng.below(TICKS - start));
        let rate = gbit(1 + rng.below(6));
        let order = match (rng.below(10), some) {
            (0..=4, _) | (_, None) => {
                let problem = BookingProblem::Fixed { rate, window: slot };
                let hold = (rng.below(2) == 0).then(|| Span::from_secs(3600));
                let both_ways = rng.below(2) == 0;
                BookOrder::Reserve(BookingRequest { hold, both_ways, ..request(problem) })
            }
            (5, Some(id)) => verb_order(id, ReservationVerb::Commit),
            (6, Some(id)) => verb_order(id, ReservationVerb::Abort),
            (7, Some(id)) => verb_order(id, ReservationVerb::Terminate),
            (8, Some(id)) => verb_order(id, ReservationVerb::Provision),
            (_, Some(id)) => BookOrder::Change {
                id,
                change: ReservationChange { rate: Some(rate), start: None, end: Some(slot.end) },
                version: None,
                rights: anything(),
            },
        };
        let limits = BookLimits { longest_hold: Span::from_secs(3600), ..book.limits };
        book.limits = limits;
        // Whether some route has the rate in every instant, by the plain count.
        let plainly_free = |book: &Book,
                            window: TimeWindow,
                            rate: Rate,
                            both: bool,
                            less: &[(LinkId, TimeWindow, u64)]| {
            [["a>b", "b>d"], ["a>c", "c>d"]].iter().any(|route| {
                route.iter().all(|name| {
                    let link = book.network.topology.link_named(name).expect("a link");
                    let reverse = book.network.topology.link(link).reverse;
                    let ways = if both { vec![link, reverse] } else { vec![link] };
                    ways.iter().all(|way| {
                        let capacity = book.network.topology.link(*way).capacity.as_bps();
                        (0..TICKS + 1).filter(|t| window.contains(hour(*t))).all(|t| {
                            let own: u64 = less
                                .iter()
                                .filter(|(link, window, _)| link == way && window.contains(hour(t)))
                                .map(|(_, _, rate)| rate)
                                .sum();
                            plain_use(book, *way, t) - own + rate.as_bps() <= capacity
                        })
                    })
                })
            })
        };
        let expected = match &order {
            BookOrder::Reserve(r) => Some(plainly_free(&book, slot, rate, r.both_ways, &[])),
            BookOrder::Change { id, .. } => book.reservation(*id).and_then(|old| {
                let last = old.legs.last()?;
                let standing =
                    old.takes_bandwidth() && old.due().is_some_and(|due| due > hour(now));
                let window = TimeWindow { start: last.window.start.max(hour(now)), end: slot.end };
                let alone = old.legs.iter().filter(|leg| leg.window.end > hour(now)).count() == 1;
                let own: Vec<_> = old
                    .taken(book.network.view(false))
                    .flat_map(|(links, window, rate)| {
                        links.into_iter().map(move |link| (link, window, rate.as_bps()))
                    })
                    .collect();
                (standing && alone && !window.is_empty())
                    .then(|| plainly_free(&book, window, rate, old.both_ways, &own))
            }),
            _ => None,
        };
        let outcome = book.handle(hour(now), &order);
        match (&outcome, expected) {
            (Ok(_), Some(false)) => panic!("seed {seed}: admitted what is not free: {order:?}"),
            (Err(refusal), Some(true)) => {
                panic!("seed {seed}: false refusal: {refusal:?} {order:?}")
            }
            (Err(refusal), Some(false)) => {
                refused += 1;
                for alternative in &refusal.alternatives {
                    let BookOrder::Reserve(asked) = &order else { continue };
                    let view = book.network.view(asked.both_ways);
                    assert!(
                        fits(view, asked.ends, &alternative.legs),
                        "seed {seed}: {alternative:?}"
                    );
                }
            }
            (Ok(_), Some(true)) => admitted += 1,
            _ => {}
        }
        let Ok(decision) = outcome else { continue };
        // Now and then the disk is full: then all is as it was.
        let before: Vec<Option<BookRecord>> =
            decision.records.iter().map(|record| book.apply(record)).collect();
        if rng.below(16) == 0 {
            for (record, before) in decision.records.iter().zip(before).rev() {
                book.take_back(record, before);
            }
        } else if let (BookOrder::Reserve(_), Some(BookRecord::Reservation(new))) =
            (&order, decision.records.first())
        {
            ids.push(new.id);
        }
        for (id, link) in book.network.topology.links() {
            for tick in now..TICKS + 1 {
                let used = plain_use(&book, id, tick);
                assert!(
                    used <= link.capacity.as_bps(),
                    "seed {seed}: {} is oversubscribed",
                    link.name
                );
                let slot = TimeWindow { start: hour(tick), end: hour(tick) + Span::from_nanos(1) };
                let free = book.network.timeline(id).least_free(slot).as_bps();
                assert_eq!(
                    free,
                    link.capacity.as_bps() - used,
                    "seed {seed}: {} at {tick}",
                    link.name
                );
            }
        }
    }
    // A book that is told all that was stored, in another order, is the same book.
    let mut again = super::tests::book();
    for reservation in book.reservations.values().rev() {
        again.apply(&BookRecord::Reservation(Arc::clone(reservation)));
    }
    for (id, _) in book.network.topology.links() {
        assert_eq!(book.network.timeline(id), again.network.timeline(id), "seed {seed}");
    }
    assert_eq!((book.due, book.uses.get("climate")), (again.due, again.uses.get("climate")));
    (admitted, refused)
}

#[test]
fn no_instant_is_oversubscribed_and_no_refusal_is_false() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..60 {
        let (more, fewer) = random_life(seed, 120);
        admitted += more;
        refused += fewer;
    }
    assert!(admitted > 500 && refused > 500, "both happen: {admitted} and {refused}");
}

#[test]
fn a_volume_may_be_spread_over_routes_and_time() {
    let mut book = book();
    done(&mut book, hour(0), &fixed(gbit(9), hours(0, 2))).expect("free");
    let ask = |variable, several, end| {
        let problem = BookingProblem::Volume {
            volume: Bytes(4_500_000_000_000),
            search: hours(0, end),
            limit: gbit(20),
            shape: VolumeShape { variable, several },
        };
        BookOrder::Reserve(request(problem))
    };
    // 10 Gbit/s for an hour: at a fixed rate on one route it waits until the wide one is free.
    let one = done(&mut book.clone(), hour(0), &ask(false, false, 9)).expect("fits");
    assert_eq!(
        one.window(),
        TimeWindow { start: hour(0), end: hour(2) + Span::from_secs(1800) }
            .intersection(&one.window())
    );
    let all = done(&mut book.clone(), hour(0), &ask(true, true, 9)).expect("fits");
    // 5 Gbit/s in the first two hours is all of it.
    assert_eq!(all.window(), hours(0, 2));
    assert!(all.window().end <= one.window().end);
    let refusal = done(&mut book, hour(0), &ask(false, false, 2)).expect_err("not by then");
    assert!(refusal.alternatives.iter().any(|a| a.kind == AlternativeKind::SeveralRoutes));
}
