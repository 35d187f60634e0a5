//! One reservation and its states: held, committed, provisioned, released, terminated.

use super::network::NetworkView;
use super::topology::{LinkId, SiteId};
use super::volume::Leg;
use super::window::TimeWindow;
use crate::units::{Bytes, Rate, Time};
use serde::{Deserialize, Serialize};

/// A reservation's number, `r-17` as text: unique in one calendar, and never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReservationId(pub u64);

impl std::fmt::Display for ReservationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "r-{}", self.0)
    }
}

impl std::str::FromStr for ReservationId {
    type Err = ();
    fn from_str(text: &str) -> Result<ReservationId, ()> {
        let number = text.strip_prefix("r-").unwrap_or(text);
        let plain = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse().ok().filter(|_| plain).map(ReservationId).ok_or(())
    }
}

/// Where a reservation stands. All but `Terminated` take bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// Its bandwidth is kept until a timer runs out.
    Held,
    /// It stands; no circuit is made of it before it is provisioned.
    Committed,
    /// A circuit is made of it whenever its schedule says so.
    Provisioned,
    /// It stands, and its circuit is taken down until it is provisioned again.
    Released,
    /// It is over, and takes nothing.
    Terminated,
}

/// Why a reservation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Its hold's timer ran out.
    Expired,
    /// Its hold was given up.
    Aborted,
    /// Its owner ended it.
    Cancelled,
    /// Its schedule ended.
    Passed,
    /// A policy gave its bandwidth to another.
    PreEmpted,
}

/// What an owner asks of a reservation that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationVerb {
    /// Make the hold stand.
    Commit,
    /// Give the hold up.
    Abort,
    /// Make a circuit of it.
    Provision,
    /// Take its circuit down, and keep the booking.
    Release,
    /// End it, and give its bandwidth back.
    Terminate,
}

impl ReservationState {
    /// The state after `verb`, and the cause where that ends it; `None` where the verb makes no
    /// sense. A verb whose state is there already changes nothing, so that it can be repeated.
    pub fn after(self, verb: ReservationVerb) -> Option<(ReservationState, Option<EndCause>)> {
        use ReservationState::{Committed, Held, Provisioned, Released, Terminated};
        use ReservationVerb as Verb;
        Some(match (self, verb) {
            (Held, Verb::Commit) => (Committed, None),
            (Committed | Provisioned | Released, Verb::Commit) => (self, None),
            (Held, Verb::Abort) => (Terminated, Some(EndCause::Aborted)),
            (Committed | Released | Provisioned, Verb::Provision) => (Provisioned, None),
            (Provisioned | Released, Verb::Release) => (Released, None),
            (Held | Committed | Provisioned | Released, Verb::Terminate) => {
                (Terminated, Some(EndCause::Cancelled))
            }
            _ => return None,
        })
    }
}

/// A reservation, in one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its number.
    pub id: ReservationId,
    /// Counts from 1; each change of anything here is a new one.
    pub version: u64,
    /// Who asked for it.
    pub owner: String,
    /// Whose quota it counts against.
    pub project: String,
    /// What its owner calls it.
    pub label: String,
    /// Where it begins.
    pub from: SiteId,
    /// Where it ends.
    pub to: SiteId,
    /// Whether it carries its rate in both directions.
    pub both_ways: bool,
    /// What it carries, when, and over which links; in order of time.
    pub legs: Vec<Leg>,
    /// Where it stands.
    pub state: ReservationState,
    /// Why it is over.
    pub ended: Option<EndCause>,
    /// When its hold runs out.
    pub held_until: Option<Time>,
    /// Who goes first where a policy lets one go before another; higher is more.
    pub priority: u8,
    /// Links under maintenance that it could not be moved away from.
    pub stranded: bool,
    /// When it was asked for.
    pub created: Time,
}

impl Reservation {
    /// From the beginning of its first leg to the end of its last.
    pub fn window(&self) -> TimeWindow {
        TimeWindow {
            start: self.legs.iter().map(|leg| leg.window.start).min().unwrap_or_default(),
            end: self.legs.iter().map(|leg| leg.window.end).max().unwrap_or_default(),
        }
    }

    /// Whether its bandwidth is kept from others.
    pub fn takes_bandwidth(&self) -> bool {
        self.state != ReservationState::Terminated
    }

    /// What it carries in all, both directions counted once.
    pub fn volume(&self) -> Bytes {
        Bytes(self.legs.iter().fold(0, |sum: u64, leg| sum.saturating_add(leg.volume().0)))
    }

    /// The legs that a circuit is made of at `now`: only while it is provisioned and its schedule
    /// says so.
    pub fn active(&self, now: Time) -> impl Iterator<Item = &Leg> {
        let provisioned = self.state == ReservationState::Provisioned;
        self.legs.iter().filter(move |leg| provisioned && leg.window.contains(now))
    }

    /// Every directed link that it takes bandwidth from, with when and how much.
    pub fn taken<'a>(
        &'a self,
        view: NetworkView<'a>,
    ) -> impl Iterator<Item = (Vec<LinkId>, TimeWindow, Rate)> + 'a {
        let view = NetworkView { both_ways: self.both_ways, ..view };
        self.legs.iter().map(move |leg| (view.taken(&leg.route), leg.window, leg.rate))
    }

    /// The instant at which something happens to it by itself.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            ReservationState::Terminated => None,
            ReservationState::Held => Some(
                self.held_until.map_or(self.window().end, |until| until.min(self.window().end)),
            ),
            _ => Some(self.window().end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_from_every_state_is_written_down() {
        use ReservationState as State;
        use ReservationVerb as Verb;
        let states =
            [State::Held, State::Committed, State::Provisioned, State::Released, State::Terminated];
        let table = [
            (
                Verb::Commit,
                [
                    Some(State::Committed),
                    Some(State::Committed),
                    Some(State::Provisioned),
                    Some(State::Released),
                    None,
                ],
            ),
            (Verb::Abort, [Some(State::Terminated), None, None, None, None]),
            (
                Verb::Provision,
                [
                    None,
                    Some(State::Provisioned),
                    Some(State::Provisioned),
                    Some(State::Provisioned),
                    None,
                ],
            ),
            (Verb::Release, [None, None, Some(State::Released), Some(State::Released), None]),
            (
                Verb::Terminate,
                [
                    Some(State::Terminated),
                    Some(State::Terminated),
                    Some(State::Terminated),
                    Some(State::Terminated),
                    None,
                ],
            ),
        ];
        for (verb, afters) in table {
            for (state, after) in states.iter().zip(afters) {
                let found = state.after(verb);
                assert_eq!(found.map(|(state, _)| state), after, "{state:?} {verb:?}");
                let over = found.is_some_and(|(_, cause)| cause.is_some());
                assert_eq!(over, after == Some(State::Terminated), "{state:?} {verb:?}");
            }
        }
    }

    #[test]
    fn an_id_reads_as_it_prints() {
        assert_eq!("r-17".parse(), Ok(ReservationId(17)));
        assert_eq!(ReservationId(17).to_string().parse(), Ok(ReservationId(17)));
        for wrong in ["", "r-", "r-+1", "x", "-1", "r--1"] {
            assert_eq!(wrong.parse::<ReservationId>(), Err(()), "{wrong}");
        }
    }
}
