//! Sessions against a scripted peer and store, in virtual time: what is asked in which order, and
//! over many seeds that every copy ends, whole or with the error that is to blame.

use super::*;
use crate::congestion::{Algorithm, ControlName};
use crate::gridftp::client::{PeerFeatures, Request, Transfer};
use crate::gridftp::{Command, CommandOptions, Pathname, Reply};
use crate::transfer::DigestAlgorithm;
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Rate, Rng, Span, Time};

const ALL: &[&str] =
    &["TREE", "CHECK", "ZEROS", "ORDER", "LIMIT", "ADAPT", "OMITTED", "LANDING", "UNLANDED"];
const RTT: Span = Span::from_millis(100);

fn features(listed: &[&str]) -> PeerFeatures {
    let mut lines = vec![b"PeerFeatures:".to_vec()];
    lines.extend(listed.iter().map(|name| format!(" FARLINE {name}").into_bytes()));
    lines.push(b"End".to_vec());
    PeerFeatures::of(&Reply { code: 211, lines })
}

fn checked() -> CopyOptions {
    CopyOptions { checks: true, digests: Some(DigestAlgorithm::Blake3), ..CopyOptions::default() }
}

fn receiver(may_hold: bool) -> CopyRole {
    CopyRole::Receiver { may_hold, may_stay: false }
}

const SENDER: CopyRole = CopyRole::Sender { source: [7; 32] };

fn session(role: CopyRole, options: CopyOptions, listed: &[&str]) -> CopySession {
    CopySession::new(role, Pathname::new("/t"), options, &features(listed), RTT)
}

/// A request in one word or two.
fn brief(request: &Request) -> String {
    match request {
        Request::Exec(Command::Options(CommandOptions::Farline { name, value })) => {
            let value = if value.len() > 20 { "..." } else { value };
            format!("{name}={value}")
        }
        Request::Exec(Command::Options(CommandOptions::Retrieve(retrieve))) => {
            format!("channels {}", retrieve.parallelism.map_or(0, |(first, ..)| first))
        }
        Request::Exec(Command::SocketBuffer(len)) => format!("buffer {len}"),
        Request::Transfer(Transfer { module: Some(module), held, .. }) if held.is_empty() => {
            module.parms.clone()
        }
        Request::Transfer(Transfer { module: Some(module), held, .. }) => {
            format!("{} but {held}", module.parms)
        }
        other => format!("{other:?}"),
    }
}

/// What the session wants until it waits.
fn wants(session: &mut CopySession) -> Vec<String> {
    let mut wanted = Vec::new();
    while let Some(output) = session.poll() {
        wanted.push(match output {
            Output::Request { request, .. } => brief(&request),
            Output::Await(id) => format!("await {}", id.0),
            Output::End(Ok(_)) => "done".to_owned(),
            Output::End(Err(error)) => format!("failed: {}", error.code),
            Output::Hear { until } => format!("hear until {}", until.since(Time::ZERO)),
            Output::Move(part) => format!("move {part:?}"),
            Output::Open { may_grow } => format!("open {may_grow}"),
            other => format!("{other:?}"),
        });
    }
    wanted
}

fn opened(count: usize) -> Event {
    Event::Opened(Ok(OpenedChannels { count, can_grow: true, listening: None }))
}

fn lost() -> Error {
    Error::new(Fault::Between, ErrorCode::ChannelLost, "data channels were lost")
}

fn missing() -> Error {
    Error::new(
        Fault::Between,
        ErrorCode::BlocksMissing,
        "3 of 9; bad_blocks=2 bad_headers=1 lost_channels=0",
    )
}

fn moved(result: Result<(), Error>, held: &str) -> Event {
    let held = ByteRanges::parse(held).unwrap_or_default();
    Event::Moved { result, told: None, held, unreadable: 0 }
}

fn answered(result: Result<(), Error>, held: &str) -> Event {
    let held = ByteRanges::parse(held).unwrap_or_default();
    Event::Answered { result, marked: 0, held }
}

fn seconds(secs: u64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

#[test]
fn a_fresh_download_asks_for_all_at_once() {
    let mut session = session(receiver(false), checked(), ALL);
    assert_eq!(wants(&mut session), ["open true"]);
    session.handle(seconds(1), opened(4));
    let asked = wants(&mut session);
    let expected = [
        "channels 4",
        "adapt=channels+congestion",
        "check=crc32c",
        "digest=blake3",
        "zeros=short",
        "omitted=named",
        "manifest",
        "data",
        "digests",
        "move Manifest",
    ];
    assert_eq!(asked, expected, "nothing is waited for");
    session.handle(seconds(2), moved(Ok(()), ""));
    assert_eq!(wants(&mut session), ["Prepare"]);
    session.handle(seconds(2), Event::Prepared(Ok(ByteRanges::new())));
    assert_eq!(wants(&mut session), ["await 6"]);
    session.handle(seconds(2), answered(Ok(()), ""));
    assert_eq!(wants(&mut session), ["move Files"]);
    session.handle(seconds(3), moved(Ok(()), "0-9"));
    let mut order = wants(&mut session);
    while order.last().is_some_and(|last| last.starts_with("await")) {
        session.handle(seconds(4), answered(Ok(()), "0-9"));
        order.extend(wants(&mut session));
    }
    assert_eq!(
        order.join(", "),
        "await 7, await 8, await 1, await 2, await 3, await 4, await 5, done"
    );
}

#[test]
fn a_fresh_upload_asks_for_all_at_once() {
    let mut session = session(SENDER, checked(), ALL);
    assert_eq!(wants(&mut session), ["open true"]);
    session.handle(seconds(1), opened(4));
    let expected = "adapt=none, check=crc32c, digest=blake3, zeros=short, source=..., \
        unlanded=named, landing=whole, manifest, data, digests, move Tree";
    assert_eq!(wants(&mut session).join(", "), expected);
}

#[test]
fn what_is_held_is_named_in_the_request_for_data() {
    let mut session = session(receiver(true), checked(), ALL);
    session.handle(seconds(1), opened(1));
    let asked = wants(&mut session);
    assert_eq!(
        asked[asked.len() - 2..],
        ["manifest", "move Manifest"],
        "the list is looked at first"
    );
    session.handle(seconds(2), moved(Ok(()), ""));
    session.handle(seconds(2), Event::Prepared(Ok(ByteRanges::parse("0-4").unwrap_or_default())));
    session.handle(seconds(3), answered(Ok(()), "0-4"));
    assert_eq!(wants(&mut session)[2..], ["data but 0-4", "digests", "move Files"]);
}

#[test]
fn files_are_compared_by_what_both_know() {
    let crc = CopyOptions { digests: Some(DigestAlgorithm::Crc64Nvme), ..checked() };
    let of = |listed: &[&str], options: &CopyOptions| Agreement::of(&features(listed), options);
    let digests = |agreement: Agreement| agreement.integrity.digests;
    let (new, old) = (&["CHECK", "CRC64"][..], &["CHECK"][..]);
    assert_eq!(digests(of(new, &crc)), Some(DigestAlgorithm::Crc64Nvme));
    assert_eq!(digests(of(new, &checked())), Some(DigestAlgorithm::Blake3));
    assert_eq!(digests(of(old, &crc)), Some(DigestAlgorithm::Blake3));
    let both = of(new, &crc).guarded_as(&of(old, &crc));
    assert_eq!(digests(both), Some(DigestAlgorithm::Blake3), "between two nodes");
    let none = CopyOptions { digests: None, ..checked() };
    assert_eq!(digests(of(new, &none)), None);
}

#[test]
fn a_peer_without_extensions_is_told_nothing() {
    let mut session = session(receiver(true), checked(), &["TREE"]);
    assert!(
        !session.agreement().integrity.checks && session.agreement().integrity.digests.is_some()
    );
    session.handle(seconds(1), opened(2));
    let expected = "open false, channels 2, manifest, data, digests, move Manifest";
    assert_eq!(wants(&mut session).join(", "), expected, "nor can what is here be gone on with");
    session.handle(seconds(2), moved(Err(missing()), ""));
    assert_eq!(wants(&mut session), ["failed: blocks-missing"], "without checks once is enough");
}

#[test]
fn a_peer_that_sends_is_told_what_was_asked_for() {
    let name: ControlName = "farline_cubic".parse().expect("a name");
    let control = SenderControl { name, is_asked: true, is_known: false };
    let options = CopyOptions {
        in_order: true,
        limit: Some(Rate::from_bps(8_000_000)),
        control: Some(control),
        buffer: Some(crate::units::Bytes(65536)),
        ..checked()
    };
    let mut session = session(receiver(false), options, ALL);
    let expected = "congestion=farline_cubic, order=ascending, limit=8000000, await 0";
    assert_eq!(wants(&mut session).join(", "), expected, "a name that only the peer may know");
    session.handle(seconds(1), answered(Ok(()), ""));
    assert_eq!(wants(&mut session), ["buffer 65536", "open false"]);
    session.handle(seconds(1), Event::Opened(Err(lost())));
    assert_eq!(wants(&mut session), ["failed: channel-lost"]);
}

#[test]
fn the_peers_word_says_why_channels_were_lost() {
    let full = Error::new(Fault::There, ErrorCode::NoSpace, "no space there");
    for (heard, code) in [(Some(full), ErrorCode::NoSpace), (None, ErrorCode::ChannelLost)] {
        let mut session = session(receiver(false), CopyOptions::default(), ALL);
        session.handle(seconds(1), opened(2));
        wants(&mut session);
        session.handle(seconds(10), moved(Err(lost()), ""));
        assert_eq!(wants(&mut session), ["hear until 12.1 s"]);
        session.handle(seconds(11), Event::Heard(heard));
        assert_eq!(wants(&mut session), [format!("failed: {code}")]);
    }
}

#[test]
fn a_sender_believes_its_peer_on_lost_channels() {
    let mut session = session(SENDER, checked(), ALL);
    session.handle(seconds(1), opened(2));
    wants(&mut session);
    session.handle(seconds(2), moved(Err(lost()), ""));
    session.handle(seconds(4), Event::Heard(None));
    assert_eq!(wants(&mut session), ["hear until 4.10 s", "await 7"]);
    session.handle(seconds(4), answered(Ok(()), ""));
    session.handle(seconds(4), answered(Err(Error::new(Fault::There, ErrorCode::NoSpace, "")), ""));
    session.handle(seconds(4), answered(Err(missing()), ""));
    assert_eq!(wants(&mut session), ["await 8", "await 9", "failed: no-space"]);
}

#[test]
fn what_the_peer_sent_wrong_is_kept_by_nobody() {
    let mut session = session(receiver(false), checked(), ALL);
    session.handle(seconds(1), opened(2));
    session.handle(seconds(1), moved(Ok(()), ""));
    session.handle(seconds(1), Event::Prepared(Ok(ByteRanges::new())));
    session.handle(seconds(1), answered(Ok(()), ""));
    wants(&mut session);
    let wrong = Error::new(Fault::There, ErrorCode::DigestMismatch, "another file");
    session.handle(seconds(2), moved(Err(wrong), "0-5"));
    assert_eq!(wants(&mut session), ["Refuse", "failed: digest-mismatch"]);
}

#[test]
fn files_that_cannot_be_read_here_do_not_end_an_upload() {
    let complaint =
        Error::new(Fault::There, ErrorCode::SourceUnreadable, "a file could not be read");
    for (unreadable, last) in [(1, "await 0"), (0, "failed: source-unreadable")] {
        let mut session = session(SENDER, checked(), ALL);
        session.handle(seconds(1), opened(2));
        wants(&mut session);
        let (result, held) = (Err(complaint.clone()), ByteRanges::new());
        session.handle(seconds(2), Event::Moved { result, told: None, held, unreadable });
        assert_eq!(wants(&mut session), [last]);
    }
}

#[test]
fn a_silent_peer_is_waited_for_once() {
    let mut session = session(SENDER, checked(), ALL);
    session.handle(seconds(1), opened(2));
    session.handle(seconds(2), moved(Ok(()), ""));
    wants(&mut session);
    let silent = Error::new(Fault::Between, ErrorCode::PeerSilent, "not a word for 60 s");
    session.handle(seconds(62), answered(Err(silent), ""));
    assert_eq!(wants(&mut session), ["failed: peer-silent"], "two more replies are not waited for");
}

#[test]
fn a_control_that_the_peer_lacks_is_told_if_asked_for() {
    for is_asked in [true, false] {
        let name = ControlName::from(Algorithm::Bbr);
        let control = SenderControl { name, is_asked, is_known: true };
        let mut world = World::new(1, receiver(false));
        world.faults = Faults::NONE;
        world.refuses = "congestion";
        let options = CopyOptions { control: Some(control), ..checked() };
        let summary = world.run(options).expect("only the control is refused");
        assert_eq!(summary.control, None);
        assert_eq!(summary.refused.map(|(name, _)| name), is_asked.then_some(name));
    }
}

/// How often, of a thousand times, what goes wrong.
#[derive(Clone, Copy)]
struct Faults {
    /// A list does not arrive whole.
    list: u64,
    /// A block is lost, or flipped.
    block: u64,
    /// All channels break in the middle of a pass.
    breaks: u64,
    /// The peer says why before the channels are seen to break.
    told: u64,
}

impl Faults {
    const NONE: Faults = Faults { list: 0, block: 0, breaks: 0, told: 0 };
}

/// A peer and a store of 64 blocks of one byte.
struct World {
    rng: Rng,
    now: Time,
    role: CopyRole,
    faults: Faults,
    /// The option that the peer does not take.
    refuses: &'static str,
    held: ByteRanges,
    requests: Vec<(Request, bool)>,
    awaited: Vec<usize>,
    /// Transfers of the pass that runs, by their request; what went wrong with it; whether channels
    /// are open.
    pass: Vec<usize>,
    failure: Option<Error>,
    is_open: bool,
    bad_blocks: u64,
    passes: u64,
    fruitless: u64,
}

const BLOCKS: u64 = 64;

impl World {
    fn new(seed: u64, role: CopyRole) -> World {
        let mut rng = Rng::new(seed);
        let mut often = |most| if rng.below(2) == 0 { 0 } else { rng.below(most) };
        let faults =
            Faults { list: often(500), block: often(900), breaks: often(600), told: often(1000) };
        World {
            rng,
            now: Time::ZERO,
            role,
            faults,
            refuses: "",
            held: ByteRanges::new(),
            requests: Vec::new(),
            awaited: Vec::new(),
            pass: Vec::new(),
            failure: None,
            is_open: false,
            bad_blocks: 0,
            passes: 0,
            fruitless: 0,
        }
    }

    fn strikes(&mut self, often: u64) -> bool {
        self.rng.below(1000) < often
    }

    fn is_sender(&self) -> bool {
        matches!(self.role, CopyRole::Sender { .. })
    }

    fn run(&mut self, options: CopyOptions) -> Result<CopySummary, Error> {
        let mut session = session(self.role.clone(), options, ALL);
        for _ in 0..20_000 {
            let event = match session.poll() {
                Some(Output::End(result)) => {
                    assert_eq!(session.poll(), None, "nothing follows the end");
                    return result;
                }
                Some(output) => match self.execute(output) {
                    Some(event) => event,
                    None => continue,
                },
                None => panic!("the session waits for nothing"),
            };
            self.now += Span::from_millis(self.rng.below(200));
            session.handle(self.now, event);
        }
        panic!("the copy does not end");
    }

    fn execute(&mut self, output: Output) -> Option<Event> {
        match output {
            Output::Request { request, is_optional } => {
                if let Request::Transfer(transfer) = &request {
                    for range in transfer.held.iter() {
                        assert!(self.held.contains(&range), "{range:?} is not held");
                    }
                    self.pass.push(self.requests.len());
                }
                self.requests.push((request, is_optional));
                None
            }
            Output::Await(id) => Some(self.answer(id.0)),
            Output::Hear { until } => {
                assert!(until >= self.now + RTT);
                self.now = until;
                Some(Event::Heard(None))
            }
            Output::Move(part) => Some(self.carry(part)),
            Output::Open { .. } => {
                assert!(!self.is_open, "a pass is settled before the next begins");
                self.is_open = true;
                Some(opened(3))
            }
            Output::Prepare => {
                if matches!(self.role, CopyRole::Receiver { may_hold: true, .. }) {
                    let len = self.rng.below(BLOCKS);
                    self.held.insert(0..len);
                }
                Some(Event::Prepared(Ok(self.held.clone())))
            }
            Output::Settle => {
                assert!(self.pass.is_empty(), "{:?} still run", self.pass);
                (self.is_open, self.failure) = (false, None);
                None
            }
            Output::Refuse => panic!("nobody sent anything wrong"),
            Output::End(_) => None,
        }
    }

    fn answer(&mut self, id: usize) -> Event {
        assert!(id < self.requests.len() && !self.awaited.contains(&id), "{id} was awaited");
        self.awaited.push(id);
        self.pass.retain(|&transfer| transfer != id);
        let named = brief(&self.requests[id].0);
        let result = match &self.failure {
            Some(error) if self.is_sender() && named.starts_with("data") => Err(error.clone()),
            _ if !self.refuses.is_empty() && named.starts_with(self.refuses) => {
                Err(Error::new(Fault::There, ErrorCode::Unsupported, named))
            }
            _ => Ok(()),
        };
        Event::Answered { result, marked: 0, held: self.held.clone() }
    }

    /// Moves what is missing, as far as nothing goes wrong.
    fn carry(&mut self, part: TreePart) -> Event {
        let mut failure = None;
        if part == TreePart::Manifest {
            failure = self.strikes(self.faults.list).then(missing);
        } else {
            let before = self.held.total();
            self.passes += 1;
            for block in 0..BLOCKS {
                if self.strikes(self.faults.breaks / 16) {
                    failure = Some(lost());
                    break;
                }
                if !self.strikes(self.faults.block) {
                    self.held.insert(block..block + 1);
                }
            }
            self.fruitless = if self.held.total() > before { 0 } else { self.fruitless + 1 };
            assert!(self.fruitless <= 4, "passes that bring nothing are given up");
            if self.held.total() < BLOCKS {
                failure = failure.or(Some(missing()));
                self.bad_blocks += 2;
            } else if !self.is_sender() {
                failure = None;
            }
        }
        self.failure =
            (self.held.total() < BLOCKS).then(missing).filter(|_| part != TreePart::Manifest);
        let is_told = self.strikes(self.faults.told);
        let told = failure.as_ref().and(self.failure.clone()).filter(|_| is_told);
        // A sender does not know that blocks came other than they were sent.
        let noticed =
            failure.filter(|error| !self.is_sender() || error.code == ErrorCode::ChannelLost);
        Event::Moved {
            result: noticed.map_or(Ok(()), Err),
            told,
            held: self.held.clone(),
            unreadable: 0,
        }
    }
}

#[test]
fn every_copy_ends_whole_or_with_what_is_to_blame() {
    let (mut whole, mut given_up, mut repeated) = (0, 0, 0);
    for seed in 0..4000 {
        let role = match seed % 3 {
            0 => SENDER,
            1 => receiver(false),
            _ => receiver(true),
        };
        let mut world = World::new(seed, role);
        match world.run(checked()) {
            Ok(summary) => {
                assert_eq!(world.held.total(), BLOCKS, "seed {seed}");
                assert_eq!(summary.passes, world.passes, "seed {seed}");
                let said = if world.is_sender() { world.bad_blocks } else { summary.bad_blocks };
                assert_eq!(summary.bad_blocks, said, "seed {seed}");
                for (id, (request, is_optional)) in world.requests.iter().enumerate() {
                    let is_told = matches!(request, Request::Exec(_)) && id > 0;
                    let must = is_told && !is_optional && !brief(request).starts_with("channels");
                    assert!(
                        !must || world.awaited.contains(&id),
                        "seed {seed}: {}",
                        brief(request)
                    );
                }
                whole += 1;
                repeated += u64::from(world.passes > 1);
            }
            Err(error) => {
                assert!(
                    matches!(error.code, ErrorCode::BlocksMissing | ErrorCode::ChannelLost),
                    "seed {seed}"
                );
                given_up += 1;
            }
        }
    }
    assert!(whole > 1000 && given_up > 100 && repeated > 500, "{whole} {given_up} {repeated}");
}

#[test]
fn the_third_fruitless_pass_in_a_row_is_the_last() {
    for role in [SENDER, receiver(false)] {
        let mut world = World::new(0, role);
        world.faults = Faults { block: 1000, ..Faults::NONE };
        let error = world.run(checked()).expect_err("nothing ever arrives");
        assert_eq!((error.code, world.passes), (ErrorCode::BlocksMissing, 3));
    }
}

#[test]
fn of_two_servers_the_one_that_says_why_is_to_blame() {
    let full = Error::new(Fault::There, ErrorCode::NoSpace, "");
    assert_eq!(of_two_servers(lost(), Some(full.clone())).code, ErrorCode::NoSpace);
    assert_eq!(of_two_servers(full, Some(lost())).code, ErrorCode::NoSpace);
    assert_eq!(of_two_servers(lost(), None).code, ErrorCode::ChannelLost);
    // A globus server says of a connection that was closed what it says of all else.
    let vague = Error::new(Fault::Refused, ErrorCode::Refused, "");
    let full = Error::new(Fault::There, ErrorCode::NoSpace, "");
    assert_eq!(of_two_servers(vague.clone(), Some(full.clone())).code, ErrorCode::NoSpace);
    assert_eq!(of_two_servers(full, Some(vague.clone())).code, ErrorCode::NoSpace);
    assert_eq!(of_two_servers(vague.clone(), Some(lost())).code, ErrorCode::Refused);
    assert_eq!(of_two_servers(lost(), Some(vague)).code, ErrorCode::Refused);
}

#[test]
fn a_rest_line_names_the_longest_ranges() {
    let mut held = ByteRanges::new();
    for i in 0..200 {
        held.insert(i * 1000..i * 1000 + 1 + i);
    }
    let named = nameable(&held);
    assert_eq!(named.count(), 150);
    assert!(named.iter().all(|range| range.start >= 50_000 && held.contains(&range)));
}

#[test]
fn all_that_is_held_is_named_to_who_takes_it() {
    let held: ByteRanges = (0..1000).map(|i| i * 1000..i * 1000 + 1 + i % 7).collect();
    for takes in [true, false] {
        let listed = if takes { [ALL, &["HELD"]].concat() } else { ALL.to_vec() };
        let mut session = session(receiver(true), checked(), &listed);
        drop(wants(&mut session));
        session.handle(seconds(1), opened(4));
        drop(wants(&mut session));
        session.handle(seconds(2), moved(Ok(()), ""));
        drop(wants(&mut session));
        session.handle(seconds(2), Event::Prepared(Ok(held.clone())));
        drop(wants(&mut session));
        session.handle(seconds(2), answered(Ok(()), &held.to_string()));
        let (mut named, mut lines) = (ByteRanges::new(), 0);
        while let Some(output) = session.poll() {
            let ranges = match output {
                Output::Request {
                    request:
                        Request::Exec(Command::Options(CommandOptions::Farline { name, value })),
                    ..
                } if name == "held" => ByteRanges::parse(&value).expect("ranges"),
                Output::Request { request: Request::Transfer(transfer), .. } => transfer.held,
                _ => continue,
            };
            assert!(ranges.to_string().len() < 8000, "it fits a line");
            lines += usize::from(!ranges.is_empty());
            named.extend(ranges.iter());
        }
        let expected = if takes { (held.clone(), 7) } else { (nameable(&held), 1) };
        assert_eq!((named, lines), expected);
    }
}
