//! A connection to a node's control port, where the node's greeting comes before data
//! (docs/protocol.md, K-5): passed over when something is read, so that who writes does not wait
//! for it.

use super::Handle;
use super::ordered::ByteStream;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The longest greeting.
const LONGEST: usize = 1024;
/// How long a greeting may be out that nobody has waited for, once the connection is over.
const LAST: Duration = Duration::from_millis(1);

/// A connection to a control port.
pub(super) struct GreetedStream {
    stream: Box<dyn ByteStream>,
    /// How long the greeting may take.
    within: Duration,
    is_greeted: bool,
}

impl GreetedStream {
    pub(super) fn new(stream: Box<dyn ByteStream>, within: Duration) -> GreetedStream {
        GreetedStream { stream, within, is_greeted: false }
    }

    /// Reads to the end of a line, and not a byte further: data may follow.
    fn pass_greeting(&mut self, within: Duration) -> io::Result<()> {
        if self.is_greeted {
            return Ok(());
        }
        let handle = self.stream.handle()?;
        handle.set_read_timeout(Some(within))?;
        let mut byte = [0];
        for _ in 0..LONGEST {
            self.stream.read_exact(&mut byte)?;
            if byte[0] == b'\n' {
                self.is_greeted = true;
                return handle.set_read_timeout(None);
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the control port said no line"))
    }
}

impl Read for GreetedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pass_greeting(self.within)?;
        self.stream.read(into)
    }
}

impl Write for GreetedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl ByteStream for GreetedStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.stream.tcp_info()
    }

    fn handle(&self) -> io::Result<Handle> {
        self.stream.handle()
    }

    fn congestion(&self) -> Option<ControlName> {
        self.stream.congestion()
    }

    fn expect(&mut self, len: usize) {
        if self.is_greeted {
            self.stream.expect(len);
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.socket().filter(|_| self.is_greeted)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.finish()
    }
}

impl Drop for GreetedStream {
    fn drop(&mut self) {
        // Bytes that nobody read make a connection end by a reset, which takes what is on its way.
        let _ = self.pass_greeting(LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const WITHIN: Duration = Duration::from_secs(8);

    fn pair() -> (Box<dyn ByteStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let near = TcpStream::connect(address).expect("it listens");
        (Box::new(near), listener.accept().expect("a connection").0)
    }

    #[test]
    fn data_goes_before_the_greeting_and_comes_behind_it() {
        let (near, mut far) = pair();
        let mut near = GreetedStream::new(near, WITHIN);
        near.write_all(b"data").expect("sent before anybody greets");
        assert!(near.socket().is_none(), "what is there is not data yet");
        let mut came = [0; 4];
        far.read_exact(&mut came).expect("it came");
        far.write_all(b"220 ready\r\nmore").expect("sent");
        near.read_exact(&mut came).expect("what is behind the line");
        assert_eq!(&came, b"more");
        assert!(near.socket().is_some());
    }

    #[test]
    fn what_was_sent_arrives_though_nobody_read_the_greeting() {
        let (near, mut far) = pair();
        let mut near = GreetedStream::new(near, WITHIN);
        far.write_all(b"220 ready\r\n").expect("sent");
        let sent = vec![7; 4 << 20];
        let read = std::thread::spawn(move || {
            // Slowly, so that a reset would take what waits.
            std::thread::sleep(Duration::from_millis(50));
            let mut came = Vec::new();
            far.read_to_end(&mut came).map(|_| came.len())
        });
        near.write_all(&sent).expect("sent");
        near.finish().expect("ended");
        drop(near);
        assert_eq!(read.join().expect("no panic").expect("no reset"), sent.len());
    }

    #[test]
    fn a_port_that_says_no_line_is_an_error() {
        let (near, mut far) = pair();
        let mut near = GreetedStream::new(near, WITHIN);
        far.write_all(&[b'x'; LONGEST]).expect("sent");
        let error = near.read(&mut [0]).expect_err("no line");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
