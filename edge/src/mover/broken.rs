//! What a data connection that broke, or a thread that cannot start, is called.

use crate::channels::{Channel, Handle, told};
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;

/// A data connection that broke, in words.
pub(super) fn broken(error: &io::Error) -> Error {
    if let Some(told) = told(error) {
        return told.clone();
    }
    match error.kind() {
        io::ErrorKind::InvalidData => {
            Error::new(Fault::There, ErrorCode::ModeEBroken, format!("data connection: {error}"))
        }
        _ => Error::new(
            Fault::Between,
            ErrorCode::ChannelLost,
            format!("data connection lost: {error}"),
        )
        .hint("the peer stopped or the path broke; run the same command again"),
    }
}

/// Breaks a channel by a reset: a peer whose window is full hears of nothing else.
pub(crate) fn reset(channel: &dyn Channel) {
    channel.handle().iter().for_each(Handle::break_now);
}

pub(super) fn no_thread(error: &io::Error) -> Error {
    Error::new(Fault::Here, ErrorCode::NoThread, format!("cannot start a thread: {error}"))
        .hint("raise the limit of processes (ulimit -u)")
}
