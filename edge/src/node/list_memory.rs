//! How much memory the lists of trees may take, all sessions together: nobody's list of millions of
//! files keeps others from theirs.

use super::notices::Notices;
use crate::stores::{BytesSink, Sink};
use crate::sys::lock::lock;
use farline_core::gridftp::ListingEntry;
use farline_core::transfer::{Entry, Layout};
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of entries that a byte of a manifest's text becomes, about, its text with them.
const OF_TEXT: u64 = 3;
/// Bytes that a node keeps of an entry next to it: its state, its digest, where it starts.
const OF_STATE: u64 = 1 + 16 + 5;
/// The least that an allocation takes.
const OF_ALLOCATION: u64 = 32;

/// The memory of all lists.
#[derive(Debug)]
pub(super) struct ListMemory {
    taken: Mutex<u64>,
    most: u64,
}

/// What one session's list takes of it, given back when it goes.
#[derive(Debug)]
pub(super) struct ListShare {
    memory: Arc<ListMemory>,
    taken: u64,
}

impl ListMemory {
    pub(super) fn new(most: Bytes) -> Arc<ListMemory> {
        Arc::new(ListMemory { taken: Mutex::new(0), most: most.0 })
    }

    /// A list of nothing yet.
    pub(super) fn share(self: &Arc<ListMemory>) -> ListShare {
        ListShare { memory: Arc::clone(self), taken: 0 }
    }
}

impl ListShare {
    /// Takes `bytes` in all.
    ///
    /// # Errors
    /// When that is more than half of what all may take, or others have too much of it.
    pub(super) fn set(&mut self, bytes: u64) -> Result<(), Error> {
        let most = self.memory.most;
        if bytes > most / 2 {
            let message = format!(
                "this list of files takes more than {}, half of what the node has for lists",
                Bytes(most / 2)
            );
            return Err(Error::new(Fault::Refused, ErrorCode::ListMemory, message)
                .hint("copy the tree in parts"));
        }
        let mut all = lock(&self.memory.taken);
        let others = all.saturating_sub(self.taken);
        if others + bytes > most {
            let message = "the node's memory for lists of files is taken by other transfers";
            return Err(Error::new(Fault::Refused, ErrorCode::Busy, message));
        }
        (*all, self.taken) = (others + bytes, bytes);
        Ok(())
    }

    /// Takes what the entries of `layout` take.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(super) fn hold(&mut self, layout: &Layout) -> Result<(), Error> {
        self.set(layout.entries().iter().map(weight).sum())
    }
}

impl Drop for ListShare {
    fn drop(&mut self) {
        let mut all = lock(&self.memory.taken);
        *all = all.saturating_sub(self.taken);
    }
}

/// Bytes that a name of a folder's list takes, before it is looked at.
pub(super) fn weight_of_name(name: &[u8]) -> u64 {
    size_of::<Vec<u8>>() as u64 + (name.len() as u64 + 16).max(OF_ALLOCATION)
}

/// And what is known of it, once it was: what a client is told takes no more.
pub(super) fn weight_of_listed(entry: &ListingEntry) -> u64 {
    let texts = [&entry.permissions, &entry.owner, &entry.group, &entry.unique];
    let texts = texts.into_iter().flatten().count() as u64 * OF_ALLOCATION;
    let link = entry.link.as_ref().map_or(0, |link| weight_of_name(link.as_bytes()));
    size_of::<ListingEntry>() as u64 + texts + link
}

/// A line in the log where `error` says that a list of `client`'s finds no memory.
pub(super) fn say_full(notices: &Notices, client: IpAddr, error: &Error) {
    if matches!(error.code, ErrorCode::ListMemory | ErrorCode::Busy) {
        notices.say("list_memory", format_args!("{client}: {error}"));
    }
}

/// Bytes that an entry of a tree takes, with what a node keeps next to it.
pub(super) fn weight(entry: &Entry) -> u64 {
    let allocated = |len: usize| (len as u64 + 16).max(OF_ALLOCATION);
    let attributes = entry.attributes.as_deref().map_or(0, |attributes| {
        let extended = attributes.extended.iter();
        let extended = extended.map(|(name, value)| allocated(name.len()) + allocated(value.len()));
        let accounts = (attributes.users.len() + attributes.groups.len()) as u64;
        extended.sum::<u64>() + accounts * 2 * OF_ALLOCATION + size_of_val(attributes) as u64
    });
    size_of::<Entry>() as u64 + allocated(entry.path.len()) + OF_STATE + attributes
}

/// Collects a manifest, for whose entries there must be room.
pub(super) struct MeteredList {
    text: BytesSink,
    /// Bytes that came, and what is taken for them: not for those that a sender leaves out.
    came: Mutex<(u64, ListShare)>,
}

impl MeteredList {
    pub(super) fn new(limit: usize, share: ListShare) -> MeteredList {
        MeteredList { text: BytesSink::new(limit), came: Mutex::new((0, share)) }
    }

    pub(super) fn into_parts(self) -> (BytesSink, ListShare) {
        (self.text, self.came.into_inner().unwrap_or_else(PoisonError::into_inner).1)
    }
}

impl Sink for MeteredList {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut came = lock(&self.came);
        let (len, share) = &mut *came;
        *len += bytes.len() as u64;
        share.set(len.saturating_mul(OF_TEXT))?;
        drop(came);
        self.text.write(entry, offset, bytes)
    }
}

#[cfg(test)]
impl ListMemory {
    /// What is taken of it.
    pub(super) fn taken(&self) -> u64 {
        *lock(&self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_half_nor_what_others_have() {
        let memory = ListMemory::new(Bytes(100));
        let (mut one, mut two, mut three) = (memory.share(), memory.share(), memory.share());
        assert_eq!(one.set(51).map_err(|error| error.code), Err(ErrorCode::ListMemory));
        assert_eq!((one.set(50), two.set(40)), (Ok(()), Ok(())));
        assert_eq!(three.set(11).map_err(|error| error.code), Err(ErrorCode::Busy));
        assert_eq!(three.set(10), Ok(()));
        // Who takes less, or goes, leaves room.
        assert_eq!(one.set(30), Ok(()));
        drop(two);
        assert_eq!(three.set(50), Ok(()));
        assert_eq!(*lock(&memory.taken), 80);
    }
}
