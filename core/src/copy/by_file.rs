//! A copy file by file, with servers that know no trees: which files move, from which offsets on,
//! what is compared, and what becomes of one that failed (`docs/protocol.md`, G-1 to G-9).
//!
//! What lands may have come in parts, over several copies. Nothing but a checksum at both ends
//! shows that they are of one file at a server; on this host the source's size and time must be as
//! they were, too.

use super::requests::nameable;
use crate::transfer::journal::FileFacts;
use crate::transfer::{Entry, EntryKind};
use crate::units::{ByteRanges, Error, ErrorCode, Fault};
use std::collections::{BTreeMap, VecDeque};

/// What is sent again of a resumed file's beginning: globus-gridftp-server 13.24 writes the buffer
/// that it was filling when its channel broke to the file's start (G-3). Its buffers have 256 KiB
/// unless its operator says otherwise.
const STRAY: u64 = 4 << 20;

/// What holds for all files of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// Whether they land on this host, whose journal is certain, and which makes links.
    pub lands_here: bool,
    /// Whether what a server was sent by an earlier copy may be gone on with.
    pub resumes_there: bool,
    /// Whether both ends compute a checksum of the same kind.
    pub is_comparable: bool,
    /// Whether all files are compared, and not only those that were resumed.
    pub compares_all: bool,
    /// Whether a file may follow one that failed: the ends move on from a transfer that was
    /// refused.
    pub goes_on: bool,
}

/// Whether this is of the one place that it happened to, and the others go on: what an end refuses
/// by name (a folder that may not be entered, a name that no command carries; servers that are no
/// Farline nodes have one word for all), or what became of a source.
pub fn is_of_one_place(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::InvalidName
            | ErrorCode::IsADirectory
            | ErrorCode::NotADirectory
            | ErrorCode::PathNotFound
            | ErrorCode::PermissionDenied
            | ErrorCode::Refused
            | ErrorCode::SourceUnreadable
            | ErrorCode::SourceChanged
    )
}

/// Where a file landed before this attempt: it does not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorLanding {
    /// In an earlier attempt of this copy.
    ThisCopy,
    /// In an earlier copy.
    EarlierCopy {
        /// Whether it was compared.
        is_compared: bool,
    },
    /// In an earlier attempt of this copy, perhaps: it was whole, its server was asked to give it
    /// its name, and what that replied was lost. It is looked for there.
    Unheard,
}

/// What happened to what was wanted of a file.
#[derive(Clone, Debug)]
pub enum FileEvent {
    /// It is ready to be moved; what a journal says is held of it.
    Begun(Result<ByteRanges, Error>),
    /// How long what is held of it is at the server, where it is there.
    Measured(Result<Option<u64>, Error>),
    /// What the source is now, if it is there.
    Seen(Result<Option<FileFacts>, Error>),
    /// Whether it could be compared; an error where it differs.
    Compared(Result<bool, Error>),
    /// That is done, or failed.
    Done(Result<(), Error>),
    /// Whether it has its name; otherwise it is named as not landed, and the others go on.
    Landed(Result<bool, Error>),
}

/// What is wanted, in order; each but those that say so is followed by its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOutput {
    /// Count an entry that has landed before. No event.
    Count(usize, PriorLanding),
    /// Name an entry that does not come, and why. No event.
    Fail(usize, Error),
    /// Make the link. No event: what becomes of it is named.
    Link(usize),
    /// Make the file ready, and find what is held of it; [`FileEvent::Begun`].
    Begin(usize),
    /// How long is what is held; [`FileEvent::Measured`].
    Measure,
    /// Look whether the file stands under its name at the server since an earlier attempt, and
    /// nothing under its temporary one, and compare it at both ends; [`FileEvent::Landed`], which
    /// says so where it is the same.
    FindLanded,
    /// Remove what is held, and begin anew; [`FileEvent::Done`].
    Renew,
    /// So much of the file is not moved, for it is held. No event.
    Hold(ByteRanges),
    /// Move the rest; [`FileEvent::Done`].
    Move,
    /// Look at the source again; [`FileEvent::Seen`].
    LookAgain,
    /// Have both ends compute their checksums, and compare them; [`FileEvent::Compared`].
    Compare,
    /// Give the file its name; [`FileEvent::Landed`].
    Land,
    /// The file has landed: count it, and remember it. No event.
    Landed {
        /// Which.
        index: usize,
        /// Whether it was compared.
        is_compared: bool,
    },
    /// The file failed by this; keep what came for another copy, or remove it. No event: the end
    /// follows, or that it is named and the next file.
    Abandon {
        /// Whether.
        keeps: bool,
        /// Why.
        error: Error,
    },
    /// The copy is over.
    End(Result<(), Error>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Beginning,
    Finding,
    Measuring,
    Renewing,
    Moving,
    LookingAgain,
    Comparing,
    /// How long is it now, that it is resumed and whole.
    Checking,
    Landing,
    Over,
}

/// A copy of files one by one, each to its end before the next begins.
///
/// After each [`FileByFile::handle`], and at the beginning, the caller polls until there is nothing
/// to do or something to wait for.
#[derive(Debug)]
pub struct FileByFile {
    rules: FileRules,
    entries: Vec<Entry>,
    landed: BTreeMap<usize, PriorLanding>,
    next: usize,
    step: Step,
    held: ByteRanges,
    is_compared: bool,
    outputs: VecDeque<FileOutput>,
}

impl FileByFile {
    /// A copy of `entries`, of which these landed before.
    pub fn new(
        rules: FileRules,
        entries: Vec<Entry>,
        landed: BTreeMap<usize, PriorLanding>,
    ) -> FileByFile {
        let mut files = FileByFile {
            rules,
            entries,
            landed,
            next: 0,
            step: Step::Over,
            held: ByteRanges::new(),
            is_compared: false,
            outputs: VecDeque::new(),
        };
        files.begin_next();
        files
    }

    /// The next thing to do; none while it waits for an event.
    pub fn poll(&mut self) -> Option<FileOutput> {
        self.outputs.pop_front()
    }

    /// Takes in what happened. What was not waited for changes nothing.
    pub fn handle(&mut self, event: FileEvent) {
        match (self.step, event) {
            (Step::Beginning, FileEvent::Begun(result)) => self.then(result, FileByFile::begun),
            (Step::Measuring, FileEvent::Measured(result)) => {
                self.then(result, FileByFile::measured);
            }
            (Step::Renewing, FileEvent::Done(result)) => {
                self.then(result, |files, ()| files.hold(ByteRanges::new()));
            }
            (Step::Moving, FileEvent::Done(result)) => self.then(result, |files, ()| files.moved()),
            (Step::LookingAgain, FileEvent::Seen(result)) => self.then(result, FileByFile::seen),
            (Step::Comparing, FileEvent::Compared(result)) => {
                self.then(result, |files, is_compared| {
                    files.is_compared = is_compared;
                    files.check();
                });
            }
            (Step::Checking, FileEvent::Measured(result)) => self.then(result, FileByFile::checked),
            (Step::Finding, FileEvent::Landed(result)) => {
                self.then(result, |files, has_landed| match has_landed {
                    true => files.landed(true),
                    false => files.go_on(),
                })
            }
            (Step::Landing, FileEvent::Landed(result)) => {
                self.then(result, |files, has_landed| match has_landed {
                    true => files.landed(files.is_compared),
                    false => files.begin_next(),
                })
            }
            _ => {}
        }
    }

    fn then<T>(&mut self, result: Result<T, Error>, next: impl FnOnce(&mut FileByFile, T)) {
        match result {
            Ok(done) => next(self, done),
            Err(error) => self.fail(error),
        }
    }

    fn ask(&mut self, output: FileOutput, step: Step) {
        self.outputs.push_back(output);
        self.step = step;
    }

    /// The file that moves now.
    fn entry(&self) -> &Entry {
        &self.entries[self.next - 1]
    }

    fn begin_next(&mut self) {
        while let Some(entry) = self.entries.get(self.next) {
            let index = self.next;
            self.next += 1;
            let known = self.landed.get(&index).copied();
            match (&entry.kind, known) {
                (EntryKind::Directory | EntryKind::There { .. }, _) => {}
                (EntryKind::Symlink { .. }, _) if self.rules.lands_here => {
                    self.outputs.push_back(FileOutput::Link(index));
                }
                (EntryKind::Symlink { .. }, _) => {
                    let message = "a server that is not Farline cannot make symbolic links";
                    let error = Error::new(Fault::There, ErrorCode::Unsupported, message);
                    self.outputs.push_back(FileOutput::Fail(index, error));
                }
                (EntryKind::File { .. }, Some(known)) if known != PriorLanding::Unheard => {
                    self.outputs.push_back(FileOutput::Count(index, known));
                }
                (EntryKind::File { .. }, _) => {
                    (self.held, self.is_compared) = (ByteRanges::new(), false);
                    return self.ask(FileOutput::Begin(index), Step::Beginning);
                }
            }
        }
        self.ask(FileOutput::End(Ok(())), Step::Over);
    }

    fn landed(&mut self, is_compared: bool) {
        self.outputs.push_back(FileOutput::Landed { index: self.next - 1, is_compared });
        self.begin_next();
    }

    /// What a journal says is held.
    fn begun(&mut self, held: ByteRanges) {
        self.held = held;
        // What cannot be compared may be another's.
        let is_unheard = self.landed.get(&(self.next - 1)) == Some(&PriorLanding::Unheard);
        if is_unheard && self.rules.is_comparable && !self.rules.lands_here {
            return self.ask(FileOutput::FindLanded, Step::Finding);
        }
        self.go_on();
    }

    /// Goes on with what is held: of a server as much as can be named to it, and no more than is
    /// certain.
    fn go_on(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        if self.rules.lands_here || held.is_empty() {
            return self.hold(held);
        }
        if !self.rules.resumes_there {
            return self.ask(FileOutput::Renew, Step::Renewing);
        }
        held = nameable(&held);
        held.remove(0..STRAY);
        if held.is_empty() {
            return self.hold(held);
        }
        self.held = held;
        self.ask(FileOutput::Measure, Step::Measuring);
    }

    /// The size is no word on what is stored, but a file that is not as long as what was said is
    /// another one.
    fn measured(&mut self, size: Option<u64>) {
        let needed = self.held.iter().last().map_or(0, |range| range.end);
        if size.is_none_or(|size| size < needed) {
            return self.ask(FileOutput::Renew, Step::Renewing);
        }
        let held = std::mem::take(&mut self.held);
        self.hold(held);
    }

    fn hold(&mut self, held: ByteRanges) {
        let is_whole = !held.is_empty() && held.total() == self.entry().len();
        self.held = held.clone();
        self.outputs.push_back(FileOutput::Hold(held));
        if is_whole { self.moved() } else { self.ask(FileOutput::Move, Step::Moving) }
    }

    /// Parts that came at different times must be of one file.
    fn moved(&mut self) {
        if self.rules.lands_here && !self.held.is_empty() {
            return self.ask(FileOutput::LookAgain, Step::LookingAgain);
        }
        self.compare();
    }

    fn seen(&mut self, now: Option<FileFacts>) {
        if now.as_ref() == Some(&FileFacts::of(self.entry())) {
            return self.compare();
        }
        let message = "the file changed while it was copied";
        let error = Error::new(Fault::There, ErrorCode::SourceChanged, message);
        self.fail(error.hint("run the same command again when nobody writes to it"));
    }

    fn compare(&mut self) {
        let is_wanted = self.rules.compares_all || !self.held.is_empty();
        if is_wanted && self.rules.is_comparable {
            return self.ask(FileOutput::Compare, Step::Comparing);
        }
        self.check();
    }

    fn check(&mut self) {
        if !self.rules.lands_here && !self.held.is_empty() {
            return self.ask(FileOutput::Measure, Step::Checking);
        }
        self.ask(FileOutput::Land, Step::Landing);
    }

    fn checked(&mut self, size: Option<u64>) {
        let len = self.entry().len();
        if size == Some(len) {
            return self.ask(FileOutput::Land, Step::Landing);
        }
        let message = format!("it was to have {len} bytes, and its partial file has {size:?}");
        let error = Error::new(Fault::There, ErrorCode::Incomplete, message)
            .hint("run the same command again, it starts anew");
        self.give_up(error, false);
    }

    fn fail(&mut self, error: Error) {
        // The others go on. One file alone is the copy, unless what lands would have another name.
        let is_one_of_several = self.rules.goes_on && self.entries.len() > 1;
        let goes_on =
            is_of_one_place(&error) && (is_one_of_several || error.code == ErrorCode::InvalidName);
        if goes_on && matches!(self.step, Step::Beginning | Step::Landing) {
            self.outputs.push_back(FileOutput::Fail(self.next - 1, error));
            return self.begin_next();
        }
        if matches!(
            self.step,
            Step::Beginning | Step::Finding | Step::Measuring | Step::Renewing | Step::Landing
        ) {
            // Nothing of this copy has come, or all, and where that is nobody knows for certain.
            return self.ask(FileOutput::End(Err(error)), Step::Over);
        }
        let is_other_file =
            matches!(error.code, ErrorCode::SourceChanged | ErrorCode::DigestMismatch);
        let is_useless = match self.rules.lands_here {
            // Clause R-9: what the network broke is kept, what breaks the rules is not.
            true => error.fault == Fault::There,
            false => {
                matches!(error.fault, Fault::You | Fault::Here)
                    && error.code != ErrorCode::Interrupted
            }
        };
        let keeps = !is_useless && !is_other_file;
        if goes_on && is_one_of_several {
            self.outputs.push_back(FileOutput::Abandon { keeps, error: error.clone() });
            self.outputs.push_back(FileOutput::Fail(self.next - 1, error));
            return self.begin_next();
        }
        self.give_up(error, keeps);
    }

    fn give_up(&mut self, error: Error, keeps: bool) {
        self.outputs.push_back(FileOutput::Abandon { keeps, error: error.clone() });
        self.ask(FileOutput::End(Err(error)), Step::Over);
    }
}
