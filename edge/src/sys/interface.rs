//! Interfaces, their VLANs and their IPv4 addresses, by rtnetlink(7).

use super::link_message::{
    IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINKINFO, LinkMessage, each_link,
};
use super::netlink::{Scope, find, request, u16_of, u32_of};
use super::rtnetlink::{Attributes, Refusal, flags, order};
use rustix::io;
use std::net::Ipv4Addr;

// include/uapi/linux/rtnetlink.h, if_link.h and if_addr.h
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
#[cfg(feature = "link")]
const IFLA_MTU: u16 = 4;
#[cfg(feature = "link")]
const IFLA_TXQLEN: u16 = 13;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VLAN_ID: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFF_UP: u32 = 1;
/// Bytes of `struct ifaddrmsg`.
const ADDRESS: usize = 8;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) is_up: bool,
    /// Of a VLAN: its interface, and its id.
    pub(crate) vlan: Option<(u32, u16)>,
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub(crate) interface: u32,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
}

/// All interfaces of this network namespace.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    each_link(|link| Interface {
        number: link.number,
        is_up: link.flags & IFF_UP != 0,
        vlan: vlan_of(&link),
        name: link.name,
    })
}

/// Of a VLAN: the interface that it is of, and its id.
fn vlan_of(link: &LinkMessage<'_>) -> Option<(u32, u16)> {
    let info = find(link.attributes, IFLA_LINKINFO)?;
    let id = find(find(info, IFLA_INFO_DATA)?, IFLA_VLAN_ID)?.get(..2)?;
    let is_vlan = find(info, IFLA_INFO_KIND)?.starts_with(b"vlan");
    is_vlan.then_some((u32_of(find(link.attributes, IFLA_LINK)?), u16_of(id)))
}

fn link_head(number: u32, up: bool) -> Vec<u8> {
    let mut head = vec![0; 4];
    let flags = u32::from(up) * IFF_UP;
    for word in [number, flags, flags] {
        head.extend(word.to_ne_bytes());
    }
    head
}

/// Makes the VLAN `id` of the interface `below`, called `name`, and brings it up.
pub(crate) fn add_vlan(below: u32, name: &str, id: u16) -> Result<(), Refusal> {
    let data = Attributes::default().with(IFLA_VLAN_ID, &id.to_ne_bytes());
    let info =
        Attributes::default().with_name(IFLA_INFO_KIND, "vlan").with(IFLA_INFO_DATA, data.bytes());
    let body = Attributes::after(&link_head(0, true))
        .with_name(IFLA_IFNAME, name)
        .with(IFLA_LINK, &below.to_ne_bytes())
        .with(IFLA_LINKINFO, info.bytes());
    order(RTM_NEWLINK, flags::CREATE, &body)
}

/// Brings an interface up.
pub(crate) fn bring_up(number: u32) -> Result<(), Refusal> {
    order(RTM_NEWLINK, flags::CHANGE, &Attributes::after(&link_head(number, true)))
}

/// Takes an interface that was made down for good.
pub(crate) fn remove(number: u32) -> Result<(), Refusal> {
    order(RTM_DELLINK, flags::CHANGE, &Attributes::after(&link_head(number, false)))
}

/// All IPv4 addresses of this network namespace.
pub(crate) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let all = request(None, RTM_GETADDR, Scope::All, &[0; ADDRESS])?;
    let known = all.iter().filter_map(|body| {
        let (prefix, interface) = (*body.get(1)?, u32_of(body.get(4..8)?));
        let octets: [u8; 4] = find(body.get(ADDRESS..)?, IFA_LOCAL)?.try_into().ok()?;
        let is_v4 = i32::from(*body.first()?) == libc::AF_INET;
        is_v4.then_some(InterfaceAddress { interface, address: octets.into(), prefix })
    });
    Ok(known.collect())
}

fn address(of: InterfaceAddress) -> Attributes {
    let mut head = vec![libc::AF_INET as u8, of.prefix, 0, 0];
    head.extend(of.interface.to_ne_bytes());
    let octets = of.address.octets();
    Attributes::after(&head).with(IFA_LOCAL, &octets).with(IFA_ADDRESS, &octets)
}

/// Gives an interface an address.
pub(crate) fn add_address(of: InterfaceAddress) -> Result<(), Refusal> {
    order(RTM_NEWADDR, flags::CREATE, &address(of))
}

/// Gives an interface the address `own`, and the other end of its path `peer`.
#[cfg(feature = "link")]
pub(crate) fn add_peer(number: u32, own: Ipv4Addr, peer: Ipv4Addr) -> Result<(), Refusal> {
    let mut head = vec![libc::AF_INET as u8, 32, 0, 0];
    head.extend(number.to_ne_bytes());
    let both = Attributes::after(&head).with(IFA_LOCAL, &own.octets());
    order(RTM_NEWADDR, flags::CREATE, &both.with(IFA_ADDRESS, &peer.octets()))
}

/// Brings an interface up with packets of `mtu` bytes and a queue of so many.
#[cfg(feature = "link")]
pub(crate) fn set_up(number: u32, mtu: u32, queue: u32) -> Result<(), Refusal> {
    let body = Attributes::after(&link_head(number, true))
        .with(IFLA_MTU, &mtu.to_ne_bytes())
        .with(IFLA_TXQLEN, &queue.to_ne_bytes());
    order(RTM_NEWLINK, flags::CHANGE, &body)
}

/// Takes one away.
pub(crate) fn remove_address(of: InterfaceAddress) -> Result<(), Refusal> {
    order(RTM_DELADDR, flags::CHANGE, &address(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_with_its_address() {
        let all = interfaces().expect("listed");
        let lo = all.iter().find(|one| one.name == "lo").expect("a loopback");
        assert_eq!(lo.vlan, None);
        let known = addresses().expect("listed");
        let own = known.iter().find(|one| one.interface == lo.number);
        assert!(own.is_none_or(|own| own.address.is_loopback()), "{own:?}");
    }
}
