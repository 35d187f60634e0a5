//! Documents from what the book knows, and back.

use super::super::clock::{time_of, timestamp};
use super::{
    AlternativeDocument, ClosureDocument, LegDocument, ObstacleDocument, ProblemKind,
    RefusalDocument, ReservationDocument, StateDocument, TopologyDocument,
};
use farline_core::calendar::{
    Alternative, AlternativeKind, BookingRefusal, EndCause, Leg, LinkClosure, LinkId, LinkSpec,
    Obstacle, RefusalCause, Reservation, ReservationId, ReservationState, TimeWindow, Topology,
    TopologySpec,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Time};

fn route_names(topology: &Topology, route: &[LinkId]) -> Vec<String> {
    route.iter().map(|id| topology.link(*id).name.clone()).collect()
}

impl TopologyDocument {
    /// The network that it describes.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn to_topology(&self) -> Result<Topology, Error> {
        let hosts = self.sites.iter().filter(|site| !site.hosts.is_empty());
        let spec = TopologySpec {
            name: self.name.clone(),
            sites: self.sites.iter().map(|site| site.name.clone()).collect(),
            hosts: hosts.map(|site| (site.name.clone(), site.hosts.clone())).collect(),
            // Each link stands there twice, once for each direction.
            links: self
                .links
                .iter()
                .step_by(2)
                .map(|link| LinkSpec {
                    between: [link.from.clone(), link.to.clone()],
                    rate: format!("{}bps", link.rate_bps),
                    one_way_delay: format!("{}ns", link.one_way_delay_ns),
                    name: link.name.split_once('/').map(|(_, name)| name.to_owned()),
                })
                .collect(),
        };
        Topology::new(&spec).map_err(|error| {
            let message = format!("the calendar's network: {error}");
            Error::new(Fault::There, ErrorCode::CalendarAnswer, message)
        })
    }
}

impl LegDocument {
    pub(in crate::calendar) fn of(topology: &Topology, leg: &Leg) -> LegDocument {
        LegDocument {
            start: timestamp(leg.window.start),
            end: timestamp(leg.window.end),
            rate_bps: leg.rate.as_bps(),
            route: route_names(topology, &leg.route),
        }
    }

    pub(in crate::calendar) fn to_leg(&self, topology: &Topology) -> Option<Leg> {
        let route: Option<Vec<LinkId>> =
            self.route.iter().map(|name| topology.link_named(name)).collect();
        Some(Leg { window: self.window()?, rate: Rate::from_bps(self.rate_bps), route: route? })
    }

    /// From when to when; nothing where the times cannot be read.
    pub fn window(&self) -> Option<TimeWindow> {
        Some(TimeWindow { start: time_of(&self.start)?, end: time_of(&self.end)? })
    }
}

impl StateDocument {
    pub(in crate::calendar) fn of(state: ReservationState) -> StateDocument {
        match state {
            ReservationState::Held => StateDocument::Held,
            ReservationState::Committed => StateDocument::Committed,
            ReservationState::Provisioned => StateDocument::Provisioned,
            ReservationState::Released => StateDocument::Released,
            ReservationState::Terminated => StateDocument::Terminated,
        }
    }

    fn to_state(self) -> ReservationState {
        match self {
            StateDocument::Held => ReservationState::Held,
            StateDocument::Committed => ReservationState::Committed,
            StateDocument::Provisioned => ReservationState::Provisioned,
            StateDocument::Released => ReservationState::Released,
            StateDocument::Terminated => ReservationState::Terminated,
        }
    }
}

impl std::fmt::Display for StateDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            StateDocument::Held => "held",
            StateDocument::Committed => "committed",
            StateDocument::Provisioned => "provisioned",
            StateDocument::Released => "released",
            StateDocument::Terminated => "terminated",
        })
    }
}

/// Causes and their words.
const CAUSES: [(EndCause, &str); 5] = [
    (EndCause::Expired, "expired"),
    (EndCause::Aborted, "aborted"),
    (EndCause::Cancelled, "cancelled"),
    (EndCause::Passed, "passed"),
    (EndCause::PreEmpted, "pre_empted"),
];

impl ReservationDocument {
    pub(in crate::calendar) fn of(
        topology: &Topology,
        reservation: &Reservation,
    ) -> ReservationDocument {
        let cause = |cause| CAUSES.iter().find(|(known, _)| *known == cause);
        ReservationDocument {
            schema: "farline/reservation/1".to_owned(),
            id: reservation.id.to_string(),
            version: reservation.version,
            owner: reservation.owner.clone(),
            project: reservation.project.clone(),
            label: reservation.label.clone(),
            from: topology.site_name(reservation.from).to_owned(),
            to: topology.site_name(reservation.to).to_owned(),
            both_ways: reservation.both_ways,
            legs: reservation.legs.iter().map(|leg| LegDocument::of(topology, leg)).collect(),
            state: StateDocument::of(reservation.state),
            ended: reservation.ended.and_then(cause).map(|(_, word)| (*word).to_owned()),
            held_until: reservation.held_until.map(timestamp),
            priority: reservation.priority,
            stranded: reservation.stranded,
            created: timestamp(reservation.created),
        }
    }

    /// The reservation that it describes; nothing where a site or link is not of `topology`.
    pub fn to_reservation(&self, topology: &Topology) -> Option<Reservation> {
        let legs: Option<Vec<Leg>> = self.legs.iter().map(|leg| leg.to_leg(topology)).collect();
        let cause = |word: &String| CAUSES.iter().find(|(_, known)| known == word);
        Some(Reservation {
            id: self.id.parse::<ReservationId>().ok()?,
            version: self.version,
            owner: self.owner.clone(),
            project: self.project.clone(),
            label: self.label.clone(),
            from: topology.site(&self.from)?,
            to: topology.site(&self.to)?,
            both_ways: self.both_ways,
            legs: legs?,
            state: self.state.to_state(),
            ended: self.ended.as_ref().and_then(cause).map(|(cause, _)| *cause),
            held_until: self.held_until.as_deref().and_then(time_of),
            priority: self.priority,
            stranded: self.stranded,
            created: time_of(&self.created)?,
        })
    }

    /// From its first leg's beginning to its last leg's end; zero where it has none.
    pub fn window(&self) -> TimeWindow {
        let windows: Vec<TimeWindow> = self.legs.iter().filter_map(LegDocument::window).collect();
        TimeWindow {
            start: windows.iter().map(|w| w.start).min().unwrap_or(Time::ZERO),
            end: windows.iter().map(|w| w.end).max().unwrap_or(Time::ZERO),
        }
    }
}

impl ClosureDocument {
    pub(in crate::calendar) fn of(topology: &Topology, closure: &LinkClosure) -> ClosureDocument {
        ClosureDocument {
            schema: "farline/closure/1".to_owned(),
            id: closure.id,
            link: topology.link(closure.link).name.clone(),
            start: timestamp(closure.window.start),
            end: timestamp(closure.window.end),
            reason: closure.reason.clone(),
            withdrawn: closure.withdrawn,
            moved: Vec::new(),
            stranded: Vec::new(),
        }
    }

    pub(in crate::calendar) fn to_closure(&self, topology: &Topology) -> Option<LinkClosure> {
        Some(LinkClosure {
            id: self.id,
            link: topology.link_named(&self.link)?,
            window: TimeWindow { start: time_of(&self.start)?, end: time_of(&self.end)? },
            reason: self.reason.clone(),
            withdrawn: self.withdrawn,
        })
    }
}

impl RefusalDocument {
    /// A problem without alternatives.
    pub(in crate::calendar) fn new(
        status: u16,
        kind: ProblemKind,
        title: &str,
        detail: String,
    ) -> RefusalDocument {
        RefusalDocument {
            kind: kind.urn(),
            title: title.to_owned(),
            status,
            detail,
            nsi: None,
            obstacles: Vec::new(),
            alternatives: Vec::new(),
        }
    }

    pub(in crate::calendar) fn of(
        topology: &Topology,
        refusal: &BookingRefusal,
    ) -> RefusalDocument {
        let (status, kind, title, nsi) = match refusal.cause {
            RefusalCause::BadRequest => {
                (422, ProblemKind::BadRequest, "The request makes no sense", "00101")
            }
            RefusalCause::Denied => (403, ProblemKind::Denied, "Not allowed", "00302"),
            RefusalCause::OverQuota => (409, ProblemKind::OverQuota, "A quota is used up", "00501"),
            RefusalCause::NoCapacity => {
                (409, ProblemKind::NoCapacity, "Bandwidth is not free", "00705")
            }
            RefusalCause::NotFound => {
                (404, ProblemKind::NotFound, "There is no such thing", "00203")
            }
            RefusalCause::Stale => (412, ProblemKind::Stale, "It has changed meanwhile", "00201"),
            RefusalCause::WrongState => {
                (409, ProblemKind::WrongState, "Not in this state", "00201")
            }
        };
        let obstacle = |obstacle: &Obstacle| ObstacleDocument {
            link: topology.link(obstacle.link).name.clone(),
            start: timestamp(obstacle.window.start),
            end: timestamp(obstacle.window.end),
            free_bps: obstacle.free.as_bps(),
        };
        RefusalDocument {
            nsi: Some(nsi.to_owned()),
            obstacles: refusal.obstacles.iter().map(obstacle).collect(),
            alternatives: refusal
                .alternatives
                .iter()
                .map(|alternative| AlternativeDocument::of(topology, alternative))
                .collect(),
            ..RefusalDocument::new(status, kind, title, refusal.detail.clone())
        }
    }
}

impl AlternativeDocument {
    fn of(topology: &Topology, alternative: &Alternative) -> AlternativeDocument {
        let kind = match alternative.kind {
            AlternativeKind::Later => "later",
            AlternativeKind::Slower => "slower",
            AlternativeKind::SeveralRoutes => "several-routes",
            AlternativeKind::Longer => "longer",
            AlternativeKind::Variable => "variable",
            AlternativeKind::Less => "less",
        };
        let legs = alternative.legs.iter().map(|leg| LegDocument::of(topology, leg)).collect();
        AlternativeDocument { kind: kind.to_owned(), legs }
    }
}
