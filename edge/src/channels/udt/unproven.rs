//! A UDT connection that a task reads until its peer has shown whose it is.

use super::super::arrivals::Unproven;
use super::super::ordered::ByteStream;
use super::stream::UdtStream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One that is closed without a word when this goes and it was not proven.
pub(super) struct UnprovenUdt(Option<UdtStream>);

impl UnprovenUdt {
    pub(super) fn new(stream: UdtStream) -> UnprovenUdt {
        UnprovenUdt(Some(stream))
    }

    fn stream(&mut self) -> io::Result<&mut UdtStream> {
        self.0.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Unproven for UnprovenUdt {
    fn shown(&mut self) {
        if let Some(stream) = &self.0 {
            stream.prove();
        }
    }

    fn proven(mut self) -> io::Result<Box<dyn ByteStream>> {
        match self.0.take() {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for UnprovenUdt {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // A farewell would be waited for, and this may be a task.
            stream.refuse();
        }
    }
}

impl AsyncRead for UnprovenUdt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, into)
    }
}

impl AsyncWrite for UnprovenUdt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream()?.finish())
    }
}
