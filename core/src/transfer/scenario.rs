//! A test of a transfer as a list: what is sent over which channels, what happens when, where it
//! lands. It runs in virtual time, and a command that is broken off is given again; one that fails
//! prints its seed.
//!
//! ```text
//! scenario![files(&[40_000]), channels(2), rate(kbit(800)), at(ms(90), Fault::PowerCut), disk(kbit(400))].run()
//! ```

mod pass;

use super::files::Files;
use super::*;
use crate::units::{Rate, Rng, Span, Time};
use pass::Pass;
use std::collections::{BTreeSet, VecDeque};

/// After so long the command is given again.
const PAUSE: Span = Span::from_millis(50);

/// What happens to a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The receiving process is killed; its host lives.
    Kill,
    /// The receiving host loses what was not durable.
    PowerCut,
    /// A channel breaks, with what is on its way in it.
    Break(usize),
    /// The disk has room for so much from here on.
    Room(u64),
}

/// One entry of the list.
pub(super) enum Part {
    /// Lengths of the files.
    Files(Vec<u64>),
    /// How many channels.
    Channels(usize),
    /// How fast each is.
    Rate(Rate),
    /// How long each takes.
    Delay(Span),
    /// Slots of the pool at either end.
    Pool(usize),
    /// How fast the receiver's disk writes.
    Disk(Rate),
    /// This block comes damaged the first time.
    LostBlock(u64),
    /// What happens so long after the beginning.
    At(Span, Fault),
    /// Of random choices.
    Seed(u64),
}

pub(super) fn files(lens: &[u64]) -> Part {
    Part::Files(lens.to_vec())
}

pub(super) fn channels(count: usize) -> Part {
    Part::Channels(count)
}

pub(super) fn rate(rate: Rate) -> Part {
    Part::Rate(rate)
}

pub(super) fn delay(delay: Span) -> Part {
    Part::Delay(delay)
}

pub(super) fn pool(slots: usize) -> Part {
    Part::Pool(slots)
}

pub(super) fn disk(rate: Rate) -> Part {
    Part::Disk(rate)
}

/// A disk that has room for so many bytes.
pub(super) fn room(bytes: u64) -> Part {
    Part::At(Span::ZERO, Fault::Room(bytes))
}

pub(super) fn lost_block(index: u64) -> Part {
    Part::LostBlock(index)
}

pub(super) fn at(after: Span, fault: Fault) -> Part {
    Part::At(after, fault)
}

pub(super) fn seed(seed: u64) -> Part {
    Part::Seed(seed)
}

pub(super) fn kbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000)
}

pub(super) fn ms(span: u64) -> Span {
    Span::from_millis(span)
}

/// A scenario of the parts that are listed.
macro_rules! scenario {
    [$($part:expr),+ $(,)?] => {
        $crate::transfer::scenario::Scenario::of(vec![$($part),+])
    };
}
pub(super) use scenario;

/// What is to happen.
pub(super) struct Scenario {
    files: Files,
    channels: usize,
    rate: Rate,
    delay: Span,
    pool: usize,
    disk: Rate,
    lost: BTreeSet<u64>,
    /// In the order of their times.
    faults: VecDeque<(Time, Fault)>,
    rng: Rng,
    seed: u64,
    room: u64,
    run: Run,
}

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Bytes of the files.
    pub(super) payload: u64,
    /// How long it took, the pauses after a break included.
    pub(super) took: Span,
    /// How often the command was given.
    pub(super) attempts: u32,
    /// Passes over what was missing, in all attempts.
    pub(super) passes: u32,
    /// Bytes that were sent.
    pub(super) sent: u64,
    /// Bytes that the attempts after the first found there.
    pub(super) resumed: u64,
    /// The most slots that the receiver had in use.
    pub(super) most_slots: usize,
    /// Attempts that ended as the disk was full.
    pub(super) full: u32,
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Landed,
    Killed,
    PowerCut,
    Full,
}

impl Scenario {
    pub(super) fn of(parts: Vec<Part>) -> Scenario {
        let (mut lens, mut of_seed) = (vec![10_000], 3);
        for part in &parts {
            match part {
                Part::Files(all) => lens.clone_from(all),
                Part::Seed(seed) => of_seed = *seed,
                _ => {}
            }
        }
        let mut rng = Rng::new(of_seed);
        let mut scenario = Scenario {
            files: Files::new(&lens, Some(DigestAlgorithm::Crc64Nvme), &mut rng),
            channels: 1,
            rate: kbit(8_000),
            delay: ms(1),
            pool: 8,
            disk: kbit(80_000),
            lost: BTreeSet::new(),
            faults: VecDeque::new(),
            rng,
            seed: of_seed,
            room: u64::MAX,
            run: Run::default(),
        };
        for part in parts {
            match part {
                Part::Files(_) | Part::Seed(_) => {}
                Part::Channels(count) => scenario.channels = count,
                Part::Rate(rate) => scenario.rate = rate,
                Part::Delay(delay) => scenario.delay = delay,
                Part::Pool(slots) => scenario.pool = slots,
                Part::Disk(rate) => scenario.disk = rate,
                Part::LostBlock(index) => drop(scenario.lost.insert(index)),
                Part::At(after, fault) => {
                    scenario.faults.push_back((Time::ZERO + after, fault));
                }
            }
        }
        scenario.run.payload = scenario.files.layout.payload();
        scenario.faults.make_contiguous().sort_by_key(|(at, _)| *at);
        scenario
    }

    /// Gives the command until all has landed, equal to its source.
    pub(super) fn run(mut self) -> Run {
        let mut now = Time::ZERO;
        for attempt in 0.. {
            assert!(attempt < 20, "no end of attempts");
            let recovered = self.files.recover();
            let mut held = recovered.blocks(&self.files.layout);
            self.run.attempts += 1;
            self.run.resumed += if attempt > 0 { held.total() } else { 0 };
            let mut account = self.files.account(&recovered, held.clone());
            let mut digests = recovered.digests;
            let mut ending = Ending::Landed;
            while ending == Ending::Landed && held.total() < self.files.layout.payload() {
                self.run.passes += 1;
                assert!(self.run.passes < 100, "no end of passes");
                let mut pass = Pass::new(&mut self, &held, now);
                ending = pass.run(&mut digests, &mut account);
                (held, now) = (pass.receiver.written().clone(), pass.now);
            }
            match ending {
                Ending::Landed => {
                    self.files.assert_landed(&digests);
                    self.run.took = now.since(Time::ZERO);
                    return std::mem::take(&mut self.run);
                }
                Ending::PowerCut => self.files.disk.power_cut(&mut self.rng),
                Ending::Full => self.run.full += 1,
                Ending::Killed => {}
            }
            now += PAUSE;
        }
        unreachable!("the loop ends by itself")
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scenario's seed: {}; so far {:?}", self.seed, self.run);
        }
    }
}
