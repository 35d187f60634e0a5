//! What the connections of sessions may keep in this process, shared out among them.

use crate::sys::pacing_limits::{PacingLimit, PacingLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the connections of one session keep at most in each direction: a window of 10 Gbit/s
/// over 200 ms.
pub(crate) const SESSION_BUFFERS: u64 = 256 << 20;

/// And those of all sessions together: what eight of them keep, which one host's network hardly
/// fills, so that sessions without number take no memory without end.
const ALL_BUFFERS: u64 = 8 * SESSION_BUFFERS;

/// Bytes that a connection keeps, either way, before it is known whose it is: what a client says to
/// log in, or shows, the first of what is behind it, and replies to it.
pub(crate) const UNPROVEN_BUFFER: u32 = 256 << 10;

/// Sessions of this process that have connections.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// One session's.
#[derive(Debug)]
pub(crate) struct SessionBuffers {
    connections: AtomicU64,
    /// How many sessions there are that have any.
    sessions: &'static AtomicU64,
    struck: PacingLimits,
}

impl Default for SessionBuffers {
    fn default() -> SessionBuffers {
        SessionBuffers::among(&SESSIONS)
    }
}

impl SessionBuffers {
    /// One session of those that are counted there.
    pub(super) fn among(sessions: &'static AtomicU64) -> SessionBuffers {
        let (connections, struck) = (AtomicU64::default(), PacingLimits::default());
        SessionBuffers { connections, sessions, struck }
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whether they were too small.
    pub(crate) fn struck(&self) -> &PacingLimits {
        &self.struck
    }

    /// What each connection may keep in each direction now.
    pub(crate) fn share(&self) -> u64 {
        let sessions = self.sessions.load(Ordering::Relaxed).max(1);
        let session = SESSION_BUFFERS.min(ALL_BUFFERS / sessions);
        session / self.connections.load(Ordering::Relaxed).max(1)
    }

    /// Counts one connection more, for as long as what is returned lives.
    pub(crate) fn join(self: &Arc<SessionBuffers>) -> BufferShare {
        if self.connections.fetch_add(1, Ordering::Relaxed) == 0 {
            self.sessions.fetch_add(1, Ordering::Relaxed);
        }
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

impl Drop for BufferShare {
    fn drop(&mut self) {
        if self.0.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_what_their_session_has() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let session = Arc::new(SessionBuffers::among(&OWN));
        let first = session.join();
        assert_eq!(first.len(), SESSION_BUFFERS);
        let others: Vec<_> = (1..64).map(|_| session.join()).collect();
        assert_eq!(first.len() * 64, SESSION_BUFFERS);
        drop(others);
        assert_eq!(first.len(), SESSION_BUFFERS);
    }

    #[test]
    fn many_sessions_share_what_all_have() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let session = || Arc::new(SessionBuffers::among(&OWN));
        let first = session().join();
        let mut others: Vec<_> = (1..8).map(|_| session().join()).collect();
        assert_eq!(first.len(), SESSION_BUFFERS);
        others.extend((8..128).map(|_| session().join()));
        assert_eq!(first.len() * 128, ALL_BUFFERS);
        drop(others);
        assert_eq!(first.len(), SESSION_BUFFERS);
        // One that has no connection yet has no part either.
        let (_none, share) = (session(), first.len());
        assert_eq!(share, SESSION_BUFFERS);
    }
}
