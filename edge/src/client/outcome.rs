//! What a copy did: the figures that `farline cp --json` ends with.

use super::data_path::DataPath;
use super::remote_progress::SaidLimit;
use super::selection::PlannedFile;
use crate::channels::Channel;
use crate::channels::CompletionStats;
use crate::stores::{NotKept, NotSet};
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::plan::Reason;
use farline_core::transfer::{Diagnosis, Limit, Party, StoreMedium, TransferParams, Waits};
use farline_core::units::{ByteRanges, Bytes, Error, Rate, Setting, Span, in_short};
use serde::Serialize;

/// What is payload of a held rate, which counts an Ethernet's wire, in packets of 1,200 bytes.
const HELD_PAYLOAD: f64 = 0.85;

/// The result document; its schema is `farline/copy/1`. Fields may be added to it, never change
/// their meaning.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// `farline/copy/1`.
    pub schema: &'static str,
    /// Bytes of the files that arrived.
    pub bytes: u64,
    /// Bytes that crossed the data channels, with headers and lists.
    pub bytes_sent: u64,
    /// Regular files that arrived.
    pub files: u64,
    /// From the first connection to the last file's rename.
    pub seconds: f64,
    /// From the start until the first block of a file was with the network, when sending, or in the
    /// store, when receiving.
    pub first_byte_seconds: Option<f64>,
    /// From the start until the first byte of a file was given to the network, when sending, or the
    /// first block of one had come, when receiving.
    pub first_data_seconds: Option<f64>,
    /// What of `bytes` this copy moved: the rest was held from an earlier attempt.
    pub moved_bytes: u64,
    /// `moved_bytes` over `seconds`.
    pub rate_bps: u64,
    /// Whether every file's digest, computed from what was read at the source, equals that of what
    /// arrived.
    pub verified: bool,
    /// How, or why not.
    pub verified_how: &'static str,
    /// Blocks that arrived other than they were sent, and were sent again.
    pub bad_blocks: u64,
    /// Block headers that did, each of which cost a data channel.
    pub bad_headers: u64,
    /// Times that data was asked for: 1 where nothing had to be sent again.
    pub passes: u64,
    /// Attempts that it took: each after the first was begun after a fault that may pass.
    pub attempts: u64,
    /// Time between them, and in those that came to nothing, in seconds.
    pub waited_seconds: f64,
    /// What of `bytes` the destination held from an earlier attempt: it was not sent again.
    pub resumed_bytes: u64,
    /// Data channels.
    pub streams: usize,
    /// Which way data went; `null` when nothing left this host.
    pub data_path: Option<DataPath>,
    /// Whether data was encrypted on its way, by TLS or ssh; `null` when none moved
    /// between hosts.
    pub encrypted: Option<bool>,
    /// Congestion control of the sending end's channels, where this end knows it.
    pub congestion: Option<ControlName>,
    /// Staging pool of this end, as it was at the end.
    pub staging_bytes: u64,
    /// The least round-trip time of the control channel.
    pub rtt_seconds: f64,
    /// Segments or packets that this end sent again.
    pub retransmits: u64,
    /// Processor time of this process, all threads.
    pub cpu_seconds: f64,
    /// The most memory this process held.
    pub peak_rss_bytes: u64,
    /// Over channels of registered slots, how completions of this end's device were noticed; `null`
    /// otherwise.
    pub completions: Option<CompletionStats>,
    /// What held the transfer back.
    pub limited_by: Limit,
    /// Who can change that.
    pub limited_party: Party,
    /// What was measured that says so, for people.
    pub limited_evidence: String,
    /// Why these channels, this congestion control, this staging.
    pub reasons: Vec<Reason>,
    /// What was asked for and is not as asked, and why.
    pub notes: Vec<String>,
    /// Why data went over another channel than was asked for; `null` where it did not. It stands
    /// among the notes too.
    pub channel_fallback: Option<String>,
    /// What did not arrive, and why.
    pub failures: Vec<Failure>,
    /// What of the files was not kept, where this host or a Farline node read them.
    pub not_kept: NotKept,
    /// What was asked for and could not be set at the destination, for lack of the right to.
    pub not_set: NotSet,
    /// What stayed as it was at the destination, by `--no-clobber` or `--skip-same`: paths below
    /// the source.
    pub skipped: Vec<String>,
    /// What was deleted at the destination, for the source does not have it.
    pub deleted: Vec<String>,
    /// What was to be, and is not.
    pub not_deleted: Vec<Failure>,
    /// What a dry run would have copied, or deleted.
    pub planned: Vec<PlannedFile>,
    /// Bytes that had arrived, over time.
    pub samples: Vec<ProgressSample>,
    /// Whether data went between two other hosts.
    #[serde(skip)]
    pub(super) is_elsewhere: bool,
}

impl Outcome {
    /// The same, if nothing was left behind: a copy goes on past what fails of a tree, and names it
    /// among its [`failures`](Outcome::failures).
    ///
    /// # Errors
    /// The first of what did not arrive, or was to be deleted and is not, with how many more there
    /// are.
    pub fn whole(self) -> Result<Outcome, Error> {
        let failed = self.failures.iter().chain(&self.not_deleted);
        let more = match failed.clone().count() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        match failed.into_iter().next() {
            Some(Failure { path, error, .. }) => {
                Err(error.clone().while_doing(format!("{}{more}", in_short(path))))
            }
            None => Ok(self),
        }
    }

    /// What held the transfer back, with what was measured: `the path's rate, which is full (941
    /// Mbit/s, with a queue of up to 21 ms)`.
    pub fn limited_in_words(&self) -> String {
        // Of two other hosts the evidence names the one.
        let whose = match (self.limited_by, self.limited_party) {
            _ if self.is_elsewhere => "",
            (Limit::DiskRead | Limit::DiskWrite | Limit::SendBuffer, Party::There) => {
                ", at the other end"
            }
            (Limit::ReceiverWindow, Party::Here) => ", which is this host",
            _ => "",
        };
        let what = match self.limited_by {
            Limit::Peer if self.is_elsewhere => "a node's processor",
            limit => limit.words(),
        };
        let evidence = match &self.limited_evidence[..] {
            "" => String::new(),
            evidence => format!(" ({evidence})"),
        };
        format!("{what}{whose}{evidence}")
    }
}

/// One thing that was not copied.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// Its path below the source.
    pub path: String,
    /// Why.
    pub error: Error,
}

/// A point of the time series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProgressSample {
    /// Seconds since the start.
    pub t: f64,
    /// Payload bytes that had arrived by then: acknowledged by the receiver's kernel when sending,
    /// in the store when receiving.
    pub bytes: u64,
}

/// Which way the data of a copy goes, seen from this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DataDirection {
    /// From here.
    Out,
    /// To here.
    In,
    /// It does not leave this host.
    #[default]
    Within,
    /// Between two others.
    Elsewhere,
}

impl DataDirection {
    /// What limited this host's end by its own account; `None` where it has no part in it.
    pub(super) fn diagnose(self, waits: &Waits) -> Option<Diagnosis> {
        match self {
            DataDirection::Out => Some(waits.sender_limit()),
            DataDirection::In => Some(waits.receiver_limit()),
            DataDirection::Within => Some(waits.local_limit()),
            DataDirection::Elsewhere => None,
        }
    }
}

/// What the user fixed of a copy, and what this host allows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FixedLimits {
    pub(super) rate: Option<Rate>,
    /// A booked rate that is held.
    pub(super) held: Option<Rate>,
    /// That is what was booked for it.
    pub(super) is_booked: bool,
    pub(super) buffer: Option<Bytes>,
    pub(super) window: Bytes,
    /// What the source is, and the destination.
    pub(super) media: (StoreMedium, StoreMedium),
}

/// One of the two servers of a copy between others.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherServer {
    /// Host, as the user named it, and port.
    pub(super) name: String,
    /// How long it took to have a session with it.
    pub(super) opening: Span,
    /// What limited it, by its own word.
    pub(super) limited: Option<SaidLimit>,
}

impl OtherServer {
    fn said(&self) -> Option<(&str, &str)> {
        self.limited.as_ref().map(|said| (&said.name[..], &said.evidence[..]))
    }
}

/// What limited a copy between two others, the sender first, by what they say and by the time that
/// passed here; `failure` is what the last attempt failed of.
fn elsewhere(waits: &Waits, others: &[OtherServer; 2], failure: Option<&str>) -> Diagnosis {
    let [sender, receiver] = others;
    let Some(known) = waits.between_others() else {
        let names = [&sender.name[..], &receiver.name[..]];
        return Diagnosis::between(names, [sender.said(), receiver.said()]);
    };
    let whose = match known.limit {
        Limit::SetUp => format!(
            ": {} for a session with the sending node {}, {} for one with the receiving node {}",
            sender.opening, sender.name, receiver.opening, receiver.name
        ),
        _ => failure.map(|failure| format!(", after: {failure}")).unwrap_or_default(),
    };
    Diagnosis { evidence: format!("{}{whose}", known.evidence), ..known }
}

/// Everything that the parts of a copy learn, joined into an [`Outcome`] at the end.
#[derive(Debug, Default)]
pub(super) struct CopyStats {
    pub(super) bytes: u64,
    pub(super) bytes_sent: u64,
    pub(super) files: u64,
    pub(super) bad_blocks: u64,
    pub(super) bad_headers: u64,
    pub(super) passes: u64,
    /// Attempts that failed, after each of which it was tried again.
    pub(super) attempts: u64,
    /// Time between attempts.
    pub(super) waited: Span,
    /// Part of it that was for the other end.
    pub(super) waited_there: Span,
    /// What was held of trees, of what has landed of them.
    pub(super) resumed_bytes: u64,
    /// What is held of the tree that moves, in its space of bytes.
    pub(super) held: ByteRanges,
    /// Where in the space of the tree that is over lies what did not land.
    pub(super) unlanded: ByteRanges,
    /// What was held of files that landed one by one: they stay landed, whatever becomes of the
    /// attempt.
    pub(super) landed_held: u64,
    /// Files that landed in an earlier run, each counted by the first attempt that came to it.
    pub(super) landed_before: u64,
    pub(super) verified: bool,
    /// Files whose checksum a stock server computed too, and that are equal.
    pub(super) compared: u64,
    pub(super) verified_how: &'static str,
    pub(super) streams: usize,
    /// Threads of a copy within this host.
    pub(super) threads: usize,
    pub(super) data_path: Option<DataPath>,
    /// Whether the driver that was asked for was tried.
    pub(super) tried_channel: bool,
    /// Whether it was found that it cannot be: a later pass tries no more.
    pub(super) gave_up_channel: bool,
    pub(super) encrypted: Option<bool>,
    pub(super) congestion: Option<ControlName>,
    pub(super) rtt: Span,
    pub(super) first_byte: Option<Span>,
    pub(super) first_data: Option<Span>,
    pub(super) tcp: Vec<TcpInfo>,
    pub(super) completions: Option<CompletionStats>,
    /// Where the time of the transfers that are over went.
    pub(super) waits: Waits,
    /// What the user fixed, and what this host allows.
    pub(super) fixed: FixedLimits,
    /// Time in which data moved.
    pub(super) moving: Span,
    pub(super) direction: DataDirection,
    pub(super) params: Option<TransferParams>,
    /// What limited the other end, by its own word.
    pub(super) limited_there: Option<SaidLimit>,
    /// The two servers of a copy between others, the sender first.
    pub(super) others: Option<[OtherServer; 2]>,
    /// What the last attempt that failed did so of.
    pub(super) last_failure: Option<String>,
    /// Bytes of the staging pool at the end.
    pub(super) staging: Option<Bytes>,
    pub(super) notes: Vec<String>,
    /// Which end gave up a part of a booked rate, and why; the other end's newest word stands for
    /// all before it.
    pub(super) yielded: Vec<String>,
    /// Why data goes over another channel than was asked for, the last time that it was opened.
    pub(super) channel_fallback: Option<String>,
    pub(super) not_kept: NotKept,
    pub(super) not_set: NotSet,
    pub(super) failures: Vec<(Vec<u8>, Error)>,
    pub(super) skipped: Vec<Vec<u8>>,
    pub(super) deleted: Vec<Vec<u8>>,
    pub(super) not_deleted: Vec<(Vec<u8>, Error)>,
    pub(super) planned: Vec<PlannedFile>,
    pub(super) samples: Vec<ProgressSample>,
}

/// What a copy had come to when an attempt began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    bytes: u64,
    files: u64,
    resumed_bytes: u64,
    not_kept: NotKept,
    failures: usize,
    skipped: usize,
    planned: usize,
}

impl CopyStats {
    /// What it has come to so far.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let CopyStats { bytes, files, resumed_bytes, not_kept, .. } = *self;
        let (failures, skipped, planned) =
            (self.failures.len(), self.skipped.len(), self.planned.len());
        Checkpoint { bytes, files, resumed_bytes, not_kept, failures, skipped, planned }
    }

    /// Forgets what was counted since: the next attempt finds it again. Returns what was skipped
    /// since, by name.
    pub(super) fn restore(&mut self, before: Checkpoint) -> Vec<Vec<u8>> {
        (self.bytes, self.files) = (before.bytes, before.files);
        (self.resumed_bytes, self.not_kept) = (before.resumed_bytes, before.not_kept);
        (self.held, self.unlanded) = (ByteRanges::new(), ByteRanges::new());
        self.failures.truncate(before.failures);
        self.planned.truncate(before.planned);
        self.skipped.split_off(before.skipped.min(self.skipped.len()))
    }

    /// Notes what is not as it was asked for: once, however many transfers it is true of.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes that a part of a booked rate was given up.
    pub(super) fn note_yielded(&mut self, note: String) {
        if !self.yielded.contains(&note) {
            self.yielded.push(note);
        }
    }

    /// Notes the two servers between which data is to move. Of several sources the first pair that
    /// said what limited it stands for all.
    pub(super) fn meet_others(&mut self, others: [OtherServer; 2]) {
        if !self.have_others_said() {
            self.others = Some(others);
        }
    }

    /// Takes in what the two say that limited them, the sender first.
    pub(super) fn hear_others(&mut self, said: [Option<SaidLimit>; 2]) {
        if self.have_others_said() {
            return;
        }
        for (other, said) in self.others.iter_mut().flatten().zip(said) {
            other.limited = said;
        }
    }

    fn have_others_said(&self) -> bool {
        self.others.iter().flatten().any(|other| other.limited.is_some())
    }

    /// Takes in what the channels of a pass that is over know of their devices.
    pub(super) fn count_completions(&mut self, channels: &[Box<dyn Channel>]) {
        for stats in channels.iter().filter_map(|channel| channel.completion_stats()) {
            self.completions = Some(self.completions.unwrap_or_default().and(stats));
        }
    }

    /// Channels, or the threads of a copy within this host.
    pub(super) fn channels(&self) -> u32 {
        u32::try_from(self.streams.max(self.threads)).unwrap_or(u32::MAX)
    }

    /// The failure of the one file that all of this was about: its path below the source is empty,
    /// and nothing else is left to tell.
    pub(super) fn lone_failure(&mut self) -> Option<Error> {
        let is_alone =
            self.files == 0 && matches!(&self.failures[..], [(path, _)] if path.is_empty());
        self.failures.pop_if(|_| is_alone).map(|(_, error)| error)
    }

    pub(super) fn outcome(mut self, elapsed: Span, cpu: Span, peak_rss: u64) -> Outcome {
        std::mem::take(&mut self.yielded).into_iter().for_each(|said| self.note(said));
        self.not_kept.in_words().into_iter().for_each(|said| self.note(said));
        self.not_set.in_words().into_iter().for_each(|said| self.note(said));
        // Of files that failed and are not named nobody says what was held.
        let resumed_bytes = self.resumed().min(self.bytes);
        let moved = Bytes(self.bytes - resumed_bytes);
        let retransmits =
            self.tcp.iter().map(|tcp| tcp.retransmits).sum::<u64>() + self.waits.retransmits;
        let waits = Waits {
            moving: self.moving,
            setting_up: elapsed.saturating_sub(self.moving + self.waited),
            waited: self.waited,
            waited_there: self.waited_there,
            channels: self.channels(),
            has_path: !self.tcp.is_empty() || self.waits.path.total() > Span::ZERO,
            retransmits,
            rtt: self.rtt,
            bytes: moved,
            buffer: self.fixed.buffer,
            window_limit: self.fixed.window,
            media: self.fixed.media,
            ..self.waits
        };
        let own = self.direction.diagnose(&waits).unwrap_or_else(|| match &self.others {
            Some(others) => elsewhere(&waits, others, self.last_failure.as_deref()),
            None => Diagnosis::unknown(),
        });
        let is_sender = self.direction == DataDirection::Out;
        let there = self
            .limited_there
            .and_then(|said| Diagnosis::of_peer(&said.name, &said.evidence, !is_sender));
        let mut diagnosis = own.joined(there, is_sender);
        // Who held it to a rate need not know whose wish that was.
        let gave_way = !self.yielded.is_empty();
        let full = waits.path.full_rate().as_bps() as f64;
        let goes_as_held = |held: Rate| full >= HELD_PAYLOAD * held.as_bps() as f64;
        match (diagnosis.limit, self.fixed.rate, self.fixed.held.filter(|_| !gave_way)) {
            // A booked rate leaves the path room, its growing window is no slow start, and what it
            // sends in bursts queues for a moment.
            (limit, _, Some(held))
                if matches!(limit, Limit::Network | Limit::SlowStart)
                    || limit == Limit::PathRate && goes_as_held(held) =>
            {
                diagnosis.limit = Limit::RateLimit;
                (diagnosis.party, diagnosis.evidence) = (Party::You, format!("{held} are held"));
            }
            (Limit::RateLimit, Some(rate), _) if self.fixed.is_booked => {
                diagnosis.evidence = format!("{rate}, of what is booked");
            }
            (Limit::RateLimit, Some(rate), _) => {
                diagnosis.evidence = format!("{} {rate}", Setting::Limit)
            }
            (Limit::RateLimit, None, _) => {
                diagnosis.party = Party::There;
                diagnosis.evidence = format!("that node's limit for you: {}", diagnosis.evidence);
            }
            _ => {}
        }
        let (staging, reasons) =
            self.params.map_or((Bytes(0), Vec::new()), |params| (params.staging, params.reasons));
        // What is left alone is compared with nothing but its size and time.
        let is_untouched = self.files == 0 && !self.skipped.is_empty();
        let failure = |(path, error): (Vec<u8>, Error)| Failure {
            path: String::from_utf8_lossy(&path).into_owned(),
            error,
        };
        Outcome {
            schema: "farline/copy/1",
            bytes: self.bytes,
            bytes_sent: self.bytes_sent,
            files: self.files,
            seconds: elapsed.as_secs_f64(),
            first_byte_seconds: self.first_byte.map(Span::as_secs_f64),
            first_data_seconds: self.first_data.map(Span::as_secs_f64),
            moved_bytes: moved.0,
            rate_bps: Rate::of(moved, elapsed).as_bps(),
            verified: self.verified && self.failures.is_empty() && !is_untouched,
            verified_how: if is_untouched { "nothing was copied" } else { self.verified_how },
            bad_blocks: self.bad_blocks,
            bad_headers: self.bad_headers,
            passes: self.passes.max(1),
            attempts: self.attempts + 1,
            waited_seconds: self.waited.as_secs_f64(),
            resumed_bytes,
            streams: self.streams,
            data_path: self.data_path,
            encrypted: self.encrypted,
            congestion: self.congestion,
            staging_bytes: self.staging.unwrap_or(staging).0,
            rtt_seconds: self.rtt.as_secs_f64(),
            retransmits,
            cpu_seconds: cpu.as_secs_f64(),
            peak_rss_bytes: peak_rss,
            completions: self.completions,
            limited_by: diagnosis.limit,
            limited_party: diagnosis.party,
            limited_evidence: diagnosis.evidence,
            reasons,
            notes: self.notes,
            channel_fallback: self.channel_fallback,
            not_kept: self.not_kept,
            not_set: self.not_set,
            failures: self.failures.into_iter().map(failure).collect(),
            not_deleted: self.not_deleted.into_iter().map(failure).collect(),
            skipped: self
                .skipped
                .iter()
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect(),
            deleted: self
                .deleted
                .iter()
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect(),
            planned: self.planned,
            samples: self.samples,
            is_elsewhere: self.direction == DataDirection::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests;
