//! The client's end of a control channel, as a machine.

mod config;
mod features;
mod replies;
mod request;
mod session;
mod steps;
#[cfg(test)]
mod tests;

pub use config::{ClientConfig, LEAST_PROGRESS, Pipelining};
pub use features::PeerFeatures;
pub use request::{Event, Request, Transfer, TransferKind};
pub use session::ClientSession;

use crate::units::Time;

/// What happens to a client session.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The edge gives up the request `id`. One that was not sent yet is dropped; a transfer that
    /// was is ended with ABOR, and so are those pipelined around it. It still ends with `Done` or
    /// `Failed`.
    Abort {
        /// The request's.
        id: u64,
    },
    /// The server closed the control connection, or it broke.
    Closed,
    /// The server sent bytes.
    Received(&'a [u8]),
    /// The edge wants something. Requests are sent in the order they are given, without waiting
    /// where that is safe.
    Request {
        /// A number of the edge's choice, for the events.
        id: u64,
        /// What.
        request: Request,
    },
}

/// What a client session wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Close the control connection: the session is over, and every request has ended.
    Close,
    /// Something happened to the request `id`. The last event of each is `Done` or `Failed`.
    Event {
        /// The request's.
        id: u64,
        /// What happened.
        event: Event,
    },
    /// Write these bytes to the control connection.
    Send(Vec<u8>),
    /// Nothing to do until the next input, or until the time given, when the session is to be
    /// polled again.
    Wait(Option<Time>),
}
