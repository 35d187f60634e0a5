//! The program's end of a UDT connection.

use super::super::Handle;
use super::super::handle::{ConnectionControl, FlowState, YieldedPart};
use super::super::ordered::ByteStream;
use super::pipe::Pipe;
use crate::sys::tcp::TcpInfo;
use bytes::{Buf, Bytes as Shared};
use farline_core::congestion::{ControlName, SavedPath};
use farline_core::udt::RateAlgorithm;
use farline_core::units::{Bytes, Span};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::ReadBuf;

/// How long an end that closes waits for its farewell to be said: the process may end next.
const FAREWELL: Duration = Duration::from_millis(200);

/// A connected stream of ordered bytes over UDT.
#[derive(Debug)]
pub struct UdtStream {
    pipe: Arc<Pipe>,
    control: &'static str,
    /// What came and was not read yet, and how many packets of it were.
    ready: VecDeque<Shared>,
    read: u64,
    expected: usize,
    is_refused: bool,
    /// Whether its handshake showed that it is of its port's session.
    is_known: bool,
    /// Whether it waits for its farewell when it goes. One that was accepted may be dropped on a
    /// thread that has others to serve, and its process goes on.
    waits: bool,
}

impl UdtStream {
    /// One that this end asked for, and `waits` to say farewell, or one that was accepted.
    pub(super) fn new(pipe: Arc<Pipe>, control: &'static str, waits: bool) -> UdtStream {
        let ready = VecDeque::new();
        let (is_refused, is_known) = (false, false);
        UdtStream { pipe, control, ready, read: 0, expected: 1, is_refused, is_known, waits }
    }

    /// The same, of which it is known that it is of its port's session, or not.
    #[must_use]
    pub(super) fn known(mut self, is_known: bool) -> UdtStream {
        self.is_known = is_known;
        self
    }

    /// Whether its handshake showed that it is of its port's session. What it carries has to show
    /// the key all the same: who sees handshakes on their way can say what they say.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// What it carried has shown that it is of its port's session.
    pub(super) fn prove(&self) {
        self.pipe.prove();
    }

    /// Reads what is there into `into`, without waiting for it.
    pub(super) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ready.is_empty() {
            let Poll::Ready(came) = self.pipe.poll_read(cx, std::mem::take(&mut self.read)) else {
                return Poll::Pending;
            };
            self.ready = came?;
        }
        let filled = self.fill(into.initialize_unfilled());
        into.advance(filled);
        Poll::Ready(Ok(()))
    }

    /// Writes as much of `bytes` as there is room for.
    pub(super) fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.pipe.poll_room(cx) {
            true => Poll::Ready(self.write(bytes)),
            false => Poll::Pending,
        }
    }

    /// Ends it at once: who is at its other end is nobody who is wanted.
    pub(super) fn refuse(mut self) {
        self.is_refused = true;
        self.pipe.refuse();
    }

    /// Moves what is ready into `into`.
    fn fill(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < into.len()
            && let Some(next) = self.ready.front_mut()
        {
            let len = next.len().min(into.len() - filled);
            next.copy_to_slice(&mut into[filled..filled + len]);
            filled += len;
            if next.is_empty() {
                self.ready.pop_front();
                self.read += 1;
            }
        }
        filled
    }
}

impl Read for UdtStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        if self.ready.is_empty() {
            self.ready = self.pipe.read(self.expected, std::mem::take(&mut self.read))?;
        }
        Ok(parts.iter_mut().map(|part| self.fill(part)).sum())
    }
}

impl Write for UdtStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pipe.write(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for UdtStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::new(UdtControl(Arc::clone(&self.pipe), self.control)))
    }

    fn congestion(&self) -> Option<ControlName> {
        ControlName::from_kernel(self.control.as_bytes())
    }

    fn expect(&mut self, len: usize) {
        // Half: what is left after a read that took less must be enough for the next one.
        self.expected = (len / 2).max(1);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.pipe.finish();
        Ok(())
    }
}

impl Drop for UdtStream {
    fn drop(&mut self) {
        if self.is_refused {
            return;
        }
        self.pipe.close();
        if self.waits {
            self.pipe.wait_for_end(FAREWELL);
        }
    }
}

/// What another thread may do with a connection.
#[derive(Debug)]
struct UdtControl(Arc<Pipe>, &'static str);

impl ConnectionControl for UdtControl {
    fn rtt(&self) -> Option<Span> {
        self.0.rtt()
    }

    fn break_now(&self) {
        self.0.abort();
    }

    fn flow(&self) -> Option<FlowState> {
        Some(self.0.flow())
    }

    fn queue_at_most(&self, len: Bytes) {
        self.0.queue_at_most(len.0);
    }

    fn resume(&self, saved: SavedPath) -> bool {
        // The others have no slow start, or do not give way soon enough.
        let can = self.1 == RateAlgorithm::Native.name();
        if can {
            self.0.resume(saved);
        }
        can
    }

    fn yielded(&self) -> Option<YieldedPart> {
        self.0.yielded().map(YieldedPart::from)
    }

    fn congestion(&self) -> Option<ControlName> {
        ControlName::from_kernel(self.1.as_bytes())
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(timeout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipe::Waker;
    use super::*;
    use std::time::Instant;

    /// How long it takes to drop one whose peer is never heard of, at the least of three.
    fn shortest_drop(waits: bool) -> Duration {
        let drops = (0..3).map(|_| {
            let waker = Arc::new(Waker::new().expect("a way to wake"));
            let stream = UdtStream::new(Arc::new(Pipe::new(waker, 1 << 20)), "native", waits);
            let began = Instant::now();
            drop(stream);
            began.elapsed()
        });
        drops.min().expect("three")
    }

    #[test]
    fn only_who_asked_for_a_connection_waits_for_its_farewell() {
        assert!(shortest_drop(true) >= FAREWELL);
        assert!(shortest_drop(false) < FAREWELL);
    }
}
