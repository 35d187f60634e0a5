//! Whether the calendar is exact: against a plain array of instants, and over HTTPS by many
//! clients.

use super::crash::{Served, reserve_body};
use crate::table::{heading, row};
use anyhow::{Context, Result, ensure};
use farline::calendar::wire::{EventDocument, ReservationDocument};
use farline_core::calendar::{
    Book, BookLimits, BookOrder, BookRecord, BookingPolicy, BookingProblem, BookingRequest,
    BookingRights, ReservationChange, ReservationId, ReservationVerb, SiteId, TimeWindow, Topology,
    TopologySpec,
};
use farline_core::units::{ErrorCode, Rate, Rng, Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Instants of the array: an hour each, a book of two days.
const TICKS: u64 = 48;
const GBIT: u64 = 1_000_000_000;
/// Clients at once.
const CLIENTS: u64 = 64;

fn hour(hours: u64) -> Time {
    Time::from_nanos(hours * 3_600_000_000_000)
}

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

/// What stands, as the plain array sees it: by the way (0 over `b`, 1 over `c`), in Gbit/s.
struct Plain {
    used: [[u64; TICKS as usize]; 2],
    standing: BTreeMap<ReservationId, (usize, u64, u64, u64)>,
}

impl Plain {
    fn new() -> Plain {
        Plain { used: [[0; TICKS as usize]; 2], standing: BTreeMap::new() }
    }

    fn free(&self, way: usize, start: u64, end: u64) -> u64 {
        let capacity = [10, 4][way];
        let most = (start..end).map(|tick| self.used[way][tick as usize]).max().unwrap_or(0);
        capacity - most
    }

    fn put(&mut self, id: ReservationId, (way, start, end, rate): (usize, u64, u64, u64)) {
        for tick in start..end {
            self.used[way][tick as usize] += rate;
        }
        self.standing.insert(id, (way, start, end, rate));
    }

    fn remove(&mut self, id: ReservationId) {
        if let Some((way, start, end, rate)) = self.standing.remove(&id) {
            for tick in start..end {
                self.used[way][tick as usize] -= rate;
            }
        }
    }
}

fn request(rate: u64, start: u64, end: u64, hold: bool) -> BookingRequest {
    BookingRequest {
        ends: (SiteId(0), SiteId(3)),
        problem: BookingProblem::Fixed {
            rate: Rate::from_bps(rate * GBIT),
            window: TimeWindow { start: hour(start), end: hour(end) },
        },
        both_ways: true,
        owner: "bench".to_owned(),
        project: "bench".to_owned(),
        label: String::new(),
        hold: hold.then(|| Span::from_secs(900)),
        provision: true,
        rights: rights(),
    }
}

fn rights() -> BookingRights {
    BookingRights { endpoints: (0..4).map(SiteId).collect(), ..BookingRights::default() }
}

/// Oversubscribed instants, false refusals and false admissions of `operations` random ones.
fn array(operations: u64) -> (u64, u64, u64) {
    let topology = Arc::new(diamond());
    let mut rng = Rng::new(7);
    let (mut oversubscribed, mut false_refusals, mut false_yes) = (0, 0, 0);
    let mut book =
        Book::new(Arc::clone(&topology), BookingPolicy::default(), BookLimits::default());
    let mut plain = Plain::new();
    let mut ids: Vec<ReservationId> = Vec::new();
    let mut now = 0;
    for operation in 0..operations {
        if operation % 2_000 == 1_999 {
            // A new book, so that what is over does not pile up.
            book =
                Book::new(Arc::clone(&topology), BookingPolicy::default(), BookLimits::default());
            (plain, now) = (Plain::new(), 0);
            ids.clear();
        }
        if rng.below(60) == 0 && now + 2 < TICKS {
            now += 1;
            for record in book.poll(hour(now)).records {
                if let BookRecord::Reservation(over) = &record {
                    plain.remove(over.id);
                }
                book.apply(&record);
            }
        }
        let some = (!ids.is_empty()).then(|| ids[rng.below(ids.len() as u64) as usize]);
        let start = now + rng.below(TICKS - now);
        let end = start + 1 + rng.below(TICKS - start);
        let rate = 1 + rng.below(6);
        let perform = |id, verb| BookOrder::Perform { id, verb, version: None };
        let (order, expected) = match (rng.below(10), some) {
            (0..=4, _) | (_, None) => {
                let free = (0..2).any(|way| plain.free(way, start, end) >= rate);
                let hold = rng.below(2) == 0;
                (BookOrder::Reserve(request(rate, start, end, hold)), Some(free))
            }
            (5, Some(id)) => (perform(id, ReservationVerb::Commit), None),
            (6, Some(id)) => (perform(id, ReservationVerb::Abort), None),
            (7, Some(id)) => (perform(id, ReservationVerb::Terminate), None),
            (8, Some(id)) => (perform(id, ReservationVerb::Release), None),
            (_, Some(id)) => {
                let change = ReservationChange {
                    rate: Some(Rate::from_bps(rate * GBIT)),
                    ..ReservationChange::default()
                };
                let expected =
                    plain.standing.get(&id).copied().filter(|old| old.1 > now).map(|old| {
                        plain.remove(id);
                        let free = (0..2).any(|way| plain.free(way, old.1, old.2) >= rate);
                        plain.put(id, old);
                        free
                    });
                let started = plain.standing.get(&id).is_some_and(|old| old.1 <= now);
                // One that has begun is split in two: it is not for this array.
                if started {
                    continue;
                }
                (BookOrder::Change { id, change, version: None, rights: rights() }, expected)
            }
        };
        match (book.handle(hour(now), &order), expected) {
            (Ok(decision), expected) => {
                false_yes += u64::from(expected == Some(false));
                for record in decision.records {
                    let BookRecord::Reservation(new) = &record else { continue };
                    plain.remove(new.id);
                    if new.takes_bandwidth() {
                        let leg = &new.legs[0];
                        let way = usize::from(leg.route[0].0 >= 4);
                        let tick = |time: Time| time.as_nanos() / 3_600_000_000_000;
                        let ticks = (tick(leg.window.start), tick(leg.window.end));
                        plain.put(new.id, (way, ticks.0, ticks.1, leg.rate.as_bps() / GBIT));
                        let most = (ticks.0..ticks.1).map(|t| plain.used[way][t as usize]).max();
                        oversubscribed += u64::from(most > Some([10, 4][way]));
                    }
                    if new.version == 1 {
                        ids.push(new.id);
                    }
                    book.apply(&record);
                }
            }
            (Err(_), Some(true)) => false_refusals += 1,
            (Err(_), _) => {}
        }
    }
    (oversubscribed, false_refusals, false_yes)
}

/// What one client asked: between which entries of the log, what, and whether it was had.
struct Asked {
    before: u64,
    after: u64,
    rate: u64,
    start: u64,
    end: u64,
    got: Option<String>,
}

/// A book that is told the log's entries, to say at each what was free.
fn replay(events: &[EventDocument], asked: &[Asked], base: Time) -> Result<(u64, u64, u64)> {
    let topology = Arc::new(diamond());
    let mut plain = Plain::new();
    let (mut oversubscribed, mut out_of_order) = (0, 0);
    // For each entry, what each way has in each instant; kept whole, since it is small.
    let mut states = vec![plain.used];
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let document: &ReservationDocument = event.reservation.as_ref().context("a reservation")?;
        let known = document.to_reservation(&topology).context("of this network")?;
        plain.remove(known.id);
        if known.takes_bandwidth() {
            let leg = &known.legs[0];
            let tick = |time: Time| time.since(base).as_nanos() / 3_600_000_000_000;
            let way = usize::from(leg.route[0].0 >= 4);
            let (start, end) = (tick(leg.window.start), tick(leg.window.end));
            plain.put(known.id, (way, start, end, leg.rate.as_bps() / GBIT));
            let most = (start..end).map(|t| plain.used[way][t as usize]).max();
            oversubscribed += u64::from(most > Some([10, 4][way]));
        }
        if known.version == 1 {
            places.insert(document.id.clone(), event.seq);
        }
        states.push(plain.used);
    }
    let mut false_refusals = 0;
    for ask in asked {
        match &ask.got {
            Some(id) => {
                // Its entry lies between what was there before it was asked, and after the reply.
                let place = places.get(id).copied().unwrap_or(0);
                out_of_order += u64::from(!(ask.before < place && place <= ask.after));
            }
            None => {
                let refused_somewhere = (ask.before..=ask.after).any(|seq| {
                    let used = &states[seq as usize];
                    (0..2).all(|way| {
                        let most = (ask.start..ask.end).map(|tick| used[way][tick as usize]).max();
                        [10, 4][way] - most.unwrap_or(0) < ask.rate
                    })
                });
                false_refusals += u64::from(!refused_somewhere);
            }
        }
    }
    Ok((oversubscribed, false_refusals, out_of_order))
}

pub(super) fn run(operations: u64, requests: u64) -> Result<()> {
    heading("Exact");
    let begun = Instant::now();
    let (oversubscribed, refusals, yes) = array(operations);
    let took = begun.elapsed().as_secs_f64();
    row(
        &format!("{operations} operations against an array of instants"),
        &format!("{oversubscribed} oversubscribed, {refusals} false refusals, {yes} false yes"),
        "0, 0, 0",
    );
    println!("  {:.0} operations a second", operations as f64 / took);
    let served = Served::diamond()?;
    let base = farline::calendar::now() + Span::from_secs(86_400);
    let base = Time::from_nanos(base.as_nanos() / 3_600_000_000_000 * 3_600_000_000_000);
    let asked: Mutex<Vec<Asked>> = Mutex::default();
    let begun = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let (served, asked) = (&served, &asked);
            clients.push(scope.spawn(move || -> Result<()> {
                let mut connection = served.client()?;
                let mut rng = Rng::new(client);
                let mut own: Vec<String> = Vec::new();
                for number in 0..requests / CLIENTS {
                    if rng.below(3) == 0 && !own.is_empty() {
                        let id = own.swap_remove(rng.below(own.len() as u64) as usize);
                        let path = format!("/v1/reservations/{id}/terminate");
                        let _: ReservationDocument = connection.post(&path, &(), None)?;
                        continue;
                    }
                    let start = rng.below(TICKS - 1);
                    let end = start + 1 + rng.below(TICKS - start - 1);
                    let rate = 1 + rng.below(4);
                    let body = reserve_body("a", "d", rate * GBIT, base, start, end);
                    let before = served.last_entry(&mut connection)?;
                    let key = format!("c{client}-{number}");
                    let got = connection.post::<ReservationDocument>(
                        "/v1/reservations",
                        &body,
                        Some(&key),
                    );
                    let got = match got {
                        Ok(document) => Some(document.id),
                        Err(error) if error.code == ErrorCode::CalendarRefused => None,
                        Err(error) => return Err(error.into()),
                    };
                    own.extend(got.clone());
                    let after = served.last_entry(&mut connection)?;
                    asked.lock().expect("no panic").push(Asked {
                        before,
                        after,
                        rate,
                        start,
                        end,
                        got,
                    });
                }
                Ok(())
            }));
        }
        for client in clients {
            client.join().expect("no panic")?;
        }
        Ok(())
    })?;
    let took = begun.elapsed().as_secs_f64();
    let mut connection = served.client()?;
    let mut events: Vec<EventDocument> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let page: Vec<EventDocument> = connection.get(&format!("/v1/log?after={after}"))?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    ensure!(events.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq), "a gap in the log");
    let asked = asked.into_inner().expect("no panic");
    let (oversubscribed, refusals, order) = replay(&events, &asked, base)?;
    let refused = asked.iter().filter(|ask| ask.got.is_none()).count();
    row(
        &format!("{requests} requests by {CLIENTS} clients at once, {refused} refused"),
        &format!(
            "{oversubscribed} oversubscribed, {refusals} false refusals, {order} out of order"
        ),
        "0, 0, 0: linearizable",
    );
    println!("  {:.0} requests a second, each durable before it was told", requests as f64 / took);
    Ok(())
}
