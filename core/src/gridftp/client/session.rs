//! The machine itself: requests into commands, as many in flight as is safe.

use super::config::{ClientConfig, LEAST_PROGRESS, Pipelining};
use super::features::PeerFeatures;
use super::request::{Event, Request};
use super::steps::{Class, Role, Step, steps};
use super::{Input, Output};
use crate::gridftp::command::{Command, Mode};
use crate::gridftp::{ListingEntry, ReplyReader};
use crate::units::{Error, ErrorCode, Fault, Time};
use std::collections::VecDeque;

/// The most commands in flight, and the most bytes: well below what servers queue, so that neither
/// end waits for the other to read.
const MAX_IN_FLIGHT: usize = 1_000;
/// Commands without data, to a node that is known to queue what its kernel holds: there the bytes
/// are the bound.
const MAX_COMMANDS_TO_FARLINE: usize = 10_000;
const MAX_BYTES_IN_FLIGHT: usize = 64 * 1024;

/// The client's end of one control channel. See the [module](crate::gridftp) for a dialogue.
#[derive(Debug)]
pub struct ClientSession {
    pub(super) config: ClientConfig,
    pub(super) features: PeerFeatures,
    pub(super) pipelining: Pipelining,
    reader: ReplyReader,
    /// Requests that have steps to send or replies to come, in order.
    requests: VecDeque<Active>,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) bytes_in_flight: usize,
    /// Commands in flight that go alone, and transfers in flight.
    pub(super) alone: usize,
    pub(super) transfers: usize,
    /// The server's mode after what is in flight; unknown when a MODE failed.
    pub(super) mode: Option<Mode>,
    outputs: VecDeque<Output>,
    pub(super) greeted: bool,
    closed: bool,
    /// When the server last said something, or was first asked something.
    last_heard: Time,
    /// Bytes of a reply that came since, and are no word yet.
    dripped: u64,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    /// Not looked at yet; steps are made when its turn comes, when the features are known.
    request: Option<Request>,
    pub(super) steps: VecDeque<Step>,
    pub(super) password: Option<String>,
    /// What SIZE and MDTM told so far.
    pub(super) stat: ListingEntry,
    /// Replies still to come.
    pub(super) unanswered: usize,
    /// Ended already, as the edge knows; the replies to come are for nobody.
    pub(super) over: bool,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) step: Step,
    pub(super) class: Class,
    pub(super) length: usize,
    pub(super) started: bool,
}

impl ClientSession {
    /// A session at its beginning: it waits for the greeting, unless the server is known to be
    /// Farline.
    pub fn new(config: ClientConfig, now: Time) -> ClientSession {
        let (features, pipelining) = match config.known_farline {
            true => (PeerFeatures::of_any_farline(), Pipelining::Transfers),
            false => (PeerFeatures::default(), Pipelining::None),
        };
        ClientSession {
            features,
            pipelining: config.pipelining.unwrap_or(pipelining),
            reader: ReplyReader::new(),
            requests: VecDeque::new(),
            in_flight: VecDeque::new(),
            bytes_in_flight: 0,
            alone: 0,
            transfers: 0,
            // RFC 959 section 5.1.
            mode: Some(Mode::Stream),
            outputs: VecDeque::new(),
            greeted: false,
            closed: false,
            last_heard: now,
            dripped: 0,
            config,
        }
    }

    /// What the server announced; nothing before the login is done.
    pub fn features(&self) -> &PeerFeatures {
        &self.features
    }

    /// How far commands are pipelined now.
    pub fn pipelining(&self) -> Pipelining {
        self.pipelining
    }

    /// Takes one input. Poll until [`Output::Wait`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Request { id, request } => self.request(id, request),
            Input::Abort { id } => self.abort(id),
            Input::Received(bytes) if !self.closed => self.receive(now, bytes),
            Input::Closed if !self.closed => {
                self.end(Error::new(
                    Fault::Between,
                    ErrorCode::ControlClosed,
                    "the server closed the control connection",
                ));
            }
            Input::Received(_) | Input::Closed => {}
        }
        self.send(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Output {
        if let Some(output) = self.outputs.pop_front() {
            return output;
        }
        let waits = !self.greeted
            || self.in_flight.front().is_some_and(|front| !front.step.may_take_long());
        if self.closed || !waits {
            return Output::Wait(None);
        }
        let deadline = self.last_heard + self.config.reply_timeout;
        if now < deadline {
            return Output::Wait(Some(deadline));
        }
        let what = self.in_flight.front().map_or("a greeting".to_owned(), |front| {
            format!("a reply to {}", front.step.command.shown())
        });
        let message = format!("the server has not sent {what} for {}", self.config.reply_timeout);
        self.end(Error::new(Fault::Between, ErrorCode::ControlTimeout, message));
        self.outputs.pop_front().unwrap_or(Output::Close)
    }

    fn request(&mut self, id: u64, request: Request) {
        if self.closed {
            let error = Error::new(
                Fault::Between,
                ErrorCode::ControlClosed,
                "the control connection is closed",
            );
            return self.event(id, Event::Failed(error));
        }
        self.requests.push_back(Active {
            id,
            request: Some(request),
            steps: VecDeque::new(),
            password: None,
            stat: ListingEntry::default(),
            unanswered: 0,
            over: false,
        });
    }

    fn abort(&mut self, id: u64) {
        let Some(active) = self.requests.iter_mut().find(|active| active.id == id && !active.over)
        else {
            return;
        };
        active.request = None;
        active.steps.clear();
        if active.unanswered == 0 {
            active.over = true;
            self.forget(id);
            return self.event(
                id,
                Event::Failed(Error::new(
                    Fault::You,
                    ErrorCode::Aborted,
                    "given up before it was sent",
                )),
            );
        }
        if self.in_flight.iter().any(|sent| sent.id == id && sent.step.role == Role::Transfer) {
            self.write(InFlight::new(id, Step { command: Command::Abort, role: Role::Abort }));
        }
    }

    /// Sends what may be sent now.
    fn send(&mut self, now: Time) {
        while (self.greeted || self.config.known_farline) && !self.closed {
            let Some(active) = self
                .requests
                .iter_mut()
                .find(|active| active.request.is_some() || !active.steps.is_empty())
            else {
                return;
            };
            let id = active.id;
            if let Some(request) = active.request.take() {
                // What a request needs depends on features that a login before it is still asking
                // for.
                if self.alone > 0
                    || self.pipelining == Pipelining::None && !self.in_flight.is_empty()
                {
                    active.request = Some(request);
                    return;
                }
                if let Request::Login { password, .. } = &request
                    && self.pipelining != Pipelining::Transfers
                {
                    active.password = Some(password.clone());
                }
                match steps(request, &self.features, &self.config, self.mode, self.pipelining) {
                    Ok(steps) => active.steps = steps,
                    Err(error) => {
                        self.forget(id);
                        self.event(id, Event::Failed(error));
                        continue;
                    }
                }
            }
            let Some(step) = active.steps.front().cloned() else { continue };
            if !self.may_send(&step) {
                return;
            }
            if let Some(active) = self.active(id) {
                active.steps.pop_front();
                active.unanswered += 1;
            }
            if self.in_flight.is_empty() {
                self.last_heard = now;
            }
            self.write(InFlight::new(id, step));
        }
    }

    fn may_send(&self, step: &Step) -> bool {
        if self.in_flight.is_empty() {
            return true;
        }
        let most = match (self.pipelining, step.class(self.pipelining)) {
            (Pipelining::Transfers, Class::Command) => MAX_COMMANDS_TO_FARLINE,
            _ => MAX_IN_FLIGHT,
        };
        let room = self.in_flight.len() < most && self.bytes_in_flight < MAX_BYTES_IN_FLIGHT;
        let fits = match (self.pipelining, step.class(self.pipelining)) {
            (Pipelining::None, _) | (_, Class::Alone) | (Pipelining::Commands, Class::Transfer) => {
                false
            }
            (Pipelining::Commands, Class::Command) => self.transfers == 0,
            (Pipelining::Transfers, _) => true,
        };
        room && fits && self.alone == 0
    }

    fn write(&mut self, mut sent: InFlight) {
        // Steps were found to encode when they were made.
        let Ok(line) = sent.step.command.encode() else { return };
        sent.length = line.len();
        sent.class = sent.step.class(self.pipelining);
        self.bytes_in_flight += line.len();
        self.alone += usize::from(sent.class == Class::Alone);
        self.transfers += usize::from(sent.class == Class::Transfer);
        if let Command::Mode(mode) = sent.step.command {
            self.mode = Some(mode);
        }
        self.in_flight.push_back(sent);
        match self.outputs.back_mut() {
            Some(Output::Send(bytes)) => bytes.extend_from_slice(&line),
            _ => self.outputs.push_back(Output::Send(line)),
        }
    }

    fn receive(&mut self, now: Time, mut bytes: &[u8]) {
        self.dripped += bytes.len() as u64;
        if self.dripped >= LEAST_PROGRESS {
            self.heard_at(now);
        }
        while !self.closed {
            let reply = self.reader.next(&mut bytes);
            if matches!(reply, Ok(Some(_))) {
                self.heard_at(now);
            }
            match reply {
                Ok(Some(reply)) if !self.greeted => self.greeting(&reply),
                Ok(Some(reply)) => self.reply(reply),
                Ok(None) => return,
                Err(error) => return self.end(error),
            }
        }
    }

    fn heard_at(&mut self, now: Time) {
        (self.last_heard, self.dripped) = (now, 0);
    }

    /// Whether nothing has come of a reply that is not whole: what follows may be another
    /// protocol's.
    pub fn is_between_replies(&self) -> bool {
        self.reader.is_at_start()
    }

    /// When the server last said a whole reply, or a good part of a long one.
    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// Ends every request and the session.
    pub(super) fn end(&mut self, error: Error) {
        self.closed = true;
        self.in_flight.clear();
        for active in std::mem::take(&mut self.requests).into_iter().filter(|active| !active.over) {
            self.event(active.id, Event::Failed(error.clone()));
        }
        self.outputs.push_back(Output::Close);
    }

    pub(super) fn active(&mut self, id: u64) -> Option<&mut Active> {
        self.requests.iter_mut().find(|active| active.id == id)
    }

    /// Drops a request that ended. It is among the first: those behind it have not been sent.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(at) = self.requests.iter().position(|active| active.id == id) {
            self.requests.remove(at);
        }
    }

    pub(super) fn event(&mut self, id: u64, event: Event) {
        self.outputs.push_back(Output::Event { id, event });
    }
}

impl InFlight {
    fn new(id: u64, step: Step) -> InFlight {
        InFlight { id, step, class: Class::Command, length: 0, started: false }
    }
}
