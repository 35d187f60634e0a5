//! A client and a server session talking to each other in virtual time, over chunks of any size.

use super::client::{self, ClientConfig, ClientSession, Event, Request, Transfer, TransferKind};
use super::server::{
    self, Action, Answer, Ask, Logins, Rights, ServerConfig, ServerSession, TransferRequest,
};
use super::*;
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Rng, Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const ONE_WAY: Span = Span::from_millis(80);

/// Both ends, the wire between them, and a disk.
struct World {
    now: Time,
    client: ClientSession,
    server: ServerSession,
    /// Chunks on their way, with their arrival.
    to_server: VecDeque<(Time, Vec<u8>)>,
    to_client: VecDeque<(Time, Vec<u8>)>,
    /// Answers the disk will give, with their time.
    answers: Vec<(Time, u64, Answer)>,
    files: BTreeMap<Pathname, u64>,
    directories: BTreeSet<Pathname>,
    transfers: Vec<TransferRequest>,
    events: Vec<(Time, u64, Event)>,
    cuts: Rng,
    longest_chunk: u64,
}

impl World {
    fn new(seed: u64, longest_chunk: u64) -> World {
        let config = ServerConfig {
            logins: Logins::Anonymous(Rights::Write),
            features: vec!["FARLINE TREE".into()],
            modules: vec!["FARLINE.TREE".into()],
            checksums: vec!["SHA256".into()],
            ..ServerConfig::default()
        };
        let host = ClientConfig { host: "10.0.0.1".parse().ok(), ..ClientConfig::default() };
        World {
            now: Time::ZERO,
            client: ClientSession::new(host, Time::ZERO),
            server: ServerSession::new(config, Time::ZERO),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            answers: Vec::new(),
            files: BTreeMap::new(),
            directories: BTreeSet::from([Pathname::root()]),
            transfers: Vec::new(),
            events: Vec::new(),
            cuts: Rng::new(seed),
            longest_chunk,
        }
    }

    fn want(&mut self, id: u64, request: Request) {
        self.client.handle(self.now, client::Input::Request { id, request });
    }

    /// Runs until nothing moves any more.
    fn run(&mut self) {
        loop {
            self.poll_both();
            let chunks = [self.to_server.front(), self.to_client.front()];
            let next = chunks
                .into_iter()
                .flatten()
                .map(|(at, _)| *at)
                .chain(self.answers.iter().map(|(at, ..)| *at))
                .min();
            let Some(next) = next else { return };
            self.now = next;
            if let Some(bytes) = pop_due(&mut self.to_server, next) {
                self.server.handle(next, server::Input::Received(&bytes));
            } else if let Some(bytes) = pop_due(&mut self.to_client, next) {
                self.client.handle(next, client::Input::Received(&bytes));
            } else if let Some(due) = self.answers.iter().position(|(at, ..)| *at <= next) {
                let (_, id, answer) = self.answers.remove(due);
                self.server.handle(next, server::Input::Answer { id, answer });
            }
        }
    }

    fn poll_both(&mut self) {
        loop {
            match self.client.poll(self.now) {
                client::Output::Send(bytes) => {
                    let chunks = self.cut(bytes);
                    self.to_server.extend(chunks);
                }
                client::Output::Event { id, event } => self.events.push((self.now, id, event)),
                client::Output::Close => {}
                client::Output::Wait(_) => break,
            }
        }
        loop {
            match self.server.poll(self.now) {
                server::Output::Send(bytes) => {
                    let chunks = self.cut(bytes);
                    self.to_client.extend(chunks);
                }
                server::Output::Ask { id, ask } => self.disk(id, ask),
                server::Output::Abort { id } => {
                    self.answers.retain(|(_, of, _)| *of != id);
                    let error = Error::new(Fault::Between, ErrorCode::DataConnection, "cut off");
                    self.answers.push((self.now, id, Answer::Failed(error)));
                }
                server::Output::Close
                | server::Output::CloseChannels
                | server::Output::CloseData
                | server::Output::LimitStruck(_)
                | server::Output::LoginRefused(_)
                | server::Output::OptionAtOnce { .. }
                | server::Output::Rejected(_)
                | server::Output::StartTls { .. }
                | server::Output::StartGssapi => {}
                server::Output::Wait(_) => break,
            }
        }
    }

    fn cut(&mut self, bytes: Vec<u8>) -> Vec<(Time, Vec<u8>)> {
        let arrival = self.now + ONE_WAY;
        let mut rest = &bytes[..];
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let size = 1 + self.cuts.below(self.longest_chunk).min(rest.len() as u64 - 1) as usize;
            let (chunk, after) = rest.split_at(size);
            chunks.push((arrival, chunk.to_vec()));
            rest = after;
        }
        chunks
    }

    fn disk(&mut self, id: u64, ask: Ask) {
        let missing = |path: &Pathname| {
            Answer::Failed(Error::new(
                Fault::You,
                ErrorCode::PathNotFound,
                format!("No such file: {path}"),
            ))
        };
        let answer = match ask {
            Ask::Admit => Answer::Done,
            Ask::Passive { .. } => {
                Answer::Passive(vec!["10.0.0.1:2000".parse().expect("an address")])
            }
            Ask::MakeDirectory { path } => match self.directories.insert(path.clone()) {
                true => Answer::Done,
                false => Answer::Failed(Error::new(
                    Fault::You,
                    ErrorCode::PathExists,
                    format!("{path} exists"),
                )),
            },
            Ask::Stat { path } => match (self.files.get(&path), self.directories.contains(&path)) {
                (Some(&size), _) => Answer::Entry(Box::new(ListingEntry {
                    size: Some(size),
                    ..ListingEntry::default()
                })),
                (None, true) => Answer::Entry(Box::new(ListingEntry {
                    kind: ListingKind::Directory,
                    ..ListingEntry::default()
                })),
                (None, false) => missing(&path),
            },
            Ask::Rename { from, to } => match self.files.remove(&from) {
                Some(size) => {
                    self.files.insert(to, size);
                    Answer::Done
                }
                None => missing(&from),
            },
            Ask::List { facts, .. } => {
                let entry = |(name, &size): (&Pathname, &u64)| ListingEntry {
                    name: name.name().into(),
                    size: Some(size),
                    ..ListingEntry::default()
                };
                let lines = control_listing(self.files.iter().map(entry), facts);
                lines.map_or_else(Answer::Failed, Answer::Entries)
            }
            Ask::Transfer(request) => return self.move_data(id, *request),
            _ => Answer::Done,
        };
        self.answers.push((self.now, id, answer));
    }

    /// A file takes ten milliseconds; `/slow` takes an hour, `/full` finds no space half-way.
    fn move_data(&mut self, id: u64, request: TransferRequest) {
        let (path, reused) = (request.path.clone(), !self.transfers.is_empty());
        let stores = request.action == Action::Store;
        self.transfers.push(request);
        if !stores && !self.files.contains_key(&path) {
            let error =
                Error::new(Fault::You, ErrorCode::PathNotFound, format!("No such file: {path}"));
            return self.answers.push((self.now, id, Answer::Failed(error)));
        }
        self.answers.push((self.now, id, Answer::Started { reused }));
        let end = self.now + Span::from_millis(10);
        let (end, last) = match path.name() {
            b"slow" => (self.now + Span::from_secs(3600), Answer::Finished { bytes: 0 }),
            b"full" => (
                end,
                Answer::Failed(Error::new(Fault::There, ErrorCode::NoSpace, "the disk is full")),
            ),
            _ => (end, Answer::Finished { bytes: 100 }),
        };
        let mut held = ByteRanges::new();
        held.insert(0..50);
        self.answers.push((
            self.now,
            id,
            Answer::Perf(Perf { bytes: 50, stripes: 1, ..Perf::default() }),
        ));
        self.answers.push((self.now, id, Answer::Ranges(held)));
        if stores && matches!(last, Answer::Finished { .. }) {
            self.files.insert(path, 100);
        }
        self.answers.push((end, id, last));
    }

    /// What became of the requests, in order, in one word each.
    fn outcomes(&self) -> Vec<(u64, &str)> {
        let word = |event: &Event| match event {
            Event::Done(_) => Some("done"),
            Event::Failed(error) => Some(error.code.slug()),
            _ => None,
        };
        self.events.iter().filter_map(|(_, id, event)| Some((*id, word(event)?))).collect()
    }
}

fn pop_due(chunks: &mut VecDeque<(Time, Vec<u8>)>, now: Time) -> Option<Vec<u8>> {
    chunks.front().filter(|(at, _)| *at <= now)?;
    chunks.pop_front().map(|(_, bytes)| bytes)
}

impl From<&[u8]> for Pathname {
    fn from(bytes: &[u8]) -> Pathname {
        Pathname::new(bytes)
    }
}

fn login() -> Request {
    Request::Login { user: "anonymous".into(), password: "me@".into() }
}

fn store(path: &str) -> Request {
    Request::Transfer(Transfer::new(TransferKind::Store, path.into()))
}

fn session(world: &mut World) {
    world.want(1, login());
    world.want(2, Request::Exec(Command::MakeDirectory("/run7".into())));
    world.want(3, Request::Exec(Command::MakeDirectory("/run7".into())));
    world.want(4, Request::Passive { mode: Mode::Extended, striped: false });
    world.want(5, store("/run7/a"));
    world.want(6, store("/run7/full"));
    world.want(7, store("/run7/b"));
    world.want(8, Request::Stat("/run7/b".into()));
    world.want(9, Request::Rename { from: "/run7/b".into(), to: "/run7/c d".into() });
    world.want(10, Request::Stat("/run7/b".into()));
    world.want(11, Request::List("/run7".into()));
    let parallelism =
        RetrieveOptions { parallelism: Some((4, 4, 4)), ..RetrieveOptions::default() };
    world.want(12, Request::Exec(Command::Options(CommandOptions::Retrieve(parallelism))));
    world.want(
        13,
        Request::Active {
            mode: Mode::Extended,
            addresses: vec!["10.0.0.2:3000".parse().expect("an address")],
        },
    );
    world.want(14, Request::Transfer(Transfer::new(TransferKind::Retrieve, "/run7/c d".into())));
    world.want(15, Request::Transfer(Transfer::new(TransferKind::Retrieve, "/none".into())));
    world.want(16, Request::Exec(Command::Quit));
}

const OUTCOMES: [(u64, &str); 16] = [
    (1, "done"),
    (2, "done"),
    (3, "path-exists"),
    (4, "done"),
    (5, "done"),
    (6, "no-space"),
    (7, "done"),
    (8, "done"),
    (9, "done"),
    (10, "path-not-found"),
    (11, "done"),
    (12, "done"),
    (13, "done"),
    (14, "done"),
    (15, "path-not-found"),
    (16, "done"),
];

#[test]
fn a_whole_session_submitted_at_once_has_every_outcome_in_order() {
    let mut world = World::new(1, 1);
    session(&mut world);
    world.run();
    assert_eq!(world.outcomes(), OUTCOMES);
    let markers = |wanted| {
        world
            .events
            .iter()
            .filter(|(_, id, event)| *id == 5 && std::mem::discriminant(event) == wanted)
            .count()
    };
    assert_eq!(markers(std::mem::discriminant(&Event::Perf(Perf::default()))), 1);
    assert_eq!(markers(std::mem::discriminant(&Event::Ranges(ByteRanges::new()))), 1);
    assert_eq!(world.transfers[3].parallelism, 4);
    assert_eq!(world.transfers[3].path, "/run7/c d".into());
}

#[test]
fn a_thousand_files_cost_one_round_trip_not_a_thousand() {
    let mut world = World::new(2, 1 << 16);
    world.want(1, login());
    world.want(2, Request::Passive { mode: Mode::Extended, striped: false });
    world.run();
    let begin = world.now;
    (10..1010).for_each(|id| world.want(id, store(&format!("/f{id}"))));
    world.run();
    assert_eq!(world.files.len(), 1000);
    let moving = Span::from_millis(10).mul_f64(1000.0);
    let overhead = world.now.since(begin).saturating_sub(moving);
    assert!(overhead <= Span::from_millis(2 * 160), "{overhead} next to the files' own time");
}

#[test]
fn aborting_one_of_three_pipelined_stores_keeps_step() {
    let mut world = World::new(3, 7);
    world.want(1, login());
    world.want(2, Request::Passive { mode: Mode::Extended, striped: false });
    world.run();
    world.want(3, store("/slow"));
    world.want(4, store("/b"));
    world.poll_both();
    world.client.handle(world.now, client::Input::Abort { id: 3 });
    world.want(5, store("/c"));
    world.run();
    assert_eq!(world.outcomes()[2..], [(3, "aborted"), (4, "aborted"), (5, "done")]);
    assert!(world.now.since(Time::ZERO) < Span::from_secs(3600));
}

#[test]
fn resumes_from_the_ranges_a_lost_session_told() {
    let mut world = World::new(4, 30);
    world.want(1, login());
    world.want(2, Request::Passive { mode: Mode::Extended, striped: false });
    world.want(3, store("/slow"));
    world.run();
    let mut held = ByteRanges::new();
    for (_, _, event) in &world.events {
        if let Event::Ranges(more) = event {
            more.iter().for_each(|range| _ = held.insert(range));
        }
    }
    assert_eq!(held.to_string(), "0-50");
    let mut transfer = Transfer::new(TransferKind::Store, "/a".into());
    transfer.held = held.clone();
    world.want(4, Request::Transfer(transfer));
    world.run();
    assert_eq!(world.transfers[1].held, held);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn chunks_of_any_size_change_nothing(seed in any::<u64>(), longest in 1u64..200) {
        let mut world = World::new(seed, longest);
        session(&mut world);
        world.run();
        prop_assert_eq!(world.outcomes(), OUTCOMES);
    }
}
