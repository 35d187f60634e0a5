//! TLS to a database: our own rustls, with the server's certificate checked.

use crate::channels::trust::{self, Trust};
use farline_core::units::Error;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// What makes TLS of a connection.
#[derive(Clone)]
pub(super) struct DatabaseTls(Arc<ClientConfig>);

impl DatabaseTls {
    /// Trusts the authorities in the file that `PGSSLROOTCERT` names, or the system's.
    pub(super) fn new() -> Result<DatabaseTls, Error> {
        let authorities = std::env::var_os("PGSSLROOTCERT").map(Into::into);
        let (config, _) = trust::client(&Trust { authorities, fingerprint: None }, None)?;
        Ok(DatabaseTls(config))
    }
}

/// A connection to one server.
pub(super) struct ToServer {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl MakeTlsConnect<Socket> for DatabaseTls {
    type Stream = Encrypted;
    type TlsConnect = ToServer;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<ToServer, Self::Error> {
        let name = ServerName::try_from(domain.to_owned())?;
        Ok(ToServer { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

impl TlsConnect<Socket> for ToServer {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let connecting = self.connector.connect(self.name, stream);
        Box::pin(async move { connecting.await.map(|stream| Encrypted(Box::new(stream))) })
    }
}

/// The connection, once it is there.
pub(super) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
