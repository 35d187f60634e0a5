//! By which devices packets come to this host, and what these count as dropped on the way in, by
//! rtnetlink(7): of this network namespace, whichever /sys is mounted.

use super::link_message::{
    IFLA_INFO_KIND, IFLA_LINK, IFLA_LINKINFO, LINK, LinkMessage, RTM_GETLINK, each_link,
};
use super::netlink::{Scope, find, request, u16_of, u32_of};
use farline_core::line::ReceiveDrops;
use rustix::io;

// include/uapi/linux/if_link.h
const IFLA_MASTER: u16 = 10;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
/// Places in `struct rtnl_link_stats64`, which is of numbers of 8 bytes.
const RX_DROPPED: usize = 6;
const RX_OVER: usize = 11;
const RX_FIFO: usize = 14;
const RX_MISSED: usize = 15;
/// The column of /proc/net/softnet_stat that counts packets for which a backlog had no room; it is
/// hexadecimal, a line a processor.
const BACKLOG_DROPPED: usize = 1;

/// The devices by which packets come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WayIn {
    /// Their numbers: the one that has the address, and those below it.
    pub(crate) devices: Vec<u32>,
    /// Whether a device before them belongs to another namespace, and is not seen from here.
    pub(crate) is_from_elsewhere: bool,
}

/// By what packets come to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Feed {
    /// A wire, or the device below it.
    #[default]
    Below,
    /// Its ports, whose counts it does not add up: of a bridge or a team, not of a bond.
    Ports,
    /// The other device of a pair, which sends.
    Pair,
}

impl Feed {
    /// Of a device of this kind, as the kernel calls it.
    fn of(kind: &[u8]) -> Feed {
        let name = kind.strip_suffix(&[0]).unwrap_or(kind);
        match name {
            b"bridge" | b"team" => Feed::Ports,
            b"veth" => Feed::Pair,
            _ => Feed::Below,
        }
    }
}

/// A device and what it stands on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StackedDevice {
    number: u32,
    name: String,
    feed: Feed,
    /// The device below, or the other end.
    below: Option<u32>,
    is_below_elsewhere: bool,
    master: Option<u32>,
    /// The VLAN that it is.
    vlan: Option<u16>,
}

impl StackedDevice {
    fn of(LinkMessage { number, name, attributes, .. }: LinkMessage<'_>) -> StackedDevice {
        let info = find(attributes, IFLA_LINKINFO);
        let kind = info.and_then(|info| find(info, IFLA_INFO_KIND));
        let vlan = || find(find(info?, IFLA_INFO_DATA)?, IFLA_VLAN_ID).map(u16_of);
        let below = find(attributes, IFLA_LINK).map(u32_of);
        StackedDevice {
            number,
            name,
            feed: kind.map(Feed::of).unwrap_or_default(),
            // Of one that stands on nothing it is 0, or itself.
            below: below.filter(|below| ![0, number].contains(below)),
            is_below_elsewhere: find(attributes, IFLA_LINK_NETNSID).is_some(),
            master: find(attributes, IFLA_MASTER).map(u32_of),
            vlan: kind.filter(|kind| kind.starts_with(b"vlan")).and_then(|_| vlan()),
        }
    }
}

impl WayIn {
    /// To the interface of this number.
    pub(crate) fn of(number: u32) -> io::Result<WayIn> {
        Ok(way_to(number, &devices()?))
    }

    /// To the interface of this name.
    pub(crate) fn named(name: &str) -> io::Result<WayIn> {
        let all = devices()?;
        let found = all.iter().find(|one| one.name == name).ok_or(io::Errno::NODEV)?;
        Ok(way_to(found.number, &all))
    }
}

/// A VLAN's frames come by the device below it, a bridge's by its ports.
fn way_to(number: u32, all: &[StackedDevice]) -> WayIn {
    let mut way = WayIn { devices: vec![number], is_from_elsewhere: false };
    let mut at = 0;
    while let Some(number) = way.devices.get(at).copied() {
        at += 1;
        let Some(device) = all.iter().find(|one| one.number == number) else { continue };
        way.is_from_elsewhere |= device.is_below_elsewhere;
        let is_seen = device.feed != Feed::Pair && !device.is_below_elsewhere;
        let below = device.below.filter(|_| is_seen);
        let has_ports = device.feed == Feed::Ports;
        let ports = all.iter().filter(|one| has_ports && one.master == Some(number));
        let more: Vec<u32> = below.into_iter().chain(ports.map(|port| port.number)).collect();
        for device in more {
            if !way.devices.contains(&device) {
                way.devices.push(device);
            }
        }
    }
    way
}

fn devices() -> io::Result<Vec<StackedDevice>> {
    each_link(StackedDevice::of)
}

/// The VLANs that have devices of their own on the interface `number`.
pub(crate) fn vlans_on(number: u32) -> io::Result<Vec<u16>> {
    let on = |device: StackedDevice| device.vlan.filter(|_| device.below == Some(number));
    Ok(devices()?.into_iter().filter_map(on).collect())
}

/// What the interface counts since it came up.
pub(crate) fn counters(number: u32) -> io::Result<ReceiveDrops> {
    let mut head = [0; LINK];
    // The second word of `struct ifinfomsg` is the interface.
    head[4..8].copy_from_slice(&number.to_ne_bytes());
    let all = request(None, RTM_GETLINK, Scope::One, &head)?;
    let stats = all.iter().find_map(|body| find(body.get(LINK..)?, IFLA_STATS64));
    Ok(dropped(stats.ok_or(io::Errno::NODATA)?))
}

fn dropped(stats: &[u8]) -> ReceiveDrops {
    let at = |place: usize| {
        let bytes = stats.get(place * 8..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    let missed = [RX_MISSED, RX_FIFO, RX_OVER].map(at);
    ReceiveDrops { missed: missed.iter().sum(), dropped: at(RX_DROPPED), backlog: 0 }
}

/// Packets for which the backlogs of this machine's processors had no room; `None` where that
/// cannot be read.
pub(crate) fn backlog() -> Option<u64> {
    Some(backlog_in(&std::fs::read_to_string("/proc/self/net/softnet_stat").ok()?))
}

fn backlog_in(text: &str) -> u64 {
    let counts = text.lines().filter_map(|line| line.split_whitespace().nth(BACKLOG_DROPPED));
    counts.filter_map(|count| u64::from_str_radix(count, 16).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: u32, kind: &[u8]) -> StackedDevice {
        StackedDevice { number, feed: Feed::of(kind), ..StackedDevice::default() }
    }

    #[test]
    fn a_vlan_of_a_bridge_comes_by_all_of_its_ports() {
        let all = [
            StackedDevice { below: Some(2), ..device(1, b"vlan\0") },
            device(2, b"bridge\0"),
            StackedDevice { master: Some(2), ..device(3, b"") },
            StackedDevice {
                master: Some(2),
                below: Some(9),
                is_below_elsewhere: true,
                ..device(4, b"veth\0")
            },
            StackedDevice { master: Some(7), ..device(5, b"") },
            // Of a bond, which adds up what its ports count.
            device(7, b"bond\0"),
            device(9, b""),
        ];
        let way = |number| way_to(number, &all);
        assert_eq!(way(1), WayIn { devices: vec![1, 2, 3, 4], is_from_elsewhere: true });
        assert_eq!(way(7), WayIn { devices: vec![7], is_from_elsewhere: false });
        assert_eq!(way(99).devices, [99]);
    }

    #[test]
    fn counters_are_read_by_their_places() {
        let stats: Vec<u8> = (0..25).flat_map(|n| (1_u64 << n).to_ne_bytes()).collect();
        let missed = (1 << 11) + (1 << 14) + (1 << 15);
        assert_eq!(dropped(&stats), ReceiveDrops { missed, dropped: 1 << 6, backlog: 0 });
        // A kernel of before has fewer.
        assert_eq!(dropped(&stats[..80]), ReceiveDrops { dropped: 1 << 6, ..Default::default() });
        let text = "00000007 0000000a 00000000\n00000001 00000010 00000000\n\n";
        assert_eq!(backlog_in(text), 26);
        assert!(backlog().is_some());
        let lo = WayIn::named("lo").expect("a loopback");
        assert!(!lo.is_from_elsewhere && counters(lo.devices[0]).is_ok(), "{lo:?}");
        assert!(counters(i32::MAX as u32).is_err());
    }
}
