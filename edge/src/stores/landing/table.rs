//! What state each entry of a transfer is in at its receiver: one table, under one lock.
//!
//! ```text
//! Absent --open--> Opening --opened--> Open --last byte, or the end--> Closed
//!                     |                                                  |
//!                     '--failed--> as it was      Opening <----open------'
//! ```
//! An earlier run's temporary file is `Closed` to begin with. `Kept` is for good, and so is
//! `Landed`, which a `Closed` one becomes when it takes its final name before the end. An `Open`
//! one becomes `Closed` before its last byte where too many others were opened after it.

use crate::stores::file_limit::most_open;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Bytes held of a file that is whole, whatever its length.
const WHOLE: u64 = u64::MAX;

/// The temporary file of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Temporary {
    /// Bytes of it that were written before it was opened last, by an earlier run in whole blocks.
    held: u64,
    /// Whether it was there before it was opened last: what is in it is no hole to be left alone,
    /// and its metadata may have been set too early.
    pub(super) is_again: bool,
    /// Whether its name is durable.
    is_named: bool,
}

/// The state of one entry, as bits of a byte: there are millions, of which most are `Absent`, then
/// `Closed` and whole. What else there is to know of few stands apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EntryState(u8);

impl EntryState {
    /// There is no temporary file.
    const ABSENT: EntryState = EntryState(0);
    /// It is there, and nobody writes to it: [`Temporary`] in three bits, but for bytes that lack.
    const CLOSED: EntryState = EntryState(1);
    const IS_AGAIN: u8 = 2;
    const IS_NAMED: u8 = 4;
    const IS_WHOLE: u8 = 8;
    /// It is made, opened or written to: [`Moving`].
    const MOVING: EntryState = EntryState(16);
    /// What is at the entry's place stays: what comes of it is dropped.
    const KEPT: EntryState = EntryState(32);
    /// It is at its place, in this run or one before: what comes of it again is dropped.
    const LANDED: EntryState = EntryState(64);

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    fn with(self, bits: u8, is_so: bool) -> EntryState {
        EntryState(if is_so { self.0 | bits } else { self.0 & !bits })
    }
}

/// An entry that threads are at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Moving<F> {
    /// One thread makes it, or opens it again; others wait.
    Opening(Option<Temporary>),
    /// It is written to.
    Open(OpenEntry<F>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenEntry<F> {
    file: F,
    /// Bytes that are to come.
    left: u64,
    /// Bytes in all.
    len: u64,
    temporary: Temporary,
}

impl<F> OpenEntry<F> {
    /// What is there of it when it is closed.
    fn closed(&self) -> Temporary {
        let held = if self.left == 0 { WHOLE } else { self.len.saturating_sub(self.left) };
        Temporary { held, ..self.temporary }
    }
}

/// What a thread that wants to write to an entry is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OpenStep<F> {
    /// Write to this.
    Write {
        /// The open file.
        file: F,
        /// [`Temporary::is_again`].
        is_again: bool,
    },
    /// Make the file, then say [`Table::opened`] or [`Table::failed`].
    Make,
    /// Open the file that is there, then say the same.
    OpenAgain,
    /// Ask again when another thread has done so.
    Wait,
    /// Drop what came.
    Drop,
}

/// The states of all entries, by their places in the layout.
#[derive(Debug)]
pub(super) struct Table<F> {
    states: Vec<EntryState>,
    /// Those that threads are at.
    moving: BTreeMap<usize, Moving<F>>,
    /// Of those that are closed and not whole, the bytes that are held.
    held: BTreeMap<usize, u64>,
    /// Those that were opened, the first first; some are closed again.
    opened: VecDeque<usize>,
    most_open: usize,
    /// Open files of those that have no name until they land.
    unnamed: HashMap<usize, F>,
}

impl<F: Clone> Table<F> {
    pub(super) fn new(entries: usize) -> Table<F> {
        Table::with(entries, most_open())
    }

    /// One of so many `entries`, of which `most_open` may be open at once.
    fn with(entries: usize, most_open: usize) -> Table<F> {
        Table {
            states: vec![EntryState::ABSENT; entries],
            moving: BTreeMap::new(),
            held: BTreeMap::new(),
            opened: VecDeque::new(),
            most_open,
            unnamed: HashMap::new(),
        }
    }

    /// `held` bytes of an entry are there from an earlier run.
    pub(super) fn resume(&mut self, entry: usize, held: u64) {
        if self.states[entry] == EntryState::ABSENT {
            self.close_as(entry, Temporary { held, is_again: true, is_named: true });
        }
    }

    /// What is at the places of these entries stays.
    pub(super) fn keep(&mut self, entries: &BTreeSet<usize>) {
        entries.iter().for_each(|&entry| self.set(entry, EntryState::KEPT));
    }

    /// The file of an entry that has no name yet, if it is one.
    pub(super) fn unnamed(&self, entry: usize) -> Option<F> {
        self.unnamed.get(&entry).cloned()
    }

    /// The entry's file has no name until it lands.
    pub(super) fn add_unnamed(&mut self, entry: usize, file: F) {
        self.unnamed.insert(entry, file);
    }

    /// The entry's file has its name: returns it, to be closed where no lock is held.
    pub(super) fn remove_unnamed(&mut self, entry: usize) -> Option<F> {
        self.unnamed.remove(&entry)
    }

    /// The entry has its final name.
    pub(super) fn land(&mut self, entry: usize) {
        self.set(entry, EntryState::LANDED);
    }

    pub(super) fn has_landed(&self, entry: usize) -> bool {
        self.states[entry] == EntryState::LANDED
    }

    pub(super) fn is_kept(&self, entry: usize) -> bool {
        self.states[entry] == EntryState::KEPT
    }

    fn set(&mut self, entry: usize, state: EntryState) {
        self.states[entry] = state;
        if state != EntryState::MOVING {
            self.moving.remove(&entry);
        }
        self.held.remove(&entry);
    }

    fn close_as(&mut self, entry: usize, temporary: Temporary) {
        let state = EntryState::CLOSED
            .with(EntryState::IS_AGAIN, temporary.is_again)
            .with(EntryState::IS_NAMED, temporary.is_named)
            .with(EntryState::IS_WHOLE, temporary.held == WHOLE);
        self.set(entry, state);
        if !state.has(EntryState::IS_WHOLE) {
            self.held.insert(entry, temporary.held);
        }
    }

    /// The temporary file of an entry that is closed.
    fn closed(&self, entry: usize) -> Option<Temporary> {
        let state = self.states[entry];
        let held = || match state.has(EntryState::IS_WHOLE) {
            true => WHOLE,
            false => self.held.get(&entry).copied().unwrap_or(0),
        };
        state.has(EntryState::CLOSED.0).then(|| Temporary {
            held: held(),
            is_again: state.has(EntryState::IS_AGAIN),
            is_named: state.has(EntryState::IS_NAMED),
        })
    }

    /// The turn of a thread that wants to write to an entry.
    pub(super) fn open(&mut self, entry: usize) -> OpenStep<F> {
        match self.moving.get(&entry) {
            Some(Moving::Open(open)) => {
                let is_again = open.temporary.is_again;
                return OpenStep::Write { file: open.file.clone(), is_again };
            }
            Some(Moving::Opening(_)) => return OpenStep::Wait,
            None => {}
        }
        if self.is_kept(entry) || self.has_landed(entry) {
            return OpenStep::Drop;
        }
        let before = self.closed(entry);
        let turn = if before.is_some() { OpenStep::OpenAgain } else { OpenStep::Make };
        self.set(entry, EntryState::MOVING);
        self.moving.insert(entry, Moving::Opening(before));
        turn
    }

    /// The entry, of `len` bytes, is open as `file`; another is closed where too many are. Returns
    /// whether one was.
    pub(super) fn opened(&mut self, entry: usize, file: F, len: u64) -> bool {
        if let Some(Moving::Opening(before)) = self.moving.get(&entry) {
            let temporary = before
                .map_or_else(Temporary::default, |before| Temporary { is_again: true, ..before });
            let left = len.saturating_sub(temporary.held);
            self.moving.insert(entry, Moving::Open(OpenEntry { file, left, len, temporary }));
            self.opened.push_back(entry);
            return self.close_beyond(self.most_open);
        }
        false
    }

    /// Closes those that were opened first, until `most` are open; returns whether any was.
    pub(super) fn close_beyond(&mut self, most: usize) -> bool {
        let beyond = self.opened.len().saturating_sub(most);
        for _ in 0..beyond {
            let Some(oldest) = self.opened.pop_front() else { break };
            self.close_one(oldest);
        }
        beyond > 0
    }

    /// Closes an entry that is open; returns its file.
    fn close_one(&mut self, entry: usize) -> Option<F> {
        let Some(Moving::Open(open)) = self.moving.get(&entry) else { return None };
        let (file, closed) = (open.file.clone(), open.closed());
        self.close_as(entry, closed);
        Some(file)
    }

    /// The entry could not be opened.
    pub(super) fn failed(&mut self, entry: usize) {
        if let Some(Moving::Opening(before)) = self.moving.get(&entry) {
            match *before {
                Some(before) => self.close_as(entry, before),
                None => self.set(entry, EntryState::ABSENT),
            }
        }
    }

    /// `len` bytes more of an entry of `whole` are written; returns whether they were the last.
    pub(super) fn wrote(&mut self, entry: usize, len: u64, whole: u64) -> bool {
        if let Some(Moving::Open(open)) = self.moving.get_mut(&entry) {
            open.left = open.left.saturating_sub(len);
            let is_last = open.left == 0;
            if is_last {
                self.close_one(entry);
                self.opened.retain(|&other| other != entry);
            }
            return is_last;
        }
        // It was closed for others between the write and this.
        let Some(temporary) = self.closed(entry) else { return false };
        let held = temporary.held.saturating_add(len);
        let is_last = held >= whole;
        self.close_as(entry, Temporary { held: if is_last { WHOLE } else { held }, ..temporary });
        is_last
    }

    /// Nothing more comes: closes what is open, of which this returns the files.
    pub(super) fn close(&mut self) -> Vec<(usize, F)> {
        let moving: Vec<usize> = self.moving.keys().copied().collect();
        moving.into_iter().filter_map(|entry| Some((entry, self.close_one(entry)?))).collect()
    }

    /// The file of an entry, while it is open.
    pub(super) fn file(&self, entry: usize) -> Option<F> {
        match self.moving.get(&entry) {
            Some(Moving::Open(open)) => Some(open.file.clone()),
            _ => None,
        }
    }

    /// The temporary file of an entry, if there is one.
    pub(super) fn temporary(&self, entry: usize) -> Option<Temporary> {
        match self.moving.get(&entry) {
            Some(Moving::Open(open)) => Some(open.temporary),
            Some(Moving::Opening(before)) => *before,
            None => self.closed(entry),
        }
    }

    /// Whether the name of an entry's temporary file may not be durable yet.
    pub(super) fn lacks_name(&self, entry: usize) -> bool {
        self.temporary(entry).is_some_and(|temporary| !temporary.is_named)
    }

    /// It is now.
    pub(super) fn named(&mut self, entry: usize) {
        if let Some(Moving::Open(open)) = self.moving.get_mut(&entry) {
            open.temporary.is_named = true;
        } else if self.states[entry].has(EntryState::CLOSED.0) {
            self.states[entry] = self.states[entry].with(EntryState::IS_NAMED, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::file_limit::MOST_OPEN;

    fn write(is_again: bool) -> OpenStep<&'static str> {
        OpenStep::Write { file: "f", is_again }
    }

    #[test]
    fn one_thread_makes_a_file_that_closes_after_its_last_byte() {
        let mut table = Table::new(2);
        assert_eq!((table.open(0), table.open(0)), (OpenStep::Make, OpenStep::Wait));
        table.opened(0, "f", 10);
        assert_eq!((table.open(0), table.file(0)), (write(false), Some("f")));
        assert!(!table.wrote(0, 4, 10) && table.wrote(0, 6, 10), "the second was the last");
        assert_eq!((table.file(0), table.close()), (None, vec![]));
        // What comes once more goes into what is there.
        assert_eq!(table.open(0), OpenStep::OpenAgain);
        table.opened(0, "f", 10);
        assert_eq!(table.open(0), write(true));
        assert_eq!((table.temporary(1), table.wrote(1, 5, 10)), (None, false));
    }

    #[test]
    fn what_an_earlier_run_left_is_opened_again_and_lacks_the_rest() {
        let mut table = Table::new(1);
        table.resume(0, 6);
        assert!(!table.lacks_name(0) && table.temporary(0).is_some_and(|it| it.is_again));
        assert_eq!(table.open(0), OpenStep::OpenAgain);
        table.opened(0, "f", 10);
        assert!(table.wrote(0, 4, 10), "six of ten were there");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_as_it_was() {
        let mut table = Table::<&str>::new(2);
        table.resume(1, 6);
        for (entry, turn) in [(0, OpenStep::Make), (1, OpenStep::OpenAgain)] {
            for _ in 0..2 {
                assert_eq!(table.open(entry), turn);
                table.failed(entry);
            }
        }
        assert_eq!(table.temporary(0), None);
    }

    #[test]
    fn a_name_is_made_durable_once() {
        let mut table = Table::new(1);
        assert!(!table.lacks_name(0), "there is none");
        table.open(0);
        table.opened(0, "f", 10);
        assert!(table.lacks_name(0));
        table.named(0);
        assert!(!table.lacks_name(0));
        table.wrote(0, 10, 10);
        assert!(!table.lacks_name(0), "closing changes nothing");
    }

    #[test]
    fn what_is_kept_takes_nothing_and_is_not_resumed() {
        let mut table = Table::<&str>::new(2);
        table.keep(&BTreeSet::from([1]));
        table.resume(1, 6);
        assert_eq!((table.open(1), table.temporary(1)), (OpenStep::Drop, None));
        assert!(table.is_kept(1) && !table.is_kept(0));
    }

    #[test]
    fn what_has_landed_takes_nothing_more() {
        let mut table = Table::<&str>::new(2);
        table.resume(0, 10);
        table.land(0);
        table.resume(0, 6);
        assert_eq!((table.open(0), table.temporary(0)), (OpenStep::Drop, None));
        assert!(table.has_landed(0) && !table.is_kept(0) && !table.has_landed(1));
    }

    #[test]
    fn the_end_closes_files_of_unknown_length() {
        let mut table = Table::new(3);
        table.open(1);
        table.opened(1, "f", u64::MAX);
        assert!(!table.wrote(1, 1 << 40, u64::MAX));
        assert_eq!(table.close(), [(1, "f")]);
        assert!(table.temporary(1).is_some_and(|it| !it.is_again) && table.close().is_empty());
    }

    #[test]
    fn so_many_are_open_and_the_first_is_closed_for_another() {
        let mut table = Table::with(MOST_OPEN + 2, MOST_OPEN);
        for entry in 0..MOST_OPEN + 1 {
            table.open(entry);
            table.opened(entry, entry, 10);
            if entry == 0 {
                assert!(!table.wrote(0, 4, 10));
            }
        }
        assert_eq!((table.file(0), table.file(1)), (None, Some(1)));
        // A write that was under way counts.
        assert!(!table.wrote(0, 3, 10));
        assert_eq!(table.open(0), OpenStep::OpenAgain);
        table.opened(0, 0, 10);
        assert_eq!((table.file(0), table.file(1)), (Some(0), None));
        assert!(table.wrote(0, 3, 10), "the last of ten");
        // And where it was the last, it is.
        assert!(table.wrote(1, 10, 10));
        assert_eq!(table.close().len(), MOST_OPEN - 1);
    }

    #[test]
    fn an_entry_of_millions_takes_a_byte() {
        let mut table = Table::new(1_000);
        for entry in 0..1_000 {
            table.open(entry);
            table.opened(entry, "f", 10);
            table.named(entry);
            assert!(table.wrote(entry, 10, 10));
        }
        assert_eq!(size_of::<EntryState>(), 1);
        assert!(table.moving.is_empty() && table.held.is_empty() && table.opened.is_empty());
        assert!(table.temporary(7).is_some_and(|it| it.is_named && !it.is_again));
    }
}
