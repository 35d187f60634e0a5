//! What a failed work request means: whose fault it is, and what to try.

use crate::units::{Error, ErrorCode, Fault, Setting};
use std::fmt;

/// Why a work request failed: `enum ibv_wc_status` of infiniband/verbs.h, and what becomes of a
/// connection without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaFailure {
    /// The device may not use the memory that this end gave it.
    LocalMemory,
    /// The queue pair was closed, by the peer or because of an earlier failure.
    Flushed,
    /// The peer's device takes no such request: more bytes than its receive has room for, or it
    /// lost track of a message that this end's device began again, which soft-RoCE does.
    RemoteInvalid,
    /// The peer's memory is not open to this write or read: another address, length or key than it
    /// gave, or one that it took back.
    RemoteAccess,
    /// Nobody acknowledges what is sent, however often.
    RetriesExceeded,
    /// The peer posts no receives.
    ReceiverNotReady,
    /// The device failed, was removed, or lost its address.
    Removed,
    /// What is none of these.
    Other(u32),
}

impl RdmaFailure {
    /// What a completion's status says; `None` for success.
    pub fn of_status(status: u32) -> Option<RdmaFailure> {
        Some(match status {
            0 => return None,
            4 | 6 | 8 => RdmaFailure::LocalMemory,
            5 => RdmaFailure::Flushed,
            9 => RdmaFailure::RemoteInvalid,
            10 => RdmaFailure::RemoteAccess,
            12 => RdmaFailure::RetriesExceeded,
            13 => RdmaFailure::ReceiverNotReady,
            19 => RdmaFailure::Removed,
            other => RdmaFailure::Other(other),
        })
    }

    /// Whether what caused it is told by another failure, which comes first or is to be found at
    /// the peer.
    pub fn is_consequence(self) -> bool {
        self == RdmaFailure::Flushed
    }

    /// The error for who asked for the transfer.
    pub fn error(self) -> Error {
        let lost = |fault, code, hint: String| {
            Error::new(fault, code, format!("data connection lost: {self}")).hint(hint)
        };
        match self {
            RdmaFailure::LocalMemory => lost(
                Fault::Bug,
                ErrorCode::RdmaMemory,
                format!("report it; {} tcp goes another way", Setting::Channel),
            ),
            RdmaFailure::Flushed => lost(
                Fault::Between,
                ErrorCode::ChannelLost,
                "the peer stopped or the path broke; run the same command again".to_owned(),
            ),
            RdmaFailure::RemoteInvalid => lost(
                Fault::Between,
                ErrorCode::ChannelLost,
                format!(
                    "run the same command again; with fewer queue pairs ({0} rdma:1) or {0} tcp if \
                     it repeats",
                    Setting::Channel
                ),
            ),
            RdmaFailure::RemoteAccess => lost(
                Fault::There,
                ErrorCode::RdmaAccess,
                format!(
                    "the peer gave a wrong key or took it back too early: run the same command \
                     again, or use {} tcp",
                    Setting::Channel
                ),
            ),
            RdmaFailure::RetriesExceeded => lost(
                Fault::Between,
                ErrorCode::ChannelLost,
                "the peer or the path is gone, or a device on it drops packets of this MTU; run \
                 the same command again"
                    .to_owned(),
            ),
            RdmaFailure::ReceiverNotReady => lost(
                Fault::There,
                ErrorCode::ChannelLost,
                "the peer hangs or breaks clause V-7; run the same command again".to_owned(),
            ),
            RdmaFailure::Removed => lost(
                Fault::Here,
                ErrorCode::RdmaDevice,
                format!(
                    "`rdma link` lists the devices that are left; {} tcp goes without, and the \
                     same command goes on where this one stopped",
                    Setting::Channel
                ),
            ),
            RdmaFailure::Other(_) => lost(
                Fault::Between,
                ErrorCode::ChannelLost,
                format!("run the same command again, or use {} tcp", Setting::Channel),
            ),
        }
    }
}

impl fmt::Display for RdmaFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RdmaFailure::LocalMemory => {
                "the RDMA device may not use the memory that it was given (local protection error)"
            }
            RdmaFailure::Flushed => "it closed before its end-of-data mark",
            RdmaFailure::RemoteInvalid => {
                "the peer's RDMA device takes no such request (remote invalid request)"
            }
            RdmaFailure::RemoteAccess => {
                "the peer's memory is not open to this request (remote access error)"
            }
            RdmaFailure::RetriesExceeded => {
                "the peer acknowledges nothing any more (transport retries exceeded)"
            }
            RdmaFailure::ReceiverNotReady => {
                "the peer has no receives posted (receiver-not-ready retries exceeded)"
            }
            RdmaFailure::Removed => "the RDMA device failed, was removed, or lost its address",
            RdmaFailure::Other(status) => {
                return write!(f, "an RDMA request failed with status {status} of ibv_wc_status");
            }
        })
    }
}

impl std::error::Error for RdmaFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_what_whose_fault_and_what_to_try() {
        for status in 1..24 {
            let failure = RdmaFailure::of_status(status).expect("only 0 is success");
            let error = failure.error();
            assert!(error.message.len() > 30 && error.hint.is_some(), "{error:?}");
        }
        let of = |status| {
            RdmaFailure::of_status(status)
                .map(|failure| (failure.error().fault, failure.error().code))
        };
        assert_eq!(RdmaFailure::of_status(0), None);
        assert_eq!(of(10), Some((Fault::There, ErrorCode::RdmaAccess)));
        assert_eq!(of(12), Some((Fault::Between, ErrorCode::ChannelLost)));
        assert_eq!(of(13), Some((Fault::There, ErrorCode::ChannelLost)));
        assert_eq!(of(19), Some((Fault::Here, ErrorCode::RdmaDevice)));
    }
}
