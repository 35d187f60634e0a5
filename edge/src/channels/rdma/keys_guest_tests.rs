//! When keys, queue pairs and devices are let go of, against real verbs, in a guest as
//! `guest_tests` says.

use super::guest_tests::{
    SLOT_LEN, TIMEOUT, advertises, ends, fabric, failure, is_iwarp, key, listener, next, offer_two,
    refused, wire, write, write_only,
};
use super::*;
use crate::sys::pool::pool;
use crate::sys::verbs::{CmListener, Connecting};
use farline_core::gridftp::mode_e::Flags;
use farline_core::rdma::{Announcement, Credit, RdmaFailure};
use farline_core::units::ErrorCode;
use std::net::{IpAddr, SocketAddr};

/// The slots that an honest end advertises, which is driven meanwhile.
fn credits_of(honest: &mut dyn Channel, liar: &mut RdmaChannel) -> Vec<Credit> {
    let until = Instant::now() + TIMEOUT;
    let mut completions = Vec::new();
    while Instant::now() < until {
        let sent = honest.sent(Some(Instant::now() + Duration::from_millis(50)));
        assert!(sent.expect("nothing is wrong yet").is_none(), "it sends nothing");
        liar.link.poll(&mut completions).expect("a working device");
        if let Some(credits) = completions.drain(..).find_map(advertises) {
            return credits;
        }
    }
    panic!("it advertises nothing")
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_key_opens_nothing_after_its_mark_though_a_lie_follows() {
    let (_door, mut liar, mut honest) = ends(false);
    offer_two(&mut *honest);
    let credits = credits_of(&mut *honest, &mut liar);
    let header = RecordHeader::new(&Header::eof(1).with(Flags::EOD).encode()).expect("short");
    let unknown = Announcement { credit: 77, len: 1, header };
    for record in
        [Record::Mark { credit: credits[1].number, blocks: 0, header }, Record::Block(unknown)]
    {
        liar.link.post(0, &record.encode()).expect("posted");
    }
    // Until both lie in the honest end's queue, to be taken out of it at once.
    std::thread::sleep(Duration::from_secs(1));
    let end = honest.receive();
    assert!(matches!(end, Ok(Some(Arrival::End { .. }))), "{end:?}");
    write_only(&mut liar, credits[0], 1);
    assert_eq!(next(&mut liar, failure), refused(RdmaFailure::RemoteAccess));
    let error = honest.receive().expect_err("the lie is told of next");
    assert_eq!(
        crate::channels::told(&error).map(|error| error.code),
        Some(ErrorCode::RdmaBroken),
        "{error}"
    );
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn keys_of_a_failed_channel_open_nothing_to_the_others() {
    for dropped in [false, true] {
        let key = key();
        let (listener, delivered) = listener(&key, 2);
        let dialer = RdmaDialer::new(key, fabric());
        let open = || {
            let mut liar = dialer.open(listener.address(), TIMEOUT).expect("a channel");
            liar.progress(None).expect("sent");
            let mut honest = delivered.recv_timeout(TIMEOUT).expect("the other end");
            offer_two(&mut *honest);
            let credits = credits_of(&mut *honest, &mut liar);
            (liar, honest, credits)
        };
        let (_first, mut failed, of_failed) = open();
        let (mut liar, mut honest, credits) = open();
        let mut back = Vec::new();
        if dropped {
            drop(failed);
        } else {
            back.extend(std::iter::from_fn(|| failed.withdraw()));
            assert_eq!(back.len(), 2);
        }
        write(&mut liar, credits[0], 1000, 1000);
        let arrival = honest.receive();
        assert!(
            matches!(arrival, Ok(Some(Arrival::Data { .. }))),
            "its own keys are open still: {arrival:?}"
        );
        write_only(&mut liar, of_failed[0], 1);
        assert_eq!(
            next(&mut liar, failure),
            refused(RdmaFailure::RemoteAccess),
            "dropped: {dropped}"
        );
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_pool_that_nobody_uses_is_pinned_no_longer() {
    wire();
    let way =
        Connecting::resolve("10.9.1.2:9".parse().expect("an address"), TIMEOUT).expect("a way");
    let mut link = link(way.domain(None).expect("a domain"));
    let before = lockable().pinned;
    let mut slots = pool(2, SLOT_LEN).expect("memory");
    for access in [Access::Sent, Access::Fetched] {
        let slot = slots.pop().expect("two slots");
        let index = slot.index();
        link.hold(slot, access).expect("registered");
        slots.insert(0, link.release(index).expect("held"));
    }
    let both = 2 * SLOT_LEN as u64;
    assert_eq!(lockable().pinned, Bytes(before.0 + both), "kept for the next use");
    drop(slots);
    assert_eq!(lockable().pinned, before);
}

/// A link of one queue pair, for what `wanted` leads to.
fn link(domain: Arc<crate::sys::verbs::Domain>) -> RdmaConnection {
    let placement = Placement::between(domain.is_iwarp(), false);
    let settings = EndpointSettings { queue_pairs: 1, credits: 2, placement, connected: true };
    RdmaConnection::new(domain, shape(&settings)).expect("a link")
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn an_unacceptable_request_returns_without_a_queue_pair() {
    if is_iwarp() {
        eprintln!("skipped: iWARP takes an answer of any length");
        return;
    }
    wire();
    let ip: IpAddr = "10.9.1.2".parse().expect("an address");
    let listener = CmListener::bind(ip).expect("a listener");
    let at = SocketAddr::new(ip, listener.port());
    let asking = std::thread::spawn(move || {
        let connecting = Connecting::resolve(at, TIMEOUT).expect("a way");
        let mut asks = link(connecting.domain(None).expect("a domain"));
        asks.connect(0, connecting, b"hello", 14, TIMEOUT).expect_err("it is refused").kind()
    });
    let until = Instant::now() + TIMEOUT;
    let request = loop {
        if let Some(request) = listener.next().expect("a working device") {
            break request;
        }
        assert!(Instant::now() < until, "nobody asks");
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut accepts = link(request.domain(None).expect("a domain"));
    // More than an answer may carry: 196 bytes (InfiniBand Architecture Specification 1.2.1, table
    // 103). The queue pair is there by then.
    let request =
        accepts.accept(0, request, &[7; 250], 14).expect_err("the device does not take the answer");
    // It would have its receives in the records of a link that may go first, and tell its
    // completion queue.
    assert!(!request.has_pair());
    drop(accepts);
    request.reject(&[]);
    assert_eq!(asking.join().expect("it lives"), io::ErrorKind::ConnectionRefused);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_way_by_another_device_than_the_links_is_refused_and_named() {
    wire();
    let (here, there) = ("10.9.1.1", "10.9.1.2");
    let way = |to: &str| {
        Connecting::resolve(SocketAddr::new(to.parse().expect("an address"), 9), TIMEOUT)
            .expect("a way")
    };
    let mut link = link(way(there).domain(None).expect("a domain"));
    let error = link
        .connect(0, way(here), b"hello", 14, TIMEOUT)
        .expect_err("that leads by the other device");
    assert_eq!(error.to_string(), "another RDMA device leads there");
}
