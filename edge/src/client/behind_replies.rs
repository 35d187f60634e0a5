//! A connection whose other end says a few lines in the clear before it goes on in TLS: the
//! client's part of the handshake need not wait for them.

use crate::channels::trust::Duplex;
use crate::sys::lock::lock;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of lines at most: a greeting and a reply.
const MOST_LINES: usize = 16 * 1024;

/// What reads as if the lines were not there. They are in `lines`, as far as they came.
pub(super) struct BehindReplies {
    stream: Box<dyn Duplex>,
    lines: Arc<Mutex<Vec<u8>>>,
    /// Last lines of replies that are still to come.
    replies: usize,
    /// What came behind the last one.
    rest: Vec<u8>,
}

impl BehindReplies {
    /// Of `stream`, on which so many replies come first; and where their lines will be.
    pub(super) fn new(
        stream: Box<dyn Duplex>,
        replies: usize,
    ) -> (BehindReplies, Arc<Mutex<Vec<u8>>>) {
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        (BehindReplies { stream, lines: Arc::clone(&lines), replies, rest: Vec::new() }, lines)
    }

    /// Takes in what came while there are replies to come; an error when one of them is no good
    /// news, or there are too many lines.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut lines = lock(&self.lines);
        for (at, byte) in bytes.iter().enumerate() {
            lines.push(*byte);
            if *byte != b'\n' {
                continue;
            }
            let line = lines[..lines.len() - 1].rsplit(|byte| *byte == b'\n').next();
            match line {
                // RFC 959, section 4.2: the last line of a reply has a space behind its code, and
                // the first digit of what goes on is a 2.
                Some([b'2', b'0'..=b'9', b'0'..=b'9', b' ', ..]) => self.replies -= 1,
                Some([b'1'..=b'9', b'0'..=b'9', b'0'..=b'9', b' ', ..]) => {
                    // What follows belongs to it.
                    lines.extend(&bytes[at + 1..]);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                _ => {}
            }
            if self.replies == 0 {
                self.rest = bytes[at + 1..].to_vec();
                return Ok(());
            }
        }
        match lines.len() <= MOST_LINES {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl AsyncRead for BehindReplies {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.replies > 0 {
            let mut came = [0; 4096];
            let mut came = ReadBuf::new(&mut came);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut came))?;
            if came.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.take(came.filled())?;
        }
        if self.rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let len = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest[..len]);
        self.rest.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BehindReplies {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn read(said: &[u8], pieces: usize) -> (io::Result<Vec<u8>>, Vec<u8>) {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (mut behind, lines) = BehindReplies::new(Box::new(near), 2);
        let telling = async {
            for piece in said.chunks(pieces) {
                far.write_all(piece).await.expect("room");
                tokio::task::yield_now().await;
            }
            drop(far);
        };
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(behind.read_to_end(&mut got), telling);
        let lines = lock(&lines).clone();
        (read.map(|_| got), lines)
    }

    #[tokio::test]
    async fn lines_go_first_and_the_rest_is_read() {
        let lines = b"220-Hello\r\n220 Farline\r\n234 Proceed\r\n";
        for pieces in [1, 7, 1_000] {
            let said = [&lines[..], b"\x16\x03 500 \n no line"].concat();
            let (got, told) = read(&said, pieces).await;
            assert_eq!(got.expect("bytes"), b"\x16\x03 500 \n no line");
            assert_eq!(told, lines);
        }
    }

    #[tokio::test]
    async fn a_refusal_ends_it_and_stays_to_be_read() {
        for said in
            [&b"421 Too many sessions\r\n"[..], b"220 Hi\r\n504 AUTH TLS is not offered.\r\n"]
        {
            for pieces in [1, 1_000] {
                let (got, told) = read(said, pieces).await;
                assert_eq!(got.expect_err("a refusal").kind(), io::ErrorKind::ConnectionAborted);
                assert_eq!(told, said);
            }
        }
        let (got, told) = read(b"220 Hi\r\n23", 1_000).await;
        assert_eq!(got.expect_err("an end").kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(told, b"220 Hi\r\n23");
        let (got, _) = read(&vec![b'x'; MOST_LINES + 10], 1_000).await;
        assert_eq!(got.expect_err("no reply").kind(), io::ErrorKind::InvalidData);
    }
}
