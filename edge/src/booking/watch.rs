//! A thread that sees to a booking while its copy runs: it asks for a later end, says what will be
//! late, and ends the copy with its slot.

use super::{BookingNotice, CopyBooking};
use crate::calendar::now;
use crate::client::{CancelToken, Progress};
use crate::sys::lock::lock;
use farline_core::calendar::{BookingMonitor, MonitorAction, MonitorEvent};
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);
/// How often the calendar is asked whether the reservation is as it was.
const RENEW: Duration = Duration::from_secs(1);
/// How long the calendar may take to reply.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How far a copy is: told by who runs it, read by who watches its booking.
#[derive(Clone, Debug, Default)]
pub struct BookingProgress(Arc<Mutex<(Bytes, Option<Bytes>)>>);

impl BookingProgress {
    /// So far.
    pub fn update(&self, progress: &Progress) {
        *lock(&self.0) = (progress.bytes, progress.bytes_total);
    }
}

/// A booking that is watched.
#[derive(Debug)]
pub struct BookingHandle {
    progress: BookingProgress,
    /// Dropped when the copy is over.
    over: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Whether the copy came to a good end.
    is_well: Arc<AtomicBool>,
    ended: Arc<Mutex<Option<Error>>>,
}

impl CopyBooking {
    /// Watches a copy that `cancel` ends, and has `tell` told, until it is over.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn watch(
        self,
        cancel: CancelToken,
        tell: impl FnMut(BookingNotice) + Send + 'static,
    ) -> Result<BookingHandle, Error> {
        let (over, is_over) = sync_channel::<()>(0);
        let progress = BookingProgress::default();
        let ended = Arc::new(Mutex::new(None));
        let mut watch = Watch {
            monitor: BookingMonitor::new(self.slot, self.by, self.payload_rate()),
            booking: self,
            progress: progress.clone(),
            renewed: Instant::now(),
            is_away: false,
            tell,
        };
        watch.booking.client.set_timeout(TIMEOUT);
        watch.booking.is_broken = true;
        let note = Arc::clone(&ended);
        let is_well = Arc::new(AtomicBool::new(false));
        let went = Arc::clone(&is_well);
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(LOOK) {
                if let Some(error) = watch.check() {
                    *lock(&note) = Some(error);
                    cancel.ask();
                    // What it can go on from is made durable meanwhile; the copy says when.
                    let _ = is_over.recv();
                    return;
                }
            }
            watch.booking.is_broken = !went.load(Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("booking".to_owned()).spawn(run);
        let thread = thread.map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoThread, format!("starting a thread: {error}"))
        })?;
        Ok(BookingHandle { progress, over: Some(over), thread: Some(thread), is_well, ended })
    }
}

impl BookingHandle {
    /// Where to say how far the copy is.
    pub fn progress(&self) -> BookingProgress {
        self.progress.clone()
    }

    /// The copy is over, and well or not: gives back what was booked for it, two seconds later
    /// where the other end still has to hear that connections broke. Returns why its booking ended
    /// it, if it did.
    pub fn end(mut self, is_well: bool) -> Option<Error> {
        self.is_well.store(is_well, Ordering::Relaxed);
        self.finish();
        lock(&self.ended).take()
    }

    fn finish(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for BookingHandle {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Watch<F> {
    booking: CopyBooking,
    monitor: BookingMonitor,
    progress: BookingProgress,
    renewed: Instant,
    is_away: bool,
    tell: F,
}

impl<F: FnMut(BookingNotice)> Watch<F> {
    /// Looks once; returns why the copy must end, if it must.
    fn check(&mut self) -> Option<Error> {
        let (done, total) = *lock(&self.progress.0);
        self.monitor.handle(now(), MonitorEvent::Progress { done, total });
        if self.renewed.elapsed() >= RENEW {
            self.renewed = Instant::now();
            match self.booking.renew() {
                Ok([slot, rate]) => {
                    if rate {
                        let follows = self.booking.follow();
                        let payload = self.booking.payload_rate();
                        self.monitor.handle(now(), MonitorEvent::Rate(payload));
                        (self.tell)(BookingNotice::Rate(self.booking.rate(), follows));
                    }
                    if slot {
                        self.monitor.handle(now(), MonitorEvent::Slot(self.booking.slot));
                        (self.tell)(BookingNotice::Changed(self.booking.slot));
                    }
                    if std::mem::take(&mut self.is_away) {
                        (self.tell)(BookingNotice::Calendar(None));
                    }
                }
                Err(error) if error.code == ErrorCode::SlotOver => return Some(error),
                // The circuit does not need the calendar.
                Err(error) => {
                    if !std::mem::replace(&mut self.is_away, true) {
                        (self.tell)(BookingNotice::Calendar(Some(error)));
                    }
                }
            }
        }
        match self.monitor.poll(now()) {
            MonitorAction::Wait => {}
            MonitorAction::Late(prediction) => (self.tell)(BookingNotice::Late(prediction)),
            MonitorAction::Extend(end) => {
                // What others share is not one copy's to change.
                let event = match self.booking.is_own && self.booking.extend(end).is_ok() {
                    true => {
                        (self.tell)(BookingNotice::Extended(self.booking.slot.end));
                        MonitorEvent::Slot(self.booking.slot)
                    }
                    false => MonitorEvent::NotExtended,
                };
                self.monitor.handle(now(), event);
            }
            MonitorAction::Stop => {
                let id = &self.booking.reservation.id;
                let message = format!("the slot of {id} is over, and the copy is not");
                return Some(
                    Error::new(Fault::Refused, ErrorCode::SlotOver, message)
                        .hint("what came is kept: the same command books anew and goes on"),
                );
            }
        }
        None
    }
}
