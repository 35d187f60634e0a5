//! What is shown to a packet socket of what comes to a device: to be shown it is enough for a frame
//! of a protocol that nobody else takes not to be counted as dropped.

use super::frames::{FrameDevice, check, set};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

// include/uapi/linux/filter.h
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ANCILLARY: u32 = 0xffff_f000;
const PROTOCOL: u32 = ANCILLARY;
const VLAN_TAG: u32 = ANCILLARY + 44;
const HAS_VLAN_TAG: u32 = ANCILLARY + 48;
/// Protocols that somebody always takes, if only to throw them away without a count as dropped.
const TAKEN: [u16; 3] = [libc::ETH_P_IP as u16, libc::ETH_P_IPV6 as u16, libc::ETH_P_ARP as u16];
/// Farther no jump of a filter reaches.
const MOST_VLANS: usize = 200;

/// The socket. It counts frames with the tag of a VLAN that is none of the device's: the kernel
/// shows those first, and counts them as dropped when it finds nobody who takes them.
#[derive(Debug)]
pub(crate) struct DeviceTap {
    socket: OwnedFd,
    foreign: u64,
}

impl DeviceTap {
    /// Of the interface `number`, on which `vlans` have devices of their own.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`; what a kernel says that would show it what goes out, too.
    pub(crate) fn of(number: u32, vlans: &[u16]) -> io::Result<DeviceTap> {
        let (socket, one): (OwnedFd, c_int) = (FrameDevice::socket()?, 1);
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one)?;
        // What it keeps of them is of no use, and the least that a socket has room for.
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &one)?;
        let mut steps = foreign(vlans);
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        FrameDevice::numbered(number).bind(&socket, libc::ETH_P_ALL as u16)?;
        Ok(DeviceTap { socket, foreign: 0 })
    }

    /// Frames of foreign VLANs so far.
    pub(crate) fn foreign(&mut self) -> io::Result<u64> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes a `tpacket_stats` to a socket without a ring.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        })?;
        // Those that had no room are among them, and each reading begins anew.
        self.foreign += u64::from(stats.tp_packets);
        Ok(self.foreign)
    }
}

/// Lets frames of VLANs through that are none of `vlans`, of protocols that not everybody takes;
/// nothing where there are too many to tell.
fn foreign(vlans: &[u16]) -> Vec<libc::sock_filter> {
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    if vlans.len() > MOST_VLANS {
        return vec![step(RETURN, 0)];
    }
    // A tag with the number 0 is a priority and no VLAN.
    let numbers = vlans.iter().chain([&0]).map(|vlan| step(JUMP_EQUAL, u32::from(*vlan)));
    let mut steps = vec![step(LOAD, HAS_VLAN_TAG), step(JUMP_EQUAL, 0), step(LOAD, PROTOCOL)];
    steps.extend(TAKEN.map(|protocol| step(JUMP_EQUAL, u32::from(protocol))));
    steps.extend([step(LOAD, VLAN_TAG), step(AND, 0xfff)]);
    steps.extend(numbers);
    steps.extend([step(RETURN, 1), step(RETURN, 0)]);
    let last = steps.len() - 1;
    for (at, step) in steps.iter_mut().enumerate().filter(|(_, step)| step.code == JUMP_EQUAL) {
        step.jt = (last - at - 1) as u8;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_jump_ends_at_the_last_step() {
        for vlans in [&[][..], &[7, 4_094], &[1; MOST_VLANS]] {
            let steps = foreign(vlans);
            let jumps = steps.iter().enumerate().filter(|(_, step)| step.code == JUMP_EQUAL);
            let ends = jumps.map(|(at, step)| at + 1 + usize::from(step.jt));
            assert!(ends.into_iter().all(|end| end == steps.len() - 1), "{vlans:?}");
            assert_eq!(steps.last().map(|step| (step.code, step.k)), Some((RETURN, 0)));
        }
        assert_eq!(foreign(&[1; MOST_VLANS + 1]).len(), 1);
    }
}
