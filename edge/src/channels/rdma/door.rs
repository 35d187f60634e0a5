//! Takes RDMA channels for one session: puts together the queue pairs that show the session's key.

use super::{RdmaChannel, shape};
use crate::channels::key::Key;
use crate::channels::{Breaker, Channel};
use crate::sys::verbs::{Domain, Link, Listener, Request};
use farline_core::rdma::{Answer, Greeting, MOST_CREDITS, Placement, Settings};
use farline_core::units::{Error, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a channel may take from its first queue pair to its last.
const PATIENCE: Duration = Duration::from_secs(10);
/// Channels put together at once, and unfinished.
const MOST_UNFINISHED: usize = 64;

/// A listening RDMA port; it closes when this is dropped.
#[derive(Debug)]
pub struct RdmaDoor {
    address: SocketAddr,
    stop: Arc<Breaker>,
}

impl RdmaDoor {
    /// Listens at `ip` for channels of the session that `key` is of, each with at most `credits` slots advertised; gives them to `deliver`,
    /// until it answers false.
    ///
    /// # Errors
    /// When this host has no RDMA device of that address.
    pub fn open(
        ip: IpAddr,
        key: Key,
        credits: usize,
        deliver: impl Fn(Box<dyn Channel>) -> bool + Send + 'static,
    ) -> Result<RdmaDoor, Error> {
        let listener = Listener::bind(ip)?;
        let address = SocketAddr::new(ip, listener.port());
        let here = |error: io::Error| Error::new(Fault::Here, "no-thread", format!("cannot watch an RDMA port: {error}"));
        let stop = Arc::new(Breaker::new().map_err(here)?);
        let credits = credits.clamp(1, usize::from(MOST_CREDITS)) as u16;
        let inside = Arc::clone(&stop);
        let body = move || {
            let mut hall = Hall { key, credits, domain: None, unfinished: BTreeMap::new(), served: BTreeSet::new() };
            // The device is gone, or the session: either way nobody comes any more.
            let _ = hall.attend(&listener, &inside, &deliver);
        };
        std::thread::Builder::new().name("rdma door".to_owned()).spawn(body).map_err(here)?;
        Ok(RdmaDoor { address, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RdmaDoor {
    fn drop(&mut self) {
        self.stop.break_now();
    }
}

/// What the thread behind a door knows.
struct Hall {
    key: Key,
    credits: u16,
    domain: Option<Arc<Domain>>,
    unfinished: BTreeMap<u32, Unfinished>,
    /// Channels whose proofs were used up.
    served: BTreeSet<u32>,
}

struct Unfinished {
    link: Link,
    settings: Settings,
    came: BTreeSet<u8>,
    since: Instant,
}

impl Hall {
    fn attend(&mut self, listener: &Listener, stop: &Breaker, deliver: &dyn Fn(Box<dyn Channel>) -> bool) -> io::Result<()> {
        loop {
            let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
            watched.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
            for unfinished in self.unfinished.values() {
                watched.extend(unfinished.link.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            }
            let most = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            match poll(&mut watched, (!self.unfinished.is_empty()).then_some(&most)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            drop(watched);
            stop.is_woken()?;
            while let Some(request) = listener.next()? {
                self.admit(request);
            }
            self.unfinished.retain(|_, unfinished| unfinished.since.elapsed() < PATIENCE);
            for number in self.unfinished.keys().copied().collect::<Vec<_>>() {
                let Some(unfinished) = self.unfinished.get_mut(&number) else { continue };
                let established = unfinished.link.is_established();
                if matches!(established, Ok(false)) {
                    continue;
                }
                let Some(unfinished) = self.unfinished.remove(&number) else { continue };
                if established.is_ok()
                    && let Ok(channel) = RdmaChannel::over(unfinished.link, unfinished.settings)
                    && !deliver(Box::new(channel))
                {
                    return Ok(());
                }
            }
        }
    }

    /// Takes a queue pair in; whoever has no right to it, or wants what cannot be, is refused without a word.
    fn admit(&mut self, request: Request) {
        let Some(greeting) = Greeting::decode(&request.private_data) else { return request.reject() };
        let (number, on) = (greeting.channel, greeting.queue_pair.0);
        let known = self.served.contains(&number) && !self.unfinished.contains_key(&number);
        if known || !self.key.proves_queue_pair(number, on, greeting.proof) {
            return request.reject();
        }
        if !self.unfinished.contains_key(&number) && self.begin(&request, &greeting).is_none() {
            return request.reject();
        }
        let Some(unfinished) = self.unfinished.get_mut(&number) else { return request.reject() };
        let same_device = request
            .domain(self.domain.as_ref())
            .is_ok_and(|domain| self.domain.as_ref().is_some_and(|own| Arc::ptr_eq(own, &domain)));
        if !same_device || greeting.queue_pairs != unfinished.settings.queue_pairs || !unfinished.came.insert(on) {
            return request.reject();
        }
        let answer = Answer { credits: unfinished.settings.credits }.encode();
        if unfinished.link.accept(on, request, &answer, greeting.ack_timeout).is_err() {
            self.unfinished.remove(&number);
        }
    }

    /// Makes room for the channel that a first queue pair is of.
    fn begin(&mut self, request: &Request, greeting: &Greeting) -> Option<()> {
        if self.unfinished.len() >= MOST_UNFINISHED {
            return None;
        }
        let domain = request.domain(self.domain.as_ref()).ok()?;
        let iwarp = domain.is_iwarp();
        if iwarp != (greeting.placement == Placement::Behind) {
            return None;
        }
        self.domain = Some(Arc::clone(&domain));
        let credits = greeting.credits.min(self.credits);
        let settings = Settings { queue_pairs: greeting.queue_pairs, credits, placement: greeting.placement, connected: false };
        let link = Link::new(domain, shape(&settings)).ok()?;
        self.served.insert(greeting.channel);
        self.unfinished.insert(greeting.channel, Unfinished { link, settings, came: BTreeSet::new(), since: Instant::now() });
        Some(())
    }
}
