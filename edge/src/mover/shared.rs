//! What the threads of one transfer share: parked slots, the first error, and the way to break
//! everything off.

use crate::channels::Handle;
use crate::sys::lock::lock;
use crate::sys::pool::Slot;
use farline_core::transfer::SlotId;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The slots that no thread holds, by number.
#[derive(Debug)]
pub(super) struct FreeSlots(Vec<Option<Slot>>);

impl FreeSlots {
    pub(super) fn new(slots: Vec<Slot>) -> FreeSlots {
        let mut free = FreeSlots(Vec::new());
        free.grow(slots);
        free
    }

    /// Takes more slots in.
    pub(super) fn grow(&mut self, slots: Vec<Slot>) {
        for slot in slots {
            self.put(slot);
        }
    }

    pub(super) fn take(&mut self, id: SlotId) -> Result<Slot, Error> {
        let slot = self.0.get_mut(id.0).and_then(Option::take);
        slot.ok_or_else(|| {
            Error::new(
                Fault::Bug,
                ErrorCode::SlotHeld,
                "a staging slot was handed out twice, or lost",
            )
        })
    }

    /// There is room for as many as the highest number asks for: were one lost, the others' numbers
    /// would go beyond their count.
    pub(super) fn put(&mut self, slot: Slot) -> SlotId {
        let id = SlotId(slot.index());
        if self.0.len() <= id.0 {
            self.0.resize_with(id.0 + 1, || None);
        }
        self.0[id.0] = Some(slot);
        id
    }

    /// Every slot that came back.
    pub(super) fn into_slots(self) -> Vec<Slot> {
        self.0.into_iter().flatten().collect()
    }
}

/// Breaks a transfer off, from a thread of it that failed or from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<Cancelling>);

#[derive(Debug, Default)]
struct Cancelling {
    state: Mutex<CancelState>,
    cancelled: Condvar,
}

#[derive(Debug, Default)]
struct CancelState {
    reason: Option<Error>,
    handles: Vec<Handle>,
}

impl Cancel {
    /// Nothing to cancel yet.
    pub(crate) fn new() -> Cancel {
        Cancel::default()
    }

    /// Breaks every channel. The first reason stands.
    pub(crate) fn cancel(&self, reason: Error) {
        let mut state = lock(&self.0.state);
        state.reason.get_or_insert(reason);
        self.0.cancelled.notify_all();
        // Not kept: a peer with a full window in front of it hears of the end only when the last
        // descriptor is closed.
        for handle in state.handles.drain(..) {
            handle.break_now();
        }
    }

    /// Why it was cancelled, if it was.
    pub(crate) fn reason(&self) -> Option<Error> {
        lock(&self.0.state).reason.clone()
    }

    /// Waits for `span` at most to be cancelled, and returns why.
    pub(crate) fn wait(&self, span: Duration) -> Option<Error> {
        let state = lock(&self.0.state);
        let waited =
            self.0.cancelled.wait_timeout_while(state, span, |state| state.reason.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.reason.clone()
    }

    /// Takes a channel under its wing; one that comes too late is broken at once.
    pub(crate) fn watch(&self, handle: Handle) {
        let mut state = lock(&self.0.state);
        match state.reason {
            Some(_) => handle.break_now(),
            None => state.handles.push(handle),
        }
    }

    /// The same for a plain connection.
    pub(crate) fn watch_stream(&self, stream: &TcpStream) -> Result<(), Error> {
        let handle = Handle::of(stream)
            .map_err(|error| Error::new(Fault::Here, ErrorCode::NoDescriptor, error.to_string()))?;
        self.watch(handle);
        Ok(())
    }

    /// Lets the channels go: the transfer is over and they may live on.
    pub(crate) fn release(&self) {
        lock(&self.0.state).handles.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pool::pool;

    #[test]
    fn whoever_waits_is_told_why_it_was_cancelled() {
        let cancel = Cancel::new();
        assert_eq!(cancel.wait(Duration::ZERO), None);
        let other = cancel.clone();
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        cancel.cancel(Error::new(Fault::You, ErrorCode::Aborted, "enough"));
        let reason = waiting.join().expect("no panic").expect("cancelled");
        assert_eq!((reason.code, cancel.wait(Duration::ZERO)), (ErrorCode::Aborted, Some(reason)));
    }

    #[test]
    fn a_slot_that_was_lost_costs_itself_alone() {
        let mut slots = pool(4, 1).expect("memory");
        slots.remove(1);
        let mut free = FreeSlots::new(slots);
        assert_eq!(free.take(SlotId(3)).map(|slot| slot.index()), Ok(3));
        for lost in [1, 4] {
            assert_eq!(
                free.take(SlotId(lost)).expect_err("nobody has it").code,
                ErrorCode::SlotHeld
            );
        }
        assert_eq!(free.into_slots().len(), 2);
    }
}
