//! TLS 1.3 over any channel of ordered bytes, by rustls, and the layer of that name: records are
//! sealed into and opened from buffers of a quarter of a mebibyte, so that the kernel is asked as
//! seldom as without TLS.

use super::Handle;
use super::driver::{Capabilities, Carries, CongestionBy, Driver, Offered, Role};
use super::handshake::{Handshake, shake_hands};
use super::key::{Key, PROOF_LEN};
use super::layer::{Layer, TlsPeer};
use super::ordered::ByteStream;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, ServerConfig};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// Plaintext sealed in one go: half of a processor's second-level cache, so that what is copied is
/// still in it.
const CHUNK: usize = 256 << 10;
/// What TLS 1.3 adds to CHUNK: header, content type and tag for each of its records of 16 KiB, and
/// for one more.
const OVERHEAD: usize = 64 * (CHUNK / (16 << 10) + 2);
/// More than any handshake message of ours.
const HANDSHAKE: usize = 16 << 10;

/// How long the handshake of a data connection may take the client, who may have to wait for its
/// turn.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: "tls",
        schemes: &["tls"],
        title: "TLS",
        about: "TLS 1.3 over a channel of ordered bytes",
        options: &[],
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: true,
            same_fabric: false,
            congestion: CongestionBy::Below,
            needs_key: true,
            grows: true,
            max_block: None,
            offered: Offered::WhenAsked,
        },
        features: &[],
        role: Role::Layer(Arc::new(Tls)),
    }
}

struct Tls;

impl Layer for Tls {
    fn connect(
        &self,
        below: Box<dyn ByteStream>,
        trust: &TlsPeer,
    ) -> io::Result<Box<dyn ByteStream>> {
        // The name is looked at by nobody: the certificate is known by its fingerprint.
        let name = ServerName::IpAddress(trust.address.ip().into());
        Ok(Box::new(connect(below, name, Arc::clone(&trust.config), CONNECT_TIMEOUT)?))
    }

    fn handshake(&self, identity: &Arc<ServerConfig>, key: &Key) -> io::Result<Box<dyn Handshake>> {
        Ok(Box::new(ServerHandshake::new(Arc::clone(identity), Some(key.clone()))?))
    }
}

/// The server's handshake as a machine, and what else came with it.
pub struct ServerHandshake {
    engine: UnbufferedServerConnection,
    incoming: Vec<u8>,
    /// What was opened.
    plain: Vec<u8>,
    /// Whether data may be sent.
    is_ready: bool,
    /// The client said that nothing more comes: a short file may come whole with the handshake.
    has_ended: bool,
    /// Whose proof the client has yet to show.
    awaited: Option<Key>,
}

impl ServerHandshake {
    /// At its beginning; with a key the client has to prove under TLS that it knows it.
    ///
    /// # Errors
    /// When `config` serves nobody.
    pub fn new(config: Arc<ServerConfig>, key: Option<Key>) -> io::Result<ServerHandshake> {
        let engine = UnbufferedServerConnection::new(config).map_err(broken)?;
        let (incoming, plain) = (Vec::new(), Vec::new());
        let (is_ready, has_ended) = (false, false);
        Ok(ServerHandshake { engine, incoming, plain, is_ready, has_ended, awaited: key })
    }

    /// The connection over `below`.
    ///
    /// # Errors
    /// When the handshake is not over, or more came with it than a connection begins with.
    pub(super) fn finished<S: ByteStream>(self, below: S) -> io::Result<ServerStream<S>> {
        if !self.is_done() || self.incoming.len() > CHUNK {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut stream = TlsStream::at_rest(below, self.engine);
        stream.incoming[..self.incoming.len()].copy_from_slice(&self.incoming);
        stream.tail = self.incoming.len();
        stream.plain = self.plain;
        stream.ended = self.has_ended;
        Ok(stream)
    }
}

impl Handshake for ServerHandshake {
    fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.incoming.extend_from_slice(bytes);
        let mut outgoing = Vec::new();
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.engine.process_tls_records(&mut self.incoming);
            let goes_on = match state.map_err(broken)? {
                ConnectionState::ReadTraffic(mut read) => {
                    while let Some(record) = read.next_record() {
                        let record = record.map_err(broken)?;
                        discard += record.discard;
                        self.plain.extend_from_slice(record.payload);
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let at = outgoing.len();
                    outgoing.resize(at + HANDSHAKE, 0);
                    let len = data
                        .encode(&mut outgoing[at..])
                        .map_err(|error| io::Error::other(error.to_string()))?;
                    outgoing.truncate(at + len);
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    self.is_ready = true;
                    false
                }
                ConnectionState::BlockedHandshake => false,
                ConnectionState::PeerClosed => {
                    self.has_ended = true;
                    true
                }
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            self.incoming.drain(..discard);
            if !goes_on {
                break;
            }
        }
        if self.incoming.len() > HANDSHAKE + CHUNK / 2 {
            return Err(io::Error::other("a TLS message is longer than any should be"));
        }
        if let Some(key) = &self.awaited
            && let Some((proof, _)) = self.plain.split_first_chunk::<PROOF_LEN>()
        {
            if !key.proves(*proof) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.plain.drain(..PROOF_LEN);
            self.awaited = None;
        }
        Ok(outgoing)
    }

    fn is_done(&self) -> bool {
        self.is_ready && self.awaited.is_none()
    }

    fn over(self: Box<Self>, below: Box<dyn ByteStream>) -> io::Result<Box<dyn ByteStream>> {
        Ok(Box::new(self.finished(below)?))
    }
}

/// A TLS connection as one end has it.
pub trait Engine: Send {
    /// Of which end.
    type Data;

    /// Goes on with what came.
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Engine for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Engine for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

/// A TLS connection over another.
pub struct TlsStream<S, E> {
    below: S,
    engine: E,
    /// What came and is not opened yet lies in `incoming[head..tail]`.
    incoming: Vec<u8>,
    head: usize,
    tail: usize,
    /// What was opened and not asked for yet lies in `plain[plain_at..]`.
    plain: Vec<u8>,
    plain_at: usize,
    outgoing: Vec<u8>,
    /// Bytes of plaintext that are sure to come, and what the socket was last told of them.
    expected: usize,
    told: usize,
    /// The peer said that nothing more comes.
    ended: bool,
}

/// A TLS connection of the client's end.
pub type ClientStream<S> = TlsStream<S, UnbufferedClientConnection>;
/// A TLS connection of the server's end.
pub type ServerStream<S> = TlsStream<S, UnbufferedServerConnection>;

impl<S> ServerStream<S> {
    /// Whether it goes on from an earlier connection, so that it is of the same client.
    pub(crate) fn is_resumed(&self) -> bool {
        self.engine.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificate that the client showed, if it did.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.engine.peer_certificates()?.first()
    }
}

/// Does the client's handshake over `below`, which may take `timeout`.
///
/// # Errors
/// When the peer breaks TLS, is not whom `config` trusts, or takes too long.
pub fn connect<S: ByteStream>(
    below: S,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    timeout: Duration,
) -> io::Result<ClientStream<S>> {
    let engine = UnbufferedClientConnection::new(config, name).map_err(broken)?;
    TlsStream::new(below, engine, timeout)
}

/// Does the server's handshake over `below`, which may take `timeout`.
///
/// # Errors
/// When the peer breaks TLS or takes too long.
pub fn accept<S: ByteStream>(
    below: S,
    config: Arc<ServerConfig>,
    timeout: Duration,
) -> io::Result<ServerStream<S>> {
    let (mut below, mut handshake) = (below, ServerHandshake::new(config, None)?);
    shake_hands(&mut below, &mut handshake, timeout)?;
    handshake.finished(below)
}

/// What [`turn`] came to.
enum RecordStep {
    /// There may be more to do.
    Again,
    /// Nothing goes on before more comes; data may be sent if `ready`.
    Input { ready: bool },
    /// So many bytes of `outgoing` are sealed plaintext.
    Sealed(usize),
    /// The peer ended its side.
    Ended,
}

/// Goes on with `incoming`: hands opened data to `take`, sends what the protocol itself wants sent,
/// and seals `plaintext` as soon as that may be. Returns also how much of `incoming` is done with.
fn turn<E: Engine>(
    engine: &mut E,
    below: &mut impl ByteStream,
    incoming: &mut [u8],
    outgoing: &mut [u8],
    plaintext: &[&[u8]],
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<(usize, RecordStep)> {
    let UnbufferedStatus { mut discard, state, .. } = engine.process(incoming);
    let turn = match state.map_err(broken)? {
        ConnectionState::ReadTraffic(mut read) => {
            while let Some(record) = read.next_record() {
                let record = record.map_err(broken)?;
                discard += record.discard;
                take(record.payload);
            }
            RecordStep::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let len = match data.encode(outgoing) {
                Ok(len) => len,
                Err(EncodeError::InsufficientSize(InsufficientSizeError { .. })) | Err(_) => {
                    return Err(io::Error::other("a TLS message is longer than any should be"));
                }
            };
            below.write_all(&outgoing[..len])?;
            RecordStep::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            RecordStep::Again
        }
        ConnectionState::WriteTraffic(_) if plaintext.is_empty() => {
            RecordStep::Input { ready: true }
        }
        ConnectionState::WriteTraffic(mut write) => {
            let mut len = 0;
            for part in plaintext {
                len += write
                    .encrypt(part, &mut outgoing[len..])
                    .map_err(|error| io::Error::other(error.to_string()))?;
            }
            RecordStep::Sealed(len)
        }
        ConnectionState::BlockedHandshake => RecordStep::Input { ready: false },
        ConnectionState::PeerClosed | ConnectionState::Closed => RecordStep::Ended,
        _ => return Err(io::Error::other("TLS came to a state that this version does not know")),
    };
    Ok((discard, turn))
}

impl<S: ByteStream, E: Engine> TlsStream<S, E> {
    /// A connection on which nothing lies yet.
    fn at_rest(below: S, engine: E) -> TlsStream<S, E> {
        TlsStream {
            below,
            engine,
            incoming: vec![0; CHUNK],
            head: 0,
            tail: 0,
            plain: Vec::new(),
            plain_at: 0,
            outgoing: vec![0; CHUNK + OVERHEAD + HANDSHAKE],
            expected: 1,
            told: 1,
            ended: false,
        }
    }

    fn new(below: S, engine: E, timeout: Duration) -> io::Result<TlsStream<S, E>> {
        let handle = below.handle()?;
        handle.set_read_timeout(Some(timeout))?;
        let mut stream = TlsStream::at_rest(below, engine);
        while !matches!(stream.turn(&[])?, RecordStep::Input { ready: true }) {
            if stream.ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        handle.set_read_timeout(None)?;
        Ok(stream)
    }

    /// One turn whose data is kept for later; reads when nothing goes on without, unless that is
    /// only for data to be sent.
    fn turn(&mut self, plaintext: &[&[u8]]) -> io::Result<RecordStep> {
        let plain = &mut self.plain;
        let incoming = &mut self.incoming[self.head..self.tail];
        let take = &mut |bytes: &[u8]| plain.extend_from_slice(bytes);
        let (discard, turn) =
            turn(&mut self.engine, &mut self.below, incoming, &mut self.outgoing, plaintext, take)?;
        self.head += discard;
        match turn {
            RecordStep::Input { ready: false } => self.fill()?,
            RecordStep::Ended => self.ended = true,
            _ => {}
        }
        Ok(turn)
    }

    /// Reads what has come, at least a byte.
    fn fill(&mut self) -> io::Result<()> {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        } else if self.tail == self.incoming.len() {
            self.incoming.copy_within(self.head..self.tail, 0);
            (self.head, self.tail) = (0, self.tail - self.head);
        }
        // Sealed bytes are more than plain ones, and some of them lie here already.
        let wanted = self.expected.saturating_sub(self.tail - self.head).max(1);
        if wanted != self.told {
            self.below.expect(wanted);
            self.told = wanted;
        }
        match self.below.read(&mut self.incoming[self.tail..])? {
            // Without TLS's own farewell anybody may have cut the rest off.
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection was cut off: TLS did not say goodbye",
            )),
            read => {
                self.tail += read;
                Ok(())
            }
        }
    }

    fn write_some(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        loop {
            match self.turn(parts)? {
                RecordStep::Sealed(len) => return self.below.write_all(&self.outgoing[..len]),
                RecordStep::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
                RecordStep::Again | RecordStep::Input { .. } => {}
            }
        }
    }
}

impl<S: ByteStream, E: Engine> Read for TlsStream<S, E> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let (mut filled, mut part, mut at) = (0, 0, 0);
        // Fills the parts in order, and returns how much of `bytes` they took.
        let mut put = |mut bytes: &[u8]| {
            let before = bytes.len();
            while !bytes.is_empty() && part < parts.len() {
                let len = bytes.len().min(parts[part].len() - at);
                parts[part][at..at + len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                at += len;
                if at == parts[part].len() {
                    (part, at) = (part + 1, 0);
                }
            }
            before - bytes.len()
        };
        if self.plain_at < self.plain.len() {
            let took = put(&self.plain[self.plain_at..]);
            self.plain_at += took;
            if self.plain_at == self.plain.len() {
                self.plain.clear();
                self.plain_at = 0;
            }
            return Ok(took);
        }
        while filled < room && !self.ended {
            let plain = &mut self.plain;
            let incoming = &mut self.incoming[self.head..self.tail];
            let take = &mut |bytes: &[u8]| {
                let took = put(bytes);
                filled += took;
                plain.extend_from_slice(&bytes[took..]);
            };
            let (discard, turn) =
                turn(&mut self.engine, &mut self.below, incoming, &mut self.outgoing, &[], take)?;
            self.head += discard;
            match turn {
                RecordStep::Input { .. } if filled > 0 => break,
                RecordStep::Input { .. } => self.fill()?,
                RecordStep::Ended => self.ended = true,
                RecordStep::Again | RecordStep::Sealed(_) => {}
            }
        }
        Ok(filled)
    }
}

impl<S: ByteStream, E: Engine> Write for TlsStream<S, E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // A header and the beginning of its payload leave together.
        let mut room = CHUNK;
        let mut chunk: [&[u8]; 2] = [&[], &[]];
        let mut count = 0;
        for part in parts.iter().filter(|part| !part.is_empty()).take(chunk.len()) {
            let len = part.len().min(room);
            if len == 0 {
                break;
            }
            chunk[count] = &part[..len];
            count += 1;
            room -= len;
        }
        if count > 0 {
            self.write_some(&chunk[..count])?;
        }
        Ok(CHUNK - room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: ByteStream, E: Engine> ByteStream for TlsStream<S, E> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.below.tcp_info()
    }

    fn handle(&self) -> io::Result<Handle> {
        self.below.handle()
    }

    fn congestion(&self) -> Option<ControlName> {
        self.below.congestion()
    }

    fn expect(&mut self, len: usize) {
        self.expected = len;
    }

    fn finish(&mut self) -> io::Result<()> {
        let incoming = &mut self.incoming[self.head..self.tail];
        if let Ok(ConnectionState::WriteTraffic(mut write)) = self.engine.process(incoming).state {
            let len = write
                .queue_close_notify(&mut self.outgoing)
                .map_err(|error| io::Error::other(error.to_string()))?;
            self.below.write_all(&self.outgoing[..len])?;
        }
        self.below.finish()
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

#[cfg(test)]
mod tests;
