//! Where a node connects to when a client says where: not wherever it likes (RFC 2577, section 3).
//!
//! Who may have data sent to a third host may otherwise reach, with this host's address, whatever
//! trusts it: mail servers, the services of its own network, a cloud's metadata.

use farline_core::gridftp::{FIRST_DATA_PORT, is_public};
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// Addresses with a common beginning, such as 10.0.0.0/8 or 2001:db8::/32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is no network such as 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => {
                prefix.trim().parse().ok().filter(|&prefix| prefix <= bits).ok_or_else(wrong)?
            }
            None => bits,
        };
        Ok(Network { address, prefix })
    }
}

impl Network {
    fn contains(&self, ip: IpAddr) -> bool {
        let same =
            |a: u128, b: u128, bits: u32| self.prefix == 0 || (a ^ b) >> (bits - self.prefix) == 0;
        match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            _ => false,
        }
    }
}

/// Whom a node may be told to connect to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets<'a> {
    /// The client's own address, which it always may name.
    pub(super) client: IpAddr,
    /// Whether there are others at all.
    pub(super) third_party: bool,
    /// Networks that are not public and meant all the same.
    pub(super) networks: &'a [Network],
}

impl Targets<'_> {
    /// Whether data may go to all of `addresses`.
    ///
    /// # Errors
    /// When not: with which, and what the operator can do.
    pub(super) fn check(&self, addresses: &[SocketAddr]) -> Result<(), Error> {
        for address in addresses {
            let allowed = match address.port() < FIRST_DATA_PORT {
                true => Err(("ports below 1024 are of services", "name a port from 1024 on")),
                false => self.allows(address.ip()),
            };
            allowed.map_err(|(why, hint)| {
                let message = format!("data connections do not go to {address}: {why}");
                Error::new(Fault::Refused, ErrorCode::PermissionDenied, message).hint(hint)
            })?;
        }
        Ok(())
    }

    /// Whether data may go to the host at `ip`, or come from it.
    ///
    /// # Errors
    /// When not: why, and what the operator can do.
    pub(super) fn allows(&self, ip: IpAddr) -> Result<(), (&'static str, &'static str)> {
        let ip = ip.to_canonical();
        if ip == self.client.to_canonical() {
            return Ok(());
        }
        if !self.third_party {
            return Err((
                "it is not the client's own address",
                "the operator can allow third-party transfers with `third_party = true`",
            ));
        }
        if self.networks.iter().any(|network| network.contains(ip)) {
            return Ok(());
        }
        if !is_public(ip) {
            return Err((
                "it is no public address, and its network is not named",
                "the operator can name networks, such as 10.0.0.0/8: `third_party_networks`",
            ));
        }
        // What comes to a host's own address passes no firewall.
        if is_this_hosts(ip) {
            return Err((
                "it is this host's own address, and not named",
                "for copies from here to here the operator can name it: `third_party_networks`",
            ));
        }
        Ok(())
    }
}

/// Whether an interface of this host has this address: none other can be bound.
fn is_this_hosts(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn allows(third_party: bool, networks: &[&str], address: &str) -> bool {
        let networks: Vec<Network> =
            networks.iter().map(|text| text.parse().expect("a network")).collect();
        let client = IpAddr::from([203, 0, 113, 9]);
        let targets = Targets { client, third_party, networks: &networks };
        targets.check(&[address.parse().expect("an address")]).is_ok()
    }

    #[test]
    fn a_node_is_no_weapon_against_what_trusts_it() {
        for address in [
            "127.0.0.1:2525",
            "169.254.169.254:8080",
            "10.1.2.3:5000",
            "172.31.0.1:5000",
            "192.168.1.1:5000",
            "100.64.0.1:5000",
            "0.0.0.0:5000",
            "224.0.0.1:5000",
            "255.255.255.255:5000",
            "[::1]:5000",
            "[fe80::1]:5000",
            "[fd00::1]:5000",
            "[::ffff:127.0.0.1]:5000",
            "[64:ff9b::7f00:1]:5000",
            "[2002:a00:1::]:5000",
            "198.51.100.1:25",
            "203.0.113.9:25",
        ] {
            assert!(!allows(true, &[], address), "{address}");
        }
        for address in ["198.51.100.1:5000", "[2001:db8::1]:5000", "203.0.113.9:1024"] {
            assert!(allows(true, &[], address), "{address}");
        }
        assert!(!allows(false, &[], "198.51.100.1:5000") && allows(false, &[], "203.0.113.9:5000"));
        assert!(allows(true, &["10.0.0.0/8"], "10.1.2.3:5000"));
        assert!(!allows(true, &["10.0.0.0/8"], "10.1.2.3:25"), "a named network has no low ports");
        assert!(!allows(true, &["10.0.0.0/8"], "11.1.2.3:25"));
        assert!(allows(true, &["fd00::/8", "127.0.0.3"], "127.0.0.3:5000"));
    }

    #[test]
    fn this_hosts_own_addresses_are_known() {
        assert!(is_this_hosts(IpAddr::from([127, 0, 0, 1])));
        assert!(!is_this_hosts(IpAddr::from([198, 51, 100, 1])));
    }

    #[test]
    fn a_network_is_an_address_with_a_length() {
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/x", "fd00::/129", "a/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let all: Network = "0.0.0.0/0".parse().expect("all of it");
        assert!(
            all.contains(IpAddr::from([1, 2, 3, 4])) && !all.contains(Ipv6Addr::LOCALHOST.into())
        );
    }
}
