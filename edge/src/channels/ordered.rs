//! MODE E over ordered bytes, of whatever stream: header and payload in one call each way.

use super::read_ahead::{CAPACITY, ReadAhead};
use super::{Arrival, Channel, Handle};
use crate::sys::pool::Slot;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::gridftp::checked::{self, CHECKED_LEN, Check, DamagedHeader, ZEROS};
use farline_core::gridftp::mode_e::{Flags, HEADER_LEN, Header};
use farline_core::transfer::Block;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Bytes of a payload that are worth waking a thread for: a quarter of a block, so that the wakes
/// are few and what they bring still fits a processor's cache.
const WAKE_AT: usize = 256 << 10;

/// A connected stream of ordered bytes: TCP, TLS over it, a socket pair to a program that carries
/// them.
pub trait ByteStream: Read + Write + Send {
    /// What the kernel knows of the connection, where it is a TCP one.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// A handle to look at the connection, or break it, from another thread.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    fn handle(&self) -> io::Result<Handle>;

    /// The congestion control in force, where it is a TCP connection.
    fn congestion(&self) -> Option<ControlName>;

    /// Says that at least `len` bytes are to come, so that the kernel need not wake the reader
    /// before they are there.
    fn expect(&mut self, _len: usize) {}

    /// The socket, where its bytes are those of the stream, so that one can wait at it for them.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// When the connection broke.
    fn finish(&mut self) -> io::Result<()>;
}

impl ByteStream for Box<dyn ByteStream> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        (**self).tcp_info()
    }

    fn handle(&self) -> io::Result<Handle> {
        (**self).handle()
    }

    fn congestion(&self) -> Option<ControlName> {
        (**self).congestion()
    }

    fn expect(&mut self, len: usize) {
        (**self).expect(len);
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        (**self).socket()
    }

    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }
}

/// One data connection of ordered bytes.
#[derive(Debug)]
pub struct OrderedChannel<S> {
    stream: S,
    offered: Option<Slot>,
    sent: Option<Slot>,
    /// Whether headers are checked ones.
    checked: bool,
    /// Bytes of the next header that came with the payload before it.
    header: [u8; CHECKED_LEN],
    header_filled: usize,
    /// What [`Channel::has_arrival`] took; it comes before what the stream still has.
    ahead: ReadAhead,
    /// What the stream was last told to expect.
    expected: usize,
    /// What is still to come of the block being received: offset, bytes, and whether data ends with
    /// it.
    rest: Option<(u64, u64, bool)>,
    /// From an `EOF` header of the transfer being received.
    channels: Option<u64>,
    /// Whether the peer said that it will close the connection.
    closing: bool,
}

impl<S: ByteStream> OrderedChannel<S> {
    /// A channel over a connected stream.
    pub fn over(stream: S) -> OrderedChannel<S> {
        OrderedChannel {
            stream,
            offered: None,
            sent: None,
            checked: false,
            header: [0; CHECKED_LEN],
            header_filled: 0,
            ahead: ReadAhead::default(),
            expected: 1,
            rest: None,
            channels: None,
            closing: false,
        }
    }

    /// The connection underneath.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The connection underneath, for use without MODE E.
    pub fn into_inner(mut self) -> S {
        self.expect(1);
        self.stream
    }

    fn header_len(&self) -> usize {
        if self.checked { CHECKED_LEN } else { HEADER_LEN }
    }

    /// Tells the stream how much is sure to come: never more than the payload that is left, since
    /// what follows it may come late.
    fn expect(&mut self, len: usize) {
        let len = len.clamp(1, 2 * WAKE_AT);
        if len != self.expected {
            self.stream.expect(len);
            self.expected = len;
        }
    }

    fn read_header(&mut self) -> io::Result<(Header, Option<Check>)> {
        let len = self.header_len();
        while self.header_filled < len {
            let filled = self.header_filled;
            let mut read = self.ahead.take(&mut self.header[filled..len]);
            if read == 0 {
                self.expect(1);
                read = retry(|| self.stream.read(&mut self.header[filled..len]))?;
            }
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the data connection closed before its end-of-data mark",
                ));
            }
            self.header_filled += read;
        }
        self.header_filled = 0;
        if self.checked {
            let (header, check) = checked::decode(&self.header).map_err(damaged)?;
            return Ok((header, Some(check)));
        }
        let mut plain = [0; HEADER_LEN];
        plain.copy_from_slice(&self.header[..HEADER_LEN]);
        let header = Header::decode(&plain)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok((header, None))
    }

    /// Fills `into`. When a header follows (`block_ends`) it takes along whatever of it is there,
    /// so that a block costs one system call.
    fn read_payload(&mut self, into: &mut [u8], block_ends: bool) -> io::Result<()> {
        let mut filled = self.ahead.take(into);
        let ahead = if block_ends { self.header_len() } else { 0 };
        while filled < into.len() {
            self.expect(into.len() - filled);
            let mut parts =
                [IoSliceMut::new(&mut into[filled..]), IoSliceMut::new(&mut self.header[..ahead])];
            let read = retry(|| self.stream.read_vectored(&mut parts))?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the data connection closed inside a block",
                ));
            }
            let left = into.len() - filled;
            filled += read.min(left);
            self.header_filled = read.saturating_sub(left);
        }
        Ok(())
    }

    /// Whether the next arrival is whole in what is here; `None` where it does not fit there.
    fn is_whole_ahead(&self) -> Option<bool> {
        let (kept, ahead) = (&self.header[..self.header_filled], self.ahead.bytes());
        let here = kept.len() + ahead.len();
        let mut at = 0;
        while at + HEADER_LEN <= here {
            let mut header = [0; HEADER_LEN];
            let bytes = kept.iter().chain(ahead).skip(at);
            header.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
            at += HEADER_LEN;
            // What is no header is said at once.
            let Ok(header) = Header::decode(&header) else { return Some(true) };
            let is_eof = header.flags.contains(Flags::EOF);
            if header.count > 0 && !is_eof {
                let end = usize::try_from(header.count).ok()?.checked_add(at)?;
                return (end <= CAPACITY).then_some(end <= here);
            }
            if header.flags.contains(Flags::EOD) {
                return Some(true);
            }
        }
        // Headers that mean nothing may come without end.
        (at + HEADER_LEN <= CAPACITY).then_some(false)
    }

    fn write_block(&mut self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < header.len() + payload.len() {
            let parts = [
                IoSlice::new(&header[written.min(header.len())..]),
                IoSlice::new(&payload[written.saturating_sub(header.len())..]),
            ];
            written += retry(|| self.stream.write_vectored(&parts))?;
        }
        Ok(())
    }

    /// Receives the next block into `slot`, and says how much of it was sent; `None` at the
    /// end-of-data mark.
    fn receive_into(
        &mut self,
        slot: &mut Slot,
    ) -> io::Result<Option<(Block, Option<Check>, usize)>> {
        let mut checks = None;
        let mut is_sent = true;
        let (offset, left, eod) = loop {
            if let Some(rest) = self.rest.take() {
                break rest;
            }
            let (header, check) = self.read_header()?;
            checks = check;
            if header.flags.contains(Flags::ERROR) || header.flags.contains(Flags::RESTART) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the sender marked a block as bad or as a restart marker",
                ));
            }
            let eod = header.flags.contains(Flags::EOD);
            self.closing |= header.flags.contains(Flags::CLOSE);
            let count = if header.flags.contains(Flags::EOF) {
                // GFD.20: in an EOF header the offset is the number of channels and the count is
                // unused.
                self.channels = Some(header.offset);
                0
            } else {
                header.count
            };
            is_sent = checks.is_none() || !header.flags.contains(ZEROS);
            if count > 0 {
                break (header.offset, count, eod);
            }
            if eod {
                return Ok(None);
            }
            // A block of nothing is allowed and means nothing.
        };
        if left == 0 {
            return Ok(None);
        }
        if checks.is_some() && left > slot.len() as u64 {
            // Checksums are of whole blocks, and no block that was agreed on is longer than a slot.
            return Err(damaged(DamagedHeader));
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(slot.len());
        let left = left - len as u64;
        if is_sent {
            self.read_payload(&mut slot[..len], left == 0)?;
        }
        if left > 0 || eod {
            // The block's next part, or the end-of-data flag that its header carried next to data.
            self.rest = Some((offset.saturating_add(len as u64), left, eod));
        }
        Ok(Some((Block { offset, len }, checks, if is_sent { len } else { 0 })))
    }
}

impl<S: ByteStream> Channel for OrderedChannel<S> {
    fn depth(&self) -> usize {
        1
    }

    fn check_blocks(&mut self, on: bool) {
        self.checked = on;
    }

    fn leaves_zeros_out(&self) -> bool {
        self.checked
    }

    fn send(
        &mut self,
        header: Header,
        check: &Check,
        slot: Slot,
        payload: Range<usize>,
    ) -> io::Result<()> {
        let sent = if self.checked {
            self.write_block(&checked::encode(&header, check), &slot[payload])
        } else {
            self.write_block(&header.encode(), &slot[payload])
        };
        self.sent = Some(slot);
        sent
    }

    fn sent(&mut self, _until: Option<Instant>) -> io::Result<Option<Slot>> {
        self.sent.take().map(Some).ok_or_else(|| io::Error::other("no block was sent"))
    }

    fn withdraw(&mut self) -> Option<Slot> {
        self.offered.take().or_else(|| self.sent.take())
    }

    fn mark(&mut self, header: Header) -> io::Result<()> {
        if self.checked {
            self.stream.write_all(&checked::encode(&header, &Check::default()))
        } else {
            self.stream.write_all(&header.encode())
        }
    }

    fn offer(&mut self, slot: Slot) {
        self.offered = Some(slot);
    }

    fn has_arrival(&mut self) -> io::Result<Option<bool>> {
        match self.rest {
            // An end-of-data mark, and nothing in front of it.
            Some((_, 0, _)) => return Ok(Some(true)),
            Some(_) => return Ok(None),
            None if self.checked => return Ok(None),
            None => {}
        }
        loop {
            match self.is_whole_ahead() {
                Some(false) => {}
                known => return Ok(known),
            }
            let Some(socket) = self.stream.socket() else { return Ok(None) };
            match self.ahead.fill(socket)? {
                None => return Ok(Some(false)),
                // The connection is over, which receiving says at once.
                Some(0) => return Ok(Some(true)),
                Some(_) => {}
            }
        }
    }

    fn waits_at(&mut self) -> Option<BorrowedFd<'_>> {
        // Else the socket would not be readable before so much is there.
        self.expect(1);
        self.stream.socket()
    }

    fn put_back_end(&mut self, channels: Option<u64>) {
        (self.rest, self.channels) = (Some((0, 0, true)), channels);
    }

    fn receive(&mut self) -> io::Result<Option<Arrival>> {
        let mut slot =
            self.offered.take().ok_or_else(|| io::Error::other("no slot was offered"))?;
        match self.receive_into(&mut slot) {
            Ok(Some((block, check, carried))) => {
                Ok(Some(Arrival::Data { slot, block, check, carried }))
            }
            Ok(None) => Ok(Some(Arrival::End {
                slot,
                channels: self.channels.take(),
                closing: self.closing,
            })),
            Err(error) => {
                self.offered = Some(slot);
                Err(error)
            }
        }
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        self.stream.tcp_info()
    }

    fn congestion(&self) -> Option<ControlName> {
        self.stream.congestion()
    }

    fn handle(&self) -> io::Result<Handle> {
        self.stream.handle()
    }
}

fn damaged(error: DamagedHeader) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::socket::TcpChannel;
    use crate::sys::pool::pool;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_block_in_two_parts_is_received_wherever_it_is_cut() {
        let len = WAKE_AT + WAKE_AT / 4;
        let payload: Vec<u8> = (0..len).map(|at| (at / 256) as u8).collect();
        for first in [1, WAKE_AT / 2, WAKE_AT - 1, WAKE_AT, len - 1] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            let mut near =
                TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
            let (far, _) = listener.accept().expect("accept");
            let look = far.try_clone().expect("a descriptor");
            look.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
            let mut channel = TcpChannel::new(far).expect("a socket");
            let slot = pool(1, 2 * WAKE_AT).expect("memory").remove(0);
            let got = std::thread::scope(|scope| {
                let receiving = scope.spawn(move || {
                    channel.offer(slot);
                    channel.receive().map(|arrival| match arrival {
                        Some(Arrival::Data { slot, block, .. }) => slot[..block.len].to_vec(),
                        Some(Arrival::End { .. }) | None => Vec::new(),
                    })
                });
                near.write_all(&Header::data(0, len as u64).encode()).expect("the header");
                near.write_all(&payload[..first]).expect("the first part");
                // The reader has begun, and may hold the first part already.
                while rustix::io::ioctl_fionread(&look).is_ok_and(|left| left > first as u64) {
                    std::thread::yield_now();
                }
                near.write_all(&payload[first..]).expect("the second part");
                receiving.join().expect("no panic")
            });
            assert!(got.expect("the block came") == payload, "cut at {first}");
        }
    }
}
