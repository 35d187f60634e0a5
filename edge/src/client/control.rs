//! A control connection: the core's client machine on a tokio socket.

use super::location::Remote;
use crate::channels::key::Key;
use crate::stores::Diskless;
use crate::sys::tcp::tcp_info;
use farline_core::gridftp::client::{ClientConfig, ClientSession, Event, Features, Input, Output, Request};
use farline_core::gridftp::{Command, Entry, Options as Opts, Pathname, Reply};
use farline_core::units::{ByteRanges, Error, Fault, Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a server may take to take the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What the server said that it holds (111), by request and in all; sending threads leave that out.
#[derive(Debug, Default)]
pub(super) struct Heard {
    by: BTreeMap<u64, ByteRanges>,
    all: ByteRanges,
}

impl Heard {
    /// Everything.
    pub(super) fn all(&self) -> &ByteRanges {
        &self.all
    }

    /// What was said while one request ran.
    pub(super) fn of(&self, id: u64) -> u64 {
        self.by.get(&id).map_or(0, ByteRanges::total)
    }

    fn take(&mut self, id: u64, held: &ByteRanges) {
        let by = self.by.entry(id).or_default();
        for range in held.iter() {
            by.insert(range.clone());
            self.all.insert(range);
        }
    }
}

/// A control connection that is logged in.
pub(super) struct Control {
    heard: Arc<Mutex<Heard>>,
    stream: TcpStream,
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
    features: Features,
    /// The key that was offered, and the request that offered it while its answer is not known.
    key: Option<Key>,
    offered: Option<u64>,
}

impl Control {
    /// Connects and logs in. The requests `ahead` go out as early as the server allows, to a Farline node together with the
    /// login; their numbers come back.
    pub(super) async fn open(remote: &Remote, ahead: Vec<Request>) -> Result<(Control, Vec<u64>), Error> {
        Control::connect(remote, ahead, true).await
    }

    /// The same for a session whose data connections another server opens or takes: it knows no key.
    pub(super) async fn open_for_another(remote: &Remote) -> Result<Control, Error> {
        Ok(Control::connect(remote, Vec::new(), false).await?.0)
    }

    async fn connect(remote: &Remote, ahead: Vec<Request>, keyed: bool) -> Result<(Control, Vec<u64>), Error> {
        let server = format!("{}:{}", remote.host, remote.port);
        let failed = |error: std::io::Error| {
            let message = format!("cannot reach {server}: {}", error.to_string().split(" (os error").next().unwrap_or_default());
            Error::new(Fault::Between, "unreachable", message)
                .hint("is the node running, is the port right, does a firewall stand between?")
        };
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((remote.host.as_str(), remote.port)));
        let stream = connecting.await.map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?.map_err(failed)?;
        // Commands are short and their answers awaited.
        stream.set_nodelay(true).map_err(failed)?;
        crate::sys::tcp::notice_dead_peer(&stream).map_err(failed)?;
        let host = stream.peer_addr().map_err(failed)?.ip();
        let config = ClientConfig {
            host: Some(host),
            client_info: Some(format!("scheme=ftp;appname=\"farline\";appver=\"{}\";", env!("CARGO_PKG_VERSION"))),
            ..ClientConfig::default()
        };
        let session = ClientSession::new(config, Time::ZERO);
        let mut control = Control {
            heard: Arc::default(),
            stream,
            session,
            began: Instant::now(),
            last_id: 0,
            events: VecDeque::new(),
            optional: BTreeSet::new(),
            kept: VecDeque::new(),
            received: vec![0; 16 * 1024],
            server,
            features: Features::default(),
            key: None,
            offered: None,
        };
        let user = remote.user.clone().unwrap_or_else(|| "anonymous".to_owned());
        let password = remote.password.clone().unwrap_or_else(|| "farline@".to_owned());
        let login = control.request(Request::Login { user, password });
        // K-1, K-2: a server that does not know keys says so, and data connections are made as ever.
        if keyed {
            let key = Key::random().map_err(|error| Error::new(Fault::Here, "no-randomness", error.to_string()))?;
            let offer = Opts::Farline { name: "key".to_owned(), value: key.to_hex() };
            let offer = Request::ToFarline(Box::new(Request::Exec(Command::Options(offer))));
            control.offered = Some(control.try_request(offer));
            control.key = Some(key);
        }
        let ahead = ahead.into_iter().map(|request| match request {
            Request::ToFarline(_) => control.try_request(request),
            request => control.request(request),
        });
        let ahead = ahead.collect();
        loop {
            match control.event_of(login).await? {
                Event::Ready(features) => control.features = features,
                Event::Done(_) => break,
                Event::Failed(error) => return Err(error.while_doing(format!("logging in at {}", control.server))),
                _ => {}
            }
        }
        Ok((control, ahead))
    }

    /// Checks that the server is what `remote` says, and chooses its store; ends before any transfer may begin.
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
        let option = Opts::Farline { name: "store".to_owned(), value: store.to_string() };
        let id = self.request(Request::Exec(Command::Options(option)));
        self.done(id).await.map(drop)
    }

    /// What the server says that it holds, as it says it.
    pub(super) fn heard(&self) -> Arc<Mutex<Heard>> {
        Arc::clone(&self.heard)
    }

    /// Whether the server speaks checked blocks (`docs/protocol.md`, clause I-1).
    pub(super) fn checks(&self) -> bool {
        self.features.parameters("FARLINE").any(|feature| feature == "CHECK")
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

    pub(super) fn features(&self) -> &Features {
        &self.features
    }

    /// The least round-trip time seen.
    pub(super) fn rtt(&self) -> Span {
        tcp_info(&self.stream).map(|info| info.min_rtt).unwrap_or_default()
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr, Error> {
        self.stream.local_addr().map_err(|error| Error::new(Fault::Here, "no-address", error.to_string()))
    }

    /// The server's address and control port.
    pub(super) fn peer(&self) -> Result<SocketAddr, Error> {
        self.stream.peer_addr().map_err(|error| Error::new(Fault::Between, "no-address", error.to_string()))
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
                    self.heard.lock().unwrap_or_else(PoisonError::into_inner).take(id, &held);
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
            let read = tokio::select! {
                read = self.stream.read(&mut self.received) => Some(read),
                () = idle => None,
            };
            let now = self.now();
            match read {
                Some(Ok(0) | Err(_)) => self.session.handle(now, Input::Closed),
                Some(Ok(len)) => self.session.handle(now, Input::Received(&self.received[..len])),
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
                    if self.stream.write_all(&bytes).await.is_err() {
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
