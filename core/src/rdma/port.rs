//! The ports of RDMA devices, and why none of them serves an address.

use crate::units::{Error, ErrorCode, Fault};
use std::net::IpAddr;

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: an address belongs to a port by way of IPoIB.
    InfiniBand,
    /// RDMA over Converged Ethernet: an address belongs to a port as one of its GIDs.
    Roce,
    /// RDMA over TCP: an address belongs to the Ethernet device below.
    Iwarp,
}

/// One GID of a port that stands for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u8,
    /// The address: GIDs that are IPv4 addresses mapped into IPv6 are given as IPv4 ones. The one
    /// GID of an iWARP port is the MAC of the interface beneath, and stands for each of that
    /// interface's addresses.
    pub address: IpAddr,
    /// Whether routers pass its packets on: those of RoCE v2, which are UDP's, and of iWARP, which
    /// are TCP's; not of InfiniBand or RoCE v1.
    pub routable: bool,
}

/// One port, as `/sys/class/infiniband` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The device's name.
    pub device: String,
    /// The port's number there, from 1.
    pub number: u8,
    /// What it speaks.
    pub transport: LinkLayer,
    /// Whether its state is ACTIVE.
    pub is_active: bool,
    /// Its GIDs.
    pub gids: Vec<Gid>,
    /// The network interface beneath an iWARP port, where it is known.
    pub interface: Option<String>,
}

impl Port {
    /// The place of the GID to send from where packets are to carry `address`, the port's own: that
    /// of RoCE v2 on Ethernet, and the port's first on InfiniBand, whose GIDs are no addresses.
    pub fn gid_index(&self, address: IpAddr) -> Option<u8> {
        let address = address.to_canonical();
        match self.transport {
            LinkLayer::Roce => {
                Some(self.gids.iter().find(|gid| gid.routable && gid.address == address)?.index)
            }
            LinkLayer::InfiniBand => Some(0),
            LinkLayer::Iwarp => None,
        }
    }

    /// Whether what addresses it has is known: not where its GIDs are no addresses, nor where
    /// nothing was found beneath.
    fn is_known(&self) -> bool {
        match self.transport {
            LinkLayer::Roce => true,
            LinkLayer::InfiniBand => false,
            LinkLayer::Iwarp => !self.gids.is_empty(),
        }
    }
}

/// Why no port of this host serves `address`, its own; `None` when one seems to.
pub fn why_none(ports: &[Port], address: IpAddr) -> Option<Error> {
    if ports.is_empty() {
        return Some(
            Error::new(Fault::Here, ErrorCode::NoRdma, "this host has no RDMA device").hint(
                "`rdma link` (iproute2) lists them; without a card, `rdma link add NAME type rxe \
             netdev DEVICE` makes one of an Ethernet device",
            ),
        );
    }
    let address = address.to_canonical();
    let known = ports.iter().all(Port::is_known);
    let of_it =
        |port: &&Port| !port.is_known() || port.gids.iter().any(|gid| gid.address == address);
    let candidates: Vec<&Port> = ports.iter().filter(of_it).collect();
    if candidates.is_empty() {
        let have: Vec<String> = ports.iter().map(addresses).collect();
        let message = format!("no RDMA device here has the address {address}: {}", have.join(", "));
        return Some(Error::new(Fault::Here, ErrorCode::NoRdmaPath, message).hint(
            "use an address of one of them, or make its GID: `ip addr add` on the device's \
                 interface, which must be up",
        ));
    }
    if let Some(down) = candidates.first().filter(|_| candidates.iter().all(|port| !port.is_active))
    {
        let what = if known { format!(", which has {address},") } else { String::new() };
        return Some(
            Error::new(
                Fault::Here,
                ErrorCode::RdmaPortDown,
                format!("port {} of the RDMA device {}{what} is down", down.number, down.device),
            )
            .hint(
                "`rdma link` shows its state; look at the cable, the subnet manager, or `ip \
                link set DEVICE up`",
            ),
        );
    }
    let routable = |port: &&&Port| {
        !port.is_known() || port.gids.iter().any(|gid| gid.address == address && gid.routable)
    };
    if candidates.iter().find(routable).is_none() {
        let device = &candidates.first()?.device;
        let message = format!(
            "the RDMA device {device} has no RoCE v2 GID of {address}, only one of RoCE v1, which \
             no router passes on"
        );
        return Some(Error::new(Fault::Here, ErrorCode::RdmaGid, message).hint(format!(
            "`cma_roce_mode -d {device} -p 1 -m 2` makes v2 the default where the device can"
        )));
    }
    None
}

fn addresses(port: &Port) -> String {
    let mut addresses: Vec<String> = port.gids.iter().map(|gid| gid.address.to_string()).collect();
    addresses.dedup();
    match addresses.is_empty() {
        true => format!("{} has none", port.device),
        false => format!("{} has {}", port.device, addresses.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, transport: LinkLayer, gids: &[(&str, bool)]) -> Port {
        let gid = |(index, &(address, routable)): (usize, &(&str, bool))| Gid {
            index: index as u8,
            address: address.parse().expect("an address"),
            routable,
        };
        let gids = gids.iter().enumerate().map(gid).collect();
        Port {
            device: device.to_owned(),
            number: 1,
            transport,
            is_active: true,
            gids,
            interface: None,
        }
    }

    fn why(ports: &[Port], address: &str) -> Option<(ErrorCode, String)> {
        let error = why_none(ports, address.parse().expect("an address"))?;
        assert!(error.hint.is_some(), "{error}");
        Some((error.code, error.message))
    }

    #[test]
    fn each_reason_is_told_apart() {
        let roce = port("rxa", LinkLayer::Roce, &[("fe80::1", true), ("10.9.1.1", true)]);
        assert_eq!(why(&[], "10.9.1.1").map(|(code, _)| code), Some(ErrorCode::NoRdma));
        assert_eq!(why(std::slice::from_ref(&roce), "10.9.1.1"), None);
        assert_eq!(why(std::slice::from_ref(&roce), "::ffff:10.9.1.1"), None);
        let (code, said) = why(&[roce.clone(), port("rxb", LinkLayer::Roce, &[])], "10.9.1.2")
            .expect("nobody has it");
        assert_eq!(code, ErrorCode::NoRdmaPath);
        assert!(said.contains("rxa has fe80::1 and 10.9.1.1, rxb has none"), "{said}");
        let down = Port { is_active: false, ..roce };
        let (code, said) = why(&[down], "10.9.1.1").expect("it is down");
        assert_eq!(
            (code, said.as_str()),
            (ErrorCode::RdmaPortDown, "port 1 of the RDMA device rxa, which has 10.9.1.1, is down")
        );
        let v1 = port("mlx4_0", LinkLayer::Roce, &[("10.9.1.1", false)]);
        assert_eq!(why(&[v1], "10.9.1.1").map(|(code, _)| code), Some(ErrorCode::RdmaGid));
    }

    #[test]
    fn packets_go_from_the_gid_of_the_address_that_routers_pass_on() {
        let gids = [("fe80::1", true), ("10.9.1.1", false), ("10.9.1.1", true)];
        let index = |transport, address: &str| {
            port("rxa", transport, &gids).gid_index(address.parse().expect("an address"))
        };
        assert_eq!(index(LinkLayer::Roce, "10.9.1.1"), Some(2));
        assert_eq!(index(LinkLayer::Roce, "10.9.1.2"), None);
        assert_eq!(index(LinkLayer::InfiniBand, "10.9.1.2"), Some(0));
        assert_eq!(index(LinkLayer::Iwarp, "10.9.1.1"), None);
    }

    #[test]
    fn an_iwarp_port_has_the_addresses_of_the_interface_beneath() {
        let port = port("sia", LinkLayer::Iwarp, &[("10.9.1.1", true), ("fe80::1", true)]);
        assert_eq!(why(std::slice::from_ref(&port), "10.9.1.1"), None);
        let (code, said) = why(std::slice::from_ref(&port), "10.9.2.1").expect("another's");
        assert!(
            code == ErrorCode::NoRdmaPath && said.contains("sia has 10.9.1.1 and fe80::1"),
            "{said}"
        );
        let down = Port { is_active: false, ..port };
        assert_eq!(why(&[down], "10.9.1.1").map(|(code, _)| code), Some(ErrorCode::RdmaPortDown));
    }

    #[test]
    fn a_port_whose_gids_are_no_addresses_is_not_held_against_it() {
        for transport in [LinkLayer::InfiniBand, LinkLayer::Iwarp] {
            let port = port("hfi1_0", transport, &[]);
            assert_eq!(why(std::slice::from_ref(&port), "10.9.1.1"), None);
            let down = Port { is_active: false, ..port };
            assert_eq!(
                why(&[down], "10.9.1.1").map(|(code, _)| code),
                Some(ErrorCode::RdmaPortDown)
            );
        }
    }
}
