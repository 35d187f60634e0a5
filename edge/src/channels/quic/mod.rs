//! QUIC channels: streams of one or several QUIC connections, by quinn, which carry ordered bytes.
//!
//! A session's client opens the connections to a UDP port that the node opened for the session, and
//! a bidirectional stream in them for each channel. Whom either end talks to is known as under TLS:
//! the client takes the one certificate whose fingerprint the control connection told, and each
//! stream begins with the session's preamble and proof (docs/protocol.md, Q-1 to Q-4).

mod congestion;
pub(crate) mod control;
mod dialer;
mod endpoint;
mod listener;
pub(crate) mod one_port;
mod stream;
mod tasks;

use super::driver::{
    Agreed, Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered, Peer,
    Role, Session, Transport,
};
use super::key::{PREAMBLE_LEN, PROOF_LEN, Token};
use super::socket::TcpOptions;
use crate::drivers::{DriverOption, OptionKind, Values};
use congestion::QuicControl;
use farline_core::congestion::ControlName;
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};
use quinn::{Connection, ReadExactError, RecvStream, SendStream, VarInt};
use std::sync::Arc;
use tasks::Tasks;
use tokio::sync::watch;

/// What a node that has the driver lists.
const FEATURE: &str = "QUIC";

/// Connections that the channels are spread over.
const CONNECTIONS: &str = "connections";

/// More do not help one host: each is a task of its own.
const MOST_CONNECTIONS: u64 = 16;

/// Handshakes at one port of a node, and connections that have shown nothing yet, at once.
const MOST_BEGINNING: usize = 256;

/// What a connection is closed with that showed nothing it had to.
const NOTHING_SHOWN: VarInt = VarInt::from_u32(2);

/// What each stream begins with, inside QUIC's encryption: Q-3.
const GREETING_LEN: usize = PREAMBLE_LEN + PROOF_LEN;

/// The application protocol of data connections (RFC 9001, section 8.1): Q-2.
const ALPN: &[u8] = b"farline-data/1";

/// And of control connections: Q-5.
const CONTROL_ALPN: &[u8] = b"farline-control/1";

/// What it is called.
const NAME: &str = "quic";

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: NAME,
        schemes: &[NAME],
        title: "QUIC",
        about: "ordered bytes over QUIC: UDP, encrypted, with a congestion control in user space",
        options: &[DriverOption {
            name: CONNECTIONS,
            kind: OptionKind::Number { least: 1, most: MOST_CONNECTIONS, bare: true },
            help: "connections that the channels are spread over, else 1",
        }],
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: true,
            same_fabric: false,
            congestion: CongestionBy::Driver,
            needs_key: true,
            grows: false,
            max_block: None,
            offered: Offered::WhenAsked,
        },
        features: &[FEATURE],
        role: Role::Channel(Box::new(Quic::default())),
    }
}

/// The driver's transport, with the threads that carry its connections.
#[derive(Default)]
struct Quic(Arc<Tasks>);

impl Transport for Quic {
    fn agree(&self, values: &Values, peer: &Peer<'_>) -> Result<Agreed, Error> {
        if !(peer.has)(FEATURE) {
            let message = format!("{} takes no channels over QUIC", peer.server);
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message).hint(format!(
                "its operator or its version has none: farline serve {channel}; or leave \
                 {channel} out here",
                channel = Setting::Channel
            )));
        }
        Ok(Agreed { values: values.clone(), notes: Vec::new() })
    }

    fn connections(&self, values: &Values, _rtt: Span) -> usize {
        connections(values)
    }

    fn control(
        &self,
        _values: &Values,
        asked: Option<ControlName>,
    ) -> Result<Option<ControlName>, Error> {
        let control = QuicControl::of(&TcpOptions { congestion: asked, ..TcpOptions::default() })?;
        Ok(Some(control.algorithm.into()))
    }

    fn dialer(&self, session: &Session, values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        let tasks = Arc::clone(&self.0);
        Ok(Arc::new(dialer::QuicDialer::new(session, connections(values), tasks)?))
    }

    fn listen(&self, listen: Listen) -> Result<Box<dyn Listener>, Error> {
        Ok(Box::new(listener::QuicPort::open(&listen, Arc::clone(&self.0))?))
    }
}

/// The next stream of `connection`, for as long as what it is for `lives`.
async fn next_stream(
    connection: &Connection,
    lives: &mut watch::Receiver<()>,
) -> Option<(SendStream, RecvStream)> {
    tokio::select! {
        stream = connection.accept_bi() => stream.ok(),
        _ = lives.changed() => None,
    }
}

/// What a stream begins with: the session that it says it is of, and its proof.
async fn greeting(
    recv: &mut RecvStream,
) -> Result<(Option<Token>, [u8; PROOF_LEN]), ReadExactError> {
    let (mut preamble, mut proof) = ([0; PREAMBLE_LEN], [0; PROOF_LEN]);
    recv.read_exact(&mut preamble).await?;
    recv.read_exact(&mut proof).await?;
    Ok((Token::of(&preamble), proof))
}

fn connections(values: &Values) -> usize {
    values.number(CONNECTIONS).and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

/// What cannot be without an encrypted control connection, which tells the certificate.
fn not_private() -> Error {
    let message = "QUIC needs a control connection that is encrypted too";
    Error::new(Fault::You, ErrorCode::CannotEncrypt, message)
        .hint("write farlines:// or ftps://, or host:path to go over ssh")
}
