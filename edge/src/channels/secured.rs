//! TLS over data connections without a key, as plain FTP has them (RFC 4217).

#[cfg(feature = "tls")]
use super::handshake::shake_hands_in_task;
use super::ordered::ByteStream;
use super::pending::Steps;
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

/// By what a data connection without a key is known to be the client's own (P-5): by resuming its
/// control connection's TLS or, where it showed a certificate there, by the same one.
pub(crate) type Bound = Option<Fingerprint>;

/// The server's end of TLS over a data connection without a key: RFC 4217 (P-3). With `bound` it
/// has to be the client's own.
///
/// # Errors
/// When the peer breaks TLS, takes longer than `timeout`, or is a stranger.
#[cfg(feature = "tls")]
pub(crate) fn secured(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    timeout: Duration,
    bound: Option<Bound>,
) -> io::Result<Box<dyn ByteStream>> {
    socket::prepare(&stream)?;
    let socket = stream.try_clone()?;
    own(tls::accept(stream, config, timeout)?, &socket, bound)
}

/// The same in a task, whose caller ends it where that takes too long.
///
/// # Errors
/// As [`secured`].
#[cfg(feature = "tls")]
pub(crate) async fn secured_in_task(
    mut stream: tokio::net::TcpStream,
    config: Arc<ServerConfig>,
    bound: Option<Bound>,
    steps: &Steps,
) -> io::Result<Box<dyn ByteStream>> {
    let mut handshake = tls::ServerHandshake::new(config, None)?;
    shake_hands_in_task(&mut stream, &mut handshake, steps).await?;
    let stream = stream.into_std()?;
    socket::prepare(&stream)?;
    let socket = stream.try_clone()?;
    own(handshake.finished(stream)?, &socket, bound)
}

/// The connection, if it is the client's own.
#[cfg(feature = "tls")]
fn own(
    stream: tls::ServerStream<TcpStream>,
    socket: &TcpStream,
    bound: Option<Bound>,
) -> io::Result<Box<dyn ByteStream>> {
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
    _: Option<Bound>,
) -> io::Result<Box<dyn ByteStream>> {
    match *config {}
}

/// The same where there is no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) async fn secured_in_task(
    _: tokio::net::TcpStream,
    config: Arc<ServerConfig>,
    _: Option<Bound>,
    _: &Steps,
) -> io::Result<Box<dyn ByteStream>> {
    match *config {}
}
