//! How a profile ends when a signal asks for it: what ran is written, and where it is, is said.

use crate::interrupt;
use farline::plan::document::DocumentPlace;
use farline_core::units::Error;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Who asked does not wait longer for a document to be written.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is between a profile and the signal that ends it.
pub(super) struct Ending {
    shared: Arc<Shared>,
    quiet: bool,
}

#[derive(Default)]
struct Shared {
    asked: AtomicBool,
    /// What to say, once there is a document.
    words: Mutex<Option<String>>,
    /// Both ends of what a profile under way that writes at the end tells: that it has.
    told: Mutex<Option<Receiver<()>>>,
    tell: Mutex<Option<Sender<()>>>,
}

fn put<T>(place: &Mutex<Option<T>>, value: Option<T>) -> Option<T> {
    std::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), value)
}

impl Ending {
    /// Listens for signals from now on; what congestion controls the process holds goes with them.
    pub(super) fn listen(quiet: bool) -> Result<Ending, Error> {
        let shared = Arc::new(Shared::default());
        let of_signal = Arc::clone(&shared);
        interrupt::give_back_when_asked_after(move || {
            of_signal.asked.store(true, Ordering::Relaxed);
            if let Some(told) = put(&of_signal.told, None) {
                // An end that is gone has nothing more to write, either.
                let _ = told.recv_timeout(TIMEOUT);
            }
            if let Some(words) = put(&of_signal.words, None) {
                // What the ticker says last has no end of its own.
                let edge = if std::io::stderr().is_terminal() { "\n" } else { "" };
                eprintln!("{edge}farline: interrupted; {words}");
            }
        })?;
        Ok(Ending { shared, quiet })
    }

    /// From now on `again` goes on with the first of `documents`.
    pub(super) fn goes_on(&self, documents: &[DocumentPlace], again: &str) {
        if self.quiet {
            return;
        }
        let words = match documents.first() {
            Some(place) => {
                format!("what ran is in the file; go on with `{again} {}`", place.file().display())
            }
            None => "nothing is kept".to_owned(),
        };
        put(&self.shared.words, Some(words));
    }

    /// A signal waits from now on until what is under way [may end](Ending::may_end).
    pub(super) fn waits(&self) {
        let (tell, told) = channel();
        put(&self.shared.tell, Some(tell));
        put(&self.shared.told, Some(told));
    }

    /// Whether a signal came.
    pub(super) fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Where a signal came: all is written, or `failed`. Does not return.
    pub(super) fn end(&self, failed: Option<&Error>) -> ! {
        if let Some(error) = failed {
            put(&self.shared.words, Some(error.to_string()));
        }
        self.may_end();
        // The thread that took the signal ends the process.
        loop {
            std::thread::park();
        }
    }

    /// Nothing is under way any more.
    pub(super) fn may_end(&self) {
        put(&self.shared.tell, None);
    }
}
