//! A copy under way: its plan, what it has come to, and the watch over what runs.

use super::control::Control;
use super::location::Remote;
use super::options::{Options, Progress, Verify};
use super::outcome::{Checkpoint, CopyStats, DataDirection, FixedLimits, ProgressSample};
use super::remote_progress::{RemoteProgress, SaidLimit};
use super::transfer_state::{LiveTuning, TransferState};
use crate::channels::TcpOptions;
use crate::channels::socket::{granted_buffer, may_choose};
use crate::channels::stack::Opener;
use crate::kernelcc::{self, CcGuard, CcRequest};
use crate::mover::{BLOCK_LEN, Integrity, Pace, tuning_limits, window_limit};
use crate::stores::Landed;
use crate::sys::lock::lock;
use crate::sys::route::fq_towards;
use farline_core::congestion::Algorithm;
use farline_core::copy::{Blame, CopyOptions, CopySummary, IdleTimeout};
use farline_core::gridftp::Reply;
use farline_core::profile::PathEstimate;
use farline_core::transfer::{
    DigestAlgorithm, Entry, EntryKind, Limit, PathContext, RecentWaits, TransferParams,
    UserOverrides, Waits,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// A path to `peer`, where its address is known, that is `rtt` long, over which this host sends, or
/// receives, and of which nothing else is known.
pub fn unmeasured(rtt: Span, peer: Option<IpAddr>, sending: bool) -> PathEstimate {
    let sysctl = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
    };
    let offered = sysctl("tcp_available_congestion_control");
    PathEstimate {
        rtt,
        window: window_limit(if sending { "tcp_wmem" } else { "tcp_rmem" }),
        available: offered
            .split_whitespace()
            .filter(|name| may_choose(name).is_ok())
            .map(str::to_owned)
            .collect(),
        default_congestion: sysctl("tcp_congestion_control").trim().to_owned(),
        // What the other host's device does only that host knows.
        fq: peer.filter(|_| sending).and_then(fq_towards),
    }
}

/// Whether Farline or this host's kernel knows a congestion control of that name.
///
/// # Errors
/// [`Fault::You`] when neither does.
pub(super) fn known(name: &str) -> Result<(), Error> {
    if kernelcc::available().iter().any(|have| have == name) {
        return Ok(());
    }
    name.parse::<Algorithm>().map(drop)
}

/// What came of work, and what the server said meanwhile: after that it is not listened to.
pub(super) struct Watched<T> {
    pub(super) result: Result<T, Error>,
    pub(super) told: Option<Error>,
}

impl<T> Watched<T> {
    /// Keeps what was done.
    pub(super) fn map<U>(self, keep: impl FnOnce(T) -> U) -> Watched<U> {
        Watched { result: self.result.map(keep), told: self.told }
    }
}

/// A copy under way.
pub(super) struct Copy<'a> {
    pub(super) options: &'a Options,
    /// What the options wish for, as far as this host can do it.
    overrides: UserOverrides,
    /// The congestion control that was loaded for this copy, until its end.
    held: Option<CcGuard>,
    pub(super) began: Instant,
    pub(super) stats: CopyStats,
    watch: &'a mut (dyn FnMut(&Progress) + Send),
    /// The transfer that runs now.
    pub(super) live: Arc<TransferState>,
    /// Bytes that earlier transfers brought.
    base: u64,
    /// What the time went to lately.
    lately: RecentWaits,
    /// Whether every end was reached, so that a fault may pass.
    pub(super) is_reached: bool,
    /// The sources, as they were written, and which of them is copied now.
    pub(super) sources: (Vec<String>, usize),
    /// Where there are several: paths at the destination, and which source took them.
    claimed: BTreeMap<Vec<u8>, usize>,
    /// Files that landed one by one in this copy, by where, length and time: another attempt does
    /// not send them again.
    landed: BTreeSet<(Vec<u8>, u64, i64)>,
}

impl<'a> Copy<'a> {
    /// A copy that began at `began`, and where it is to begin.
    pub(super) fn new(
        options: &'a Options,
        overrides: UserOverrides,
        began: Instant,
        watch: &'a mut (dyn FnMut(&Progress) + Send),
    ) -> Copy<'a> {
        let pace = options.limit.map(|rate| Arc::new(Pace::new(rate)));
        Copy {
            options,
            overrides,
            held: None,
            began,
            stats: CopyStats {
                fixed: FixedLimits {
                    rate: options.limit,
                    buffer: options.buffer,
                    ..FixedLimits::default()
                },
                ..CopyStats::default()
            },
            watch,
            live: Arc::new(TransferState::new(options, pace)),
            base: 0,
            lately: RecentWaits::default(),
            is_reached: false,
            sources: (Vec::new(), 0),
            claimed: BTreeMap::new(),
            landed: BTreeSet::new(),
        }
    }

    /// Takes `path` at the destination for the source of that number.
    ///
    /// # Errors
    /// When another source has taken it: it would be replaced by what was copied a moment before.
    pub(super) fn claim(&mut self, path: &[u8], source: usize) -> Result<(), Error> {
        let (sources, _) = &self.sources;
        if sources.len() < 2 {
            return Ok(());
        }
        let first = *self.claimed.entry(path.to_vec()).or_insert(source);
        if first == source {
            return Ok(());
        }
        let named = |index: usize| sources.get(index).map_or("another source", String::as_str);
        let message = format!(
            "of {} it is not copied, for {} has that name at the destination",
            named(source),
            named(first)
        );
        Err(Error::new(Fault::You, ErrorCode::PathExists, message)
            .hint("copy the two to different directories"))
    }

    /// Makes the congestion control that was asked for available to this host's channels, or notes
    /// why they use another.
    pub(super) fn obtain_congestion(&mut self) -> Result<(), Error> {
        let Some(name) = self.overrides.congestion.clone() else { return Ok(()) };
        let obtained = kernelcc::obtain(&CcRequest::new(name.clone()));
        match obtained {
            Err(error) if error.fault == Fault::You => return Err(error),
            Err(error) => {
                self.overrides.congestion = None;
                self.stats.note(format!("without {name}: {error}"));
            }
            Ok(held) if may_choose(&held.name).is_ok() => {
                // While somebody else's transfer has the plain name, ours is another.
                self.overrides.congestion = Some(held.name.clone());
                self.held = Some(held);
            }
            Ok(_) => {
                self.overrides.congestion = None;
                self.stats.note(format!(
                    "without {name}: this kernel has it for processes with CAP_NET_ADMIN only"
                ));
            }
        }
        Ok(())
    }

    /// The congestion control that was asked for, to be told to the end that sends.
    pub(super) fn asked_congestion(&self) -> Option<&str> {
        self.options.overrides.congestion.as_deref()
    }

    /// Notes that a sender which is no Farline node is not told of the congestion control that was
    /// asked for.
    ///
    /// # Errors
    /// [`Fault::You`] for a name that neither Farline nor this host's kernel knows: nobody else
    /// will say so.
    pub(super) fn congestion_untold(&mut self, sender: &Remote) -> Result<(), Error> {
        let Some(name) = self.asked_congestion().map(str::to_owned) else { return Ok(()) };
        known(&name)?;
        self.stats.note(format!(
            "without {name}: {sender} sends, and is no Farline node that could be told"
        ));
        Ok(())
    }

    /// Chooses channels, congestion control and staging for what is known now.
    pub(super) fn choose(
        &mut self,
        rtt: Span,
        peer: Option<IpAddr>,
        size: Option<Bytes>,
        sending: bool,
    ) -> TransferParams {
        let known = PathContext {
            path: unmeasured(rtt, peer, sending),
            size,
            queue_pairs: self.options.channel.as_ref().map_or(0, |stack| {
                stack.connections(rtt) * self.options.overrides.streams.unwrap_or(1)
            }),
        };
        let mut choice = TransferParams::new(&known, &self.overrides, Bytes(BLOCK_LEN as u64));
        if let Some(wanted) = self.options.buffer {
            choice.reasons.push(format!("socket buffers of {wanted} as asked"));
            if let Some(granted) = granted_buffer(wanted).filter(|&granted| granted < wanted) {
                let why = "net.core.wmem_max or net.core.rmem_max allows no more";
                self.stats.note(format!("socket buffers of {granted} rather than {wanted}: {why}"));
            }
        }
        self.stats.rtt = rtt;
        self.stats.streams = choice.streams;
        self.stats.direction = if sending { DataDirection::Out } else { DataDirection::In };
        self.stats.fixed.window = known.path.window;
        self.stats.choice = Some(choice.clone());
        choice
    }

    /// Options of this end's data connections.
    pub(super) fn tcp_options(&self, congestion: Option<String>) -> TcpOptions {
        TcpOptions { congestion, buffer: self.options.buffer }
    }

    /// What may change of a transfer that this end sends over channels with `congestion`, more of
    /// which open by `opener`.
    pub(super) fn tuning(&self, congestion: Option<&str>, opener: Option<Opener>) -> LiveTuning {
        let paced = self.live.pace.is_some();
        let congestion =
            congestion.filter(|_| self.options.overrides.congestion.is_none() && !paced);
        let channels = self.options.overrides.streams.is_none() && opener.is_some() && !paced;
        LiveTuning { tuning_limits: tuning_limits(channels, congestion), opener }
    }

    /// Takes over what the other end said while it moved data (D-3).
    pub(super) fn take_remarks(&mut self, control: &Control) {
        let (changed, limited) = lock(&control.heard()).take_remarks();
        changed
            .into_iter()
            .for_each(|why| self.live.changed(format!("at {}: {why}", control.server())));
        self.stats.limited_there = limited.or(self.stats.limited_there.take());
    }

    /// Takes over what one of two other ends, the sender first, said that limited it.
    pub(super) fn take_limit_of(&mut self, control: &Control, remote: &Remote) {
        let (_, limited) = lock(&control.heard()).take_remarks();
        let limited = limited
            .map(|said| SaidLimit { evidence: format!("at {remote}: {}", said.evidence), ..said });
        self.stats.limited_elsewhere.push(limited);
    }

    /// Takes over what the other end left out of the tree that it sends (O-4).
    pub(super) fn take_left_out(&mut self, control: &Control) {
        let left_out = self.newly_named(control);
        self.stats.failures.extend(left_out);
        self.stats.not_kept += lock(&control.heard()).take_not_kept();
    }

    /// What the other end named as left out, or not landed. What is known to have failed already is
    /// not named twice.
    fn newly_named(&self, control: &Control) -> BTreeMap<Vec<u8>, Error> {
        let mut named = lock(&control.heard()).take_left_out();
        for (path, _) in &self.stats.failures {
            named.remove(path);
        }
        named
    }

    /// Takes over what did not land at the other end (O-5) of entries that were counted.
    pub(super) fn take_unlanded<'e>(
        &mut self,
        control: &Control,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) {
        let unlanded = self.newly_named(control);
        self.stats.not_set += lock(&control.heard()).take_not_set();
        let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
        for entry in entries.into_iter().filter(is_file) {
            if unlanded.contains_key(&entry.path) {
                self.stats.files -= 1;
                self.stats.bytes -= entry.len();
            }
        }
        self.stats.failures.extend(unlanded);
    }

    /// The time since the copy began.
    pub(super) fn now(&self) -> Time {
        self.time_of(Instant::now())
    }

    pub(super) fn time_of(&self, instant: Instant) -> Time {
        Time::ZERO + Span::from(instant.saturating_duration_since(self.began))
    }

    /// Runs blocking `work` on a thread of its own and watches it. Meanwhile `control` is served,
    /// and a failure that the server reports there breaks the work off and stands as the reason.
    pub(super) async fn supervise<T: Send + 'static>(
        &mut self,
        mut control: Option<&mut Control>,
        work: impl FnOnce(&TransferState) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let Watched { result, told } = self.watch(control.as_deref_mut(), work).await;
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let rtt = control.as_ref().filter(|_| told.is_none()).map(|control| control.rtt());
        match (Blame::of(self.now(), error, told, rtt), control) {
            (Blame::Unsettled { error, until }, Some(control)) => {
                Err(self.hear(control, until).await.unwrap_or(error))
            }
            (Blame::Settled(error) | Blame::Unsettled { error, .. }, _) => Err(error),
        }
    }

    /// What the server says until then of a failure.
    pub(super) async fn hear(&self, control: &mut Control, until: Time) -> Option<Error> {
        let timeout = Duration::from(until.since(self.now()));
        tokio::time::timeout(timeout, control.failure()).await.ok()
    }

    /// Runs blocking `work` on a thread of its own and watches it. Meanwhile `control` is served,
    /// and a failure that the server reports there breaks the work off.
    pub(super) async fn watch<T: Send + 'static>(
        &mut self,
        mut control: Option<&mut Control>,
        work: impl FnOnce(&TransferState) -> Result<T, Error> + Send + 'static,
    ) -> Watched<T> {
        let live = Arc::clone(&self.live);
        let moving = Instant::now();
        let mut work = tokio::task::spawn_blocking(move || work(&live));
        let mut told = None;
        let watched =
            control.as_ref().map(|control| (control.server().to_owned(), control.heard()));
        let idle_timeout = control.as_ref().and_then(|control| control.idle_timeout());
        let mut idle = IdleTimeout::new(self.now(), idle_timeout.map(Span::from));
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let result = loop {
            let failure = async {
                match &mut control {
                    Some(control) => control.failure().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = &mut work => break result,
                _ = tick.tick() => {
                    self.show();
                    if let Some(reason) = self.options.stop.reason() {
                        self.live.cancel.cancel(reason);
                    }
                    if let Some((server, heard)) = &watched
                        && let Some(error) = self.silent(&mut idle, server, heard)
                    {
                        self.live.cancel.cancel(error.clone());
                        told = Some(error);
                        control = None;
                    }
                }
                error = failure => {
                    self.live.cancel.cancel(error.clone());
                    told = Some(error);
                    control = None;
                }
            }
        };
        self.show();
        self.stats.moving = self.stats.moving + moving.elapsed().into();
        let result = result.unwrap_or_else(|_| {
            Err(Error::new(Fault::Bug, ErrorCode::ThreadLost, "a transfer thread panicked"))
        });
        Watched { result, told }
    }

    fn silent(
        &self,
        idle: &mut IdleTimeout,
        server: &str,
        heard: &Mutex<RemoteProgress>,
    ) -> Option<Error> {
        // A consumer that holds our writing up holds up what the server could send.
        let excused = self.live.is_alone.load(Ordering::Relaxed) || self.live.tally.is_storing();
        let heard = lock(heard).at().map(|at| self.time_of(at));
        idle.check(self.now(), server, self.live.arrived(), heard, excused)
    }

    /// Waits for the server's last word on each of `requests`, still showing what arrives.
    pub(super) async fn until_done(
        &mut self,
        control: &mut Control,
        requests: &[u64],
    ) -> Result<(), Error> {
        let moving = Instant::now();
        let mut result = Ok(());
        for &id in requests {
            let ended = self.reply_to(control, id).await.map(drop);
            let is_given_up = matches!(&ended, Err(error) if error.code == ErrorCode::PeerSilent)
                || self.options.stop.reason().is_some();
            // The first failure is the cause; those behind it follow from it.
            result = result.and(ended);
            if is_given_up {
                break;
            }
        }
        self.stats.moving = self.stats.moving + moving.elapsed().into();
        result
    }

    /// The server's answer to the request `id`, which may take it long.
    pub(super) async fn reply_to(
        &mut self,
        control: &mut Control,
        id: u64,
    ) -> Result<Reply, Error> {
        let (server, heard) = (control.server().to_owned(), control.heard());
        let mut idle = IdleTimeout::new(self.now(), control.idle_timeout().map(Span::from));
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let done = control.done(id);
        tokio::pin!(done);
        loop {
            tokio::select! {
                reply = &mut done => return reply,
                _ = tick.tick() => {
                    self.show();
                    if let Some(reason) = self.options.stop.reason() {
                        return Err(reason);
                    }
                    if let Some(error) = self.silent(&mut idle, &server, &heard) {
                        return Err(error);
                    }
                }
            }
        }
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
            are_channels_fixed: self.options.overrides.streams.is_some(),
            ..CopyOptions::default()
        }
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
    pub(super) fn settle(&mut self) {
        let next = TransferState::new(self.options, self.live.pace.clone());
        let live = std::mem::replace(&mut self.live, Arc::new(next));
        self.stats.waits.add(&live.tally.waits());
        self.stats.bytes_sent += live.tally.on_wire();
        if let Some(choice) = &mut self.stats.choice {
            choice.reasons.append(&mut lock(&live.changes));
        }
        let first = live
            .tally
            .first_byte()
            .map(|first| Span::from(first.saturating_duration_since(self.began)));
        self.stats.first_byte = self.stats.first_byte.or(first);
        let began =
            live.tally.began().map(|began| Span::from(began.saturating_duration_since(self.began)));
        self.stats.first_data = self.stats.first_data.or(began);
        self.stats.bad_blocks += live.tally.bad_blocks();
        self.stats.bad_headers += live.tally.bad_headers();
        self.base = self.stats.bytes;
    }

    /// Takes over what became of files on this host.
    pub(super) fn take_landed(&mut self, landed: Landed) {
        self.stats.bytes += landed.bytes;
        self.stats.files += landed.files;
        self.stats.failures.extend(landed.failures);
        self.stats.not_set += landed.not_set;
    }

    /// Counts `entry`, which has landed at `path`.
    pub(super) fn land_one(&mut self, path: &[u8], entry: &Entry) {
        self.stats.bytes += entry.len();
        self.stats.files += 1;
        self.landed.insert((path.to_owned(), entry.len(), entry.modified_ns));
    }

    /// Whether an earlier attempt of this copy has landed `entry` at `path`; it counts then.
    pub(super) fn has_landed(&mut self, path: &[u8], entry: &Entry) -> bool {
        let landed = self.landed.contains(&(path.to_owned(), entry.len(), entry.modified_ns));
        if landed {
            self.land_one(path, entry);
            self.settle();
        }
        landed
    }

    /// Makes ready for another attempt: what the one that failed found of the source is forgotten.
    pub(super) fn try_again(&mut self, before: Checkpoint) {
        self.stats.passes += 1;
        self.stats.attempts += 1;
        self.stats.restore(before);
        self.settle();
    }

    /// What held the transfer that runs back over the last seconds; `None` while there is too
    /// little to tell by.
    fn limited_now(&mut self, elapsed: Span) -> Option<Limit> {
        let (waits, stats) = (self.live.tally.waits(), &self.stats);
        let so_far = Waits {
            moving: elapsed,
            channels: stats.channels(),
            is_tcp: waits.path.total() > Span::ZERO,
            pipes: stats.fixed.pipes,
            ..waits
        };
        let diagnosis = stats.direction.diagnose(&self.lately.since(so_far)?)?;
        // What the other end knows it says at the end.
        (diagnosis.limit != Limit::Network).then_some(diagnosis.limit)
    }

    pub(super) fn show(&mut self) {
        // In this order: a thread that is put aside between the two must not show more bytes than
        // there were by then.
        let bytes = self.base + self.live.arrived();
        let elapsed = Span::from(self.began.elapsed());
        let (total, files) = *lock(&self.live.total);
        self.stats.samples.push(ProgressSample { t: elapsed.as_secs_f64(), bytes });
        let bytes_total = total.map(|total| Bytes(self.base + total.0));
        let resumed = Bytes(self.base + self.live.held.load(Ordering::Relaxed));
        let limited_by = self.limited_now(elapsed);
        let before = self.stats.files;
        let files_done =
            self.live.files().or((before > 0).then_some(0)).map(|files| before + files);
        (self.watch)(&Progress {
            bytes: Bytes(bytes),
            resumed,
            limited_by,
            bytes_total,
            files: files_done,
            files_total: files,
            elapsed,
        });
    }
}
