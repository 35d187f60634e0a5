//! One transfer while it runs: what was asked, what it tells its client, and what ends it.

use super::notices::Notices;
use super::reporter::Reporter;
use crate::mover::{Cancel, TREE_MODULE, Tally};
use crate::stores::{NotKept, NotSet};
use crate::sys::lock::lock;
use crate::sys::pacing_limits::PacingLimit;
use farline_core::gridftp::omission::omission_line;
use farline_core::gridftp::server::TransferRequest;
use farline_core::plan::Reason;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is left out of a tree is named as far as this, so that the control channel keeps moving.
const MOST_OMISSIONS: usize = 10_000;

/// Which of the three transfers of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreePhase {
    Manifest,
    Data,
    Digests,
}

impl TreePhase {
    pub(super) fn parse(parms: &str) -> Result<TreePhase, Error> {
        match parms {
            "manifest" => Ok(TreePhase::Manifest),
            "data" => Ok(TreePhase::Data),
            "digests" => Ok(TreePhase::Digests),
            other => Err(Error::new(
                Fault::You,
                ErrorCode::Unsupported,
                format!("{TREE_MODULE} knows no part `{other}`"),
            )),
        }
    }
}

/// One transfer, as its parts need it.
pub(super) struct RunningTransfer<'a> {
    pub(super) request: &'a TransferRequest,
    pub(super) cancel: &'a Cancel,
    pub(super) reporter: &'a Reporter,
    pub(super) tally: Arc<Tally>,
    /// Whether nothing has moved for too long.
    pub(super) is_idle: Arc<AtomicBool>,
}

impl<'a> RunningTransfer<'a> {
    pub(super) fn new(
        request: &'a TransferRequest,
        cancel: &'a Cancel,
        reporter: &'a Reporter,
    ) -> RunningTransfer<'a> {
        let (tally, is_idle) = (Arc::default(), Arc::default());
        RunningTransfer { request, cancel, reporter, tally, is_idle }
    }

    /// Says which limits of the node's struck `client` in it, of which `result` came.
    pub(super) fn say_limits(
        &self,
        notices: &Notices,
        client: IpAddr,
        result: &Result<u64, Error>,
    ) {
        let Err(error) = result else { return };
        if error.code == ErrorCode::TooManyRanges {
            notices.say("pieces", format_args!("{client}: {error}"));
        }
        if self.is_idle.load(Ordering::Relaxed) {
            notices.say("timeout", format_args!("{client}: {error}"));
        }
    }

    /// Says which limits `struck` that refuse nothing: to the operator, and to a client that wants
    /// to be `told`.
    pub(super) fn say_paced(
        &self,
        notices: &Notices,
        client: IpAddr,
        (mut struck, told): (Vec<PacingLimit>, bool),
    ) {
        if self.tally.has_waited_for_zeros() {
            struck.push(PacingLimit::Zeros);
        }
        if self.tally.has_lacked_staging() && !struck.contains(&PacingLimit::StagingMemory) {
            struck.push(PacingLimit::StagingMemory);
        }
        for limit in struck {
            let (name, what) = (limit.name(), limit.what());
            notices.say(name, format_args!("{client}: {what}"));
            if told {
                self.reporter.remark(format!("FARLINE changed={name}: {what}"));
            }
        }
    }

    /// Whether this moves a tree's bytes, rather than a list or what a stock client asks for.
    pub(super) fn is_data(&self) -> bool {
        self.request
            .module
            .as_ref()
            .is_some_and(|module| TreePhase::parse(&module.parms) == Ok(TreePhase::Data))
    }

    /// Whether it moves what is in files, and not a list of a tree.
    pub(super) fn moves_files(&self) -> bool {
        self.request.module.is_none() || self.is_data()
    }

    /// Runs `work`, and ends it when nothing moves for `idle_timeout`: the client is stopped, or
    /// gone without a word.
    pub(super) fn while_it_moves<T>(
        &self,
        idle_timeout: Option<Duration>,
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(idle_timeout) = idle_timeout else { return work() };
        let last = Mutex::new((0, Instant::now()));
        let (tally, cancel) = (Arc::clone(&self.tally), self.cancel.clone());
        let is_idle = Arc::clone(&self.is_idle);
        let look = move || {
            let (moved, mut last) = (tally.on_wire() + tally.bytes(), lock(&last));
            if moved != last.0 || tally.is_storing() {
                *last = (moved, Instant::now());
            } else if last.1.elapsed() >= idle_timeout {
                is_idle.store(true, Ordering::Relaxed);
                let message = format!("no data has moved for {}", Span::from(idle_timeout));
                cancel.cancel(Error::new(Fault::Between, ErrorCode::ChannelLost, message));
            }
        };
        let every = (idle_timeout / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let _ticking = self.reporter.every(every, look);
        work()
    }

    /// Says what of the files a copy does not keep (O-6).
    pub(super) fn not_kept(&self, lost: NotKept) {
        if lost != NotKept::default() {
            let NotKept { hard_linked, with_attributes, .. } = lost;
            self.reporter.remark(format!("FARLINE unkept={hard_linked},{with_attributes};"));
        }
    }

    /// Says what this host could not set of the files of a tree (T-11).
    pub(super) fn not_set(&self, lacking: NotSet) {
        if lacking != NotSet::default() {
            self.reporter.remark(format!("FARLINE unset={};", lacking.numbers()));
        }
    }

    /// Names to the client what is left out of the tree (O-4, O-5): a lot of it by its number.
    pub(super) fn left_out(&self, problems: &[(Vec<u8>, Error)]) {
        for (path, error) in problems.iter().take(MOST_OMISSIONS) {
            self.reporter.remark(omission_line(path, error));
        }
        if let Some(more) = problems.len().checked_sub(MOST_OMISSIONS).filter(|&more| more > 0) {
            let message = format!("{more} more, which the node does not name");
            let error = Error::new(Fault::There, problems[MOST_OMISSIONS].1.code, message);
            self.reporter.remark(omission_line(b"", &error));
        }
    }

    /// Says how many files, and bytes of them, did not land of those that [`Self::left_out`] does
    /// not name (O-5). What its sender could not read the sender knows.
    pub(super) fn unnamed(&self, failures: &[(Vec<u8>, Error)], entries: &[Entry]) {
        let rest = failures.get(MOST_OMISSIONS..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
        let lens: HashMap<&[u8], u64> =
            entries.iter().filter(is_file).map(|entry| (&entry.path[..], entry.len())).collect();
        let rest = rest.iter().filter(|(_, error)| error.code != ErrorCode::SourceUnreadable);
        let lens = rest.filter_map(|(path, _)| lens.get(&path[..]));
        let (files, bytes) = lens.fold((0_u64, 0), |(files, bytes), len| (files + 1, bytes + len));
        self.reporter.remark(format!("FARLINE unlanded={files},{bytes};"));
    }

    /// Runs `work` that lands what came, and says now and then that it is at it: on a slow disk it
    /// may take minutes.
    pub(super) fn landing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.reporter.alive(self.request.perf_every.into(), &self.tally, work)
    }

    /// Tells the client in words what was measured or changed, if it wants to hear.
    pub(super) fn changed(&self, wanted: bool, why: &Reason) {
        if wanted {
            self.reporter.remark(format!("FARLINE changed={why}"));
        }
    }

    /// Asks the client for so many data connections in all.
    pub(super) fn ask_for(&self, channels: usize) {
        self.reporter.remark(format!("FARLINE channels={channels};"));
    }

    /// The end of a pass that left blocks missing (clause I-7).
    pub(super) fn blocks_missing(&self, what: String) -> Error {
        let tally = &self.tally;
        let (blocks, headers, channels) =
            (tally.bad_blocks(), tally.bad_headers(), tally.lost_channels());
        let counts = format!("bad_blocks={blocks} bad_headers={headers} lost_channels={channels}");
        Error::new(Fault::Between, ErrorCode::BlocksMissing, format!("{what}; {counts}")).hint(
        "the path changed or lost data; run the same command again, it goes on from what arrived",
    )
    }
}
