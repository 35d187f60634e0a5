//! Addresses in commands and replies: `h1,h2,h3,h4,p1,p2`, `|1|host|port|` and `|||port|`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// An IP family, as EPSV and EPRT number them (RFC 2428).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `1`.
    V4,
    /// `2`.
    V6,
}

impl Family {
    /// The family of `address`.
    pub const fn of(address: &SocketAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// `1` or `2`.
    pub const fn number(self) -> u8 {
        match self {
            Family::V4 => 1,
            Family::V6 => 2,
        }
    }

    /// Reads `1` or `2`.
    pub fn parse(text: &str) -> Option<Family> {
        match text {
            "1" => Some(Family::V4),
            "2" => Some(Family::V6),
            _ => None,
        }
    }
}

/// Prints `127,0,0,1,181,93` (RFC 959 section 4.1.2); `None` for an IPv6 address, which that form
/// cannot hold.
pub fn host_port(address: &SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    let [a, b, c, d] = address.ip().octets();
    let [high, low] = address.port().to_be_bytes();
    Some(format!("{a},{b},{c},{d},{high},{low}"))
}

/// Reads `127,0,0,1,181,93`; blanks around the numbers are let pass.
pub fn parse_host_port(text: &str) -> Option<SocketAddr> {
    let mut numbers = [0u8; 6];
    let mut parts = text.split(',');
    for number in &mut numbers {
        *number = parts.next()?.trim().parse().ok()?;
    }
    let [a, b, c, d, high, low] = numbers;
    let port = u16::from_be_bytes([high, low]);
    (parts.next().is_none())
        .then_some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port)))
}

/// Prints `|1|127.0.0.1|37133|` (RFC 2428 section 2).
pub fn extended(address: &SocketAddr) -> String {
    format!("|{}|{}|{}|", Family::of(address).number(), address.ip(), address.port())
}

/// Prints `|||37133|` (RFC 2428 section 3): the port alone, on the control connection's host.
pub fn extended_port(port: u16) -> String {
    format!("|||{port}|")
}

/// Reads `|1|127.0.0.1|37133|`, or `|||37133|` as a port on `host`. Any printable delimiter serves
/// (RFC 2428 section 2).
pub fn parse_extended(text: &str, host: Option<IpAddr>) -> Option<SocketAddr> {
    let text = text.trim();
    let delimiter =
        text.chars().next().filter(|c| c.is_ascii_graphic() && !c.is_ascii_alphanumeric())?;
    let mut parts = text.split(delimiter).skip(1);
    let (family, ip, port) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
    if parts.next() != Some("") || parts.next().is_some() {
        return None;
    }
    let ip = if ip.is_empty() { host? } else { ip.parse().ok()? };
    let address = SocketAddr::new(ip, port);
    (family.is_empty() || Family::parse(family) == Some(Family::of(&address))).then_some(address)
}

/// Reads either form.
pub fn parse_any(text: &str, host: Option<IpAddr>) -> Option<SocketAddr> {
    parse_host_port(text).or_else(|| parse_extended(text, host))
}

/// Whether an address is one of the internet's hosts (IANA's registries of special addresses).
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public4(ip),
        IpAddr::V6(ip) => is_public6(ip),
    }
}

fn is_public4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || a == 0
        || a >= 224
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18))
}

fn is_public6(ip: Ipv6Addr) -> bool {
    let words = ip.segments();
    // What carries an IPv4 address within (NAT64 and 6to4) leads to it.
    let inner = match words {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    let leads_out =
        inner.is_none_or(|(high, low)| is_public4((u32::from(high) << 16 | u32::from(low)).into()));
    // 2000::/3 is all that is given out to hosts, but for 64:ff9b::/96.
    leads_out && (inner.is_some() || words[0] & 0xe000 == 0x2000)
}

/// Below this no server listens for data, and what does is a service.
pub const FIRST_DATA_PORT: u16 = 1024;

/// Whether a client may send data to `told`, where the server at `server` says that it is to go:
/// there itself, or to a host of its site, as servers have that move data by others. Not to a
/// service, nor to what means another host to each who hears it: a server that means harm would
/// reach what trusts its client by it (RFC 2577, section 3, the other way round).
pub fn may_send_to(server: IpAddr, told: SocketAddr) -> bool {
    let (server, ip) = (server.to_canonical(), told.ip().to_canonical());
    let is_of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.octets()[0] == 0 || ip.octets()[0] >= 224,
        IpAddr::V6(ip) => {
            ip.is_unspecified() || ip.is_multicast() || ip.segments()[0] & 0xffc0 == 0xfe80
        }
    };
    let may_be_its_sites =
        !is_public(server) && !is_of_link && (server.is_loopback() || !ip.is_loopback());
    ip == server || (told.port() >= FIRST_DATA_PORT && (is_public(ip) || may_be_its_sites))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_globus_server_prints() {
        let port_only = parse_extended("|||38777|", Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(port_only, "127.0.0.1:38777".parse().ok());
        assert_eq!(parse_host_port("127,0,0,1,194,229"), "127.0.0.1:49893".parse().ok());
        assert_eq!(parse_extended("|1|127.0.0.1|37133|", None), "127.0.0.1:37133".parse().ok());
        assert_eq!(parse_extended("|2|::1|37133|", None), "[::1]:37133".parse().ok());
    }

    #[test]
    fn a_server_sends_its_client_to_no_service_and_no_neighbour() {
        let may = |server: &str, told: &str| {
            may_send_to(server.parse().expect("one"), told.parse().expect("one"))
        };
        for (server, told) in [
            ("198.51.100.1", "198.51.100.1:20"),
            ("198.51.100.1", "203.0.113.7:50000"),
            ("::ffff:198.51.100.1", "198.51.100.1:20"),
            ("10.0.0.1", "10.0.0.2:50000"),
            ("10.0.0.1", "198.51.100.2:50000"),
            // Through a tunnel it is at the client's own host.
            ("127.0.0.1", "10.0.0.2:50000"),
            ("::1", "127.0.0.1:50000"),
            ("2001:db8::1", "[2001:db8::2]:50000"),
            ("fe80::1", "[fe80::1]:50000"),
        ] {
            assert!(may(server, told), "{server} tells {told}");
        }
        for (server, told) in [
            ("198.51.100.1", "127.0.0.1:50000"),
            ("198.51.100.1", "10.0.0.2:50000"),
            ("198.51.100.1", "192.168.0.1:8080"),
            ("198.51.100.1", "169.254.169.254:8080"),
            ("198.51.100.1", "203.0.113.7:25"),
            ("198.51.100.1", "[::1]:50000"),
            ("198.51.100.1", "[::ffff:127.0.0.1]:50000"),
            ("2001:db8::1", "[fd00::2]:50000"),
            ("10.0.0.1", "127.0.0.1:50000"),
            ("10.0.0.1", "169.254.169.254:8080"),
            ("10.0.0.1", "0.0.0.0:50000"),
            ("10.0.0.1", "10.0.0.2:22"),
            ("127.0.0.1", "127.0.0.2:1023"),
            ("fd00::1", "[fe80::2]:50000"),
        ] {
            assert!(!may(server, told), "{server} tells {told}");
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in ["", "1,2,3,4,5", "1,2,3,4,5,6,7", "256,0,0,1,1,1", "a,b,c,d,e,f"] {
            assert_eq!(parse_host_port(text), None, "{text}");
        }
        for text in [
            "",
            "|",
            "||||",
            "|1|::1|5|",
            "|3|1.2.3.4|5|",
            "|||5",
            "|||65536|",
            "1|1.2.3.4|5|",
            "|1|1.2.3.4|5|x",
        ] {
            assert_eq!(parse_extended(text, Some(IpAddr::V4(Ipv4Addr::LOCALHOST))), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_address_survives_and_any_text_is_safe(ip in any::<IpAddr>(), port in any::<u16>(), text in ".{0,40}") {
            let address = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_extended(&extended(&address), None), Some(address));
            prop_assert_eq!(host_port(&address).and_then(|text| parse_host_port(&text)), Some(address).filter(SocketAddr::is_ipv4));
            let _ = parse_any(&text, Some(ip));
        }
    }
}
