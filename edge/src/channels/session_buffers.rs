//! What the connections of one session may keep in this process, shared out among them.

use crate::sys::pacing_limits::{PacingLimit, PacingLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the connections of one session keep at most in each direction: a window of 10 Gbit/s
/// over 200 ms.
pub(crate) const SESSION_BUFFERS: u64 = 256 << 20;

/// One session's.
#[derive(Debug, Default)]
pub(crate) struct SessionBuffers {
    connections: AtomicU64,
    struck: Arc<PacingLimits>,
}

impl SessionBuffers {
    /// Of a session where `struck` learns that they were too small.
    pub(crate) fn telling(struck: &Arc<PacingLimits>) -> Arc<SessionBuffers> {
        let (connections, struck) = (AtomicU64::default(), Arc::clone(struck));
        Arc::new(SessionBuffers { connections, struck })
    }

    /// What each connection may keep in each direction now.
    pub(crate) fn share(&self) -> u64 {
        SESSION_BUFFERS / self.connections.load(Ordering::Relaxed).max(1)
    }

    /// Counts one connection more, for as long as what is returned lives.
    pub(crate) fn join(self: &Arc<SessionBuffers>) -> BufferShare {
        self.connections.fetch_add(1, Ordering::Relaxed);
        BufferShare(Arc::clone(self))
    }
}

/// One connection's place among those of its session.
#[derive(Debug)]
pub(crate) struct BufferShare(Arc<SessionBuffers>);

impl BufferShare {
    /// What this connection may keep in each direction now.
    pub(crate) fn len(&self) -> u64 {
        self.0.share()
    }

    /// That is less than it has use for.
    pub(crate) fn is_too_small(&self) {
        self.0.struck.strike(PacingLimit::ChannelBuffers);
    }
}

impl Default for BufferShare {
    /// Of a connection that is its session's only one.
    fn default() -> BufferShare {
        Arc::<SessionBuffers>::default().join()
    }
}

impl Drop for BufferShare {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_what_their_session_has() {
        let session = Arc::<SessionBuffers>::default();
        let first = session.join();
        assert_eq!(first.len(), SESSION_BUFFERS);
        let others: Vec<_> = (1..64).map(|_| session.join()).collect();
        assert_eq!(first.len() * 64, SESSION_BUFFERS);
        drop(others);
        assert_eq!(first.len(), SESSION_BUFFERS);
    }
}
