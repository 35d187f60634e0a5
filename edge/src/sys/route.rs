//! The queueing disciplines on the device of a route, by rtnetlink(7).

use super::netlink::{Scope, find, request, u32_of};
use rustix::io;
use rustix::net::AddressFamily;
use std::net::IpAddr;

// include/uapi/linux/rtnetlink.h
const RTM_GETROUTE: u16 = 26;
const RTM_GETQDISC: u16 = 38;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;
/// Bytes of `struct rtmsg`.
const ROUTE: usize = 12;
/// Bytes of `struct tcmsg`, whose second word is the interface.
const QDISC: usize = 20;

/// Whether `fq`, which paces, is on the device through which `peer` is reached; `None` where the
/// kernel does not say.
pub(crate) fn fq_towards(peer: IpAddr) -> Option<bool> {
    let interface = interface_towards(peer).ok()??;
    Some(disciplines(interface).ok()?.iter().any(|kind| kind == "fq"))
}

/// The number of the interface through which `peer` is reached.
pub(crate) fn interface_towards(peer: IpAddr) -> io::Result<Option<u32>> {
    let (family, address) = match peer.to_canonical() {
        IpAddr::V4(ip) => (AddressFamily::INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AddressFamily::INET6, ip.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE];
    (body[0], body[1]) = (family.as_raw() as u8, (8 * address.len()) as u8);
    body.extend(((4 + address.len()) as u16).to_ne_bytes());
    body.extend(RTA_DST.to_ne_bytes());
    body.extend(address);
    let routes = request(None, RTM_GETROUTE, Scope::One, &body)?;
    let mut found = routes.iter().filter_map(|route| find(route.get(ROUTE..)?, RTA_OIF));
    Ok(found.next().map(u32_of))
}

/// The names of all queueing disciplines of an interface: of one with several queues, of each.
fn disciplines(interface: u32) -> io::Result<Vec<String>> {
    let all = request(None, RTM_GETQDISC, Scope::All, &[0; QDISC])?;
    let ours = all.iter().filter(|one| one.get(4..8).is_some_and(|at| u32_of(at) == interface));
    let kinds = ours.filter_map(|one| {
        let kind = find(one.get(QDISC..)?, TCA_KIND)?;
        Some(String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned())
    });
    Ok(kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_routed_through_its_own_device() {
        let number = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("a loopback");
        let number: u32 = number.trim().parse().expect("a number");
        for ip in ["127.0.0.1", "127.9.9.9"] {
            let found = interface_towards(ip.parse().expect("an address")).expect("a route");
            assert_eq!(found, Some(number), "{ip}");
        }
        let kinds = disciplines(number).expect("listed");
        assert!(kinds.iter().all(|kind| !kind.is_empty()), "{kinds:?}");
        assert_eq!(fq_towards([127, 0, 0, 1].into()), Some(kinds.iter().any(|kind| kind == "fq")));
    }
}
