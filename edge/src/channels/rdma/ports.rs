//! Looks at the ports of this host's RDMA devices, to say why none of them serves an address.

use crate::sys::ethtool;
use farline_core::rdma::{Gid, LinkLayer, Port, why_none};
use farline_core::units::Error;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// Where the kernel shows RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";
/// And network interfaces.
const INTERFACES: &str = "/sys/class/net";

/// `error`, or what is wrong with the ports that should serve `address`, which is this host's.
pub(super) fn explained(error: Error, address: IpAddr) -> Error {
    why_none(&ports(Path::new(DEVICES)), address).unwrap_or(error)
}

/// The same for a connection to `peer`.
pub(super) fn explained_towards(error: Error, peer: SocketAddr) -> Error {
    match towards(peer) {
        Ok(local) => explained(error, local),
        Err(_) => error,
    }
}

/// This host's address on the way to `peer`.
pub(super) fn towards(peer: SocketAddr) -> io::Result<IpAddr> {
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // A UDP socket that is connected sends nothing, and knows from which address it would.
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// The place of the GID to send from at port `number` of `device`, for packets that carry
/// `address`.
pub(super) fn gid_index(device: &str, number: u8, address: IpAddr) -> Option<u8> {
    gid_index_in(Path::new(DEVICES), device, number, address)
}

/// The same, of the devices listed in `devices`. Up to the first that will do: a table may have a
/// thousand places, each of them a file, and most are empty.
fn gid_index_in(devices: &Path, device: &str, number: u8, address: IpAddr) -> Option<u8> {
    let place = devices.join(device).join("ports").join(number.to_string());
    if !place.is_dir() {
        return None;
    }
    let transport = transport(&devices.join(device), &place);
    let only = |gid: Option<Gid>| {
        let gids = gid.into_iter().collect();
        Port {
            device: device.to_owned(),
            number,
            transport,
            is_active: true,
            gids,
            interface: None,
        }
    };
    (0..=u8::MAX).find_map(|index| only(gid(&place, &index.to_string())).gid_index(address))
}

/// The ports of the devices listed in `devices`, in the order of their names.
pub(crate) fn ports(devices: &Path) -> Vec<Port> {
    let addressed = |(interface, address): (String, IpAddr)| {
        let mac = fs::read_to_string(Path::new(INTERFACES).join(&interface).join("address"))
            .unwrap_or_default();
        Addressed { mac: mac.trim().to_owned(), interface, address: address.to_canonical() }
    };
    ports_over(devices, &ethtool::addresses().into_iter().map(addressed).collect::<Vec<_>>())
}

/// One address of a network interface.
struct Addressed {
    mac: String,
    interface: String,
    address: IpAddr,
}

/// The same, over interfaces with these addresses.
fn ports_over(devices: &Path, addresses: &[Addressed]) -> Vec<Port> {
    let mut ports = Vec::new();
    for device in names(devices) {
        for number in names(&devices.join(&device).join("ports")) {
            let place = devices.join(&device).join("ports").join(&number);
            let Ok(number) = number.parse() else { continue };
            let transport = transport(&devices.join(&device), &place);
            let (gids, interface) = match transport {
                LinkLayer::Iwarp => beneath(&place, addresses),
                _ => (
                    names(&place.join("gids"))
                        .iter()
                        .filter_map(|index| gid(&place, index))
                        .collect(),
                    None,
                ),
            };
            let is_active = says(&place.join("state"), "ACTIVE");
            ports.push(Port {
                device: device.clone(),
                number,
                transport,
                is_active,
                gids,
                interface,
            });
        }
    }
    ports
}

/// What kind of fabric the port at `place` of the device at `device` is of.
fn transport(device: &Path, place: &Path) -> LinkLayer {
    match says(&place.join("link_layer"), "Ethernet") {
        _ if says(&device.join("node_type"), "RNIC") => LinkLayer::Iwarp,
        true => LinkLayer::Roce,
        false => LinkLayer::InfiniBand,
    }
}

/// What is in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn says(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains(word))
}

/// What an iWARP port has for a table, and the interface of the MAC that its only GID begins with.
fn beneath(port: &Path, addresses: &[Addressed]) -> (Vec<Gid>, Option<String>) {
    let gid: Option<Ipv6Addr> =
        fs::read_to_string(port.join("gids/0")).ok().and_then(|text| text.trim().parse().ok());
    let mac = gid.map(|gid| {
        gid.octets()[..6].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    });
    let own = || addresses.iter().filter(|addressed| Some(&addressed.mac) == mac.as_ref());
    let gids = own().map(|addressed| Gid { index: 0, address: addressed.address, routable: true });
    (gids.collect(), own().next().map(|addressed| addressed.interface.clone()))
}

/// One entry of a port's table; most are empty.
fn gid(port: &Path, index: &str) -> Option<Gid> {
    let address: Ipv6Addr =
        fs::read_to_string(port.join("gids").join(index)).ok()?.trim().parse().ok()?;
    if address.is_unspecified() {
        return None;
    }
    let routable = says(&port.join("gid_attrs/types").join(index), "RoCE v2");
    Some(Gid { index: index.parse().ok()?, address: IpAddr::V6(address).to_canonical(), routable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read_as_it_writes_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let plant = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        for (device, node_type, layer, state) in [
            ("rxa", "1: CA", "Ethernet", "4: ACTIVE"),
            ("mlx5_0", "1: CA", "InfiniBand", "1: DOWN"),
            ("siw0", "4: RNIC", "Ethernet", "4: ACTIVE"),
        ] {
            plant(&format!("{device}/node_type"), &format!("{node_type}\n"));
            plant(&format!("{device}/ports/1/link_layer"), &format!("{layer}\n"));
            plant(&format!("{device}/ports/1/state"), &format!("{state}\n"));
        }
        plant("rxa/ports/1/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
        plant("rxa/ports/1/gid_attrs/types/0", "RoCE v2\n");
        plant("rxa/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0101\n");
        plant("rxa/ports/1/gid_attrs/types/1", "IB/RoCE v1\n");
        plant("rxa/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        plant("siw0/ports/1/gids/0", "0250:5600:ab01:0000:0000:0000:0000:0000\n");
        let (beneath, beside) =
            ("10.9.1.5".parse().expect("an address"), "10.9.1.6".parse().expect("an address"));
        let addresses =
            [("02:50:56:00:ab:02", "eth1", beside), ("02:50:56:00:ab:01", "eth0", beneath)];
        let addressed = |(mac, interface, address): (&str, &str, _)| Addressed {
            mac: mac.to_owned(),
            interface: interface.to_owned(),
            address,
        };
        let ports = ports_over(folder.path(), &addresses.map(addressed));
        let seen: Vec<_> = ports
            .iter()
            .map(|port| (port.device.as_str(), port.transport, port.is_active))
            .collect();
        let wanted = [
            ("mlx5_0", LinkLayer::InfiniBand, false),
            ("rxa", LinkLayer::Roce, true),
            ("siw0", LinkLayer::Iwarp, true),
        ];
        assert_eq!(seen, wanted);
        let gids = |port: &Port| {
            port.gids.iter().map(|gid| (gid.address.to_string(), gid.routable)).collect::<Vec<_>>()
        };
        assert_eq!(
            gids(&ports[1]),
            [("fe80::ff:fe00:1".to_owned(), true), ("10.9.1.1".to_owned(), false)]
        );
        assert_eq!(gids(&ports[2]), [("10.9.1.5".to_owned(), true)]);
        assert_eq!(ports[2].interface.as_deref(), Some("eth0"));
        let index = |device, address: &str| {
            gid_index_in(folder.path(), device, 1, address.parse().expect("an address"))
        };
        assert_eq!(
            (index("rxa", "fe80::ff:fe00:1"), index("rxa", "10.9.1.1")),
            (Some(0), None),
            "the second is not RoCE v2"
        );
        assert_eq!(
            (index("mlx5_0", "10.9.1.1"), index("siw0", "10.9.1.5"), index("gone", "10.9.1.5")),
            (Some(0), None, None)
        );
    }
}
