//! The node's end of a layer's handshake as a machine: bytes in, bytes out, so that it costs a task
//! where there is a runtime, and a thread only where there is none.

use super::ordered::ByteStream;
use super::pending::Steps;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The node's end of a handshake.
pub trait Handshake: Send {
    /// Takes what came; returns what is to be sent.
    ///
    /// # Errors
    /// When the peer breaks the layer's protocol, or is not of the session.
    fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>>;

    /// Whether it is over.
    fn is_done(&self) -> bool;

    /// The layer over `below`, once the handshake is over.
    ///
    /// # Errors
    /// When it is not.
    fn over(self: Box<Self>, below: Box<dyn ByteStream>) -> io::Result<Box<dyn ByteStream>>;
}

/// Does a handshake over `stream`, which its caller ends where that takes too long; `steps` counts
/// what this end had something to say to.
///
/// # Errors
/// As [`Handshake::take`], or when the connection ends.
pub(super) async fn shake_hands_in_task(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    handshake: &mut (impl Handshake + ?Sized),
    steps: &Steps,
) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while !handshake.is_done() {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply = handshake.take(&buffer[..read])?;
        if !reply.is_empty() {
            steps.step();
        }
        stream.write_all(&reply).await?;
    }
    Ok(())
}

/// Does a handshake over `below`, however its peer cuts it into pieces `within` so long.
///
/// # Errors
/// As [`Handshake::take`], or when the time is over.
pub(super) fn shake_hands(
    below: &mut impl ByteStream,
    handshake: &mut (impl Handshake + ?Sized),
    within: Duration,
) -> io::Result<()> {
    let (handle, deadline) = (below.handle()?, Instant::now() + within);
    let mut buffer = [0; 4096];
    while !handshake.is_done() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        handle.set_read_timeout(Some(left))?;
        let read = below.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply = handshake.take(&buffer[..read])?;
        below.write_all(&reply)?;
    }
    handle.set_read_timeout(None)
}
