//! The RDMA driver: its options, what it asks of a peer, and the two ways to connect its channels.

use super::connect::RdmaDialer;
use super::exchange::{Exchange, Offered as OfferedPairs};
use super::fabric::Fabric;
use super::listener::{RdmaListener, Terms};
use crate::channels::Channel;
use crate::channels::driver::{
    Agreed, Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered,
    OfferedChannel, Opened, Peer, Role, Session, Slots, Taker, Transport,
};
use crate::channels::key::Key;
use crate::drivers::{DriverOption, OptionKind, Values};
use crate::sys::verbs::device_count;
use farline_core::rdma::{MOST_CREDITS, MOST_QUEUE_PAIRS, queue_pairs_for};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long one channel may take to be made at least, besides some round trips.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queue pairs of each channel.
const PAIRS: &str = "pairs";
/// Connect by the control connection: V-9.
const EXCHANGE: &str = "exchange";
/// Receivers read: V-11.
const READ: &str = "read";

/// What a node with RDMA devices lists: V-1, V-9, V-11.
const FEATURES: [&str; 3] = ["RDMA", "RDMA EXCHANGE", "RDMA READ"];

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: "rdma",
        schemes: &["rdma"],
        title: "RDMA",
        about: "blocks from one staging pool straight into the other, by InfiniBand, RoCE or iWARP",
        options: &[
            DriverOption {
                name: PAIRS,
                kind: OptionKind::Number { least: 1, most: MOST_QUEUE_PAIRS as u64, bare: true },
                help: "queue pairs of each channel, else by round-trip time",
            },
            DriverOption {
                name: EXCHANGE,
                kind: OptionKind::Flag,
                help: "connect without rdma_cm",
            },
            DriverOption {
                name: READ,
                kind: OptionKind::Flag,
                help: "RDMA READ, where the node can, else WRITE",
            },
        ],
        capabilities: Capabilities {
            carries: Carries::RegisteredSlots,
            encrypted: false,
            same_fabric: true,
            congestion: CongestionBy::Below,
            needs_key: true,
            grows: false,
            max_block: Some(Bytes(u32::MAX as u64)),
            offered: Offered::WhenAsked,
        },
        features: &FEATURES,
        role: Role::Channel(Box::new(Rdma)),
    }
}

struct Rdma;

impl Transport for Rdma {
    fn available(&self) -> Result<(), Error> {
        device_count().map(drop)
    }

    fn agree(&self, values: &Values, peer: &Peer<'_>) -> Result<Agreed, Error> {
        let [device, exchange, read] = FEATURES;
        if !(peer.has)(device) {
            let message = format!("{} has no RDMA device, or not its libraries", peer.server);
            return Err(Error::new(Fault::There, ErrorCode::NoRdma, message));
        }
        if values.has(EXCHANGE) && !(peer.has)(exchange) {
            let message = format!("{} connects by rdma_cm alone", peer.server);
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
                .hint("leave `:exchange` out"));
        }
        // One that does not read is written to: the same bytes go the same way.
        if values.has(READ) && !(peer.has)(read) {
            let note = "by RDMA WRITE instead of READ: the node does not announce that it reads"
                .to_owned();
            return Ok(Agreed { values: values.without(READ), notes: vec![note] });
        }
        Ok(Agreed { values: values.clone(), notes: Vec::new() })
    }

    fn connections(&self, values: &Values, rtt: Span) -> usize {
        queue_pairs(values, rtt).into()
    }

    fn dialer(&self, session: &Session, values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        let key = session
            .key
            .clone()
            .ok_or_else(|| Error::new(Fault::There, ErrorCode::NoRdma, "the node takes no key"))?;
        let Session { rtt, slots, .. } = *session;
        let fabric = Fabric {
            queue_pairs: queue_pairs(values, rtt),
            credits: slots.begin,
            elastic: slots.most.is_none(),
            slot_len: slots.slot_len,
            rtt,
            exchange: values.has(EXCHANGE),
            read: values.has(READ),
        };
        Ok(Arc::new(RdmaDialer::new(key, fabric)))
    }

    fn listen(&self, listen: Listen) -> Result<Box<dyn Listener>, Error> {
        let key = listen.arrivals.key().clone();
        // A weak one: a session that is gone must not be kept by those who knock.
        let arrivals = Arc::downgrade(&listen.arrivals);
        let deliver =
            move |channel| arrivals.upgrade().is_some_and(|arrivals| arrivals.deliver(channel));
        Ok(Box::new(RdmaListener::open(listen.ip, key, terms(listen.slots), deliver)?))
    }

    fn taker(&self, key: &Key) -> Option<Box<dyn Taker>> {
        Some(Box::new(Exchange::new(key.clone())))
    }
}

/// Queue pairs of each channel on a path of this round-trip time.
fn queue_pairs(values: &Values, rtt: Span) -> u8 {
    let given = values.number(PAIRS).and_then(|count| u8::try_from(count).ok());
    given.unwrap_or_else(|| queue_pairs_for(rtt)).clamp(1, MOST_QUEUE_PAIRS)
}

fn terms(Slots { slot_len, begin, most }: Slots) -> Terms {
    Terms { begin, credits: most.unwrap_or(usize::from(MOST_CREDITS)), slot_len }
}

impl Dialer for RdmaDialer {
    fn open(&self, address: SocketAddr, timeout: Duration) -> Result<Opened, Error> {
        let timeout = timeout.max(TIMEOUT + 10 * Duration::from(self.rtt()));
        RdmaDialer::open(self, address, timeout)
            .map(|channel| Opened::Channel(Box::new(channel) as Box<dyn Channel>))
    }

    fn is_by_offer(&self) -> bool {
        self.is_by_exchange()
    }

    fn offer(&self, address: SocketAddr) -> Result<Box<dyn OfferedChannel>, Error> {
        Ok(Box::new(RdmaDialer::offer(self, address)?))
    }
}

impl OfferedChannel for OfferedPairs {
    fn text(&self) -> &str {
        OfferedPairs::text(self)
    }

    fn connect(self: Box<Self>, reply: &str) -> Result<Box<dyn Channel>, Error> {
        Ok(Box::new(OfferedPairs::connect(*self, reply)?))
    }
}

impl Listener for RdmaListener {
    fn address(&self) -> SocketAddr {
        RdmaListener::address(self)
    }
}

impl Taker for Exchange {
    fn take(
        &mut self,
        ip: IpAddr,
        slots: Slots,
        text: &str,
    ) -> Result<(Box<dyn Channel>, String), Error> {
        self.accept(ip, terms(slots), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::registry::Registry;

    fn values(text: &str) -> Values {
        Registry::builtin().stack(text).expect("a stack").values
    }

    #[test]
    fn a_peer_that_cannot_read_is_written_to() {
        let transport = Rdma;
        let all = |feature: &str| FEATURES.contains(&feature);
        let writes = |feature: &str| feature != "RDMA READ" && all(feature);
        let bare = |feature: &str| feature == "RDMA";
        let asked = values("rdma:4:exchange:read");
        let agreed = |has: &dyn Fn(&str) -> bool, values: &Values| {
            transport.agree(values, &Peer { server: "dtn2", has })
        };
        let whole = agreed(&all, &asked).expect("all of it");
        assert_eq!((&whole.values, whole.notes.len()), (&asked, 0));
        let less = agreed(&writes, &asked).expect("most of it");
        assert!(less.values.has(EXCHANGE) && !less.values.has(READ));
        assert_eq!(less.notes.len(), 1, "what is not as asked is told");
        assert_eq!(agreed(&bare, &asked).expect_err("no exchange").code, ErrorCode::Unsupported);
        let none = agreed(&|_| false, &values("rdma")).expect_err("no device");
        assert_eq!((none.code, none.fault), (ErrorCode::NoRdma, Fault::There));
    }

    #[test]
    fn queue_pairs_follow_the_path_unless_fixed() {
        let at = |text: &str, ms| Rdma.connections(&values(text), Span::from_millis(ms));
        assert_eq!((at("rdma", 0), at("rdma", 10), at("rdma", 80)), (1, 4, 8));
        assert_eq!((at("rdma:3", 0), at("rdma:3", 80)), (3, 3));
    }
}
