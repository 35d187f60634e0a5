//! A control connection that GSSAPI protects, at the client: the exchange of `ADAT`, and then a
//! token for each line.

use super::location::Remote;
use crate::channels::gsi::{Distrust, GssContext, Initiator, UserProxy, WantedServer};
use crate::channels::trust::{Duplex, Trust};
use farline_core::gridftp::gssapi::{adat_command, protected_command};
use farline_core::gridftp::gssapi_replies::{ExchangeReply, SecurityReply, SecurityReplyReader};
use farline_core::units::Setting::TlsPin;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// How long the exchange may take.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A control connection after its exchange.
pub(super) struct GssStream {
    below: Box<dyn Duplex>,
    context: GssContext,
    replies: SecurityReplyReader,
    buffer: Vec<u8>,
    /// What came, and how much of it was read.
    plain: Vec<u8>,
    read: usize,
    /// A command of which the end is not there yet.
    line: Vec<u8>,
    /// What is to go, and how much of it went.
    sealed: Vec<u8>,
    sent: usize,
}

/// Does the initiator's end of the exchange over `below`, where the server has taken `AUTH GSSAPI`.
///
/// # Errors
/// When the server is not the one that is meant, does not take the proxy, or breaks the protocol.
pub(super) async fn initiate(
    below: Box<dyn Duplex>,
    remote: &Remote,
    trust: &Trust,
    proxy: &UserProxy,
) -> Result<Box<dyn Duplex>, Error> {
    let wanted = WantedServer { host: remote.host.clone(), fingerprint: trust.fingerprint };
    let exchange = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(below, remote, wanted, proxy));
    exchange.await.map_err(|_| {
        let message = format!("the exchange of credentials with {} takes too long", remote.host);
        Error::new(Fault::Between, ErrorCode::TlsTimeout, message)
    })?
}

async fn exchange(
    mut below: Box<dyn Duplex>,
    remote: &Remote,
    wanted: WantedServer,
    proxy: &UserProxy,
) -> Result<Box<dyn Duplex>, Error> {
    let host = &remote.host;
    let gone = |error: io::Error| {
        let message = format!("{host} broke the exchange of credentials off: {error}");
        Error::new(Fault::Between, ErrorCode::ControlClosed, message)
    };
    let broken = || {
        let message = format!("{host} does not speak GSSAPI as RFC 2228 has it");
        Error::new(Fault::There, ErrorCode::ProtocolBroken, message)
    };
    let untrusted = |distrust| {
        let (why, hint) = match distrust {
            Distrust::Other(why) => {
                let hint =
                    format!("write the name that is in its certificate, or pin that with {TlsPin}");
                (why, hint.to_owned())
            }
            Distrust::Unknown(why) => {
                let folder = proxy.authorities().display();
                (why, format!("the authorities that are known here are in {folder}"))
            }
        };
        let message = format!("{host} is not who it should be: {why}");
        Error::new(Fault::Refused, ErrorCode::TlsUntrusted, message).hint(hint)
    };
    let mut initiator = Initiator::new(proxy, wanted).map_err(untrusted)?;
    let token = initiator.take(&[]).map_err(untrusted)?;
    below.write_all(&adat_command(&token)).await.map_err(gone)?;
    below.flush().await.map_err(gone)?;
    let mut replies = SecurityReplyReader::default();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = below.read(&mut buffer).await.map_err(gone)?;
        if read == 0 {
            return Err(gone(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut came = &buffer[..read];
        while let Some(reply) = replies.exchange(&mut came) {
            match reply {
                ExchangeReply::GoOn(token) => {
                    let token = initiator.take(&token).map_err(untrusted)?;
                    below.write_all(&adat_command(&token)).await.map_err(gone)?;
                    below.flush().await.map_err(gone)?;
                }
                ExchangeReply::Over(token) => {
                    if !token.is_empty() {
                        initiator.take(&token).map_err(untrusted)?;
                    }
                    let context = initiator.finish().map_err(untrusted)?;
                    let mut stream = GssStream {
                        below,
                        context,
                        replies: SecurityReplyReader::default(),
                        buffer: Vec::new(),
                        plain: Vec::new(),
                        read: 0,
                        line: Vec::new(),
                        sealed: Vec::new(),
                        sent: 0,
                    };
                    stream.open(came).map_err(gone)?;
                    stream.buffer = buffer;
                    return Ok(Box::new(stream));
                }
                ExchangeReply::Refused(why) => {
                    let message = format!("{host} does not take your proxy: {why}");
                    return Err(Error::new(Fault::Refused, ErrorCode::LoginRefused, message).hint(
                        format!(
                            "it is of {}; the server's operator knows which authorities and users \
                             it takes",
                            proxy.subject()
                        ),
                    ));
                }
                ExchangeReply::Broken => return Err(broken()),
            }
        }
    }
}

impl GssStream {
    fn open(&mut self, mut came: &[u8]) -> io::Result<()> {
        while let Some(reply) = self.replies.protected(&mut came) {
            let SecurityReply::Token(token) = reply else {
                // Anybody between the ends may have said it.
                let what = "a reply came without protection";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            };
            let line = self.context.open(&token).map_err(io::Error::other)?;
            // Some end what they protect with a zero byte.
            let line = line.strip_suffix(b"\0").unwrap_or(&line);
            self.plain.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.plain.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }

    /// Sends what is sealed.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.sealed.len() {
            let rest = &self.sealed[self.sent..];
            match ready!(Pin::new(&mut self.below).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.sealed.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for GssStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.read == this.plain.len() {
            this.plain.clear();
            this.read = 0;
            let mut buffer = std::mem::take(&mut this.buffer);
            let mut came = ReadBuf::new(&mut buffer);
            let read = Pin::new(&mut this.below).poll_read(context, &mut came);
            let len = came.filled().len();
            let taken = match read {
                Poll::Ready(Ok(())) => this.open(&buffer[..len]),
                _ => Ok(()),
            };
            this.buffer = buffer;
            ready!(read)?;
            taken?;
            if len == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let len = into.remaining().min(this.plain.len() - this.read);
        into.put_slice(&this.plain[this.read..this.read + len]);
        this.read += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GssStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.send(context))?;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            this.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let token = this.context.seal(&this.line).map_err(io::Error::other)?;
                this.line.clear();
                this.sealed.extend_from_slice(&protected_command(&token));
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.send(context))?;
        Pin::new(&mut this.below).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.send(context))?;
        Pin::new(&mut this.below).poll_shutdown(context)
    }
}
