//! A control connection as the session sees it: TCP, TLS over it, lines that GSSAPI protects, or
//! the standard streams of `serve --stdio`.

use super::gss_wire::{GssClient, GssWire};
use crate::channels::arrivals::PREAMBLE_TIMEOUT;
use crate::channels::gsi::Gsi;
use crate::channels::key::{PREAMBLE_LEN, Token};
use crate::channels::trust::{Duplex, ServerConfig, ShownCertificate, accept_control};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Join, Stdin, Stdout};
use tokio::net::TcpStream;

/// How soon to look again for the rest of a preamble that came in pieces.
const PEEK_AGAIN: Duration = Duration::from_millis(5);
/// How long the TLS handshake of a data connection may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A control connection.
pub(super) enum Wire {
    /// In the clear.
    Tcp(TcpStream),
    /// After `AUTH TLS`, with the certificates that the client showed.
    Tls(Box<dyn Duplex>, Vec<ShownCertificate>),
    /// After `AUTH GSSAPI`.
    Gss(Box<GssWire>),
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
            Wire::Tls(stream, _) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Wire::Gss(wire) => wire.write(bytes).await,
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
            Wire::Tls(stream, _) => stream.shutdown().await,
            Wire::Gss(wire) => wire.close().await,
            Wire::Stdio(streams) => streams.shutdown().await,
        };
    }

    /// Does the server's side of the TLS handshake, of which `early` has come already; the caller
    /// says for how long at most.
    ///
    /// # Errors
    /// When the client ends the handshake, or breaks TLS, or shows a certificate that does not
    /// count (`InvalidData`).
    pub(super) async fn start_tls(
        self,
        config: Arc<ServerConfig>,
        early: Vec<u8>,
    ) -> io::Result<Wire> {
        let Wire::Tcp(stream) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let (from, to) = stream.into_split();
        let stream = tokio::io::join(std::io::Cursor::new(early).chain(from), to);
        let (stream, certificates) = accept_control(stream, config).await?;
        Ok(Wire::Tls(stream, certificates))
    }

    /// Does the acceptor's end of the exchange of ADAT; the caller says for how long at most.
    ///
    /// # Errors
    /// In words for the operator, when nobody is let in.
    pub(super) async fn start_gssapi(self, gsi: Arc<Gsi>) -> Result<(Wire, GssClient), String> {
        let Wire::Tcp(stream) = self else { return Err("it is protected already".to_owned()) };
        let (wire, client) = GssWire::accept(stream, gsi).await?;
        Ok((Wire::Gss(Box::new(wire)), client))
    }

    /// The certificates that the client showed under TLS.
    pub(super) fn certificates(&self) -> &[ShownCertificate] {
        match self {
            Wire::Tls(_, certificates) => certificates,
            Wire::Tcp(_) | Wire::Gss(_) | Wire::Stdio(_) => &[],
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
            Wire::Tls(stream, _) => stream.read(into).await,
            Wire::Gss(wire) => wire.read(into).await,
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
