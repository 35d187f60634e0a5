//! What agents say of circuits, held against what is booked: every circuit has the word of each
//! agent that makes it or an end of it, and what is wrong with one of them is hidden by no other.

use super::circuit::{CircuitNumber, active_leg, contradiction, routes};
use super::reservation::{Reservation, ReservationId};
use super::topology::SiteId;
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How long an agent may take to do what is booked anew before it is said that it did not.
const GRACE: Span = Span::from_secs(3);
/// How long an agent may say nothing: it speaks of each circuit each 2 s.
const SILENT: Span = Span::from_secs(6);
/// How long a word is kept that nobody repeats.
const KEPT: Span = Span::from_secs(86_400);

/// Who speaks of a circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CircuitReporter {
    /// The agent's name; empty where none has spoken.
    pub agent: String,
    /// The site of the end that it makes; nothing where it makes all of the circuit.
    pub site: Option<SiteId>,
}

/// An agent's word on a circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Whether it is up.
    pub up: bool,
    /// What the device enforces.
    pub rate: Rate,
    /// What it has carried.
    pub carried: Bytes,
    /// Its addresses where it begins and where it ends, where it has some.
    pub addresses: Option<[IpAddr; 2]>,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// A word on a circuit, with what is wrong with the word itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedReport {
    /// Which circuit.
    pub number: CircuitNumber,
    /// Whose word.
    pub reporter: CircuitReporter,
    /// The word.
    pub report: AgentReport,
    /// When it was said, by the calendar's clock.
    pub at: Time,
}

/// Two clocks: the calendar's, by which things are booked, and one that only goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportTime {
    /// The calendar's.
    pub calendar: Time,
    /// Time since whenever, which no one sets.
    pub steady: Time,
}

#[derive(Clone, Debug)]
struct ReceivedReport {
    report: AgentReport,
    at: ReportTime,
    /// Since when, by the steady clock, what it says is not what is booked.
    odd: Option<Time>,
}

/// What agents said last.
#[derive(Clone, Debug, Default)]
pub struct CircuitReports {
    received: BTreeMap<ReservationId, BTreeMap<(CircuitNumber, CircuitReporter), ReceivedReport>>,
}

impl CircuitReports {
    /// Takes in an agent's word on a circuit of `booked`.
    pub fn hear(
        &mut self,
        now: ReportTime,
        booked: &Reservation,
        number: CircuitNumber,
        reporter: CircuitReporter,
        report: AgentReport,
    ) {
        self.received.retain(|_, known| {
            known.retain(|_, heard| now.steady.since(heard.at.steady) < KEPT);
            !known.is_empty()
        });
        let known = self.received.entry(booked.id).or_default();
        let key = (number, reporter);
        let since = known.get(&key).and_then(|heard| heard.odd).unwrap_or(now.steady);
        let differs = contradiction(booked, number, now.calendar, report.up, report.rate);
        let odd = differs.map(|_| since);
        known.insert(key, ReceivedReport { report, at: now, odd });
    }

    /// Forgets what was said of a reservation.
    pub fn forget(&mut self, id: ReservationId) {
        self.received.remove(&id);
    }

    /// The reservations of which something was said.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationId> {
        self.received.keys().copied()
    }

    /// What is said of the circuits of `booked`, by number, site and agent, and what nobody says.
    pub fn judged(&self, now: ReportTime, booked: &Reservation) -> Vec<JudgedReport> {
        let known = self.received.get(&booked.id);
        let mut all: Vec<JudgedReport> = known
            .into_iter()
            .flatten()
            .filter(|(key, heard)| {
                // Who took over an end speaks of it in the place of who is gone.
                !heard.is_silent(now)
                    || !known.into_iter().flatten().any(|(other, word)| {
                        key.1.site.is_some()
                            && (other.0, other.1.site) == (key.0, key.1.site)
                            && !word.is_silent(now)
                    })
            })
            .filter_map(|((number, reporter), heard)| {
                let report = heard.judged(now, booked, *number)?;
                let (reporter, at) = (reporter.clone(), heard.at.calendar);
                Some(JudgedReport { number: *number, reporter, report, at })
            })
            .collect();
        all.extend(missing(now, booked, &all));
        all.sort_by(|a, b| {
            let of = |word: &JudgedReport| (word.number, word.reporter.site);
            of(a).cmp(&of(b)).then_with(|| a.reporter.cmp(&b.reporter))
        });
        all
    }
}

impl ReceivedReport {
    fn is_silent(&self, now: ReportTime) -> bool {
        now.steady.since(self.at.steady) >= SILENT
    }

    /// The word with what is wrong with it; nothing where it is of no more use.
    fn judged(
        &self,
        now: ReportTime,
        booked: &Reservation,
        number: CircuitNumber,
    ) -> Option<AgentReport> {
        let mut report = self.report.clone();
        if self.is_silent(now) {
            // Of one that is down, and has to be, nobody need say anything.
            if !report.up && active_leg(booked, number, now.calendar).is_none() {
                return None;
            }
            let seconds = now.steady.since(self.at.steady).as_secs_f64() as u64;
            let said = report.trouble.take().map(|said| format!("; {said}")).unwrap_or_default();
            report.trouble = Some(format!("its agent has said nothing for {seconds} s{said}"));
        } else if report.trouble.is_none()
            && self.odd.is_some_and(|odd| now.steady.since(odd) >= GRACE)
        {
            report.trouble = contradiction(booked, number, now.calendar, report.up, report.rate);
        }
        Some(report)
    }
}

/// What stands for circuits, and ends of them, whose time has come and of which nobody has said
/// anything.
fn missing(now: ReportTime, booked: &Reservation, said: &[JudgedReport]) -> Vec<JudgedReport> {
    let mut all = Vec::new();
    for at in 0..routes(&booked.legs).len() {
        let Some(number) = CircuitNumber::of(booked.id, at) else { continue };
        let due = active_leg(booked, number, now.calendar).map(|leg| leg.window.start);
        if due.is_none_or(|due| now.calendar.since(due) < SILENT) {
            continue;
        }
        let heard = || said.iter().filter(|word| word.number == number);
        let sites: Option<Vec<SiteId>> = heard().map(|word| word.reporter.site).collect();
        let (sites, what) = match sites {
            Some(sites) if sites.is_empty() => (vec![None], "it"),
            Some(sites) => {
                let ends = [booked.from, booked.to].into_iter();
                (ends.filter(|end| !sites.contains(end)).map(Some).collect(), "this end")
            }
            // Somebody makes all of it.
            None => continue,
        };
        all.extend(sites.into_iter().map(|site| {
            let trouble = Some(format!("no agent has said anything of {what}"));
            let reporter = CircuitReporter { agent: String::new(), site };
            let report = AgentReport { trouble, ..AgentReport::default() };
            JudgedReport { number, reporter, report, at: now.calendar }
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::circuit::tests::reservation;
    use crate::calendar::{Leg, LinkId, TimeWindow};

    const RATES: [Rate; 2] = [Rate::from_bps(5), Rate::from_bps(7)];

    fn at(seconds: u64) -> ReportTime {
        let time = Time::from_nanos(seconds * 1_000_000_000);
        ReportTime { calendar: time, steady: time }
    }

    /// From 10 s to 100 s over two routes at once.
    fn booked() -> Reservation {
        let window = TimeWindow { start: at(10).calendar, end: at(100).calendar };
        let leg = |link: u32| Leg { window, rate: RATES[link as usize], route: vec![LinkId(link)] };
        reservation(3, vec![leg(0), leg(1)])
    }

    fn number(at: usize) -> CircuitNumber {
        CircuitNumber::of(ReservationId(3), at).expect("a number")
    }

    fn up(route: usize) -> AgentReport {
        AgentReport { up: true, rate: RATES[route], ..AgentReport::default() }
    }

    fn by(agent: &str, site: Option<u32>) -> CircuitReporter {
        CircuitReporter { agent: agent.to_owned(), site: site.map(SiteId) }
    }

    /// Route, agent and trouble of each word.
    fn troubles(reports: &CircuitReports, now: ReportTime) -> Vec<(usize, String, String)> {
        let judged = reports.judged(now, &booked()).into_iter();
        judged
            .map(|word| {
                let site = word.reporter.site.map(|site| format!("@{}", site.0));
                let agent = format!("{}{}", word.reporter.agent, site.unwrap_or_default());
                (word.number.route(), agent, word.report.trouble.unwrap_or_default())
            })
            .collect()
    }

    fn expected(words: &[(usize, &str, &str)]) -> Vec<(usize, String, String)> {
        words.iter().map(|(at, who, what)| (*at, (*who).to_owned(), (*what).to_owned())).collect()
    }

    #[test]
    fn routes_of_one_reservation_have_words_of_their_own() {
        let mut reports = CircuitReports::default();
        for second in [11, 13, 15] {
            let down = AgentReport { up: false, ..up(0) };
            reports.hear(at(second), &booked(), number(0), by("a", None), down);
            reports.hear(at(second), &booked(), number(1), by("a", None), up(1));
        }
        let is_down = (0, "a", "it is not up in its time");
        assert_eq!(troubles(&reports, at(16)), expected(&[is_down, (1, "a", "")]));
        // What one says of the other's rate is not what is booked for it.
        for second in [17, 19, 21] {
            reports.hear(at(second), &booked(), number(0), by("a", None), up(1));
            reports.hear(at(second), &booked(), number(1), by("a", None), up(1));
        }
        let wrong = (0, "a", "its device has 7 bit/s, and 5 bit/s is booked");
        assert_eq!(troubles(&reports, at(22)), expected(&[wrong, (1, "a", "")]));
    }

    #[test]
    fn an_end_in_trouble_is_not_hidden_by_the_other() {
        let mut reports = CircuitReports::default();
        let trouble = |what: &str| AgentReport { trouble: Some(what.to_owned()), ..up(0) };
        // One token for both.
        reports.hear(at(11), &booked(), number(0), by("a", Some(0)), trouble("no VLAN"));
        reports.hear(at(11), &booked(), number(0), by("a", Some(1)), up(0));
        let said = troubles(&reports, at(12));
        assert_eq!(said, expected(&[(0, "a@0", "no VLAN"), (0, "a@1", "")]));
        // The same again, by agents of different names that make all of it.
        reports.hear(at(11), &booked(), number(1), by("b", None), trouble("no port"));
        reports.hear(at(11), &booked(), number(1), by("c", None), up(1));
        let said = troubles(&reports, at(12));
        assert_eq!(said[2..], expected(&[(1, "b", "no port"), (1, "c", "")]));
    }

    #[test]
    fn who_vanished_is_told_where_its_circuits_are_alone() {
        let mut reports = CircuitReports::default();
        for second in (11..20).step_by(2) {
            if second < 14 {
                reports.hear(at(second), &booked(), number(0), by("a", Some(0)), up(0));
            }
            reports.hear(at(second), &booked(), number(0), by("b", Some(1)), up(0));
            reports.hear(at(second), &booked(), number(1), by("b", None), up(1));
        }
        let silent = (0, "a@0", "its agent has said nothing for 6 s");
        assert_eq!(troubles(&reports, at(19)), expected(&[silent, (0, "b@1", ""), (1, "b", "")]));
        // Another agent takes over its end.
        reports.hear(at(19), &booked(), number(0), by("c", Some(0)), up(0));
        let over = [(0, "c@0", ""), (0, "b@1", ""), (1, "b", "")];
        assert_eq!(troubles(&reports, at(19)), expected(&over));
    }

    #[test]
    fn an_end_and_a_circuit_of_which_nobody_speaks_are_told() {
        let mut reports = CircuitReports::default();
        assert_eq!(troubles(&reports, at(15)), [], "there is a moment for it");
        reports.hear(at(15), &booked(), number(0), by("a", Some(0)), up(0));
        let missing = [
            (0, "a@0", ""),
            (0, "@1", "no agent has said anything of this end"),
            (1, "", "no agent has said anything of it"),
        ];
        assert_eq!(troubles(&reports, at(16)), expected(&missing));
    }

    #[test]
    fn silence_after_its_time_is_no_trouble() {
        let mut reports = CircuitReports::default();
        let down = AgentReport { up: false, ..up(0) };
        for route in [0, 1] {
            reports.hear(at(100), &booked(), number(route), by("a", None), down.clone());
        }
        assert_eq!(troubles(&reports, at(120)), []);
        // What may be up still is.
        reports.hear(at(100), &booked(), number(0), by("a", None), up(0));
        let silent = (0, "a", "its agent has said nothing for 20 s");
        assert_eq!(troubles(&reports, at(120)), expected(&[silent]));
        reports.forget(ReservationId(3));
        assert_eq!(troubles(&reports, at(120)), []);
        assert_eq!(reports.reservations().count(), 0);
    }
}
