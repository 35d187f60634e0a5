//! How much memory an RDMA device may be given: what a process may lock, less what it has locked.

use super::{EndpointSettings, Record};
use crate::units::{Bytes, Error, ErrorCode, Fault, Setting};

/// What a process may lock of memory for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockable {
    /// Its limit; `None` is without one.
    pub limit: Option<Bytes>,
    /// What its devices have of that already, over all its sessions.
    pub pinned: Bytes,
}

impl Lockable {
    /// What is left; `None` is without limit.
    pub fn room(&self) -> Option<Bytes> {
        Some(Bytes(self.limit?.0.saturating_sub(self.pinned.0)))
    }

    /// The error of a registration of `wanted` bytes that was refused, or would be.
    pub fn refuses(&self, wanted: Bytes) -> Error {
        let limit =
            self.limit.map_or("without limit".to_owned(), |limit| format!("{limit} at most"));
        let beside =
            if self.pinned.0 > 0 { format!(", and {} is", self.pinned) } else { String::new() };
        let message = format!(
            "RDMA needs {wanted} of memory locked for its device; this process may lock \
             {limit}{beside}"
        );
        Error::new(Fault::Here, ErrorCode::LockedMemory, message).hint(format!(
            "raise the limit (`ulimit -l unlimited`, or memlock in /etc/security/limits.d), lower \
             {}, or use {} tcp",
            Setting::Staging,
            Setting::Channel
        ))
    }
}

impl EndpointSettings {
    /// Bytes that the device is to use of a channel whose slots have `slot_len` each, when all its
    /// credits are given.
    pub fn memory(&self, slot_len: Bytes) -> Bytes {
        let records =
            usize::from(self.queue_pairs) * (self.sends() + self.receives()) * Record::BUFFER_LEN;
        Bytes(u64::from(self.credits) * slot_len.0 + records as u64)
    }

    /// The same channel with as many credits, or as many fewer as may be locked, but for no fewer
    /// than `begin`.
    ///
    /// # Errors
    /// When not even those may be locked: with what to do.
    pub fn lockable(
        self,
        begin: u16,
        slot_len: Bytes,
        lockable: &Lockable,
    ) -> Result<EndpointSettings, Error> {
        let Some(room) = lockable.room() else { return Ok(self) };
        let begin = begin.min(self.credits);
        let fewer =
            (begin..=self.credits).rev().map(|credits| EndpointSettings { credits, ..self });
        let fit = fewer.into_iter().find(|settings| settings.memory(slot_len) <= room);
        fit.ok_or_else(|| {
            lockable.refuses(EndpointSettings { credits: begin, ..self }.memory(slot_len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::Placement;

    const CHANNEL: EndpointSettings = EndpointSettings {
        queue_pairs: 1,
        credits: 200,
        placement: Placement::Immediate,
        connected: true,
    };

    #[test]
    fn too_low_a_limit_is_told_with_all_numbers_and_what_to_do() {
        let lockable = Lockable { limit: Some(Bytes(64 << 10)), pinned: Bytes(0) };
        let error = CHANNEL.lockable(8, Bytes::mib(1), &lockable).expect_err("too little");
        assert_eq!((error.code, error.fault), (ErrorCode::LockedMemory, Fault::Here));
        assert!(error.message.contains("this process may lock 64 KiB at most"), "{error}");
        assert!(error.hint.is_some_and(|hint| hint.contains("ulimit -l")));
        let said = Lockable { pinned: Bytes::mib(3), ..lockable }.refuses(Bytes::mib(8)).message;
        assert!(said.contains("8 MiB of memory") && said.ends_with("and 3 MiB is"), "{said}");
    }

    #[test]
    fn a_channel_gets_the_credits_that_may_be_locked_now() {
        let credits = |limit, pinned| {
            let lockable = Lockable { limit, pinned };
            CHANNEL
                .lockable(8, Bytes::mib(1), &lockable)
                .map(|fit| (fit.credits, fit.memory(Bytes::mib(1))))
        };
        assert_eq!(credits(None, Bytes::mib(1 << 20)).map(|fit| fit.0), Ok(200));
        let (alone, memory) = credits(Some(Bytes::mib(64)), Bytes(0)).expect("it fits");
        assert!((60..64).contains(&alone) && memory <= Bytes::mib(64), "{alone} credits");
        let (beside, memory) = credits(Some(Bytes::mib(64)), Bytes::mib(40)).expect("it fits");
        assert!((20..24).contains(&beside) && memory <= Bytes::mib(24), "{beside} credits");
        assert!(credits(Some(Bytes::mib(64)), Bytes::mib(60)).is_err());
    }
}
