//! What a server says on the control connection while a transfer runs: what it holds, what it would
//! use, what it changed.

use crate::stores::{NotKept, NotSet, Receipts};
use farline_core::gridftp::omission::parse_omission;
use farline_core::plan::HELD_RATE_FELL;
use farline_core::units::{ByteRanges, Error};
use std::collections::BTreeMap;
use std::time::Instant;

/// Words about one transfer that are kept.
const MOST_REMARKS: usize = 100;
/// Things that are left out of a tree, as many as are kept.
const MOST_OMISSIONS: usize = 20_000;

/// How the text of a change begins that is a measurement and changes nothing (D-3).
const MEASURED: &str = "measured: ";

/// What a server's word on what it changed is about: how the text begins says it (D-3), and from
/// here on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemarkKind {
    /// It changed something.
    Change,
    /// It measured something and changed nothing.
    Measurement,
    /// It gave up a part of a booked rate.
    Yielded,
}

impl RemarkKind {
    fn of(text: &str) -> RemarkKind {
        match text {
            _ if text.starts_with(MEASURED) => RemarkKind::Measurement,
            _ if text.starts_with(HELD_RATE_FELL) => RemarkKind::Yielded,
            _ => RemarkKind::Change,
        }
    }
}

/// What limited a server, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidLimit {
    /// One of the names of `limited_by`, or one from a later version.
    pub(super) name: String,
    /// What it measured, for people; empty from servers that do not say.
    pub(super) evidence: String,
}

/// Text of a server, without what would move a terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What the server said that it holds (111), by request and in all; sending threads leave that out.
#[derive(Debug, Default)]
pub(super) struct RemoteProgress {
    by: BTreeMap<u64, ByteRanges>,
    all: ByteRanges,
    /// Where what a stock server says while one request runs is written down.
    receipts: Option<(u64, Receipts)>,
    /// When it last said anything.
    pub(super) at: Option<Instant>,
    /// How many transfers it has begun (150).
    begun: u64,
    /// How many files of a tree have their final names there.
    landed: Option<u64>,
    /// How many data connections it would use (D-2).
    wanted_channels: usize,
    /// What it changed, or only measured, for people, and what limited it (D-3).
    changed: Vec<(RemarkKind, String)>,
    limited: Option<SaidLimit>,
    /// What it measured that says so.
    evidence: String,
    /// What it left out of the tree that it sends, by path (O-4).
    left_out: BTreeMap<Vec<u8>, Error>,
    /// What of those files a copy does not keep (O-6).
    not_kept: NotKept,
    /// What it could not set of the files that it stores.
    not_set: NotSet,
    /// Files, and bytes of them, that did not land and are not named.
    unnamed: (u64, u64),
}

impl RemoteProgress {
    /// Everything.
    pub(super) fn all(&self) -> &ByteRanges {
        &self.all
    }

    /// What was said while one request ran.
    pub(super) fn of(&self, id: u64) -> ByteRanges {
        self.by.get(&id).cloned().unwrap_or_default()
    }

    /// When the server last said anything.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The server began a transfer.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    /// How many transfers the server has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// How many files of a tree have their final names there, where the server says.
    pub(super) fn landed(&self) -> Option<u64> {
        self.landed
    }

    /// How many data connections the server would use, by its last word.
    pub(super) fn wanted_channels(&self) -> usize {
        self.wanted_channels
    }

    /// What the server changed since the last call, or only measured, for people, and what limited
    /// it.
    pub(super) fn take_remarks(&mut self) -> (Vec<(RemarkKind, String)>, Option<SaidLimit>) {
        (std::mem::take(&mut self.changed), self.limited.take())
    }

    /// What the server left out of the tree that it sends, since the last call.
    pub(super) fn take_left_out(&mut self) -> BTreeMap<Vec<u8>, Error> {
        std::mem::take(&mut self.left_out)
    }

    /// What of the files that the server sends is not kept, since the last call.
    pub(super) fn take_not_kept(&mut self) -> NotKept {
        std::mem::take(&mut self.not_kept)
    }

    /// What the server could not set of the files that it stores, since the last call.
    pub(super) fn take_not_set(&mut self) -> NotSet {
        std::mem::take(&mut self.not_set)
    }

    /// How many files, and bytes of them, the server did not land and did not name, since the last
    /// call.
    pub(super) fn take_unnamed(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.unnamed)
    }

    /// Takes in a 114. What no clause names is no concern of ours.
    pub(super) fn remark(&mut self, text: &str) {
        if let Some((path, error)) = parse_omission(text) {
            if self.left_out.len() < MOST_OMISSIONS {
                self.left_out.insert(path, error);
            }
            return;
        }
        let Some((name, value)) =
            text.strip_prefix("FARLINE ").and_then(|said| said.split_once('='))
        else {
            return;
        };
        match name {
            "channels" => {
                self.wanted_channels =
                    value.trim_end_matches(';').parse().unwrap_or(self.wanted_channels)
            }
            "landed" => self.landed = value.trim_end_matches(';').parse().ok().or(self.landed),
            "unkept" => {
                let counts = value.trim_end_matches(';').split_once(',');
                let parsed = counts.and_then(|(linked, attributes)| {
                    Some(NotKept::new(linked.parse().ok()?, attributes.parse().ok()?))
                });
                self.not_kept = parsed.unwrap_or(self.not_kept);
            }
            "unset" => {
                self.not_set = NotSet::parse(value.trim_end_matches(';')).unwrap_or(self.not_set);
            }
            "unlanded" => {
                let counts = value.trim_end_matches(';').split_once(',');
                let parsed = counts
                    .and_then(|(files, bytes)| Some((files.parse().ok()?, bytes.parse().ok()?)));
                self.unnamed = parsed.unwrap_or(self.unnamed);
            }
            "evidence" => self.evidence = plain(value),
            "limited" => {
                let name = value.trim_end_matches(';').to_owned();
                let evidence = std::mem::take(&mut self.evidence);
                // A later pass brings what was wrong of the first, which is little.
                self.limited.get_or_insert(SaidLimit { name, evidence });
            }
            // A server has no reason to say more, and may not fill our memory.
            "changed" if self.changed.len() < MOST_REMARKS => {
                self.changed.push((RemarkKind::of(value), plain(value)));
            }
            _ => {}
        }
    }

    /// Writes down what is said from now on while `id` runs.
    pub(super) fn follow(&mut self, id: u64, receipts: Receipts) {
        self.receipts = Some((id, receipts));
    }

    /// Ends that.
    pub(super) fn unfollow(&mut self) -> Option<Receipts> {
        self.receipts.take().map(|(_, receipts)| receipts)
    }

    /// Takes in a 111 of the request `id`.
    pub(super) fn take(&mut self, id: u64, held: &ByteRanges) {
        if let Some((of, receipts)) = &mut self.receipts {
            // Offsets of one file, of no other's.
            return if *of == id {
                receipts.record(held)
            };
        }
        let by = self.by.entry(id).or_default();
        for range in held.iter() {
            by.insert(range.clone());
            self.all.insert(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_remark_is_about_is_read_where_it_comes_in() {
        let mut progress = RemoteProgress::default();
        for text in ["the held rate fell from 2 to 1", "measured: 8 Gbit/s", "4 channels"] {
            progress.remark(&format!("FARLINE changed={text}"));
        }
        let kinds = progress.take_remarks().0.into_iter().map(|(kind, _)| kind);
        let expected = [RemarkKind::Yielded, RemarkKind::Measurement, RemarkKind::Change];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_named_is_counted() {
        let mut progress = RemoteProgress::default();
        for text in ["unlanded=15,700;", "unlanded=;", "unlanded=1;", "unlanded=-1,2;"] {
            progress.remark(&format!("FARLINE {text}"));
        }
        assert_eq!((progress.take_unnamed(), progress.take_unnamed()), ((15, 700), (0, 0)));
    }

    #[test]
    fn the_pass_that_moved_most_says_what_limited_it() {
        let mut progress = RemoteProgress::default();
        for (evidence, limited) in [("full", "path_rate"), ("a few blocks", "slow_start")] {
            progress.remark(&format!("FARLINE evidence={evidence}"));
            progress.remark(&format!("FARLINE limited={limited};"));
        }
        let (_, said) = progress.take_remarks();
        let said = said.expect("said");
        assert_eq!((&said.name[..], &said.evidence[..]), ("path_rate", "full"));
        progress.remark("FARLINE limited=loss;");
        let (_, next) = progress.take_remarks();
        assert_eq!(next.map(|said| said.name).as_deref(), Some("loss"), "of the next copy");
    }
}
