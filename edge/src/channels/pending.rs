//! Connections that have yet to show whose they are: a task each, and a bounded number of them, of
//! which a stranger's goes when another wants its place, and then the one that has got least far.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// What who lost its place is told of.
pub(crate) const NO_PLACE: &str = "lost its place, which another wanted";

/// How far a peer has got: the messages of its handshake that came whole and made sense.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    /// One more came.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The handshakes of one port that are under way; all end when this goes.
#[derive(Debug)]
pub(crate) struct Pending {
    runtime: Handle,
    most: usize,
    /// Whose port it is: its own connections stay as long as there is a stranger's.
    client: Option<IpAddr>,
    /// The oldest first.
    under_way: VecDeque<UnderWay>,
}

/// One of them; its connection is closed when this goes.
#[derive(Debug)]
struct UnderWay {
    from: SocketAddr,
    steps: Steps,
    task: AbortHandle,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pending {
    /// Of up to `most` at once, at the port of `client`.
    pub(crate) fn new(runtime: Handle, most: usize, client: Option<IpAddr>) -> Pending {
        Pending { runtime, most, client, under_way: VecDeque::new() }
    }

    /// Begins the handshake of who came from `from`; where there is no place left, another goes for
    /// it, and this returns from where that was: a stranger's, however far it has got, then the one
    /// that has got least far, and of these the oldest. A stranger that finds the client's own in
    /// all places goes itself.
    pub(crate) fn begin<F>(
        &mut self,
        from: SocketAddr,
        handshake: impl FnOnce(Steps) -> F,
    ) -> Option<SocketAddr>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.under_way.retain(|one| !one.task.is_finished());
        let is_full = self.under_way.len() >= self.most;
        let goes = is_full.then(|| self.least()).flatten();
        if goes.is_some_and(|at| self.is_own(self.under_way[at].from)) && !self.is_own(from) {
            return Some(from);
        }
        let gone = goes.and_then(|at| self.under_way.remove(at)).map(|one| one.from);
        let steps = Steps::default();
        let task = self.runtime.spawn(handshake(steps.clone())).abort_handle();
        self.under_way.push_back(UnderWay { from, steps, task });
        gone
    }

    /// Which goes first.
    fn least(&self) -> Option<usize> {
        let least = self.under_way.iter().enumerate();
        let key = |(at, one): &(usize, &UnderWay)| (self.is_own(one.from), one.steps.taken(), *at);
        least.min_by_key(key).map(|(at, _)| at)
    }

    fn is_own(&self, from: SocketAddr) -> bool {
        Some(from.ip().to_canonical()) == self.client
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Begins one that does not end, and has said something if it `speaks`.
    fn begin(pending_ones: &mut Pending, from: [u8; 4], port: u16, speaks: bool) -> Option<u16> {
        let gone = pending_ones.begin((from, port).into(), |steps| async move {
            if speaks {
                steps.step();
            }
            pending::<()>().await;
        });
        gone.map(|gone| gone.port())
    }

    #[tokio::test]
    async fn the_oldest_of_those_that_said_least_goes() {
        let client = [10, 0, 0, 1];
        let mut under_way = Pending::new(Handle::current(), 4, Some(client.into()));
        assert_eq!(begin(&mut under_way, client, 1, true), None);
        assert_eq!(begin(&mut under_way, client, 2, false), None);
        assert_eq!(begin(&mut under_way, [10, 0, 0, 2], 3, false), None);
        assert_eq!(begin(&mut under_way, [10, 0, 0, 2], 4, true), None);
        tokio::task::yield_now().await;
        for (port, gone) in [(5, 3), (6, 5), (7, 6)] {
            assert_eq!(begin(&mut under_way, [10, 0, 0, 2], port, false), Some(gone), "a stranger");
        }
        assert_eq!(
            begin(&mut under_way, client, 8, false),
            Some(7),
            "a stranger before the client"
        );
        assert_eq!(begin(&mut under_way, client, 9, false), Some(4), "also one that said more");
        for (port, gone) in [(10, 2), (11, 8)] {
            assert_eq!(begin(&mut under_way, client, port, false), Some(gone), "the oldest");
        }
        for port in 12..100 {
            assert_eq!(begin(&mut under_way, client, port, false), Some(port - 3));
        }
        let left: Vec<u16> = under_way.under_way.iter().map(|one| one.from.port()).collect();
        assert_eq!(left, [1, 97, 98, 99], "who said something is still there");
    }

    #[tokio::test]
    async fn strangers_that_say_something_evict_no_silent_client() {
        let (client, stranger) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut under_way = Pending::new(Handle::current(), 4, Some(client.into()));
        assert_eq!(begin(&mut under_way, client, 1, false), None);
        for port in 2..100 {
            let gone = begin(&mut under_way, stranger, port, true);
            assert_eq!(gone, port.checked_sub(3).filter(|&gone| gone > 1), "at {port}");
            tokio::task::yield_now().await;
        }
        for port in 100..103 {
            assert!(begin(&mut under_way, client, port, false).is_some_and(|gone| gone > 90));
        }
        // None of these is a stranger's any more: who comes then goes itself.
        assert_eq!(begin(&mut under_way, stranger, 103, true), Some(103));
        let left: Vec<u16> = under_way.under_way.iter().map(|one| one.from.port()).collect();
        assert_eq!(left, [1, 100, 101, 102]);
    }

    #[tokio::test]
    async fn who_is_done_makes_room_and_all_end_with_the_port() {
        let mut under_way = Pending::new(Handle::current(), 1, None);
        under_way.begin(([10, 0, 0, 1], 1).into(), |_| async {});
        tokio::task::yield_now().await;
        assert_eq!(begin(&mut under_way, [10, 0, 0, 1], 2, false), None);
        let task = under_way.under_way[0].task.clone();
        drop(under_way);
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
