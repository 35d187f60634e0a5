//! TUN devices that hand over whole super-packets, and TAP devices that hand over whole frames. No
//! safe crate sets the offloads of a TUN queue, hence the ioctls.

use rustix::fs::{Mode, OFlags, open};
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of the header before each packet: a `virtio_net_hdr` without merged buffers (virtio 1.2,
/// section 5.1.6).
pub(crate) const HEADER: usize = 10;
/// Most bytes of one read: header and the largest IP packet.
pub(crate) const LARGEST: usize = HEADER + 65_535;

// From linux/if_tun.h; libc has only some of them.
const TUN_F_CSUM: c_uint = 0x01;
const TUN_F_TSO4: c_uint = 0x02;
const TUN_F_TSO6: c_uint = 0x04;
const TUN_F_TSO_ECN: c_uint = 0x08;
const TUN_F_USO4: c_uint = 0x20;
const TUN_F_USO6: c_uint = 0x40;

/// Most bytes that the kernel holds of what was written and not yet received: some 200 ms at 10
/// Gbit/s.
static UNRECEIVED: c_int = 256 << 20;

/// What a new device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offloads {
    /// Whether UDP super-packets (USO) come whole too: Linux 6.2 and later.
    pub udp: bool,
}

/// Makes the TUN device `name` in the calling thread's network namespace. It goes when the
/// descriptor is closed.
///
/// Reads and writes do not block and carry one packet behind [`HEADER`] bytes. A write leaves the
/// packet in the device's NAPI queue, so that, once the device is threaded, a thread of the kernel
/// receives it and not the writer.
///
/// # Errors
/// `ENOENT` without /dev/net/tun, `EPERM` without `CAP_NET_ADMIN` in the namespace, `EBUSY` when
/// the name is taken.
pub(crate) fn create(name: &str) -> io::Result<(OwnedFd, Offloads)> {
    let tun = open_as(name, libc::IFF_TUN)?;
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    let udp =
        unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, tcp | TUN_F_USO4 | TUN_F_USO6) }
            == 0;
    if !udp {
        // SAFETY: as above.
        check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, tcp) })?;
    }
    Ok((tun, Offloads { udp }))
}

/// Makes a TAP device likewise: a read and a write carry one Ethernet frame without its FCS, VLAN
/// tag included, as long as the device's MTU has it at most and with its checksums made.
///
/// # Errors
/// As [`create`].
pub(crate) fn create_tap(name: &str) -> io::Result<OwnedFd> {
    open_as(name, libc::IFF_TAP)
}

/// A device of this kind, without offloads.
fn open_as(name: &str, kind: libc::c_int) -> io::Result<OwnedFd> {
    let tun =
        open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: an all-zero `ifreq` is valid: bytes and integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags =
        (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_NAPI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an `ifreq`, which `request` is.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let header = HEADER as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an `int`, which `header` is.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const header) })?;
    // SAFETY: TUNSETSNDBUF reads an `int`, which `UNRECEIVED` is.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETSNDBUF, &raw const UNRECEIVED) })?;
    Ok(tun)
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
