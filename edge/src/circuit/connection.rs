//! What attends to the calendar while the agent's loop attends to the device: threads that ask what
//! is booked, hear of changes, and hand in reports, so that no circuit is late for a calendar that
//! is slow.

use crate::calendar::wire::CircuitReport;
use crate::calendar::{CalendarAddress, CalendarClient};
use farline_core::calendar::circuit::{CircuitNumber, CircuitStep};
use farline_core::calendar::{Reservation, Topology};
use farline_core::units::Error;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::time::Duration;

/// How often the calendar is asked even where it told of nothing.
const REFRESH: Duration = Duration::from_secs(10);
/// How often a thread looks whether the agent is still there, and how long one waits for a calendar
/// that is away.
const LOOK: Duration = Duration::from_secs(1);
/// Reports that wait at the most.
const REPORTS: usize = 1_024;

/// Word for the agent: the calendar's.
#[derive(Debug)]
pub(super) enum AgentMessage {
    /// All that is booked.
    Booked(Vec<Reservation>),
    /// It does not reply.
    Away(Error),
    /// It was not told of this circuit.
    NotTold(CircuitNumber),
    /// A step that took long is over; no word of the calendar.
    Did(CircuitStep, Result<(), Error>),
}

/// The threads' other end; they end with it.
#[derive(Debug)]
pub(super) struct CalendarConnection {
    pub(super) messages: Receiver<AgentMessage>,
    reports: SyncSender<(CircuitNumber, CircuitReport)>,
    /// Kept for reports that do not fit, and for who else has word for the agent.
    pub(super) back: Sender<AgentMessage>,
}

impl CalendarConnection {
    /// Begins to ask the calendar at `address`, whose network is `topology`.
    pub(super) fn new(address: &CalendarAddress, topology: &Topology) -> CalendarConnection {
        let (back, messages) = channel();
        let (reports, to_tell) = sync_channel(REPORTS);
        let (changed, is_changed) = sync_channel(1);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            // Without its thread the agent goes on by what it knows.
            drop(std::thread::Builder::new().name(name.to_owned()).spawn(work));
        };
        let at = address.clone();
        spawn("events", Box::new(move || listen(&at, &changed)));
        let (at, topology, to) = (address.clone(), topology.clone(), back.clone());
        spawn("booked", Box::new(move || ask(&at, &topology, &is_changed, &to)));
        let (at, to) = (address.clone(), back.clone());
        spawn("reports", Box::new(move || send_reports(&at, &to_tell, &to)));
        CalendarConnection { messages, reports, back }
    }

    /// Tells the calendar of a circuit, soon.
    pub(super) fn report(&self, number: CircuitNumber, report: CircuitReport) {
        if let Err(TrySendError::Full((number, _)) | TrySendError::Disconnected((number, _))) =
            self.reports.try_send((number, report))
        {
            let _ = self.back.send(AgentMessage::NotTold(number));
        }
    }
}

/// Says when the calendar tells of a change, until nobody wants to know.
fn listen(address: &CalendarAddress, changed: &SyncSender<()>) {
    let say = || !matches!(changed.try_send(()), Err(TrySendError::Disconnected(())));
    loop {
        let events = CalendarClient::new(address.clone()).and_then(|c| c.events(None));
        if let Ok(mut events) = events {
            // What changed while nobody listened.
            if !say() {
                return;
            }
            while let Ok(event) = events.next(LOOK) {
                if event.is_some() && !say() {
                    return;
                }
            }
        } else if !say() {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks what is booked at each change, and now and then.
fn ask(
    address: &CalendarAddress,
    topology: &Topology,
    changed: &Receiver<()>,
    to: &Sender<AgentMessage>,
) {
    let Ok(mut client) = CalendarClient::new(address.clone()) else { return };
    loop {
        let heard = match client.reservations() {
            Ok(documents) => {
                let known = documents.iter().filter_map(|d| d.to_reservation(topology));
                AgentMessage::Booked(known.collect())
            }
            Err(error) => AgentMessage::Away(error),
        };
        if to.send(heard).is_err() {
            return;
        }
        if let Err(RecvTimeoutError::Disconnected) = changed.recv_timeout(REFRESH) {
            std::thread::sleep(LOOK);
        }
    }
}

/// Hands in reports.
fn send_reports(
    address: &CalendarAddress,
    reports: &Receiver<(CircuitNumber, CircuitReport)>,
    to: &Sender<AgentMessage>,
) {
    let Ok(mut client) = CalendarClient::new(address.clone()) else { return };
    while let Ok((number, report)) = reports.recv() {
        let path = format!("/v1/circuits/{}", report.id);
        if client.put(&path, &report).is_ok() {
            continue;
        }
        // It is away: what waits is old when it is back, and is told anew then.
        std::thread::sleep(LOOK);
        let old = reports.try_iter().map(|(number, _)| number);
        for number in std::iter::once(number).chain(old) {
            if to.send(AgentMessage::NotTold(number)).is_err() {
                return;
            }
        }
    }
}
