//! What a network interface says of its offloads and rings, and which interface an address belongs
//! to. ethtool's ioctl and `getifaddrs` have no safe wrapper in the crates we use.

use std::ffi::{CStr, c_char};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

// From linux/ethtool.h and linux/sockios.h.
const SIOCETHTOOL: u32 = 0x8946;
#[cfg(feature = "calendar")]
const ETHTOOL_GSET: u32 = 1;
#[cfg(feature = "line")]
const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
#[cfg(feature = "line")]
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// An offload that can be asked about with a command of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offload {
    /// TCP segmentation (`ETHTOOL_GTSO`).
    Tso,
    /// Generic segmentation (`ETHTOOL_GGSO`).
    Gso,
    /// Generic receive (`ETHTOOL_GGRO`).
    Gro,
}

impl Offload {
    /// What `ethtool -K` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Offload::Tso => "tso",
            Offload::Gso => "gso",
            Offload::Gro => "gro",
        }
    }

    fn command(self) -> u32 {
        match self {
            Offload::Tso => 0x1e,
            Offload::Gso => 0x23,
            Offload::Gro => 0x2b,
        }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    receive_most: u32,
    receive_mini_most: u32,
    receive_jumbo_most: u32,
    send_most: u32,
    receive: u32,
    receive_mini: u32,
    receive_jumbo: u32,
    send: u32,
}

/// `struct ethtool_cmd`.
#[cfg(feature = "calendar")]
#[derive(Default)]
#[repr(C)]
struct LinkSettings {
    command: u32,
    features: [u32; 2],
    speed: u16,
    ports: [u8; 6],
    packets: [u32; 2],
    speed_high: u16,
    pairs: [u8; 2],
    more: [u32; 3],
}

/// `struct ethtool_drvinfo`, of which only the driver's name is read.
#[cfg(feature = "line")]
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`.
#[cfg(feature = "line")]
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    receive_most: u32,
    send_most: u32,
    other_most: u32,
    both_most: u32,
    receive: u32,
    send: u32,
    other: u32,
    both: u32,
}

/// Whether `offload` of the interface `name` is on.
///
/// # Errors
/// `EOPNOTSUPP` when its driver does not say, `ENODEV` when there is none.
pub(crate) fn offload(name: &str, offload: Offload) -> io::Result<bool> {
    let mut value = Value { command: offload.command(), data: 0 };
    // SAFETY: these commands read and write a `struct ethtool_value`, which `value` is.
    unsafe { ask(name, (&raw mut value).cast())? };
    Ok(value.data != 0)
}

/// The rings of the interface `name`: receive now and at most, send now and at most.
///
/// # Errors
/// `EOPNOTSUPP` when it has none, `ENODEV` when there is no such interface.
pub(crate) fn rings(name: &str) -> io::Result<[u32; 4]> {
    let mut rings = RingParameters { command: ETHTOOL_GRINGPARAM, ..RingParameters::default() };
    // SAFETY: this command reads and writes a `struct ethtool_ringparam`, which `rings` is.
    unsafe { ask(name, (&raw mut rings).cast())? };
    Ok([rings.receive, rings.receive_most, rings.send, rings.send_most])
}

/// How fast the interface `name` is, in Mbit/s; nothing where it does not say.
#[cfg(feature = "calendar")]
pub(crate) fn speed(name: &str) -> Option<u32> {
    let mut settings = LinkSettings { command: ETHTOOL_GSET, ..LinkSettings::default() };
    // SAFETY: this command reads and writes a `struct ethtool_cmd`, which `settings` is.
    unsafe { ask(name, (&raw mut settings).cast()) }.ok()?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    (speed != 0 && speed != u32::MAX && speed != u32::from(u16::MAX)).then_some(speed)
}

/// The driver of the interface `name`: `veth`, `tun`, `mlx5_core` ...
///
/// # Errors
/// `EOPNOTSUPP` when it does not say, `ENODEV` when there is no such interface.
#[cfg(feature = "line")]
pub(crate) fn driver(name: &str) -> io::Result<String> {
    let mut said = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: this command reads and writes a `struct ethtool_drvinfo`, which `said` is.
    unsafe { ask(name, (&raw mut said).cast())? };
    let name = said.driver.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// By how many queues the interface `name` receives.
///
/// # Errors
/// `EOPNOTSUPP` when it does not say, `ENODEV` when there is no such interface.
#[cfg(feature = "line")]
pub(crate) fn receive_queues(name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: this command reads and writes a `struct ethtool_channels`, which `channels` is.
    unsafe { ask(name, (&raw mut channels).cast())? };
    Ok(channels.receive + channels.both)
}

/// # Safety
/// `data` points to the structure that its first number, the command, names in linux/ethtool.h.
unsafe fn ask(name: &str, data: *mut c_char) -> io::Result<()> {
    // Any socket of the network namespace will do; this one is never connected.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // SAFETY: an all-zero `ifreq` is valid: bytes and integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = data;
    // SAFETY: SIOCETHTOOL reads an `ifreq` whose data is what the caller promises.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The interface that has the address `ip`.
pub(crate) fn interface_of(ip: IpAddr) -> Option<String> {
    addresses().into_iter().find(|(_, address)| *address == ip).map(|(name, _)| name)
}

/// Every interface's addresses, with the interface's name; nothing where the kernel does not say.
pub(crate) fn addresses() -> Vec<(String, IpAddr)> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `getifaddrs` writes one pointer, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: a non-null element of a list that is not freed yet.
        let item = unsafe { &*next };
        // SAFETY: every element has a zero-terminated name.
        let name = unsafe { CStr::from_ptr(item.ifa_name) };
        if !item.ifa_addr.is_null()
            && let (Ok(name), Some(address)) = (name.to_str(), address(item))
        {
            found.push((name.to_owned(), address));
        }
        next = item.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs` and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn address(item: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: the caller checked that the address is there; its family says which structure it is.
    match i32::from(unsafe { (*item.ifa_addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: AF_INET means a `sockaddr_in`; read without relying on its alignment.
            let address = unsafe { item.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: AF_INET6 means a `sockaddr_in6`; as above.
            let address = unsafe { item.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_and_has_its_offloads_on() {
        assert_eq!(interface_of(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
        assert_eq!(interface_of(Ipv4Addr::new(203, 0, 113, 7).into()), None);
        assert!(offload("lo", Offload::Gso).expect("the loopback answers"));
        assert!(rings("lo").is_err(), "the loopback has no rings");
        assert!(offload("no-such-if0", Offload::Tso).is_err());
        assert!(offload("a-name-that-is-far-too-long", Offload::Tso).is_err());
    }
}
