//! Data connections whose ends know each other (DCAU): a handshake, and then MODE E or a file in
//! the clear or within TLS.

use super::authorities::{Authorities, Purpose, Refusal};
use super::credential::Credential;
use super::later::LaterStream;
use super::pipe::{Pipe, read_all, write_all};
use crate::channels::Handle;
use crate::channels::ordered::ByteStream;
use crate::channels::pending::Steps;
use crate::sys::lock::lock;
use crate::sys::tcp::{TcpInfo, congestion_of, tcp_info};
use farline_core::congestion::ControlName;
use openssl::ssl::{ErrorCode, Ssl, SslStream};
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sealed bytes that are sent in one go.
const SEND: usize = 256 << 10;
/// Before each TLS record: its kind, its version and its length.
const RECORD_HEADER: usize = 5;
/// What a record may hold (RFC 5246, 6.2.3; TLS 1.3's are shorter).
const MOST_RECORD: usize = (16 << 10) + 2048;

/// How the data connections of a session are authenticated.
#[derive(Clone)]
pub(crate) struct DataSecurity {
    own: Arc<Credential>,
    authorities: Authorities,
    /// Who the other end has to be.
    subject: String,
    /// Whether data goes within TLS, and not only a handshake before it.
    is_private: bool,
}

impl fmt::Debug for DataSecurity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSecurity({}, private: {})", self.subject, self.is_private)
    }
}

impl DataSecurity {
    /// With a user's own proxy, or what was delegated by it, among ends that are that user.
    pub(super) fn new(
        own: Arc<Credential>,
        authorities: Authorities,
        subject: String,
    ) -> DataSecurity {
        DataSecurity { own, authorities, subject, is_private: false }
    }

    /// What this end shows.
    #[cfg(test)]
    pub(super) fn chain(&self) -> &[openssl::x509::X509] {
        self.own.chain()
    }

    /// Whether data goes within TLS.
    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    /// A connection that was opened to the other end, whose handshake is done when something is to
    /// go over it: servers do theirs when they have a transfer to do, and not before.
    pub(crate) fn connect_later(&self, stream: TcpStream, within: Duration) -> Box<dyn ByteStream> {
        Box::new(LaterStream::Waiting(stream, self.clone(), within))
    }

    /// The same where the other end has to be `subject`, if it is given, and data goes within TLS
    /// or not.
    pub(crate) fn with(&self, subject: Option<&str>, is_private: bool) -> DataSecurity {
        let subject = subject.map_or_else(|| self.subject.clone(), str::to_owned);
        DataSecurity { subject, is_private, ..self.clone() }
    }

    /// The end of the connection that another opened.
    ///
    /// # Errors
    /// When OpenSSL cannot be set up.
    pub(crate) fn accept(&self) -> io::Result<DataHandshake> {
        DataHandshake::new(self, Role::Accepts)
    }

    /// Does the handshake of a connection that was opened to the other end, however that cuts it
    /// into pieces `within` so long.
    ///
    /// # Errors
    /// When the other end is somebody else, breaks the protocol or takes too long.
    pub(crate) fn connect(
        &self,
        mut stream: TcpStream,
        within: Duration,
    ) -> io::Result<Box<dyn ByteStream>> {
        let deadline = Instant::now() + within;
        let mut handshake = DataHandshake::new(self, Role::Connects)?;
        let mut record = Vec::new();
        while !handshake.is_done() {
            let reply = handshake.take(&record)?;
            stream.write_all(&reply)?;
            if handshake.is_done() {
                break;
            }
            let mut read = |into: &mut [u8]| {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.set_read_timeout(Some(left))?;
                stream.read_exact(into)
            };
            let mut header = [0; RECORD_HEADER];
            read(&mut header)?;
            record = vec![0; RECORD_HEADER + record_len(&header)?];
            record[..RECORD_HEADER].copy_from_slice(&header);
            read(&mut record[RECORD_HEADER..])?;
        }
        stream.set_read_timeout(None)?;
        handshake.over(stream)
    }
}

/// Bytes that follow the header of a record.
fn record_len(header: &[u8; RECORD_HEADER]) -> io::Result<usize> {
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    match len {
        0..=MOST_RECORD => Ok(len),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no TLS record")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Accepts,
    Connects,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    /// The other end's byte is awaited.
    Flag,
    Done,
}

/// The handshake of a data connection as a machine of TLS records: one of them in, bytes out. It
/// takes records, not bytes as they come, because what follows the last of them may be in the
/// clear.
pub(crate) struct DataHandshake {
    tls: SslStream<Pipe>,
    role: Role,
    stage: Stage,
    refusal: Refusal,
    security: DataSecurity,
}

impl DataHandshake {
    fn new(security: &DataSecurity, role: Role) -> io::Result<DataHandshake> {
        let context = security.authorities.context(&security.own, Purpose::Anything);
        let (context, refusal) = context.map_err(io::Error::other)?;
        let mut ssl = Ssl::new(&context).map_err(io::Error::other)?;
        match role {
            Role::Accepts => ssl.set_accept_state(),
            Role::Connects => ssl.set_connect_state(),
        }
        let tls = SslStream::new(ssl, Pipe::default()).map_err(io::Error::other)?;
        Ok(DataHandshake {
            tls,
            role,
            stage: Stage::Handshake,
            refusal,
            security: security.clone(),
        })
    }

    /// Whether data is next.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Takes a record; returns what is to be sent.
    ///
    /// # Errors
    /// When the other end is somebody else, or breaks the protocol.
    pub(crate) fn take(&mut self, record: &[u8]) -> io::Result<Vec<u8>> {
        self.tls.get_mut().put(record);
        if self.stage == Stage::Handshake {
            let went = match self.role {
                Role::Accepts => self.tls.accept(),
                Role::Connects => self.tls.connect(),
            };
            match went {
                Ok(()) => self.shook_hands()?,
                Err(error) if error.code() == ErrorCode::WANT_READ => {}
                Err(error) => {
                    let why = lock(&self.refusal).take();
                    let why = why.unwrap_or_else(|| error.to_string());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                }
            }
        }
        if self.stage == Stage::Flag {
            self.read_flag()?;
        }
        Ok(self.tls.get_mut().take())
    }

    fn shook_hands(&mut self) -> io::Result<()> {
        let denied = |why: String| io::Error::new(io::ErrorKind::PermissionDenied, why);
        let peer = self.security.authorities.judge(self.tls.ssl()).map_err(denied)?;
        if peer.subject != self.security.subject {
            let message = format!(
                "the data connection is of {}, not of {}",
                peer.subject, self.security.subject
            );
            return Err(denied(message));
        }
        if self.security.is_private {
            // Plain TLS, as Globus' own have it then.
            self.stage = Stage::Done;
            return Ok(());
        }
        let is_pending = self.tls.get_ref().has_outgoing();
        self.stage = Stage::Flag;
        match self.role {
            Role::Accepts if !is_pending => {
                write_all(&mut self.tls, &[0]).map_err(io::Error::other)
            }
            Role::Connects if !is_pending => self.say_flag(),
            Role::Accepts | Role::Connects => Ok(()),
        }
    }

    fn read_flag(&mut self) -> io::Result<()> {
        let came = read_all(&mut self.tls).map_err(io::Error::other)?;
        match (self.role, &came[..]) {
            (_, []) => Ok(()),
            (Role::Accepts, b"0") => {
                self.stage = Stage::Done;
                Ok(())
            }
            (Role::Connects, [_]) => self.say_flag(),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more came than a data connection begins with",
            )),
        }
    }

    fn say_flag(&mut self) -> io::Result<()> {
        self.stage = Stage::Done;
        write_all(&mut self.tls, b"0").map_err(io::Error::other)
    }

    /// The connection as data goes over it, of which `socket` is.
    ///
    /// # Errors
    /// When the socket cannot be configured.
    pub(crate) fn over(mut self, socket: TcpStream) -> io::Result<Box<dyn ByteStream>> {
        crate::channels::socket::prepare(&socket)?;
        if !self.security.is_private {
            return Ok(Box::new(socket));
        }
        self.tls.get_mut().over(socket);
        Ok(Box::new(SecuredStream(self.tls)))
    }

    /// Does the handshake of a connection that came; `steps` counts what this end had something to
    /// say to.
    ///
    /// # Errors
    /// When the other end is somebody else, or breaks the protocol.
    pub(crate) async fn run(
        &mut self,
        stream: &mut tokio::net::TcpStream,
        steps: &Steps,
    ) -> io::Result<()> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while !self.is_done() {
            let mut header = [0; RECORD_HEADER];
            stream.read_exact(&mut header).await?;
            let mut record = vec![0; RECORD_HEADER + record_len(&header)?];
            record[..RECORD_HEADER].copy_from_slice(&header);
            stream.read_exact(&mut record[RECORD_HEADER..]).await?;
            let reply = self.take(&record)?;
            if !reply.is_empty() {
                steps.step();
            }
            stream.write_all(&reply).await?;
        }
        Ok(())
    }
}

/// Data within TLS.
struct SecuredStream(SslStream<Pipe>);

impl SecuredStream {
    fn socket(&self) -> io::Result<&TcpStream> {
        self.0.get_ref().socket().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn seal(&mut self, mut plain: &[u8]) -> io::Result<()> {
        while !plain.is_empty() {
            let written = self.0.ssl_write(plain).map_err(plain_error)?;
            plain = &plain[written..];
            if self.0.get_ref().outgoing_len() >= SEND {
                self.0.get_mut().send()?;
            }
        }
        Ok(())
    }
}

fn plain_error(error: openssl::ssl::Error) -> io::Error {
    error.into_io_error().unwrap_or_else(io::Error::other)
}

/// SSL_R_UNEXPECTED_EOF_WHILE_READING of OpenSSL 3 (`openssl/sslerr.h`), which the crate does not
/// name.
const UNEXPECTED_EOF_WHILE_READING: std::ffi::c_int = 294;

/// Whether the connection ended without TLS's own farewell.
fn is_cut_off(error: &openssl::ssl::Error) -> bool {
    let is_eof = |code| code == UNEXPECTED_EOF_WHILE_READING;
    match error.ssl_error() {
        Some(stack) => stack.errors().iter().any(|error| is_eof(error.reason_code())),
        None => error.code() == ErrorCode::SYSCALL && error.io_error().is_none(),
    }
}

impl Read for SecuredStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.ssl_read(into) {
            Ok(len) => Ok(len),
            Err(error) if error.code() == ErrorCode::ZERO_RETURN => Ok(0),
            // Globus' own end so; whether that is all is for those to say who know how much it is.
            Err(error) if is_cut_off(&error) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection was cut off: TLS did not say goodbye",
            )),
            Err(error) => Err(plain_error(error)),
        }
    }
}

impl Write for SecuredStream {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(plain)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        for part in parts {
            self.seal(part)?;
        }
        self.0.get_mut().send()?;
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().send()
    }
}

impl ByteStream for SecuredStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(self.socket().ok()?).ok()
    }

    fn handle(&self) -> io::Result<Handle> {
        Handle::of(self.socket()?)
    }

    fn congestion(&self) -> Option<ControlName> {
        congestion_of(&SockRef::from(self.socket().ok()?))
    }

    fn finish(&mut self) -> io::Result<()> {
        // TLS's own farewell: without it anybody may have cut the rest off.
        self.0.shutdown().map_err(plain_error)?;
        self.0.get_mut().send()?;
        self.socket()?.shutdown(Shutdown::Write)
    }
}
