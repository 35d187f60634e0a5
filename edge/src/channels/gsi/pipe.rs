//! What OpenSSL reads from and writes to: tokens that others carry, or later a socket.

use openssl::ssl::SslStream;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Bytes read from a socket in one go.
const READ: usize = 256 << 10;

/// The two directions below TLS.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    incoming: Vec<u8>,
    /// What TLS has taken of `incoming`.
    taken: usize,
    outgoing: Vec<u8>,
    /// Where more comes from, and goes to, once the handshake is over.
    socket: Option<TcpStream>,
}

impl Pipe {
    /// Gives TLS what came.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.incoming.drain(..self.taken);
        self.taken = 0;
        self.incoming.extend_from_slice(bytes);
    }

    /// What TLS wants sent.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether TLS wants something sent.
    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Bytes that TLS wants sent.
    pub(super) fn outgoing_len(&self) -> usize {
        self.outgoing.len()
    }

    /// Takes the rest from `socket`, and sends there.
    pub(super) fn over(&mut self, socket: TcpStream) {
        self.socket = Some(socket);
    }

    /// The socket, once there is one.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        self.socket.as_ref()
    }

    /// Sends what TLS wants sent.
    pub(super) fn send(&mut self) -> io::Result<()> {
        if let Some(socket) = &mut self.socket {
            socket.write_all(&self.outgoing)?;
            self.outgoing.clear();
        }
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.incoming.len() {
            let Some(socket) = &mut self.socket else {
                return Err(io::ErrorKind::WouldBlock.into());
            };
            self.incoming.resize(READ, 0);
            // Nothing is left there, whatever becomes of the call.
            self.taken = READ;
            let read = socket.read(&mut self.incoming)?;
            self.incoming.truncate(read);
            self.taken = 0;
        }
        let len = into.len().min(self.incoming.len() - self.taken);
        into[..len].copy_from_slice(&self.incoming[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All plaintext that what came holds; nothing when TLS is broken.
pub(super) fn read_all(tls: &mut SslStream<Pipe>) -> Result<Vec<u8>, openssl::ssl::Error> {
    let (mut plain, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        match tls.ssl_read(&mut buffer) {
            Ok(0) => return Ok(plain),
            Ok(len) => plain.extend_from_slice(&buffer[..len]),
            Err(error) if error.code() == openssl::ssl::ErrorCode::WANT_READ => return Ok(plain),
            Err(error) => return Err(error),
        }
    }
}

/// Seals all of `plain`.
pub(super) fn write_all(
    tls: &mut SslStream<Pipe>,
    mut plain: &[u8],
) -> Result<(), openssl::ssl::Error> {
    while !plain.is_empty() {
        let written = tls.ssl_write(plain)?;
        plain = &plain[written..];
    }
    Ok(())
}
