//! A control connection: the core's client machine on a tokio socket.

mod data;
mod opening;

use super::control_stream::ControlStream;
use super::early::EarlyConnections;
use super::remote_progress::RemoteProgress;
use crate::channels::driver::Dialer;
use crate::channels::gsi::DataSecurity;
use crate::channels::key::Key;
use crate::channels::one_port::SharedConnection;
use crate::channels::trust::{ClientConfig, ControlTls, refuses_certificate};
use crate::mover::LiveRate;
use crate::sys::host::kernel_id;
use crate::sys::lock::lock;
use farline_core::copy::{HeldRate, farline_option};
use farline_core::gridftp::client::{ClientSession, Event, Input, Output, PeerFeatures, Request};
use farline_core::gridftp::{Command, ListingEntry, Pathname, Reply, may_send_to};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span, Time};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How often it is looked whether a limit changed, where one may.
const LOOK_AT_LIMIT: Duration = Duration::from_millis(250);

/// How long a server may take to say that a session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// A control connection that is logged in.
pub(super) struct Control {
    remote_progress: Arc<Mutex<RemoteProgress>>,
    /// Gone only while TLS begins.
    line: Option<ControlStream>,
    session: ClientSession,
    began: Instant,
    last_id: u64,
    events: VecDeque<(u64, Event)>,
    /// Requests whose failure is no reason to break anything off.
    optional: BTreeSet<u64>,
    /// Events that came while another request's were awaited.
    kept: VecDeque<(u64, Event)>,
    received: Vec<u8>,
    server: String,
    /// How long it may be silent.
    idle_timeout: Option<Duration>,
    /// Whether the connection ended without the server's doing, so that it may not know.
    is_cut_off: bool,
    features: PeerFeatures,
    /// The key that was offered, and the request that offered it while its answer is not known.
    key: Option<Key>,
    offered: Option<u64>,
    /// Whether data is to be encrypted, and the request for it while its answer is not known.
    encrypt: bool,
    protected: Option<u64>,
    data_tls: Option<Arc<ClientConfig>>,
    /// How data connections show whose they are, in a session by GSI.
    grid: Option<DataSecurity>,
    /// The booked rate that was asked for, and the request while its answer is not known.
    rate: Option<(HeldRate, u64)>,
    /// The question what the node knows of the path, while its answer is not known (M-6).
    paths: Option<u64>,
    /// The request for a store without a disk, while its answer is not known.
    store: Option<u64>,
    /// Where the node listens for what ssh carries, once that was found to be the only way.
    carried: Option<SocketAddr>,
    /// What opens this session's channels by a driver that was asked for, under its name.
    dialer: Option<(&'static str, Arc<dyn Dialer>)>,
    /// The driver that the node was told of before anything was known of it, and the request while
    /// its answer is not known.
    early_stack: Option<(&'static str, u64)>,
    /// Data connections that were begun with the session, until they are asked for.
    early: Option<EarlyConnections>,
    /// The driver that the node listens by, where it is not the usual one.
    net_stack: Option<&'static str>,
    /// How soon the server answered at best, where the kernel does not know the round-trip time.
    answered_in: Option<Span>,
    /// A limit that may change while the server sends, and what it was told last.
    live_limit: Option<(LiveRate, Rate)>,
    asked: Option<Instant>,
}

impl Control {
    /// Whether ssh carries this.
    pub(super) fn is_over_ssh(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.ssh.is_some())
    }

    /// The connection that data goes over too, where it does.
    pub(super) fn shared(&self) -> Option<SharedConnection> {
        self.line.as_ref().and_then(|line| line.shared.clone())
    }

    /// Whether control and data share one UDP port.
    pub(super) fn is_over_udp(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.shared.is_some())
    }

    /// What the server says that it holds, as it says it.
    pub(super) fn remote_progress(&self) -> Arc<Mutex<RemoteProgress>> {
        Arc::clone(&self.remote_progress)
    }

    /// Whether the server lists `feature` behind `FARLINE`.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.features.has_extension(feature)
    }

    /// Whether the server speaks checked blocks (`docs/protocol.md`, clause I-1).
    pub(super) fn checks(&self) -> bool {
        self.features.check
    }

    /// Has the server hold what it sends to a rate; returns whether it knows how to (O-2).
    pub(super) fn limit(&mut self, limit: Option<Rate>) -> bool {
        let Some(rate) = limit.filter(|_| self.features.limit) else {
            return false;
        };
        self.request(farline_option("limit", &rate.as_bps().to_string()));
        true
    }

    /// Has the server heed what becomes of `live` while it sends, where it knows how to (O-2). It
    /// was told `told`.
    pub(super) fn follow(&mut self, live: LiveRate, told: Rate) {
        live.note_heeded_there(self.features.live_limit);
        self.live_limit = self.features.live_limit.then_some((live, told));
    }

    /// Tells the server of a limit that changed.
    fn tell_limit(&mut self) {
        let Some((live, told)) = &mut self.live_limit else { return };
        let rate = live.rate();
        if std::mem::replace(told, rate) != rate {
            self.try_request(farline_option("limit", &rate.as_bps().to_string()));
        }
    }

    /// The server, for people.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Whether the connection ended without the server's doing, so that it may not know.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// How long it may be silent.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }

    pub(super) fn features(&self) -> &PeerFeatures {
        &self.features
    }

    /// The least round-trip time seen.
    pub(super) fn rtt(&self) -> Span {
        let kernel = self
            .line
            .as_ref()
            .and_then(|line| line.handle.as_ref()?.tcp_info())
            .map(|info| info.min_rtt);
        let shared = self.line.as_ref().and_then(|line| line.shared.as_ref()?.least_rtt());
        kernel.or(shared).or(self.answered_in).unwrap_or_default()
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr, Error> {
        self.ends().map(|(local, _)| local)
    }

    fn ends(&self) -> Result<(SocketAddr, SocketAddr), Error> {
        let no_address = || {
            Error::new(Fault::Bug, ErrorCode::NoAddress, "a connection through ssh has no address")
        };
        self.line.as_ref().and_then(|line| line.ends).ok_or_else(no_address)
    }

    /// What encrypts it, where that is TLS.
    pub(super) fn tls(&self) -> Option<ControlTls> {
        self.line.as_ref().and_then(|line| line.tls.clone())
    }

    /// The server's address and control port.
    pub(super) fn peer(&self) -> Result<SocketAddr, Error> {
        self.ends().map(|(_, peer)| peer)
    }

    /// The server's address, where data goes straight to it.
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer().ok().map(|peer| peer.ip())
    }

    /// Submits a request; its events carry the number.
    pub(super) fn request(&mut self, request: Request) -> u64 {
        self.last_id += 1;
        let now = self.now();
        self.session.handle(now, Input::Request { id: self.last_id, request });
        self.last_id
    }

    /// Ends the session, and waits a while for the server to say that it is over there too: over a
    /// circuit that is taken down with its copy, the end of a connection alone is lost.
    pub(super) async fn leave(mut self) {
        let quit = self.try_request(Request::Exec(Command::Quit));
        let _ = tokio::time::timeout(FAREWELL, self.done(quit)).await;
    }

    /// Submits a request that may fail.
    pub(super) fn try_request(&mut self, request: Request) -> u64 {
        let id = self.request(request);
        self.optional.insert(id);
        id
    }

    /// The next event of any request. Cancel-safe: no event is lost by dropping the future.
    async fn next(&mut self) -> Result<(u64, Event), Error> {
        loop {
            self.tell_limit();
            let wake = self.flush().await?;
            match self.events.pop_front() {
                Some((id, Event::Ranges(held))) => {
                    lock(&self.remote_progress).take(id, &held);
                    continue;
                }
                Some((_, Event::Remark(text))) => {
                    lock(&self.remote_progress).remark(&text);
                    continue;
                }
                Some(event) => {
                    if matches!(event.1, Event::Started { .. }) {
                        lock(&self.remote_progress).begin();
                    }
                    return Ok(event);
                }
                None => {}
            }
            let now = self.now();
            let wait = wake.map(|at| Duration::from(at.since(now)));
            let wait = match &self.live_limit {
                Some(_) => Some(wait.map_or(LOOK_AT_LIMIT, |wait| wait.min(LOOK_AT_LIMIT))),
                None => wait,
            };
            let idle = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let line = self.line.as_mut().ok_or_else(closed)?;
            let read = tokio::select! {
                read = line.stream.read(&mut self.received) => Some(read),
                () = idle => None,
            };
            let now = self.now();
            if let (Some(_), Some(asked)) = (&read, self.asked.take()) {
                let took = Span::from(asked.elapsed());
                self.answered_in = Some(self.answered_in.map_or(took, |least| least.min(took)));
            }
            match read {
                // What protects it was broken: whatever follows may be anybody's.
                Some(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                    self.session.handle(now, Input::Closed);
                    return Err(self.tls_ended(&error));
                }
                Some(Ok(0) | Err(_)) => {
                    let heard_of_it =
                        [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
                    self.is_cut_off |=
                        matches!(&read, Some(Err(error)) if !heard_of_it.contains(&error.kind()));
                    self.session.handle(now, Input::Closed);
                }
                Some(Ok(len)) => {
                    let before = self.session.last_heard();
                    self.session.handle(now, Input::Received(&self.received[..len]));
                    if self.session.last_heard() != before {
                        lock(&self.remote_progress).at = Some(Instant::now());
                    }
                }
                None => {}
            }
        }
    }

    /// The error of a connection whose TLS ended by `error`: with TLS 1.3 it is here, and not in
    /// the handshake, that a client hears what its certificate is worth.
    fn tls_ended(&self, error: &std::io::Error) -> Error {
        if !refuses_certificate(error) {
            let message = format!("the control connection to {}: {error}", self.server);
            return Error::new(Fault::There, ErrorCode::TlsFailed, message);
        }
        let message = format!("{} does not take this client's certificate: {error}", self.server);
        Error::new(Fault::Refused, ErrorCode::LoginRefused, message).hint(
            "FARLINE_CERT names it: it must be valid and of an authority that the server's \
             operator trusts",
        )
    }

    /// Serves the connection until a request fails; what happens to the others is kept for
    /// [`Self::done`]. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        loop {
            match self.next().await {
                Ok((id, event)) => {
                    let failed = match &event {
                        Event::Failed(error) if !self.optional.contains(&id) => Some(error.clone()),
                        _ => None,
                    };
                    self.kept.push_back((id, event));
                    if let Some(error) = failed {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }

    /// Does what the machine says; returns when it wants to be polled again.
    async fn flush(&mut self) -> Result<Option<Time>, Error> {
        loop {
            match self.session.poll(self.now()) {
                Output::Send(bytes) => {
                    let line = self.line.as_mut().ok_or_else(closed)?;
                    self.asked = Some(Instant::now());
                    let written = match line.stream.write_all(&bytes).await {
                        Ok(()) => line.stream.flush().await,
                        Err(error) => Err(error),
                    };
                    if written.is_err() {
                        let now = self.now();
                        self.session.handle(now, Input::Closed);
                    }
                }
                // The machine does not know of whom it speaks.
                Output::Event { id, event: Event::Failed(error) }
                    if error.code == ErrorCode::ControlClosed =>
                {
                    let error = Error { message: self.gone().message, ..error };
                    self.events.push_back((id, Event::Failed(error)));
                }
                Output::Event { id, event } => self.events.push_back((id, event)),
                Output::Close if self.events.is_empty() => return Err(self.gone()),
                Output::Close => return Ok(None),
                Output::Wait(at) => return Ok(at),
            }
        }
    }

    fn gone(&self) -> Error {
        let message = format!("{} closed the control connection", self.server);
        Error::new(Fault::Between, ErrorCode::ControlClosed, message)
    }

    /// The next event of one request; those of others are kept.
    async fn event_of(&mut self, id: u64) -> Result<Event, Error> {
        if let Some(at) = self.kept.iter().position(|(of, _)| *of == id)
            && let Some((_, event)) = self.kept.remove(at)
        {
            return Ok(event);
        }
        loop {
            match self.next().await? {
                (of, event) if of == id => return Ok(event),
                other => self.kept.push_back(other),
            }
        }
    }

    /// Waits until the server begins the transfer `id`.
    pub(super) async fn started(&mut self, id: u64) -> Result<(), Error> {
        loop {
            match self.event_of(id).await? {
                Event::Started { .. } => return Ok(()),
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }

    /// Waits for a request's end.
    pub(super) async fn done(&mut self, id: u64) -> Result<Reply, Error> {
        loop {
            match self.event_of(id).await? {
                Event::Done(reply) => return Ok(reply),
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }

    /// Waits for a transfer's end and tells `moved` how many bytes the server says it has stored or
    /// sent so far (112).
    pub(super) async fn transferred(&mut self, id: u64, moved: &AtomicU64) -> Result<Reply, Error> {
        loop {
            match self.event_of(id).await? {
                Event::Done(reply) => return Ok(reply),
                Event::Failed(error) => return Err(error),
                Event::Perf(perf) => moved.store(perf.bytes, Ordering::Relaxed),
                _ => {}
            }
        }
    }

    /// Where the server listens, by the answer to the `Passive` request `id`.
    pub(super) async fn passive(&mut self, id: u64) -> Result<SocketAddr, Error> {
        let mut address = None;
        loop {
            match self.event_of(id).await? {
                Event::PassiveAt(addresses) => address = addresses.first().copied(),
                Event::Done(_) => break,
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
        // K-6: where the node says so, its data ports are at another address.
        let told = self.features.data_address;
        let address =
            address.map(|address| told.map_or(address, |ip| SocketAddr::new(ip, address.port())));
        let address = address.ok_or_else(|| {
            Error::new(
                Fault::There,
                ErrorCode::NoAddress,
                format!("{} did not say where it listens", self.server),
            )
        })?;
        match self.peer_ip() {
            Some(server) if !may_send_to(server, address) => Err(self.sends_elsewhere(address)),
            _ => Ok(address),
        }
    }

    /// Its data would go where a server has no business to send its client.
    fn sends_elsewhere(&self, address: SocketAddr) -> Error {
        let message = format!(
            "{} would have data go to {address}, which is neither itself nor a host for data of \
             its site",
            self.server
        );
        Error::new(Fault::There, ErrorCode::NoAddress, message)
            .hint("its operator can have it tell an address that leads to it from here")
    }

    /// What is at a path, by the answer to the `Stat` request `id`; `None` when nothing is.
    pub(super) async fn looked(&mut self, id: u64) -> Result<Option<ListingEntry>, Error> {
        match self.entries(id).await {
            Ok(mut entries) => Ok(entries.pop()),
            Err(error) if error.code == ErrorCode::PathNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refuses to go on with what is at `path` where the server says that it is at another: a
    /// Globus server drops bytes of a name that are not ASCII, and then has one file for two names
    /// (docs/interoperability.md).
    ///
    /// # Errors
    /// `invalid-name` where the names differ, or nothing is there by this one.
    pub(super) async fn refuse_other_name(&mut self, path: &[u8]) -> Result<(), Error> {
        let features = self.features();
        if path.is_ascii() || features.is_farline || !features.mlst {
            return Ok(());
        }
        let look = self.request(Request::Stat(Pathname::new(path)));
        let found = self.looked(look).await?;
        let rest = |path: &[u8]| -> Vec<u8> {
            path.iter().copied().filter(|byte| !byte.is_ascii()).collect()
        };
        let last = |path: &[u8]| path.rsplit(|&byte| byte == b'/').next().map(rest);
        let is_same = found.is_some_and(|found| {
            let said = found.name.as_bytes();
            if said.contains(&b'/') { rest(said) == rest(path) } else { last(said) == last(path) }
        });
        if is_same {
            return Ok(());
        }
        let message = format!(
            "{} takes {} for another name: it drops bytes that are not ASCII",
            self.server,
            String::from_utf8_lossy(path)
        );
        let error = Error::new(Fault::There, ErrorCode::InvalidName, message);
        Err(error.hint("rename it, or have a Farline node at the other end"))
    }

    /// Whether its server is on this host, and sees the same files.
    pub(super) fn is_of_this_host(&self) -> bool {
        let host = &self.features().host;
        host.is_some() && *host == kernel_id()
    }

    /// What is in the directory `path`.
    pub(super) async fn list(&mut self, path: &[u8]) -> Result<Vec<ListingEntry>, Error> {
        let id = self.request(Request::List(Pathname::new(path)));
        self.entries(id).await
    }

    async fn entries(&mut self, id: u64) -> Result<Vec<ListingEntry>, Error> {
        let mut found = Vec::new();
        loop {
            match self.event_of(id).await? {
                Event::Entries(entries) => found = entries,
                Event::Done(_) => return Ok(found),
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

fn closed() -> Error {
    Error::new(Fault::Between, ErrorCode::ControlClosed, "the control connection is closed")
}
