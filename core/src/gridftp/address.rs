//! Addresses in commands and replies: `h1,h2,h3,h4,p1,p2`, `|1|host|port|` and `|||port|`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

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
