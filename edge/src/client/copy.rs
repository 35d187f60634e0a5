//! A copy under way, and what it has come to.

mod idle_session;
mod params;
mod watch;

use idle_session::IdleSession;
pub(super) use params::known;
pub use params::path_estimate;
pub(super) use watch::Watched;

use super::claimed::ClaimedPaths;
use super::control::Control;
use super::deletions::UnheardDeletions;
use super::kept_files::KeptFiles;
use super::options::{Options, Progress, Verify};
use super::outcome::{Checkpoint, CopyStats, FixedLimits};
use super::remote_progress::RemarkKind;
use super::transfer_state::TransferState;
use crate::channels::Channel;
use crate::kernelcc::CcGuard;
use crate::mover::{Integrity, Pace, least_left};
use crate::plan::paths::StoredPath;
use crate::stores::{Landed, WalkProblem};
use crate::sys::lock::lock;
use farline_core::copy::{CopyOptions, CopySummary};
use farline_core::plan::Reason;
use farline_core::transfer::{
    DigestAlgorithm, Entry, EntryKind, RecentWaits, TransferParams, UserOverrides,
};
use farline_core::units::{Error, ErrorCode, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A copy under way.
pub(super) struct Copy<'a> {
    pub(super) options: &'a Options,
    /// What the options wish for, as far as this host can do it.
    overrides: UserOverrides,
    /// The congestion control that was loaded for this copy, until its end.
    guard: Option<CcGuard>,
    /// What holds its rate, while that is loaded.
    loading: Option<JoinHandle<Result<CcGuard, Error>>>,
    /// What is known of the path that it sends over.
    pub(super) path: Option<StoredPath>,
    pub(super) began: Instant,
    pub(super) stats: CopyStats,
    watch: &'a mut (dyn FnMut(&Progress) + Send),
    /// The transfer that runs now.
    pub(super) state: Arc<TransferState>,
    /// Bytes that earlier transfers brought.
    base: u64,
    /// What the time went to lately.
    lately: RecentWaits,
    /// What was shown last.
    shown: Option<Progress>,
    /// Whether every end was reached, so that a fault may pass.
    pub(super) is_reached: bool,
    /// A session for the next source.
    pub(super) idle_session: Option<IdleSession>,
    /// Sessions that end with the copy.
    finished: Vec<Control>,
    /// Which of the sources is copied now.
    pub(super) source: usize,
    /// Files that had come, and of them how many were compared, when it began.
    before_source: (u64, u64),
    /// How the files of the sources before it were verified: of one that was not, and of one that
    /// was.
    unverified: Option<&'static str>,
    verified: Option<&'static str>,
    /// Where there are several: paths at the destination, and which source took them.
    pub(super) claimed: ClaimedPaths,
    /// Paths at the destination from which something of another kind was deleted, or would be.
    pub(super) room: BTreeSet<Vec<u8>>,
    /// Files that landed one by one in this copy, by where, length and time: another attempt does
    /// not send them again.
    landed: BTreeSet<(Vec<u8>, u64, i64)>,
    /// Files that were begun one by one in this copy and have not landed, by where: how much of
    /// each was held before the copy.
    begun: BTreeMap<Vec<u8>, u64>,
    /// Where, file by file, the last attempt was giving a file its name when it failed.
    pub(super) unheard: Option<Vec<u8>>,
    /// Whether all that an attempt sent had arrived when it failed, or may have: it may have landed
    /// unheard.
    pub(super) has_arrived: bool,
    /// Whether the server refuses data connections that do not go on from its session's TLS.
    pub(super) needs_tickets: bool,
    /// Whether the source's server lists names that begin with a dot, once it was asked by LIST.
    pub(super) lists_dots: Option<bool>,
    /// What the attempts have found of the files of the source that stay as they are at the
    /// destination.
    pub(super) kept: KeptFiles,
    /// What was asked to be deleted, and perhaps was.
    pub(super) unheard_deletions: UnheardDeletions,
}

impl<'a> Copy<'a> {
    /// A copy that began at `began`, and where it is to begin.
    pub(super) fn new(
        options: &'a Options,
        overrides: UserOverrides,
        began: Instant,
        watch: &'a mut (dyn FnMut(&Progress) + Send),
    ) -> Copy<'a> {
        let pace = options.limit.map(|rate| match &options.live_rate {
            Some(live) => Arc::new(Pace::following(live.clone())),
            None => Arc::new(Pace::new(rate)),
        });
        Copy {
            options,
            overrides,
            guard: None,
            loading: None,
            path: None,
            began,
            stats: CopyStats {
                fixed: FixedLimits {
                    rate: options.limit,
                    held: options.held.map(|held| held.rate),
                    is_booked: options.is_booked,
                    buffer: options.buffer,
                    ..FixedLimits::default()
                },
                ..CopyStats::default()
            },
            watch,
            state: Arc::new(TransferState::new(options, pace)),
            base: 0,
            lately: RecentWaits::default(),
            shown: None,
            is_reached: false,
            idle_session: None,
            finished: Vec::new(),
            source: 0,
            before_source: (0, 0),
            unverified: None,
            verified: None,
            claimed: ClaimedPaths::default(),
            room: BTreeSet::new(),
            landed: BTreeSet::new(),
            begun: BTreeMap::new(),
            unheard: None,
            has_arrived: false,
            needs_tickets: false,
            lists_dots: None,
            kept: KeptFiles::default(),
            unheard_deletions: UnheardDeletions::default(),
        }
    }

    /// Begins with the source of that number.
    pub(super) fn begin_source(&mut self, source: usize) {
        self.source = source;
        self.has_arrived = false;
        self.lists_dots = None;
        self.before_source = (self.stats.files, self.stats.compared);
        self.forget_kept();
    }

    /// Begins anew with what stays as it is: what has landed until now does so too.
    pub(super) fn forget_kept(&mut self) {
        self.kept = KeptFiles::default();
    }

    /// Files that came of the source, and how many of them were compared with the server's.
    pub(super) fn of_source(&self) -> (u64, u64) {
        let (files, compared) = self.before_source;
        (self.stats.files - files, self.stats.compared - compared)
    }

    /// Ends with a source: of several, one whose files were not verified decides for all.
    pub(super) fn end_source(&mut self) {
        if self.of_source().0 > 0 {
            let how = if self.stats.verified { &mut self.verified } else { &mut self.unverified };
            how.get_or_insert(self.stats.verified_how);
        }
        if let Some(how) = self.unverified.or(self.verified) {
            self.stats.verified_how = how;
            self.stats.verified = self.unverified.is_none();
        }
    }

    /// Takes over what the other end said while it moved data (D-3).
    pub(super) fn take_remarks(&mut self, control: &Control) {
        let (changed, limited) = lock(&control.remote_progress()).take_remarks();
        for (kind, said) in changed {
            // What is given up of a booked rate is told to whoever booked it, asked or not.
            if kind == RemarkKind::Yielded {
                self.stats.yielded = vec![format!("at {}: {said}", control.server())];
            }
            self.state.changed(Reason::Remote {
                server: control.server().to_owned(),
                said,
                is_measurement: kind == RemarkKind::Measurement,
            });
        }
        self.stats.limited_there = limited.or(self.stats.limited_there.take());
    }

    /// Says that this end gave up a part of a booked rate, where it did: all has arrived by now.
    pub(super) fn note_yielded(&mut self, channels: &[Box<dyn Channel>]) {
        let Some(held) = self.options.held else { return };
        let handles: Vec<_> = channels.iter().filter_map(|channel| channel.handle().ok()).collect();
        if let Some(left) = least_left(&handles) {
            self.stats.note_yielded(left.of(held.share()).to_string());
        }
    }

    /// Takes over what two other ends, the sender first, said that limited them.
    pub(super) fn take_limits_of(&mut self, controls: [&Control; 2]) {
        let said = controls.map(|control| {
            let (_, limited) = lock(&control.remote_progress()).take_remarks();
            limited
        });
        self.stats.hear_others(said);
    }

    /// Names what of a listed tree cannot be copied, unless it is not selected under the name
    /// `top`.
    pub(super) fn note_problems(
        &mut self,
        top: &[u8],
        entries: &[Entry],
        problems: Vec<WalkProblem>,
    ) {
        let problems = self.options.selection.concerned(top, entries, problems);
        let named = problems.into_iter().map(|problem| (problem.path, problem.error));
        self.stats.failures.extend(named);
    }

    /// Takes over what the other end left out of the tree that it sends (O-4), of which it may not
    /// know what is not selected under the name `top`.
    pub(super) fn take_left_out(&mut self, control: &Control, top: &[u8], entries: &[Entry]) {
        let left_out = self.newly_named(control).into_iter();
        let left_out = left_out.map(|(path, error)| {
            let error = match error.code {
                ErrorCode::SourceChanged => error.hint("copy it again when nobody writes to it"),
                _ => error,
            };
            WalkProblem { path, error }
        });
        let left_out = left_out.collect();
        self.note_problems(top, entries, left_out);
        self.stats.not_kept += lock(&control.remote_progress()).take_not_kept();
    }

    /// What the other end named as left out, or not landed. What is known to have failed already is
    /// not named twice.
    fn newly_named(&self, control: &Control) -> BTreeMap<Vec<u8>, Error> {
        let mut named = lock(&control.remote_progress()).take_left_out();
        for (path, _) in &self.stats.failures {
            named.remove(path);
        }
        named
    }

    /// Takes over what did not land at the other end (O-5) of entries that were counted. Returns
    /// how many files, and bytes of them, did not besides, of which there are too many to name.
    pub(super) fn take_unlanded<'e>(
        &mut self,
        control: &Control,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> (u64, u64) {
        let unlanded = self.newly_named(control);
        self.stats.not_set += lock(&control.remote_progress()).take_not_set();
        let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
        for entry in entries.into_iter().filter(is_file) {
            if unlanded.contains_key(&entry.path) {
                self.stats.files -= 1;
                self.stats.bytes -= entry.len();
            }
        }
        self.stats.failures.extend(unlanded);
        lock(&control.remote_progress()).take_unnamed()
    }

    /// Takes files, and bytes of them, from what was counted.
    pub(super) fn discount(&mut self, (files, bytes): (u64, u64)) {
        self.stats.files = self.stats.files.saturating_sub(files);
        self.stats.bytes = self.stats.bytes.saturating_sub(bytes);
    }

    /// The time since the copy began.
    pub(super) fn now(&self) -> Time {
        self.time_of(Instant::now())
    }

    pub(super) fn time_of(&self, instant: Instant) -> Time {
        Time::ZERO + Span::from(instant.saturating_duration_since(self.began))
    }

    /// What is asked for, of whatever peer.
    pub(super) fn wants(&self) -> CopyOptions {
        CopyOptions {
            checks: self.options.verify != Verify::None,
            digests: match self.options.verify {
                Verify::Digest => Some(DigestAlgorithm::Crc64Nvme),
                Verify::Blake3 => Some(DigestAlgorithm::Blake3),
                Verify::Checksum | Verify::None => None,
            },
            is_atomic: self.options.atomic,
            limit: self.options.limit,
            buffer: self.options.buffer,
            are_channels_fixed: self.options.overrides.streams.is_some()
                || self.options.held.is_some(),
            ..CopyOptions::default()
        }
    }

    /// The same of a copy between two other hosts. Neither end is this one, and where nothing
    /// encrypts what goes between them nobody vouches for it: files are then compared by what
    /// nobody can make another file for, unless the user chose how, or keeps with each file the CRC
    /// that object stores publish.
    pub(super) fn wants_elsewhere(&self) -> CopyOptions {
        let (wants, options) = (self.wants(), self.options);
        let is_chosen = options.verify != Verify::Digest
            || options.compare_at_stock
            || options.attributes.digest;
        match is_chosen || self.stats.encrypted == Some(true) {
            true => wants,
            false => CopyOptions { digests: Some(DigestAlgorithm::Blake3), ..wants },
        }
    }

    /// What is asked for of a copy over channels of `params`.
    pub(super) fn wants_of(&self, params: &TransferParams) -> CopyOptions {
        CopyOptions { longest_block: params.longest_block, ..self.wants() }
    }

    /// Takes over what a copy with a Farline node came to.
    pub(super) fn conclude(&mut self, control: &Control, summary: CopySummary) {
        self.take_remarks(control);
        self.verified(summary.integrity);
        self.stats.passes += summary.passes;
        self.stats.congestion = summary.control.or(self.stats.congestion.take());
        if let Some((name, error)) = summary.refused {
            self.stats.note(format!("without {name}: {error}"));
        }
    }

    /// Notes how the files that arrived were verified.
    pub(super) fn verified(&mut self, integrity: Integrity) {
        self.stats.verified = integrity.digests.is_some();
        self.stats.verified_how = match (integrity.digests, integrity.checks) {
            (Some(DigestAlgorithm::Crc64Nvme), _) => {
                "CRC-64/NVME of every file, computed while moving, compared end to end"
            }
            (Some(DigestAlgorithm::Blake3), _) => {
                "BLAKE3 of every file, computed while moving, compared end to end"
            }
            (None, true) => "not verified end to end: CRC32C of every block on its way",
            (None, false) => "not verified: switched off",
        };
    }

    /// Takes a finished transfer's totals over and makes ready for the next.
    pub(super) fn end_transfer(&mut self) {
        self.keep_path();
        let next = TransferState::new(self.options, self.state.pace.clone());
        let state = std::mem::replace(&mut self.state, Arc::new(next));
        self.stats.waits.add(&state.waits());
        self.stats.bytes_sent += state.tally.on_wire();
        if let Some(params) = &mut self.stats.params {
            params.reasons.append(&mut lock(&state.changes));
        }
        let first = state
            .tally
            .first_byte()
            .map(|first| Span::from(first.saturating_duration_since(self.began)));
        self.stats.first_byte = self.stats.first_byte.or(first);
        let began = state
            .tally
            .began()
            .map(|began| Span::from(began.saturating_duration_since(self.began)));
        self.stats.first_data = self.stats.first_data.or(began);
        self.stats.bad_blocks += state.tally.bad_blocks();
        self.stats.bad_headers += state.tally.bad_headers();
        self.base = self.stats.bytes;
    }

    /// Takes over what became of files on this host.
    pub(super) fn take_landed(&mut self, mut landed: Landed) {
        let is_unread = |error: &Error| error.code == ErrorCode::SourceUnreadable;
        // Its sender has said why a file could not be read. Of files that land one by one, each
        // comes here.
        if landed.failures.iter().any(|(_, error)| is_unread(error)) {
            let told: BTreeSet<&[u8]> =
                self.stats.failures.iter().map(|(path, _)| &path[..]).collect();
            landed.failures.retain(|(path, error)| !is_unread(error) || !told.contains(&path[..]));
        }
        self.stats.bytes += landed.bytes;
        self.stats.files += landed.files;
        self.stats.failures.extend(landed.failures);
        self.stats.not_set += landed.not_set;
    }

    /// Counts `entry`, which has landed at `path`; so much of it was `held` before this copy.
    pub(super) fn land_one(&mut self, path: &[u8], entry: &Entry, held: u64) {
        self.stats.bytes += entry.len();
        self.stats.files += 1;
        self.stats.landed_held += held;
        self.landed.insert((path.to_owned(), entry.len(), entry.modified_ns));
    }

    /// Notes that so much of the file that goes to `path` is `held` and does not come. Of several
    /// attempts the least counts: what is held beyond the first one's came in this copy.
    pub(super) fn begin_one(&mut self, path: &[u8], held: u64) {
        let least = self.begun.get(path).map_or(held, |&before| before.min(held));
        self.begun.insert(path.to_owned(), least);
    }

    /// How much of the file that has landed at `path` was held before this copy.
    pub(super) fn take_begun(&mut self, path: &[u8]) -> u64 {
        self.begun.remove(path).unwrap_or(0)
    }

    /// Whether an earlier attempt of this copy has landed `entry` at `path`.
    pub(super) fn is_landed(&self, path: &[u8], entry: &Entry) -> bool {
        self.landed.contains(&(path.to_owned(), entry.len(), entry.modified_ns))
    }

    /// Makes ready for another attempt: what the one that failed found of the source is forgotten.
    pub(super) fn try_again(&mut self, before: Checkpoint) {
        self.stats.passes += 1;
        self.stats.attempts += 1;
        let kept = self.stats.restore(before);
        self.kept.failed(kept);
        self.end_transfer();
    }
}
