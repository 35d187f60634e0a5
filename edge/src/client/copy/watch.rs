//! Watches what runs of a copy: threads that move data, a server that speaks or is silent, and who
//! asks it to end; shows how far it is.

use super::Copy;
use crate::client::control::Control;
use crate::client::options::Progress;
use crate::client::outcome::ProgressSample;
use crate::client::remote_progress::RemoteProgress;
use crate::client::transfer_state::TransferState;
use crate::sys::lock::lock;
use farline_core::copy::{Blame, IdleTimeout};
use farline_core::gridftp::Reply;
use farline_core::transfer::{Limit, Waits};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// What came of work, and what the server said meanwhile: after that it is not listened to.
pub(in crate::client) struct Watched<T> {
    pub(in crate::client) result: Result<T, Error>,
    pub(in crate::client) told: Option<Error>,
}

impl<T> Watched<T> {
    /// Keeps what was done.
    pub(in crate::client) fn map<U>(self, keep: impl FnOnce(T) -> U) -> Watched<U> {
        Watched { result: self.result.map(keep), told: self.told }
    }
}

impl Copy<'_> {
    /// Runs blocking `work` on a thread of its own and watches it. Meanwhile `control` is served,
    /// and a failure that the server reports there breaks the work off and stands as the reason.
    pub(in crate::client) async fn supervise<T: Send + 'static>(
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
    pub(in crate::client) async fn hear(
        &self,
        control: &mut Control,
        until: Time,
    ) -> Option<Error> {
        let timeout = Duration::from(until.since(self.now()));
        tokio::time::timeout(timeout, control.failure()).await.ok()
    }

    /// Runs blocking `work` on a thread of its own and watches it. Meanwhile `control` is served,
    /// and a failure that the server reports there breaks the work off.
    pub(in crate::client) async fn watch<T: Send + 'static>(
        &mut self,
        mut control: Option<&mut Control>,
        work: impl FnOnce(&TransferState) -> Result<T, Error> + Send + 'static,
    ) -> Watched<T> {
        let state = Arc::clone(&self.state);
        let moving = Instant::now();
        let mut work = tokio::task::spawn_blocking(move || work(&state));
        let mut told = None;
        let watched = control
            .as_ref()
            .map(|control| (control.server().to_owned(), control.remote_progress()));
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
                    if let Some(reason) = self.options.cancel.reason() {
                        self.state.cancel.cancel(reason);
                    }
                    if let Some((server, remote_progress)) = &watched
                        && let Some(error) = self.silent(&mut idle, server, remote_progress)
                    {
                        self.state.cancel.cancel(error.clone());
                        told = Some(error);
                        control = None;
                    }
                }
                error = failure => {
                    self.state.cancel.cancel(error.clone());
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
        remote_progress: &Mutex<RemoteProgress>,
    ) -> Option<Error> {
        // A consumer that holds our writing up holds up what the server could send.
        let excused = self.state.is_alone.load(Ordering::Relaxed) || self.state.tally.is_storing();
        let heard = lock(remote_progress).at().map(|at| self.time_of(at));
        idle.check(self.now(), server, self.state.arrived(), heard, excused)
    }

    /// Waits for the server's last word on each of `requests`, still showing what arrives.
    pub(in crate::client) async fn until_done(
        &mut self,
        control: &mut Control,
        requests: &[u64],
    ) -> Result<(), Error> {
        let moving = Instant::now();
        let mut result = Ok(());
        for &id in requests {
            let ended = self.reply_to(control, id).await.map(drop);
            let is_given_up = matches!(&ended, Err(error) if error.code == ErrorCode::PeerSilent)
                || self.options.cancel.reason().is_some();
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
    pub(in crate::client) async fn reply_to(
        &mut self,
        control: &mut Control,
        id: u64,
    ) -> Result<Reply, Error> {
        let (server, remote_progress) = (control.server().to_owned(), control.remote_progress());
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
                    if let Some(reason) = self.options.cancel.reason() {
                        return Err(reason);
                    }
                    if let Some(error) = self.silent(&mut idle, &server, &remote_progress) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// What held the transfer that runs back over the last seconds; `None` while there is too
    /// little to tell by.
    fn limited_now(&mut self, elapsed: Span) -> Option<Limit> {
        let (waits, stats) = (self.state.tally.waits(), &self.stats);
        let so_far = Waits {
            moving: elapsed,
            channels: stats.channels(),
            has_path: waits.path.total() > Span::ZERO,
            media: stats.fixed.media,
            ..waits
        };
        let diagnosis = stats.direction.diagnose(&self.lately.since(so_far)?)?;
        // What the other end knows it says at the end.
        (diagnosis.limit != Limit::Network).then_some(diagnosis.limit)
    }

    pub(in crate::client) fn show(&mut self) {
        // In this order: a thread that is put aside between the two must not show more bytes than
        // there were by then.
        let bytes = self.base + self.state.arrived();
        let elapsed = Span::from(self.began.elapsed());
        let (total, files) = *lock(&self.state.total);
        self.stats.samples.push(ProgressSample { t: elapsed.as_secs_f64(), bytes });
        let bytes_total = total.map(|total| Bytes(self.base + total.0));
        let resumed = Bytes(self.base + self.state.held.load(Ordering::Relaxed));
        let limited_by = self.limited_now(elapsed);
        let before = self.stats.files;
        let files_done =
            self.state.files().or((before > 0).then_some(0)).map(|files| before + files);
        let shown = Progress {
            bytes: Bytes(bytes),
            resumed,
            limited_by,
            bytes_total,
            files: files_done,
            files_total: files,
            elapsed,
        };
        (self.watch)(&shown);
        self.shown = Some(shown);
    }

    /// Shows, between two attempts, where the last one stood.
    pub(in crate::client) fn show_waiting(&mut self) {
        let Some(last) = self.shown else { return };
        let limited_by = Some(Limit::Outage);
        let elapsed = Span::from(self.began.elapsed());
        (self.watch)(&Progress { limited_by, elapsed, ..last });
    }
}
