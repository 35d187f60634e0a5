//! The two servers of a copy between others: their control connections, and waiting for what either
//! says of a transfer.

use crate::client::control::Control;
use crate::client::copy::Copy;
use crate::client::location::Remote;
use crate::sys::lock::lock;
use farline_core::copy::{DataEnd, IdleTimeout, PairedState, PairedTransfer};
use farline_core::units::{ByteRanges, Error, Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// The two ends.
pub(super) struct Ends<'a> {
    pub(super) from: &'a Remote,
    pub(super) to: &'a Remote,
    pub(super) sender: Control,
    pub(super) receiver: Control,
    /// What the receiver is storing, how much of it has come, and how much had come before.
    storing: Option<u64>,
    moved: AtomicU64,
    base: u64,
}

/// What came of waiting for an end's last word.
pub(super) enum Word {
    /// This is it.
    Said(DataEnd, Result<(), Error>),
    /// None came in time.
    Late,
    /// Nobody is heard of any more, or the copy was asked to end.
    Broken(Error),
}

/// An error with the end that it came from.
pub(super) fn at(remote: &Remote, error: Error) -> Error {
    error.while_doing(format!("at {remote}"))
}

impl<'a> Ends<'a> {
    pub(super) fn new(
        (from, sender): (&'a Remote, Control),
        (to, receiver): (&'a Remote, Control),
    ) -> Ends<'a> {
        let moved = AtomicU64::new(0);
        Ends { from, to, sender, receiver, storing: None, moved, base: 0 }
    }

    /// One of them, with its name.
    pub(super) fn of(&mut self, end: DataEnd) -> (&mut Control, &'a Remote) {
        match end {
            DataEnd::Sender => (&mut self.sender, self.from),
            DataEnd::Receiver => (&mut self.receiver, self.to),
        }
    }

    /// Goes on in the sessions of `other` with the same two servers.
    pub(super) fn renew(&mut self, other: Ends<'a>) {
        (self.sender, self.receiver) = (other.sender, other.receiver);
        self.storing = None;
    }

    /// What the receiver says that it holds.
    pub(super) fn held(&self) -> ByteRanges {
        lock(&self.receiver.remote_progress()).all().clone()
    }

    /// Waits for both ends' last words on one transfer of a file.
    ///
    /// # Errors
    /// As one of them failed, or when the wait was broken off.
    pub(super) async fn both(
        &mut self,
        copy: &mut Copy<'_>,
        store: u64,
        retrieve: u64,
    ) -> Result<(), Error> {
        let mut words = PairedTransfer::default();
        loop {
            let (ends, until) = match words.state(copy.now()) {
                PairedState::Waiting(ends, until) => (ends, until),
                PairedState::Over(result) => return result,
                PairedState::Broken(error) => return Err(error),
            };
            let id = |end| if end == DataEnd::Sender { retrieve } else { store };
            let asked: Vec<_> = ends.into_iter().map(|end| (end, id(end))).collect();
            match self.word(copy, &asked, until, true).await {
                Word::Said(end, result) => words.ended(copy.now(), end, result),
                Word::Late => {}
                Word::Broken(error) => return Err(error),
            }
        }
    }

    /// Waits for the first last word on one of these transfers, at most until then; of files it
    /// shows how far they are.
    pub(super) async fn word(
        &mut self,
        copy: &mut Copy<'_>,
        asked: &[(DataEnd, u64)],
        until: Option<Time>,
        payload: bool,
    ) -> Word {
        let id = |of| asked.iter().find(|(end, _)| *end == of).map(|&(_, id)| id);
        let (store, retrieve) = (id(DataEnd::Receiver), id(DataEnd::Sender));
        if store.is_some() && self.storing != store {
            (self.storing, self.base) = (store, copy.state.tally.bytes());
            self.moved.store(0, Ordering::Relaxed);
        }
        let began = Instant::now();
        let heard = [self.sender.remote_progress(), self.receiver.remote_progress()];
        let mut idle = IdleTimeout::new(copy.now(), self.sender.idle_timeout().map(Span::from));
        let Ends { from, to, sender, receiver, moved, base, .. } = self;
        let (moved, names, ignored) = (&*moved, format!("{from} or {to}"), AtomicU64::new(0));
        let first = async {
            let stored = async {
                match store {
                    Some(id) => receiver.transferred(id, moved).await,
                    None => std::future::pending().await,
                }
            };
            let sent = async {
                match retrieve {
                    Some(id) => sender.transferred(id, &ignored).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                stored = stored => {
                    Word::Said(DataEnd::Receiver, stored.map(drop).map_err(|error| at(to, error)))
                }
                sent = sent => {
                    Word::Said(DataEnd::Sender, sent.map(drop).map_err(|error| at(from, error)))
                }
            }
        };
        tokio::pin!(first);
        let wait = until.map(|until| Duration::from(until.since(copy.now())));
        let late = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let word = loop {
            tokio::select! {
                word = &mut first => break word,
                () = &mut late => break Word::Late,
                _ = tick.tick() => {
                    let moved = moved.load(Ordering::Relaxed);
                    if payload {
                        show(copy, *base + moved);
                    }
                    if let Some(reason) = copy.options.cancel.reason() {
                        break Word::Broken(reason);
                    }
                    // A receiver goes on to say that nothing comes: of payload, words alone are no
                    // sign of life.
                    let words =
                        heard.iter().filter_map(|heard| lock(heard).at()).max().filter(|_| !payload);
                    let words = words.map(|at| copy.time_of(at));
                    if let Some(error) = idle.check(copy.now(), &names, moved, words, false) {
                        break Word::Broken(error);
                    }
                }
            }
        };
        copy.stats.moving = copy.stats.moving + began.elapsed().into();
        word
    }
}

/// Shows that so many bytes have arrived, by the receiver's word.
fn show(copy: &mut Copy<'_>, bytes: u64) {
    let tally = &copy.state.tally;
    tally.add_bytes(usize::try_from(bytes.saturating_sub(tally.bytes())).unwrap_or(0));
    copy.show();
}
