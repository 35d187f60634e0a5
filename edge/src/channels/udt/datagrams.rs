//! A UDP socket that sends trains of packets in one call, and takes what the kernel has put
//! together in one (GSO, GRO).

use super::buffers::Buffers;
use bytes::Bytes as Shared;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

/// Bytes of one message of the kernel's: the longest datagram, and the longest train.
const MESSAGE: usize = 64 << 10;
/// Messages that one call takes in.
const MESSAGES: usize = 4;
/// A message shorter than this is copied out, so that a packet that waits for others does not hold
/// all of its buffer.
const WORTH_KEEPING: usize = MESSAGE / 2;
/// The longest train, in bytes: what an IP packet holds.
const TRAIN: usize = 65_000;
/// What the kernel may hold of what is sent, so that it is the pace that holds back and not a drop
/// in the device's queue.
const SEND_BUFFER: usize = 512 << 10;
/// What it may hold of what came while this host does something else, some fifty milliseconds at 10
/// Gbit/s where the kernel counts as much again for each packet; an ordinary user gets as much as
/// `net.core.rmem_max`. With a quarter of it a receiver on a busy host lost packets at 10 Gbit/s
/// that the path had not (docs/speed.md).
const RECEIVE_BUFFER: usize = 64 << 20;

/// The socket, and what waits to be sent.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    train: Train,
    /// A train that the kernel had no room for.
    stuck: Option<Train>,
    spare: Buffers,
    buffers: Vec<Box<[u8]>>,
    /// A datagram was longer than the path to here takes.
    pub(super) too_long: Option<SocketAddr>,
}

/// Datagrams of one length to one address; the last may be shorter.
#[derive(Debug)]
struct Train {
    to: SocketAddr,
    bytes: Vec<u8>,
    segment: usize,
    count: usize,
    is_closed: bool,
}

/// Packets of one length that came together.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) from: SocketAddr,
    pub(super) bytes: Shared,
    pub(super) stride: usize,
}

impl Datagrams {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Datagrams> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Only wishes: an ordinary user may get less.
        drop(state.set_send_buffer_size(UdpSockRef::from(&socket), SEND_BUFFER));
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            drop(state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER));
        }
        if socket.local_addr()?.is_ipv4() {
            // Packets keep their length for life: those of before a path became narrower go in
            // fragments.
            sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::WANT)?;
        }
        let spare = Buffers::of(MESSAGE);
        Ok(Datagrams {
            socket,
            state,
            train: Train::empty(),
            stuck: None,
            buffers: (0..MESSAGES).map(|_| spare.take()).collect(),
            spare,
            too_long: None,
        })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether the kernel has no room for what was sent last.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Sends a datagram of `len` bytes that `write` appends, sooner or later; it may leave with
    /// those after it.
    pub(super) fn send(&mut self, to: SocketAddr, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let most = self.state.max_gso_segments().max(1);
        if !self.train.takes(to, len, most) {
            self.flush();
        }
        let train = &mut self.train;
        if train.count == 0 {
            (train.to, train.segment) = (to, len);
        }
        write(&mut train.bytes);
        train.count += 1;
        train.is_closed = len < train.segment;
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self) {
        if let Some(stuck) = self.stuck.take() {
            self.stuck = self.transmit(stuck);
        }
        if self.train.count == 0 || self.stuck.is_some() {
            return;
        }
        let train = std::mem::replace(&mut self.train, Train::empty());
        self.stuck = self.transmit(train);
    }

    /// Sends a train; returns it where the kernel has no room.
    fn transmit(&mut self, mut train: Train) -> Option<Train> {
        let send = |train: &Train, contents: &[u8], is_train: bool| {
            let transmit = Transmit {
                destination: train.to,
                ecn: None,
                contents,
                segment_size: is_train.then_some(train.segment),
                src_ip: None,
            };
            self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
        };
        match send(&train, &train.bytes, train.count > 1) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(train),
            Err(error) if train.count == 1 => {
                // What is not sent is lost, as on the way; a datagram that is too long stays so.
                if error.raw_os_error() == Some(libc::EMSGSIZE) {
                    self.too_long = Some(train.to);
                }
            }
            // A path that takes no such train may take its parts.
            Err(_) => {
                for part in train.bytes.chunks(train.segment) {
                    match send(&train, part, false) {
                        Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                            self.too_long = Some(train.to);
                        }
                        _ => {}
                    }
                }
            }
        }
        if self.train.bytes.capacity() == 0 {
            train.clear();
            self.train = train;
        }
        None
    }

    /// Takes what has come in one call; nothing where nothing has.
    pub(super) fn receive(&mut self, into: &mut Vec<Received>) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); MESSAGES];
        let count = {
            let mut slices = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
            let mut slices: [IoSliceMut<'_>; MESSAGES] =
                std::array::from_fn(|_| slices.next().unwrap_or(IoSliceMut::new(&mut [])));
            match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An ICMP message about something that was sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        for (meta, buffer) in metas.iter().zip(&mut self.buffers).take(count) {
            if meta.len == 0 || meta.stride == 0 {
                continue;
            }
            let bytes = if meta.len >= WORTH_KEEPING {
                let whole = std::mem::replace(buffer, self.spare.take());
                self.spare.lend(whole, meta.len)
            } else {
                Shared::copy_from_slice(&buffer[..meta.len])
            };
            let from = SocketAddr::new(meta.addr.ip().to_canonical(), meta.addr.port());
            into.push(Received { from, bytes, stride: meta.stride });
        }
        Ok(())
    }
}

impl Train {
    fn empty() -> Train {
        let to = SocketAddr::from(([0, 0, 0, 0], 0));
        Train { to, bytes: Vec::new(), segment: 0, count: 0, is_closed: false }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.is_closed) = (0, false);
    }

    fn takes(&self, to: SocketAddr, len: usize, most: usize) -> bool {
        self.count == 0
            || (self.to == to
                && !self.is_closed
                && len <= self.segment
                && self.count < most
                && self.bytes.len() + len <= TRAIN)
    }
}
