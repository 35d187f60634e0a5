//! A copy that books its own circuit: from volume and deadline to a reservation, from that to the
//! circuit, and, when the copy is over, to a release.
//!
//! How it fits: [`CopyBooking::make`] books or takes what is booked, [`ready`](CopyBooking::ready)
//! waits until the circuit is up, [`fit`](CopyBooking::fit) has a copy's options go through it at
//! its rate, and [`watch`](CopyBooking::watch) sees to its time while the copy runs. What is
//! decided, and when, is in `core::calendar::BookingMonitor`.
//!
//! What was booked for a copy is given back when this is dropped. A copy that is killed outright
//! leaves its booking until its end at the most; the same command finds it by its label and goes on
//! in it.

mod ends;
mod watch;

pub use ends::{CopyEnd, CopyEnds};
pub use watch::{BookingHandle, BookingProgress};

use crate::calendar::wire::{
    CircuitsDocument, FoundDocument, LegDocument, ProblemDocument, ReservationDocument,
    ReserveDocument, SearchDocument, StateDocument, TopologyDocument,
};
use crate::calendar::{CalendarAddress, CalendarClient, now, timestamp};
use crate::client::{CancelToken, LiveRate, Location, Options, StoredProfiles};
use crate::sys::ethtool;
use farline_core::calendar::{
    BookingPrediction, TimeWindow, Topology, booked_volume, payload_rate, set_up_time,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Setting, Span, Time};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How often it is asked whether the circuit is up, when it should be.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// The same while there is time.
const ASK_EARLY: Duration = Duration::from_secs(2);
/// How long after its time a circuit may come.
const LATE: Span = Span::from_secs(15);
/// How much later than the other end's this end of a circuit may be there.
const OTHER_END: Duration = Duration::from_secs(1);
/// How long the circuit of a copy that broke off is kept.
const BROKEN: Span = Span::from_secs(2);
/// How long the calendar may take when what was booked is given back.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// What is to be booked for a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookingTerms {
    /// A reservation that is there, which the copy shares with others and does not end.
    pub id: Option<String>,
    /// Not before.
    pub start: Option<Time>,
    /// The deadline.
    pub by: Option<Time>,
    /// No faster than this; the highest that the route has when absent.
    pub rate: Option<Rate>,
    /// The site where the data is; found by its host when absent.
    pub from: Option<String>,
    /// The site where it goes.
    pub to: Option<String>,
}

/// What is told of a booking while its copy waits and runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BookingNotice {
    /// The copy is slower than its booking, which ends later now.
    Extended(Time),
    /// The copy will not be over when its slot is.
    Late(BookingPrediction),
    /// Somebody changed when it begins and ends.
    Changed(TimeWindow),
    /// Somebody changed its rate, and whether the copy follows: one that comes from a node that
    /// holds it does not, nor does one that becomes faster from a node that was told its rate once.
    Rate(Rate, bool),
    /// The calendar cannot be reached, or is back.
    Calendar(Option<Error>),
}

/// A reservation for one copy.
#[derive(Debug)]
pub struct CopyBooking {
    client: CalendarClient,
    reservation: ReservationDocument,
    leg: LegDocument,
    slot: TimeWindow,
    rtt: Span,
    by: Option<Time>,
    /// Whether it was made for this copy, and ends with it.
    is_own: bool,
    /// The site of the other end.
    far: String,
    /// Whether a copy went, or goes, through it, and did not end well.
    is_broken: bool,
    /// What its copy heeds, the limit that was asked for besides, and what it began with.
    live: Option<(LiveRate, Option<Rate>, Rate)>,
    /// Whether its copy comes from the other end.
    is_download: bool,
    /// Whether its copy's sender holds the booked rate by itself.
    is_held: bool,
    /// The circuit's address at the other end, and the largest packet there.
    peer: Option<(IpAddr, Option<Bytes>)>,
}

/// What a copy would be booked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BookingOffer {
    /// The site where the data is.
    pub from: String,
    /// The site where it goes.
    pub to: String,
    /// What is free.
    pub leg: LegDocument,
    /// The round trip over its route.
    pub rtt: Span,
    /// When it would begin and end.
    pub slot: TimeWindow,
    /// When the copy would be over.
    pub ends: Time,
}

fn odd(what: impl Into<String>) -> Error {
    Error::new(Fault::There, ErrorCode::CalendarAnswer, what)
}

fn you(what: impl Into<String>) -> Error {
    Error::new(Fault::You, ErrorCode::CalendarRequest, what)
}

/// The round trip over a route.
fn rtt_of(topology: &Topology, leg: &LegDocument) -> Span {
    let links: Vec<_> = leg.route.iter().filter_map(|name| topology.link_named(name)).collect();
    let one_way = topology.delay(&links);
    one_way + one_way
}

fn volume_problem(volume: Bytes, terms: &BookingTerms) -> ProblemDocument {
    ProblemDocument::Volume {
        volume_bytes: volume.0,
        start: terms.start.map(timestamp),
        end: terms.by.map(timestamp),
        at_most_bps: terms.rate.map(Rate::as_bps),
        variable: false,
        several: false,
    }
}

/// The leg of a copy's booking that counts at `now`, and when all of it begins and ends. A rate
/// that was changed while the slot ran makes legs of it, one after the other over the same route.
fn leg_at(legs: &[LegDocument], now: Time) -> Result<(LegDocument, TimeWindow), Error> {
    let windows: Option<Vec<TimeWindow>> = legs.iter().map(LegDocument::window).collect();
    let windows = windows.ok_or_else(|| odd("the calendar's times cannot be read"))?;
    let is_one = legs.iter().all(|leg| leg.route == legs[0].route)
        && windows.windows(2).all(|pair| pair[0].end == pair[1].start);
    let ([first, ..], [.., last], true) = (&windows[..], &windows[..], is_one) else {
        return Err(you(
            "a copy goes over one route without a break, and this reservation does not",
        )
        .hint(format!("book one without {} and {}", Setting::Variable, Setting::Several)));
    };
    let at = windows.iter().position(|window| now < window.end).unwrap_or(windows.len() - 1);
    Ok((legs[at].clone(), TimeWindow { start: first.start, end: last.end }))
}

/// Asks what a copy of `payload` would be booked, and books nothing.
///
/// # Errors
/// As [`CopyBooking::make`].
pub fn offer(
    address: CalendarAddress,
    terms: &BookingTerms,
    ends: &CopyEnds,
    payload: Bytes,
) -> Result<BookingOffer, Error> {
    let mut client = CalendarClient::new(address)?;
    let topology = client.get::<TopologyDocument>("/v1/topology")?.to_topology()?;
    let [from, to] = ends.sites(terms, &topology)?;
    search_offer(&mut client, &topology, terms, [from, to], payload)
}

fn search_offer(
    client: &mut CalendarClient,
    topology: &Topology,
    terms: &BookingTerms,
    [from, to]: [String; 2],
    payload: Bytes,
) -> Result<BookingOffer, Error> {
    // The beginning and the end of a copy take time, and so a volume that depends on the rate: what
    // is free for the payload alone tells it.
    let mut volume = booked_volume(payload, Rate::default(), Span::ZERO);
    let mut search = |volume| {
        let wanted = volume_problem(volume, terms);
        let (from, to) = (from.clone(), to.clone());
        let body = SearchDocument { from, to, wanted, both_ways: Some(true) };
        let found: FoundDocument = client.post("/v1/availability", &body, None)?;
        leg_at(&found.legs, now())
    };
    let (leg, _) = search(volume)?;
    let rtt = rtt_of(topology, &leg);
    let rate = Rate::from_bps(leg.rate_bps);
    volume = booked_volume(payload, rate, rtt);
    let (leg, slot) = search(volume)?;
    let rate = payload_rate(Rate::from_bps(leg.rate_bps), None);
    let ends = slot.start + set_up_time(rtt) + rate.time_for(payload);
    Ok(BookingOffer { from, to, leg, rtt, slot, ends: ends.min(slot.end) })
}

impl CopyBooking {
    /// Books for a copy of `payload` between `ends`; or takes the reservation that `terms` name, or
    /// that an earlier run left under the same `label`.
    ///
    /// # Errors
    /// When the calendar cannot be reached, knows no such site, or refuses: then with alternatives.
    pub fn make(
        address: CalendarAddress,
        terms: &BookingTerms,
        ends: &CopyEnds,
        payload: Bytes,
        label: &str,
    ) -> Result<CopyBooking, Error> {
        let mut client = CalendarClient::new(address)?;
        let topology = client.get::<TopologyDocument>("/v1/topology")?.to_topology()?;
        let sites = ends.sites(terms, &topology)?;
        let (reservation, is_own) = match &terms.id {
            Some(id) => (client.get(&format!("/v1/reservations/{id}"))?, false),
            None => match left(&mut client, label, &sites)? {
                Some(left) => (left, true),
                None => (book(&mut client, &topology, terms, &sites, payload, label)?, true),
            },
        };
        let taken = Self::take(&topology, &reservation, &sites);
        let taken = taken.inspect_err(|_| {
            if is_own {
                release(&mut client, &reservation.id);
            }
        });
        let (leg, slot, rtt) = taken?;
        let [from, to] = sites;
        Ok(CopyBooking {
            client,
            reservation,
            leg,
            slot,
            rtt,
            by: terms.by,
            is_own,
            is_broken: false,
            live: None,
            is_download: ends.is_download(),
            is_held: false,
            far: if ends.is_download() { from } else { to },
            peer: None,
        })
    }

    fn take(
        topology: &Topology,
        reservation: &ReservationDocument,
        [from, to]: &[String; 2],
    ) -> Result<(LegDocument, TimeWindow, Span), Error> {
        let id = &reservation.id;
        if reservation.state != StateDocument::Provisioned {
            let state = reservation.ended.clone().unwrap_or_else(|| reservation.state.to_string());
            return Err(you(format!("{id} is {state}: no circuit is made of it"))
                .hint(format!("`farline reserve commit {id}`, if it is held")));
        }
        let there = (&reservation.from, &reservation.to) == (from, to);
        let back = (&reservation.from, &reservation.to) == (to, from) && reservation.both_ways;
        if !there && !back {
            let (a, b) = (&reservation.from, &reservation.to);
            return Err(you(format!("{id} is from {a} to {b}, the copy from {from} to {to}")));
        }
        let (leg, slot) = leg_at(&reservation.legs, now())?;
        let rtt = rtt_of(topology, &leg);
        Ok((leg, slot, rtt))
    }

    /// The reservation.
    pub fn reservation(&self) -> &ReservationDocument {
        &self.reservation
    }

    /// When it begins and ends.
    pub fn slot(&self) -> TimeWindow {
        self.slot
    }

    /// What is booked.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.leg.rate_bps)
    }

    /// How fast the copy's payload may go.
    pub fn payload_rate(&self) -> Rate {
        payload_rate(self.rate(), self.peer.and_then(|(_, mtu)| mtu))
    }

    /// When a copy of `payload` is over that begins at `start`.
    pub fn predicted(&self, payload: Bytes, start: Time) -> Time {
        start.max(self.slot.start) + set_up_time(self.rtt) + self.payload_rate().time_for(payload)
    }

    /// Blocks until an agent says that the circuit is up.
    ///
    /// # Errors
    /// When `cancel` is asked, the reservation ends, or no circuit comes.
    pub fn ready(&mut self, cancel: &CancelToken) -> Result<(), Error> {
        let mut told = None;
        loop {
            if cancel.is_asked() {
                return Err(CancelToken::error());
            }
            let circuits: CircuitsDocument = self.client.get("/v1/circuits")?;
            let id = &self.reservation.id;
            let known = circuits.circuits.into_iter().map(|known| known.report);
            // One route, and so one circuit; of each end that has an agent of its own, a word.
            let reports: Vec<_> = known.filter(|report| report.id == *id).collect();
            let is_missing = reports.iter().any(|report| report.site.is_some() && !report.up);
            if let Some(report) = reports.iter().rfind(|report| report.up && !is_missing) {
                let Some([from, to]) = report.addresses else {
                    return Err(odd(format!("the circuit of {id} has no addresses"))
                        .hint("its agent's program says them: docs/calendar.md"));
                };
                let (peer, own) = match self.reservation.from == self.far {
                    true => (from, to),
                    false => (to, from),
                };
                // Where each end has an agent of its own, the other's word may be the first; where
                // an operator's program makes circuits, their addresses may be on another device.
                let mtu = mtu(peer);
                let told = *told.get_or_insert_with(Instant::now);
                let is_here = mtu.is_some() && ethtool::interface_of(own).is_some();
                if is_here || told.elapsed() > OTHER_END {
                    self.peer = Some((peer, mtu));
                    return Ok(());
                }
                std::thread::sleep(ASK_EVERY);
                continue;
            }
            let early = self.slot.start.since(now());
            if early < Span::from_secs(1) {
                let trouble = reports.into_iter().find_map(|report| report.trouble);
                self.still_there(trouble.as_deref())?;
            }
            let early = Duration::from(early).min(ASK_EARLY).max(ASK_EVERY);
            std::thread::sleep(early);
        }
    }

    /// Whether the reservation stands and its circuit may still come, by the calendar's clock.
    fn still_there(&mut self, trouble: Option<&str>) -> Result<(), Error> {
        let id = self.reservation.id.clone();
        let topology: TopologyDocument = self.client.get("/v1/topology")?;
        let now = crate::calendar::time_of(&topology.now);
        let now = now.ok_or_else(|| odd("the calendar's time cannot be read"))?;
        if now > self.slot.start + LATE {
            let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            let message = format!("no agent has made the circuit of {id}{why}");
            return Err(Error::new(Fault::There, ErrorCode::CircuitFailed, message)
                .hint("does `farline agent` run? `farline reserve circuits` shows what it says"));
        }
        self.renew().map(drop)
    }

    /// Looks at the reservation anew; returns whether its slot is another, and whether its rate is.
    fn renew(&mut self) -> Result<[bool; 2], Error> {
        let id = &self.reservation.id;
        let reservation: ReservationDocument =
            self.client.get(&format!("/v1/reservations/{id}"))?;
        if reservation.state != StateDocument::Provisioned {
            let state = reservation.ended.unwrap_or_else(|| reservation.state.to_string());
            let message = format!("{id} is {state}: its circuit is gone");
            return Err(Error::new(Fault::Refused, ErrorCode::SlotOver, message)
                .hint("what came is kept: the same command books anew and goes on"));
        }
        let (leg, slot) = leg_at(&reservation.legs, now())?;
        let changed = [slot != self.slot, leg.rate_bps != self.leg.rate_bps];
        (self.reservation, self.leg, self.slot) = (reservation, leg, slot);
        Ok(changed)
    }

    /// Has a copy go through the circuit, at its rate and no faster. What is known of the ordinary
    /// path to the node is not known of this one.
    pub fn fit(&mut self, options: &mut Options) {
        let limit = options.limit;
        options.connect.address = self.peer.map(|(peer, _)| peer);
        options.stored_profiles = StoredProfiles::Ignore;
        if let Some(held) = &mut options.held {
            held.rate = self.rate();
            self.is_held = true;
            let live = LiveRate::new(held.rate);
            options.live_rate = Some(live.clone());
            self.live = Some((live, limit, self.rate()));
            return;
        }
        let rate = self.payload_rate();
        options.is_booked = options.limit.is_none_or(|limit| limit >= rate);
        let first = limit.map_or(rate, |limit| limit.min(rate));
        options.limit = Some(first);
        let live = LiveRate::new(first);
        options.live_rate = Some(live.clone());
        self.live = Some((live, limit, self.rate()));
    }

    /// Has the copy heed a rate that was changed; returns whether it can.
    fn follow(&self) -> bool {
        let Some((live, limit, first)) = &self.live else { return false };
        let is_held = self.is_held;
        let rate = if is_held { self.rate() } else { self.payload_rate() };
        live.set(limit.map_or(rate, |limit| limit.min(rate)));
        match self.is_download {
            // A node holds the rate that it was told at the beginning in its control; a limit it
            // heeds at any time, but for nodes of before that.
            true => !is_held && (live.is_heeded_there() || self.rate() <= *first),
            false => true,
        }
    }

    /// Asks for another end.
    fn extend(&mut self, end: Time) -> Result<(), Error> {
        let change = crate::calendar::wire::ChangeDocument {
            rate_bps: None,
            start: None,
            end: Some(timestamp(end)),
        };
        let path = format!("/v1/reservations/{}", self.reservation.id);
        let version = Some(self.reservation.version);
        let reservation: ReservationDocument = self.client.patch(&path, &change, version)?;
        let (leg, slot) = leg_at(&reservation.legs, now())?;
        (self.reservation, self.leg, self.slot) = (reservation, leg, slot);
        Ok(())
    }
}

impl Drop for CopyBooking {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        self.client.set_timeout(RELEASE_WITHIN);
        let end = now() + BROKEN;
        match self.is_broken {
            // The other end hears of connections that break while the circuit is there.
            true if end < self.slot.end => drop(self.extend(end)),
            true => {}
            false => release(&mut self.client, &self.reservation.id),
        }
    }
}

/// Gives a reservation back at once. Where the calendar cannot be reached, it ends at its end.
fn release(client: &mut CalendarClient, id: &str) {
    let path = format!("/v1/reservations/{id}/terminate");
    let _ = client.post::<ReservationDocument>(&path, &(), None);
}

/// What an earlier run of the same copy left.
fn left(
    client: &mut CalendarClient,
    label: &str,
    [from, to]: &[String; 2],
) -> Result<Option<ReservationDocument>, Error> {
    let mut all = client.reservations()?.into_iter();
    Ok(all.find(|known| {
        known.label == label
            && (&known.from, &known.to) == (from, to)
            && known.state == StateDocument::Provisioned
            && known.window().end > now() + Span::from_secs(5)
    }))
}

fn book(
    client: &mut CalendarClient,
    topology: &Topology,
    terms: &BookingTerms,
    sites: &[String; 2],
    payload: Bytes,
    label: &str,
) -> Result<ReservationDocument, Error> {
    let key = fresh_key();
    let offer = search_offer(client, topology, terms, sites.clone(), payload);
    let volume = match &offer {
        Ok(offer) => booked_volume(payload, Rate::from_bps(offer.leg.rate_bps), offer.rtt),
        // The refusal of the booking itself has the alternatives.
        Err(_) => booked_volume(payload, Rate::default(), Span::ZERO),
    };
    let body = ReserveDocument {
        from: sites[0].clone(),
        to: sites[1].clone(),
        wanted: volume_problem(volume, terms),
        both_ways: Some(true),
        label: Some(label.to_owned()),
        hold_seconds: None,
        provision: None,
    };
    client.post("/v1/reservations", &body, Some(&key))
}

/// What the booking of a copy is called: the same for the same copy from the same folder, so that
/// one that was killed finds what it left.
pub fn label(sources: &[Location], destination: &Location) -> String {
    let mut whole = blake3::Hasher::new();
    let folder = std::env::current_dir().unwrap_or_default();
    whole.update(folder.as_os_str().as_encoded_bytes());
    for location in sources.iter().chain([destination]) {
        whole.update(&[0]).update(location.to_string().as_bytes());
    }
    let host = |location: &Location| match location {
        Location::Remote(remote) => Some(remote.host.clone()),
        _ => None,
    };
    let whom = match (sources.iter().find_map(host), host(destination)) {
        (_, Some(to)) => format!("copy to {to}"),
        (Some(from), None) => format!("copy from {from}"),
        (None, None) => "copy".to_owned(),
    };
    let whom: String = whom.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("{whom} #{}", &whole.finalize().to_hex()[..16])
}

/// A fresh key, under which a request is done once however often it is sent.
pub fn fresh_key() -> String {
    let mut bytes = [0_u8; 16];
    // Without random numbers the time tells two requests apart.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = u128::from(now().as_nanos()).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The largest IP packet on the way to `peer`, as far as this host knows.
fn mtu(peer: IpAddr) -> Option<Bytes> {
    let any: SocketAddr = match peer {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    // Nothing is sent: it only chooses a route.
    socket.connect((peer, 9)).ok()?;
    let mtu = match peer {
        IpAddr::V4(_) => rustix::net::sockopt::ip_mtu(&socket),
        IpAddr::V6(_) => rustix::net::sockopt::ipv6_mtu(&socket),
    };
    mtu.ok().map(|mtu| Bytes(u64::from(mtu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(start: u64, end: u64, rate_bps: u64, link: &str) -> LegDocument {
        let time = |second: u64| timestamp(Time::from_nanos(second * 1_000_000_000));
        LegDocument { start: time(start), end: time(end), rate_bps, route: vec![link.to_owned()] }
    }

    #[test]
    fn the_leg_of_a_copy_is_that_of_the_moment() {
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let legs = [leg(10, 20, 5, "a>b"), leg(20, 30, 7, "a>b")];
        let slot = TimeWindow { start: at(10), end: at(30) };
        for (now, rate) in [(0, 5), (19, 5), (20, 7), (40, 7)] {
            let (leg, whole) = leg_at(&legs, at(now)).expect("one route");
            assert_eq!((leg.rate_bps, whole), (rate, slot), "{now}");
        }
        for wrong in [
            vec![],
            vec![leg(10, 20, 5, "a>b"), leg(20, 30, 5, "b>c")],
            vec![leg(10, 20, 5, "a>b"), leg(21, 30, 5, "a>b")],
        ] {
            let error = leg_at(&wrong, at(0)).expect_err("more than a copy can take");
            assert_eq!(error.code, ErrorCode::CalendarRequest);
        }
    }
}
