//! A control connection as the session sees it: TCP, TLS over it, or the standard streams of `serve
//! --stdio`.

use crate::channels::arrivals::PREAMBLE_TIMEOUT;
use crate::channels::key::{PREAMBLE_LEN, Token};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Join, Stdin, Stdout};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How soon to look again for the rest of a preamble that came in pieces.
const PEEK_AGAIN: Duration = Duration::from_millis(10);
/// How long the TLS handshake of a data connection may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A control connection.
pub(super) enum Wire {
    /// In the clear.
    Tcp(TcpStream),
    /// After `AUTH TLS`.
    Tls(Box<TlsStream<TcpStream>>),
    /// Carried by ssh.
    Stdio(Join<Stdin, Stdout>),
}

/// What came on a control connection.
pub(super) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// The end.
    Nothing,
    /// A preamble: this is a data connection (K-5).
    Preamble([u8; PREAMBLE_LEN]),
}

impl Wire {
    /// Writes all of `bytes`.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Tcp(stream) => stream.write_all(bytes).await,
            Wire::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Wire::Stdio(streams) => {
                streams.write_all(bytes).await?;
                streams.flush().await
            }
        }
    }

    /// Ends the sending side, with TLS's goodbye where there is TLS.
    pub(super) async fn close(&mut self) {
        // A peer that is gone needs no goodbye.
        let _ = match self {
            Wire::Tcp(stream) => stream.shutdown().await,
            Wire::Tls(stream) => stream.shutdown().await,
            Wire::Stdio(streams) => streams.shutdown().await,
        };
    }

    /// Does the server's side of the TLS handshake; the caller says for how long at most.
    pub(super) async fn start_tls(self, config: Arc<ServerConfig>) -> Option<Wire> {
        let Wire::Tcp(stream) = self else { return None };
        let handshake = TlsAcceptor::from(config).accept(stream);
        Some(Wire::Tls(Box::new(handshake.await.ok()?)))
    }

    /// The certificates that the client showed under TLS.
    pub(super) fn certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Wire::Tls(stream) => stream.get_ref().1.peer_certificates(),
            Wire::Tcp(_) | Wire::Stdio(_) => None,
        }
    }

    /// Reads; from a connection that has said nothing yet, a preamble whole and not a byte beyond.
    /// Cancel-safe.
    pub(super) async fn receive(&mut self, fresh: bool, into: &mut [u8]) -> Received {
        let read = match self {
            Wire::Tcp(stream) => {
                if fresh && let Some(received) = preamble(stream).await {
                    return received;
                }
                stream.read(into).await
            }
            Wire::Tls(stream) => stream.read(into).await,
            Wire::Stdio(streams) => streams.read(into).await,
        };
        match read {
            Ok(0) | Err(_) => Received::Nothing,
            Ok(len) => Received::Bytes(len),
        }
    }
}

/// Waits for a preamble; `None` when something else begins.
async fn preamble(stream: &mut TcpStream) -> Option<Received> {
    let mut preamble = [0; PREAMBLE_LEN];
    let mut tries = 0;
    while PEEK_AGAIN * tries < PREAMBLE_TIMEOUT {
        match stream.peek(&mut preamble).await {
            Ok(0) | Err(_) => break,
            Ok(len) if !Token::may_begin_with(&preamble[..len]) => return None,
            Ok(PREAMBLE_LEN) => {
                // All of it is there: this does not wait.
                return stream
                    .read_exact(&mut preamble)
                    .await
                    .ok()
                    .map(|_| Received::Preamble(preamble));
            }
            Ok(_) => {}
        }
        tries += 1;
        tokio::time::sleep(PEEK_AGAIN).await;
    }
    Some(Received::Nothing)
}
