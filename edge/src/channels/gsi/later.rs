//! A connection whose handshake waits until something is to go over it: servers take connections
//! only once they have a transfer to do.

use super::DataSecurity;
use crate::channels::Handle;
use crate::channels::ordered::ByteStream;
use crate::sys::tcp::{TcpInfo, congestion_of, tcp_info};
use farline_core::congestion::ControlName;
use socket2::SockRef;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The connection.
pub(super) enum LaterStream {
    /// Made, and nothing said yet.
    Waiting(TcpStream, DataSecurity, Duration),
    /// As data goes over it.
    Open(Box<dyn ByteStream>),
    /// Its handshake failed.
    Failed,
}

impl LaterStream {
    fn open(&mut self) -> io::Result<&mut Box<dyn ByteStream>> {
        if let LaterStream::Waiting(..) = self
            && let LaterStream::Waiting(stream, security, within) =
                std::mem::replace(self, LaterStream::Failed)
        {
            *self = LaterStream::Open(security.connect(stream, within)?);
        }
        match self {
            LaterStream::Open(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Read for LaterStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.open()?.read(into)
    }
}

impl Write for LaterStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.open()?.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl ByteStream for LaterStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            LaterStream::Waiting(stream, ..) => tcp_info(stream).ok(),
            LaterStream::Open(stream) => stream.tcp_info(),
            LaterStream::Failed => None,
        }
    }

    fn handle(&self) -> io::Result<Handle> {
        match self {
            LaterStream::Waiting(stream, ..) => Handle::of(stream),
            LaterStream::Open(stream) => stream.handle(),
            LaterStream::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn congestion(&self) -> Option<ControlName> {
        match self {
            LaterStream::Waiting(stream, ..) => congestion_of(&SockRef::from(stream)),
            LaterStream::Open(stream) => stream.congestion(),
            LaterStream::Failed => None,
        }
    }

    fn expect(&mut self, len: usize) {
        if let LaterStream::Open(stream) = self {
            stream.expect(len);
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            LaterStream::Open(stream) => stream.socket(),
            LaterStream::Waiting(..) | LaterStream::Failed => None,
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            // Nothing was to be said.
            LaterStream::Waiting(stream, ..) => stream.shutdown(Shutdown::Write),
            LaterStream::Open(stream) => stream.finish(),
            LaterStream::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
