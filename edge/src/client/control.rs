//! A control connection: the core's client machine on a tokio socket.

use super::heard::Heard;
use super::location::{Remote, Via};
use super::reach::{Line, Reach};
use super::ssh::Ssh;
use crate::channels::key::Key;
use crate::channels::rdma::{Dialler, Fabric};
use crate::channels::trust::{Trust, pinned};
use crate::stores::Diskless;
use crate::sys::lock::lock;
use farline_core::gridftp::client::{ClientConfig, ClientSession, Event, Features, Input, Output, Request};
use farline_core::gridftp::{Command, Entry, Mode, Options as Opts, Pathname, Protection, Reply, Site, TransferEvent};
use farline_core::units::{Error, Fault, Rate, Span, Time};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Where a server may be silent for less than this, it is asked to say more often how far it is.
const SPARSE_MARKERS: Duration = Duration::from_secs(15);

/// A control connection that is logged in.
pub(super) struct Control {
    heard: Arc<Mutex<Heard>>,
    /// Gone only while TLS begins.
    line: Option<Line>,
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
    patience: Option<Duration>,
    /// Whether the connection ended without the server's doing, so that it may not know.
    is_cut_off: bool,
    features: Features,
    /// The key that was offered, and the request that offered it while its answer is not known.
    key: Option<Key>,
    offered: Option<u64>,
    /// Whether data is to be encrypted, and the request for it while its answer is not known.
    encrypt: bool,
    protected: Option<u64>,
    data_tls: Option<Arc<rustls::ClientConfig>>,
    /// The request for a store without a disk, while its answer is not known.
    store: Option<u64>,
    /// Where the node listens for what ssh carries, once that was found to be the only way.
    carried: Option<SocketAddr>,
    /// What makes this session's data connections when the node makes them by RDMA.
    dialler: Option<Arc<Dialler>>,
    /// How soon the server answered at best, where the kernel does not know the round-trip time.
    answered_in: Option<Span>,
    asked: Option<Instant>,
}

impl Control {
    /// Connects and logs in. The requests `ahead` go out as early as the server allows, to a Farline node together with the
    /// login; their numbers come back.
    pub(super) async fn open(remote: &Remote, reach: &Reach, ahead: Vec<Request>) -> Result<(Control, Vec<u64>), Error> {
        Control::connect(remote, reach, ahead, true).await
    }

    /// The same for a session whose data connections another server opens or takes: it knows no key, and encrypts nothing.
    pub(super) async fn open_for_another(remote: &Remote, reach: &Reach) -> Result<Control, Error> {
        if remote.via == Via::Ssh {
            return Err(Error::new(Fault::You, "third-party", format!("{remote} is reached over ssh, by this host alone"))
                .hint("copy to this host first, or name nodes at both ends: farline://host/path"));
        }
        if remote.via != Via::Tcp && !reach.no_encrypt {
            return Err(Error::new(Fault::Refused, "cannot-encrypt", "between two other hosts data is not encrypted")
                .hint("let it go in the clear with --no-encrypt"));
        }
        Ok(Control::connect(remote, reach, Vec::new(), false).await?.0)
    }

    async fn connect(remote: &Remote, reach: &Reach, ahead: Vec<Request>, keyed: bool) -> Result<(Control, Vec<u64>), Error> {
        let server = remote.server();
        let line = Line::open(remote, reach).await?;
        // Over ssh no address is known yet; what EPSV tells is the port alone.
        let host = line.ends.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |(_, peer)| peer.ip());
        let config = ClientConfig {
            host: Some(host),
            known_farline: remote.farline && remote.via == Via::Tcp,
            reply_timeout: reach.patience().map_or(Span::from_secs(u64::from(u32::MAX)), Span::from),
            client_info: Some(format!("scheme=ftp;appname=\"farline\";appver=\"{}\";", env!("CARGO_PKG_VERSION"))),
            ..ClientConfig::default()
        };
        let session = ClientSession::new(config, Time::ZERO);
        let mut control = Control {
            heard: Arc::default(),
            line: Some(line),
            session,
            began: Instant::now(),
            last_id: 0,
            events: VecDeque::new(),
            optional: BTreeSet::new(),
            kept: VecDeque::new(),
            received: vec![0; 16 * 1024],
            server,
            patience: reach.patience(),
            is_cut_off: false,
            features: Features::default(),
            key: None,
            offered: None,
            encrypt: remote.via != Via::Tcp && !reach.no_encrypt,
            protected: None,
            data_tls: None,
            store: None,
            carried: None,
            dialler: None,
            answered_in: None,
            asked: None,
        };
        if remote.via == Via::Tls {
            control.start_tls(remote, &reach.trust).await?;
        }
        let user = remote.user.clone().unwrap_or_else(|| "anonymous".to_owned());
        let password = remote.password.clone().unwrap_or_else(|| "farline@".to_owned());
        let login = control.request(Request::Login { user, password });
        if control.encrypt {
            control.protect(Protection::Private);
        }
        if keyed {
            control.offer_key()?;
        }
        control.choose_store(remote);
        if reach.patience().is_some_and(|patience| patience < SPARSE_MARKERS) {
            // A server that works says so every five seconds otherwise, and would be taken for silent.
            let often = Command::TransferEvents { event: TransferEvent::Perf, seconds: 1 };
            control.try_request(Request::Exec(often));
        }
        let ahead = ahead.into_iter().map(|request| match request {
            Request::ToFarline(_) => control.try_request(request),
            request => control.request(request),
        });
        let ahead = ahead.collect();
        match control.log_in(login).await {
            Ok(()) => Ok((control, ahead)),
            Err(error) => Err(control.why(error).await),
        }
    }

    async fn log_in(&mut self, login: u64) -> Result<(), Error> {
        loop {
            match self.event_of(login).await? {
                Event::Ready(features) => self.features = features,
                Event::Done(_) => return Ok(()),
                Event::Failed(error) => return Err(error.while_doing(format!("logging in at {}", self.server))),
                _ => {}
            }
        }
    }

    /// `error`, or what ssh knows better.
    async fn why(&self, error: Error) -> Error {
        let Some(ssh) = self.line.as_ref().and_then(|line| line.ssh.clone()) else { return error };
        let known = tokio::task::spawn_blocking(move || ssh.failure()).await;
        known.ok().flatten().unwrap_or(error)
    }

    /// `AUTH TLS` and the handshake, before anything else is said.
    async fn start_tls(&mut self, remote: &Remote, trust: &Trust) -> Result<(), Error> {
        let auth = self.request(Request::Exec(Command::Auth("TLS".to_owned())));
        self.done(auth).await.map_err(|error| match error.fault {
            Fault::Between => error,
            _ => Error::new(Fault::There, "no-tls", format!("{} offers no TLS: {}", self.server, error.message))
                .hint("its operator can offer it: farline serve --tls; ftp:// goes without"),
        })?;
        let line = self.line.take().ok_or_else(closed)?;
        self.line = Some(line.start_tls(remote, trust).await?);
        Ok(())
    }

    /// Asks for data connections to be encrypted, or not (P-1).
    fn protect(&mut self, level: Protection) {
        let ask = |command| Request::ToFarline(Box::new(Request::Exec(command)));
        self.try_request(ask(Command::ProtectionBuffer(0)));
        self.protected = Some(self.try_request(ask(Command::Protection(level))));
    }

    /// Gives a fresh key (K-1, K-2): a server that does not know keys says so, and data connections are made as ever.
    fn offer_key(&mut self) -> Result<(), Error> {
        let key = Key::random().map_err(|error| Error::new(Fault::Here, "no-randomness", error.to_string()))?;
        let offer = Opts::Farline { name: "key".to_owned(), value: key.to_hex() };
        let offer = Request::ToFarline(Box::new(Request::Exec(Command::Options(offer))));
        self.offered = Some(self.try_request(offer));
        self.key = Some(key);
        Ok(())
    }

    /// How data connections are encrypted: with a peer that shows the certificate it told of, or not at all (P-1, P-4).
    pub(super) async fn data_tls(&mut self) -> Result<Option<Arc<rustls::ClientConfig>>, Error> {
        let asked = match self.protected.take() {
            Some(id) => self.done(id).await,
            None => return Ok(self.data_tls.clone()),
        };
        if !self.encrypt {
            return Ok(None);
        }
        let told = self.features.parameters("FARLINE").find_map(|feature| feature.strip_prefix("TLS ")?.parse().ok());
        let (Ok(_), Some(fingerprint)) = (asked, told) else {
            return Err(Error::new(Fault::Refused, "cannot-encrypt", format!("{} cannot encrypt data", self.server))
                .hint("let it go in the clear with --no-encrypt"));
        };
        self.data_tls = Some(pinned(fingerprint)?);
        Ok(self.data_tls.clone())
    }

    /// Has data connections made anew, in the clear, for ssh to carry; answers with where the node listens for them (H-2).
    pub(super) async fn rearrange_for_ssh(&mut self) -> Result<(Arc<Ssh>, SocketAddr), Error> {
        let ssh = self.line.as_ref().and_then(|line| line.ssh.clone()).ok_or_else(closed)?;
        if let Some(address) = self.carried {
            return Ok((ssh, address));
        }
        self.encrypt = false;
        self.data_tls = None;
        self.protect(Protection::Clear);
        self.offer_key()?;
        let passive = self.request(Request::Passive { mode: Mode::Extended, striped: false });
        let address = self.passive(passive).await?;
        self.carried = Some(address);
        Ok((ssh, address))
    }

    /// Has data connections made by RDMA from now on (V-1): answers with where the node listens for them.
    pub(super) async fn arrange_rdma(
        &mut self,
        address: SocketAddr,
        fabric: Fabric,
    ) -> Result<(SocketAddr, Arc<Dialler>), Error> {
        if let Some(dialler) = &self.dialler {
            return Ok((address, Arc::clone(dialler)));
        }
        if self.data_tls().await?.is_some() {
            return Err(
                Error::new(Fault::You, "cannot-encrypt", "nothing encrypts RDMA").hint("--no-encrypt lets data go in the clear")
            );
        }
        if !self.features.parameters("FARLINE").any(|feature| feature == "RDMA") {
            return Err(Error::new(Fault::There, "no-rdma", format!("{} has no RDMA device, or not its libraries", self.server)));
        }
        let key = self.agreed_key().await?.ok_or_else(|| Error::new(Fault::There, "no-rdma", "the node takes no key"))?;
        let dialler = Arc::clone(self.dialler.insert(Arc::new(Dialler::new(key, fabric))));
        Ok((self.set_net_stack("rdma").await?, dialler))
    }

    /// Whether the node was asked to make data connections by RDMA.
    pub(super) fn is_by_rdma(&self) -> bool {
        self.dialler.is_some()
    }

    /// Has data connections made by TCP again; answers with where the node listens for them.
    pub(super) async fn arrange_tcp(&mut self) -> Result<SocketAddr, Error> {
        self.dialler = None;
        self.set_net_stack("tcp").await
    }

    async fn set_net_stack(&mut self, name: &str) -> Result<SocketAddr, Error> {
        let chosen = self.request(Request::Exec(Command::Site(Site::NetStack(name.to_owned()))));
        let passive = self.request(Request::Passive { mode: Mode::Extended, striped: false });
        self.done(chosen).await?;
        self.passive(passive).await
    }

    /// Whether data is in the clear for ssh to carry, so that no other way may be tried.
    pub(super) fn is_carried(&self) -> bool {
        self.carried.is_some()
    }

    /// Whether ssh carries this.
    pub(super) fn is_over_ssh(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.ssh.is_some())
    }

    /// Checks that the server is what `remote` says, and that it gave its store; ends before any transfer may begin.
    pub(super) async fn require(&mut self, remote: &Remote) -> Result<(), Error> {
        let announced = |what: &str| self.features.parameters("FARLINE").any(|feature| feature == what);
        if remote.farline && !announced("TREE") {
            return Err(Error::new(Fault::There, "not-farline", format!("{} is no Farline node", self.server))
                .hint("write ftp:// for other GridFTP servers"));
        }
        let Some(store) = remote.store else { return Ok(()) };
        let (word, name) = match store {
            Diskless::Null => ("NULL", "?null"),
            Diskless::Memory(_) => ("MEMORY", "?memory"),
        };
        if !announced(word) {
            return Err(Error::new(Fault::Refused, "store-not-allowed", format!("{} does not allow {name}", self.server))
                .hint("the node's operator can allow it: farline serve --allow-null --allow-memory SIZE"));
        }
        match self.store.take() {
            Some(id) => self.done(id).await.map(drop),
            None => Ok(()),
        }
    }

    /// Asks for the store without a disk that `remote` names, if it names one; [`Self::require`] learns whether it is had (S-1).
    fn choose_store(&mut self, remote: &Remote) {
        let Some(store) = remote.store else { return };
        let option = Opts::Farline { name: "store".to_owned(), value: store.to_string() };
        self.store = Some(self.try_request(Request::ToFarline(Box::new(Request::Exec(Command::Options(option))))));
    }

    /// What the server says that it holds, as it says it.
    pub(super) fn heard(&self) -> Arc<Mutex<Heard>> {
        Arc::clone(&self.heard)
    }

    /// Whether the server speaks checked blocks (`docs/protocol.md`, clause I-1).
    pub(super) fn checks(&self) -> bool {
        self.features.parameters("FARLINE").any(|feature| feature == "CHECK")
    }

    /// Lets the server change what it sends by itself, or has it tell at least what limits it (D-1, D-3); answers with the request.
    pub(super) fn adapt(&mut self, channels: bool, congestion: bool) -> Option<u64> {
        self.features.parameters("FARLINE").find(|feature| *feature == "ADAPT")?;
        let what = match (channels, congestion) {
            (true, true) => "channels+congestion",
            (true, false) => "channels",
            (false, true) => "congestion",
            (false, false) => "none",
        };
        let option = Opts::Farline { name: "adapt".to_owned(), value: what.to_owned() };
        Some(self.request(Request::Exec(Command::Options(option))))
    }

    /// The key under which this end opens every data connection; `None` with a server that does not know keys.
    pub(super) async fn agreed_key(&mut self) -> Result<Option<Key>, Error> {
        if let Some(offered) = self.offered.take() {
            let agreed = match self.done(offered).await {
                Ok(_) => self.features.parameters("FARLINE").any(|feature| feature == "KEY"),
                Err(error) if error.fault == Fault::Between => return Err(error),
                Err(_) => false,
            };
            self.key = self.key.take().filter(|_| agreed);
        }
        Ok(self.key.clone())
    }

    /// Has the server hold what it sends to a rate; answers whether it knows how to (O-2).
    pub(super) fn limit(&mut self, limit: Option<Rate>) -> bool {
        let Some(rate) = limit.filter(|_| self.features.parameters("FARLINE").any(|feature| feature == "LIMIT")) else {
            return false;
        };
        let option = Opts::Farline { name: "limit".to_owned(), value: rate.as_bps().to_string() };
        self.request(Request::Exec(Command::Options(option)));
        true
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
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    pub(super) fn features(&self) -> &Features {
        &self.features
    }

    /// The least round-trip time seen.
    pub(super) fn rtt(&self) -> Span {
        let kernel = self.line.as_ref().and_then(|line| line.handle.as_ref()?.tcp_info()).map(|info| info.min_rtt);
        kernel.or(self.answered_in).unwrap_or_default()
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr, Error> {
        self.ends().map(|(local, _)| local)
    }

    fn ends(&self) -> Result<(SocketAddr, SocketAddr), Error> {
        let no_address = || Error::new(Fault::Bug, "no-address", "a connection through ssh has no address");
        self.line.as_ref().and_then(|line| line.ends).ok_or_else(no_address)
    }

    /// The server's address and control port.
    pub(super) fn peer(&self) -> Result<SocketAddr, Error> {
        self.ends().map(|(_, peer)| peer)
    }

    /// Submits a request; its events carry the number.
    pub(super) fn request(&mut self, request: Request) -> u64 {
        self.last_id += 1;
        let now = self.now();
        self.session.handle(now, Input::Request { id: self.last_id, request });
        self.last_id
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
            let wake = self.flush().await?;
            match self.events.pop_front() {
                Some((id, Event::Ranges(held))) => {
                    lock(&self.heard).take(id, &held);
                    continue;
                }
                Some((_, Event::Remark(text))) => {
                    lock(&self.heard).remark(&text);
                    continue;
                }
                Some(event) => return Ok(event),
                None => {}
            }
            let now = self.now();
            let idle = async {
                match wake {
                    Some(at) => tokio::time::sleep(at.since(now).into()).await,
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
                Some(Ok(0) | Err(_)) => {
                    let heard_of_it = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
                    self.is_cut_off |= matches!(&read, Some(Err(error)) if !heard_of_it.contains(&error.kind()));
                    self.session.handle(now, Input::Closed);
                }
                Some(Ok(len)) => {
                    lock(&self.heard).at = Some(Instant::now());
                    self.session.handle(now, Input::Received(&self.received[..len]));
                }
                None => {}
            }
        }
    }

    /// Serves the connection until a request fails; what happens to the others is kept for [`Self::done`]. Cancel-safe.
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

    /// Does what the machine says; answers when it wants to be polled again.
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
                Output::Event { id, event } => self.events.push_back((id, event)),
                Output::Close if self.events.is_empty() => {
                    return Err(Error::new(
                        Fault::Between,
                        "control-closed",
                        format!("{} closed the control connection", self.server),
                    ));
                }
                Output::Close => return Ok(None),
                Output::Wait(at) => return Ok(at),
            }
        }
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

    /// Waits for a transfer's end and tells `moved` how many bytes the server says it has stored or sent so far (112).
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
        let told =
            self.features.parameters("FARLINE").find_map(|feature| feature.strip_prefix("ADDRESS ")?.parse::<IpAddr>().ok());
        let address = address.map(|address| told.map_or(address, |ip| SocketAddr::new(ip, address.port())));
        address.ok_or_else(|| Error::new(Fault::There, "no-address", format!("{} did not say where it listens", self.server)))
    }

    /// What is at a path, by the answer to the `Stat` request `id`; `None` when nothing is.
    pub(super) async fn looked(&mut self, id: u64) -> Result<Option<Entry>, Error> {
        match self.entries(id).await {
            Ok(mut entries) => Ok(entries.pop()),
            Err(error) if error.code == "path-not-found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in the directory `path`.
    pub(super) async fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Error> {
        let id = self.request(Request::List(Pathname::new(path)));
        self.entries(id).await
    }

    async fn entries(&mut self, id: u64) -> Result<Vec<Entry>, Error> {
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
    Error::new(Fault::Between, "control-closed", "the control connection is closed")
}
