//! The one thread that decides: it takes orders, makes what they change durable, and only then has
//! it applied, told and seen.
//!
//! The thread has a book of its own, which runs ahead within a batch; the book that others read
//! follows when the batch is durable. Orders that wait together share one transaction.

use super::clock::{now, timestamp};
use super::ledger::{DoneRequest, Entry, Ledger, Logged, RecordKind};
use super::wire::{ClosureDocument, RefusalDocument, ReservationDocument};
use crate::sys::clock::since_boot;
use farline_core::calendar::{
    Book, BookOrder, BookRecord, BookingRefusal, EndCause, ReservationState, ReservationVerb,
    SteadyClock, Topology,
};
use farline_core::units::{Error, ErrorCode, Fault, Span, Time};
use serde::Serialize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Orders that wait at most; more are told to come again.
const WAITING: usize = 1024;
/// Orders of one transaction at most.
const BATCH: usize = 128;
/// How often what is remembered of requests is gone through.
const FORGET: Duration = Duration::from_secs(600);

/// What whoever runs a calendar has to know of it, while it is so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CalendarTrouble {
    /// The database cannot be written: what would change anything is refused.
    Database(Error),
    /// The host's clock was set forward, by so much: for a minute nothing ends by it.
    ClockAhead(Span),
}

/// What was done.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) status: u16,
    pub(super) body: String,
    /// Whether it was done before, for the same key.
    pub(super) again: bool,
}

/// Why it was not.
#[derive(Clone, Debug)]
pub(super) enum NotDone {
    /// The book refuses.
    Refused(Box<RefusalDocument>),
    /// The key was used for another request.
    KeyReused,
    /// The database could not be written.
    Store(Error),
    /// The database went away before it said whether it was written.
    InDoubt,
}

/// An order, and who waits for it.
pub(super) struct WriterJob {
    pub(super) order: BookOrder,
    pub(super) actor: String,
    /// The client's key and the digest of what it asked.
    pub(super) key: Option<(String, Vec<u8>)>,
    /// The status of success.
    pub(super) status: u16,
    pub(super) reply: oneshot::Sender<JobOutcome>,
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct WriterHandle {
    jobs: SyncSender<WriterJob>,
}

impl WriterHandle {
    /// Hands an order over; returns whether there was room.
    pub(super) fn send(&self, job: WriterJob) -> bool {
        self.jobs.try_send(job).is_ok()
    }
}

struct Writer {
    /// Ahead of what is durable, within a batch.
    book: Book,
    clock: SteadyClock,
    shared: Arc<RwLock<Book>>,
    ledger: Ledger,
    topology: Arc<Topology>,
    seq: watch::Sender<u64>,
    trouble: watch::Sender<Option<CalendarTrouble>>,
    jobs: Receiver<WriterJob>,
    /// Whether the log may have more than the book: a change was in doubt.
    behind: bool,
}

/// Starts the thread; returns the way to it.
///
/// # Errors
/// When no thread can be started.
pub(super) fn start(
    book: Book,
    shared: Arc<RwLock<Book>>,
    ledger: Ledger,
    seq: watch::Sender<u64>,
    trouble: watch::Sender<Option<CalendarTrouble>>,
) -> std::io::Result<(WriterHandle, std::thread::JoinHandle<()>)> {
    let (jobs, receiver) = sync_channel(WAITING);
    let topology = Arc::clone(&book.network().topology);
    let clock = SteadyClock::new(now(), since_boot());
    let writer = Writer {
        book,
        clock,
        shared,
        ledger,
        topology,
        seq,
        trouble,
        jobs: receiver,
        behind: false,
    };
    let thread =
        std::thread::Builder::new().name("calendar".to_owned()).spawn(move || writer.run())?;
    Ok((WriterHandle { jobs }, thread))
}

/// What became of a job.
type JobOutcome = Result<Done, NotDone>;

/// What a batch changes, and how to take it back.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    done: Vec<DoneRequest>,
    applied: Vec<(BookRecord, Option<BookRecord>)>,
    replies: Vec<(oneshot::Sender<JobOutcome>, JobOutcome)>,
}

impl Writer {
    fn run(mut self) {
        let mut forgotten = Instant::now();
        loop {
            let due = self.book.next_due();
            let now = self.now();
            let wait = due.map_or(Duration::from_secs(1), |due| {
                Duration::from(due.since(now)).min(Duration::from_secs(1))
            });
            let first = match self.jobs.recv_timeout(wait) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let is_idle = first.is_none();
            let more = std::iter::from_fn(|| self.jobs.try_recv().ok()).take(BATCH);
            let jobs: Vec<WriterJob> = first.into_iter().chain(more).collect();
            if let Err(error) = self.catch_up(is_idle) {
                self.tell_failed(&error);
                for job in jobs {
                    let _ = job.reply.send(Err(NotDone::Store(error.clone())));
                }
                // Timers are due still: not at once again.
                std::thread::sleep(Duration::from(Span::from_millis(20)));
                continue;
            }
            let mut batch = Batch::default();
            self.timers(&mut batch);
            for job in jobs {
                self.job(job, &mut batch);
            }
            self.finish(batch);
            if forgotten.elapsed() > FORGET {
                forgotten = Instant::now();
                // What is remembered a little longer does no harm.
                let _ = self.ledger.forget(seconds(now));
            }
        }
    }

    /// Takes what was in doubt and became durable after all; and where nobody asks for anything,
    /// looks whether a database that failed can be written again.
    ///
    /// # Errors
    /// When the database cannot be read or written still.
    fn catch_up(&mut self, is_idle: bool) -> Result<(), Error> {
        while self.behind {
            let news = self.ledger.news()?;
            self.behind = !news.is_empty();
            for entry in &news {
                self.take_over(entry)?;
            }
            self.seq.send_replace(self.ledger.last_seq());
        }
        let failed = |trouble: &Option<_>| matches!(trouble, Some(CalendarTrouble::Database(_)));
        if is_idle && failed(&self.trouble.borrow()) {
            let now = seconds(self.now());
            self.ledger.probe(now)?;
            self.tell_works();
        }
        Ok(())
    }

    /// Applies an entry of the log which this calendar wrote without knowing it.
    fn take_over(&mut self, entry: &Logged) -> Result<(), Error> {
        let reservation = || {
            let document: ReservationDocument = serde_json::from_str(&entry.body).ok()?;
            document.to_reservation(&self.topology).map(Arc::new).map(BookRecord::Reservation)
        };
        let closure = || {
            let document: ClosureDocument = serde_json::from_str(&entry.body).ok()?;
            document.to_closure(&self.topology).map(BookRecord::Closure)
        };
        let record = entry.record_kind().and_then(|kind| match kind {
            RecordKind::Closure => closure(),
            RecordKind::Reservation => reservation(),
        });
        let record = record.ok_or_else(|| {
            let message = format!("entry {} of the calendar's log makes no sense", entry.seq);
            Error::new(Fault::Here, ErrorCode::CalendarStore, message)
        })?;
        self.book.apply(&record);
        self.shared.write().unwrap_or_else(PoisonError::into_inner).apply(&record);
        Ok(())
    }

    /// Tells that the database failed.
    fn tell_failed(&self, error: &Error) {
        let database = Some(CalendarTrouble::Database(error.clone()));
        self.trouble.send_if_modified(|trouble| {
            let is_new = *trouble != database;
            *trouble = database;
            is_new
        });
    }

    /// Tells that it works again, if it did not.
    fn tell_works(&self) {
        self.trouble.send_if_modified(|trouble| {
            trouble.take_if(|t| matches!(t, CalendarTrouble::Database(_))).is_some()
        });
    }

    fn now(&mut self) -> Time {
        let (wall, passed) = (now(), since_boot());
        let time = self.clock.read(wall, passed);
        let ahead = self.clock.doubted(wall, passed);
        self.trouble.send_if_modified(|trouble| {
            let was_ahead = matches!(trouble, Some(CalendarTrouble::ClockAhead(_)));
            match ahead {
                Some(by) if trouble.is_none() => *trouble = Some(CalendarTrouble::ClockAhead(by)),
                None if was_ahead => *trouble = None,
                _ => return false,
            }
            true
        });
        time
    }

    fn timers(&mut self, batch: &mut Batch) {
        let now = self.now();
        self.book.advance(now);
        for record in self.book.poll(now).records {
            // What cannot be written stays due.
            if let Err(error) = self.take("calendar", record, batch) {
                debug_assert!(false, "{error}");
            }
        }
    }

    /// Applies a record to the book that runs ahead, and notes its entry.
    ///
    /// # Errors
    /// When it cannot be written as a document: then it is not applied.
    fn take(&mut self, actor: &str, record: BookRecord, batch: &mut Batch) -> Result<(), Error> {
        let (kind, id, over, body) = match &record {
            BookRecord::Reservation(reservation) => (
                RecordKind::Reservation,
                reservation.id.0,
                !reservation.takes_bandwidth(),
                written(&ReservationDocument::of(&self.topology, reservation))?,
            ),
            BookRecord::Closure(closure) => (
                RecordKind::Closure,
                closure.id,
                closure.withdrawn,
                written(&ClosureDocument::of(&self.topology, closure))?,
            ),
        };
        let before = self.book.apply(&record);
        let verb = verb(&record, before.as_ref());
        let (actor, verb) = (actor.to_owned(), verb.to_owned());
        let time = self.now();
        let at = timestamp(self.book.now(time));
        batch.entries.push(Entry { at, actor, verb, kind, id, over, body });
        batch.applied.push((record, before));
        Ok(())
    }

    fn job(&mut self, job: WriterJob, batch: &mut Batch) {
        let known = match &job.key {
            None => Ok(None),
            Some((key, request)) => self.known(&job.actor, key, request, batch),
        };
        let outcome = match known {
            Err(error) => Err(error),
            Ok(Some(done)) => Ok(done),
            Ok(None) => match self.decide(&job, batch) {
                Err(not_done) => Err(not_done),
                Ok(body) => {
                    if let Some((key, request)) = job.key {
                        let (actor, status, body) = (job.actor, job.status, body.clone());
                        let at = seconds(self.now());
                        batch.done.push(DoneRequest { actor, key, request, status, body, at });
                    }
                    Ok(Done { status: job.status, body, again: false })
                }
            },
        };
        batch.replies.push((job.reply, outcome));
    }

    /// What was done for the same key, in this batch or before.
    fn known(
        &mut self,
        actor: &str,
        key: &str,
        request: &[u8],
        batch: &Batch,
    ) -> Result<Option<Done>, NotDone> {
        let here = batch.done.iter().find(|done| done.actor == actor && done.key == key);
        let known = match here {
            Some(done) => Some(done.clone()),
            None => self.ledger.done(actor, key).map_err(NotDone::Store)?,
        };
        match known {
            None => Ok(None),
            Some(done) if done.request == request => {
                Ok(Some(Done { status: done.status, body: done.body, again: true }))
            }
            Some(_) => Err(NotDone::KeyReused),
        }
    }

    /// Has the book decide; returns the reply's body.
    fn decide(&mut self, job: &WriterJob, batch: &mut Batch) -> Result<String, NotDone> {
        let time = self.now();
        let refused = |refusal: BookingRefusal| {
            NotDone::Refused(Box::new(RefusalDocument::of(&self.topology, &refusal)))
        };
        let decision = self.book.handle(time, &job.order).map_err(refused)?;
        let body = match (&job.order, decision.records.first()) {
            (_, Some(BookRecord::Reservation(reservation))) => {
                written(&ReservationDocument::of(&self.topology, reservation))
            }
            (_, Some(BookRecord::Closure(closure))) => {
                let mut document = ClosureDocument::of(&self.topology, closure);
                for record in &decision.records {
                    if let BookRecord::Reservation(reservation) = record {
                        let list = if reservation.stranded {
                            &mut document.stranded
                        } else {
                            &mut document.moved
                        };
                        list.push(reservation.id.to_string());
                    }
                }
                written(&document)
            }
            // All was as asked for already: the reply is what is there.
            (BookOrder::Perform { id, .. } | BookOrder::Change { id, .. }, None) => {
                let there = self.book.reservation(*id);
                let document = |r: &Arc<_>| ReservationDocument::of(&self.topology, r);
                written(&there.map(document))
            }
            (BookOrder::Reopen { closure }, None) => {
                let there = self.book.closure(*closure);
                written(&there.map(|known| ClosureDocument::of(&self.topology, known)))
            }
            (_, None) => Ok("{}".to_owned()),
        };
        let body = body.map_err(NotDone::Store)?;
        let first = batch.applied.len();
        for record in decision.records {
            if let Err(error) = self.take(&job.actor, record, batch) {
                // All of it, or nothing.
                batch.entries.truncate(first);
                for (record, before) in batch.applied.drain(first..).rev() {
                    self.book.take_back(&record, before);
                }
                return Err(NotDone::Store(error));
            }
        }
        Ok(body)
    }

    /// Makes a batch durable, applies it where others see it, and replies; or takes it all back.
    fn finish(&mut self, mut batch: Batch) {
        if !batch.entries.is_empty() || !batch.done.is_empty() {
            match self.ledger.write(&batch.entries, &batch.done) {
                Ok(seq) => {
                    self.tell_works();
                    let time = self.now();
                    let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
                    shared.advance(time);
                    for (record, _) in &batch.applied {
                        shared.apply(record);
                    }
                    drop(shared);
                    self.seq.send_replace(seq);
                }
                Err(not) => {
                    self.tell_failed(&not.error);
                    self.behind = true;
                    for (record, before) in batch.applied.drain(..).rev() {
                        self.book.take_back(&record, before);
                    }
                    for (_, outcome) in &mut batch.replies {
                        if outcome.is_ok() {
                            *outcome = Err(match not.in_doubt {
                                true => NotDone::InDoubt,
                                false => NotDone::Store(not.error.clone()),
                            });
                        }
                    }
                    // Timers are due still: not at once again.
                    std::thread::sleep(Duration::from(Span::from_millis(20)));
                }
            }
        }
        for (reply, outcome) in batch.replies {
            // Who asked may have gone.
            let _ = reply.send(outcome);
        }
    }
}

/// A document as text.
///
/// # Errors
/// A defect: documents have string keys and no failing serializers.
fn written(document: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(document).map_err(|error| {
        let message = format!("a document of the calendar's cannot be written: {error}");
        Error::new(Fault::Bug, ErrorCode::CalendarStore, message)
    })
}

fn seconds(time: Time) -> i64 {
    (time.as_nanos() / 1_000_000_000) as i64
}

/// What the log calls it.
fn verb(record: &BookRecord, before: Option<&BookRecord>) -> &'static str {
    let (new, old) = match (record, before) {
        (BookRecord::Closure(closure), _) if closure.withdrawn => return "reopen",
        (BookRecord::Closure(_), _) => return "close",
        (BookRecord::Reservation(new), Some(BookRecord::Reservation(old))) => (new, Some(old)),
        (BookRecord::Reservation(new), _) => (new, None),
    };
    let Some(old) = old else {
        return if new.state == ReservationState::Held { "hold" } else { "reserve" };
    };
    match (new.ended, new.state) {
        (Some(EndCause::Expired), _) => "expire",
        (Some(EndCause::Aborted), _) => "abort",
        (Some(EndCause::Cancelled), _) => "cancel",
        (Some(EndCause::Passed), _) => "end",
        (Some(EndCause::PreEmpted), _) => "preempt",
        (None, state) if state != old.state => match state {
            ReservationState::Committed => "commit",
            ReservationState::Provisioned => "provision",
            _ => "release",
        },
        _ if new.stranded && !old.stranded => "strand",
        _ if old.stranded && !new.stranded => "mend",
        _ => "change",
    }
}

/// The verb that a path names.
pub(super) fn verb_named(name: &str) -> Option<ReservationVerb> {
    Some(match name {
        "commit" => ReservationVerb::Commit,
        "abort" => ReservationVerb::Abort,
        "provision" => ReservationVerb::Provision,
        "release" => ReservationVerb::Release,
        "terminate" => ReservationVerb::Terminate,
        _ => return None,
    })
}
