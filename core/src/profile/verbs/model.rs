//! The closed form: what a link, a distance, a queue of messages and their number allow RDMA to
//! carry.
//!
//! A reliable connection sends `depth` messages before it waits for the first acknowledgement, and
//! a measurement ends with the last one: a round trip after the last bit was sent. For large
//! messages that is the whole of what distance costs, and it is SC08's decrease per mile. A window
//! of packets or of credits bounds the rate besides, and of small messages how many an adapter
//! handles in a second.

use super::signal::Signal;
use crate::units::{Bytes, Rate, Span};

/// Bytes of InfiniBand around each packet of a reliable connection: local route 8, base transport
/// 12, checks 4 and 2 (InfiniBand Architecture Specification 1.2.1, chapters 5 and 7.8).
pub const RELIABLE_HEADERS: u32 = 26;
/// Besides, in an RDMA WRITE's first packet: address, key and length (chapter 9.3.3).
const WRITE_HEADER: u64 = 16;
/// Besides, in each datagram (chapter 9.3.2).
pub(super) const DATAGRAM_HEADER: u64 = 8;
/// An acknowledgement as a packet (chapter 9.3.5).
const ACKNOWLEDGEMENT: u64 = RELIABLE_HEADERS as u64 + 4;
/// Packets of one reliable connection that may be on their way: half of 24 bits of sequence numbers
/// (chapter 9.7.3.1).
pub const MOST_PACKETS: u64 = 1 << 23;
/// RDMA READs of one connection that may be unanswered: what ConnectX cards offer
/// (`max_qp_init_rd_atom` of `ibv_devinfo`).
pub(super) const MOST_READS: u64 = 16;

/// What lies between two hosts, as verbs see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerbsPath {
    /// The ports.
    pub signal: Signal,
    /// The most of payload that the hosts carry each way; `None` where the ports are the limit.
    pub host: Option<Rate>,
    /// Payload of a full packet.
    pub mtu: Bytes,
    /// Round-trip time without load.
    pub rtt: Span,
    /// What a link at a distance is promised room for before it must wait; `None` where extenders
    /// promise more than it holds.
    pub credits: Option<Bytes>,
    /// Messages that an adapter handles in a second each way; `None` for as many as its port has
    /// room for.
    pub messages_per_s: Option<u64>,
}

/// A measurement by messages, as perftest makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Payload of each.
    pub size: Bytes,
    /// How many are sent in all.
    pub count: u64,
    /// How many of one connection may wait for their acknowledgement.
    pub depth: u64,
    /// Connections (*queue pairs*) side by side.
    pub queue_pairs: u64,
    /// How many packets of one connection may: a device's limit, at most [`MOST_PACKETS`].
    pub packets: u64,
}

impl Messages {
    /// As `ib_rdma_bw` sends when nothing else is said: 1000 messages on one connection, at most
    /// 100 of them unacknowledged (perftest, rdma_bw.c: `iters = 1000`, `tx_depth = 100`).
    pub fn of_ib_rdma_bw(size: Bytes) -> Messages {
        Messages { size, count: 1_000, depth: 100, queue_pairs: 1, packets: MOST_PACKETS }
    }

    /// Packets of one message: at least one.
    pub fn packets_each(&self, mtu: Bytes) -> u64 {
        self.size.0.div_ceil(mtu.0.max(1)).max(1)
    }

    /// The throughput of reliable connections that write one way.
    pub fn reliable(&self, line: &VerbsPath) -> Rate {
        self.reliable_with(line, 0)
    }

    /// The sum of both directions when each end writes: every port also carries the other
    /// direction's acknowledgements.
    pub fn reliable_both_ways(&self, line: &VerbsPath) -> Rate {
        let one = self.reliable_with(line, ACKNOWLEDGEMENT);
        Rate::from_bps(one.as_bps() * 2)
    }

    /// The throughput of datagrams, which nobody acknowledges: that of the link, whatever the
    /// distance; `None` for a message that does not fit one.
    pub fn unreliable(&self, line: &VerbsPath) -> Option<Rate> {
        if self.size > line.mtu {
            return None;
        }
        let wire = padded(self.size) + u64::from(RELIABLE_HEADERS) + DATAGRAM_HEADER;
        Some(rate(self.size.0 as f64, self.time_of(wire, line)))
    }

    /// From sending a message of this size to having one back.
    pub fn round_trip(&self, line: &VerbsPath) -> Span {
        // One message at a time is no matter of how many there can be in a second.
        let alone = VerbsPath { messages_per_s: None, ..*line };
        line.rtt + Span::from_secs_f64(2.0 * self.time_of(self.wire_bytes(line), &alone))
    }

    /// Bytes of one written message on the port.
    fn wire_bytes(&self, line: &VerbsPath) -> u64 {
        padded(self.size) + self.packets_each(line.mtu) * u64::from(RELIABLE_HEADERS) + WRITE_HEADER
    }

    /// Seconds that a message of `wire` bytes takes to send, one after the other.
    fn time_of(&self, wire: u64, line: &VerbsPath) -> f64 {
        let on_port = wire as f64 * 8.0 / line.signal.data_rate().as_bps() as f64;
        let of_host =
            line.host.map_or(0.0, |host| self.size.0 as f64 * 8.0 / host.as_bps().max(1) as f64);
        on_port.max(of_host).max(line.messages_per_s.map_or(0.0, |rate| 1.0 / rate.max(1) as f64))
    }

    fn reliable_with(&self, line: &VerbsPath, besides: u64) -> Rate {
        let wire = self.wire_bytes(line) + besides;
        let rtt = line.rtt.as_secs_f64();
        let packet = (self.size.min(line.mtu).0 + u64::from(RELIABLE_HEADERS)) as f64 * 8.0
            / line.signal.data_rate().as_bps() as f64;
        // A window of packets or of credits lets so much through in the time that an answer to its
        // first packet takes.
        let windowed = |share: f64| share * (rtt + packet);
        let of_packets = windowed(
            self.packets_each(line.mtu) as f64 / (self.packets * self.queue_pairs).max(1) as f64,
        );
        let of_credits =
            line.credits.map_or(0.0, |credits| windowed(wire as f64 / credits.0.max(1) as f64));
        let each = self.time_of(wire, line).max(of_packets).max(of_credits);

        let (count, depth) = (self.count.max(1), (self.depth * self.queue_pairs).max(1));
        let turn = each + rtt;
        let seconds = if depth as f64 * each >= turn {
            count as f64 * each + rtt
        } else {
            // A burst of `depth` in each turn; the last message's turn ends the measurement.
            ((count - 1) / depth) as f64 * turn + ((count - 1) % depth) as f64 * each + turn
        };
        rate(count as f64 * self.size.0 as f64, seconds)
    }
}

/// Payload is filled up to words of four bytes (chapter 9.2.4).
fn padded(size: Bytes) -> u64 {
    size.0.next_multiple_of(4)
}

fn rate(bytes: f64, seconds: f64) -> Rate {
    Rate::from_bps((bytes * 8.0 / seconds.max(f64::MIN_POSITIVE)) as u64)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
