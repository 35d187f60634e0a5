//! A test of a copy's session as text: what is copied, which faults strike in which pass, and,
//! below `->`, all that the session asked for and did, by the virtual clock. It draws nothing, so
//! that a scenario is the same in every run.
//!
//! ```text
//! download 8 blocks over 2 channels, rtt 100 ms, 10 ms a block
//! peer TREE CHECK
//! pass 1 damages 3 5
//! ->
//! 0 ms      open
//! ...
//! ```
//!
//! | line | what it says |
//! |---|---|
//! | `download N blocks over K channels, rtt R ms, B ms a block` | what is copied (or `upload`), over what |
//! | `peer A B ...` | what the peer lists in FEAT |
//! | `holds A-B` | what the receiver holds of an earlier attempt |
//! | `asks congestion`, `prefers congestion` | the user asked for a control, or the plan chose one, which the peer may not have |
//! | `refuses NAME` | the peer does not do what a request that begins so asks for |
//! | `open fails CODE`, `prepare fails CODE` | that fails, by this host's fault |
//! | `list N damages`, `list N breaks` | what strikes the list the Nth time that it is moved |
//! | `pass N damages A B ...` | these blocks come other than they were sent |
//! | `pass N breaks at A` | a channel breaks before block A, and nothing more comes |
//! | `pass N fails here at A CODE`, `pass N fails there at A CODE` | an end's own failure there, at which the channels break |
//! | `pass N told` | the peer's failure is heard before the move has ended |
//! | `pass N unreadable A B` | files of this end, of these blocks, cannot be read whole |

use super::*;
use crate::congestion::ControlName;
use crate::gridftp::client::{PeerFeatures, Request, Transfer};
use crate::gridftp::{Command, CommandOptions, Pathname, Reply};
use crate::transfer::DigestAlgorithm;
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Span, Time};
use std::fmt::Write;

/// What a line does not say otherwise.
const NOBODY: &str = "";

/// What strikes one pass.
#[derive(Clone, Debug, Default)]
struct Strikes {
    damaged: Vec<u64>,
    /// Before which block the channels break.
    breaks: Option<u64>,
    /// Whose failure that is, if it is not the path's.
    by: Option<(Fault, ErrorCode)>,
    is_told: bool,
    unreadable: Vec<u64>,
}

/// A copy and what happens to it.
struct Scenario {
    is_download: bool,
    blocks: u64,
    channels: usize,
    rtt: Span,
    block_time: Span,
    features: Vec<String>,
    holds: ByteRanges,
    /// A control of the peer's, and whether the user asked for it.
    control: Option<bool>,
    refuses: Vec<String>,
    open_fails: Option<ErrorCode>,
    prepare_fails: Option<ErrorCode>,
    lists: Vec<Strikes>,
    passes: Vec<Strikes>,
}

/// A request, when it left, and when the data that it is about had moved.
struct Asked {
    name: String,
    left: Time,
    moved: Option<Time>,
    is_data: bool,
}

/// The copy as it goes.
struct World<'s> {
    scenario: &'s Scenario,
    now: Time,
    held: ByteRanges,
    /// Of the requests that the last output but one asked for, those not yet told of.
    asked: Vec<Asked>,
    news: usize,
    lists: usize,
    passes: usize,
    /// What the last request for data named as held.
    named: ByteRanges,
    /// What the peer says at the end of a pass, of the list and of the data.
    list_verdict: Option<Error>,
    verdict: Option<Error>,
    transcript: String,
}

fn words(text: &str) -> Vec<&str> {
    text.split([' ', ',']).filter(|word| !word.is_empty()).collect()
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

fn code(word: &str) -> ErrorCode {
    ErrorCode::from_slug(word).unwrap_or_else(|| panic!("`{word}` is no code"))
}

/// The strikes of the Nth pass, which `lines` may say in several lines.
fn nth<'a>(strikes: &'a mut Vec<Strikes>, n: &str) -> &'a mut Strikes {
    let n = usize::try_from(number(n)).expect("small");
    strikes.resize(strikes.len().max(n), Strikes::default());
    &mut strikes[n - 1]
}

impl Scenario {
    /// Reads the lines above `->`.
    fn of(text: &str) -> Scenario {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = words(lines.next().unwrap_or_default());
        let [
            way,
            blocks,
            "blocks",
            "over",
            channels,
            "channels",
            "rtt",
            rtt,
            "ms",
            each,
            "ms",
            "a",
            "block",
        ] = first[..]
        else {
            panic!("what is copied: {first:?}")
        };
        let mut scenario = Scenario {
            is_download: way == "download",
            blocks: number(blocks),
            channels: usize::try_from(number(channels)).expect("few"),
            rtt: Span::from_millis(number(rtt)),
            block_time: Span::from_millis(number(each)),
            features: Vec::new(),
            holds: ByteRanges::new(),
            control: None,
            refuses: Vec::new(),
            open_fails: None,
            prepare_fails: None,
            lists: Vec::new(),
            passes: Vec::new(),
        };
        lines.for_each(|line| scenario.read(line));
        scenario
    }

    fn read(&mut self, line: &str) {
        let numbers = |words: &[&str]| words.iter().map(|word| number(word)).collect();
        match words(line)[..] {
            ["peer", ref listed @ ..] => {
                self.features = listed.iter().map(|name| (*name).to_owned()).collect();
            }
            ["holds", ranges] => {
                // People write the last block that is held.
                for range in ByteRanges::parse(ranges).unwrap_or_default().iter() {
                    self.holds.insert(range.start..range.end + 1);
                }
            }
            ["asks", "congestion"] => self.control = Some(true),
            ["prefers", "congestion"] => self.control = Some(false),
            ["refuses", name] => self.refuses.push(name.to_owned()),
            ["open", "fails", slug] => self.open_fails = Some(code(slug)),
            ["prepare", "fails", slug] => self.prepare_fails = Some(code(slug)),
            ["list", n, "damages"] => nth(&mut self.lists, n).damaged = vec![0],
            ["list", n, "breaks"] => nth(&mut self.lists, n).breaks = Some(0),
            ["pass", n, "damages", ref blocks @ ..] => {
                nth(&mut self.passes, n).damaged = numbers(blocks);
            }
            ["pass", n, "breaks", "at", block] => {
                nth(&mut self.passes, n).breaks = Some(number(block));
            }
            ["pass", n, "fails", end, "at", block, slug] => {
                let fault = if end == "here" { Fault::Here } else { Fault::There };
                let pass = nth(&mut self.passes, n);
                (pass.breaks, pass.by) = (Some(number(block)), Some((fault, code(slug))));
            }
            ["pass", n, "told"] => nth(&mut self.passes, n).is_told = true,
            ["pass", n, "unreadable", ref blocks @ ..] => {
                nth(&mut self.passes, n).unreadable = numbers(blocks);
            }
            _ => panic!("a line that says nothing: {line}"),
        }
    }

    fn session(&self) -> CopySession {
        let mut lines = vec![b"PeerFeatures:".to_vec()];
        lines.extend(self.features.iter().map(|name| format!(" FARLINE {name}").into_bytes()));
        lines.push(b"End".to_vec());
        let features = PeerFeatures::of(&Reply { code: 211, lines });
        let role = match self.is_download {
            true => {
                let may_hold = !self.holds.is_empty();
                CopyRole::Receiver { may_hold, may_stay: false }
            }
            false => CopyRole::Sender { source: [7; 32] },
        };
        let name: ControlName = "htcp".parse().expect("a name");
        let control =
            self.control.map(|is_asked| SenderControl { name, is_asked, is_known: false });
        let options = CopyOptions {
            checks: true,
            digests: Some(DigestAlgorithm::Blake3),
            control,
            ..CopyOptions::default()
        };
        CopySession::new(role, Pathname::new("/t"), options, &features, self.rtt)
    }

    /// All that the session asked for and did, a line each.
    fn run(&self) -> String {
        let mut session = self.session();
        let mut world = World {
            scenario: self,
            now: Time::ZERO,
            held: self.holds.clone(),
            asked: Vec::new(),
            news: 0,
            lists: 0,
            passes: 0,
            named: ByteRanges::new(),
            list_verdict: None,
            verdict: None,
            transcript: String::new(),
        };
        for _ in 0..1_000 {
            let Some(output) = session.poll() else { panic!("it waits for nothing") };
            if let Output::End(result) = &output {
                world.tell_requests();
                assert_eq!(session.poll(), None, "nothing follows the end");
                world.end(result);
                return world.transcript;
            }
            if let Some(event) = world.execute(output) {
                session.handle(world.now, event);
            }
        }
        panic!("the copy does not end:\n{}", world.transcript);
    }
}

impl World<'_> {
    fn line(&mut self, text: &str) {
        let at = format!("{} ms", self.now.since(Time::ZERO).as_nanos() / 1_000_000);
        let _ = writeln!(self.transcript, "{at:<9} {text}");
    }

    /// Tells in one line what left since the last one.
    fn tell_requests(&mut self) {
        let names: Vec<&str> =
            self.asked[self.news..].iter().map(|asked| asked.name.as_str()).collect();
        if !names.is_empty() {
            let text = format!("ask {}", names.join(", "));
            self.line(&text);
        }
        self.news = self.asked.len();
    }

    fn execute(&mut self, output: Output) -> Option<Event> {
        if !matches!(output, Output::Request { .. }) {
            self.tell_requests();
        }
        match output {
            Output::Request { request, .. } => {
                let is_data = matches!(&request, Request::Transfer(_));
                if let Request::Transfer(Transfer { module: Some(module), held, .. }) = &request
                    && module.parms == "data"
                {
                    self.named = held.clone();
                }
                self.asked.push(Asked {
                    name: brief(&request),
                    left: self.now,
                    moved: None,
                    is_data,
                });
                None
            }
            Output::Await(id) => Some(self.answer(id.0)),
            Output::Open { .. } => {
                self.line("open");
                self.now += self.scenario.rtt;
                Some(Event::Opened(match self.scenario.open_fails {
                    Some(code) => Err(Error::new(Fault::Here, code, NOBODY)),
                    None => Ok(OpenedChannels {
                        count: self.scenario.channels,
                        can_grow: true,
                        listening: None,
                    }),
                }))
            }
            Output::Move(part) => Some(self.carry(part)),
            Output::Prepare => {
                self.line("prepare");
                Some(Event::Prepared(match self.scenario.prepare_fails {
                    Some(code) => Err(Error::new(Fault::Here, code, NOBODY)),
                    None => Ok(self.held.clone()),
                }))
            }
            Output::Hear { until } => {
                self.line("hear what the peer says");
                // It says so a round trip after it noticed; one that noticed nothing never does.
                let told = self.verdict.clone();
                self.now = if told.is_some() { self.now + self.scenario.rtt } else { until };
                Some(Event::Heard(told))
            }
            Output::Settle => {
                self.line("settle");
                (self.list_verdict, self.verdict) = (None, None);
                None
            }
            Output::Refuse => {
                self.line("refuse what came");
                None
            }
            Output::End(_) => None,
        }
    }

    /// The last word on a request comes a round trip after it left, and after its data.
    fn answer(&mut self, id: usize) -> Event {
        let asked = &self.asked[id];
        let name = asked.name.clone();
        self.now = self.now.max(asked.left + self.scenario.rtt);
        if let Some(moved) = asked.moved {
            self.now = self.now.max(moved);
        }
        let is_refused =
            self.scenario.refuses.iter().any(|refused| name.starts_with(refused.as_str()));
        let result = match self.verdict.clone() {
            _ if is_refused => Err(Error::new(Fault::There, ErrorCode::Unsupported, NOBODY)),
            Some(error) if name.starts_with("data") => Err(error),
            _ => match self.list_verdict.clone() {
                Some(error) if name == "manifest" => Err(error),
                _ => Ok(()),
            },
        };
        if let Err(error) = &result {
            let text = format!("the peer says of {}: {}", first(&name), error.code);
            self.line(&text);
        }
        Event::Answered { result, marked: 0, held: self.held.clone() }
    }

    fn carry(&mut self, part: TreePart) -> Event {
        let Scenario { is_download, blocks, channels, block_time, .. } = *self.scenario;
        let mut failure = None;
        if part != TreePart::Files {
            let strikes = self.scenario.lists.get(self.lists).cloned().unwrap_or_default();
            self.lists += 1;
            self.now += block_time;
            failure = match (strikes.breaks, strikes.damaged.is_empty()) {
                (Some(_), _) => Some(lost()),
                (None, false) => Some(missing(1, 0)),
                (None, true) => None,
            };
            let text = match &failure {
                Some(error) => format!("the list: {}", error.code),
                None => "the list".to_owned(),
            };
            self.line(&text);
        }
        let mut unreadable = 0;
        if part != TreePart::Manifest && failure.is_none() {
            let strikes = self.scenario.passes.get(self.passes).cloned().unwrap_or_default();
            self.passes += 1;
            failure = self.pass(&strikes, blocks, block_time, channels as u64);
            unreadable = strikes.unreadable.len();
        } else if part == TreePart::Tree {
            // What receives lacks the list, and with it all that it lists.
            (self.list_verdict, self.verdict) = (Some(missing(0, 1)), Some(missing(0, 1)));
        }
        let now = self.now;
        self.asked
            .iter_mut()
            .filter(|asked| asked.is_data)
            .for_each(|asked| asked.moved = Some(now));
        let is_told = self.passes > 0
            && self.scenario.passes.get(self.passes - 1).is_some_and(|pass| pass.is_told);
        let told = self.verdict.clone().filter(|_| is_told && failure.is_some());
        // A sender does not know that blocks came other than they were sent.
        let noticed = failure.filter(|error| is_download || error.code != ErrorCode::BlocksMissing);
        Event::Moved {
            result: noticed.map_or(Ok(()), Err),
            told,
            held: self.held.clone(),
            unreadable,
        }
    }

    /// Moves what is missing; returns what went wrong.
    fn pass(&mut self, strikes: &Strikes, blocks: u64, each: Span, channels: u64) -> Option<Error> {
        // A peer that sends leaves out what it was told of; this end knows what the peer holds.
        let left_out = if self.scenario.is_download { &self.named } else { &self.held };
        let missing_before: Vec<u64> =
            (0..blocks).filter(|block| !left_out.contains(&(*block..*block + 1))).collect();
        let mut sent = 0;
        for &block in &missing_before {
            if strikes.breaks.is_some_and(|at| block >= at) {
                break;
            }
            sent += 1;
            if !strikes.damaged.contains(&block) && !strikes.unreadable.contains(&block) {
                self.held.insert(block..block + 1);
            }
        }
        self.now += Span::from_nanos(each.as_nanos() * sent / channels);
        let damaged = strikes.damaged.iter().filter(|block| missing_before.contains(block)).count();
        let is_whole = self.held.total() + strikes.unreadable.len() as u64 >= blocks;
        let breaks =
            strikes.breaks.is_some_and(|at| missing_before.iter().any(|block| *block >= at));
        let own = match (breaks, strikes.by) {
            (true, Some((Fault::Here, code))) => Some(Error::new(Fault::Here, code, NOBODY)),
            (true, _) => Some(lost()),
            (false, _) if !is_whole => Some(missing(damaged, 0)),
            (false, _) => None,
        };
        // What the peer says at the end of its transfer: why it broke off, or, where it receives,
        // what it lacks.
        self.verdict = match (breaks, strikes.by) {
            (true, Some((Fault::There, code))) => Some(Error::new(Fault::There, code, NOBODY)),
            (true, _) if !self.scenario.is_download => Some(missing(damaged, 1)),
            (false, _) if !is_whole && !self.scenario.is_download => Some(missing(damaged, 0)),
            _ => None,
        };
        let mut text = format!("move {sent} of {} blocks", missing_before.len());
        if let Some(error) = &own {
            let _ = write!(text, ": {}", error.code);
        }
        self.line(&text);
        own
    }

    fn end(&mut self, result: &Result<CopySummary, Error>) {
        let text = match result {
            Ok(summary) => {
                let mut text =
                    format!("done, {} of {} blocks", self.held.total(), self.scenario.blocks);
                let _ = write!(text, ", passes {}", summary.passes);
                if summary.bad_blocks > 0 {
                    let _ = write!(text, ", bad blocks {}", summary.bad_blocks);
                }
                if let Some((name, error)) = &summary.refused {
                    let _ = write!(text, ", no {name}: {}", error.code);
                }
                text
            }
            Err(error) => {
                format!("failed: {} ({})", error.code, format!("{:?}", error.fault).to_lowercase())
            }
        };
        self.line(&text);
    }
}

fn first(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

fn lost() -> Error {
    Error::new(Fault::Between, ErrorCode::ChannelLost, "data channels were lost")
}

fn missing(bad_blocks: usize, lost_channels: usize) -> Error {
    let counts = format!("bad_blocks={bad_blocks} bad_headers=0 lost_channels={lost_channels}");
    Error::new(Fault::Between, ErrorCode::BlocksMissing, format!("some of all; {counts}"))
}

/// A request in one word or two.
fn brief(request: &Request) -> String {
    match request {
        Request::Exec(Command::Options(CommandOptions::Farline { name, value })) => {
            let value = if value.len() > 20 { "..." } else { value };
            format!("{name}={value}")
        }
        Request::Exec(Command::Options(CommandOptions::Retrieve(_))) => "channels".to_owned(),
        Request::Transfer(Transfer { module: Some(module), held, .. }) => match held.is_empty() {
            true => module.parms.clone(),
            false => format!("{} but {held}", module.parms),
        },
        other => format!("{other:?}"),
    }
}

/// Runs each scenario of `text`, which begins with `# ` and what it shows.
#[track_caller]
fn all(text: &str) {
    let scenarios: Vec<&str> = text.split("\n# ").skip(1).collect();
    assert!(scenarios.len() > 10, "{} scenarios", scenarios.len());
    let mut others = String::new();
    for scenario in scenarios {
        let (title, rest) = scenario.split_once('\n').expect("a title");
        let (given, expected) = rest.split_once("->").expect("what comes of it");
        let came = Scenario::of(given).run();
        if came.trim() != expected.trim() {
            let _ = write!(others, "\n# {title}\n{given}->\n{came}");
        }
    }
    assert!(others.is_empty(), "these went otherwise:\n{others}");
}

#[test]
fn downloads_under_faults_go_as_their_scenarios_say() {
    all(include_str!("scenarios/downloads.txt"));
}

#[test]
fn uploads_under_faults_go_as_their_scenarios_say() {
    all(include_str!("scenarios/uploads.txt"));
}
