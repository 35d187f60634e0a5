//! RDMA devices as the kernel shows them: by which address one is found, over which interface it
//! sends, and what it has counted.

use crate::channels::rdma::{DEVICES, ports};
use farline_core::profile::verbs;
use farline_core::rdma::{Gid, Port};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One address of a device's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) address: IpAddr,
    /// Its place in the port's table; 0 where that does not have it: InfiniBand, whose addresses
    /// are IPoIB's.
    pub(super) gid_index: u8,
    /// The Ethernet interface beneath.
    pub(super) interface: Option<String>,
    /// Whether it is software over that interface.
    pub(super) software: bool,
}

impl Device {
    pub(super) fn told(&self) -> verbs::Device {
        verbs::Device {
            name: self.name.clone(),
            address: self.address.to_string(),
            software: self.software,
        }
    }
}

/// The two ends of a measurement: those that were asked for, or the only two that there are.
pub(super) fn ends(asked: Option<(IpAddr, IpAddr)>) -> Result<(Device, Device), Error> {
    choose(all(Path::new(DEVICES)), asked)
}

fn choose(found: Vec<Device>, asked: Option<(IpAddr, IpAddr)>) -> Result<(Device, Device), Error> {
    let at = |address: IpAddr| {
        let address = address.to_canonical();
        // InfiniBand's: the library finds its device.
        let unknown = || Device {
            name: String::new(),
            address,
            gid_index: 0,
            interface: None,
            software: false,
        };
        found.iter().find(|device| device.address == address).cloned().unwrap_or_else(unknown)
    };
    if let Some((near, far)) = asked {
        return Ok((at(near), at(far)));
    }
    let wrong = |message: String, hint: String| {
        Err(Error::new(Fault::You, ErrorCode::ProfileDevices, message).hint(hint))
    };
    match &found[..] {
        [] => Err(Error::new(
            Fault::Here,
            ErrorCode::NoRdma,
            "this host has no RDMA device with an address",
        )
        .hint(
            "`rdma link` (iproute2) lists them; without a card, `rdma link add NAME type rxe \
             netdev DEVICE` makes one of an Ethernet device",
        )),
        [near, far] => Ok((near.clone(), far.clone())),
        [one] => wrong(
            format!(
                "this host has one RDMA device with an address: {} at {}",
                one.name, one.address
            ),
            format!(
                "a measurement has two ends: {} ADDRESS,ADDRESS names them, and one device may be \
                 both",
                Setting::Ends
            ),
        ),
        many => {
            let names: Vec<String> = many
                .iter()
                .map(|device| format!("{} at {}", device.name, device.address))
                .collect();
            wrong(
                format!("which two of {}?", names.join(", ")),
                format!("{} ADDRESS,ADDRESS names them", Setting::Ends),
            )
        }
    }
}

/// The first address of each port that RoCE v2 or iWARP has, IPv4 before IPv6; link-local ones do
/// not count.
fn all(devices: &Path) -> Vec<Device> {
    let first = |port: Port| {
        let usable = |gid: &&Gid| {
            gid.routable && !matches!(gid.address, IpAddr::V6(ip) if ip.is_unicast_link_local())
        };
        let Gid { index, address, .. } = *port
            .gids
            .iter()
            .filter(usable)
            .min_by_key(|gid| (gid.address.is_ipv6(), gid.index))?;
        let place = devices.join(&port.device);
        let interface = read(&place.join(format!("ports/{}/gid_attrs/ndevs/{index}", port.number)));
        // Soft-RoCE names the interface that it was made of; soft-iWARP stands on no device.
        let software = place.join("parent").exists() || !place.join("device").exists();
        let interface = Some(interface).filter(|name| !name.is_empty()).or(port.interface);
        Some(Device { name: port.device, address, gid_index: index, interface, software })
    };
    ports(devices).into_iter().filter(|port| port.is_active).filter_map(first).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The packets that a port has sent and received; `None` where the device does not count.
pub(super) fn counted(device: &str, port: u8) -> Option<(u64, u64)> {
    let place = Path::new(DEVICES).join(device).join("ports").join(port.to_string());
    let number = |file: PathBuf| read(&file).parse::<u64>().ok();
    // Soft-RoCE's own, then those that the specification has of every port.
    [
        ("hw_counters/sent_pkts", "hw_counters/rcvd_pkts"),
        ("counters/port_xmit_packets", "counters/port_rcv_packets"),
    ]
    .into_iter()
    .find_map(|(sent, received)| number(place.join(sent)).zip(number(place.join(received))))
}

/// How long a port's counters may show what they were: the kernel asks the device anew after its
/// `lifespan`, counted in ticks of its clock, the longest of which are 10 ms.
pub(super) fn staleness(device: &str, port: u8) -> Duration {
    let lifespan =
        Path::new(DEVICES).join(device).join(format!("ports/{port}/hw_counters/lifespan"));
    read(&lifespan)
        .parse()
        .map_or(Duration::ZERO, |ms: u64| Duration::from_millis(ms.min(1_000) + 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(folder: &Path, device: &str, gids: &[&str], state: &str) {
        let write = |path: String, text: &str| {
            let path = folder.join(device).join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, format!("{text}\n")).expect("written");
        };
        write("ports/1/state".to_owned(), state);
        write("parent".to_owned(), "eth0");
        for (index, gid) in gids.iter().enumerate() {
            write(format!("ports/1/gids/{index}"), gid);
            write(format!("ports/1/gid_attrs/types/{index}"), "RoCE v2");
            write(format!("ports/1/gid_attrs/ndevs/{index}"), "eth0");
        }
    }

    const LOCAL: &str = "fe80:0000:0000:0000:0000:00ff:fe00:0001";

    #[test]
    fn two_active_ports_are_the_ends_more_must_be_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = || all(folder.path());
        assert_eq!(choose(here(), None).expect_err("none").code, ErrorCode::NoRdma);
        plant(
            folder.path(),
            "rxa",
            &[LOCAL, "0000:0000:0000:0000:0000:ffff:0a09:0101"],
            "4: ACTIVE",
        );
        plant(folder.path(), "dark", &["0000:0000:0000:0000:0000:ffff:0a09:0103"], "1: DOWN");
        let error = choose(here(), None).expect_err("one is no two");
        assert!(
            error.code == ErrorCode::ProfileDevices
                && error.hint.is_some_and(|hint| hint.contains("`Setting::Ends`")),
            "{}",
            error.message
        );
        plant(
            folder.path(),
            "rxb",
            &[LOCAL, "0000:0000:0000:0000:0000:ffff:0a09:0102"],
            "4: ACTIVE",
        );
        let (near, far) = choose(here(), None).expect("two");
        assert_eq!(
            (near.name.as_str(), near.gid_index, near.interface.as_deref()),
            ("rxa", 1, Some("eth0"))
        );
        assert_eq!(
            (far.name.as_str(), far.address.to_string(), far.software),
            ("rxb", "10.9.1.2".to_owned(), true)
        );
        plant(folder.path(), "rxc", &["0000:0000:0000:0000:0000:ffff:0a09:0104"], "4: ACTIVE");
        assert!(choose(here(), None).expect_err("which?").message.contains("rxc at 10.9.1.4"));
        let named = choose(
            here(),
            Some((
                "10.9.1.4".parse().expect("an address"),
                "::ffff:10.9.1.1".parse().expect("an address"),
            )),
        );
        let (near, far) = named.expect("named");
        assert_eq!((near.name.as_str(), far.name.as_str()), ("rxc", "rxa"));
    }
}
