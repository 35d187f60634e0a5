//! A running node: a GridFTP server for one exported directory.
//!
//! tokio carries the control channels, one task a session, each a [`ServerSession`](farline_core::gridftp::server::ServerSession)
//! fed with bytes and answers. What touches a disk or moves data runs on threads of its own, so that one slow disk does
//! not hold the other sessions' control channels up.

mod config;
mod data;
mod diskless;
mod door;
mod files;
mod reporter;
mod session;
mod stream_mode;
mod tree;

pub use config::{Anonymous, Config, ConfigFile, DEFAULT_LISTEN, parse_ports};

use crate::stores::Root;
use farline_core::units::{Error, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
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
    doors: Arc<door::Doors>,
    /// Bytes that memory stores take now.
    memory_used: AtomicU64,
}

impl Node {
    /// Opens the exported directory and listens. Runs inside a tokio runtime.
    ///
    /// # Errors
    /// When the directory cannot be opened or the address is taken.
    pub async fn bind(config: Config) -> Result<Node, Error> {
        let root = Arc::new(Root::open(&config.root)?);
        let failed = |error: std::io::Error| {
            let message = format!("cannot listen on {}: {error}", config.listen);
            Error::new(Fault::Here, "listen-failed", message).hint("choose another address with --listen ADDR:PORT")
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let sessions = Arc::new(Semaphore::new(config.sessions));
        let turned_away = Arc::new(Semaphore::new(64));
        let shared = Shared { config, root, sessions, turned_away, doors: Arc::default(), memory_used: AtomicU64::new(0) };
        Ok(Node { shared: Arc::new(shared), listener, address })
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
                        if let Ok(permit) = Arc::clone(&self.shared.turned_away).try_acquire_owned() {
                            let shared = Arc::clone(&self.shared);
                            tokio::spawn(async move {
                                session::turn_away(&shared, stream).await;
                                drop(permit);
                            });
                        }
                        continue;
                    };
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(async move {
                        session::serve(shared, stream, peer).await;
                        drop(permit);
                    });
                }
                // Out of descriptors: those in use will come back; spinning would not help them.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(Error::new(Fault::Here, "listen-failed", format!("the control port failed: {error}"))),
            }
        }
    }
}
