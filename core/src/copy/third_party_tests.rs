//! Copies between two scripted nodes, in virtual time: both may lose, lie, break or fall silent,
//! and over many seeds every copy ends, whole or with the error that is to blame.

use super::third_party::{
    ThirdPartyEvent as Event, ThirdPartyOutput as Output, ThirdPartySession, ThirdPartyTree,
};
use super::{CopyOptions, CopySummary, DataEnd, PairedState, PairedTransfer, nameable};
use crate::gridftp::client::{PeerFeatures, Request, Transfer};
use crate::gridftp::{Command, CommandOptions, Pathname, Reply};
use crate::transfer::DigestAlgorithm;
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Rng, Span, Time};
use std::collections::BTreeMap;

const BLOCKS: u64 = 64;
const BLOCK: u64 = 1000;
const BYTES: u64 = BLOCKS * BLOCK;

fn features(listed: &[&str]) -> PeerFeatures {
    let mut lines = vec![b"Features:".to_vec()];
    lines.extend(listed.iter().map(|name| format!(" FARLINE {name}").into_bytes()));
    lines.push(b"End".to_vec());
    PeerFeatures::of(&Reply { code: 211, lines })
}

fn session(checks: bool, listed: &[&str]) -> ThirdPartySession {
    let tree = ThirdPartyTree {
        from: Pathname::new("/from"),
        to: Pathname::new("/to"),
        source: [7; 32],
        bytes: BYTES,
        channels: 3,
    };
    let digests = Some(DigestAlgorithm::Blake3);
    let options = CopyOptions { checks, digests, ..CopyOptions::default() };
    ThirdPartySession::new(tree, &options, [&features(listed), &features(listed)])
}

fn error(fault: Fault, code: ErrorCode) -> Error {
    Error::new(fault, code, "")
}

fn missing() -> Error {
    let counts = "3 of 9; bad_blocks=2 bad_headers=1 lost_channels=0";
    Error::new(Fault::Between, ErrorCode::BlocksMissing, counts)
}

/// What one end does wrong, from the pass on in which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// It sends nothing, or stores nothing, and says that all is well.
    Lies,
    /// It fails for a reason of its own, and the other loses its channels.
    Fails(ErrorCode),
    /// It says nothing more.
    Silent,
}

/// Two nodes and the path between them.
struct World {
    rng: Rng,
    now: Time,
    sender: Wrong,
    receiver: Wrong,
    since: u64,
    /// Of a thousand blocks so many are lost.
    loss: u64,
    /// The receiver says that it holds what it does not.
    boasts: bool,
    requests: Vec<(DataEnd, Request)>,
    /// What is in the store, and what the receiver says is.
    held: ByteRanges,
    /// What the sender was told that it need not send.
    told: ByteRanges,
    passes: u64,
    /// How the ends of a transfer end, by the request.
    words: BTreeMap<usize, Option<Result<(), Error>>>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let mut wrong = || match rng.below(9) {
            0 => Wrong::Lies,
            1 => Wrong::Fails(ErrorCode::NoSpace),
            2 => Wrong::Fails(ErrorCode::ControlClosed),
            3 => Wrong::Silent,
            _ => Wrong::Nothing,
        };
        let (sender, receiver) = (wrong(), wrong());
        World {
            sender,
            receiver,
            since: rng.below(3),
            loss: if rng.below(2) == 0 { 0 } else { rng.below(1000) },
            boasts: rng.below(10) == 0,
            rng,
            now: Time::ZERO,
            requests: Vec::new(),
            held: ByteRanges::new(),
            told: ByteRanges::new(),
            passes: 0,
            words: BTreeMap::new(),
        }
    }

    /// What `end` does wrong by now.
    fn wrong(&self, end: DataEnd) -> Wrong {
        let wrong = if end == DataEnd::Sender { &self.sender } else { &self.receiver };
        if self.passes > self.since { wrong.clone() } else { Wrong::Nothing }
    }

    fn run(&mut self, session: &mut ThirdPartySession) -> Result<CopySummary, Error> {
        for _ in 0..20_000 {
            let event = match session.poll() {
                Some(Output::End(result)) => {
                    assert_eq!(session.poll(), None, "nothing follows the end");
                    return result;
                }
                Some(Output::Request(end, request)) => {
                    self.requests.push((end, request));
                    continue;
                }
                Some(Output::Listen(id)) => {
                    assert!(matches!(self.requests[id.0].1, Request::Passive { .. }));
                    self.passes += 1;
                    Event::Listens(Ok(([127, 0, 0, 1], 2811).into()))
                }
                Some(Output::Confirm(end, id)) => {
                    let (of, request) = &self.requests[id.0];
                    assert!(*of == end && !matches!(request, Request::Transfer(_)));
                    self.said(end, Ok(()))
                }
                Some(Output::Await { requests, until, .. }) => {
                    let asked: Vec<_> = requests.iter().map(|&(end, id)| (end, id.0)).collect();
                    self.answer(&asked, until)
                }
                None => panic!("the session waits for nothing"),
            };
            self.now += Span::from_millis(self.rng.below(200));
            session.handle(self.now, event);
        }
        panic!("the copy does not end");
    }

    /// The first word on one of these requests.
    fn answer(&mut self, asked: &[(DataEnd, usize)], until: Option<Time>) -> Event {
        for &(end, id) in asked {
            assert_eq!(self.requests[id].0, end, "it was asked of the other end");
        }
        if let [(DataEnd::Receiver, store), (DataEnd::Sender, retrieve)] = *asked {
            self.carry(store, retrieve);
        }
        let first = self.rng.below(asked.len() as u64) as usize;
        for at in 0..asked.len() {
            let (end, id) = asked[(first + at) % asked.len()];
            if let Some(Some(result)) = self.words.get(&id).cloned() {
                return self.said(end, result);
            }
        }
        match until {
            Some(until) => {
                self.now = until;
                Event::Waited
            }
            None => Event::Broken(error(Fault::Between, ErrorCode::PeerSilent)),
        }
    }

    fn said(&self, end: DataEnd, result: Result<(), Error>) -> Event {
        let mut held = self.held.clone();
        if self.boasts {
            held.insert(0..BYTES / 2);
            held.insert(2 * BYTES..3 * BYTES + self.now.since(Time::ZERO).as_nanos());
        }
        Event::Answered { end, result, held }
    }

    /// Moves one part of the tree, and notes what both ends will say of it.
    fn carry(&mut self, store: usize, retrieve: usize) {
        let Request::Transfer(Transfer { module: Some(module), held, .. }) =
            self.requests[retrieve].1.clone()
        else {
            panic!("a tree's part")
        };
        let (sender, receiver) = (self.wrong(DataEnd::Sender), self.wrong(DataEnd::Receiver));
        let lost = || Err(error(Fault::Between, ErrorCode::ChannelLost));
        let is_cut = |wrong: &Wrong| matches!(wrong, Wrong::Fails(_) | Wrong::Silent);
        let word = |own: &Wrong, other: &Wrong, honest: Result<(), Error>| match own {
            Wrong::Silent => None,
            Wrong::Fails(code) => Some(Err(error(Fault::There, *code))),
            Wrong::Lies => Some(Ok(())),
            Wrong::Nothing if is_cut(other) => Some(lost()),
            Wrong::Nothing => Some(honest),
        };
        let mut honest = Ok(());
        if module.parms == "data" {
            self.told = held;
            for (_, request) in &self.requests {
                if let Request::Exec(Command::Options(CommandOptions::Farline { name, value })) =
                    request
                    && name == "held"
                {
                    self.told.extend(ByteRanges::parse(value).expect("ranges").iter());
                }
            }
            let can_move = sender == Wrong::Nothing && receiver == Wrong::Nothing;
            for block in 0..BLOCKS {
                let range = block * BLOCK..(block + 1) * BLOCK;
                let is_lost = self.rng.below(1000) < self.loss;
                if can_move && !is_lost && !self.told.contains(&range) {
                    self.held.insert(range);
                }
            }
        }
        if module.parms != "manifest" && self.held.total() < BYTES {
            honest = Err(missing());
        }
        // What the sender sent went well, as far as it knows.
        self.words.insert(retrieve, word(&sender, &receiver, Ok(())));
        self.words.insert(store, word(&receiver, &sender, honest));
    }
}

#[test]
fn every_copy_between_nodes_ends_whole_or_with_a_cause() {
    let (mut whole, mut repeated, mut failed) = (0, 0, 0);
    for seed in 0..4000 {
        let mut world = World::new(seed);
        let mut session = session(true, &["TREE", "CHECK", "HELD", "ADAPT"]);
        let result = world.run(&mut session);
        let (sender, receiver) = (world.wrong(DataEnd::Sender), world.wrong(DataEnd::Receiver));
        let is_honest = sender == Wrong::Nothing && receiver == Wrong::Nothing;
        match result {
            Ok(summary) => {
                // Nobody but the receiver can know, and it compares digests.
                let is_believed = receiver == Wrong::Lies;
                assert!(world.held.total() == BYTES || is_believed, "seed {seed}: not whole");
                assert_eq!(summary.passes, world.passes, "seed {seed}");
                assert_eq!(summary.bad_blocks, 2 * (world.passes - 1), "seed {seed}");
                whole += 1;
                repeated += u64::from(summary.passes > 1);
            }
            Err(error) => {
                let causes = [&sender, &receiver].map(|wrong| match wrong {
                    Wrong::Fails(code) => Some(*code),
                    Wrong::Silent => Some(ErrorCode::PeerSilent),
                    _ => None,
                });
                let is_missing = error.code == ErrorCode::BlocksMissing;
                let is_symptom = error.code == ErrorCode::ChannelLost
                    && causes.contains(&Some(ErrorCode::PeerSilent));
                assert!(
                    causes.contains(&Some(error.code)) || is_missing || is_symptom,
                    "seed {seed}: {error} is not to blame: {causes:?}"
                );
                assert!(!is_honest || world.loss > 0 || world.boasts, "seed {seed}: {error}");
                failed += 1;
            }
        }
    }
    assert!(whole > 1000 && repeated > 300 && failed > 500, "{whole} {repeated} {failed}");
}

#[test]
fn a_sender_that_only_says_that_it_sent_is_given_up() {
    let mut world = World::new(0);
    (world.sender, world.receiver, world.since) = (Wrong::Lies, Wrong::Nothing, 0);
    (world.loss, world.boasts) = (0, false);
    let error = world.run(&mut session(true, &["TREE", "CHECK"])).expect_err("nothing came");
    assert_eq!((error.code, world.passes), (ErrorCode::BlocksMissing, 3));
}

#[test]
fn nothing_can_have_landed_before_files_are_asked_for() {
    for (sender, receiver, is_under_way) in [
        (Wrong::Nothing, Wrong::Fails(ErrorCode::ControlClosed), false),
        (Wrong::Lies, Wrong::Nothing, true),
    ] {
        let mut world = World::new(0);
        (world.sender, world.receiver, world.since) = (sender, receiver, 0);
        (world.loss, world.boasts) = (0, false);
        let mut session = session(true, &["TREE", "CHECK"]);
        world.run(&mut session).expect_err("one of them is wrong");
        assert_eq!(session.is_under_way(), is_under_way);
    }
}

#[test]
fn holding_more_than_there_is_brings_nothing_forward() {
    let mut world = World::new(0);
    (world.sender, world.receiver, world.since) = (Wrong::Lies, Wrong::Nothing, 0);
    (world.loss, world.boasts) = (0, true);
    let mut session = session(true, &["TREE", "CHECK"]);
    world.run(&mut session).expect_err("nothing came");
    assert!(world.passes <= 4, "{} passes", world.passes);
    assert_eq!(session.resumed(), BYTES, "what it boasts of beyond the tree does not count");
}

#[test]
fn without_checked_blocks_there_is_one_pass() {
    let mut world = World::new(0);
    (world.sender, world.receiver) = (Wrong::Nothing, Wrong::Nothing);
    (world.loss, world.boasts) = (500, false);
    world.run(&mut session(false, &["TREE", "CHECK"])).expect_err("blocks were lost");
    assert_eq!(world.passes, 1);
}

#[test]
fn what_the_receiver_holds_is_told_to_the_sender_as_it_takes_it() {
    let held: ByteRanges = (0..320).map(|i| i * 200..i * 200 + 100).collect();
    for (listed, expected) in
        [(&["TREE", "CHECK", "HELD"][..], held.clone()), (&["TREE", "CHECK"][..], nameable(&held))]
    {
        let mut world = World::new(0);
        (world.sender, world.receiver) = (Wrong::Nothing, Wrong::Nothing);
        (world.loss, world.boasts, world.held) = (0, false, held.clone());
        let mut session = session(true, listed);
        let summary = world.run(&mut session).expect("whole");
        assert_eq!(world.told, expected);
        assert_eq!(
            (summary.resumed, session.asked()),
            (expected.total(), BYTES - expected.total())
        );
    }
}

#[test]
fn of_a_pair_the_first_failure_waits_a_moment_for_the_other() {
    let second = |secs| Time::ZERO + Span::from_secs(secs);
    let mut words = PairedTransfer::default();
    let both = vec![DataEnd::Receiver, DataEnd::Sender];
    assert_eq!(words.state(second(1)), PairedState::Waiting(both, None));
    words.ended(second(9), DataEnd::Receiver, Err(missing()));
    let wait = PairedState::Waiting(vec![DataEnd::Sender], Some(second(11)));
    assert_eq!(words.state(second(10)), wait);
    assert_eq!(words.state(second(11)), PairedState::Broken(missing()));
    words.ended(second(10), DataEnd::Sender, Ok(()));
    assert_eq!(words.state(second(10)), PairedState::Over(Err(missing())));
    words.ended(second(10), DataEnd::Sender, Err(error(Fault::There, ErrorCode::NoSpace)));
    assert_eq!(words.state(second(10)), PairedState::Over(Err(missing())), "it had spoken");
}
