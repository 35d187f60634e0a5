//! The connection that carries a control channel: TCP, TLS over it, or ssh.

use super::connect_options::ConnectOptions;
use super::location::{ControlTransport, Remote};
use super::ssh::Ssh;
use crate::channels::Handle;
use crate::channels::trust::{Fingerprint, Trust, client};
use farline_core::units::{Error, ErrorCode, Fault};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a server may take to take the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes both ways.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The connection under a control channel.
pub(super) struct ControlStream {
    pub(super) stream: Box<dyn Duplex>,
    /// To ask the kernel about it, where it is TCP.
    pub(super) handle: Option<Handle>,
    /// This end and the other, where it is TCP.
    pub(super) ends: Option<(SocketAddr, SocketAddr)>,
    /// What carries it, where that is ssh.
    pub(super) ssh: Option<Arc<Ssh>>,
    /// What encrypts it, where that is TLS: data connections of plain FTP servers go on from it.
    pub(super) tls: Option<(ServerName<'static>, Arc<ClientConfig>)>,
}

impl ControlStream {
    /// Connects; TLS is not begun yet.
    pub(super) async fn open(
        remote: &Remote,
        reach: &ConnectOptions,
    ) -> Result<ControlStream, Error> {
        if remote.via == ControlTransport::Ssh {
            let (ssh, stream) = Ssh::start(remote, reach)?;
            return Ok(ControlStream {
                stream: Box::new(stream),
                handle: None,
                ends: None,
                ssh: Some(Arc::new(ssh)),
                tls: None,
            });
        }
        let server = format!("{}:{}", remote.host, remote.port);
        let failed = |error: std::io::Error| {
            let message = format!(
                "cannot reach {server}: {}",
                error.to_string().split(" (os error").next().unwrap_or_default()
            );
            Error::new(Fault::Between, ErrorCode::Unreachable, message)
                .hint("is the node running, is the port right, does a firewall stand between?")
        };
        let connecting = tokio::time::timeout(
            reach.at_most(CONNECT_TIMEOUT),
            TcpStream::connect((remote.host.as_str(), remote.port)),
        );
        let stream = connecting
            .await
            .map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?
            .map_err(failed)?;
        // Commands are short and their answers awaited.
        stream.set_nodelay(true).map_err(failed)?;
        crate::sys::tcp::notice_dead_peer(&stream).map_err(failed)?;
        let ends = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
        let handle = Handle::of(&stream).map_err(failed)?;
        Ok(ControlStream {
            stream: Box::new(stream),
            handle: Some(handle),
            ends: Some(ends),
            ssh: None,
            tls: None,
        })
    }

    /// Does the client's side of the TLS handshake.
    pub(super) async fn start_tls(
        self,
        remote: &Remote,
        reach: &ConnectOptions,
    ) -> Result<ControlStream, Error> {
        let trust = &reach.trust;
        let (config, verifier) = client(trust, reach.credentials.certificate.as_ref())?;
        let name = ServerName::try_from(remote.host.clone()).map_err(|_| {
            Error::new(
                Fault::You,
                ErrorCode::BadUrl,
                format!("`{}` is no name for TLS", remote.host),
            )
        })?;
        let tls = Some((name.clone(), Arc::clone(&config)));
        let handshake = TlsConnector::from(config).connect(name, self.stream);
        let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
        let stream = stream.map_err(|_| {
            Error::new(Fault::Between, ErrorCode::TlsTimeout, "the TLS handshake takes too long")
        })?;
        let stream = stream.map_err(|error| untrusted(remote, trust, verifier.seen(), &error))?;
        Ok(ControlStream { stream: Box::new(stream), tls, ..self })
    }
}

fn untrusted(
    remote: &Remote,
    trust: &Trust,
    seen: Option<Fingerprint>,
    error: &std::io::Error,
) -> Error {
    match (trust.fingerprint, seen) {
        (_, None) => Error::new(
            Fault::There,
            ErrorCode::TlsFailed,
            format!("TLS with {}: {error}", remote.host),
        ),
        (Some(wanted), Some(seen)) => {
            let message =
                format!("{} shows another certificate than {wanted}: {seen}", remote.host);
            Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(
                "somebody may stand between; if the node has a new key, its operator tells \
                    the new fingerprint",
            )
        }
        (None, Some(seen)) => Error::new(
            Fault::Refused,
            ErrorCode::TlsUntrusted,
            format!("{} cannot be trusted: {error}", remote.host),
        )
        .hint(format!(
            "name its authority with --tls-ca FILE or, if its operator confirms it, \
                --tls-pin {seen}"
        )),
    }
}
