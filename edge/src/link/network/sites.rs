//! The sites of a network as namespaces: their addresses, devices and routes.

use super::super::failure::here;
use super::super::namespaces::{self, ip};
use super::NetworkInfo;
use crate::sys::interface;
use farline_core::calendar::{SiteId, Topology, routes};
use farline_core::units::{Error, ErrorCode, Rate, Span};
use std::fs;

/// The address of the site at `at`, for best-effort traffic.
pub(super) fn address(at: usize) -> String {
    format!("10.88.{}.{}", at / 250, at % 250 + 1)
}

/// The two addresses of the path numbered `number` within a range: `10.64.0.0/11` for circuits,
/// `10.96.0.0/11` for links between neighbours.
pub(super) fn path_addresses(circuit: bool, number: u32) -> [String; 2] {
    let base: u32 = if circuit { 10 << 24 | 64 << 16 } else { 10 << 24 | 96 << 16 };
    // Four addresses a path; numbers come round after half a million.
    let first = base + (number % (1 << 19)) * 4;
    [1, 2].map(|more| std::net::Ipv4Addr::from(first + more).to_string())
}

/// Makes the namespaces.
pub(super) fn create(info: &NetworkInfo) -> Result<(), Error> {
    for (at, site) in info.sites.iter().enumerate() {
        let namespace = info.namespace(site);
        ip(&["netns", "add", &namespace], "")?;
        let script = format!("link set lo up\naddr add {}/32 dev lo\n", address(at));
        ip(&["-n", &namespace, "-batch", "-"], &script)?;
        namespaces::inside(&namespace, || {
            let failed = |error| {
                here(ErrorCode::LinkForbidden, format!("forwarding between sites: {error}"))
            };
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(failed)?;
            // A packet of a circuit that is shut may not come back by another way.
            let _ = fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
            Ok(())
        })?;
    }
    Ok(())
}

/// Gives a path's device in `site` its addresses, and brings it up.
pub(super) fn configure(
    namespace: &str,
    device: &str,
    own: &str,
    peer: &str,
    mtu: u32,
    queue: u64,
) -> Result<(), Error> {
    let failed = |what: &dyn std::fmt::Display| {
        here(ErrorCode::LinkDevice, format!("setting up {device} in {namespace}: {what}"))
    };
    // By netlink: circuits come and go while others are due, and each `ip` would take milliseconds.
    namespaces::inside(namespace, || {
        let all = interface::interfaces().map_err(|error| failed(&error))?;
        let number = all.iter().find(|one| one.name == device).map(|one| one.number);
        let number = number.ok_or_else(|| failed(&"it is not there"))?;
        let [own, peer] = [own, peer].map(str::parse);
        let (Ok(own), Ok(peer)) = (own, peer) else { return Err(failed(&"no addresses")) };
        let queue = u32::try_from(queue).unwrap_or(u32::MAX);
        interface::set_up(number, mtu, queue).map_err(|refusal| failed(&refusal))?;
        interface::add_peer(number, own, peer).map_err(|refusal| failed(&refusal))
    })?;
    // As for links: the mover's writes are then received by a thread of the kernel. It has time,
    // and may not be there any more.
    let threaded = format!("/sys/class/net/{device}/threaded");
    let namespace = namespace.to_owned();
    let work = move || drop(ip(&["netns", "exec", &namespace, "tee", &threaded], "1"));
    drop(std::thread::Builder::new().name("threaded".to_owned()).spawn(work));
    Ok(())
}

/// The routes of best-effort traffic in `site`: by the shortest way to each other site.
pub(super) fn route(
    info: &NetworkInfo,
    topology: &Topology,
    site: SiteId,
    device_to: impl Fn(SiteId) -> Option<(String, String)>,
) -> Result<(), Error> {
    let name = topology.site_name(site);
    let own = address(site.0 as usize);
    let mut script = String::new();
    for (at, other) in topology.sites().iter().enumerate() {
        let Some(to) = topology.site(other).filter(|to| *to != site) else { continue };
        let Some(way) = routes::shortest(topology, site, to, |_| true) else { continue };
        let Some(first) = way.first() else { continue };
        if let Some((device, peer)) = device_to(topology.link(*first).to) {
            script += &format!("route add {}/32 via {peer} dev {device} src {own}\n", address(at));
        }
    }
    ip(&["-n", &info.namespace(name), "-batch", "-"], &script).map(drop)
}

/// Lets TCP in a site use buffers that limit no flow of this rate and round trip.
pub(super) fn widen(namespace: &str, rate: Rate, rtt: Span) -> Result<(), Error> {
    namespaces::inside(namespace, || namespaces::widen(4 * rate.bytes_in(rtt).0))
}

/// Ends the processes in all namespaces, and removes them.
pub(super) fn remove(info: &NetworkInfo) -> Result<(), Error> {
    let all: Vec<String> = info.sites.iter().map(|site| info.namespace(site)).collect();
    namespaces::remove_all(&all)
}
