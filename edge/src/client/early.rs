//! Data connections that are begun before the node has said where its data port is: to its control
//! port, next to the login, so that they stand by the time of its reply (docs/protocol.md, K-7).

use super::connect_options::patience;
use super::options::Options;
use crate::channels::driver::Peer;
use crate::channels::key::Key;
use crate::channels::layer::TlsPeer;
use crate::channels::offers::{Fallback, Need, Tunnelled};
use crate::channels::ordered::{ByteStream, OrderedChannel};
use crate::channels::socket::{adjust, connect_stream, is_open, prepare};
use crate::channels::stack::{Entrance, Stack};
use crate::channels::trust::{ClientConfig, Fingerprint, pinned};
use crate::channels::{Channel, TcpOptions};
use farline_core::plan::most_streams;
use farline_core::units::{Bytes, Error, Span};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What a node lists that waits for a connection's session.
pub(super) const FEATURE: &str = "EARLY";
/// On shorter paths a round trip or two are not worth a connection that may not be needed.
const WORTH_FROM: Span = Span::from_millis(5);
/// Connections at most: those that have yet to log in have their number at a node.
const MOST: usize = 16;
/// A node closes a connection that shows nothing for 5 seconds (K-3), or is not through its handshake
/// within 10 (P-2); what is older than this may be closed while data is on its way to it.
const GOOD_FOR: Duration = Duration::from_secs(4);

/// A connection, and its socket, which keeps its options below whatever layer.
type Connection = (TcpStream, Box<dyn ByteStream>);

/// Connections under way to a node's control port.
pub(super) struct EarlyConnections {
    stack: Stack,
    peer: SocketAddr,
    /// How long each may take.
    within: Duration,
    begun: Instant,
    connecting: Vec<JoinHandle<io::Result<Connection>>>,
    entrance: Option<Entered>,
}

/// How they become the session's, once it has a key.
struct Entered {
    key: Key,
    /// What the node shows on them.
    certificate: Option<Fingerprint>,
    entrance: Entrance,
}

/// What the session has agreed on, when its channels are to be opened.
pub(super) struct Agreed<'a> {
    pub(super) stack: &'a Stack,
    pub(super) key: &'a Key,
    /// What the node told that it shows on data connections.
    pub(super) certificate: Option<Fingerprint>,
    /// Where it listens for them.
    pub(super) address: SocketAddr,
    pub(super) sockets: &'a TcpOptions,
}

impl EarlyConnections {
    /// Begins to connect to the control port `peer` of a server, for a copy of `size`, if what
    /// `options` ask for goes over such connections.
    pub(super) fn begin(
        (server, peer, rtt): (&str, SocketAddr, Span),
        encrypt: bool,
        options: &Options,
        size: Option<Bytes>,
    ) -> Option<Self> {
        // Buffers of a fixed size, which a held rate needs at both ends, have to be there before a
        // connection is.
        if rtt < WORTH_FROM || options.buffer.is_some() || options.held.is_some() {
            return None;
        }
        let usual = options.drivers.default_channel()?.name;
        let is_usual = |stack: &Stack| stack.channel().name == usual;
        let asked = options.channel.as_ref();
        if !asked.is_none_or(is_usual) {
            return None;
        }
        let need = Need {
            asked,
            encrypt,
            keyed: true,
            tunnel: Tunnelled::No,
            peer: Peer { server, has: &|_| false },
        };
        let offers = options.drivers.offers(&need).ok()?;
        let stack = Some(Fallback::new(offers).try_next()?.stack).filter(is_usual)?;
        // As many as it may be: the plan, which knows more by then, leaves some out.
        let worth = || most_streams(size) as usize;
        let count = options.overrides.streams.unwrap_or_else(worth);
        let within = patience(rtt);
        let connect = move || {
            let stream = connect_stream(peer, None, &TcpOptions::default(), within)?;
            prepare(&stream)?;
            let socket = stream.try_clone()?;
            Ok((socket, Box::new(stream) as Box<dyn ByteStream>))
        };
        let connecting =
            (0..count.clamp(1, MOST)).map(|_| tokio::task::spawn_blocking(connect)).collect();
        Some(Self { stack, peer, within, begun: Instant::now(), connecting, entrance: None })
    }

    /// The session has offered `key`: handshakes begin, with a node that shows `certificate` on its
    /// data connections as on the control connection.
    pub(super) fn approach(
        &mut self,
        key: &Key,
        certificate: Option<Fingerprint>,
    ) -> Result<(), Error> {
        let trust = |config: Arc<ClientConfig>| TlsPeer { config, address: self.peer };
        let trust = certificate.map(pinned).transpose()?.map(trust);
        let entrance = Entrance::new(&self.stack, Some(key.clone()), trust).greeted(self.within);
        if entrance.is_layered() {
            let approach = |connecting: JoinHandle<io::Result<Connection>>| {
                let entrance = entrance.clone();
                tokio::spawn(async move {
                    let (socket, stream) = connecting.await.map_err(io::Error::other)??;
                    let approach = move || Ok((socket, entrance.approach(stream)?));
                    tokio::task::spawn_blocking(approach).await.map_err(io::Error::other)?
                })
            };
            self.connecting = self.connecting.drain(..).map(approach).collect();
        }
        self.entrance = Some(Entered { key: key.clone(), certificate, entrance });
        Ok(())
    }

    /// Channels of the session with a node that lists [`FEATURE`], `most` at most, of those that have
    /// come about; none where it is not the one that was meant.
    pub(super) async fn channels(self, agreed: &Agreed<'_>, most: usize) -> Vec<Box<dyn Channel>> {
        let Some(Entered { key, certificate, entrance }) = self.entrance else { return Vec::new() };
        let is_agreed = agreed.stack.to_string() == self.stack.to_string()
            && agreed.key.token() == key.token()
            && agreed.certificate == certificate
            && agreed.address.ip() == self.peer.ip();
        if !is_agreed {
            return Vec::new();
        }
        let mut connections = Vec::new();
        for connecting in self.connecting {
            // What is not needed is not waited for.
            if connections.len() == most {
                break;
            }
            connections.extend(connecting.await.into_iter().flatten());
        }
        if self.begun.elapsed() > GOOD_FOR {
            return Vec::new();
        }
        let sockets = agreed.sockets.clone();
        let enter = move || {
            let enter = |(socket, mut stream): Connection| {
                if !is_open(&socket) {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                adjust(&socket, &sockets)?;
                if entrance.is_layered() {
                    entrance.prove(&mut *stream)?;
                } else {
                    stream = entrance.enter(stream)?;
                }
                Ok(Box::new(OrderedChannel::over(stream)) as Box<dyn Channel>)
            };
            connections.into_iter().map(enter).filter_map(io::Result::ok).collect()
        };
        tokio::task::spawn_blocking(enter).await.unwrap_or_default()
    }
}
