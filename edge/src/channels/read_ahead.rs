//! Bytes of a stream that were taken before anybody needed them: a small file with the headers
//! around it costs one system call.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes that are kept at most.
pub(super) const CAPACITY: usize = 64 << 10;

/// What was taken, of which a part may be used up.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Of [`CAPACITY`] bytes, once something was taken.
    bytes: Box<[u8]>,
    used: usize,
    filled: usize,
}

impl ReadAhead {
    /// What is here.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..self.filled]
    }

    /// Moves into `into` what fits there; returns how much.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let taken = into.len().min(self.bytes().len());
        into[..taken].copy_from_slice(&self.bytes()[..taken]);
        self.used += taken;
        taken
    }

    /// Takes what `socket` has without waiting for it. Returns how much that is, 0 at the stream's
    /// end; `None` where nothing has come.
    ///
    /// # Errors
    /// When the connection broke, or there is no room for more.
    pub(super) fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; CAPACITY].into();
        }
        self.bytes.copy_within(self.used..self.filled, 0);
        (self.filled, self.used) = (self.filled - self.used, 0);
        let room = &mut self.bytes[self.filled..];
        if room.is_empty() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        loop {
            match recv(socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((read, _)) => {
                    self.filled += read;
                    return Ok(Some(read));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_came_is_taken_once_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let (far, _) = listener.accept().expect("accept");
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.fill(far.as_fd()).expect("whole"), None, "nothing was sent");
        near.write_all(b"abcdef").expect("sent");
        while ahead.fill(far.as_fd()).expect("whole").is_none() {
            std::thread::yield_now();
        }
        let mut into = [0; 4];
        assert_eq!((ahead.take(&mut into), &into), (4, b"abcd"));
        near.write_all(b"gh").expect("sent");
        near.shutdown(Shutdown::Write).expect("a socket");
        while ahead.fill(far.as_fd()).expect("whole") != Some(0) {
            std::thread::yield_now();
        }
        assert_eq!(ahead.bytes(), b"efgh");
        assert_eq!((ahead.take(&mut into), &into), (4, b"efgh"));
        assert_eq!(ahead.take(&mut into), 0);
    }
}
