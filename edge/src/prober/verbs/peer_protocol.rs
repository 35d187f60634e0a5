//! What the ends of a measurement of verbs say to each other: one JSON value a line, over a socket.

use crate::prober::TIMEOUT;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The longest line: parameters of 255 queue pairs have a few thousand characters.
const MOST: u64 = 1 << 16;

pub(super) struct PeerProtocol {
    stream: BufReader<TcpStream>,
}

impl PeerProtocol {
    /// Over `stream`, on which the peer may be silent for `longest` in addition to the usual
    /// patience.
    pub(super) fn over(stream: TcpStream, longest: Duration) -> io::Result<PeerProtocol> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(longest + TIMEOUT))?;
        Ok(PeerProtocol { stream: BufReader::new(stream) })
    }

    pub(super) fn say(&mut self, what: &impl Serialize) -> Result<(), Error> {
        let mut line = serde_json::to_vec(what)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileEnd, error.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| gone(&error))
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        match (&mut self.stream).take(MOST).read_line(&mut line) {
            Ok(0) => Err(gone(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| {
                Error::new(
                    Fault::There,
                    ErrorCode::ProfileEnd,
                    format!("the other end of the measurement says what makes no sense: {error}"),
                )
                .hint("another version of Farline?")
            }),
            Err(error) => Err(gone(&error)),
        }
    }

    /// Says `what` and hears the same kind of thing.
    pub(super) fn swap<T: Serialize + DeserializeOwned>(&mut self, what: &T) -> Result<T, Error> {
        self.say(what)?;
        self.hear()
    }

    /// Whether the peer has said something, or is gone.
    pub(super) fn has_news(&self) -> bool {
        let mut watched = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        !self.stream.buffer().is_empty()
            || poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for PeerProtocol {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

fn gone(error: &io::Error) -> Error {
    Error::new(
        Fault::Between,
        ErrorCode::ProfileSilent,
        format!("the other end of the measurement says nothing: {error}"),
    )
    .hint("is the path up? `ping` the other end")
}
