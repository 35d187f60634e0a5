//! The connection that carries a control channel: TCP, TLS over it, or ssh.

use super::connect_options::ConnectOptions;
use super::location::{ControlTransport, Remote};
use super::ssh::Ssh;
use crate::channels::Handle;
use crate::channels::trust::{ControlTls, Duplex, connect_control};
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a server may take to take the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

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
    pub(super) tls: Option<ControlTls>,
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
        let host = reach.address.map_or(remote.host.clone(), |address| address.to_string());
        let connecting = tokio::time::timeout(
            reach.at_most(CONNECT_TIMEOUT),
            TcpStream::connect((host, remote.port)),
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
        let own = reach.credentials.certificate.as_ref();
        let (stream, tls) = connect_control(self.stream, &remote.host, &reach.trust, own).await?;
        Ok(ControlStream { stream, tls: Some(tls), ..self })
    }
}
