//! Data connections that are begun before the node has said where its data port is: to its control
//! port, next to the login, so that they stand by the time of its reply (docs/protocol.md, K-7).

use super::connect_options::connect_timeout;
use super::options::Options;
use crate::channels::driver::Peer;
use crate::channels::key::Key;
use crate::channels::layer::TlsPeer;
use crate::channels::offers::{Fallback, Need, Tunnelled};
use crate::channels::ordered::{ByteStream, OrderedChannel};
use crate::channels::socket::{adjust, connect_stream, is_open, prepare};
use crate::channels::stack::{Entrance, Stack, announce};
use crate::channels::trust::{ClientConfig, Fingerprint, pinned};
use crate::channels::{Channel, TcpOptions};
use farline_core::copy::HeldRate;
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
/// A node closes a connection that shows nothing for 5 seconds (K-3), or is not through its
/// handshake within 10 (P-2); what is older than this may be closed while data is on its way to it.
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
    /// The rate that they are to hold, and their buffers.
    held: Option<(HeldRate, Bytes)>,
    connecting: Vec<JoinHandle<io::Result<Connection>>>,
    entrance: Option<Entered>,
}

/// How they become the session's, once it has a key.
struct Entered {
    key: Key,
    /// What the node shows on them.
    certificate: Option<Fingerprint>,
    entrance: Entrance,
    /// Whether they show the key before it is known that they are needed.
    is_shown: bool,
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
    /// The window that it opens to a held rate on connections to its control port.
    pub(super) early_held: Option<Bytes>,
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
        // Buffers of a fixed size have to be there before a connection is: the node's are those of
        // a held rate, or the kernel's.
        if rtt < WORTH_FROM || options.buffer.is_some() {
            return None;
        }
        let held = options.held.map(|held| (held, held.buffer(rtt)));
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
        let count = match held {
            Some((held, _)) => held.channels,
            None => options.overrides.streams.unwrap_or_else(worth),
        };
        let sockets = match held {
            Some((held, buffer)) => TcpOptions {
                buffer: Some(buffer),
                held: Some(held.share()),
                ..TcpOptions::default()
            },
            None => TcpOptions::default(),
        };
        let within = connect_timeout(rtt);
        let connect = move || {
            let stream = connect_stream(peer, None, &sockets, within)?;
            prepare(&stream)?;
            announce(&mut &stream)?;
            let socket = stream.try_clone()?;
            Ok((socket, Box::new(stream) as Box<dyn ByteStream>))
        };
        let connecting = (0..count.clamp(1, MOST))
            .map(|_| tokio::task::spawn_blocking(connect.clone()))
            .collect();
        Some(Self { stack, peer, within, begun: Instant::now(), held, connecting, entrance: None })
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
        let entrance =
            Entrance::new(&self.stack, Some(key.clone()), trust).greeted(self.within).announced();
        // What the node acknowledges opens its window: a held rate needs that before there is data.
        let is_shown = entrance.is_layered() || self.held.is_some();
        if is_shown {
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
        self.entrance = Some(Entered { key: key.clone(), certificate, entrance, is_shown });
        Ok(())
    }

    /// Channels of the session with a node that lists [`FEATURE`], `most` at most, of those that
    /// have come about; none where it is not the one that was meant.
    pub(super) async fn channels(self, agreed: &Agreed<'_>, most: usize) -> Vec<Box<dyn Channel>> {
        let Some(Entered { key, certificate, entrance, is_shown }) = self.entrance else {
            return Vec::new();
        };
        let fits = self.held.is_none_or(|(_, buffer)| agreed.early_held >= Some(buffer));
        let is_agreed = fits
            && agreed.stack.to_string() == self.stack.to_string()
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
                if is_shown {
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
