//! The agent that makes circuits real: a loop that brings a device to what the calendar has booked.
//!
//! What should be there is the calendar's word, what is there the device's own; the steps between
//! the two are decided in `core::calendar::circuit`. Timers and events only say when to look again,
//! so that one that is missed costs a moment and no more. While the calendar is away, what it said
//! last goes on.

mod command;
mod connection;
mod driver;
#[cfg(feature = "link")]
mod emulated;
mod linux;
mod worker;

pub use command::{CIRCUIT_TIMEOUT, CommandDriver};
use connection::{AgentMessage, CalendarConnection};
pub use driver::{CircuitDriver, DeviceCircuit};
#[cfg(feature = "link")]
pub use emulated::EmulatedDriver;
pub use linux::{CircuitAddresses, CircuitVlans, ClassHandle, InterfaceSettings, LinuxDriver};

use crate::calendar::wire::{CircuitReport, TopologyDocument};
use crate::calendar::{CalendarAddress, CalendarClient, now};
use farline_core::calendar::circuit::{
    ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit, desired, next_change, steps,
};
use farline_core::calendar::{Reservation, Topology};
use farline_core::units::{Error, Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use worker::Worker;

/// How long before its time a circuit is made ready.
const AHEAD: Span = Span::from_secs(5);
/// How long after its end it is kept, shut: what is on its way arrives.
const LINGER: Span = Span::from_secs(1);
/// How often the device is looked at, and reports are made, where nothing changes.
const LOOK: Duration = Duration::from_secs(2);
/// How long a slow step, which makes or removes devices, is thought to take before one did; how
/// long at the most.
const SLOW: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// The longest reason that a calendar takes, in bytes.
const TROUBLE: usize = 200;
/// The first wait after a step that failed; it doubles up to the longest.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

/// What an agent tells of its work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CircuitNotice {
    /// A step was done, and how late it was where it had a time.
    Done {
        /// The step.
        step: CircuitStep,
        /// When.
        at: Time,
        /// After its schedule.
        late: Option<Span>,
    },
    /// A step failed; it is tried again.
    Failed {
        /// The step.
        step: CircuitStep,
        /// Why.
        error: Error,
    },
    /// The calendar is away, or back.
    Calendar(Option<Error>),
    /// The device does not say what it has, or does again.
    Device(Option<Error>),
}

/// An agent.
pub struct CircuitAgent {
    address: CalendarAddress,
    driver: Box<dyn CircuitDriver>,
    topology: Topology,
    /// Nothing before the calendar said it once.
    reservations: Option<Vec<Reservation>>,
    away: bool,
    /// How long slow steps took lately.
    slow: Duration,
    /// The device does not reply.
    is_silent: bool,
    failing: BTreeMap<CircuitNumber, FailingCircuit>,
    /// Circuits that are being made or removed in a thread of its own.
    under_way: BTreeSet<CircuitNumber>,
    reported: BTreeMap<CircuitNumber, (Instant, ReportedCircuit)>,
}

/// A circuit whose last step failed.
#[derive(Clone, Debug)]
struct FailingCircuit {
    /// When it is tried again.
    until: Instant,
    wait: Duration,
    why: String,
}

/// What the calendar was told of a circuit, but for what it carried.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReportedCircuit {
    up: bool,
    rate: Rate,
    trouble: Option<String>,
}

impl std::fmt::Debug for CircuitAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CircuitAgent({})", self.address.url)
    }
}

impl CircuitAgent {
    /// An agent of the calendar at `address`, which it must reach to begin.
    ///
    /// # Errors
    /// When the calendar cannot be reached, or refuses.
    pub fn new(
        address: CalendarAddress,
        mut driver: Box<dyn CircuitDriver>,
    ) -> Result<Self, Error> {
        let mut client = CalendarClient::new(address.clone())?;
        let topology = client.get::<TopologyDocument>("/v1/topology")?.to_topology()?;
        driver.fit(&topology)?;
        Ok(CircuitAgent {
            address,
            driver,
            topology,
            reservations: None,
            away: false,
            slow: SLOW[0],
            is_silent: false,
            failing: BTreeMap::new(),
            under_way: BTreeSet::new(),
            reported: BTreeMap::new(),
        })
    }

    /// Works until `stop` is set, and leaves circuits as they are.
    pub fn run(mut self, stop: &Arc<AtomicBool>, mut tell: impl FnMut(CircuitNotice)) {
        // What waits for the calendar is not here: a circuit opens at its time while the calendar
        // is slow.
        let connection = CalendarConnection::new(&self.address, &self.topology);
        let worker = self
            .driver
            .second()
            .and_then(|driver| Worker::new(driver, self.topology.clone(), connection.back.clone()));
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.reconcile(&connection, worker.as_ref(), &mut tell);
            self.wait(&connection, looked + LOOK, &mut tell);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
            }
        }
    }

    /// Waits for word of the calendar, for the next change of what is desired, or until `latest`.
    fn wait(
        &mut self,
        connection: &CalendarConnection,
        latest: Instant,
        tell: &mut impl FnMut(CircuitNotice),
    ) {
        let until = next_change(self.booked(), now(), AHEAD, LINGER);
        let until = until.map_or(LOOK, |time| Duration::from(time.since(now())));
        let latest = latest.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let failing =
            self.failing.values().map(|f| f.until.saturating_duration_since(Instant::now()));
        let wait = failing.fold(until.min(latest), Duration::min).max(Duration::from_micros(100));
        match connection.messages.recv_timeout(wait) {
            Ok(first) => {
                self.heed(first, tell);
                // What came together is looked at once.
                while let Ok(more) = connection.messages.try_recv() {
                    self.heed(more, tell);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
        }
    }

    fn heed(&mut self, heard: AgentMessage, tell: &mut impl FnMut(CircuitNotice)) {
        match heard {
            AgentMessage::Booked(reservations) => {
                self.reservations = Some(reservations);
                if std::mem::take(&mut self.away) {
                    tell(CircuitNotice::Calendar(None));
                }
            }
            AgentMessage::Away(error) => {
                if !std::mem::replace(&mut self.away, true) {
                    tell(CircuitNotice::Calendar(Some(error)));
                }
            }
            // It is told again by the next look.
            AgentMessage::NotTold(number) => drop(self.reported.remove(&number)),
            AgentMessage::Did(step, done) => {
                self.under_way.remove(&number_of(&step));
                self.ended(step, done, None, tell);
            }
        }
    }

    fn booked(&self) -> &[Reservation] {
        self.reservations.as_deref().unwrap_or_default()
    }

    /// Brings the device to what is booked now.
    fn reconcile(
        &mut self,
        connection: &CalendarConnection,
        worker: Option<&Worker>,
        tell: &mut impl FnMut(CircuitNotice),
    ) {
        let time = now();
        // What is not known yet is no reason to take anything down.
        let Some(booked) = &self.reservations else { return };
        let mut wanted = desired(booked, time, AHEAD, LINGER);
        wanted.retain(|_, circuit| self.driver.concerns(circuit));
        let Some(there) = self.device_circuits(&wanted, connection, tell) else { return };
        let actual: BTreeMap<CircuitNumber, ActualCircuit> =
            there.iter().map(|(number, device)| (*number, device.circuit.clone())).collect();
        let mut changed = false;
        self.failing.retain(|number, _| wanted.contains_key(number) || there.contains_key(number));
        for step in steps(&wanted, &actual) {
            let number = number_of(&step);
            if self.failing.get(&number).is_some_and(|failing| failing.until > Instant::now()) {
                continue;
            }
            if self.under_way.contains(&number) {
                continue;
            }
            let is_slow = is_slow(&step);
            if is_slow && worker.is_some_and(|worker| worker.begin(&step)) {
                self.under_way.insert(number);
                continue;
            }
            if is_slow && self.switches_soon() {
                // It has time; what opens and shuts in a moment has none.
                continue;
            }
            let due = self.due(&step, time);
            let begun = Instant::now();
            let done = self.driver.step(&self.topology, &step);
            if is_slow {
                self.slow = begun.elapsed().max(self.slow * 7 / 8).min(SLOW[1]);
            }
            changed |= done.is_ok();
            self.ended(step, done, due, tell);
        }
        let there = match changed {
            false => Some(there),
            true => self.device_circuits(&wanted, connection, tell),
        };
        if let Some(there) = there {
            self.report_all(&wanted, &there, connection);
        }
    }

    /// A step that was to be done at `due` is over.
    fn ended(
        &mut self,
        step: CircuitStep,
        done: Result<(), Error>,
        due: Option<Time>,
        tell: &mut impl FnMut(CircuitNotice),
    ) {
        let number = number_of(&step);
        match done {
            Ok(()) => {
                self.failing.remove(&number);
                let at = now();
                tell(CircuitNotice::Done { step, at, late: due.map(|due| at.since(due)) });
            }
            Err(error) => {
                let wait = self.failing.get(&number).map_or(BACKOFF[0], |f| f.wait * 2);
                let wait = wait.min(BACKOFF[1]);
                let (until, why) = (Instant::now() + wait, error.message.clone());
                self.failing.insert(number, FailingCircuit { until, wait, why });
                tell(CircuitNotice::Failed { step, error });
            }
        }
    }

    /// What is there. A device that does not say is told of, here and to the calendar, and looked
    /// at again: nothing is known of it.
    fn device_circuits(
        &mut self,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
        connection: &CalendarConnection,
        tell: &mut impl FnMut(CircuitNotice),
    ) -> Option<BTreeMap<CircuitNumber, DeviceCircuit>> {
        match self.driver.circuits(&self.topology, wanted) {
            Ok(there) => {
                if std::mem::take(&mut self.is_silent) {
                    tell(CircuitNotice::Device(None));
                }
                Some(there)
            }
            Err(error) => {
                let why = format!("the device does not reply: {}", error.message);
                for number in wanted.keys() {
                    self.report(*number, None, Some(why.clone()), connection);
                }
                if !std::mem::replace(&mut self.is_silent, true) {
                    tell(CircuitNotice::Device(Some(error)));
                }
                None
            }
        }
    }

    /// Whether a circuit opens or shuts so soon that a slow step would be in its way.
    fn switches_soon(&self) -> bool {
        let next = next_change(self.booked(), now(), Span::ZERO, Span::ZERO);
        next.is_some_and(|time| Duration::from(time.since(now())) < self.slow * 5 / 4)
    }

    /// When the schedule wanted a step that opens, shuts or changes.
    fn due(&self, step: &CircuitStep, now: Time) -> Option<Time> {
        let id = number_of(step).reservation();
        let legs =
            || self.booked().iter().filter(|known| known.id == id).flat_map(|known| &known.legs);
        match step {
            CircuitStep::Open(_) | CircuitStep::Change(..) => {
                legs().map(|leg| leg.window.start).filter(|time| *time <= now).max()
            }
            CircuitStep::Shut(_) => {
                legs().map(|leg| leg.window.end).filter(|time| *time <= now).max()
            }
            _ => None,
        }
    }

    /// Tells the calendar of circuits that are there, and of what keeps others from it.
    fn report_all(
        &mut self,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
        there: &BTreeMap<CircuitNumber, DeviceCircuit>,
        connection: &CalendarConnection,
    ) {
        self.reported.retain(|number, _| there.contains_key(number) || wanted.contains_key(number));
        for (number, device) in there {
            let odd = (!device.circuit.as_ordered).then(|| "not as it was ordered".to_owned());
            let failing = self.failing.get(number).map(|failing| failing.why.clone());
            let trouble = failing.or(odd).or(device.trouble.clone());
            self.report(*number, Some(device), trouble, connection);
        }
        let missing = wanted.keys().filter(|number| !there.contains_key(number));
        let failing: Vec<(CircuitNumber, String)> = missing
            .filter_map(|number| Some((*number, self.failing.get(number)?.why.clone())))
            .collect();
        for (number, why) in failing {
            self.report(number, None, Some(why), connection);
        }
    }

    /// Tells the calendar of a circuit: at once where something changed, and now and then.
    fn report(
        &mut self,
        number: CircuitNumber,
        device: Option<&DeviceCircuit>,
        trouble: Option<String>,
        connection: &CalendarConnection,
    ) {
        let up = device.is_some_and(|device| device.circuit.open);
        let rate = device.map(|device| device.circuit.rate).unwrap_or_default();
        let trouble = trouble.map(|why| in_short(&why));
        let told = ReportedCircuit { up, rate, trouble: trouble.clone() };
        let known = self.reported.get(&number);
        if known.is_some_and(|(at, known)| at.elapsed() < LOOK && *known == told) {
            return;
        }
        let site = self.driver.site().map(|site| self.topology.site_name(site).to_owned());
        let report = CircuitReport {
            id: number.reservation().to_string(),
            number: Some(number.0),
            site,
            up,
            rate_bps: rate.as_bps(),
            carried_bytes: device.map_or(0, |device| device.carried),
            addresses: device.and_then(|device| device.addresses),
            trouble,
        };
        connection.report(number, report);
        self.reported.insert(number, (Instant::now(), told));
    }
}

/// Whether a step makes or removes devices, and has time for it.
fn is_slow(step: &CircuitStep) -> bool {
    match step {
        CircuitStep::Prepare(_, circuit) => !circuit.open,
        CircuitStep::Remove(_) => true,
        _ => false,
    }
}

/// As much of a reason as a calendar takes: printable, and no longer than its labels.
fn in_short(why: &str) -> String {
    let mut short = String::new();
    for c in why.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if short.len() + c.len_utf8() > TROUBLE {
            break;
        }
        short.push(c);
    }
    short
}

fn number_of(step: &CircuitStep) -> CircuitNumber {
    match step {
        CircuitStep::Prepare(number, _)
        | CircuitStep::Open(number)
        | CircuitStep::Change(number, _)
        | CircuitStep::Shut(number)
        | CircuitStep::Remove(number) => *number,
    }
}
