//! What comes over RDMA: records, the private data of connections, and a peer that says what it
//! likes.

use farline_core::rdma::{
    Acceptance, Endpoint, EndpointSettings, GreetingReply, Input, Output, Placement, QueuePair,
    RdmaGreeting, RdmaOffer, Record, Refusal, WorkRequest,
};
use farline_core::transfer::SlotId;
use std::collections::BTreeSet;

/// Slots of the end under test, and their length in bytes.
const SLOTS: usize = 6;
const SLOT_LEN: u32 = 1 << 16;

/// What is read is written back as the same bytes (records) or is read back the same (what a fabric
/// may have padded); and an end that receives any records gives each slot back once, and nobody
/// else's.
///
/// # Panics
/// When a law does not hold.
pub fn rdma(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        assert!(bytes.len() <= Record::LEN_MOST, "{record:?}");
        assert_eq!(record.encode(), bytes, "{record:?}");
    }
    if let Ok(greeting) = RdmaGreeting::decode(bytes) {
        assert_eq!(RdmaGreeting::decode(&greeting.encode()), Ok(greeting));
    }
    if let Some(reply) = GreetingReply::decode(bytes) {
        assert_eq!(GreetingReply::decode(&reply.encode()), Some(reply));
    }
    if let Some(refusal) = Refusal::decode(bytes) {
        assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(offer) = RdmaOffer::decode(text) {
            assert_eq!(RdmaOffer::decode(&offer.encode()), Ok(offer));
        }
        if let Ok(acceptance) = Acceptance::decode(text) {
            assert_eq!(Acceptance::decode(&acceptance.encode()), Ok(acceptance));
        }
    }
    if let Some((&kind, said)) = bytes.split_first() {
        lied_to(kind, said);
    }
}

/// The receiving end of a channel whose peer sends the records in `said`, each behind a byte with
/// its length.
fn lied_to(kind: u8, mut said: &[u8]) {
    let placement =
        [Placement::Immediate, Placement::Behind, Placement::Read][usize::from(kind % 3)];
    let settings =
        EndpointSettings { queue_pairs: 2, credits: 4, placement, connected: kind & 0x80 != 0 };
    let mut world = Receiver {
        endpoint: Endpoint::new(settings),
        held: BTreeSet::new(),
        broken: false,
        placement,
    };
    while let Some((&len, rest)) = said.split_first() {
        let len = usize::from(len);
        for slot in 0..SLOTS {
            world.offer(slot);
        }
        let (record, rest) = rest.split_at(len.min(rest.len()));
        said = rest;
        let on = QueuePair(len as u8 & 1);
        match Record::decode(record) {
            Ok(record) => world.endpoint.handle(Input::Received { on, record }),
            Err(_) => {
                let [a, b, ..] = record else { continue };
                let (credit, len) = (u32::from(*a), u32::from(*b) << 8);
                world.endpoint.handle(Input::Written { on, credit, len });
            }
        }
        world.settle();
    }
    // Whatever was said: what the endpoint still holds it gives back, once each.
    let mut back = BTreeSet::new();
    while let Some(slot) = world.endpoint.withdraw() {
        assert!(back.insert(slot), "{slot:?} twice");
    }
    assert_eq!(back, world.held);
}

struct Receiver {
    endpoint: Endpoint,
    /// Slots that the endpoint has.
    held: BTreeSet<SlotId>,
    broken: bool,
    placement: Placement,
}

impl Receiver {
    fn offer(&mut self, number: usize) {
        let slot = SlotId(number);
        if !self.broken && self.held.insert(slot) {
            let address = u64::from(SLOT_LEN) * number as u64;
            self.endpoint.handle(Input::Offer { slot, address, key: 7, len: SLOT_LEN });
            self.settle();
        }
    }

    /// Does what the endpoint says; the device is quick and makes no mistake.
    fn settle(&mut self) {
        while let Some(output) = self.endpoint.poll() {
            match output {
                Output::Post { on, record } => {
                    assert!(record.encode().len() <= Record::LEN_MOST, "{record:?}");
                    self.endpoint.handle(Input::Completed { on, work: WorkRequest::Record });
                }
                Output::Read { on, slot, len, .. } => {
                    assert_eq!(self.placement, Placement::Read);
                    assert!(self.held.contains(&slot) && len <= SLOT_LEN, "{slot:?} {len}");
                    self.endpoint.handle(Input::Completed { on, work: WorkRequest::Read(slot) });
                }
                Output::Arrived { slot, len, .. } => {
                    assert!(len <= SLOT_LEN, "{len}");
                    assert!(self.held.remove(&slot), "{slot:?} was not offered");
                }
                Output::Ended { slot, .. } | Output::Returned(slot) => {
                    assert!(self.held.remove(&slot), "{slot:?} was not offered");
                }
                Output::Broken(_) => {
                    assert!(!self.broken, "broken twice");
                    self.broken = true;
                }
                Output::Write { .. } | Output::Sent(_) | Output::Taken => {
                    panic!("nothing was to be sent: {output:?}")
                }
            }
        }
    }
}
