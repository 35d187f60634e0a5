//! What takes a test's frames at a device: a ring for all of them and, for the load of one test
//! without a pace, a socket past the kernel's packet buffers where that can be had.

use super::arrival::LineArrival;
use super::ethernet_end::EthernetEnd;
use crate::sys::ethtool;
use crate::sys::frames::{FrameDevice, FrameRing};
use crate::sys::xdp_socket::XdpSocket;
use farline_core::line::{EthernetFraming, MESSAGE_KIND};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// So long this thread rests when it has taken all that came, before it lets the kernel wake it: to
/// be woken for each few frames costs the processor on which they come more than to receive them.
const REST: Duration = Duration::from_micros(100);
/// Of a STAMP packet the first byte is 0 for the first two days; these and messages come by the
/// ring, where the kernel notes when. A load frame of which one bit is wrong begins with neither.
const NO_LOAD: [u8; 2] = [0, MESSAGE_KIND];

/// Frames that come to a device.
#[derive(Debug)]
pub(super) struct FrameReceiver {
    name: String,
    device: FrameDevice,
    ring: FrameRing,
    /// What the ring had dropped when that was last shown.
    dropped: u32,
    flood: Option<Flood>,
    /// The socket of a flood that is over.
    idle: Option<XdpSocket>,
    bytes: usize,
    wait: Duration,
}

/// A test whose load does not come by the ring.
#[derive(Debug)]
struct Flood {
    socket: XdpSocket,
    from: SocketAddr,
    header: usize,
    /// What the socket had dropped when that was last shown.
    dropped: u64,
    is_busy: bool,
}

impl FrameReceiver {
    /// For what comes to the device `name`, of which the kernel may hold `bytes`; waits for `wait`.
    ///
    /// # Errors
    /// As [`FrameRing::open`].
    pub(super) fn open(
        name: &str,
        device: FrameDevice,
        stream: Option<u16>,
        bytes: usize,
        wait: Duration,
    ) -> io::Result<FrameReceiver> {
        let ring = FrameRing::open(&device, EthernetFraming::KIND, stream, bytes)?;
        let name = name.to_owned();
        let (flood, idle) = (None, None);
        Ok(FrameReceiver { name, device, ring, dropped: 0, flood, idle, bytes, wait })
    }

    /// Takes the load of the test at `from`, which must not have begun, past the ring; not if
    /// another's comes that way.
    ///
    /// # Errors
    /// As [`XdpSocket`]'s, `Unsupported` of a device by which they might come out of order; then
    /// they come by the ring.
    pub(super) fn take_flood(&mut self, from: SocketAddr) -> io::Result<()> {
        if self.flood.is_some() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // A veth device has a frame come by the queue of the processor that sent it. A TAP device
        // is that of an emulated link, which is slower than either.
        match &*ethtool::driver(&self.name)? {
            "tun" => return Err(io::ErrorKind::Unsupported.into()),
            "veth" if ethtool::receive_queues(&self.name)? != 1 => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            _ => {}
        }
        let end = EthernetEnd::of_address(from).ok_or(io::ErrorKind::InvalidInput)?;
        let header = end.header_from(self.device.address);
        let mut socket = match self.idle.take() {
            Some(socket) => socket,
            None => XdpSocket::open(&self.device, self.bytes)?,
        };
        if let Err(error) = socket.take(&self.device, header.bytes(), &NO_LOAD) {
            self.idle = Some(socket);
            return Err(error);
        }
        let (header, dropped) = (header.bytes().len(), socket.dropped());
        self.flood = Some(Flood { socket, from, header, dropped, is_busy: false });
        Ok(())
    }

    /// Whose load comes past the ring.
    pub(super) fn flood(&self) -> Option<SocketAddr> {
        self.flood.as_ref().map(|flood| flood.from)
    }

    /// All frames come by the ring again.
    pub(super) fn end_flood(&mut self) {
        if let Some(flood) = &mut self.flood {
            flood.socket.close();
        }
    }

    /// Waits for what comes, and shows it.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in the time of this end.
    pub(super) fn receive(&mut self, mut show: impl FnMut(&LineArrival<'_>)) -> io::Result<()> {
        self.wait_for_some()?;
        // What is in the ring by now, a question for the sums say, came behind all frames of load
        // that were there before: these are shown first.
        let has_block = self.ring.is_ready();
        let taken = match &mut self.flood {
            Some(flood) => flood.receive(&mut show)?,
            None => 0,
        };
        if let Some(over) = self.flood.take_if(|flood| taken == 0 && !flood.socket.is_open()) {
            self.idle = Some(over.socket);
        }
        match has_block {
            true => self.receive_block(show),
            false if taken > 0 => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn wait_for_some(&self) -> io::Result<()> {
        let is_ready = |flood: &Flood| flood.socket.is_ready() || !flood.socket.is_open();
        let some = || self.ring.is_ready() || self.flood.as_ref().is_some_and(is_ready);
        if some() {
            return Ok(());
        }
        if self.flood.as_ref().is_some_and(|flood| flood.is_busy) {
            std::thread::sleep(REST);
            if some() {
                return Ok(());
            }
        }
        self.ring.wait(self.flood.as_ref().map(|flood| flood.socket.descriptor()), self.wait)
    }

    fn receive_block(&mut self, mut show: impl FnMut(&LineArrival<'_>)) -> io::Result<()> {
        let (own, dropped, flood) = (self.device.address, &mut self.dropped, &mut self.flood);
        self.ring.receive(|frame| {
            let new = frame.dropped.wrapping_sub(*dropped);
            *dropped = frame.dropped;
            let [to, from] = [0, 6].map(|at| frame.bytes.get(at..at + 6));
            let Some(from) = from.and_then(|from| <[u8; 6]>::try_from(from).ok()) else {
                return;
            };
            let Some(([_, _, high, low], bytes)) =
                frame.bytes.get(12..).and_then(<[u8]>::split_first_chunk)
            else {
                return;
            };
            if to != Some(&own) {
                return;
            }
            let stream = u16::from_be_bytes([*high, *low]);
            // Behind the last of the load, none of its frames tells of what was dropped.
            let untold = flood.as_mut().map_or(0, Flood::take_dropped);
            show(&LineArrival {
                from: EthernetEnd { address: from, tag: frame.tag, stream }.as_address(),
                bytes,
                received: Some(frame.received),
                ttl: 255,
                dropped: new.saturating_add(untold),
                is_after_drops: frame.is_after_drops || untold > 0,
            });
        })
    }
}

impl Flood {
    /// Shows what came; returns how many frames.
    fn receive(&mut self, show: &mut impl FnMut(&LineArrival<'_>)) -> io::Result<u32> {
        let Flood { socket, from, header, dropped, .. } = self;
        let taken = socket.receive(|frame| {
            let new = frame.dropped - std::mem::replace(dropped, frame.dropped);
            show(&LineArrival {
                from: *from,
                bytes: frame.bytes.get(*header..).unwrap_or_default(),
                received: None,
                ttl: 255,
                dropped: new as u32,
                is_after_drops: frame.is_after_drops,
            });
        })?;
        self.is_busy = taken > 0;
        Ok(taken)
    }

    /// What was dropped and not shown yet.
    fn take_dropped(&mut self) -> u32 {
        let total = self.socket.dropped();
        (total - std::mem::replace(&mut self.dropped, total)) as u32
    }
}
