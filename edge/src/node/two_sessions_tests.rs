//! Two sessions at one node, whatever either says and whenever: core's machines in virtual time
//! against the node's own budgets, in which a script stands for sockets, disks and the clients.

use super::admission::{Admission, Visitor};
use super::held::{Admitted, HeldRates};
use super::limits::NodeLimits;
use super::list_memory::{ListMemory, ListShare};
use super::quota::{Quota, QuotaShare, Quotas};
use crate::identity::IdentityLimits;
use farline_core::copy::HeldRate;
use farline_core::gridftp::server::{
    Action, Answer, Ask, Input, Logins, Output, Rights, ServerConfig, ServerSession,
};
use farline_core::gridftp::{
    ListingEntry, ListingKind, Pathname, Perf, Timestamp, VERBS, control_listing,
};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Rate, Span, Time};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;

const NOON: u64 = 20_000 * 86_400 + 43_200;
/// Bytes of all lists, of an identity's day, and its files.
const LISTS: u64 = 1_000;
const DAY_BYTES: u64 = 600;
const DAY_FILES: u64 = 8;
/// In bit/s.
const HELD: u64 = 700_000_000;

/// What the sessions of a node share.
struct SharedBudgets {
    lists: Arc<ListMemory>,
    quotas: Quotas,
    rates: Arc<HeldRates>,
    admission: Arc<Admission>,
}

impl SharedBudgets {
    fn new() -> SharedBudgets {
        let limits = NodeLimits { sessions: 2, logins: 2, ..NodeLimits::default() };
        SharedBudgets {
            lists: ListMemory::new(Bytes(LISTS)),
            quotas: Quotas::default(),
            rates: Arc::new(HeldRates::new(Some(Rate::from_bps(HELD)))),
            admission: Arc::new(Admission::new(limits, false, Arc::default())),
        }
    }
}

/// What happens to a session.
#[derive(Clone, Debug)]
enum Step {
    /// Its client sends this.
    Say(Vec<u8>),
    /// What it asked for goes on, or ends, in one of several ways.
    Answer(u8, u64),
    /// Time passes.
    Wait(u64),
    /// Its client goes.
    Close,
}

/// A session, what it holds of the budgets, and its client.
struct Client {
    name: &'static str,
    session: ServerSession,
    now: Time,
    /// Until it ends.
    visitor: Option<Visitor>,
    quota: Arc<Quota>,
    /// The open ask, whether it began and whether it is to end.
    open: Option<(u64, Ask, bool, bool)>,
    list: Option<(ListShare, u64)>,
    /// What a transfer takes of the day, as long as it runs.
    share: Option<(QuotaShare, u64, u64)>,
    /// What was stored for good: bytes and files.
    kept: (u64, u64),
    held: Option<Admitted>,
    said: Vec<u8>,
    /// Whether a budget that is not its own alone refused it something.
    was_refused: bool,
}

impl Client {
    fn new(name: &'static str, last: u8, budgets: &SharedBudgets) -> Client {
        let limits = IdentityLimits {
            bytes_per_day: Some(Bytes(DAY_BYTES)),
            files_per_day: Some(DAY_FILES),
            ..IdentityLimits::default()
        };
        let config = ServerConfig {
            logins: Logins::Anyone(Rights::Write),
            checksums: vec!["MD5".to_owned()],
            modules: vec!["FARLINE.TREE".to_owned()],
            options_at_once: vec!["limit".to_owned()],
            passive_retrieve: true,
            ..ServerConfig::default()
        };
        let mut client = Client {
            name,
            session: ServerSession::new(config, Time::ZERO),
            now: Time::ZERO,
            visitor: Some(budgets.admission.enter(IpAddr::from([192, 0, 2, last]))),
            quota: budgets.quotas.of(name, &limits, NOON).expect("limits"),
            open: None,
            list: None,
            share: None,
            kept: (0, 0),
            held: None,
            said: Vec::new(),
            was_refused: false,
        };
        client.poll();
        client
    }

    fn take(&mut self, step: &Step, budgets: &SharedBudgets) {
        if self.visitor.is_none() {
            return;
        }
        match step {
            Step::Say(bytes) => {
                if self.session.wants_input() {
                    self.session.handle(self.now, Input::Received(bytes));
                }
            }
            Step::Answer(how, amount) => self.go_on(*how, *amount, budgets),
            Step::Wait(seconds) => self.now += Span::from_secs(*seconds),
            Step::Close => self.session.handle(self.now, Input::Closed),
        }
        self.poll();
        // Whoever was told to end says so soon.
        if self.open.as_ref().is_some_and(|open| open.3) {
            self.end_open(failed(ErrorCode::Aborted));
            self.poll();
        }
    }

    fn poll(&mut self) {
        for polls in 0.. {
            assert!(polls < 100_000, "polls to no end");
            match self.session.poll(self.now) {
                Output::Wait(_) => return,
                Output::Send(bytes) => self.said.extend(bytes),
                Output::Ask { id, ask: Ask::Admit } => {
                    let visitor = self.visitor.as_ref().expect("a session that goes on");
                    let told = visitor.log_in(Some((self.name, Some(1))));
                    let answer = told.map_or_else(Answer::Failed, |()| Answer::Done);
                    self.session.handle(self.now, Input::Answer { id, answer });
                }
                Output::Ask { id, ask } => {
                    let before = self.open.replace((id, ask, false, false));
                    assert!(before.is_none(), "one ask at a time");
                }
                Output::Abort { id } => match &mut self.open {
                    Some(open) if open.0 == id => open.3 = true,
                    _ => {}
                },
                // As the node does: what it held goes with it.
                Output::Close => {
                    self.open = None;
                    self.share = None;
                    self.list = None;
                    self.held = None;
                    self.visitor = None;
                    return;
                }
                _ => {}
            }
        }
    }

    /// The open ask goes on in way `how`.
    fn go_on(&mut self, how: u8, amount: u64, budgets: &SharedBudgets) {
        let Some((id, ask, has_begun, _)) = self.open.clone() else { return };
        let own = |result: Result<QuotaShare, Error>| result.map_err(Answer::Failed);
        let answer = match &ask {
            Ask::Transfer(request) if !has_begun => {
                let is_store = request.action.is_store();
                let bytes = request.size.unwrap_or(amount);
                if request.module.is_some() {
                    // A list of that many bytes.
                    let mut share = budgets.lists.share();
                    match share.set(amount) {
                        Ok(()) => self.list = Some((share, amount)),
                        Err(error) => {
                            self.was_refused |= error.code == ErrorCode::Busy;
                            return self.end_open(Answer::Failed(error));
                        }
                    }
                } else if is_store {
                    match own(self.quota.take(bytes, 1, NOON)) {
                        Ok(share) => self.share = Some((share, bytes, 1)),
                        Err(refused) => return self.end_open(refused),
                    }
                }
                if let Some(open) = &mut self.open {
                    open.2 = true;
                }
                return self.say(id, Answer::Started { reused: amount.is_multiple_of(2) });
            }
            Ask::Transfer(request) => match how % 6 {
                0 => return self.say(id, Answer::Ranges(ranges(amount))),
                1 => {
                    let perf = Perf {
                        timestamp: Timestamp::from_seconds(7),
                        stripe: 0,
                        bytes: amount,
                        stripes: 1,
                    };
                    return self.say(id, Answer::Perf(perf));
                }
                2 => return self.say(id, Answer::Remark("FARLINE landed=1;".to_owned())),
                3 => failed(ErrorCode::ChannelLost),
                _ => {
                    if let Some((share, bytes, files)) = self.share.take() {
                        share.keep_all();
                        self.kept = (self.kept.0 + bytes, self.kept.1 + files);
                    }
                    let bytes = if request.action == Action::Store { amount } else { 0 };
                    Answer::Finished { bytes }
                }
            },
            Ask::MakeDirectory { .. } | Ask::MakeLink { .. } => {
                match own(self.quota.take(0, 1, NOON)) {
                    Err(refused) => refused,
                    // It is there already: nothing was stored.
                    Ok(_) if how.is_multiple_of(3) => failed(ErrorCode::PathExists),
                    Ok(share) => {
                        share.keep_all();
                        self.kept.1 += 1;
                        Answer::Done
                    }
                }
            }
            Ask::SetOption { name, .. } if name == "held" => {
                self.held = None;
                let rate = Rate::from_bps(amount * 1_000_000);
                match budgets.rates.admit(HeldRate { rate, channels: 1 }) {
                    Ok(admitted) => {
                        self.held = Some(admitted);
                        Answer::Done
                    }
                    Err(error) => {
                        self.was_refused |= error.code == ErrorCode::HeldRateTaken;
                        Answer::Failed(error)
                    }
                }
            }
            _ if how.is_multiple_of(5) => failed(ErrorCode::PathNotFound),
            Ask::Stat { path } => {
                let kind =
                    if how.is_multiple_of(2) { ListingKind::Directory } else { ListingKind::File };
                Answer::Entry(Box::new(entry(path, kind)))
            }
            Ask::List { path, facts } => control_listing([entry(path, ListingKind::File)], *facts)
                .map_or_else(Answer::Failed, Answer::Entries),
            Ask::Login { .. } => Answer::LoggedIn(Rights::Write),
            Ask::Passive { .. } => Answer::Passive(vec![([192, 0, 2, 9], 5_000).into()]),
            Ask::Checksum { .. } if how.is_multiple_of(2) => {
                let timestamp = Timestamp::from_seconds(7);
                return self.say(id, Answer::Processed { timestamp, bytes: amount });
            }
            Ask::Checksum { .. } => Answer::Digest("00".to_owned()),
            _ => Answer::Done,
        };
        self.end_open(answer);
    }

    fn say(&mut self, id: u64, answer: Answer) {
        self.session.handle(self.now, Input::Answer { id, answer });
    }

    /// The last answer to the open ask; what was not kept goes.
    fn end_open(&mut self, answer: Answer) {
        self.share = None;
        if let Some((id, ..)) = self.open.take() {
            self.say(id, answer);
        }
    }
}

fn failed(code: ErrorCode) -> Answer {
    Answer::Failed(Error::new(Fault::There, code, "by the script"))
}

fn entry(path: &Pathname, kind: ListingKind) -> ListingEntry {
    ListingEntry { name: path.clone(), kind, size: Some(5), ..ListingEntry::default() }
}

fn ranges(end: u64) -> ByteRanges {
    let mut ranges = ByteRanges::new();
    ranges.insert(0..end + 1);
    ranges
}

/// Holds the budgets against what their sessions hold.
fn check(budgets: &SharedBudgets, clients: &[Client]) {
    let lists: u64 = clients.iter().flat_map(|client| &client.list).map(|list| list.1).sum();
    assert_eq!(budgets.lists.taken(), lists);
    assert!(lists <= LISTS);
    let rates = clients.iter().flat_map(|client| &client.held);
    let rates: u64 = rates.map(|admitted| admitted.held.rate.as_bps()).sum();
    assert_eq!(budgets.rates.taken(), rates);
    assert!(rates <= HELD);
    for client in clients {
        let running = client.share.as_ref().map_or((0, 0), |share| (share.1, share.2));
        let taken = (client.kept.0 + running.0, client.kept.1 + running.1);
        assert_eq!(client.quota.taken(), taken, "{}", client.name);
        assert!(taken.0 <= DAY_BYTES && taken.1 <= DAY_FILES);
    }
    let there = clients.iter().filter(|client| client.visitor.is_some()).count();
    assert_eq!(budgets.admission.present(), there);
}

/// Runs `steps` of the clients of `who`, those of the others left out; returns what each was told,
/// and whether what they share refused it something.
fn run(steps: &[(bool, Step)], who: [bool; 2]) -> Vec<(Vec<u8>, bool)> {
    let budgets = SharedBudgets::new();
    let mut clients = vec![Client::new("alpha", 1, &budgets), Client::new("bravo", 2, &budgets)];
    check(&budgets, &clients);
    for (which, step) in steps.iter().filter(|(which, _)| who[usize::from(*which)]) {
        clients[usize::from(*which)].take(step, &budgets);
        check(&budgets, &clients);
    }
    for at in 0..clients.len() {
        clients[at].take(&Step::Close, &budgets);
        check(&budgets, &clients);
        assert!(clients[at].visitor.is_none() && clients[at].open.is_none(), "it ended");
    }
    assert_eq!((budgets.lists.taken(), budgets.rates.taken()), (0, 0));
    assert_eq!(budgets.admission.present(), 0);
    clients.into_iter().map(|client| (client.said, client.was_refused)).collect()
}

/// What a client says: mostly a line that makes sense, with its own names.
fn words(name: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let lines = prop::sample::select(vec![
        "USER NAME",
        "PASS NAME",
        "TYPE I",
        "MODE E",
        "MODE S",
        "PASV",
        "EPSV",
        "SPAS",
        "PORT 192,0,2,7,9,9",
        "STOR /NAME/x",
        "RETR /NAME/x",
        "APPE NAME",
        "ESTO A 5 /NAME/x",
        "ERET P 1 2 /NAME/x",
        "REST 0-7",
        "REST 5",
        "ESTO FARLINE.TREE=\"manifest\" /NAME",
        "ESTO FARLINE.TREE=\"data\" /NAME",
        "ERET FARLINE.TREE=\"manifest\" /NAME",
        "MKD NAME",
        "SITE SYMLINK NAME /NAME/l",
        "CWD /NAME",
        "PWD",
        "ABOR",
        "STAT",
        "STAT /NAME",
        "CKSM MD5 0 -1 /NAME/x",
        "OPTS FARLINE held=5;",
        "OPTS FARLINE held=5;",
        "OPTS FARLINE held=5;",
        "OPTS FARLINE limit=5;",
        "OPTS RETR Parallelism=4,4,4;",
        "MLSC /NAME",
        "MLSD /NAME",
        "SIZE NAME",
        "ALLO 500",
        "ALLO 90",
        "RNFR NAME",
        "RNTO NAME",
        "DELE NAME",
        "FEAT",
        "NOOP",
        "QUIT",
        "SITE CHMOD 640 NAME",
        "MFMT 20200101000000 NAME",
    ]);
    let line =
        lines.prop_map(move |line| format!("{}\r\n", line.replace("NAME", name)).into_bytes());
    let odd = (prop::sample::select(VERBS.to_vec()), "[ -~]{0,20}")
        .prop_map(|(verb, rest)| format!("{} {rest}\r\n", verb.name).into_bytes());
    let garbage = prop::collection::vec(any::<u8>(), 0..30);
    // Several in one piece, and a piece of one.
    let several = prop::collection::vec(line.clone(), 2..6).prop_map(|lines| lines.concat());
    let cut = (line.clone(), 0..10usize).prop_map(|(line, at)| line[..at.min(line.len())].to_vec());
    prop_oneof![12 => line, 3 => several, 1 => odd, 1 => garbage, 1 => cut]
}

fn step() -> impl Strategy<Value = (bool, Step)> {
    any::<bool>().prop_flat_map(|which| {
        let name = if which { "bravo" } else { "alpha" };
        let step = prop_oneof![
            40 => words(name).prop_map(Step::Say),
            50 => (any::<u8>(), 0..700u64).prop_map(|(how, amount)| Step::Answer(how, amount)),
            2 => (0..1_000u64).prop_map(Step::Wait),
            1 => Just(Step::Close),
        ];
        step.prop_map(move |step| (which, step))
    })
}

/// Both log in first, mostly.
fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let rest = prop::collection::vec(step(), 0..120);
    (prop::bool::weighted(0.9), rest).prop_map(|(logs_in, rest)| {
        let mut steps = Vec::new();
        for which in [false, true].into_iter().filter(|_| logs_in) {
            steps.push((which, Step::Say(b"USER me\r\nPASS x\r\nMODE E\r\nPASV\r\n".to_vec())));
            steps.push((which, Step::Answer(1, 1)));
        }
        steps.extend(rest);
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn two_sessions_share_budgets_and_know_nothing_of_another(steps in steps()) {
        let both = run(&steps, [true, true]);
        for (which, (said, was_refused)) in both.iter().enumerate() {
            let other: &[u8] = if which == 0 { b"bravo" } else { b"alpha" };
            prop_assert!(
                !said.windows(other.len()).any(|part| part == other),
                "{}",
                String::from_utf8_lossy(said)
            );
            // As if nobody else were there, but where there was too little for both.
            if !was_refused {
                let alone = run(&steps, [which == 0, which == 1]);
                prop_assert_eq!(
                    String::from_utf8_lossy(said),
                    String::from_utf8_lossy(&alone[which].0)
                );
            }
        }
    }
}

#[test]
fn what_the_fuzzed_sessions_do_is_not_nothing() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut codes = std::collections::BTreeMap::<String, usize>::new();
    let mut refused = 0;
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        for (said, was_refused) in run(&steps, [true, true]) {
            refused += usize::from(was_refused);
            for line in String::from_utf8_lossy(&said).lines() {
                *codes.entry(line.chars().take(4).collect()).or_default() += 1;
            }
        }
    }
    // Transfers begin and end, well and badly, budgets are used up and others' are in the way.
    for code in ["150 ", "226 ", "426 ", "552 ", "111 ", "227 ", "257 ", "421 "] {
        assert!(codes.get(code).is_some_and(|count| *count > 3), "{code}: {codes:?}");
    }
    assert!(refused > 3, "{refused}");
}
