//! What crosses between a calendar and its clients, as JSON; rates in bit/s, volumes in bytes,
//! times in RFC 3339.

mod convert;
mod problem_kind;

pub(super) use problem_kind::ProblemKind;

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteDocument {
    /// Its name.
    pub name: String,
    /// Names and addresses of its hosts, as far as the calendar knows them.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkDocument {
    /// Its name: `FROM>TO`, and `/NAME` where two join the same sites.
    pub name: String,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What it carries, in bit/s.
    pub rate_bps: u64,
    /// From end to end, in nanoseconds.
    pub one_way_delay_ns: u64,
}

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopologyDocument {
    /// `farline/topology/1`.
    pub schema: String,
    /// What it is called.
    pub name: String,
    /// Its sites.
    pub sites: Vec<SiteDocument>,
    /// Its links, each direction by itself.
    pub links: Vec<LinkDocument>,
    /// The calendar's time.
    #[schema(format = DateTime)]
    pub now: String,
}

/// A rate on a route from when to when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LegDocument {
    /// From.
    #[schema(format = DateTime)]
    pub start: String,
    /// Up to, and not including.
    #[schema(format = DateTime)]
    pub end: String,
    /// In bit/s.
    pub rate_bps: u64,
    /// The names of its links, in order.
    pub route: Vec<String>,
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateDocument {
    /// Kept until a timer runs out.
    Held,
    /// It stands.
    Committed,
    /// A circuit is made of it by its schedule.
    Provisioned,
    /// It stands without a circuit.
    Released,
    /// It is over.
    Terminated,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReservationDocument {
    /// `farline/reservation/1`.
    pub schema: String,
    /// Such as `r-17`.
    pub id: String,
    /// Counts from 1; `If-Match` compares it.
    pub version: u64,
    /// Who asked for it.
    pub owner: String,
    /// Whose quota it counts against.
    pub project: String,
    /// What its owner calls it.
    pub label: String,
    /// A site.
    pub from: String,
    /// A site.
    pub to: String,
    /// Whether both directions carry the rate.
    pub both_ways: bool,
    /// Its pieces, in order of time.
    pub legs: Vec<LegDocument>,
    /// Where it stands.
    pub state: StateDocument,
    /// Why it is over: `expired`, `aborted`, `cancelled`, `passed` or `pre_empted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// When its hold runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub held_until: Option<String>,
    /// Higher goes first, where a policy lets one go before another.
    pub priority: u8,
    /// Whether maintenance cuts it and nothing else was free.
    pub stranded: bool,
    /// When it was asked for.
    #[schema(format = DateTime)]
    pub created: String,
}

/// A page of reservations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReservationsDocument {
    /// `farline/reservations/1`.
    pub schema: String,
    /// In the order of their numbers.
    pub reservations: Vec<ReservationDocument>,
    /// Ask again with `after=` this for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A problem to solve: a slot, a rate, or a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "problem", rename_all = "snake_case", deny_unknown_fields)]
pub enum ProblemDocument {
    /// This rate in this slot.
    Fixed {
        /// In bit/s.
        rate_bps: u64,
        /// From; now when absent.
        #[schema(format = DateTime)]
        start: Option<String>,
        /// Up to.
        #[schema(format = DateTime)]
        end: String,
    },
    /// The highest rate in this slot.
    Highest {
        /// From; now when absent.
        #[schema(format = DateTime)]
        start: Option<String>,
        /// Up to.
        #[schema(format = DateTime)]
        end: String,
        /// No less than this, in bit/s.
        at_least_bps: Option<u64>,
        /// No more than this, in bit/s.
        at_most_bps: Option<u64>,
    },
    /// The first slot with this rate.
    First {
        /// In bit/s.
        rate_bps: u64,
        /// How long.
        seconds: u64,
        /// Not before; now when absent.
        #[schema(format = DateTime)]
        start: Option<String>,
        /// Ending by; the calendar's horizon when absent.
        #[schema(format = DateTime)]
        end: Option<String>,
    },
    /// Every slot with this rate: an answer to a search, not to be booked.
    All {
        /// In bit/s.
        rate_bps: u64,
        /// How long.
        seconds: u64,
        /// Not before; now when absent.
        #[schema(format = DateTime)]
        start: Option<String>,
        /// Ending by; the calendar's horizon when absent.
        #[schema(format = DateTime)]
        end: Option<String>,
    },
    /// A volume, finished as early as can be.
    Volume {
        /// In bytes.
        volume_bytes: u64,
        /// Not before; now when absent.
        #[schema(format = DateTime)]
        start: Option<String>,
        /// The deadline; the calendar's horizon when absent.
        #[schema(format = DateTime)]
        end: Option<String>,
        /// No faster than this, in bit/s.
        at_most_bps: Option<u64>,
        /// Whether rate and route may change over time.
        #[serde(default)]
        variable: bool,
        /// Whether several routes may be used at once.
        #[serde(default)]
        several: bool,
    },
    /// These legs and no others: an alternative that was offered, or a route of one's own.
    Legs {
        /// They.
        legs: Vec<LegDocument>,
    },
}

/// A request for a reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveDocument {
    /// A site.
    pub from: String,
    /// A site.
    pub to: String,
    /// What is wanted.
    #[serde(rename = "for")]
    pub wanted: ProblemDocument,
    /// Whether both directions carry the rate; they do when absent.
    pub both_ways: Option<bool>,
    /// What its owner calls it, in at most 200 bytes.
    pub label: Option<String>,
    /// Only hold it, for this long at most; it stands at once when absent.
    pub hold_seconds: Option<u64>,
    /// Whether a circuit is made of it when its slot begins; it is when absent.
    pub provision: Option<bool>,
}

/// A search of what is free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDocument {
    /// A site.
    pub from: String,
    /// A site.
    pub to: String,
    /// What is wanted.
    #[serde(rename = "for")]
    pub wanted: ProblemDocument,
    /// Whether both directions carry the rate; they do when absent.
    pub both_ways: Option<bool>,
}

/// What a search found: legs, or for all slots the starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct FoundDocument {
    /// `farline/availability/1`.
    pub schema: String,
    /// What would be booked now.
    pub legs: Vec<LegDocument>,
    /// Of all slots: from when to when, the last start included, a slot may start.
    pub starts: Vec<WindowDocument>,
    /// Starts beyond these are left out.
    pub truncated: bool,
}

/// From when to when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WindowDocument {
    /// From.
    #[schema(format = DateTime)]
    pub start: String,
    /// To.
    #[schema(format = DateTime)]
    pub end: String,
}

/// A change in place; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeDocument {
    /// In bit/s.
    pub rate_bps: Option<u64>,
    /// From.
    #[schema(format = DateTime)]
    pub start: Option<String>,
    /// Up to.
    #[schema(format = DateTime)]
    pub end: Option<String>,
}

/// Closing a link for maintenance, both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseDocument {
    /// The name of one direction.
    pub link: String,
    /// From; now when absent.
    #[schema(format = DateTime)]
    pub start: Option<String>,
    /// Up to.
    #[schema(format = DateTime)]
    pub end: String,
    /// What is done there, in at most 200 bytes.
    pub reason: Option<String>,
}

/// A closure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ClosureDocument {
    /// `farline/closure/1`.
    pub schema: String,
    /// Its number.
    pub id: u64,
    /// One direction of the link.
    pub link: String,
    /// From.
    #[schema(format = DateTime)]
    pub start: String,
    /// Up to.
    #[schema(format = DateTime)]
    pub end: String,
    /// What is done there.
    pub reason: String,
    /// Whether it was taken back.
    pub withdrawn: bool,
    /// Reservations that were moved to other routes by this request.
    #[serde(default)]
    pub moved: Vec<String>,
    /// Reservations that it cuts, and for which nothing else was free.
    #[serde(default)]
    pub stranded: Vec<String>,
}

/// Every closure that stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ClosuresDocument {
    /// `farline/closures/1`.
    pub schema: String,
    /// They.
    pub closures: Vec<ClosureDocument>,
}

/// What is free on a link over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct FreeDocument {
    /// The link's name.
    pub link: String,
    /// What it carries, in bit/s.
    pub rate_bps: u64,
    /// Intervals, in order.
    pub intervals: Vec<IntervalDocument>,
}

/// What is free in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct IntervalDocument {
    /// From.
    #[schema(format = DateTime)]
    pub start: String,
    /// Up to.
    #[schema(format = DateTime)]
    pub end: String,
    /// In bit/s.
    pub free_bps: u64,
}

/// What is free on every link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct AvailabilityDocument {
    /// `farline/links/1`.
    pub schema: String,
    /// Each direction by itself.
    pub links: Vec<FreeDocument>,
}

/// A link that stood in the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ObstacleDocument {
    /// Its name.
    pub link: String,
    /// When it first had too little.
    #[schema(format = DateTime)]
    pub start: String,
    /// Until.
    #[schema(format = DateTime)]
    pub end: String,
    /// What was free then, in bit/s.
    pub free_bps: u64,
}

/// What could be booked instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct AlternativeDocument {
    /// `later`, `slower`, `several-routes`, `longer`, `variable` or `less`.
    pub kind: String,
    /// What would be booked.
    pub legs: Vec<LegDocument>,
}

/// A problem by RFC 9457: why a request is refused, and what could be had instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct RefusalDocument {
    /// `urn:farline:calendar:` and what kind it is, such as `no-capacity`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of HTTP.
    pub status: u16,
    /// What is wrong.
    pub detail: String,
    /// The error's number in NSI's connection service, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsi: Option<String>,
    /// What stood in the way.
    #[serde(default)]
    pub obstacles: Vec<ObstacleDocument>,
    /// What could be had instead.
    #[serde(default)]
    pub alternatives: Vec<AlternativeDocument>,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct EventDocument {
    /// Counts from 1 without a gap.
    pub seq: u64,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// Who.
    pub actor: String,
    /// What was done, such as `reserve`, `commit`, `expire`.
    pub verb: String,
    /// The reservation after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationDocument>,
    /// The closure after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closure: Option<ClosureDocument>,
}

/// The number of the log's last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct LastDocument {
    /// 0 when there is none.
    pub seq: u64,
}

/// What an agent says of a circuit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CircuitReport {
    /// The reservation.
    pub id: String,
    /// The circuit's number: 16 times its reservation's, and which of its routes it takes. The
    /// first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The site of the end that the agent makes; absent where it makes all of the circuit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Whether the circuit is up.
    pub up: bool,
    /// The rate that the device enforces, in bit/s.
    pub rate_bps: u64,
    /// Bytes that it has carried, both directions together.
    pub carried_bytes: u64,
    /// Its addresses where it begins and where it ends, where the device gives it some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, min_items = 2, max_items = 2)]
    pub addresses: Option<[IpAddr; 2]>,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// What agents say of circuits, with when they said it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct CircuitDocument {
    /// The agent's word.
    pub report: CircuitReport,
    /// Whose.
    pub agent: String,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
}

/// Every circuit that an agent has said something of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct CircuitsDocument {
    /// `farline/circuits/1`.
    pub schema: String,
    /// They.
    pub circuits: Vec<CircuitDocument>,
}
