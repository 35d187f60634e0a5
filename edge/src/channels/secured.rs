//! TLS over data connections without a key, as plain FTP has them (RFC 4217).

use super::ordered::ByteStream;
use super::trust::{ControlTls, Fingerprint, ServerConfig};
#[cfg(feature = "tls")]
use super::{socket, tls};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The client's end of TLS over a data connection without a key, which goes on from the session of
/// its control connection (RFC 4217).
///
/// # Errors
/// When the peer breaks TLS or takes longer than `timeout`.
#[cfg(feature = "tls")]
pub(crate) fn secured_for_server(
    stream: TcpStream,
    ControlTls { name, config, .. }: ControlTls,
    timeout: Duration,
) -> io::Result<Box<dyn ByteStream>> {
    Ok(Box::new(tls::connect(stream, name, config, timeout)?))
}

/// The same where there is no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn secured_for_server(
    _: TcpStream,
    tls: ControlTls,
    _: Duration,
) -> io::Result<Box<dyn ByteStream>> {
    match tls {}
}

/// The server's end of TLS over a data connection without a key: RFC 4217 (P-3). With `bound` it is
/// the client's own only if it resumes its control connection's TLS, or shows the same certificate.
///
/// # Errors
/// When the peer breaks TLS, takes longer than `timeout`, or is a stranger.
#[cfg(feature = "tls")]
pub(crate) fn secured(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    timeout: Duration,
    bound: Option<Option<Fingerprint>>,
) -> io::Result<Box<dyn ByteStream>> {
    socket::prepare(&stream)?;
    let socket = stream.try_clone()?;
    let stream = tls::accept(stream, config, timeout)?;
    if let Some(certificate) = bound
        && !stream.is_resumed()
        && !certificate
            .is_some_and(|own| stream.peer_certificate().map(Fingerprint::of) == Some(own))
    {
        // Whoever it is need not wait for what will not come.
        socket.shutdown(std::net::Shutdown::Both)?;
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the data connection does not resume the TLS session of the control connection, so that \
             it may be anybody's",
        ));
    }
    Ok(Box::new(stream))
}

/// The same where there is no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn secured(
    _: TcpStream,
    config: Arc<ServerConfig>,
    _: Duration,
    _: Option<Option<Fingerprint>>,
) -> io::Result<Box<dyn ByteStream>> {
    match *config {}
}
