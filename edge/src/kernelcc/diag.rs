//! The TCP connections of this network namespace as the kernel lists them (`sock_diag(7)`), with
//! control and TCP_INFO.

use crate::sys::netlink::{Scope, attributes, request, u32_of};
use farline_core::congestion::ControlName;
use rustix::io;
use rustix::net::AddressFamily;
use rustix::net::netlink;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) cookie: u64,
    pub(super) control: ControlName,
    pub(super) local_port: u16,
    pub(super) remote: SocketAddr,
    /// `struct tcp_info`, as long as this kernel's is.
    info: Vec<u8>,
}

impl Flow {
    /// The field of `struct tcp_info` (include/uapi/linux/tcp.h) at byte `at`; zero where the
    /// kernel is older than the field.
    fn field(&self, at: usize) -> u32 {
        self.info.get(at..at + 4).map_or(0, u32_of)
    }

    pub(super) fn state(&self) -> u8 {
        self.info.get(1).copied().unwrap_or(0)
    }

    pub(super) fn rtt_us(&self) -> u32 {
        self.field(68)
    }

    pub(super) fn threshold(&self) -> u32 {
        self.field(76)
    }

    pub(super) fn window(&self) -> u32 {
        self.field(80)
    }

    pub(super) fn retransmitted(&self) -> u32 {
        self.field(100)
    }

    pub(super) fn delivered(&self) -> u32 {
        self.field(192)
    }
}

// include/uapi/linux/{sock_diag,inet_diag}.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const MESSAGE: usize = 72;
const ATTRIBUTE_INFO: u16 = 2;
const ATTRIBUTE_CONG: u16 = 4;
/// The two attributes above, as a mask of bits from 1.
const EXTENSIONS: u8 = (1 << (ATTRIBUTE_INFO - 1)) | (1 << (ATTRIBUTE_CONG - 1));
/// ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK: those with a congestion window at work.
const STATES: u32 = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 8) | (1 << 9);
const IPPROTO_TCP: u8 = 6;

/// All connections of both families.
pub(super) fn flows() -> io::Result<Vec<Flow>> {
    let mut flows = dump(AddressFamily::INET)?;
    flows.extend(dump(AddressFamily::INET6)?);
    Ok(flows)
}

fn dump(family: AddressFamily) -> io::Result<Vec<Flow>> {
    let mut body = vec![family.as_raw() as u8, IPPROTO_TCP, EXTENSIONS, 0];
    body.extend(STATES.to_ne_bytes());
    body.extend([0; 48]);
    let listed = request(Some(netlink::SOCK_DIAG), SOCK_DIAG_BY_FAMILY, Scope::All, &body)?;
    Ok(listed.iter().filter_map(|message| flow(message)).collect())
}

/// One `struct inet_diag_msg` with its attributes.
fn flow(message: &[u8]) -> Option<Flow> {
    let id = message.get(4..52)?;
    let port = |at: usize| u16::from_be_bytes([id[at], id[at + 1]]);
    let address: IpAddr = if i32::from(message[0]) == i32::from(AddressFamily::INET.as_raw()) {
        Ipv4Addr::from(<[u8; 4]>::try_from(&id[20..24]).ok()?).into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(&id[20..36]).ok()?).to_canonical()
    };
    let cookie = u64::from(u32_of(&id[40..44])) | (u64::from(u32_of(&id[44..48])) << 32);
    let (mut control, mut info) = (None, Vec::new());
    for (kind, value) in attributes(message.get(MESSAGE..)?) {
        match kind {
            ATTRIBUTE_INFO => info = value.to_vec(),
            ATTRIBUTE_CONG => control = ControlName::from_kernel(value),
            _ => {}
        }
    }
    Some(Flow {
        cookie,
        control: control?,
        local_port: port(0),
        remote: SocketAddr::new(address, port(2)),
        info,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn finds_a_connection_with_its_control_and_window() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let _far = listener.accept().expect("accept");
        let port = near.local_addr().expect("bound").port();
        let flows = flows().expect("the kernel lists sockets");
        let flow = flows.iter().find(|flow| flow.local_port == port).expect("ours is among them");
        assert_eq!(flow.remote, listener.local_addr().expect("bound"));
        assert!(super::super::available().contains(&flow.control), "{flow:?}");
        assert!((2..1_000).contains(&flow.window()), "{flow:?}");
        assert!((1..1_000_000).contains(&flow.rtt_us()), "{flow:?}");
    }
}
