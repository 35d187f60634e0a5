//! The session: every request, pass and wait of a copy, and how it ends.

use super::agreement::{Agreement, CopyOptions, Integrity};
use super::blame::Blame;
use super::passes::Passes;
use super::requests::{NamedHeld, farline_option, parallelism, tree_part};
use crate::congestion::ControlName;
use crate::gridftp::client::{PeerFeatures, Request, TransferKind};
use crate::gridftp::{Command, Mode, Pathname};
use crate::transfer::journal::PartialOrigin;
use crate::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Span, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A request of the session, by its number: the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub usize);

/// What is moved at once, over the same channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePart {
    /// The files that the receiver lacks, then their digests.
    Files,
    /// The list of what is in the tree.
    Manifest,
    /// The list, then the files.
    Tree,
}

/// Which end of the data this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyRole {
    /// The files are the peer's. Where some may be here, or stay, their list is looked at before
    /// the rest is asked for, which costs a round trip.
    Receiver {
        /// Something may be left of an earlier attempt, which checked blocks can go on from.
        may_hold: bool,
        /// Some files may stay as they are here.
        may_stay: bool,
    },
    /// The files are here.
    Sender {
        /// What they are known by when a copy is resumed.
        source: [u8; 32],
    },
}

/// Data channels that were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedChannels {
    /// How many.
    pub count: usize,
    /// Whether more can be opened while the peer sends.
    pub can_grow: bool,
    /// Where this end listens, when the peer is to open them.
    pub listening: Option<SocketAddr>,
}

/// What happened to what the session wanted. Each of its wishes that says so has one event.
#[derive(Clone, Debug)]
pub enum Event {
    /// The last word on the request that was waited for.
    Answered {
        /// How it ended.
        result: Result<(), Error>,
        /// Bytes that the peer said meanwhile it holds (111).
        marked: u64,
        /// What the receiver holds by now, as far as this end knows.
        held: ByteRanges,
    },
    /// What the peer said of the lost channels, or that it said nothing in time.
    Heard(Option<Error>),
    /// What was to be moved is, or cannot be.
    Moved {
        /// What the threads that move data noticed.
        result: Result<(), Error>,
        /// The failure that the peer reported meanwhile, after which nothing more is heard.
        told: Option<Error>,
        /// What the receiver holds by now, as far as this end knows.
        held: ByteRanges,
        /// Files of this end that could not be read whole, and are named as such.
        unreadable: usize,
    },
    /// Data channels are open.
    Opened(Result<OpenedChannels, Error>),
    /// The list was understood, and its files have a place here; what of them is here already.
    Prepared(Result<ByteRanges, Error>),
}

/// What the session wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Wait for the last word on a request; [`Event::Answered`].
    Await(RequestId),
    /// The copy is over.
    End(Result<CopySummary, Error>),
    /// Wait until then for what the peer says of the channels it lost; [`Event::Heard`].
    Hear {
        /// No longer.
        until: Time,
    },
    /// Move data over the channels; [`Event::Moved`].
    Move(TreePart),
    /// Open data channels; [`Event::Opened`].
    Open {
        /// Whether the peer may ask for more of them while it sends.
        may_grow: bool,
    },
    /// Read the list, decide where its files go, look for what is here of them;
    /// [`Event::Prepared`].
    Prepare,
    /// What has come is of no use to a later attempt.
    Refuse,
    /// Queue this request, whose number is the count of those before it.
    Request {
        /// What.
        request: Request,
        /// Whether its failure is no reason to break anything off.
        is_optional: bool,
    },
    /// A pass is over and another begins: take its totals.
    Settle,
}

/// What a copy came to, when it came to an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// How arrival was checked.
    pub integrity: Integrity,
    /// Times that data was asked for.
    pub passes: u64,
    /// Blocks that the peer, which received, found other than they were sent.
    pub bad_blocks: u64,
    /// Headers of blocks that it did.
    pub bad_headers: u64,
    /// Bytes that the peer, which received, held from an earlier attempt.
    pub resumed: u64,
    /// The congestion control that the peer, which sent, agreed to.
    pub control: Option<ControlName>,
    /// What the user asked for and the peer does not do, and why.
    pub refused: Option<(ControlName, Error)>,
}

/// What is waited for.
#[derive(Debug)]
enum State {
    Answers { left: VecDeque<RequestId>, failed: Option<Error>, then: Then },
    Hearing { part: TreePart, error: Error },
    Moving(TreePart),
    Opening,
    Over,
    Preparing,
}

/// What to do when all answers are there.
#[derive(Debug)]
enum Then {
    /// Another pass, over new channels.
    Again,
    /// The peer's word on the congestion control is the last.
    End,
    /// The peer has agreed to all that it was told.
    Finish,
    /// Tell what became of a pass to the peer, which this end noticed so.
    Judge(Option<Error>),
    /// Ask for the files.
    MoveFiles,
    /// Begin: what only the peer can know is known.
    Open,
    /// All has come.
    Agree,
}

/// A copy of one tree to or from a Farline node, after the login.
///
/// After each [`CopySession::handle`], and at the beginning, the caller polls until there is
/// nothing to do or something to wait for.
#[derive(Debug)]
pub struct CopySession {
    role: CopyRole,
    path: Pathname,
    options: CopyOptions,
    agreement: Agreement,
    /// The control connection's least round-trip time.
    rtt: Span,
    state: State,
    outputs: VecDeque<Output>,
    requests: usize,
    /// Those whose failure ends the copy, whatever has moved.
    agreed: Vec<RequestId>,
    control: Option<RequestId>,
    /// The transfers of the pass that runs, of the list until it is answered.
    manifest: Option<RequestId>,
    files: Vec<RequestId>,
    /// Whether the receiver has the list.
    is_listed: bool,
    held: ByteRanges,
    unreadable: usize,
    list_passes: Passes,
    passes: Passes,
    summary: CopySummary,
}

impl CopySession {
    /// A copy of the tree at the peer's `path`, with a peer that has `features`.
    pub fn new(
        role: CopyRole,
        path: Pathname,
        options: CopyOptions,
        features: &PeerFeatures,
        rtt: Span,
    ) -> CopySession {
        let agreement = Agreement::of(features, &options);
        let mut session = CopySession {
            role,
            path,
            options,
            agreement,
            rtt,
            state: State::Over,
            outputs: VecDeque::new(),
            requests: 0,
            agreed: Vec::new(),
            control: None,
            manifest: None,
            files: Vec::new(),
            is_listed: false,
            held: ByteRanges::new(),
            unreadable: 0,
            list_passes: Passes::default(),
            passes: Passes::default(),
            summary: CopySummary::default(),
        };
        session.begin();
        session
    }

    /// What was agreed with the peer.
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Bytes that the peer, which receives, has held from an earlier attempt.
    pub fn resumed(&self) -> u64 {
        self.summary.resumed
    }

    /// The next thing to do; none while the session waits for an event.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes in what happened at `now`. What was not waited for changes nothing.
    pub fn handle(&mut self, now: Time, event: Event) {
        match (std::mem::replace(&mut self.state, State::Over), event) {
            (State::Answers { left, failed, then }, Event::Answered { result, marked, held }) => {
                self.held = held;
                self.answered(left, failed, then, result, marked);
            }
            (State::Opening, Event::Opened(Ok(channels))) => self.opened(channels),
            (State::Opening, Event::Opened(Err(error)))
            | (State::Preparing, Event::Prepared(Err(error))) => self.end(Err(error)),
            (State::Preparing, Event::Prepared(Ok(held))) => {
                (self.is_listed, self.held) = (true, held);
                self.wait(self.manifest, Then::MoveFiles);
            }
            (State::Moving(part), Event::Moved { result, told, held, unreadable }) => {
                (self.held, self.unreadable) = (held, unreadable);
                match result.map_err(|error| {
                    let rtt = told.is_none().then_some(self.rtt);
                    Blame::of(now, error, told, rtt)
                }) {
                    Ok(()) => self.moved(part, None),
                    Err(Blame::Settled(error)) => self.moved(part, Some(error)),
                    Err(Blame::Unsettled { error, until }) => {
                        self.outputs.push_back(Output::Hear { until });
                        self.state = State::Hearing { part, error };
                    }
                }
            }
            (State::Hearing { part, error }, Event::Heard(told)) => {
                self.moved(part, Some(told.unwrap_or(error)));
            }
            (state, _) => self.state = state,
        }
    }

    fn begin(&mut self) {
        self.summary.integrity = self.agreement.integrity;
        if !self.is_receiver() {
            return self.open();
        }
        // The peer sends, so the congestion control is at its end; one that does not have it says
        // so and uses its own.
        let asked = self.options.control.clone();
        if let Some(control) = &asked {
            self.control =
                Some(self.request(farline_option("congestion", control.name.as_str()), true));
        }
        if self.agreement.is_ordered {
            let id = self.request(farline_option("order", "ascending"), false);
            self.agreed.push(id);
        }
        if let Some(rate) = self.options.limit.filter(|_| self.agreement.is_limited) {
            self.request(farline_option("limit", &rate.as_bps().to_string()), false);
        }
        match asked {
            Some(asked) if asked.is_asked && !asked.is_known => self.wait(self.control, Then::Open),
            _ => self.open(),
        }
    }

    fn is_receiver(&self) -> bool {
        matches!(self.role, CopyRole::Receiver { .. })
    }

    fn open(&mut self) {
        (self.manifest, self.files) = (None, Vec::new());
        // A server that does not know how keeps its own buffers.
        if let Some(Bytes(len)) = self.options.buffer.filter(|_| self.is_receiver()) {
            self.request(Request::Exec(Command::SocketBuffer(len)), true);
        }
        // A receiver in order has shared its slots out among the channels that there are.
        let may_grow = self.agreement.adapts
            && !self.options.are_channels_fixed
            && !self.options.in_order
            && self.options.limit.is_none();
        self.outputs.push_back(Output::Open { may_grow });
        self.state = State::Opening;
    }

    /// The commands leave with the channels' first bytes: to dial first costs no round trip.
    fn opened(&mut self, channels: OpenedChannels) {
        let mut adapt = self.agreement.adapt(false, false);
        if self.is_receiver() {
            self.request(parallelism(channels.count), false);
            let chooses_control = self.options.control.as_ref().is_none_or(|asked| !asked.is_asked);
            adapt = self.agreement.adapt(channels.can_grow, chooses_control);
        }
        if let Some(address) = channels.listening {
            let active = Request::Active { mode: Mode::Extended, addresses: vec![address] };
            self.request(active, false);
            adapt = None;
        }
        let origin = match self.role {
            CopyRole::Receiver { .. } => None,
            CopyRole::Sender { source } => {
                Some(PartialOrigin { source, digests: self.agreement.integrity.digests })
            }
        };
        for request in adapt.into_iter().chain(self.agreement.guards(origin.as_ref())) {
            let id = self.request(request, false);
            self.agreed.push(id);
        }
        match (&self.role, self.is_listed) {
            (CopyRole::Receiver { .. }, true) => self.move_files(),
            (CopyRole::Receiver { may_hold, may_stay }, false) => {
                let looks = *may_stay || (*may_hold && self.agreement.integrity.checks);
                self.manifest = Some(self.transfer("manifest", ByteRanges::new()));
                if !looks {
                    self.ask_for_files(ByteRanges::new());
                }
                self.begin_move(TreePart::Manifest);
            }
            (CopyRole::Sender { .. }, is_listed) => {
                if !is_listed {
                    self.manifest = Some(self.transfer("manifest", ByteRanges::new()));
                }
                self.ask_for_files(ByteRanges::new());
                self.passes.made += 1;
                self.begin_move(if is_listed { TreePart::Files } else { TreePart::Tree });
            }
        }
    }

    fn ask_for_files(&mut self, held: ByteRanges) {
        let data = self.transfer("data", held);
        self.files = vec![data, self.transfer("digests", ByteRanges::new())];
    }

    /// A receiver's pass over what is not here yet.
    fn move_files(&mut self) {
        if self.files.is_empty() {
            let named = NamedHeld::of(&self.held, self.agreement.takes_held);
            for request in named.before {
                self.request(request, false);
            }
            self.ask_for_files(named.in_line);
        }
        self.passes.made += 1;
        self.begin_move(TreePart::Files);
    }

    fn begin_move(&mut self, part: TreePart) {
        self.outputs.push_back(Output::Move(part));
        self.state = State::Moving(part);
    }

    /// Data has stopped, by `error` or at its end.
    fn moved(&mut self, part: TreePart, error: Option<Error>) {
        let is_checked = self.agreement.integrity.checks;
        match (part, error) {
            (TreePart::Manifest, None) => {
                self.outputs.push_back(Output::Prepare);
                self.state = State::Preparing;
            }
            (_, error) if !self.is_receiver() => self.sent(error),
            (_, None) => self.wait_all(self.files.clone(), Then::Agree),
            // Clause R-9.
            (TreePart::Files, Some(error)) if error.fault == Fault::There => {
                self.outputs.push_back(Output::Refuse);
                self.end(Err(error));
            }
            (_, Some(error)) if !is_checked => self.end(Err(error)),
            (_, Some(error)) => {
                let (passes, held) = match part {
                    TreePart::Manifest => (&mut self.list_passes, 0),
                    _ => (&mut self.passes, self.held.total()),
                };
                match passes.failed(error, held) {
                    Err(error) => self.end(Err(error)),
                    // Every channel is closed, so that these end soon; how does not matter.
                    Ok(()) => self.wait_all(self.transfers(), Then::Again),
                }
            }
        }
    }

    /// All bytes are with this host's kernel, or channels were lost. The digests' reply says what
    /// is in the peer's store. Channels stay open until then: to close one early would look like a
    /// loss.
    fn sent(&mut self, error: Option<Error>) {
        match error {
            // The peer complained of the digests before this end had closed its books on them.
            Some(error) if error.code == ErrorCode::SourceUnreadable => self.complained(error),
            // The peer may wait for data that will not come: no reply of it is worth waiting for.
            Some(error)
                if !self.agreement.integrity.checks
                    || !matches!(error.code, ErrorCode::ChannelLost | ErrorCode::BlocksMissing) =>
            {
                self.end(Err(error));
            }
            error => self.wait_all(self.transfers(), Then::Judge(error)),
        }
    }

    /// The peer's word on a pass that this end saw end so.
    fn judge(&mut self, noticed: Option<Error>, told: Option<Error>) {
        let error = match (noticed, told) {
            (None, told) => told,
            // The peer's word, where it gave one, says why the channels broke.
            (Some(error), Some(told)) if error.code == ErrorCode::ChannelLost => Some(told),
            (noticed, _) => noticed,
        };
        match error {
            None => self.agree(),
            Some(error) if error.code == ErrorCode::SourceUnreadable => self.complained(error),
            Some(error) if !self.agreement.integrity.checks => self.end(Err(error)),
            Some(error) => match self.passes.failed(error, self.held.total()) {
                Err(error) => self.end(Err(error)),
                Ok(()) => self.again(),
            },
        }
    }

    /// The peer complains of files that this end could not read, and which it names by itself.
    fn complained(&mut self, error: Error) {
        if self.unreadable > 0 { self.agree() } else { self.end(Err(error)) }
    }

    fn again(&mut self) {
        self.outputs.push_back(Output::Settle);
        self.open();
    }

    /// All has come: what the peer was told must be agreed to.
    fn agree(&mut self) {
        self.wait_all(self.agreed.clone(), Then::Finish);
    }

    fn answered(
        &mut self,
        mut left: VecDeque<RequestId>,
        mut failed: Option<Error>,
        then: Then,
        result: Result<(), Error>,
        marked: u64,
    ) {
        if left.pop_front() == self.manifest {
            self.manifest = None;
            if !self.is_receiver() {
                self.is_listed = result.is_ok();
                self.summary.resumed = self.summary.resumed.max(marked);
            }
        }
        if let Err(error) = result {
            if matches!(error.code, ErrorCode::Interrupted | ErrorCode::PeerSilent) {
                left.clear();
            }
            // The first failure is the cause; those behind it follow from it.
            failed = failed.or(Some(error));
        }
        self.wait_on(left, failed, then);
    }

    fn wait(&mut self, request: Option<RequestId>, then: Then) {
        self.wait_all(request.into_iter().collect(), then);
    }

    fn wait_all(&mut self, requests: Vec<RequestId>, then: Then) {
        self.wait_on(requests.into(), None, then);
    }

    fn wait_on(&mut self, left: VecDeque<RequestId>, failed: Option<Error>, then: Then) {
        if let Some(&next) = left.front() {
            self.outputs.push_back(Output::Await(next));
            self.state = State::Answers { left, failed, then };
            return;
        }
        match (then, failed) {
            (Then::Judge(noticed), told) => self.judge(noticed, told),
            (Then::Again, Some(error)) if error.code == ErrorCode::Interrupted => {
                self.end(Err(error))
            }
            (Then::Again, _) => self.again(),
            (Then::End, Some(error)) => {
                let asked = self.options.control.take().filter(|control| control.is_asked);
                self.summary.refused = asked.map(|control| (control.name, error));
                self.end(Ok(()));
            }
            (Then::End, None) => {
                self.summary.control = self.asked_control();
                self.end(Ok(()));
            }
            (_, Some(error)) => self.end(Err(error)),
            (Then::Agree, None) => self.agree(),
            (Then::Finish, None) if self.control.is_some() => self.wait(self.control, Then::End),
            (Then::Finish, None) => self.end(Ok(())),
            (Then::MoveFiles, None) => self.move_files(),
            (Then::Open, None) => {
                self.summary.control = self.asked_control();
                self.control = None;
                self.open();
            }
        }
    }

    fn asked_control(&self) -> Option<ControlName> {
        self.options.control.as_ref().map(|control| control.name)
    }

    fn end(&mut self, result: Result<(), Error>) {
        let Passes { made, bad_blocks, bad_headers, .. } = self.passes;
        let summary = CopySummary { passes: made, bad_blocks, bad_headers, ..self.summary.clone() };
        self.outputs.push_back(Output::End(result.map(|()| summary)));
        self.state = State::Over;
    }

    /// The transfers of the pass that runs which are not answered.
    fn transfers(&self) -> Vec<RequestId> {
        self.manifest.into_iter().chain(self.files.iter().copied()).collect()
    }

    fn transfer(&mut self, part: &str, held: ByteRanges) -> RequestId {
        let what = if self.is_receiver() { TransferKind::Retrieve } else { TransferKind::Store };
        self.request(tree_part(what, &self.path, part, held), false)
    }

    fn request(&mut self, request: Request, is_optional: bool) -> RequestId {
        self.outputs.push_back(Output::Request { request, is_optional });
        self.requests += 1;
        RequestId(self.requests - 1)
    }
}
