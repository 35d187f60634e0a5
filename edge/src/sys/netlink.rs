//! Requests to the kernel's netlink sockets and the attributes in what comes back.

use rustix::io;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

// include/uapi/linux/netlink.h
pub(crate) const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLA_TYPE_MASK: u16 = 0x3fff;
pub(crate) const HEADER: usize = 16;

/// What is asked for: the one thing that the request names, or all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    One,
    All,
}

/// Sends a request of type `kind` with `body` to `protocol` (`None` for `NETLINK_ROUTE`) and
/// returns the bodies of the messages that come back.
pub(crate) fn request(
    protocol: Option<Protocol>,
    kind: u16,
    scope: Scope,
    body: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    let flags = NLM_F_REQUEST | if scope == Scope::All { NLM_F_DUMP } else { 0 };
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut bodies = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (len, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..len];
        while rest.len() >= HEADER {
            let len = u32_of(&rest[..4]) as usize;
            let kind = u16_of(&rest[4..6]);
            if kind == NLMSG_DONE {
                return Ok(bodies);
            }
            if len < HEADER || len > rest.len() {
                return Err(io::Errno::INVAL);
            }
            if kind == NLMSG_ERROR {
                return Err(errno_of(&rest[HEADER..len]).unwrap_or(io::Errno::INVAL));
            }
            bodies.push(rest[HEADER..len].to_vec());
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
        if scope == Scope::One {
            return Ok(bodies);
        }
    }
}

/// Why a request failed, by the body of an `NLMSG_ERROR`; nothing where it did not.
pub(crate) fn errno_of(body: &[u8]) -> Option<io::Errno> {
    let code = body.get(..4).map_or(0, |code| u32_of(code).cast_signed());
    (code != 0).then(|| io::Errno::from_raw_os_error(code.wrapping_neg()))
}

/// The attributes in `bytes`: type and value. What the kernel notes in a type, that it nests and
/// its byte order, is left out.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_of(rest.get(..2)?));
        let (kind, value) = (u16_of(rest.get(2..4)?) & NLA_TYPE_MASK, rest.get(4..len)?);
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

/// The value of the first attribute of this type.
pub(crate) fn find(of: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(of).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

pub(crate) fn u16_of(bytes: &[u8]) -> u16 {
    bytes.try_into().map_or(0, u16::from_ne_bytes)
}

pub(crate) fn u32_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}
