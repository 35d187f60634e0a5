//! Whether a node answers, how far it is, and what it can: without moving a byte.

use super::connect_options::ConnectOptions;
use super::control::Control;
use super::location::Remote;
use crate::channels::Registry;
use crate::channels::driver::Peer;
use crate::channels::layer::TlsPeer;
use crate::channels::offers::{Fallback, Need, Tunnelled};
use crate::channels::stack::Entrance;
use farline_core::copy::NodePaths;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Mode, Pathname};
use farline_core::units::{Error, Span};
use serde::Serialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// What a node said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Greeting {
    /// The least round-trip time of a few commands.
    pub rtt: Span,
    /// This end's address towards it; over ssh nobody here knows.
    pub local: Option<IpAddr>,
    /// Whether it is Farline.
    pub farline: bool,
    /// Whether it speaks GridFTP at all: MODE E and parallel channels.
    pub gridftp: bool,
    /// What it knows of the path between it and here.
    #[serde(skip)]
    pub paths: NodePaths,
    /// Its features, as it announced them.
    pub features: Vec<String>,
    /// The port that it opened for data, and whether this host reaches it; over ssh, where it opens
    /// none, and where nobody asked ([`greet`]), nobody knows.
    pub data: Option<DataPort>,
}

/// A port for data, as this host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DataPort {
    /// Its number.
    pub port: u16,
    /// What became of a connection to it.
    pub state: PortState,
}

/// What a connection shows of a port, in nmap's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PortState {
    /// It was made.
    Open,
    /// Nobody answered: a firewall drops what goes there.
    Filtered,
    /// Somebody answered that nothing listens there.
    Closed,
    /// Somebody on the way answered that nothing may pass, or knows no way.
    Unreachable,
}

/// How long an answer to a connection may take, besides the way there and back.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Connects to the port that the node opens for data.
async fn data_port(control: &mut Control) -> Option<DataPort> {
    if control.is_over_ssh() || control.is_over_udp() {
        return None;
    }
    let mode = if control.features().is_gridftp { Mode::Extended } else { Mode::Stream };
    let passive = control.try_request(Request::Passive { mode, striped: false });
    let address = control.passive(passive).await.ok()?;
    // What a server behind a translation of addresses says is not where it is.
    let ip = match control.features().data_address {
        Some(_) => address.ip(),
        None => control.peer_ip().unwrap_or(address.ip()),
    };
    let within = ANSWERS_WITHIN + Duration::from(control.rtt()) * 3;
    let address = SocketAddr::new(ip, address.port());
    let connecting = TcpStream::connect(address);
    let state = match tokio::time::timeout(within, connecting).await {
        Ok(Ok(stream)) => {
            // Whoever says nothing there is a stranger in the node's log. That it is reached is
            // known, whatever comes of this.
            let _ = tokio::time::timeout(within, introduce(control, stream, address)).await;
            PortState::Open
        }
        Err(_) => PortState::Filtered,
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => PortState::Filtered,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => PortState::Closed,
        Ok(Err(_)) => PortState::Unreachable,
    };
    Some(DataPort { port: address.port(), state })
}

/// Makes a connection to the data port at `address` one of the session's, where that has a key, and
/// closes it.
async fn introduce(
    control: &mut Control,
    stream: TcpStream,
    address: SocketAddr,
) -> Result<(), Error> {
    let Some(key) = control.agreed_key().await? else { return Ok(()) };
    let trust = control.data_tls().await?.map(|config| TlsPeer { config, address });
    let offers = Registry::builtin().offers(&Need {
        asked: None,
        encrypt: trust.is_some(),
        keyed: true,
        tunnel: Tunnelled::No,
        peer: Peer { server: control.server(), has: &|_| false },
    })?;
    let Some(offer) = Fallback::new(offers).try_next() else { return Ok(()) };
    let entrance = Entrance::new(&offer.stack, Some(key), trust);
    let enter = move || {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        entrance.enter(Box::new(stream))
    };
    let entered = tokio::task::spawn_blocking(enter).await;
    // Closed at once it might break before the node has read what it showed.
    let look = control.try_request(Request::Stat(Pathname::new(b"/".to_vec())));
    let _ = control.looked(look).await;
    drop(entered);
    Ok(())
}

/// Connects, logs in, and asks a few harmless things so that the kernel sees some round trips.
///
/// # Errors
/// When the node cannot be reached, does not speak FTP, or lets nobody in.
pub async fn greet(remote: &Remote, connect: &ConnectOptions) -> Result<Greeting, Error> {
    greeted(remote, connect, false).await
}

/// The same, and whether this host reaches the port that the node opens for data.
///
/// # Errors
/// As [`greet`]; that the port is not reached is none.
pub async fn greet_and_reach_data(
    remote: &Remote,
    connect: &ConnectOptions,
) -> Result<Greeting, Error> {
    greeted(remote, connect, true).await
}

async fn greeted(
    remote: &Remote,
    connect: &ConnectOptions,
    reaches_data: bool,
) -> Result<Greeting, Error> {
    let (mut control, _) = Control::open(remote, connect, Vec::new()).await?;
    for _ in 0..3 {
        let look = control.try_request(Request::Stat(Pathname::new(b"/".to_vec())));
        // The answer does not matter, its time does.
        let _ = control.looked(look).await;
    }
    control.ask_paths();
    let paths = control.told_paths().await;
    let data = match reaches_data {
        true => data_port(&mut control).await,
        false => None,
    };
    let features = control.features();
    Ok(Greeting {
        data,
        paths,
        rtt: control.rtt(),
        local: control.local().ok().map(|local| local.ip()),
        farline: features.is_farline,
        gridftp: features.is_gridftp,
        features: features.lines().to_vec(),
    })
}
