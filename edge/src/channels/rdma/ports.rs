//! Looks at the ports of this host's RDMA devices, to say why none of them serves an address.

use farline_core::rdma::{Gid, Port, Transport, why_none};
use farline_core::units::Error;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// Where the kernel shows RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";

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

/// The place of the GID to send from at port `number` of `device`, for packets that carry `address`.
pub(super) fn gid_index(device: &str, number: u8, address: IpAddr) -> Option<u8> {
    let found = ports(Path::new(DEVICES)).into_iter().find(|port| port.device == device && port.number == number);
    found?.gid_index(address)
}

/// The ports of the devices listed in `devices`, in the order of their names.
pub(crate) fn ports(devices: &Path) -> Vec<Port> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let mut ports = Vec::new();
    for device in names(devices) {
        let is_iwarp = says(&devices.join(&device).join("node_type"), "RNIC");
        for number in names(&devices.join(&device).join("ports")) {
            let place = devices.join(&device).join("ports").join(&number);
            let Ok(number) = number.parse() else { continue };
            let transport = match says(&place.join("link_layer"), "Ethernet") {
                _ if is_iwarp => Transport::Iwarp,
                true => Transport::Roce,
                false => Transport::InfiniBand,
            };
            let gids = names(&place.join("gids")).iter().filter_map(|index| gid(&place, index)).collect();
            let is_active = says(&place.join("state"), "ACTIVE");
            ports.push(Port { device: device.clone(), number, transport, is_active, gids });
        }
    }
    ports
}

fn says(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains(word))
}

/// One entry of a port's table; most are empty.
fn gid(port: &Path, index: &str) -> Option<Gid> {
    let address: Ipv6Addr = fs::read_to_string(port.join("gids").join(index)).ok()?.trim().parse().ok()?;
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
        let ports = ports(folder.path());
        let seen: Vec<_> = ports.iter().map(|port| (port.device.as_str(), port.transport, port.is_active)).collect();
        let wanted = [("mlx5_0", Transport::InfiniBand, false), ("rxa", Transport::Roce, true), ("siw0", Transport::Iwarp, true)];
        assert_eq!(seen, wanted);
        let gids: Vec<_> = ports[1].gids.iter().map(|gid| (gid.address.to_string(), gid.routable)).collect();
        assert_eq!(gids, [("fe80::ff:fe00:1".to_owned(), true), ("10.9.1.1".to_owned(), false)]);
    }
}
