//! Takes RDMA channels for one session: puts together the queue pairs that show the session's key.

use super::ports::explained;
use super::{RdmaChannel, lockable, shape};
use crate::channels::key::Key;
use crate::channels::{Breaker, Channel};
use crate::sys::verbs::{CmListener, Domain, RdmaConnection, Request};
use farline_core::rdma::{
    EndpointSettings, GreetingError, GreetingReply, MOST_CREDITS, Placement, RdmaGreeting, Refusal,
    VERSION,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a channel may take from its first queue pair to its last.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Channels put together at once, and unfinished.
const MOST_UNFINISHED: usize = 64;
/// Slots below which a channel is not worth its making: `cp` begins with as many.
const LEAST: u16 = 8;

/// What a node gives to each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The most slots that are advertised to begin with.
    pub(super) begin: usize,
    /// The most that may come to be.
    pub(super) credits: usize,
    /// Bytes of a slot.
    pub(super) slot_len: Bytes,
}

impl Terms {
    /// What a greeting comes to at a device: the channel, and with how many credits it begins.
    pub(super) fn agree(
        &self,
        greeting: &RdmaGreeting,
        domain: &Domain,
    ) -> Result<(EndpointSettings, u16), Refusal> {
        let begin = greeting.begin.min(within(self.begin));
        let RdmaGreeting { queue_pairs, placement, .. } = *greeting;
        let credits = greeting.credits.min(within(self.credits));
        let settings = EndpointSettings { queue_pairs, credits, placement, connected: false };
        let limits = domain.limits().map_err(|_| Refusal::NoRoom)?;
        let settings = settings.within(&limits).map_err(|_| Refusal::NoRoom)?;
        let settings = settings
            .lockable(begin.min(LEAST), self.slot_len, &lockable())
            .map_err(|_| Refusal::NoRoom)?;
        Ok((settings, begin))
    }
}

/// As many credits as there may be.
fn within(credits: usize) -> u16 {
    credits.clamp(1, usize::from(MOST_CREDITS)) as u16
}

/// A listening RDMA port; it closes when this is dropped.
#[derive(Debug)]
pub(super) struct RdmaListener {
    address: SocketAddr,
    stop: Arc<Breaker>,
}

impl RdmaListener {
    /// Listens at `ip` for channels of the session that `key` is of; gives them to `deliver`, until
    /// it returns false.
    ///
    /// # Errors
    /// When no RDMA device of this host serves that address, or this process may not lock the
    /// memory of a channel.
    pub(super) fn open(
        ip: IpAddr,
        key: Key,
        terms: Terms,
        deliver: impl Fn(Box<dyn Channel>) -> bool + Send + 'static,
    ) -> Result<RdmaListener, Error> {
        let listener = CmListener::bind(ip).map_err(|error| theirs(explained(error, ip)))?;
        let address = SocketAddr::new(ip, listener.port());
        let here = |error: io::Error| {
            Error::new(
                Fault::Here,
                ErrorCode::NoThread,
                format!("cannot watch an RDMA port: {error}"),
            )
        };
        let stop = Arc::new(Breaker::new().map_err(here)?);
        let begin = within(terms.begin).min(LEAST);
        let least = EndpointSettings {
            queue_pairs: 1,
            credits: begin,
            placement: Placement::Immediate,
            connected: false,
        };
        least.lockable(begin, terms.slot_len, &lockable()).map_err(theirs)?;
        let inside = Arc::clone(&stop);
        let body = move || {
            let (unfinished, served) = (BTreeMap::new(), BTreeSet::new());
            let mut queue = AcceptQueue { key, terms, domain: None, unfinished, served };
            // The device is gone, or the session: either way nobody comes any more.
            let _ = queue.supervise(&listener, &inside, &deliver);
        };
        std::thread::Builder::new().name("rdma listener".to_owned()).spawn(body).map_err(here)?;
        Ok(RdmaListener { address, stop })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RdmaListener {
    fn drop(&mut self) {
        self.stop.break_now();
    }
}

/// What is wrong with this host, as who asks for a listener sees it.
fn theirs(error: Error) -> Error {
    Error { fault: Fault::There, ..error }
}

/// What the thread behind a listener knows.
struct AcceptQueue {
    key: Key,
    terms: Terms,
    domain: Option<Arc<Domain>>,
    unfinished: BTreeMap<u32, Unfinished>,
    /// Channels whose proofs were used up.
    served: BTreeSet<u32>,
}

struct Unfinished {
    link: RdmaConnection,
    settings: EndpointSettings,
    begin: u16,
    rtt: Span,
    came: BTreeSet<u8>,
    since: Instant,
}

impl AcceptQueue {
    fn supervise(
        &mut self,
        listener: &CmListener,
        stop: &Breaker,
        deliver: &dyn Fn(Box<dyn Channel>) -> bool,
    ) -> io::Result<()> {
        loop {
            let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
            watched.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
            for unfinished in self.unfinished.values() {
                watched.extend(
                    unfinished
                        .link
                        .descriptors()
                        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                );
            }
            let most = Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
            match poll(&mut watched, (!self.unfinished.is_empty()).then_some(&most)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            drop(watched);
            stop.is_woken()?;
            while let Some(request) = listener.next()? {
                self.admit(request);
            }
            self.unfinished.retain(|_, unfinished| unfinished.since.elapsed() < TIMEOUT);
            for number in self.unfinished.keys().copied().collect::<Vec<_>>() {
                let Some(unfinished) = self.unfinished.get_mut(&number) else { continue };
                let established = unfinished.link.is_established();
                if matches!(established, Ok(false)) {
                    continue;
                }
                let Some(unfinished) = self.unfinished.remove(&number) else { continue };
                let Unfinished { link, settings, begin, rtt, .. } = unfinished;
                if established.is_ok()
                    && let Ok(channel) = RdmaChannel::over(link, settings, begin, rtt)
                    && !deliver(Box::new(channel))
                {
                    return Ok(());
                }
            }
        }
    }

    /// Takes a queue pair in. Whoever has no right to it is refused without a word; who has one,
    /// and wants what cannot be, is told why.
    fn admit(&mut self, request: Request) {
        let greeting = match RdmaGreeting::decode(&request.private_data) {
            Ok(greeting) => greeting,
            // Whether they have a right to it cannot be known then, and the version is no secret.
            Err(GreetingError::Version(_)) => {
                return request.reject(&Refusal::Version(VERSION).encode());
            }
            Err(GreetingError::Foreign) => return request.reject(&[]),
        };
        let (number, on) = (greeting.channel, greeting.queue_pair.0);
        let known = self.served.contains(&number) && !self.unfinished.contains_key(&number);
        if known || !self.key.proves_queue_pair(number, on, greeting.proof) {
            return request.reject(&[]);
        }
        if let Err(refusal) = self.join(&request, &greeting) {
            return request.reject(&refusal.encode());
        }
        let Some(unfinished) = self.unfinished.get_mut(&number) else { return request.reject(&[]) };
        if greeting.queue_pairs != unfinished.settings.queue_pairs || !unfinished.came.insert(on) {
            return request.reject(&[]);
        }
        let answer = GreetingReply { credits: unfinished.settings.credits }.encode();
        if let Err(request) = unfinished.link.accept(on, request, &answer, greeting.ack_timeout) {
            self.unfinished.remove(&number);
            request.reject(&Refusal::NoRoom.encode());
        }
    }

    /// Finds the channel that a queue pair is of, or makes room for it.
    fn join(&mut self, request: &Request, greeting: &RdmaGreeting) -> Result<(), Refusal> {
        let domain = request.domain(self.domain.as_ref()).map_err(|_| Refusal::NoRoom)?;
        if !greeting.placement.fits(domain.is_iwarp()) {
            return Err(Refusal::OtherFabric);
        }
        let mtu = request.mtu();
        // InfiniBand's subnet manager knows what the whole path takes, and iWARP's TCP finds out;
        // RoCE's packet that is too long is dropped.
        if request.is_ethernet() && !domain.is_iwarp() && mtu != 0 && greeting.mtu > mtu {
            return Err(Refusal::Mtu(mtu));
        }
        if self.unfinished.contains_key(&greeting.channel) {
            let same = self.domain.as_ref().is_some_and(|own| Arc::ptr_eq(own, &domain));
            return if same { Ok(()) } else { Err(Refusal::NoRoom) };
        }
        if self.unfinished.len() >= MOST_UNFINISHED {
            return Err(Refusal::NoRoom);
        }
        let (settings, begin) = self.terms.agree(greeting, &domain)?;
        self.domain = Some(Arc::clone(&domain));
        let link = RdmaConnection::new(domain, shape(&settings)).map_err(|_| Refusal::NoRoom)?;
        self.served.insert(greeting.channel);
        let (rtt, came, since) = (greeting.rtt, BTreeSet::new(), Instant::now());
        self.unfinished
            .insert(greeting.channel, Unfinished { link, settings, begin, rtt, came, since });
        Ok(())
    }
}
