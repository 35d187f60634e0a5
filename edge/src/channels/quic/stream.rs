//! One bidirectional stream of a QUIC connection as a connected stream of ordered bytes.

use super::congestion::Meter;
use super::tasks::Tasks;
use crate::channels::Handle;
use crate::channels::handle::{ConnectionControl, FlowState, YieldedPart};
use crate::channels::ordered::ByteStream;
use crate::sys::lock::lock;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::{Algorithm, ControlName, SavedPath};
use farline_core::units::Span;
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// What a stream that was broken off is reset with.
const BROKEN: VarInt = VarInt::from_u32(1);

/// How long what was sent may take to arrive after its stream was dropped.
const LINGER: Duration = Duration::from_secs(30);

/// A stream; both ends of it may be used by one thread at a time.
pub(super) struct QuicStream {
    shared: Arc<Shared>,
}

/// What a stream shares with those who look at it from other threads.
struct Shared {
    connection: Connection,
    tasks: Arc<Tasks>,
    meter: Arc<Meter>,
    control: Algorithm,
    timeout: Mutex<Option<Duration>>,
    broken: watch::Sender<bool>,
    /// Held by who waits in the stream.
    halves: Mutex<Halves>,
}

struct Halves {
    send: SendStream,
    recv: RecvStream,
    broken: watch::Receiver<bool>,
}

impl Halves {
    /// Tells the other end that neither direction goes on.
    fn reset(&mut self) {
        // A direction that has ended is as good as broken.
        let _ = self.send.reset(BROKEN);
        let _ = self.recv.stop(BROKEN);
    }
}

impl QuicStream {
    /// Of `connection`, under this congestion control.
    pub(super) fn new(
        connection: Connection,
        (send, recv): (SendStream, RecvStream),
        tasks: Arc<Tasks>,
        meter: Arc<Meter>,
        control: Algorithm,
    ) -> QuicStream {
        let (broken, is_broken) = watch::channel(false);
        let halves = Mutex::new(Halves { send, recv, broken: is_broken });
        let timeout = Mutex::default();
        let shared = Shared { connection, tasks, meter, control, timeout, broken, halves };
        QuicStream { shared: Arc::new(shared) }
    }
}

impl Shared {
    /// Waits for `work` on the two halves, but not when the stream is broken off, and no longer
    /// than `timeout`.
    fn wait<T, F: AsyncFnOnce(&mut SendStream, &mut RecvStream) -> io::Result<T>>(
        &self,
        timeout: Option<Duration>,
        work: F,
    ) -> io::Result<T> {
        let mut halves = lock(&self.halves);
        let Halves { send, recv, broken } = &mut *halves;
        let work = async {
            // What is there already is taken without a look at the rest.
            tokio::select! {
                biased;
                result = work(send, recv) => result,
                _ = broken.wait_for(|is_broken| *is_broken) => {
                    Err(io::ErrorKind::ConnectionReset.into())
                }
            }
        };
        let result = self.tasks.wait(limited(timeout, work)).flatten();
        if *self.broken.borrow() {
            halves.reset();
        }
        result
    }
}

/// `work`, which may take so long.
async fn limited<T>(
    timeout: Option<Duration>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match timeout {
        None => work.await,
        Some(timeout) => tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::WouldBlock.into())),
    }
}

impl Read for QuicStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let timeout = *lock(&self.shared.timeout);
        self.shared.wait(timeout, async |_, recv| {
            recv.read(into).await.map(|read| read.unwrap_or(0)).map_err(unreadable)
        })
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match parts.iter_mut().find(|part| !part.is_empty()) {
            Some(part) => self.read(part),
            None => Ok(0),
        }
    }
}

impl Write for QuicStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(window) = self.shared.meter.new_send_window() {
            self.shared.connection.set_send_window(window);
        }
        self.shared.wait(None, async |send, _| send.write(bytes).await.map_err(unwritable))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // A block's header is short: it goes alone, and leaves with the payload that follows.
        match parts.iter().find(|part| !part.is_empty()) {
            Some(part) => self.write(part),
            None => Ok(0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for QuicStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::new(OfStream(Arc::clone(&self.shared))))
    }

    fn congestion(&self) -> Option<ControlName> {
        Some(self.shared.control.into())
    }

    fn finish(&mut self) -> io::Result<()> {
        lock(&self.shared.halves).send.finish().map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        let mut halves = lock(&self.shared.halves);
        if *self.shared.broken.borrow() {
            return halves.reset();
        }
        // A connection closes with its last handle, and would take along what is still on its way.
        let _ = halves.send.finish();
        let (arrived, connection) = (halves.send.stopped(), self.shared.connection.clone());
        if let Ok(tasks) = self.shared.tasks.handle() {
            tasks.spawn(async move {
                let _ = tokio::time::timeout(LINGER, arrived).await;
                drop(connection);
            });
        }
    }
}

impl fmt::Debug for QuicStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuicStream({})", self.shared.connection.stable_id())
    }
}

/// The stream as another thread sees it.
struct OfStream(Arc<Shared>);

impl fmt::Debug for OfStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OfStream({})", self.0.connection.stable_id())
    }
}

impl ConnectionControl for OfStream {
    fn rtt(&self) -> Option<Span> {
        self.0.meter.least_rtt()
    }

    fn break_now(&self) {
        self.0.broken.send_replace(true);
        // Who waits in the stream resets it, since the lock is theirs.
        if let Ok(mut halves) = self.0.halves.try_lock() {
            halves.reset();
        }
    }

    fn flow(&self) -> Option<FlowState> {
        Some(self.0.meter.flow())
    }

    fn resume(&self, saved: SavedPath) -> bool {
        // BBR does not give way soon enough where the path became slower; a held rate needs none.
        let can = !matches!(self.0.control, Algorithm::Bbr | Algorithm::Held);
        can && self.0.meter.resume(saved)
    }

    fn yielded(&self) -> Option<YieldedPart> {
        self.0.meter.yielded().map(YieldedPart::from)
    }

    fn congestion(&self) -> Option<ControlName> {
        Some(self.0.control.into())
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.0.timeout) = timeout;
        Ok(())
    }
}

fn unreadable(error: ReadError) -> io::Error {
    match error {
        ReadError::ConnectionLost(lost) => gone(lost),
        ReadError::Reset(_) => io::ErrorKind::ConnectionReset.into(),
        other => io::Error::other(other),
    }
}

fn unwritable(error: WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(lost) => gone(lost),
        WriteError::Stopped(_) => io::ErrorKind::ConnectionReset.into(),
        other => io::Error::other(other),
    }
}

/// A connection that is no more.
pub(super) fn gone(lost: ConnectionError) -> io::Error {
    let kind = match lost {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::LocallyClosed => io::ErrorKind::UnexpectedEof,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, lost)
}
