//! Opens the data connections of a copy from this end: straight to the node's data port, or, where
//! that cannot be reached, through ssh or the control port (docs/protocol.md: K-1, K-5, P-2, H-2).

use super::control::Control;
use super::ssh::Ssh;
use crate::channels::key::Key;
use crate::channels::ordered::OrderedChannel;
use crate::channels::tcp::{TcpChannel, TcpOptions, connect};
use crate::channels::{Channel, Handle, tls};
use farline_core::units::{Error, Fault};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How long a stock server's data port may take; it has no other way in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a node's data port may take, beside three round trips, before another way is tried:
/// H-2.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest greeting before the data of a connection to the control port.
const LONGEST_GREETING: usize = 1024;

/// Which way data went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// Between this host and a data port of the other.
    #[default]
    Direct,
    /// Over connections to the node's control port, because its data ports could not be reached.
    ControlPort,
    /// Between RDMA devices of both hosts.
    Rdma,
    /// Through ssh, because the node's data ports could not be reached.
    Ssh,
}

/// Open data connections.
pub(super) struct Dialed {
    pub(super) channels: Vec<Box<dyn Channel>>,
    pub(super) path: DataPath,
    /// Whether a stranger on the way can read nothing.
    pub(super) encrypted: bool,
    /// How to open more of them to a node, where that is cheap.
    pub(super) line: Option<Dialer>,
}

/// Opens `streams` channels to `address`, where the server of `control` listens.
///
/// # Errors
/// When no way leads there: the error of the straight one.
pub(super) async fn dial(
    control: &mut Control,
    address: SocketAddr,
    streams: usize,
    options: &TcpOptions,
) -> Result<Dialed, Error> {
    let tls = control.data_tls().await?;
    let Some(key) = control.agreed_key().await? else {
        if tls.is_some() {
            return Err(Error::new(
                Fault::There,
                "cannot-encrypt",
                "the server encrypts, but knows no keys",
            ));
        }
        let line = Dialer {
            address,
            options: options.clone(),
            timeout: within(control, CONNECT_TIMEOUT),
            key: None,
            greeted: false,
            tls,
        };
        let channels =
            line.open(streams).await.map_err(|error| unreachable(address, options, &error))?;
        return Ok(Dialed { channels, path: DataPath::Direct, encrypted: false, line: None });
    };
    let encrypted = tls.is_some();
    let timeout = within(control, PATIENCE + 3 * Duration::from(control.rtt()));
    let straight =
        Dialer { address, options: options.clone(), timeout, key: Some(key), greeted: false, tls };
    let tried = match control.is_carried() {
        // What was arranged in the clear for ssh must not go any other way in a later pass.
        true => Err(io::ErrorKind::TimedOut.into()),
        false => straight.clone().open(streams).await,
    };
    let error = match tried {
        Ok(channels) => {
            return Ok(Dialed {
                channels,
                path: DataPath::Direct,
                encrypted,
                line: Some(straight),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(unreachable(address, options, &error));
        }
        Err(error) => error,
    };
    if control.is_over_ssh() {
        let (ssh, address) = control.rearrange_for_ssh().await?;
        control.data_tls().await?;
        let key =
            control.agreed_key().await?.ok_or_else(|| unreachable(address, options, &error))?;
        let carried: io::Result<Vec<_>> =
            (0..streams).map(|_| carry(&ssh, address, &key)).collect();
        let failed = |error: io::Error| {
            Error::new(Fault::Here, "no-ssh", format!("cannot run ssh for data: {error}"))
        };
        return Ok(Dialed {
            channels: carried.map_err(failed)?,
            path: DataPath::Ssh,
            encrypted: true,
            line: None,
        });
    }
    let through = Dialer {
        address: control.peer()?,
        timeout: within(control, CONNECT_TIMEOUT),
        greeted: true,
        ..straight
    };
    match through.clone().open(streams).await {
        Ok(channels) => {
            Ok(Dialed { channels, path: DataPath::ControlPort, encrypted, line: Some(through) })
        }
        Err(_) => Err(unreachable(address, options, &error)),
    }
}

/// `usual`, or less where a server may not be silent for so long.
fn within(control: &Control, usual: Duration) -> Duration {
    control.idle_timeout().map_or(usual, |idle_timeout| idle_timeout.min(usual))
}

/// A channel through ssh.
fn carry(ssh: &Ssh, address: SocketAddr, key: &Key) -> io::Result<Box<dyn Channel>> {
    let mut stream = ssh.carry(address)?;
    stream.write_all(&key.preamble())?;
    Ok(Box::new(OrderedChannel::over(stream)))
}

/// One way to open connections.
#[derive(Clone)]
pub(super) struct Dialer {
    address: SocketAddr,
    options: TcpOptions,
    timeout: Duration,
    key: Option<Key>,
    /// Whether the other end says a line before the data: it is the control port.
    greeted: bool,
    tls: Option<Arc<ClientConfig>>,
}

impl Dialer {
    /// Opens `count` channels at once.
    async fn open(self, count: usize) -> io::Result<Vec<Box<dyn Channel>>> {
        let opening: Vec<_> = (0..count)
            .map(|_| {
                let line = self.clone();
                tokio::task::spawn_blocking(move || line.open_one())
            })
            .collect();
        let mut channels = Vec::with_capacity(count);
        let mut failed = None;
        for opened in opening {
            match opened.await.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))) {
                Ok(channel) => channels.push(channel),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(channels), Err)
    }

    /// Opens one channel; waits for it.
    pub(super) fn open_one(&self) -> io::Result<Box<dyn Channel>> {
        let mut stream = connect(self.address, None, &self.options, self.timeout)?.into_stream();
        if let Some(key) = &self.key {
            stream.write_all(&key.preamble())?;
        }
        if self.greeted {
            stream.set_read_timeout(Some(self.timeout))?;
            skip_line(&mut stream)?;
            stream.set_read_timeout(None)?;
        }
        let (Some(config), Some(key)) = (&self.tls, &self.key) else {
            return Ok(Box::new(TcpChannel::new(stream)?));
        };
        // The name is looked at by nobody: the certificate is known by its fingerprint.
        let name = ServerName::IpAddress(self.address.ip().into());
        let mut stream = tls::connect(stream, name, Arc::clone(config), HANDSHAKE_TIMEOUT)?;
        stream.write_all(&key.proof())?;
        Ok(Box::new(OrderedChannel::over(stream)))
    }
}

/// Reads to the end of a line, and not a byte further: data may follow.
fn skip_line(stream: &mut TcpStream) -> io::Result<()> {
    let mut byte = [0];
    for _ in 0..LONGEST_GREETING {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the control port said no line"))
}

/// Handles of open channels, to watch them.
pub(super) fn handles(channels: &[Box<dyn Channel>]) -> Result<Vec<Handle>, Error> {
    let handles: Result<Vec<_>, _> = channels.iter().map(|channel| channel.handle()).collect();
    handles.map_err(|error| Error::new(Fault::Here, "no-descriptor", error.to_string()))
}

fn unreachable(address: SocketAddr, options: &TcpOptions, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound
        && let Some(name) = &options.congestion
    {
        return Error::new(
            Fault::You,
            "unknown-congestion",
            format!("this kernel has no congestion control `{name}`"),
        )
        .hint("see /proc/sys/net/ipv4/tcp_available_congestion_control");
    }
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or_default();
    Error::new(
        Fault::Between,
        "data-connection",
        format!("cannot connect to {address} for data: {said}"),
    )
    .hint("a firewall may hold the node's data ports back")
}
