//! What an identity may store in a day, by UTC: bytes and files, all its sessions together.
//!
//! Counted in the node's memory: a node that starts anew counts anew.

use crate::identity::IdentityLimits;
use crate::stores::Sink;
use crate::sys::lock::lock;
use farline_core::transfer::PieceDigest;
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const DAY: u64 = 24 * 60 * 60;

/// The accounts of all identities with such a limit.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<HashMap<String, Arc<Quota>>>);

/// One identity's account.
#[derive(Debug)]
pub(super) struct Quota {
    bytes: Option<u64>,
    files: Option<u64>,
    taken: Mutex<Taken>,
}

/// What was taken of a day, with what may yet be given back.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Since 1970.
    day: u64,
    bytes: u64,
    files: u64,
}

/// What one transfer takes of an account; what it does not keep is given back when it goes.
#[derive(Debug)]
pub(super) struct QuotaShare {
    quota: Arc<Quota>,
    held: Mutex<Taken>,
}

impl Quotas {
    /// The account of `name`, if `limits` say that there is one; `now` is in seconds since 1970.
    pub(super) fn of(&self, name: &str, limits: &IdentityLimits, now: u64) -> Option<Arc<Quota>> {
        let IdentityLimits { bytes_per_day, files_per_day, .. } = limits;
        if bytes_per_day.is_none() && files_per_day.is_none() {
            return None;
        }
        let mut all = lock(&self.0);
        if let Some(quota) = all.get(name) {
            return Some(Arc::clone(quota));
        }
        // Bearers of tokens come and go; who stored nothing today has nothing to remember.
        all.retain(|_, quota| Arc::strong_count(quota) > 1 || lock(&quota.taken).is_of(now));
        let quota = Arc::new(Quota {
            bytes: bytes_per_day.map(|bytes| bytes.0),
            files: *files_per_day,
            taken: Mutex::default(),
        });
        all.insert(name.to_owned(), Arc::clone(&quota));
        Some(quota)
    }
}

impl Taken {
    fn is_of(&self, now: u64) -> bool {
        self.day == now / DAY
    }
}

impl Quota {
    /// Takes `bytes` and `files` of the day of `now`, in seconds since 1970.
    ///
    /// # Errors
    /// When that is more than is left of it.
    pub(super) fn take(
        self: &Arc<Quota>,
        bytes: u64,
        files: u64,
        now: u64,
    ) -> Result<QuotaShare, Error> {
        let day = now / DAY;
        self.add(day, bytes, files)?;
        Ok(QuotaShare { quota: Arc::clone(self), held: Mutex::new(Taken { day, bytes, files }) })
    }

    fn add(&self, day: u64, bytes: u64, files: u64) -> Result<(), Error> {
        let mut taken = lock(&self.taken);
        // A clock that was set back gives nobody a new day.
        if day > taken.day {
            *taken = Taken { day, ..Taken::default() };
        }
        let exceeded = |message: String| {
            Error::new(Fault::Refused, ErrorCode::QuotaExceeded, message)
                .hint("a new day begins at 00:00 UTC; the node's operator sets the limit")
        };
        if let Some(most) = self.bytes.filter(|&most| bytes > most.saturating_sub(taken.bytes)) {
            let (most, taken, more) = (Bytes(most), Bytes(taken.bytes), Bytes(bytes));
            return Err(exceeded(format!(
                "you may store {most} in a day, of which {taken} are taken: {more} more do not fit"
            )));
        }
        if let Some(most) = self.files.filter(|&most| files > most.saturating_sub(taken.files)) {
            let taken = taken.files;
            return Err(exceeded(format!(
                "you may store {most} files in a day, of which {taken} are taken: {files} more do \
                 not fit"
            )));
        }
        taken.bytes += bytes;
        taken.files += files;
        Ok(())
    }

    fn give_back(&self, held: Taken) {
        let mut taken = lock(&self.taken);
        if taken.day == held.day {
            taken.bytes = taken.bytes.saturating_sub(held.bytes);
            taken.files = taken.files.saturating_sub(held.files);
        }
    }

    /// Whether files are counted.
    pub(super) fn counts_files(&self) -> bool {
        self.files.is_some()
    }
}

impl QuotaShare {
    /// Takes more bytes, of the day on which the transfer began.
    ///
    /// # Errors
    /// When there are no more.
    fn more(&self, bytes: u64) -> Result<(), Error> {
        let mut held = lock(&self.held);
        // Past midnight what comes is the new day's, and what came before is not given back.
        let day = lock(&self.quota.taken).day.max(held.day);
        self.quota.add(day, bytes, 0)?;
        if day > held.day {
            *held = Taken { day, ..Taken::default() };
        }
        held.bytes += bytes;
        Ok(())
    }

    /// So much of it has been stored for good.
    pub(super) fn keep(&self, bytes: u64, files: u64) {
        let mut held = lock(&self.held);
        held.bytes = held.bytes.saturating_sub(bytes);
        held.files = held.files.saturating_sub(files);
    }

    /// All of it has.
    pub(super) fn keep_all(&self) {
        self.keep(u64::MAX, u64::MAX);
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.quota.give_back(*lock(&self.held));
    }
}

/// Another sink, each byte of which is taken of a share: for what nobody knows the length of.
pub(super) struct QuotaSink<'a> {
    pub(super) sink: &'a dyn Sink,
    pub(super) share: &'a QuotaShare,
}

impl Sink for QuotaSink<'_> {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.share.more(bytes.len() as u64)?;
        self.sink.write(entry, offset, bytes)
    }

    fn write_zeros(&self, entry: usize, offset: u64, len: u64) -> Result<(), Error> {
        self.share.more(len)?;
        self.sink.write_zeros(entry, offset, len)
    }

    fn wants_order(&self) -> bool {
        self.sink.wants_order()
    }

    fn journals(&self) -> bool {
        self.sink.journals()
    }

    fn durable(&self) -> ByteRanges {
        self.sink.durable()
    }

    fn landed(&self) -> Option<u64> {
        self.sink.landed()
    }

    fn record(&self, block: &[PieceDigest]) {
        self.sink.record(block);
    }

    fn checkpoint(&self) {
        self.sink.checkpoint();
    }
}

#[cfg(test)]
impl Quota {
    /// Bytes and files that are taken of the day.
    pub(super) fn taken(&self) -> (u64, u64) {
        let taken = lock(&self.taken);
        (taken.bytes, taken.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 20_000 * DAY + DAY / 2;

    fn limits(bytes: u64, files: u64) -> IdentityLimits {
        IdentityLimits {
            bytes_per_day: Some(Bytes(bytes)),
            files_per_day: Some(files),
            ..IdentityLimits::default()
        }
    }

    #[test]
    fn what_is_not_kept_of_a_day_is_given_back() {
        let quotas = Quotas::default();
        assert!(quotas.of("free", &IdentityLimits::default(), NOON).is_none());
        let quota = quotas.of("alice", &limits(100, 3), NOON).expect("a limit");
        let first = quota.take(60, 1, NOON).expect("it fits");
        for (bytes, files, why) in [(41, 0, "41 B more"), (0, 3, "3 more do not fit")] {
            let refused = quota.take(bytes, files, NOON).expect_err(why);
            assert_eq!((refused.code, refused.fault), (ErrorCode::QuotaExceeded, Fault::Refused));
            assert!(refused.message.contains(why), "{refused}");
        }
        first.keep(20, 0);
        drop(first);
        // Whoever asks again by that name has the same account.
        drop(quota);
        let quota = quotas.of("alice", &limits(100, 3), NOON).expect("a limit");
        quota.take(80, 3, NOON).expect("20 are taken, and no file").keep_all();
        assert!(quota.take(1, 0, NOON).is_err());
        assert!(quotas.of("bob", &limits(1, 1), NOON).expect("a limit").take(1, 1, NOON).is_ok());
    }

    #[test]
    fn a_new_day_begins_anew_and_a_clock_set_back_does_not() {
        let quota = Quotas::default().of("alice", &limits(100, 3), NOON).expect("a limit");
        let old = quota.take(100, 3, NOON).expect("it fits");
        assert!(quota.take(1, 0, NOON - DAY).is_err(), "yesterday's is not there again");
        let new = quota.take(100, 3, NOON + DAY).expect("a new day");
        drop(old);
        assert!(quota.take(1, 0, NOON + DAY).is_err(), "what the old day gives back is its own");
        drop(new);
        quota.take(100, 3, NOON + DAY).expect("all of it");
    }

    #[test]
    fn bytes_without_an_announced_number_count_as_they_come() {
        let quota = Quotas::default().of("alice", &limits(100, 3), NOON).expect("a limit");
        let (inner, share) = (crate::stores::BytesSink::new(1_000), quota.take(0, 1, NOON));
        let share = share.expect("it fits");
        let sink = QuotaSink { sink: &inner, share: &share };
        sink.write(0, 0, &[0; 90]).expect("it fits");
        let refused = sink.write(0, 90, &[0; 11]).expect_err("101 bytes");
        assert_eq!(refused.code, ErrorCode::QuotaExceeded);
        drop(share);
        quota.take(100, 3, NOON).expect("what failed is given back");
    }
}
