//! What a wire carried, packet by packet: how many bytes by which queue pair, and how many by
//! anybody's TCP.
//!
//! It is the proof that no program's word is in, nor any device's: RoCE is told by its port, and
//! iWARP by the frame that each connection begins with. Packets are seen where they arrive, so that
//! one that netem loses is none.

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with, sockopt,
};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// As much of a packet as is looked at: Ethernet, IP, TCP with all its options, and how an iWARP
/// connection begins.
const LOOKED_AT: usize = 14 + 20 + 60 + 16;
/// UDP's port of RoCE v2 (InfiniBand Architecture Specification, annex A17).
const ROCE_PORT: u16 = 4791;
/// What each direction of an iWARP connection begins with (RFC 5044, section 7.1).
const IWARP_BEGINS: [&[u8]; 2] = [b"MPA ID Req Frame", b"MPA ID Rep Frame"];
/// A guest of one processor may not come to look for a while.
const BUFFER: usize = 128 << 20;

/// What one queue pair was sent: RDMA WRITE and answers to RDMA READ. Of iWARP all that its
/// connection carried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair {
    /// Payload.
    pub(crate) bytes: u64,
    /// The largest payload of a packet.
    pub(crate) largest: u64,
    /// How often each packet number was seen; iWARP has none.
    numbers: HashMap<u32, u32>,
}

impl Pair {
    /// Packets that were sent again although the first had come through, as whoever sends
    /// everything from a gap on does.
    pub(crate) fn again(&self) -> usize {
        self.numbers.values().filter(|&&times| times > 1).count()
    }
}

/// One direction of a TCP connection: where from, ports, where to.
type Direction = (Ipv4Addr, u16, Ipv4Addr, u16);

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketCounts {
    /// By who sent it, and the queue pair that it was for.
    roce: BTreeMap<(Ipv4Addr, u32), Pair>,
    iwarp: BTreeMap<Direction, Pair>,
    tcp: BTreeMap<Direction, u64>,
}

impl PacketCounts {
    /// The queue pairs to which `from` sent blocks.
    pub(crate) fn pairs(&self, from: Ipv4Addr) -> Vec<Pair> {
        let roce =
            self.roce.iter().filter(|((source, _), _)| *source == from).map(|(_, pair)| pair);
        let iwarp =
            self.iwarp.iter().filter(|((source, ..), _)| *source == from).map(|(_, pair)| pair);
        roce.chain(iwarp).filter(|pair| pair.bytes > 0).cloned().collect()
    }

    /// What TCP carried both ways that is no iWARP.
    pub(crate) fn tcp_bytes(&self) -> u64 {
        self.tcp.values().sum()
    }

    /// Takes note of a packet, of which `frame` is the beginning.
    fn note(&mut self, frame: &[u8]) -> Option<()> {
        let ip = frame.get(14..)?;
        let header = usize::from(*ip.first()? & 15) * 4;
        let of = |bytes: &[u8], at: usize| {
            Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
        };
        let address =
            |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?));
        let (from, to) = (address(12)?, address(16)?);
        let len = usize::from(of(ip, 2)?).checked_sub(header)?;
        let above = ip.get(header..)?;
        match ip.get(9)? {
            6 => {
                let offset = usize::from(above.get(12)? >> 4) * 4;
                let payload = len.checked_sub(offset).filter(|&len| len > 0)? as u64;
                let direction = (from, of(above, 0)?, to, of(above, 2)?);
                let begins = above
                    .get(offset..)
                    .is_some_and(|it| IWARP_BEGINS.iter().any(|frame| it.starts_with(frame)));
                if begins || self.iwarp.contains_key(&direction) {
                    let pair = self.iwarp.entry(direction).or_default();
                    (pair.bytes, pair.largest) = (pair.bytes + payload, pair.largest.max(payload));
                } else {
                    *self.tcp.entry(direction).or_default() += payload;
                }
            }
            17 if of(above, 2)? == ROCE_PORT => {
                let transport = above.get(8..20)?;
                // The headers of a write's first packet, of what answers a read, and an immediate
                // (chapter 9.2 of the specification).
                let besides = match transport[0] {
                    0x06 | 0x0a => 16,
                    0x07 | 0x08 | 0x0e => 0,
                    0x09 | 0x0d | 0x0f | 0x10 => 4,
                    0x0b => 20,
                    _ => return None,
                };
                let word = |at: usize| {
                    u32::from_be_bytes([0, transport[at], transport[at + 1], transport[at + 2]])
                };
                let payload = len.checked_sub(8 + 12 + besides + 4)? as u64;
                let pair = self.roce.entry((from, word(5))).or_default();
                (pair.bytes, pair.largest) = (pair.bytes + payload, pair.largest.max(payload));
                *pair.numbers.entry(word(9)).or_default() += 1;
            }
            _ => {}
        }
        Some(())
    }
}

/// Looks at every packet that arrives at this host from now on, until it is asked.
#[derive(Debug)]
pub(crate) struct Tap {
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<PacketCounts>,
}

impl Tap {
    pub(crate) fn new() -> Tap {
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::NONBLOCK,
            Some(eth::IP),
        );
        let socket = socket.expect("root sees every packet");
        sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)
            .expect("root has large buffers");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let looking = std::thread::spawn(move || {
            let (mut seen, mut frame) = (PacketCounts::default(), [0u8; LOOKED_AT]);
            loop {
                let is_last = over.load(Ordering::Acquire);
                while let Ok((len, _)) = recv(&socket, &mut frame, RecvFlags::empty()) {
                    let _ = seen.note(&frame[..len]);
                }
                if is_last {
                    return seen;
                }
                // Being woken for every packet costs a guest more than the packet.
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Tap { is_over, looking }
    }

    /// What was seen since.
    pub(crate) fn seen(self) -> PacketCounts {
        self.is_over.store(true, Ordering::Release);
        self.looking.join().expect("it looks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet in an Ethernet frame.
    fn frame(protocol: u8, above: &[u8]) -> Vec<u8> {
        let len = u16::try_from(20 + above.len()).expect("a packet").to_be_bytes();
        let ip = [
            &[0x45, 0][..],
            &len,
            &[0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 1, 1, 10, 9, 1, 2],
            above,
        ]
        .concat();
        [&[0; 12][..], &[8, 0], &ip].concat()
    }

    /// A packet of RoCE: RDMA WRITE, its middle or its last packet with an immediate.
    fn roce(opcode: u8, pair: u8, number: u8, payload: usize) -> Vec<u8> {
        let transport = [opcode, 0, 0, 0, 0, 0, 0, pair, 0, 0, 0, number];
        let rest = payload + if opcode == 9 { 4 } else { 0 } + 4;
        frame(17, &[&[0, 1, 0x12, 0xb7, 0, 0, 0, 0][..], &transport, &vec![0; rest]].concat())
    }

    fn tcp(port: u8, payload: &[u8]) -> Vec<u8> {
        frame(
            6,
            &[&[0, port, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0], payload]
                .concat(),
        )
    }

    #[test]
    fn the_tap_tells_blocks_iwarp_and_repeated_packets_apart() {
        let mut seen = PacketCounts::default();
        for packet in [roce(7, 17, 1, 4096), roce(9, 17, 2, 100), roce(7, 18, 1, 1024)] {
            assert!(seen.note(&packet[..LOOKED_AT.min(packet.len())]).is_some());
        }
        assert!(seen.note(&roce(0x11, 17, 3, 4)).is_none(), "an acknowledgement");
        let from = Ipv4Addr::new(10, 9, 1, 1);
        let found: Vec<_> =
            seen.pairs(from).iter().map(|pair| (pair.bytes, pair.largest, pair.again())).collect();
        assert_eq!(found, [(4196, 4096, 0), (1024, 1024, 0)]);
        assert!(seen.pairs(Ipv4Addr::new(10, 9, 1, 2)).is_empty());
        let _ = seen.note(&roce(7, 18, 1, 1024));
        assert_eq!(seen.pairs(from)[1].again(), 1);

        for packet in [
            tcp(5, b"MPA ID Req Frame, and more"),
            tcp(5, &[0; 500]),
            tcp(6, &[0; 300]),
            tcp(6, b""),
        ] {
            let _ = seen.note(&packet[..LOOKED_AT.min(packet.len())]);
        }
        assert_eq!((seen.pairs(from)[2].bytes, seen.tcp_bytes()), (526, 300));
        let whole = roce(7, 17, 1, 4096);
        assert!(
            (14..54).all(|len| PacketCounts::default().note(&whole[..len]).is_none()),
            "a part of a header"
        );
    }
}
