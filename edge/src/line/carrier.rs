//! What carries a test: UDP between two addresses, or Ethernet frames between two devices.

use super::arrival::LineArrival;
use super::ethernet_end::EthernetEnd;
use super::frame_receiver::FrameReceiver;
use super::host::random;
use crate::sys::datagrams::{self, DatagramBuffers, DatagramTrain};
use crate::sys::ethtool;
use crate::sys::frame_flood::{FloodFrame, FrameFlood};
use crate::sys::frames::{FrameDevice, FrameSender};
use crate::sys::transmit_times::TransmitTimes;
use farline_core::line::{EthernetFraming, FrameKind, FrameWay, LoadTemplate, framed_bits};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Time};
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

/// The address of an Ethernet device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareAddress(pub [u8; 6]);

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for HardwareAddress {
    type Err = Error;
    fn from_str(text: &str) -> Result<HardwareAddress, Error> {
        let wrong = |why: &str| {
            let message = format!("`{text}` {why}");
            Error::new(Fault::You, ErrorCode::LineDevice, message).hint(format!(
                "the other end's `farline line reflect {} DEV` says its own",
                Setting::Ethernet
            ))
        };
        let parts: Vec<u8> = text
            .split(':')
            .filter(|part| part.len() == 2)
            .map_while(|part| u8::from_str_radix(part, 16).ok())
            .collect();
        let bytes: [u8; 6] = parts.try_into().map_err(|_| wrong("is no hardware address"))?;
        match text.len() == 17 && bytes[0] & 1 == 0 {
            true => Ok(HardwareAddress(bytes)),
            false => Err(wrong("is not the hardware address of one device")),
        }
    }
}

/// A socket that carries a test.
#[derive(Debug)]
pub(super) enum LineSocket {
    /// Datagrams; the tester's is connected.
    Udp { socket: UdpSocket, is_ipv6: bool },
    /// Frames.
    Ethernet(Box<EthernetSocket>),
}

/// Frames between a device of this host and another, or any.
#[derive(Debug)]
pub(super) struct EthernetSocket {
    sender: FrameSender,
    device: FrameDevice,
    framing: EthernetFraming,
    /// The tester's other end.
    peer: Option<(HardwareAddress, u16)>,
}

/// What takes what comes.
pub(super) enum LineReceiver {
    Udp { buffers: DatagramBuffers, dropped: u32 },
    Ethernet(Box<FrameReceiver>),
}

impl EthernetSocket {
    /// By the device of `framing`, to `peer` if one end is known.
    ///
    /// # Errors
    /// [`Fault::You`] when there is no such device, or it is not Ethernet's; [`Fault::Here`]
    /// without the right to use it.
    pub(super) fn open(
        framing: EthernetFraming,
        peer: Option<HardwareAddress>,
    ) -> Result<EthernetSocket, Error> {
        let device = FrameDevice::named(&framing.device).map_err(|e| failed(&framing, &e))?;
        let sender = FrameSender::open(&device).map_err(|error| failed(&framing, &error))?;
        // Another number for each test: what came late of one is not another's.
        let peer = peer.map(|peer| (peer, random() as u16));
        Ok(EthernetSocket { sender, device, framing, peer })
    }

    /// The most that a frame carries.
    pub(super) fn mtu(&self) -> u32 {
        self.device.mtu
    }

    /// What the device is called.
    pub(super) fn device(&self) -> &str {
        &self.framing.device
    }

    /// The device's own address.
    pub(super) fn address(&self) -> HardwareAddress {
        HardwareAddress(self.device.address)
    }

    /// A ring of `bytes` for what comes to this end.
    pub(super) fn receiver(&self, bytes: usize, wait: Duration) -> Result<LineReceiver, Error> {
        let (device, stream) = (&self.framing.device, self.peer.map(|(_, stream)| stream));
        let receiver = FrameReceiver::open(device, self.device, stream, bytes, wait);
        let receiver = receiver.map_err(|error| failed(&self.framing, &error))?;
        Ok(LineReceiver::Ethernet(Box::new(receiver)))
    }

    /// A flood of frames of this payload to the other end, where this host and the device can do
    /// that.
    pub(super) fn flood(&self, template: &LoadTemplate) -> io::Result<FrameFlood> {
        // What a TAP device has no room for comes back as one refusal, and it does not count the
        // rest: an emulated link would not know what it was offered.
        if ethtool::driver(&self.framing.device)? == "tun" {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let header = self.peer()?.header_to(self.device.address);
        let bytes = [header.bytes(), &template.payload].concat();
        let (payload_at, checks) = (header.bytes().len(), &template.checks);
        FrameFlood::open(&self.device, FloodFrame { bytes: &bytes, payload_at, checks })
    }

    fn send_to(&self, end: EthernetEnd, trains: &[DatagramTrain<'_>]) -> io::Result<u64> {
        self.sender.send(end.header_to(self.device.address).bytes(), trains)
    }

    /// The tester's other end.
    fn peer(&self) -> io::Result<EthernetEnd> {
        let (address, stream) = self.peer.ok_or(io::ErrorKind::NotConnected)?;
        Ok(EthernetEnd { address: address.0, tag: self.framing.tag(), stream })
    }
}

impl LineSocket {
    /// Bytes of a frame that carry the test.
    pub(super) fn payload_bytes(&self, kind: FrameKind) -> usize {
        match self {
            LineSocket::Udp { is_ipv6, .. } => kind.payload_bytes(*is_ipv6),
            LineSocket::Ethernet(_) => EthernetFraming::payload_bytes(kind),
        }
    }

    /// Bits from header to FCS of a frame with `payload` such bytes.
    pub(super) fn framed_bits(&self, payload: usize) -> u64 {
        match self {
            LineSocket::Udp { is_ipv6, .. } => framed_bits(payload, *is_ipv6),
            LineSocket::Ethernet(ethernet) => 8 * ethernet.framing.framed_bytes(payload),
        }
    }

    /// Sends one message to the tester's other end.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            LineSocket::Udp { socket, .. } => socket.send(bytes).map(drop),
            LineSocket::Ethernet(_) => {
                let train = DatagramTrain { bytes, segment: bytes.len() };
                self.send_trains(&[train]).map(drop)
            }
        }
    }

    /// Sends one message to where something came from.
    pub(super) fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        match self {
            LineSocket::Udp { socket, .. } => socket.send_to(bytes, to).map(drop),
            LineSocket::Ethernet(ethernet) => {
                let train = DatagramTrain { bytes, segment: bytes.len() };
                let end = EthernetEnd::of_address(to).ok_or(io::ErrorKind::InvalidInput)?;
                ethernet.send_to(end, &[train]).map(drop)
            }
        }
    }

    /// Times of what is sent with [`send_timed`](Self::send_timed), where it can be had.
    pub(super) fn transmit_times(&self) -> Option<TransmitTimes> {
        match self {
            LineSocket::Udp { socket, .. } => TransmitTimes::of(socket),
            LineSocket::Ethernet(_) => None,
        }
    }

    /// Sends one message, to the tester's other end where no address is given; returns the number
    /// under which it is timed, if it is.
    pub(super) fn send_timed(
        &self,
        times: &mut Option<TransmitTimes>,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<Option<u32>> {
        match (self, times, to) {
            (LineSocket::Udp { socket, .. }, Some(times), to) => {
                times.send(socket, bytes, to).map(Some)
            }
            (_, _, Some(to)) => self.send_to(bytes, to).map(|()| None),
            (_, _, None) => self.send(bytes).map(|()| None),
        }
    }

    /// Shows the number of each message that left since, and when it did.
    pub(super) fn read_times(
        &self,
        times: &mut Option<TransmitTimes>,
        show: impl FnMut(u32, Time),
    ) {
        if let (LineSocket::Udp { socket, .. }, Some(times)) = (self, times) {
            times.read(socket, show);
        }
    }

    /// Sends trains to the tester's other end; returns how many left, and how many of their frames
    /// were dropped here.
    pub(super) fn send_trains(&self, trains: &[DatagramTrain<'_>]) -> io::Result<(usize, u64)> {
        match self {
            LineSocket::Udp { socket, .. } => {
                datagrams::send(socket, trains).map(|count| (count, 0))
            }
            LineSocket::Ethernet(ethernet) => {
                let refused = ethernet.send_to(ethernet.peer()?, trains)?;
                Ok((trains.len(), refused))
            }
        }
    }
}

impl LineReceiver {
    /// Takes the frames of the test without a pace that begins at `from`, if it is one of Ethernet
    /// and they can be had so, past what else comes; returns by which way they come.
    pub(super) fn take_flood(&mut self, from: SocketAddr) -> Option<FrameWay> {
        let LineReceiver::Ethernet(frames) = self else { return None };
        // Otherwise they come with all others.
        let is_past = frames.take_flood(from).is_ok();
        Some(if is_past { FrameWay::XdpSocket } else { FrameWay::PacketRing })
    }

    /// Ends that where `is_over` says so of where they came from.
    pub(super) fn end_flood(&mut self, is_over: impl Fn(SocketAddr) -> bool) {
        if let LineReceiver::Ethernet(frames) = self
            && frames.flood().is_some_and(is_over)
        {
            frames.end_flood();
        }
    }

    /// Waits for what comes, and shows it.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in the time of this end.
    pub(super) fn receive(
        &mut self,
        socket: &LineSocket,
        mut show: impl FnMut(&LineArrival<'_>),
    ) -> io::Result<()> {
        match (self, socket) {
            (LineReceiver::Udp { buffers, dropped }, LineSocket::Udp { socket, .. }) => {
                buffers.receive(socket)?;
                for arrival in buffers.arrivals() {
                    let mut new = arrival.dropped.wrapping_sub(*dropped);
                    *dropped = arrival.dropped;
                    for bytes in arrival.bytes.chunks(arrival.segment) {
                        show(&LineArrival {
                            from: arrival.from,
                            bytes,
                            received: arrival.received,
                            ttl: arrival.ttl,
                            dropped: new,
                            is_after_drops: new > 0,
                        });
                        new = 0;
                    }
                }
                Ok(())
            }
            (LineReceiver::Ethernet(frames), _) => frames.receive(show),
            (LineReceiver::Udp { .. }, LineSocket::Ethernet(_)) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }
}

fn failed(framing: &EthernetFraming, error: &io::Error) -> Error {
    let device = &framing.device;
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            let message = format!("there is no device `{device}`");
            Error::new(Fault::You, ErrorCode::LineDevice, message)
                .hint("`ip link` lists this host's devices")
        }
        Some(libc::EPERM | libc::EACCES) => {
            let message = format!("this user may not send Ethernet frames by {device}");
            Error::new(Fault::Here, ErrorCode::LineDevice, message)
                .hint("run as root, or give farline the capability: setcap cap_net_raw+ep FARLINE")
        }
        _ if error.kind() == io::ErrorKind::InvalidInput => {
            let message = format!("the frames of {device} are not Ethernet's");
            Error::new(Fault::You, ErrorCode::LineDevice, message).hint(format!(
                "an emulated link carries them with `farline link up {}`",
                Setting::Ethernet
            ))
        }
        _ => Error::new(Fault::Here, ErrorCode::LineDevice, format!("{device}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hardware_address_of_one_device_is_refused() {
        let text = "02:00:00:77:00:0a";
        assert_eq!(
            text.parse::<HardwareAddress>().map(|found| found.to_string()).as_deref(),
            Ok(text)
        );
        for wrong in [
            "",
            "host",
            "02:00:00:77:00",
            "02:00:00:77:00:zz",
            "2:0:0:77:0:1",
            "02:00:00:77:00:01:02",
            "ff:ff:ff:ff:ff:ff",
            "01:00:5e:00:00:01",
        ] {
            let error = wrong.parse::<HardwareAddress>().expect_err(wrong);
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::LineDevice), "{wrong}");
        }
    }
}
