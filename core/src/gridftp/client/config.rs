//! What a client's session is given at its beginning.

use crate::units::Span;
use std::net::IpAddr;

/// How far commands are sent without waiting for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipelining {
    /// Not at all: as RFC 959 has it.
    None,
    /// Commands, but a transfer waits for all before it and all wait for it.
    Commands,
    /// Transfers too.
    Transfers,
}

/// The least that a peer has to send within an idle timeout not to be taken for silent: who sends
/// less, as 140 bit/s with a timeout of a minute, holds its client up and moves nothing.
pub const LEAST_PROGRESS: u64 = 1 << 10;

/// A client's side of the conversation.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server's address, which EPSV replies leave out.
    pub host: Option<IpAddr>,
    /// How far to pipeline. By default as FEAT tells: transfers with Farline, commands with GridFTP
    /// servers, else nothing.
    pub pipelining: Option<Pipelining>,
    /// Whether the server is known to be Farline before it says so: the login does not wait for its
    /// greeting, which saves a round trip, and any other server is an error.
    pub known_farline: bool,
    /// How long a reply may take; transfers and checksums may take any time. Default: 60 s.
    pub reply_timeout: Span,
    /// What SITE CLIENTINFO tells the server for its log; nothing by default.
    pub client_info: Option<String>,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            host: None,
            pipelining: None,
            known_farline: false,
            reply_timeout: Span::from_secs(60),
            client_info: None,
        }
    }
}
