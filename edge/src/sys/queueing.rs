//! Queueing disciplines, classes and filters of an interface, by rtnetlink(7): the part of tc(8)
//! that reserves a rate. Own code: netlink-packet-route 0.30 knows neither HTB nor FIFOs, rtnetlink
//! makes no classes.

use super::netlink::{Scope, find, request, u16_of, u32_of};
use super::rtnetlink::{Attributes, Refusal, flags, order};
use rustix::io;
use std::net::Ipv4Addr;

// include/uapi/linux/rtnetlink.h and pkt_sched.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;
const LINKLAYER_ETHERNET: u8 = 1;
// include/uapi/linux/pkt_cls.h
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TC_U32_TERMINAL: u8 = 1;
const ETH_P_ALL: u16 = 3;
const ETH_P_ARP: u16 = 0x0806;
const ETH_P_8021Q: u16 = 0x8100;
/// The parent of what is at the root.
pub(crate) const ROOT: u32 = u32::MAX;
/// Bytes of `struct tcmsg`.
const HEAD: usize = 20;
/// Bytes before the keys of a `struct tc_u32_sel`, and of a key.
const SELECTOR: usize = 16;

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discipline {
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    /// Of a FIFO: how many packets, or bytes, it holds.
    pub(crate) limit: Option<u32>,
}

/// What a class of HTB has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Assured, in bytes a second.
    pub(crate) rate: u64,
    /// At the most.
    pub(crate) ceil: u64,
    /// Lower goes first.
    pub(crate) priority: u32,
    /// Bytes that each packet counts besides its own, once.
    pub(crate) overhead: u16,
}

/// A class of HTB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) share: Share,
    /// Bytes that went through it.
    pub(crate) carried: u64,
}

/// What a filter looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// IPv4 packets between two addresses, tagged or not.
    Addresses { from: Ipv4Addr, to: Ipv4Addr },
    /// Who has which address, in IPv4.
    Arp,
    /// The same in a VLAN.
    TaggedArp,
}

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) handle: u32,
    pub(crate) priority: u16,
    pub(crate) protocol: u16,
    pub(crate) kind: String,
    /// The class that it chooses.
    pub(crate) target: u32,
    /// Value and mask of four bytes, and where they are, for each.
    pub(crate) keys: Vec<([u8; 4], [u8; 4], u32)>,
}

impl Match {
    fn protocol(self) -> u16 {
        match self {
            Match::Addresses { .. } => ETH_P_ALL,
            Match::Arp => ETH_P_ARP,
            Match::TaggedArp => ETH_P_8021Q,
        }
    }

    fn keys(self) -> Vec<([u8; 4], [u8; 4], u32)> {
        match self {
            // The version first: what is no IPv4 has other things where addresses would be.
            Match::Addresses { from, to } => vec![
                ([0x40, 0, 0, 0], [0xf0, 0, 0, 0], 0),
                (from.octets(), [0xff; 4], 12),
                (to.octets(), [0xff; 4], 16),
            ],
            Match::Arp => vec![([0; 4], [0; 4], 0)],
            // Hardware Ethernet, protocol IPv4 (RFC 826): no IP packet begins like that.
            Match::TaggedArp => vec![([0, 1, 8, 0], [0xff; 4], 0)],
        }
    }

    /// Whether `filter` looks for this.
    pub(crate) fn is_of(self, filter: &Filter) -> bool {
        let same = filter.keys == self.keys() && filter.protocol == self.protocol();
        filter.kind == "u32" && same
    }
}

/// A handle as tc(8) writes it.
pub(crate) fn handle(major: u16, minor: u16) -> u32 {
    u32::from(major) << 16 | u32::from(minor)
}

fn head(interface: u32, own: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut head = vec![0; 4];
    for word in [interface, own, parent, info] {
        head.extend(word.to_ne_bytes());
    }
    head
}

/// The words of a `struct tcmsg` after the first, and the attributes behind it.
fn parts(body: &[u8]) -> Option<([u32; 4], &[u8])> {
    let word = |at: usize| body.get(at..at + 4).map(u32_of);
    Some(([word(4)?, word(8)?, word(12)?, word(16)?], body.get(HEAD..)?))
}

fn kind_of(body: &[u8]) -> String {
    let kind = find(body, TCA_KIND).unwrap_or_default();
    String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned()
}

/// The queueing disciplines of an interface.
pub(crate) fn disciplines(interface: u32) -> io::Result<Vec<Discipline>> {
    let all = request(None, RTM_GETQDISC, Scope::All, &head(interface, 0, 0, 0))?;
    let known = all.iter().filter_map(|body| {
        let ([at, handle, parent, _], more) = parts(body)?;
        let kind = kind_of(more);
        let is_fifo = ["pfifo", "bfifo"].contains(&kind.as_str());
        let limit = find(more, TCA_OPTIONS).filter(|_| is_fifo).and_then(|of| of.get(..4));
        let limit = limit.map(u32_of);
        (at == interface).then_some(Discipline { handle, parent, kind, limit })
    });
    Ok(known.collect())
}

/// Makes an HTB the root of an interface that has none but the kernel's own; what no filter chooses
/// goes to the class `default`.
pub(crate) fn add_root(interface: u32, handle: u32, default: u16) -> Result<(), Refusal> {
    let mut glob = Vec::new();
    for word in [HTB_VERSION, 10, u32::from(default), 0, 0] {
        glob.extend(word.to_ne_bytes());
    }
    let options = Attributes::default().with(TCA_HTB_INIT, &glob);
    let body = Attributes::after(&head(interface, handle, ROOT, 0))
        .with_name(TCA_KIND, "htb")
        .with(TCA_OPTIONS, options.bytes());
    order(RTM_NEWQDISC, flags::CREATE, &body)
}

/// Gives a class a FIFO of `limit` packets: the one that it has, or a new one. One of none drops
/// all.
pub(crate) fn set_fifo(
    interface: u32,
    class: u32,
    limit: u32,
    is_there: bool,
) -> Result<(), Refusal> {
    let how = if is_there { flags::REPLACE } else { flags::INSTEAD };
    let body = Attributes::after(&head(interface, 0, class, 0))
        .with_name(TCA_KIND, "pfifo")
        .with(TCA_OPTIONS, &limit.to_ne_bytes());
    order(RTM_NEWQDISC, how, &body)
}

/// Gives a class a discipline of this kind, as the kernel has it by default.
pub(crate) fn set_leaf(interface: u32, class: u32, kind: &str) -> Result<(), Refusal> {
    let body = Attributes::after(&head(interface, 0, class, 0)).with_name(TCA_KIND, kind);
    order(RTM_NEWQDISC, flags::INSTEAD, &body)
}

/// `struct tc_ratespec`.
fn rate_spec(rate: u64, overhead: u16) -> Vec<u8> {
    let mut spec = vec![0, LINKLAYER_ETHERNET];
    spec.extend(overhead.to_ne_bytes());
    spec.extend([0; 4]);
    spec.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

/// What a class may send at once, as time at its rate: what a timer is late, and a few whole trains
/// of segments. In the kernel's ticks of 64 ns.
fn burst(rate: u64) -> u32 {
    const TIMER_NS: u64 = 2_000_000;
    const TRAINS: u64 = 2 * 65_536;
    let trains = TRAINS.saturating_mul(1_000_000_000) / rate.max(1);
    u32::try_from(TIMER_NS.max(trains) >> 6).unwrap_or(u32::MAX)
}

/// Gives a class of HTB a share: the class that is there, whose queue stays, or a new one.
pub(crate) fn set_class(
    interface: u32,
    class: u32,
    parent: u32,
    share: Share,
) -> Result<(), Refusal> {
    // Turns among classes that borrow are by so many bytes; HTB wants 1 to 200 kB.
    let quantum = (share.ceil / 1_000).clamp(1_600, 200_000) as u32;
    let mut parms = rate_spec(share.rate, share.overhead);
    parms.extend(rate_spec(share.ceil, share.overhead));
    for word in [burst(share.rate), burst(share.ceil), quantum, 0, share.priority] {
        parms.extend(word.to_ne_bytes());
    }
    let mut options = Attributes::default().with(TCA_HTB_PARMS, &parms);
    for (kind, rate) in [(TCA_HTB_RATE64, share.rate), (TCA_HTB_CEIL64, share.ceil)] {
        if rate >= u64::from(u32::MAX) {
            options = options.with(kind, &rate.to_ne_bytes());
        }
    }
    let body = Attributes::after(&head(interface, class, parent, 0))
        .with_name(TCA_KIND, "htb")
        .with(TCA_OPTIONS, options.bytes());
    // A class that is there is changed in place.
    match order(RTM_NEWTCLASS, flags::CHANGE, &body) {
        Err(refusal) if refusal.errno == io::Errno::NOENT => {
            order(RTM_NEWTCLASS, flags::CREATE, &body)
        }
        other => other,
    }
}

/// Takes a class down.
pub(crate) fn remove_class(interface: u32, class: u32) -> Result<(), Refusal> {
    order(RTM_DELTCLASS, flags::CHANGE, &Attributes::after(&head(interface, class, 0, 0)))
}

/// The classes of HTB of an interface.
pub(crate) fn classes(interface: u32) -> io::Result<Vec<Class>> {
    let all = request(None, RTM_GETTCLASS, Scope::All, &head(interface, 0, 0, 0))?;
    let known = all.iter().filter_map(|body| {
        let ([_, handle, parent, _], more) = parts(body)?;
        let options = find(more, TCA_OPTIONS).filter(|_| kind_of(more) == "htb")?;
        let parms = find(options, TCA_HTB_PARMS)?;
        let wide = |kind, at: usize| {
            let narrow = || parms.get(at + 8..at + 12).map(|rate| u64::from(u32_of(rate)));
            find(options, kind).and_then(u64_of).or_else(narrow)
        };
        let share = Share {
            rate: wide(TCA_HTB_RATE64, 0)?,
            ceil: wide(TCA_HTB_CEIL64, 12)?,
            priority: u32_of(parms.get(40..44)?),
            overhead: u16_of(parms.get(2..4)?),
        };
        let basic = find(more, TCA_STATS2).and_then(|stats| find(stats, TCA_STATS_BASIC));
        let carried = basic.and_then(|basic| u64_of(basic.get(..8)?)).unwrap_or(0);
        Some(Class { handle, parent, share, carried })
    });
    Ok(known.collect())
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Has what `matched` looks for go to the class `target` of the discipline `parent`.
pub(crate) fn add_filter(
    interface: u32,
    parent: u32,
    priority: u16,
    matched: Match,
    target: u32,
) -> Result<(), Refusal> {
    let keys = matched.keys();
    let mut selector = vec![TC_U32_TERMINAL, 0, keys.len() as u8];
    selector.resize(SELECTOR, 0);
    for (value, mask, at) in keys {
        selector.extend([mask, value].concat());
        selector.extend(at.to_ne_bytes());
        selector.extend([0; 4]);
    }
    let options = Attributes::default()
        .with(TCA_U32_CLASSID, &target.to_ne_bytes())
        .with(TCA_U32_SEL, &selector);
    let info = u32::from(priority) << 16 | u32::from(matched.protocol().to_be());
    let body = Attributes::after(&head(interface, 0, parent, info))
        .with_name(TCA_KIND, "u32")
        .with(TCA_OPTIONS, options.bytes());
    order(RTM_NEWTFILTER, flags::CREATE, &body)
}

/// Takes a filter away.
pub(crate) fn remove_filter(interface: u32, parent: u32, filter: &Filter) -> Result<(), Refusal> {
    let info = u32::from(filter.priority) << 16 | u32::from(filter.protocol.to_be());
    let body = Attributes::after(&head(interface, filter.handle, parent, info))
        .with_name(TCA_KIND, &filter.kind);
    order(RTM_DELTFILTER, flags::CHANGE, &body)
}

/// The filters of a discipline that choose a class.
pub(crate) fn filters(interface: u32, parent: u32) -> io::Result<Vec<Filter>> {
    let all = request(None, RTM_GETTFILTER, Scope::All, &head(interface, 0, parent, 0))?;
    let known = all.iter().filter_map(|body| {
        let ([_, handle, _, info], more) = parts(body)?;
        let kind = kind_of(more);
        let options = find(more, TCA_OPTIONS)?;
        // The class has the same number among the options of u32 as of the other kinds but these.
        let target = match kind.as_str() {
            "basic" | "matchall" | "fw" | "u32" | "flower" => find(options, TCA_U32_CLASSID),
            "bpf" => find(options, 3),
            _ => None,
        };
        let target = u32_of(target?.get(..4)?);
        let selector = find(options, TCA_U32_SEL).filter(|_| kind == "u32").unwrap_or_default();
        let keys = selector.get(SELECTOR..).unwrap_or_default().chunks_exact(16).map(|key| {
            let four = |at: usize| [key[at], key[at + 1], key[at + 2], key[at + 3]];
            (four(4), four(0), u32_of(&key[8..12]))
        });
        let (priority, protocol) = ((info >> 16) as u16, u16::from_be(info as u16));
        Some(Filter { handle, priority, protocol, kind, target, keys: keys.collect() })
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_a_timer_is_late_and_more_when_slow() {
        // 2 ms at 1 Gbit/s are 250 kB; at 8 Mbit/s two trains are 131 ms.
        assert_eq!(burst(125_000_000), 2_000_000 >> 6);
        assert_eq!(burst(1_000_000), 131_072_000 >> 6);
    }

    #[test]
    fn a_filter_is_known_by_what_it_looks_for() {
        let [from, to] = [Ipv4Addr::new(10, 64, 0, 2), Ipv4Addr::new(10, 64, 0, 3)];
        let ours = Match::Addresses { from, to };
        let filter = Filter {
            handle: 0x8000_0800,
            priority: 1,
            protocol: ETH_P_ALL,
            kind: "u32".into(),
            target: 0,
            keys: ours.keys(),
        };
        let arp = [Match::Arp, Match::TaggedArp].map(|arp| arp.is_of(&filter));
        assert!(ours.is_of(&filter) && arp == [false, false]);
        assert!(!Match::Addresses { from: to, to: from }.is_of(&filter));
    }
}
