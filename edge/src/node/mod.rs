//! A running node: a GridFTP server for one exported directory.
//!
//! tokio carries the control channels, one task a session, each a
//! [`ServerSession`](farline_core::gridftp::server::ServerSession) fed with bytes and answers. What
//! touches a disk or moves data runs on threads of its own, so that one slow disk does not hold the
//! other sessions' control channels up.

mod accounts;
mod active;
mod adapt;
mod admission;
mod arrival;
mod bounce;
mod builder;
mod checksum;
mod config;
mod data;
mod data_listener;
mod descriptors;
mod files;
mod gsi_data;
mod gss_wire;
mod held;
mod hold_rate;
mod job;
mod known_path;
mod limits;
#[cfg(feature = "line")]
mod line;
mod list_memory;
mod moving;
#[cfg(not(feature = "line"))]
mod no_line;
#[cfg(not(feature = "profile"))]
mod no_profile;
mod notices;
mod passive;
mod path_set;
#[cfg(feature = "profile")]
mod profile;
mod quota;
mod reporter;
mod rules;
mod running;
mod sandbox;
mod served_certificate;
mod service_user;
mod session;
mod staging;
mod stores;
mod stream_mode;
mod system_calls;
mod ticker;
mod time_of_day;
mod told_path;
mod transfer;
mod tree;
mod tree_options;
mod tree_rights;
mod tree_state;
mod wire;

pub use crate::sys::heap::give_freed_memory_back;
pub use bounce::Network;
pub use builder::NodeBuilder;
pub use config::{Anonymous, Config, ConfigFile, DEFAULT_LISTEN, TlsKey, parse_ports};
pub use limits::NodeLimits;
pub use sandbox::{Confinement, confine};
pub use service_user::become_user;

use crate::channels::Registry;
use crate::channels::accept_error::{AfterError, BackOff};
use crate::channels::driver::Role;
use crate::channels::gsi::Gsi;
use crate::channels::one_port::{ControlArrival, OnePort};
use crate::channels::socket::{begin_as_data, begin_wide, narrow_window};
use crate::channels::trust::{Fingerprint, NodeCertificate};
use crate::identity::KeySets;
use crate::mover::UnsentWork;
use crate::stores::{Root, StoreRegistry};
use crate::sys::pool_memory::PoolMemory;
use farline_core::copy::HeldRate;
use farline_core::gridftp::Pathname;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
#[cfg(not(feature = "line"))]
use no_line as line;
#[cfg(not(feature = "profile"))]
use no_profile as profile;
use served_certificate::ServedCertificate;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
#[cfg(feature = "profile")]
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A node that listens and serves.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    one_port: Option<OnePort>,
}

/// What every session of a node shares.
#[derive(Debug)]
struct Shared {
    config: Config,
    root: Arc<Root>,
    /// What holds each identity to its rate.
    paces: accounts::Paces,
    /// Turns to compare a password's hash: as many at once as there are processors, so that clients
    /// that log in take so much memory and no more, and no thread while they wait.
    hashes: Arc<tokio::sync::Semaphore>,
    /// The keys of those whose tokens are taken.
    issuer_keys: KeySets,
    /// What each identity stored today.
    quotas: quota::Quotas,
    /// Work on blocks that their senders do not send.
    unsent: UnsentWork,
    /// Booked rates that sessions hold.
    held: Arc<held::HeldRates>,
    /// The window that connections of the control port begin with, where it is that of a held rate.
    wide: Option<Bytes>,
    /// Memory that the lists of trees take.
    lists: Arc<list_memory::ListMemory>,
    /// Memory that the staging pools of sessions take.
    staging: Arc<PoolMemory>,
    /// File descriptors that data may take.
    descriptors: Arc<descriptors::Descriptors>,
    admission: Arc<admission::Admission>,
    notices: Arc<notices::Notices>,
    listeners: Arc<data_listener::DataListeners>,
    /// What it shows under TLS; without it there is none.
    certificate: Option<ServedCertificate>,
    /// What accepts who comes with a proxy of a grid; without it nobody does.
    gsi: Option<Arc<Gsi>>,
    /// Where relative paths start.
    home: Pathname,
    /// Whether a client measures the path to here now.
    #[cfg(feature = "profile")]
    measured: AtomicBool,
    /// The far end of line tests, where there is one.
    #[cfg(feature = "line")]
    line: Option<line::NodeReflector>,
    /// What is said and looked at while transfers run.
    ticker: Arc<ticker::Ticker>,
    /// The channel drivers that this host can use.
    drivers: Registry,
    /// The stores that clients may use instead of the files.
    stores: StoreRegistry,
}

impl Shared {
    fn new(
        config: Config,
        root: Root,
        certificate: Option<ServedCertificate>,
        gsi: Option<Arc<Gsi>>,
        home: Pathname,
    ) -> Shared {
        let notices = Arc::new(notices::Notices::default());
        let limits = descriptors::fitted(&config.limits);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Shared {
            drivers: usable(&config),
            stores: config.offered(),
            admission: Arc::new(admission::Admission::new(
                limits.clone(),
                !config.identities.is_empty(),
                Arc::clone(&notices),
            )),
            notices,
            listeners: Arc::default(),
            #[cfg(feature = "profile")]
            measured: AtomicBool::new(false),
            #[cfg(feature = "line")]
            line: None,
            ticker: Arc::default(),
            root: Arc::new(root),
            paces: accounts::Paces::default(),
            issuer_keys: KeySets::default(),
            quotas: quota::Quotas::default(),
            hashes: Arc::new(tokio::sync::Semaphore::new(processors)),
            unsent: UnsentWork::new(processors),
            held: Arc::new(held::HeldRates::new(config.allow_held)),
            wide: None,
            lists: list_memory::ListMemory::new(limits.list_memory),
            staging: staging::memory(&config),
            descriptors: Arc::new(descriptors::Descriptors::new(&limits)),
            config,
            certificate,
            gsi,
            home,
        }
    }
}

impl Shared {
    /// What a session that begins now shows under TLS.
    fn current_certificate(&self) -> Option<NodeCertificate> {
        let certificate = self.certificate.as_ref()?;
        Some(certificate.current(&self.config, &self.notices))
    }
}

/// The drivers that the operator lets clients choose and this host can use, with the layers over
/// them.
fn usable(config: &Config) -> Registry {
    config.drivers().only(|driver| match &driver.role {
        Role::Channel(transport) => transport.available().is_ok(),
        Role::Layer(_) => true,
    })
}

/// Serves one session on standard input and output, as ssh starts it: the whole file system with
/// the rights of this user (`docs/protocol.md`, H-1). `connection` is sshd's SSH_CONNECTION.
/// Returns when the client is gone.
///
/// # Errors
/// When the session cannot begin.
pub async fn serve_stdio(config: Config, connection: Option<&str>) -> Result<(), Error> {
    let root = Root::open(&config.root)?.exported();
    let home = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let (peer, local) = connection.and_then(ends).unwrap_or_else(|| {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        (here, here)
    });
    let fresh = cfg!(feature = "tls").then(NodeCertificate::fresh).transpose()?;
    let shared = Shared::new(
        config,
        root,
        fresh.map(ServedCertificate::fixed),
        None,
        Pathname::new(home.into_os_string().into_vec()),
    );
    let certificate = shared.current_certificate();
    let wire = wire::Wire::Stdio(tokio::io::join(tokio::io::stdin(), tokio::io::stdout()));
    session::serve(
        Arc::new(shared),
        wire,
        arrival::Arrival {
            local,
            peer,
            over_ssh: true,
            rtt: Span::ZERO,
            one_port: None,
            certificate,
        },
    )
    .await;
    Ok(())
}

/// Client and server of `CLIENT_IP CLIENT_PORT SERVER_IP SERVER_PORT`.
fn ends(connection: &str) -> Option<(SocketAddr, SocketAddr)> {
    let words: Vec<&str> = connection.split(' ').collect();
    let [client, client_port, server, server_port] = words[..] else { return None };
    // A link-local address has its interface behind a `%`, which no socket address holds.
    let end = |ip: &str, port: &str| Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?));
    Some((end(client, client_port)?, end(server, server_port)?))
}

impl Node {
    /// Opens the exported directory and listens. Runs inside a tokio runtime. Where
    /// [`NodeLimits::descriptors`] says fewer than this process may have, it may have so many from
    /// then on.
    ///
    /// # Errors
    /// When the directory cannot be opened or the address is taken.
    pub async fn bind(config: Config) -> Result<Node, Error> {
        descriptors::limit_process(&config.limits);
        let root = Root::open(&config.root)?.exported();
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen on {}: {error}", config.listen);
            Error::new(Fault::Here, ErrorCode::ListenFailed, message)
                .hint(format!("choose another address with {} ADDR:PORT", Setting::Listen))
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        // Data connections come there too: K-5, K-7.
        let wide = config.allow_held.map(|rate| HeldRate { rate, channels: 1 }.buffer(Span::ZERO));
        let wide = wide.filter(|&len| begin_wide(&listener, len));
        if wide.is_none() {
            begin_as_data(&listener);
        }
        let address = listener.local_addr().map_err(failed)?;
        let certificate = ServedCertificate::open(&config)?;
        let gsi = config.gsi.as_ref().map(Gsi::open).transpose()?.map(Arc::new);
        let shared = Shared::new(config, root, certificate, gsi, Pathname::root());
        let issuer_keys = KeySets::new(&shared.config.identities)?;
        let shared = Shared { issuer_keys, wide, ..shared };
        if wide.is_some() {
            shared.listeners.begin_wide();
        }
        #[cfg(feature = "line")]
        let shared = Shared { line: line::NodeReflector::start(&shared.config)?, ..shared };
        let shared = Arc::new(shared);
        let at = shared.config.listen_udp.filter(|_| shared.certificate.is_some());
        let one_port = at.map(|address| listen_udp(address, &shared)).transpose()?;
        Ok(Node { shared, listener, address, one_port })
    }

    /// The fingerprint of the certificate that it shows under TLS, if it speaks TLS.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.shared.current_certificate().map(|certificate| certificate.fingerprint)
    }

    /// Where the control channel listens, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The UDP port for control and data, if there is one.
    pub fn udp_address(&self) -> Option<SocketAddr> {
        self.one_port.as_ref().map(OnePort::address)
    }

    /// Gives `sink` a line for each limit that strikes, a line a second of each at most.
    pub fn log_to(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        self.shared.notices.go_to(Box::new(sink));
    }

    /// What ends this node in good order.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves until dropped.
    ///
    /// # Errors
    /// When the listener itself is gone; a session's failure is its own, and what the network or
    /// this host's limits do to a connection ends nothing else.
    pub async fn run(mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let take = |stream, peer| take(&shared, stream, peer);
        let error = tokio::select! {
            error = accept_all(&mut self.listener, take, &self.shared.notices) => error,
            error = accept_udp(&shared, self.one_port.take()) => error,
        };
        let message = format!("the control port failed: {error}");
        Err(Error::new(Fault::Here, ErrorCode::ListenFailed, message))
    }
}

/// Ends a node in good order.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Sessions that move data now.
    pub fn transfers(&self) -> usize {
        self.0.admission.busy()
    }

    /// Lets nobody in any more, gives the transfers that run `within` to end, and breaks off those
    /// that are left. The node must be run meanwhile: data connections may still come.
    pub async fn drain(&self, within: Duration) {
        self.0.admission.drain(within).await;
    }
}

/// Where connections come from.
trait Accepts {
    /// The next.
    fn accept(&mut self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accepts for TcpListener {
    fn accept(&mut self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        TcpListener::accept(self)
    }
}

/// Gives every connection to `take`; returns only when there is nothing to accept from any more.
async fn accept_all(
    listener: &mut impl Accepts,
    take: impl Fn(TcpStream, SocketAddr),
    notices: &notices::Notices,
) -> io::Error {
    let mut back_off = BackOff::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                back_off.reset();
                take(stream, peer);
            }
            Err(error) => match AfterError::of(&error) {
                AfterError::GoOn => {}
                AfterError::BackOff => {
                    notices.say("accept", format_args!("no connection can be taken: {error}"));
                    tokio::time::sleep(back_off.next()).await;
                }
                AfterError::End => return error,
            },
        }
    }
}

/// Opens the one UDP port.
fn listen_udp(address: SocketAddr, shared: &Arc<Shared>) -> Result<OnePort, Error> {
    let shared = Arc::downgrade(shared);
    let shows = move || Some(shared.upgrade()?.current_certificate()?.config);
    OnePort::open(address, Arc::new(shows)).map_err(|error| {
        let message = format!("cannot listen on {address} over UDP: {error}");
        Error::new(Fault::Here, ErrorCode::ListenFailed, message)
            .hint(format!("choose another address with {} ADDR:PORT", Setting::ListenUdp))
    })
}

/// Begins a session for each control channel that comes to the one UDP port; returns only when that
/// is gone.
async fn accept_udp(shared: &Arc<Shared>, port: Option<OnePort>) -> io::Error {
    let Some(mut port) = port else { return std::future::pending().await };
    while let Some(came) = port.accept().await {
        let ControlArrival { stream, certificates, ends: (local, peer), rtt } = came;
        let one_port = Some(port.sessions());
        let certificate = shared.current_certificate();
        let arrival = arrival::Arrival { local, peer, over_ssh: false, rtt, one_port, certificate };
        let wire = wire::Wire::Tls(stream, certificates);
        tokio::spawn(session::serve(Arc::clone(shared), wire, arrival));
    }
    io::Error::other("its UDP port ended")
}

/// Begins a session.
fn take(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let Ok(local) = stream.local_addr() else { return };
    if shared.wide.is_some() {
        // What it is shows later; until then it takes a control connection's room.
        let _ = narrow_window(&stream);
    }
    // Replies are short and a client waits for each.
    let _ = stream.set_nodelay(true);
    // A client that vanished without a word still holds the place that it was writing to.
    let _ = crate::sys::tcp::notice_dead_peer(&stream);
    crate::sys::retransmission::control_retries_often(&stream);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let rtt = crate::sys::tcp::tcp_info(&stream).map_or(Span::ZERO, |info| info.min_rtt);
        let (one_port, certificate) = (None, shared.current_certificate());
        let arrival = arrival::Arrival { local, peer, over_ssh: false, rtt, one_port, certificate };
        session::serve(shared, wire::Wire::Tcp(stream), arrival).await;
    });
}

#[cfg(test)]
mod two_sessions_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Fails as scripted before each connection that it takes, and ends as a closed listener does.
    struct Failing {
        listener: TcpListener,
        errors: Vec<i32>,
        connections: u32,
    }

    impl Accepts for Failing {
        async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
            if let Some(errno) = self.errors.pop() {
                return Err(io::Error::from_raw_os_error(errno));
            }
            if self.connections == 0 {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            self.connections -= 1;
            self.listener.accept().await
        }
    }

    #[test]
    fn errors_of_accept_do_not_end_a_node() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let client = TcpStream::connect(address).await.expect("it listens");
            let errors = vec![
                libc::EPROTO,
                libc::EPERM,
                libc::ENOBUFS,
                libc::ENOMEM,
                libc::ENETDOWN,
                libc::EHOSTUNREACH,
                libc::EMFILE,
                libc::ECONNABORTED,
            ];
            let mut failing = Failing { listener, errors, connections: 1 };
            let notices = notices::Notices::default();
            let said = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&said);
            notices.go_to(Box::new(move |line| {
                assert!(line.starts_with("accept: no connection can be taken: "), "{line}");
                counted.fetch_add(1, Ordering::Relaxed);
            }));
            let taken = AtomicU64::new(0);
            let take = |_, _| {
                taken.fetch_add(1, Ordering::Relaxed);
            };
            let end = accept_all(&mut failing, take, &notices).await;
            assert_eq!(end.raw_os_error(), Some(libc::EBADF));
            assert_eq!(taken.load(Ordering::Relaxed), 1, "the connection was served after them");
            assert!(said.load(Ordering::Relaxed) >= 1);
            drop(client);
        });
    }
}
