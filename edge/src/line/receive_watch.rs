//! What this host's devices drop of the packets that come to them, before any socket hears of it.

use crate::sys::device_tap::DeviceTap;
use crate::sys::receive_counters::{WayIn, backlog, counters, vlans_on};
use crate::sys::route::interface_towards;
use farline_core::line::{ReceiveDrops, VlanDrops};
use std::net::IpAddr;

/// The devices on the way in, as they count from now on.
#[derive(Debug)]
pub(super) struct ReceiveWatch {
    way: WayIn,
    /// Whether what a device drops behind its ring counts.
    has_dropped: bool,
    before: Option<ReceiveDrops>,
    /// They take what nobody else does: the kernel counts that as dropped by the device, too.
    taps: Vec<TappedDevice>,
}

/// A device whose frames of foreign VLANs are no drops.
#[derive(Debug)]
struct TappedDevice {
    number: u32,
    tap: DeviceTap,
    /// What it had dropped before.
    dropped: u64,
    drops: VlanDrops,
}

impl TappedDevice {
    /// `None` without the right to it.
    fn of(number: u32) -> Option<TappedDevice> {
        // What is dropped before there is a tap is of the time before.
        let dropped = counters(number).ok()?.dropped;
        let tap = DeviceTap::of(number, &vlans_on(number).ok()?).ok()?;
        Some(TappedDevice { number, tap, dropped, drops: VlanDrops::default() })
    }

    /// Of `dropped` in all, those that are no frames of foreign VLANs.
    fn own(&mut self, dropped: u64) -> Option<u64> {
        Some(self.drops.own(dropped.saturating_sub(self.dropped), self.tap.foreign().ok()?))
    }
}

impl ReceiveWatch {
    /// Of what comes from `peer`, which is taken to come by the way that leads there; `None` where
    /// the kernel does not say which that is.
    pub(super) fn towards(peer: IpAddr) -> Option<ReceiveWatch> {
        let way = WayIn::of(interface_towards(peer).ok()??).ok()?;
        // Without the right to it, frames of protocols that nobody takes are drops.
        let taps = way.devices.iter().filter_map(|device| TappedDevice::of(*device)).collect();
        Some(ReceiveWatch::begun(way, taps, true))
    }

    /// Of what comes to the device `name`, at which a packet or XDP socket takes all. That counts
    /// itself what it has no room for, and `rx_dropped` has more: frames that were taken. The
    /// kernel gives a frame with a VLAN tag to packet sockets of all types first, and then looks
    /// for the VLAN's own device; where there is none it counts the frame as dropped, whoever saw
    /// it (`__netif_receive_skb_core`; of 1,000 such frames over a veth pair 1,000, and none of
    /// those without a tag). The ring is of all types, since one of one type sees no tags.
    pub(super) fn named(name: &str) -> Option<ReceiveWatch> {
        Some(ReceiveWatch::begun(WayIn::named(name).ok()?, Vec::new(), false))
    }

    fn begun(way: WayIn, taps: Vec<TappedDevice>, has_dropped: bool) -> ReceiveWatch {
        let mut watch = ReceiveWatch { way, has_dropped, before: None, taps };
        watch.before = watch.read();
        watch
    }

    /// What they have dropped since this was last asked; `None` where that is not known.
    pub(super) fn sample(&mut self) -> Option<ReceiveDrops> {
        let now = self.read()?;
        let before = self.before.replace(now)?;
        Some(now.since(&before))
    }

    /// What all of them count.
    fn read(&mut self) -> Option<ReceiveDrops> {
        let mut sum = ReceiveDrops::default();
        for device in &self.way.devices {
            let mut drops = counters(*device).ok()?;
            if let Some(tapped) = self.taps.iter_mut().find(|tapped| tapped.number == *device) {
                drops.dropped = tapped.own(drops.dropped)?;
            }
            sum = sum.and(&drops);
        }
        if !self.has_dropped {
            sum.dropped = 0;
        }
        if self.way.is_from_elsewhere {
            sum.backlog = backlog()?;
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_watched_on_the_way_to_itself() {
        let mut watch = ReceiveWatch::towards([127, 0, 0, 1].into()).expect("a way");
        assert_eq!(watch.way, WayIn::named("lo").expect("a loopback"));
        assert!(watch.sample().is_some());
        assert!(ReceiveWatch::named("no-such-if0").is_none());
    }
}
