//! Copies file by file against a scripted server and journals that may be wrong, over many seeds:
//! no file lands that is not whole and of one version where anything could tell.

use super::by_file::{FileByFile, FileEvent, FileOutput, FileRules, PriorLanding};
use crate::transfer::journal::FileFacts;
use crate::transfer::{Entry, EntryKind};
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Rng};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

const UP: FileRules = FileRules {
    lands_here: false,
    resumes_there: true,
    is_comparable: true,
    compares_all: true,
    goes_on: true,
};

fn file(path: &str, mib: u64) -> Entry {
    let kind = EntryKind::File { len: mib * MIB };
    Entry { path: path.into(), kind, mode: 0o644, modified_ns: 7, changed_ns: 0, attributes: None }
}

fn link() -> Entry {
    Entry { kind: EntryKind::Symlink { target: Box::from(*b"f") }, ..file("link", 0) }
}

fn lost() -> Error {
    Error::new(Fault::Between, ErrorCode::ChannelLost, "")
}

/// What stands at the destination under a temporary name: for each mebibyte the source's version
/// that it is of, if any.
type Partial = Vec<Option<u8>>;

/// A source, a destination, and the journal of an earlier copy.
struct World {
    rng: Rng,
    rules: FileRules,
    entries: Vec<Entry>,
    /// Of a thousand steps so many fail.
    faults: u64,
    /// The version that the source has; 0 is the one that was listed.
    version: u8,
    partial: Partial,
    held: ByteRanges,
    injected: Option<Error>,
    moved: u64,
    landed: BTreeMap<usize, Partial>,
    others: usize,
    kept: Option<bool>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let rules = FileRules {
            lands_here: rng.below(2) == 0,
            resumes_there: rng.below(2) == 0,
            is_comparable: rng.below(4) > 0,
            compares_all: rng.below(2) == 0,
            goes_on: rng.below(2) == 0,
        };
        let mut entries: Vec<Entry> =
            (0..1 + rng.below(4)).map(|index| file(&index.to_string(), rng.below(16))).collect();
        if rng.below(3) == 0 {
            entries.push(link());
        }
        World {
            faults: if rng.below(2) == 0 { 0 } else { rng.below(150) },
            version: u8::from(rng.below(8) == 0),
            rng,
            rules,
            entries,
            partial: Partial::new(),
            held: ByteRanges::new(),
            injected: None,
            moved: 0,
            landed: BTreeMap::new(),
            others: 0,
            kept: None,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut files = FileByFile::new(self.rules, self.entries.clone(), BTreeMap::new());
        let mut index = 0;
        for _ in 0..1000 {
            let Some(output) = files.poll() else { panic!("it waits for nothing") };
            if let FileOutput::Begin(next) = output {
                index = next;
            }
            match output {
                FileOutput::End(result) => {
                    assert_eq!(files.poll(), None, "nothing follows the end");
                    return result;
                }
                FileOutput::Abandon { keeps, .. } => self.kept = Some(keeps),
                FileOutput::Count(..) => panic!("nothing landed before"),
                FileOutput::Fail(..) | FileOutput::Link(_) => self.others += 1,
                FileOutput::Hold(held) => self.hold(held),
                FileOutput::Landed { index, is_compared } => {
                    assert!(!is_compared || self.rules.is_comparable);
                    assert!(!self.rules.compares_all || is_compared == self.rules.is_comparable);
                    assert!(self.landed.contains_key(&index));
                }
                output => {
                    let event = self.execute(index, &output);
                    files.handle(event);
                }
            }
        }
        panic!("the copy does not end");
    }

    fn hold(&mut self, held: ByteRanges) {
        if !self.rules.lands_here && !held.is_empty() {
            assert!(self.rules.resumes_there && !held.contains(&(0..1)), "{held}");
        }
        self.held = held;
    }

    fn fails(&mut self) -> Option<Error> {
        (self.rng.below(1000) < self.faults).then(|| self.injected.insert(lost()).clone())
    }

    fn execute(&mut self, index: usize, output: &FileOutput) -> FileEvent {
        let failed = self.fails();
        let units = (self.entries[index].len() / MIB) as usize;
        let is_whole = self.partial.len() == units
            && self.partial.iter().all(|unit| *unit == Some(self.version));
        let ok = |failed: Option<Error>| failed.map_or(Ok(()), Err);
        match output {
            FileOutput::Begin(_) => {
                let held = self.left_over(units);
                FileEvent::Begun(failed.map_or(Ok(held), Err))
            }
            FileOutput::Measure => {
                let len = self.partial.len() as u64 * MIB;
                FileEvent::Measured(failed.map_or(Ok(Some(len)), Err))
            }
            FileOutput::Renew => {
                self.partial.clear();
                FileEvent::Done(ok(failed))
            }
            FileOutput::Move => {
                self.partial.resize(units.max(self.partial.len()), None);
                for unit in 0..units {
                    let range = unit as u64 * MIB..(unit as u64 + 1) * MIB;
                    if !self.held.contains(&range) {
                        self.partial[unit] = Some(self.version);
                        self.moved += 1;
                    }
                }
                FileEvent::Done(ok(failed))
            }
            FileOutput::LookAgain => {
                let listed = FileFacts::of(&self.entries[index]);
                let now = FileFacts { modified_ns: 7 + i64::from(self.version), ..listed };
                FileEvent::Seen(failed.map_or(Ok(Some(now)), Err))
            }
            FileOutput::Compare => {
                let differs = Error::new(Fault::Between, ErrorCode::DigestMismatch, "");
                let result = if is_whole { Ok(true) } else { Err(differs) };
                FileEvent::Compared(failed.map_or(result, Err))
            }
            FileOutput::Land => {
                self.landed.insert(index, self.partial.clone());
                FileEvent::Landed(failed.map_or(Ok(true), Err))
            }
            other => panic!("{other:?} wants no event"),
        }
    }

    /// What an earlier copy left, and what the journal says of it: on this host the truth, of a
    /// server what it said.
    fn left_over(&mut self, units: usize) -> ByteRanges {
        self.partial = vec![None; units];
        let mut said = ByteRanges::new();
        if self.rng.below(2) == 0 {
            return said;
        }
        for unit in 0..units {
            let is_said = self.rng.below(2) == 0;
            let is_true = self.rules.lands_here || self.rng.below(20) > 0;
            if is_said {
                said.insert(unit as u64 * MIB..(unit as u64 + 1) * MIB);
                self.partial[unit] = is_true.then_some(0);
            }
        }
        if !self.rules.lands_here {
            // G-3: what was in a buffer when the channel broke went to the file's start.
            self.partial.iter_mut().take(4).for_each(|unit| *unit = Some(9));
            self.partial.truncate(self.rng.below(units as u64 + 1).max(1) as usize);
        }
        said
    }
}

#[test]
fn what_lands_is_whole_and_of_one_version() {
    let (mut landed, mut resumed, mut caught) = (0, 0, 0);
    for seed in 0..5000 {
        let mut world = World::new(seed);
        let result = world.run();
        for (index, partial) in &world.landed {
            let units = world.entries[*index].len() / MIB;
            let is_sure =
                world.rules.is_comparable || world.rules.lands_here || !world.rules.resumes_there;
            let is_one = partial.iter().all(|unit| *unit == Some(world.version));
            assert!(
                !is_sure || (is_one && partial.len() as u64 == units),
                "seed {seed}: {partial:?}"
            );
            landed += 1;
        }
        match result {
            Ok(()) => {
                let all = world.landed.len() + world.others;
                assert_eq!(all, world.entries.len(), "seed {seed}: some were forgotten");
                let bytes: u64 = world.entries.iter().map(Entry::len).sum();
                resumed += u64::from(world.moved < bytes / MIB);
            }
            Err(error) => {
                let is_injected = world.injected.as_ref() == Some(&error);
                let is_caught = matches!(
                    error.code,
                    ErrorCode::DigestMismatch | ErrorCode::SourceChanged | ErrorCode::Incomplete
                );
                assert!(is_injected || is_caught, "seed {seed}: {error}");
                assert!(!is_caught || world.kept == Some(false), "seed {seed}: it is kept");
                caught += u64::from(is_caught);
            }
        }
    }
    assert!(landed > 3000 && resumed > 500 && caught > 100, "{landed} {resumed} {caught}");
}

/// The outputs of a copy of one file in which all goes well.
fn steps(rules: FileRules, mib: u64, held: &str) -> Vec<FileOutput> {
    let mut files = FileByFile::new(rules, vec![file("f", mib)], BTreeMap::new());
    let mut seen = Vec::new();
    while let Some(output) = files.poll() {
        seen.push(output.clone());
        files.handle(match output {
            FileOutput::Begin(_) => {
                FileEvent::Begun(Ok(ByteRanges::parse(held).unwrap_or_default()))
            }
            FileOutput::Measure => FileEvent::Measured(Ok(Some(mib * MIB))),
            FileOutput::Renew | FileOutput::Move => FileEvent::Done(Ok(())),
            FileOutput::LookAgain => FileEvent::Seen(Ok(Some(FileFacts::of(&file("f", mib))))),
            FileOutput::Compare => FileEvent::Compared(Ok(true)),
            FileOutput::Land => FileEvent::Landed(Ok(true)),
            _ => continue,
        });
    }
    seen
}

#[test]
fn what_a_server_holds_is_gone_on_with_but_for_its_start() {
    let held = ByteRanges::parse(&format!("{}-{}", 4 * MIB, 8 * MIB)).expect("ranges");
    let landed = FileOutput::Landed { index: 0, is_compared: true };
    assert_eq!(
        steps(UP, 16, &format!("0-{}", 8 * MIB)),
        [
            FileOutput::Begin(0),
            FileOutput::Measure,
            FileOutput::Hold(held),
            FileOutput::Move,
            FileOutput::Compare,
            FileOutput::Measure,
            FileOutput::Land,
            landed,
            FileOutput::End(Ok(())),
        ]
    );
}

#[test]
fn without_a_checksum_nothing_at_a_server_is_gone_on_with() {
    let rules = FileRules { is_comparable: false, resumes_there: false, ..UP };
    let seen = steps(rules, 16, &format!("0-{}", 8 * MIB));
    assert_eq!(
        seen[1..4],
        [FileOutput::Renew, FileOutput::Hold(ByteRanges::new()), FileOutput::Move]
    );
}

#[test]
fn what_is_here_already_is_only_checked() {
    let rules = FileRules { lands_here: true, compares_all: false, ..UP };
    let seen = steps(rules, 2, &format!("0-{}", 2 * MIB));
    assert!(!seen.contains(&FileOutput::Move) && seen.contains(&FileOutput::LookAgain));
    assert!(
        seen.contains(&FileOutput::Compare),
        "parts of two copies are compared, whatever was asked"
    );
    assert!(!steps(rules, 2, "").contains(&FileOutput::Compare));
}

#[test]
fn what_landed_before_is_counted_and_links_go_where_they_can() {
    let before = BTreeMap::from([
        (0, PriorLanding::ThisCopy),
        (1, PriorLanding::EarlierCopy { is_compared: true }),
    ]);
    let entries = vec![file("a", 1), file("b", 1), link()];
    let mut there = FileByFile::new(UP, entries.clone(), before.clone());
    assert_eq!(there.poll(), Some(FileOutput::Count(0, PriorLanding::ThisCopy)));
    let earlier = PriorLanding::EarlierCopy { is_compared: true };
    assert_eq!(there.poll(), Some(FileOutput::Count(1, earlier)));
    assert!(matches!(there.poll(), Some(FileOutput::Fail(2, _))));
    assert_eq!(there.poll(), Some(FileOutput::End(Ok(()))));
    let rules = FileRules { lands_here: true, ..UP };
    let mut here = FileByFile::new(rules, entries, before);
    assert!(std::iter::from_fn(|| here.poll()).any(|output| output == FileOutput::Link(2)));
}

#[test]
fn an_interrupted_file_is_kept_and_what_cannot_be_read_is_not() {
    for (fault, code, keeps) in [
        (Fault::You, ErrorCode::Interrupted, true),
        (Fault::Between, ErrorCode::ChannelLost, true),
        (Fault::Here, ErrorCode::SourceUnreadable, false),
    ] {
        let mut files = FileByFile::new(UP, vec![file("f", 1)], BTreeMap::new());
        files.handle(FileEvent::Begun(Ok(ByteRanges::new())));
        let error = Error::new(fault, code, "");
        files.handle(FileEvent::Done(Err(error.clone())));
        let outputs: Vec<_> = std::iter::from_fn(|| files.poll()).collect();
        assert_eq!(outputs[3], FileOutput::Abandon { keeps, error });
    }
}

#[test]
fn what_may_have_landed_unheard_is_looked_for() {
    for (rules, found) in [
        (UP, Some(true)),
        (UP, Some(false)),
        (FileRules { is_comparable: false, ..UP }, None),
        (FileRules { lands_here: true, ..UP }, None),
    ] {
        let before = BTreeMap::from([(0, PriorLanding::Unheard)]);
        let mut files = FileByFile::new(rules, vec![file("f", 1)], before);
        assert_eq!(files.poll(), Some(FileOutput::Begin(0)));
        files.handle(FileEvent::Begun(Ok(ByteRanges::new())));
        if let Some(found) = found {
            assert_eq!(files.poll(), Some(FileOutput::FindLanded));
            files.handle(FileEvent::Landed(Ok(found)));
        }
        let next = match found {
            Some(true) => FileOutput::Landed { index: 0, is_compared: true },
            _ => FileOutput::Hold(ByteRanges::new()),
        };
        assert_eq!(files.poll(), Some(next), "{rules:?} {found:?}");
    }
}

/// The outputs of a copy of three files of which the second fails by `code` where `fails` is asked
/// for.
fn failing(rules: FileRules, code: ErrorCode, fails: &FileOutput) -> Vec<FileOutput> {
    let entries = vec![file("a", 1), file("b", 1), file("c", 1)];
    let mut files = FileByFile::new(rules, entries, BTreeMap::new());
    let (mut seen, mut index) = (Vec::new(), 0);
    while let Some(output) = files.poll() {
        seen.push(output.clone());
        if let FileOutput::Begin(next) = output {
            index = next;
        }
        let result =
            match index == 1 && std::mem::discriminant(&output) == std::mem::discriminant(fails) {
                true => Err(Error::new(Fault::There, code, "")),
                false => Ok(()),
            };
        files.handle(match output {
            FileOutput::Begin(_) => FileEvent::Begun(result.map(|()| ByteRanges::new())),
            FileOutput::Move => FileEvent::Done(result),
            FileOutput::Compare => FileEvent::Compared(result.map(|()| true)),
            FileOutput::Land => FileEvent::Landed(result.map(|()| true)),
            _ => continue,
        });
    }
    seen
}

#[test]
fn the_others_land_where_one_is_refused() {
    let landed = |seen: &[FileOutput]| {
        let is_landed = |output: &&FileOutput| matches!(output, FileOutput::Landed { .. });
        seen.iter().filter(is_landed).count()
    };
    for fails in [FileOutput::Begin(1), FileOutput::Move, FileOutput::Compare, FileOutput::Land] {
        for lands_here in [true, false] {
            let rules = FileRules { lands_here, ..UP };
            let seen = failing(rules, ErrorCode::Refused, &fails);
            let named = seen.iter().filter(|output| matches!(output, FileOutput::Fail(1, _)));
            assert_eq!((named.count(), landed(&seen)), (1, 2), "{fails:?} {seen:?}");
            assert_eq!(seen.last(), Some(&FileOutput::End(Ok(()))), "{fails:?}");
            // What may be of all of them ends the copy, as does any between two servers.
            let full = failing(rules, ErrorCode::NoSpace, &fails);
            let stays = failing(FileRules { goes_on: false, ..rules }, ErrorCode::Refused, &fails);
            for seen in [full, stays] {
                let ended = matches!(seen.last(), Some(FileOutput::End(Err(_))));
                assert!(ended && landed(&seen) == 1, "{fails:?} {seen:?}");
            }
        }
    }
}
