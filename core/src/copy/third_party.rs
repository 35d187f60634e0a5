//! A copy of one tree from one Farline node to another, as the client that tells them what to do:
//! what each is asked for and when, when another pass is worth making, and how it ends.
//!
//! The data does not pass the client: all it knows of it is what the two say, either of which may
//! be wrong, late or gone (`docs/protocol.md`, Y-1 to Y-3).

use super::agreement::{Agreement, CopyOptions, Integrity};
use super::paired::{DataEnd, PairedState, PairedTransfer};
use super::passes::Passes;
use super::requests::{NamedHeld, parallelism, tree_part};
use super::session::{CopySummary, RequestId};
use crate::gridftp::client::{PeerFeatures, Request, TransferKind};
use crate::gridftp::{Mode, Pathname};
use crate::transfer::journal::PartialOrigin;
use crate::units::{ByteRanges, Error, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What is copied, between which places.
#[derive(Clone, Debug)]
pub struct ThirdPartyTree {
    /// Where it is at the sender.
    pub from: Pathname,
    /// Where it goes at the receiver.
    pub to: Pathname,
    /// What it is known by when a copy is resumed.
    pub source: [u8; 32],
    /// Bytes of its files.
    pub bytes: u64,
    /// Data channels between the two.
    pub channels: usize,
}

/// What happened to what the session wanted.
#[derive(Clone, Debug)]
pub enum ThirdPartyEvent {
    /// The last word of one end on a request that was waited for.
    Answered {
        /// Whose.
        end: DataEnd,
        /// How it ended.
        result: Result<(), Error>,
        /// What the receiver says that it holds by now.
        held: ByteRanges,
    },
    /// The time to wait until has come.
    Waited,
    /// Where the receiver listens.
    Listens(Result<SocketAddr, Error>),
    /// The copy is to end by this: it was asked to, or neither end is heard of any more.
    Broken(Error),
}

/// What the session wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThirdPartyOutput {
    /// Wait for the last word on what was asked of one end, which moves nothing;
    /// [`ThirdPartyEvent::Answered`].
    Confirm(DataEnd, RequestId),
    /// Wait for the first last word on one of these transfers; [`ThirdPartyEvent::Answered`], or
    /// [`ThirdPartyEvent::Waited`].
    Await {
        /// At one end, or one at each.
        requests: Vec<(DataEnd, RequestId)>,
        /// No longer, where there is a time.
        until: Option<Time>,
        /// Whether they move files rather than lists.
        is_payload: bool,
    },
    /// Wait for where the receiver listens, by its reply to this; [`ThirdPartyEvent::Listens`].
    Listen(RequestId),
    /// Queue this request at one end; the number of each is the count of all before it.
    Request(DataEnd, Request),
    /// The copy is over.
    End(Result<CopySummary, Error>),
}

/// One part of a tree on its way.
#[derive(Clone, Debug)]
struct Part {
    store: RequestId,
    retrieve: RequestId,
    is_payload: bool,
    words: PairedTransfer,
}

#[derive(Debug)]
enum State {
    /// What was asked of the ends, one after the other.
    Asking(VecDeque<(DataEnd, RequestId)>, Then),
    Listening,
    /// The parts that are asked for, and how the first failed that did.
    Moving(VecDeque<Part>, Option<Error>),
    Over,
}

/// What to do when all have said yes.
#[derive(Clone, Copy, Debug)]
enum Then {
    Arrange,
    Move,
}

/// A copy of one tree between two Farline nodes, after both logins.
///
/// After each [`ThirdPartySession::handle`], and at the beginning, the caller polls until there is
/// nothing to do or something to wait for.
#[derive(Debug)]
pub struct ThirdPartySession {
    tree: ThirdPartyTree,
    integrity: Integrity,
    /// The sender takes all that is held, however scattered.
    takes_held: bool,
    state: State,
    outputs: VecDeque<ThirdPartyOutput>,
    requests: usize,
    /// Whether the receiver has the list.
    is_listed: bool,
    held: ByteRanges,
    /// What the receiver held before anything moved.
    resumed: Option<u64>,
    asked: u64,
    passes: Passes,
}

impl ThirdPartySession {
    /// A copy of `tree` between ends that have these features: the sender's, the receiver's.
    pub fn new(
        tree: ThirdPartyTree,
        options: &CopyOptions,
        [sender, receiver]: [&PeerFeatures; 2],
    ) -> ThirdPartySession {
        let (sends, receives) = (Agreement::of(sender, options), Agreement::of(receiver, options));
        let integrity = receives.guarded_as(&sends).integrity;
        let mut session = ThirdPartySession {
            integrity,
            takes_held: sends.takes_held,
            state: State::Over,
            outputs: VecDeque::new(),
            requests: 0,
            is_listed: false,
            held: ByteRanges::new(),
            resumed: None,
            asked: 0,
            passes: Passes::default(),
            tree,
        };
        let origin = PartialOrigin { source: session.tree.source, digests: integrity.digests };
        let mut told = VecDeque::new();
        for (end, agreement, origin) in [
            (DataEnd::Sender, sends.guarded_as(&receives), None),
            (DataEnd::Receiver, receives.guarded_as(&sends), Some(&origin)),
        ] {
            for request in agreement.guards(origin).into_iter().chain(agreement.adapt(false, false))
            {
                told.push_back((end, session.request(end, request)));
            }
        }
        session.ask(told, Then::Arrange);
        session
    }

    /// How arrival is checked.
    pub fn integrity(&self) -> Integrity {
        self.integrity
    }

    /// Bytes that the receiver held before anything moved.
    pub fn resumed(&self) -> u64 {
        self.resumed.unwrap_or(0)
    }

    /// Whether its files were asked for: from then on the receiver may have them whole.
    pub fn is_under_way(&self) -> bool {
        self.resumed.is_some()
    }

    /// Bytes that the sender was asked for so far, in all passes.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// The next thing to do; none while the session waits for an event.
    pub fn poll(&mut self) -> Option<ThirdPartyOutput> {
        self.outputs.pop_front()
    }

    /// Takes in what happened at `now`. What was not waited for changes nothing.
    pub fn handle(&mut self, now: Time, event: ThirdPartyEvent) {
        use ThirdPartyEvent::{Answered, Broken, Listens, Waited};
        match (std::mem::replace(&mut self.state, State::Over), event) {
            (State::Over, _) => {}
            (_, Broken(error)) | (State::Listening, Listens(Err(error))) => self.end(Err(error)),
            (State::Asking(mut left, then), Answered { end, result, held })
                if left.front().is_some_and(|(of, _)| *of == end) =>
            {
                self.held = held;
                left.pop_front();
                match result {
                    Ok(()) => self.ask(left, then),
                    Err(error) => self.end(Err(error)),
                }
            }
            (State::Listening, Listens(Ok(address))) => {
                let active = Request::Active { mode: Mode::Extended, addresses: vec![address] };
                let told = [parallelism(self.tree.channels), active]
                    .map(|request| (DataEnd::Sender, self.request(DataEnd::Sender, request)));
                self.ask(told.into(), Then::Move);
            }
            (State::Moving(mut parts, failed), Answered { end, result, held }) => {
                self.held = held;
                if let Some(part) = parts.front_mut() {
                    part.words.ended(now, end, result);
                }
                self.go_on(now, parts, failed);
            }
            (State::Moving(parts, failed), Waited) => self.go_on(now, parts, failed),
            (state, _) => self.state = state,
        }
    }

    /// Bytes of the tree that the receiver holds, by its word: more than all of them is a slip or a
    /// lie, and brings nothing forward.
    fn progress(&self) -> u64 {
        self.held.total().min(self.tree.bytes)
    }

    fn ask(&mut self, left: VecDeque<(DataEnd, RequestId)>, then: Then) {
        match (left.front(), then) {
            (Some(&(end, id)), _) => {
                self.outputs.push_back(ThirdPartyOutput::Confirm(end, id));
                self.state = State::Asking(left, then);
            }
            (None, Then::Arrange) => self.arrange(),
            (None, Then::Move) => self.move_what_lacks(),
        }
    }

    /// Begins a pass: has the receiver listen, so that the sender can be told where.
    fn arrange(&mut self) {
        self.passes.made += 1;
        let passive = Request::Passive { mode: Mode::Extended, striped: false };
        let id = self.request(DataEnd::Receiver, passive);
        self.outputs.push_back(ThirdPartyOutput::Listen(id));
        self.state = State::Listening;
    }

    /// Asks for the list, or for what the receiver does not hold.
    fn move_what_lacks(&mut self) {
        let parts = if self.is_listed {
            // Y-3: what the receiver holds is known now, and the sender is told.
            let NamedHeld { before, in_line, all } = NamedHeld::of(&self.held, self.takes_held);
            for request in before {
                self.request(DataEnd::Sender, request);
            }
            self.resumed.get_or_insert(all.total().min(self.tree.bytes));
            self.asked += self.tree.bytes.saturating_sub(all.total());
            // Lists are not payload.
            vec![self.part("data", in_line, true), self.part("digests", ByteRanges::new(), false)]
        } else {
            vec![self.part("manifest", ByteRanges::new(), false)]
        };
        self.go_on(Time::ZERO, parts.into(), None);
    }

    fn part(&mut self, name: &str, held: ByteRanges, is_payload: bool) -> Part {
        let store = tree_part(TransferKind::Store, &self.tree.to, name, ByteRanges::new());
        let retrieve = tree_part(TransferKind::Retrieve, &self.tree.from, name, held);
        Part {
            store: self.request(DataEnd::Receiver, store),
            retrieve: self.request(DataEnd::Sender, retrieve),
            is_payload,
            words: PairedTransfer::default(),
        }
    }

    /// Waits for the next word on the first of `parts`, or ends the pass.
    fn go_on(&mut self, now: Time, mut parts: VecDeque<Part>, mut failed: Option<Error>) {
        while let Some(part) = parts.front() {
            match part.words.state(now) {
                PairedState::Waiting(ends, until) => {
                    let id = |end| match end {
                        DataEnd::Sender => (end, part.retrieve),
                        DataEnd::Receiver => (end, part.store),
                    };
                    let requests = ends.into_iter().map(id).collect();
                    let is_payload = part.is_payload;
                    self.outputs.push_back(ThirdPartyOutput::Await { requests, until, is_payload });
                    self.state = State::Moving(parts, failed);
                    return;
                }
                // The first failure is the cause; the one behind it follows from it.
                PairedState::Over(result) => failed = failed.or(result.err()),
                // No reply of the other end will come in its order any more.
                PairedState::Broken(error) => return self.end(Err(failed.unwrap_or(error))),
            }
            parts.pop_front();
        }
        match failed {
            None if self.is_listed => self.end(Ok(())),
            None => {
                self.is_listed = true;
                self.move_what_lacks();
            }
            Some(error) if !self.integrity.checks => self.end(Err(error)),
            Some(error) => match self.passes.failed(error, self.progress()) {
                Err(error) => self.end(Err(error)),
                // Channels of the pass before are gone at one end at least.
                Ok(()) => self.arrange(),
            },
        }
    }

    fn end(&mut self, result: Result<(), Error>) {
        let Passes { made, bad_blocks, bad_headers, .. } = self.passes;
        let summary = CopySummary {
            integrity: self.integrity,
            passes: made,
            bad_blocks,
            bad_headers,
            resumed: self.resumed(),
            ..CopySummary::default()
        };
        self.outputs.push_back(ThirdPartyOutput::End(result.map(|()| summary)));
        self.state = State::Over;
    }

    fn request(&mut self, end: DataEnd, request: Request) -> RequestId {
        self.outputs.push_back(ThirdPartyOutput::Request(end, request));
        self.requests += 1;
        RequestId(self.requests - 1)
    }
}
