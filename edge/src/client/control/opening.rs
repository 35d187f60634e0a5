//! The beginning of a session: connecting, TLS, the login, and whether the server is the one that
//! was meant.

use super::{Control, closed};
use crate::channels::driver::{Carries, Offered};
use crate::channels::gsi::UserProxy;
use crate::channels::one_port;
use crate::channels::trust::{ClientKey, Trust};
use crate::client::behind_replies::BehindReplies;
use crate::client::connect_options::ConnectOptions;
use crate::client::control_stream::ControlStream;
use crate::client::early::EarlyConnections;
use crate::client::location::{ControlTransport, Remote};
use crate::client::options::Options;
use crate::plan::paths::interface_rate;
use crate::stores::not_allowed;
use crate::sys::lock::lock;
use farline_core::copy::{HeldRate, NodePaths, SeenPath, farline_option};
use farline_core::gridftp::client::{
    ClientConfig, ClientSession, Event, Input, PeerFeatures, Request,
};
use farline_core::gridftp::{Command, CommandOptions as Opts, Protection, Site, TransferEvent};
use farline_core::units::Setting::{AllowHeld, Gsi, NoEncrypt, Tls, TlsCa, TlsPin};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Retry, Span, Time};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a server may be silent for less than this, it is asked to say more often how far it is.
const SPARSE_MARKERS: Duration = Duration::from_secs(15);

/// A login that was refused, with how to log in otherwise.
fn named(error: Error, remote: &Remote, shown: Option<&ClientKey>) -> Error {
    let scheme = if remote.farline { "farlines" } else { "ftps" };
    match (&remote.user, remote.transport) {
        _ if error.hint.is_some() => error,
        (None, ControlTransport::Tls | ControlTransport::OnePort) if shown.is_some() => error.hint(
            "the certificate that FARLINE_CERT names is of nobody whom its operator has named: \
             `openssl x509 -noout -subject` says of whom it is",
        ),
        (_, ControlTransport::Gsi) => error.hint(
            "its operator maps the names in certificates to users; grid-proxy-info -identity says \
             yours",
        ),
        // Whom ssh lets in its server takes as it is set up to.
        (_, ControlTransport::Ssh) => error,
        (None, _) | (_, ControlTransport::Tcp) => {
            let place = remote.place();
            let server = place.rsplit(['/', '@']).next().unwrap_or_default();
            error.hint(format!(
                "if its operator has named you, log in over TLS: {scheme}://USER@{server}/"
            ))
        }
        _ => error,
    }
}

impl Control {
    /// Connects and logs in. The requests `ahead` go out as early as the server allows, to a
    /// Farline node together with the login; their numbers come back.
    pub(in crate::client) async fn open(
        remote: &Remote,
        connect: &ConnectOptions,
        ahead: Vec<Request>,
    ) -> Result<(Control, Vec<u64>), Error> {
        Control::connect(remote, connect, ahead, true, None).await
    }

    /// The same for a copy of so much, where that is known. If its sender is to hold a rate,
    /// [`Self::require`] learns whether the node admits it (O-8).
    pub(in crate::client) async fn open_for_copy(
        remote: &Remote,
        options: &Options,
        mut ahead: Vec<Request>,
        size: Option<Bytes>,
    ) -> Result<(Control, Vec<u64>), Error> {
        let early = Control::early_stack(remote, options);
        if let Some(name) = early {
            let choose = Request::Exec(Command::Site(Site::NetStack(name.to_owned())));
            ahead.insert(0, Request::ToFarline(Box::new(choose)));
        }
        let (mut control, mut asked) =
            Control::connect(remote, &options.connect, ahead, true, Some((options, size))).await?;
        control.early_stack = early.map(|name| (name, asked.remove(0)));
        Ok((control, asked))
    }

    /// The driver that the node is told of before it opens its first data port, which saves a round
    /// trip: one that was asked for, and that this session will have if the node does.
    fn early_stack(remote: &Remote, options: &Options) -> Option<&'static str> {
        let stack = options.channel.as_ref()?;
        let driver = stack.channel();
        let can = driver.capabilities;
        let encrypts = remote.transport == ControlTransport::Ssh
            || (remote.transport == ControlTransport::Tls && !options.connect.no_encrypt);
        let fits = can.offered == Offered::WhenAsked
            && can.carries == Carries::OrderedBytes
            && remote.farline
            && remote.transport != ControlTransport::OnePort
            && (encrypts || !can.encrypted);
        fits.then_some(driver.name)
    }

    /// The same for a session whose data connections another server opens or takes: it knows no
    /// key, and encrypts nothing.
    pub(in crate::client) async fn open_for_another(
        remote: &Remote,
        connect: &ConnectOptions,
    ) -> Result<Control, Error> {
        if remote.transport == ControlTransport::Ssh {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ThirdParty,
                format!("{remote} is reached over ssh, by this host alone"),
            )
            .hint("copy to this host first, or name servers at both ends: farline://host/path"));
        }
        if remote.transport == ControlTransport::OnePort {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ThirdParty,
                format!("{remote} is reached over one UDP port, by this host alone"),
            )
            .hint("write farline:// for both servers: data then goes in the clear between them"));
        }
        // Servers of a grid show each other whose they are by what they were delegated.
        let is_told_apart =
            matches!(remote.transport, ControlTransport::Tcp | ControlTransport::Gsi);
        if !is_told_apart && !connect.no_encrypt {
            return Err(Error::new(
                Fault::Refused,
                ErrorCode::CannotEncrypt,
                "between two other hosts data is not encrypted",
            )
            .hint(format!("let it go in the clear with {NoEncrypt}")));
        }
        Ok(Control::connect(remote, connect, Vec::new(), false, None).await?.0)
    }

    async fn connect(
        remote: &Remote,
        connect: &ConnectOptions,
        ahead: Vec<Request>,
        is_keyed: bool,
        copying: Option<(&Options, Option<Bytes>)>,
    ) -> Result<(Control, Vec<u64>), Error> {
        let server = remote.server();
        if remote.transport == ControlTransport::Tcp && connect.trust != Trust::default() {
            // Who says whom to trust does not mean to talk to anybody in the clear.
            let scheme = if remote.farline { "farline" } else { "ftp" };
            let message =
                format!("{remote} is not encrypted, so that no certificate can be looked at");
            return Err(Error::new(Fault::You, ErrorCode::CannotEncrypt, message).hint(format!(
                "write {scheme}s:// for {scheme}://, or leave {TlsPin} and {TlsCa} out"
            )));
        }
        if remote.transport == ControlTransport::Tls && !cfg!(feature = "tls") {
            return Err(Error::not_built("TLS", "tls"));
        }
        if remote.transport == ControlTransport::Gsi && connect.trust.authorities.is_some() {
            let message = format!("authorities of a grid are a folder, not the file of {TlsCa}");
            return Err(Error::new(Fault::You, ErrorCode::BadCertificate, message)
                .hint(format!("name their folder in X509_CERT_DIR, and leave {TlsCa} out")));
        }
        let (user, password) = connect.credentials.login(remote)?;
        // What lacks here should not cost a round trip to learn.
        let proxy = match remote.transport {
            ControlTransport::Gsi => Some(UserProxy::find(&connect.credentials.grid)?),
            _ => None,
        };
        let line = ControlStream::open(remote, connect).await?;
        // Over ssh no address is known yet; what EPSV tells is the port alone.
        let host = line.ends.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |(_, peer)| peer.ip());
        let config = ClientConfig {
            host: Some(host),
            // Over UDP a server says nothing before its client does; elsewhere its greeting, and
            // the round trip that it takes, need not be waited for.
            known_farline: remote.farline && remote.transport != ControlTransport::Ssh,
            reply_timeout: connect
                .idle_timeout()
                .map_or(Span::from_secs(u64::from(u32::MAX)), Span::from),
            client_info: Some(format!(
                "scheme=ftp;appname=\"farline\";appver=\"{}\";",
                env!("CARGO_PKG_VERSION")
            )),
            ..ClientConfig::default()
        };
        let session = ClientSession::new(config, Time::ZERO);
        let mut control = Control {
            remote_progress: Arc::default(),
            line: Some(line),
            session,
            began: Instant::now(),
            last_id: 0,
            events: VecDeque::new(),
            optional: BTreeSet::new(),
            kept: VecDeque::new(),
            received: vec![0; 16 * 1024],
            server,
            idle_timeout: connect.idle_timeout(),
            is_cut_off: false,
            features: PeerFeatures::default(),
            key: None,
            offered: None,
            // Nothing goes there in the clear.
            encrypt: match remote.transport {
                ControlTransport::Tcp | ControlTransport::Gsi => false,
                ControlTransport::OnePort => true,
                ControlTransport::Tls | ControlTransport::Ssh => !connect.no_encrypt,
            },
            protected: None,
            data_tls: None,
            grid: None,
            rate: None,
            paths: None,
            store: None,
            carried: None,
            dialer: None,
            early_stack: None,
            early: None,
            net_stack: (remote.transport == ControlTransport::OnePort).then_some(one_port::DRIVER),
            answered_in: None,
            live_limit: None,
            asked: None,
        };
        if let (ControlTransport::Tcp | ControlTransport::Tls, true) =
            (remote.transport, remote.farline)
        {
            let (path, encrypt) =
                ((control.server(), control.peer()?, control.rtt()), control.encrypt);
            let begin = |(options, size)| EarlyConnections::begin(path, encrypt, options, size);
            control.early = copying.and_then(begin);
        }
        if remote.transport == ControlTransport::Tls {
            control.start_tls(remote, connect).await?;
        }
        if let Some(proxy) = &proxy {
            control.start_gssapi(remote, connect, proxy).await?;
        }
        let login = control.request(Request::Login { user, password });
        if control.encrypt {
            control.protect(Protection::Private);
        }
        if is_keyed {
            match proxy {
                Some(_) => control.protect_grid(control.encrypts_grid(connect)),
                None => control.offer_key()?,
            }
            control.ask_rate(copying.and_then(|(options, _)| options.held));
        }
        control.choose_store(remote);
        if connect.idle_timeout().is_some_and(|idle_timeout| idle_timeout < SPARSE_MARKERS) {
            // A server that works says so every five seconds otherwise, and would be taken for
            // silent.
            let often = Command::TransferEvents { event: TransferEvent::Perf, seconds: 1 };
            control.try_request(Request::Exec(often));
        }
        let ahead = control.submit(ahead);
        match control.log_in(login).await {
            Ok(()) => {
                control.settle_sshftp(remote, connect)?;
                Ok((control, ahead))
            }
            Err(error) if error.code == ErrorCode::LoginRefused => {
                Err(named(error, remote, connect.credentials.certificate.as_ref()))
            }
            Err(error) => Err(control.why(error).await),
        }
    }

    /// A grid's server that ssh has started, and that is no Farline node, shows and encrypts
    /// nothing on its data connections.
    fn settle_sshftp(&mut self, remote: &Remote, connect: &ConnectOptions) -> Result<(), Error> {
        if remote.transport != ControlTransport::Ssh || remote.farline || self.features.is_farline {
            return Ok(());
        }
        (self.encrypt, self.protected) = (false, None);
        if !connect.encrypt {
            return Ok(());
        }
        let message = format!("{remote} cannot encrypt data");
        Err(Error::new(Fault::Refused, ErrorCode::CannotEncrypt, message)
            .hint("gsiftp:// can, and host:path where farline is installed"))
    }

    /// Submits `requests`, of which those to Farline alone may fail; their numbers come back.
    pub(in crate::client) fn submit(&mut self, requests: Vec<Request>) -> Vec<u64> {
        let submit = |request| match request {
            Request::ToFarline(_) => self.try_request(request),
            request => self.request(request),
        };
        requests.into_iter().map(submit).collect()
    }

    async fn log_in(&mut self, login: u64) -> Result<(), Error> {
        loop {
            match self.event_of(login).await? {
                Event::Ready(features) => self.features = features,
                Event::Done(_) => return Ok(()),
                Event::Failed(error) => {
                    return Err(error.while_doing(format!("logging in at {}", self.server)));
                }
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

    /// `AUTH` of a mechanism, which a server that `lacks` it refuses; the line, for what follows.
    async fn auth(
        &mut self,
        mechanism: &str,
        lacks: &str,
        hint: &str,
    ) -> Result<ControlStream, Error> {
        let auth = self.request(Request::Exec(Command::Auth(mechanism.to_owned())));
        self.replied_to(auth, lacks, hint).await?;
        // It would become the beginning of what is said under protection.
        if !self.session.is_between_replies() {
            let message = format!("{} said more, in the clear, than that it agrees", self.server);
            return Err(Error::new(Fault::There, ErrorCode::ProtocolBroken, message)
                .hint("somebody on the path may have put it there"));
        }
        self.line.take().ok_or_else(closed)
    }

    async fn replied_to(&mut self, auth: u64, lacks: &str, hint: &str) -> Result<(), Error> {
        self.done(auth).await.map(drop).map_err(|error| match (error.fault, error.retry()) {
            // Who has no place for a client now has not said whether it has TLS.
            (Fault::Between, _) | (_, Retry::After) => error,
            _ => Error::new(
                Fault::There,
                ErrorCode::NoTls,
                format!("{} {lacks}: {}", self.server, error.message),
            )
            .hint(hint),
        })
    }

    /// `AUTH TLS` and the handshake, before anything else is said: to a Farline node in one round
    /// trip.
    async fn start_tls(&mut self, remote: &Remote, connect: &ConnectOptions) -> Result<(), Error> {
        let (lacks, hint) = (
            "offers no TLS",
            format!("its operator can offer it: farline serve {Tls}; ftp:// goes without"),
        );
        if !remote.farline {
            let line = self.auth("TLS", lacks, &hint).await?;
            self.line = Some(line.start_tls(remote, connect).await?);
            return Ok(());
        }
        let auth = self.request(Request::Exec(Command::Auth("TLS".to_owned())));
        self.flush().await?;
        let line = self.line.take().ok_or_else(closed)?;
        // The greeting, and the reply.
        let (stream, lines) = BehindReplies::new(line.stream, 2);
        let line = ControlStream { stream: Box::new(stream), ..line };
        let shaken = line.start_tls(remote, connect).await;
        let (now, said) = (self.now(), std::mem::take(&mut *lock(&lines)));
        self.session.handle(now, Input::Received(&said));
        match shaken {
            Ok(line) => self.line = Some(line),
            Err(error) => {
                // What the server said of it tells more than how the handshake ended.
                self.session.handle(now, Input::Closed);
                let said = self.replied_to(auth, lacks, &hint).await;
                // It could not hear of what is wrong at this end.
                if matches!(error.fault, Fault::Between | Fault::There) {
                    said?;
                }
                return Err(error);
            }
        }
        self.replied_to(auth, lacks, &hint).await
    }

    /// `AUTH GSSAPI` and the exchange, before anything else is said.
    async fn start_gssapi(
        &mut self,
        remote: &Remote,
        connect: &ConnectOptions,
        proxy: &UserProxy,
    ) -> Result<(), Error> {
        let hint =
            format!("its operator can have it take them: farline serve {Gsi}; ftp:// goes without");
        let line = self.auth("GSSAPI", "takes no proxies", &hint).await?;
        self.line = Some(line.start_gssapi(remote, connect, proxy).await?);
        self.grid = Some(proxy.data());
        Ok(())
    }

    /// Whether data of a session by GSI goes encrypted: as everywhere between Farline's own, and as
    /// it is asked for with others, whose clients have it in the clear unless they are told.
    pub(in crate::client) fn encrypts_grid(&self, connect: &ConnectOptions) -> bool {
        connect.encrypt || (self.session.features().is_farline && !connect.no_encrypt)
    }

    /// Checks that the server is what `remote` says, and that it gave its store; ends before any
    /// transfer may begin.
    pub(in crate::client) async fn require(&mut self, remote: &Remote) -> Result<(), Error> {
        if remote.farline && !self.features.tree {
            return Err(Error::new(
                Fault::There,
                ErrorCode::NotFarline,
                format!("{} is no Farline node", self.server),
            )
            .hint("write ftp:// for other GridFTP servers"));
        }
        self.require_rate().await?;
        let Some(store) = &remote.store else { return Ok(()) };
        if !self.features.has_extension(&store.feature()) {
            return Err(not_allowed(format!("{} does not allow {}", self.server, store.name())));
        }
        match self.store.take() {
            Some(id) => self.done(id).await.map(drop),
            None => Ok(()),
        }
    }

    /// Asks for a rate to be held (O-8): before data ports are opened, whose buffers it decides.
    fn ask_rate(&mut self, held: Option<HeldRate>) {
        self.rate = held.map(|held| {
            let option = farline_option("rate", &held.value());
            (held, self.try_request(Request::ToFarline(Box::new(option))))
        });
    }

    async fn require_rate(&mut self) -> Result<(), Error> {
        let Some((held, asked)) = self.rate.take() else { return Ok(()) };
        if !self.features.rate {
            let message = format!("{} cannot be asked to hold {}", self.server, held.rate);
            return Err(Error::new(Fault::There, ErrorCode::HeldRateRefused, message).hint(
                format!("a Farline node of this version can: farline serve {AllowHeld} RATE"),
            ));
        }
        let server = self.server.clone();
        self.done(asked).await.map(drop).map_err(|error| error.while_doing(format!("at {server}")))
    }

    /// Asks what the node knows of the path between it and here; [`Self::told_paths`] has it.
    pub(in crate::client) fn ask_paths(&mut self) {
        self.paths = Some(self.try_request(Control::path_question(false)));
    }

    /// The same question, for whoever sends it ahead, and tells of it by [`Self::asked_paths`]; who
    /// sends at a rate of their own choice says so, since that is no word on the path.
    pub(in crate::client) fn path_question(is_limited: bool) -> Request {
        let value = if is_limited { "limited" } else { "ask" };
        Request::ToFarline(Box::new(farline_option("path", value)))
    }

    /// The question was sent, by this number.
    pub(in crate::client) fn asked_paths(&mut self, id: u64) {
        self.paths = Some(id);
    }

    /// What the node knows of the path, where it was asked and says anything.
    pub(in crate::client) async fn told_paths(&mut self) -> NodePaths {
        let Some(asked) = self.paths.take() else { return NodePaths::default() };
        // A node that knows no such question is no worse than one that knows no path.
        let Ok(reply) = self.done(asked).await else { return NodePaths::default() };
        let told = reply.first();
        let told =
            told.trim().strip_prefix("path=").map_or_else(NodePaths::default, NodePaths::parse);
        // Another's word is believed of what this host can do.
        let fastest = self.local().ok().and_then(|local| interface_rate(local.ip()));
        let within = |seen: SeenPath| fastest.map_or(seen, |most| seen.within(most));
        NodePaths { out: told.out.map(within), back: told.back.map(within) }
    }

    /// Asks for the store without a disk that `remote` names, if it names one; [`Self::require`]
    /// learns whether it is had (S-1).
    fn choose_store(&mut self, remote: &Remote) {
        let Some(store) = &remote.store else { return };
        let option = Opts::Farline { name: "store".to_owned(), value: store.option() };
        self.store = Some(
            self.try_request(Request::ToFarline(Box::new(Request::Exec(Command::Options(option))))),
        );
    }
}
