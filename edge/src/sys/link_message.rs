//! What the kernel says of this network namespace's interfaces, by rtnetlink(7).

use super::netlink::{Scope, find, request, u32_of};
use rustix::io;

// include/uapi/linux/rtnetlink.h and if_link.h
pub(super) const RTM_GETLINK: u16 = 18;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_INFO_KIND: u16 = 1;
/// Bytes of `struct ifinfomsg`.
pub(super) const LINK: usize = 16;

/// One interface.
pub(super) struct LinkMessage<'a> {
    pub(super) number: u32,
    #[cfg_attr(
        not(any(feature = "calendar", feature = "link")),
        expect(dead_code, reason = "of a circuit's interface")
    )]
    pub(super) flags: u32,
    pub(super) name: String,
    pub(super) attributes: &'a [u8],
}

impl LinkMessage<'_> {
    fn of(body: &[u8]) -> Option<LinkMessage<'_>> {
        let attributes = body.get(LINK..)?;
        let name = String::from_utf8_lossy(find(attributes, IFLA_IFNAME)?);
        Some(LinkMessage {
            number: u32_of(body.get(4..8)?),
            flags: u32_of(body.get(8..12)?),
            name: name.trim_end_matches('\0').to_owned(),
            attributes,
        })
    }
}

/// What `of` makes of each interface.
pub(super) fn each_link<T>(of: impl Fn(LinkMessage<'_>) -> T) -> io::Result<Vec<T>> {
    let all = request(None, RTM_GETLINK, Scope::All, &[0; LINK])?;
    Ok(all.iter().filter_map(|body| LinkMessage::of(body)).map(of).collect())
}
