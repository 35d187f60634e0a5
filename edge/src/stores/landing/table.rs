//! What state each entry of a transfer is in at its receiver: one table, under one lock.
//!
//! ```text
//! Absent --open--> Opening --opened--> Open --last byte, or the end--> Closed
//!                     |                                                  |
//!                     '--failed--> as it was      Opening <----open------'
//! ```
//! An earlier run's temporary file is `Closed` to begin with. `Kept` is for good, and so is `Landed`,
//! which a `Closed` one becomes when it takes its final name before the end.

use std::collections::BTreeSet;

/// The temporary file of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Temporary {
    /// Bytes of it that an earlier run left, in whole blocks.
    held: u64,
    /// Whether it was there before it was opened last: what is in it is no hole to be left alone,
    /// and its metadata may have been set too early.
    pub(super) is_again: bool,
    /// Whether its name is durable.
    is_named: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum EntryState<F> {
    /// There is no temporary file.
    Absent,
    /// One thread makes it, or opens it again; others wait.
    Opening(Option<Temporary>),
    /// `left` bytes are to come.
    Open { file: F, left: u64, temporary: Temporary },
    /// It is there, and nobody writes to it.
    Closed(Temporary),
    /// What is at the entry's place stays: what comes of it is dropped.
    Kept,
    /// It is at its place, in this run or one before: what comes of it again is dropped.
    Landed,
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
pub(super) struct Table<F>(Vec<EntryState<F>>);

impl<F: Clone> Table<F> {
    pub(super) fn new(entries: usize) -> Table<F> {
        Table((0..entries).map(|_| EntryState::Absent).collect())
    }

    /// `held` bytes of an entry are there from an earlier run.
    pub(super) fn resume(&mut self, entry: usize, held: u64) {
        let state = &mut self.0[entry];
        if matches!(state, EntryState::Absent) {
            *state = EntryState::Closed(Temporary { held, is_again: true, is_named: true });
        }
    }

    /// What is at the places of these entries stays.
    pub(super) fn keep(&mut self, entries: &BTreeSet<usize>) {
        for &entry in entries {
            self.0[entry] = EntryState::Kept;
        }
    }

    /// The entry has its final name.
    pub(super) fn land(&mut self, entry: usize) {
        self.0[entry] = EntryState::Landed;
    }

    pub(super) fn has_landed(&self, entry: usize) -> bool {
        matches!(self.0[entry], EntryState::Landed)
    }

    pub(super) fn is_kept(&self, entry: usize) -> bool {
        matches!(self.0[entry], EntryState::Kept)
    }

    /// The turn of a thread that wants to write to an entry.
    pub(super) fn open(&mut self, entry: usize) -> OpenStep<F> {
        let state = &mut self.0[entry];
        let (next, turn) = match state {
            EntryState::Open { file, temporary, .. } => {
                return OpenStep::Write { file: file.clone(), is_again: temporary.is_again };
            }
            EntryState::Opening(_) => return OpenStep::Wait,
            EntryState::Kept | EntryState::Landed => return OpenStep::Drop,
            EntryState::Absent => (None, OpenStep::Make),
            EntryState::Closed(temporary) => (Some(*temporary), OpenStep::OpenAgain),
        };
        *state = EntryState::Opening(next);
        turn
    }

    /// The entry, of `len` bytes, is open as `file`.
    pub(super) fn opened(&mut self, entry: usize, file: F, len: u64) {
        if let EntryState::Opening(before) = self.0[entry] {
            let temporary = before
                .map_or_else(Temporary::default, |before| Temporary { is_again: true, ..before });
            let left = len.saturating_sub(temporary.held);
            self.0[entry] = EntryState::Open { file, left, temporary };
        }
    }

    /// The entry could not be opened.
    pub(super) fn failed(&mut self, entry: usize) {
        if let EntryState::Opening(before) = self.0[entry] {
            self.0[entry] = before.map_or(EntryState::Absent, EntryState::Closed);
        }
    }

    /// `len` bytes more of an entry are written; returns whether they were the last.
    pub(super) fn wrote(&mut self, entry: usize, len: u64) -> bool {
        let EntryState::Open { left, temporary, .. } = &mut self.0[entry] else { return false };
        *left = left.saturating_sub(len);
        let is_last = *left == 0;
        if is_last {
            self.0[entry] = EntryState::Closed(*temporary);
        }
        is_last
    }

    /// Nothing more comes: closes what is open, of which this returns the files.
    pub(super) fn close(&mut self) -> Vec<(usize, F)> {
        let mut closed = Vec::new();
        for (entry, state) in self.0.iter_mut().enumerate() {
            if let EntryState::Open { file, temporary, .. } = state {
                closed.push((entry, file.clone()));
                *state = EntryState::Closed(*temporary);
            }
        }
        closed
    }

    /// The file of an entry, while it is open.
    pub(super) fn file(&self, entry: usize) -> Option<F> {
        match &self.0[entry] {
            EntryState::Open { file, .. } => Some(file.clone()),
            _ => None,
        }
    }

    /// The temporary file of an entry, if there is one.
    pub(super) fn temporary(&self, entry: usize) -> Option<Temporary> {
        match &self.0[entry] {
            EntryState::Open { temporary, .. } | EntryState::Closed(temporary) => Some(*temporary),
            EntryState::Opening(before) => *before,
            EntryState::Absent | EntryState::Kept | EntryState::Landed => None,
        }
    }

    /// Whether the name of an entry's temporary file may not be durable yet.
    pub(super) fn lacks_name(&self, entry: usize) -> bool {
        self.temporary(entry).is_some_and(|temporary| !temporary.is_named)
    }

    /// It is now.
    pub(super) fn named(&mut self, entry: usize) {
        if let EntryState::Open { temporary, .. } | EntryState::Closed(temporary) =
            &mut self.0[entry]
        {
            temporary.is_named = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(is_again: bool) -> OpenStep<&'static str> {
        OpenStep::Write { file: "f", is_again }
    }

    #[test]
    fn one_thread_makes_a_file_that_closes_after_its_last_byte() {
        let mut table = Table::new(2);
        assert_eq!((table.open(0), table.open(0)), (OpenStep::Make, OpenStep::Wait));
        table.opened(0, "f", 10);
        assert_eq!((table.open(0), table.file(0)), (write(false), Some("f")));
        assert!(!table.wrote(0, 4) && table.wrote(0, 6), "the second was the last");
        assert_eq!((table.file(0), table.close()), (None, vec![]));
        // What comes once more goes into what is there.
        assert_eq!(table.open(0), OpenStep::OpenAgain);
        table.opened(0, "f", 10);
        assert_eq!(table.open(0), write(true));
        assert_eq!((table.temporary(1), table.wrote(1, 5)), (None, false));
    }

    #[test]
    fn what_an_earlier_run_left_is_opened_again_and_lacks_the_rest() {
        let mut table = Table::new(1);
        table.resume(0, 6);
        assert!(!table.lacks_name(0) && table.temporary(0).is_some_and(|it| it.is_again));
        assert_eq!(table.open(0), OpenStep::OpenAgain);
        table.opened(0, "f", 10);
        assert!(table.wrote(0, 4), "six of ten were there");
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
        table.wrote(0, 10);
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
        assert!(!table.wrote(1, 1 << 40));
        assert_eq!(table.close(), [(1, "f")]);
        assert!(table.temporary(1).is_some_and(|it| !it.is_again) && table.close().is_empty());
    }
}
