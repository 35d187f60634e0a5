//! Requests to rtnetlink(7) that change something, and why the kernel refuses one, in its own
//! words.

use super::netlink::{HEADER, NLM_F_REQUEST, NLMSG_ERROR, errno_of, find, u16_of, u32_of};
use rustix::io;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::os::fd::{AsRawFd, OwnedFd};

// include/uapi/linux/netlink.h
const NLM_F_ACK: u16 = 4;
const NETLINK_CAP_ACK: libc::c_int = 10;
const NETLINK_EXT_ACK: libc::c_int = 11;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// What a request may do to what is there.
pub(crate) mod flags {
    /// Changes what is there.
    pub(crate) const CHANGE: u16 = 0;
    /// Makes it, or replaces what is there.
    pub(crate) const REPLACE: u16 = 0x400 | 0x100;
    /// Makes it, and fails where it is there.
    pub(crate) const CREATE: u16 = 0x400 | 0x200;
    /// Makes it in the place of whatever is there, even where that is of the same kind.
    pub(crate) const INSTEAD: u16 = 0x400 | 0x200 | 0x100;
}

/// A request that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) errno: io::Errno,
    /// What it said of it, if anything.
    pub(crate) said: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.said {
            Some(said) => write!(f, "{said} ({})", self.errno),
            None => write!(f, "{}", self.errno),
        }
    }
}

impl From<io::Errno> for Refusal {
    fn from(errno: io::Errno) -> Refusal {
        Refusal { errno, said: None }
    }
}

/// Attributes, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Attributes after the fixed head of a message.
    pub(crate) fn after(head: &[u8]) -> Attributes {
        Attributes(head.to_vec())
    }

    /// One more.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// One more, a name.
    pub(crate) fn with_name(self, kind: u16, name: &str) -> Attributes {
        self.with(kind, &[name.as_bytes(), &[0]].concat())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Sends `NETLINK_ROUTE` a request of type `kind` that changes something, and waits until that is
/// so.
pub(crate) fn order(kind: u16, flags: u16, body: &Attributes) -> Result<(), Refusal> {
    let body = body.bytes();
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    explain(&socket);
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; 1 << 15];
    loop {
        let (len, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..len];
        while rest.len() >= HEADER {
            let len = u32_of(&rest[..4]) as usize;
            if len < HEADER || len > rest.len() {
                return Err(io::Errno::INVAL.into());
            }
            if u16_of(&rest[4..6]) == NLMSG_ERROR {
                return reply(&rest[HEADER..len]);
            }
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// Has the kernel say why it refuses. One that does not know how says its number alone.
fn explain(socket: &OwnedFd) {
    let on: libc::c_int = 1;
    for option in [NETLINK_CAP_ACK, NETLINK_EXT_ACK] {
        // SAFETY: the option takes an integer, which outlives the call, and its size.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
}

/// A reply: an error number, the head of the request, and what is said of it.
fn reply(body: &[u8]) -> Result<(), Refusal> {
    let Some(errno) = errno_of(body) else { return Ok(()) };
    let said = find(body.get(4 + HEADER..).unwrap_or_default(), NLMSGERR_ATTR_MSG);
    let said = said.map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    Err(Refusal { errno, said: said.filter(|said| !said.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::attributes;

    #[test]
    fn attributes_come_back_as_they_were_put() {
        let put = Attributes::after(&[9; 8]).with_name(3, "eth1").with(0x8002, &[1, 2, 3]);
        assert_eq!(put.bytes().len(), 8 + 12 + 8);
        let back: Vec<_> = attributes(&put.bytes()[8..]).collect();
        assert_eq!(back, [(3, &b"eth1\0"[..]), (2, &[1, 2, 3][..])]);
    }

    #[test]
    fn a_refusal_is_told_in_the_kernels_words() {
        // There is no interface of this number; nothing is changed.
        let mut head = vec![0; 20];
        head[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        let refusal = order(36, flags::CREATE, &Attributes::after(&head)).expect_err("refused");
        let is_known = [io::Errno::NODEV, io::Errno::PERM].contains(&refusal.errno);
        assert!(is_known, "{refusal}");
        let said = [&(-22_i32).to_ne_bytes()[..], &[0; HEADER]].concat();
        let said = Attributes::after(&said).with_name(NLMSGERR_ATTR_MSG, "so it is");
        let told = reply(said.bytes()).expect_err("refused").to_string();
        assert!(told.starts_with("so it is ("), "{told}");
        assert_eq!(reply(&[0; 20]), Ok(()));
    }
}
