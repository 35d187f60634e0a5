//! The connection that carries a control channel: TCP, TLS or GSSAPI over it, ssh, or one UDP port.

use super::connect_options::ConnectOptions;
use super::gss_stream::initiate;
use super::location::{ControlTransport, Remote};
use super::ssh::Ssh;
use super::sshftp;
use crate::channels::Handle;
use crate::channels::gsi::UserProxy;
use crate::channels::one_port::{self, ConnectedControl, SharedConnection};
use crate::channels::trust::{ControlTls, Duplex, client, connect_control, untrusted};
use crate::plan::paths::address_towards;
use crate::sys::words::plain;
use farline_core::units::Setting::ListenUdp;
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// How long a server may take to take the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The same over UDP, where nobody says that a port is closed.
const UDP_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection under a control channel.
pub(super) struct ControlStream {
    pub(super) stream: Box<dyn Duplex>,
    /// To ask the kernel about it, where it is TCP.
    pub(super) handle: Option<Handle>,
    /// This end and the other, where it is TCP; their addresses alone where a grid's server is
    /// reached over ssh.
    pub(super) ends: Option<(SocketAddr, SocketAddr)>,
    /// What carries it, where that is ssh.
    pub(super) ssh: Option<Arc<Ssh>>,
    /// The connection, where data goes over it too.
    pub(super) shared: Option<SharedConnection>,
    /// What encrypts it, where that is TLS: data connections of plain FTP servers go on from it.
    pub(super) tls: Option<ControlTls>,
}

impl ControlStream {
    /// Connects; TLS is not begun yet.
    pub(super) async fn open(
        remote: &Remote,
        connect: &ConnectOptions,
    ) -> Result<ControlStream, Error> {
        if remote.transport == ControlTransport::Ssh {
            let (ssh, mut stream) = Ssh::start(remote, connect)?;
            let ssh = Arc::new(ssh);
            let ends = match remote.farline {
                // A Farline node says it itself (K-6).
                true => None,
                false => Some(ends_over_ssh(remote, connect, &mut stream, &ssh).await?),
            };
            return Ok(ControlStream {
                stream: Box::new(stream),
                handle: None,
                ends,
                ssh: Some(ssh),
                shared: None,
                tls: None,
            });
        }
        if remote.transport == ControlTransport::OnePort {
            return ControlStream::over_udp(remote, connect).await;
        }
        let server = format!("{}:{}", remote.host, remote.port);
        let failed = |error: std::io::Error| {
            let message = format!("cannot reach {server}: {}", plain(&error));
            // The resolver's errors have no number of the kernel's.
            let hint = match error.raw_os_error().is_none()
                && error.kind() != io::ErrorKind::TimedOut
            {
                true => "is the host's name spelled right, and known to this host's resolver?",
                false => "is the node running, is the port right, does a firewall stand between?",
            };
            Error::new(Fault::Between, ErrorCode::Unreachable, message).hint(hint).caused_by(error)
        };
        let host = connect.address.map_or(remote.host.clone(), |address| address.to_string());
        let connecting = tokio::time::timeout(
            connect.at_most(CONNECT_TIMEOUT),
            TcpStream::connect((host, remote.port)),
        );
        let stream = connecting
            .await
            .map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?
            .map_err(failed)?;
        // Commands are short and their answers awaited.
        stream.set_nodelay(true).map_err(failed)?;
        crate::sys::tcp::notice_dead_peer(&stream).map_err(failed)?;
        crate::sys::retransmission::control_retries_often(&stream);
        let ends = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
        let handle = Handle::of(&stream).map_err(failed)?;
        Ok(ControlStream {
            stream: Box::new(stream),
            handle: Some(handle),
            ends: Some(ends),
            ssh: None,
            shared: None,
            tls: None,
        })
    }

    /// Connects to the node's one UDP port; the handshake is its own.
    async fn over_udp(remote: &Remote, connect: &ConnectOptions) -> Result<ControlStream, Error> {
        if !one_port::IS_BUILT {
            return Err(Error::not_built("farlineq://", one_port::DRIVER));
        }
        let server = remote.server();
        let silent = |why: &str| {
            let message = format!("cannot reach {server} over UDP: {why}");
            Error::new(Fault::Between, ErrorCode::Unreachable, message).hint(format!(
                "does the node listen there (farline serve {ListenUdp}), is the port right, does a \
                 firewall let UDP pass?"
            ))
        };
        let turned_away = || {
            let message = format!("{server} has no place for another connection over UDP now");
            Error::new(Fault::There, ErrorCode::ServerClosing, message)
                .hint("its log says which limit strikes; try again later")
        };
        let own = connect.credentials.certificate.as_ref();
        let (config, verifier) = client(&connect.trust, own)?;
        let host = connect.address.map_or(remote.host.clone(), |address| address.to_string());
        let found = tokio::net::lookup_host((host, remote.port)).await;
        let found: Vec<SocketAddr> = found.map_err(|error| silent(&error.to_string()))?.collect();
        let connecting = async {
            let mut last = Err(io::ErrorKind::NotFound.into());
            for address in found {
                last = one_port::connect(address, &remote.host, &config).await;
                if last.is_ok() {
                    break;
                }
            }
            last
        };
        let within = connect.at_most(UDP_TIMEOUT);
        let connected = tokio::time::timeout(within, connecting).await.unwrap_or_else(|_| {
            let why = format!("nothing replied within {}", Span::from(within));
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        });
        let ConnectedControl { stream, ends: (port, peer), shared } =
            connected.map_err(|error| match verifier.seen() {
                // It is there, and who comes later may have a place.
                _ if error.kind() == io::ErrorKind::ConnectionRefused => turned_away(),
                Some(_) => untrusted(&remote.host, &connect.trust, verifier.seen(), &error),
                None => silent(&error.to_string()),
            })?;
        let own = address_towards(peer.ip()).unwrap_or(peer.ip());
        let ends = Some((SocketAddr::new(own, port), peer));
        Ok(ControlStream { stream, handle: None, ends, ssh: None, shared: Some(shared), tls: None })
    }

    /// Does the client's side of the TLS handshake.
    pub(super) async fn start_tls(
        self,
        remote: &Remote,
        connect: &ConnectOptions,
    ) -> Result<ControlStream, Error> {
        let own = connect.credentials.certificate.as_ref();
        let (stream, tls) = connect_control(self.stream, &remote.host, &connect.trust, own).await?;
        Ok(ControlStream { stream, tls: Some(tls), ..self })
    }

    /// Does the initiator's side of the exchange of GSSAPI.
    pub(super) async fn start_gssapi(
        self,
        remote: &Remote,
        connect: &ConnectOptions,
        proxy: &UserProxy,
    ) -> Result<ControlStream, Error> {
        let stream = initiate(self.stream, remote, &connect.trust, proxy).await?;
        Ok(ControlStream { stream, ..self })
    }
}

/// The addresses between which data goes to a grid's server that `ssh` has started, by what comes
/// before it on `stream`.
async fn ends_over_ssh(
    remote: &Remote,
    connect: &ConnectOptions,
    stream: &mut UnixStream,
    ssh: &Arc<Ssh>,
) -> Result<(SocketAddr, SocketAddr), Error> {
    let said = sshftp::server_address(stream);
    // Questions of ssh's are answered meanwhile.
    let said = match connect.idle_timeout() {
        Some(within) => tokio::time::timeout(within, said)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        None => said.await,
    };
    let address = match said {
        Ok(address) => address.ok_or_else(|| {
            let message =
                format!("{remote}: sshd there does not say by which address it is reached");
            Error::new(Fault::There, ErrorCode::NoAddress, message)
                .hint("a server of OpenSSH's does, in SSH_CONNECTION")
        })?,
        Err(error) => {
            let ssh = Arc::clone(ssh);
            let known = tokio::task::spawn_blocking(move || ssh.failure()).await;
            return Err(known.ok().flatten().unwrap_or_else(|| {
                let message = format!("{remote}: nothing is heard of its shell: {error}");
                Error::new(Fault::Between, ErrorCode::SshFailed, message)
                    .hint(format!("does `ssh {} true` work?", remote.host))
            }));
        }
    };
    let here = address_towards(address).unwrap_or(address);
    Ok((SocketAddr::new(here, 0), SocketAddr::new(address, 0)))
}
