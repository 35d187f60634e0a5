//! The server's end of a control channel, as a machine.

mod ask;
mod channels;
mod config;
mod files;
mod info;
mod login;
mod session;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod transfer;

pub use ask::{Action, Answer, Ask, ExpectedDigest, FilePart, TransferRequest};
pub use config::{Logins, Rights, ServerConfig};
pub use login::{BEARER, is_anonymous};
pub use session::ServerSession;

use super::line::MAX_LINE;
use crate::units::{Bytes, Time};
use session::QUEUE_FULL;

/// What happens to a server session.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The edge answers the ask `id`. Answers to asks that are over are ignored.
    Answer {
        /// The ask's.
        id: u64,
        /// What it says.
        answer: Answer,
    },
    /// The client closed the control connection, or it broke.
    Closed,
    /// The edge ends the session, for this reason: the place is wanted, or the server ends.
    Expelled(&'a str),
    /// The client sent bytes.
    Received(&'a [u8]),
}

/// What a session takes of its client at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionLimit {
    /// The length of a command line.
    CommandLine,
    /// The commands that wait behind a transfer: they are not read until there is room.
    CommandQueue,
}

impl SessionLimit {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            SessionLimit::CommandLine => "command_line",
            SessionLimit::CommandQueue => "command_queue",
        }
    }

    /// What came, and how much there may be of it.
    pub fn what(self) -> String {
        match self {
            SessionLimit::CommandLine => format!("a line of more than {MAX_LINE} bytes is refused"),
            SessionLimit::CommandQueue => {
                format!("{} of commands wait, and no more are read", Bytes(QUEUE_FULL as u64))
            }
        }
    }
}

/// What a server session wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// End the transfer or checksum `id` soon; it still answers.
    Abort {
        /// The ask's.
        id: u64,
    },
    /// Do something and answer with this number. One ask is open at a time.
    Ask {
        /// The ask's number.
        id: u64,
        /// What to do.
        ask: Ask,
    },
    /// Close the control connection after what was sent; the session is over.
    Close,
    /// Close the data channels kept from the last transfer: how they are protected, or the mode,
    /// changed.
    CloseChannels,
    /// The same, and end what [`Ask::Passive`] or [`Ask::Active`] arranged: the transfer that it
    /// was for was refused.
    CloseData,
    /// A limit of the session struck, for its operator to know; the client is told by itself.
    LimitStruck(SessionLimit),
    /// A user was refused before anybody was asked, for this; the client is told by itself.
    LoginRefused(String),
    /// An option of Farline's own came while a transfer runs that is to heed it. It is asked for
    /// again, and replied to, in its turn.
    OptionAtOnce {
        /// The option.
        name: String,
        /// Its value.
        value: String,
    },
    /// What was asked for makes no sense, by this reply, which the client gets by itself: it is out
    /// of order (503), badly formed (501), or of a name that cannot be (553).
    Rejected(String),
    /// Write these bytes to the control connection.
    Send(Vec<u8>),
    /// What was sent so far is in the clear; now do the TLS handshake, and give the session only
    /// what TLS yields. Other bytes that came before the handshake must be thrown away.
    StartTls {
        /// How the client's part of it begins, which came together with its command.
        early: Vec<u8>,
    },
    /// What was sent so far is in the clear; now do the exchange of `ADAT`, and give the session
    /// only what comes protected by it, as lines; send what it says protected too. Bytes that came
    /// before the exchange must be thrown away.
    StartGssapi,
    /// Nothing to do until the next input, or until the time given, when the session is to be
    /// polled again.
    Wait(Option<Time>),
}
