//! The socket of a test's near end, and what is known of the devices on both of its ways.

use super::carrier::{EthernetSocket, HardwareAddress, LineReceiver, LineSocket};
use super::host::DeviceDrops;
use super::receive_watch::ReceiveWatch;
use super::reflect::PORT;
use crate::sys::datagrams::{DatagramBuffers, prepare};
use farline_core::line::LineSettings;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::net::sockopt;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// How long the thread that asks waits for what comes: so exact are the times of STAMP packets.
const WAIT: Duration = Duration::from_millis(2);
/// What the kernel may hold of what comes here: answers, which are few.
const BUFFER: usize = 4 << 20;

/// What carries the test, what takes what comes back, and what the devices drop.
pub(super) struct Connected {
    pub(super) socket: LineSocket,
    pub(super) receiver: LineReceiver,
    /// Going out.
    pub(super) drops: DeviceDrops,
    /// Coming in, where the kernel says it.
    pub(super) watch: Option<ReceiveWatch>,
}

impl Connected {
    /// To `target`, a host or, by the device of the settings, a hardware address.
    ///
    /// # Errors
    /// As [`bound`], and of that device.
    pub(super) fn to(target: &str, settings: &LineSettings) -> Result<Connected, Error> {
        if let Some(framing) = &settings.ethernet {
            let peer: HardwareAddress = target.parse()?;
            let ethernet = EthernetSocket::open(framing.clone(), Some(peer))?;
            settings.frames.fits(ethernet.mtu())?;
            let receiver = ethernet.receiver(BUFFER, WAIT)?;
            let drops = DeviceDrops::named(&framing.device);
            let watch = ReceiveWatch::named(&framing.device);
            let socket = LineSocket::Ethernet(Box::new(ethernet));
            return Ok(Connected { socket, receiver, drops, watch });
        }
        let socket = bound(target, PORT, settings)?;
        prepare(&socket, BUFFER, WAIT).map_err(|error| socket_failed(&error))?;
        let local = socket.local_addr().map_err(|error| socket_failed(&error))?.ip();
        let is_ipv6 = local.to_canonical().is_ipv6();
        let receiver = LineReceiver::Udp { buffers: DatagramBuffers::new(), dropped: 0 };
        let watch = socket.peer_addr().ok().and_then(|peer| ReceiveWatch::towards(peer.ip()));
        let (socket, drops) = (LineSocket::Udp { socket, is_ipv6 }, DeviceDrops::of(local));
        Ok(Connected { socket, receiver, drops, watch })
    }
}

/// A socket to the target, at `port` unless it names one, over whose path the frames go whole.
pub(super) fn bound(target: &str, port: u16, settings: &LineSettings) -> Result<UdpSocket, Error> {
    let wrong = |message: String| {
        Error::new(Fault::You, ErrorCode::BadLocation, message)
            .hint("a host, or host:port, where `farline line reflect` runs")
    };
    let found = target
        .to_socket_addrs()
        .or_else(|_| (target, port).to_socket_addrs())
        .map_err(|error| wrong(format!("{target}: {error}")))?;
    let to = found.into_iter().next().ok_or_else(|| wrong(format!("{target} has no address")))?;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let any: SocketAddr = any.parse().map_err(|_| wrong(any.to_owned()))?;
    let socket = UdpSocket::bind(any)
        .and_then(|socket| socket.connect(to).map(|()| socket))
        .map_err(|error| socket_failed(&error))?;
    let mtu = match to.is_ipv4() {
        true => sockopt::ip_mtu(&socket),
        false => sockopt::ipv6_mtu(&socket),
    };
    settings.frames.fits(mtu.map_err(|error| socket_failed(&error.into()))?)?;
    Ok(socket)
}

fn socket_failed(error: &std::io::Error) -> Error {
    Error::new(Fault::Here, ErrorCode::LineSocket, format!("a UDP socket: {error}"))
}
