//! A running node: a GridFTP server for one exported directory.
//!
//! tokio carries the control channels, one task a session, each a
//! [`ServerSession`](farline_core::gridftp::server::ServerSession) fed with bytes and answers. What
//! touches a disk or moves data runs on threads of its own, so that one slow disk does not hold the
//! other sessions' control channels up.

mod adapt;
mod builder;
mod checksum;
mod config;
mod data;
mod diskless;
mod door;
mod files;
mod moving;
mod profile;
mod reporter;
mod running;
mod session;
mod stream_mode;
mod time_of_day;
mod transfer;
mod tree;
mod tree_state;
mod wire;

pub use builder::NodeBuilder;
pub use config::{Anonymous, Config, ConfigFile, DEFAULT_LISTEN, TlsKey, parse_ports};

use crate::channels::Registry;
use crate::channels::driver::Role;
use crate::channels::trust::{Fingerprint, Identity};
use crate::stores::Root;
use farline_core::gridftp::Pathname;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A node that listens and serves.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
}

/// What every session of a node shares.
#[derive(Debug)]
struct Shared {
    config: Config,
    root: Arc<Root>,
    sessions: Arc<Semaphore>,
    /// Connections beyond `sessions` that are looked at, for they may be data connections.
    turned_away: Arc<Semaphore>,
    doors: Arc<door::DataListeners>,
    /// What it shows under TLS; without it there is none.
    identity: Option<Identity>,
    /// Where relative paths start.
    home: Pathname,
    /// Bytes that memory stores take now.
    memory_used: AtomicU64,
    /// Whether a client measures the path to here now.
    measured: AtomicBool,
    /// The channel drivers that this host can use.
    drivers: Registry,
}

impl Shared {
    fn new(config: Config, root: Root, identity: Option<Identity>, home: Pathname) -> Shared {
        Shared {
            drivers: usable(&config),
            sessions: Arc::new(Semaphore::new(config.sessions)),
            turned_away: Arc::new(Semaphore::new(64)),
            doors: Arc::default(),
            memory_used: AtomicU64::new(0),
            measured: AtomicBool::new(false),
            root: Arc::new(root),
            config,
            identity,
            home,
        }
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
    let config = Config { allow_owner: true, ..config };
    let root = Root::open(&config.root)?.exported();
    let home = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let (peer, local) = connection.and_then(ends).unwrap_or_else(|| {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        (here, here)
    });
    let shared = Shared::new(
        config,
        root,
        Some(Identity::fresh()?),
        Pathname::new(home.into_os_string().into_vec()),
    );
    let wire = wire::Wire::Stdio(tokio::io::join(tokio::io::stdin(), tokio::io::stdout()));
    session::serve(Arc::new(shared), wire, session::Arrival { local, peer, over_ssh: true }).await;
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
    /// Opens the exported directory and listens. Runs inside a tokio runtime.
    ///
    /// # Errors
    /// When the directory cannot be opened or the address is taken.
    pub async fn bind(config: Config) -> Result<Node, Error> {
        let root = Root::open(&config.root)?.exported();
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen on {}: {error}", config.listen);
            Error::new(Fault::Here, ErrorCode::ListenFailed, message)
                .hint("choose another address with --listen ADDR:PORT")
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let identity = config.tls.as_ref().map(TlsKey::identity).transpose()?;
        let shared = Shared::new(config, root, identity, Pathname::root());
        Ok(Node { shared: Arc::new(shared), listener, address })
    }

    /// The fingerprint of the certificate that it shows under TLS, if it speaks TLS.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.shared.identity.as_ref().map(|identity| identity.fingerprint)
    }

    /// Where the control channel listens, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until dropped.
    ///
    /// # Errors
    /// When the listener itself fails; a session's failure is its own.
    pub async fn run(self) -> Result<(), Error> {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let Ok(permit) = Arc::clone(&self.shared.sessions).try_acquire_owned() else {
                        if let Ok(permit) = Arc::clone(&self.shared.turned_away).try_acquire_owned()
                        {
                            let shared = Arc::clone(&self.shared);
                            tokio::spawn(async move {
                                session::turn_away(&shared, stream).await;
                                drop(permit);
                            });
                        }
                        continue;
                    };
                    let Ok(local) = stream.local_addr() else { continue };
                    // Replies are short and a client waits for each.
                    let _ = stream.set_nodelay(true);
                    // A client that vanished without a word still holds the place that it was
                    // writing to.
                    let _ = crate::sys::tcp::notice_dead_peer(&stream);
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(async move {
                        let arrival = session::Arrival { local, peer, over_ssh: false };
                        session::serve(shared, wire::Wire::Tcp(stream), arrival).await;
                        drop(permit);
                    });
                }
                // Out of descriptors: those in use will come back; spinning would not help them.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    return Err(Error::new(
                        Fault::Here,
                        ErrorCode::ListenFailed,
                        format!("the control port failed: {error}"),
                    ));
                }
            }
        }
    }
}
