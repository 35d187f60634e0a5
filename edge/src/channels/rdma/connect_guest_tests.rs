//! Connections that do not come about, or end without a word, against real verbs, in a guest as
//! `guest_tests` says.

use super::guest_tests::{SLOT_LEN, TIMEOUT, drive, fabric, is_iwarp, key, listener, terms, wire};
use super::*;
use crate::channels::told;
use crate::sys::pool::pool;
use crate::sys::verbs::{Connecting, Rejected};
use farline_core::rdma::{QueuePair, RdmaGreeting, Refusal, VERSION};
use farline_core::units::{ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::mpsc;

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_peer_of_another_version_is_told_so_and_a_stranger_nothing() {
    let key = key();
    let (listener, _delivered) = listener(&key, 2);
    let (own, other) = match is_iwarp() {
        true => (Placement::Behind, Placement::Immediate),
        false => (Placement::Immediate, Placement::Behind),
    };
    let greet = |bytes: &[u8]| {
        let connecting = Connecting::resolve(listener.address(), TIMEOUT).expect("a way");
        let mtu = connecting.mtu();
        let domain = connecting.domain(None).expect("a domain");
        let settings =
            EndpointSettings { queue_pairs: 1, credits: 2, placement: own, connected: true };
        let mut link = RdmaConnection::new(domain, shape(&settings)).expect("a link");
        let error = link.connect(0, connecting, bytes, 14, TIMEOUT).expect_err("nobody wants that");
        let rejected = error.get_ref().and_then(|inner| inner.downcast_ref::<Rejected>());
        (rejected.and_then(|rejected| Refusal::decode(&rejected.private_data)), mtu)
    };
    let greeting = |mtu| {
        let proof = key.proof_of_queue_pair(0, 0);
        RdmaGreeting {
            proof,
            channel: 0,
            queue_pair: QueuePair(0),
            queue_pairs: 1,
            credits: 2,
            placement: own,
            ack_timeout: 14,
            mtu,
            begin: 2,
            rtt: Span::ZERO,
        }
    };
    let (mut later, stranger) =
        (greeting(0).encode(), RdmaGreeting { proof: [7; 32], ..greeting(0) });
    later[7] = VERSION + 1;
    assert_eq!(greet(&later).0, Some(Refusal::Version(VERSION)));
    assert_eq!(greet(&stranger.encode()).0, None);
    let foreign = RdmaGreeting { placement: other, ..greeting(0) };
    assert_eq!(greet(&foreign.encode()).0, Some(Refusal::OtherFabric));
    if !is_iwarp() {
        let (refusal, mtu) = greet(&greeting(u16::MAX).encode());
        assert_eq!((refusal, mtu), (Some(Refusal::Mtu(4096)), 4096));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_port_that_is_gone_and_a_path_that_is_silent_are_told_apart() {
    let key = key();
    let (listener, _delivered) = listener(&key, 2);
    let gone = SocketAddr::new(listener.address().ip(), 9);
    let error =
        RdmaDialer::new(key.clone(), fabric()).open(gone, TIMEOUT).err().expect("nobody listens");
    assert!(
        error.code == ErrorCode::DataConnection && error.message.contains("refused"),
        "{error:?}"
    );
    let error = RdmaDialer::new(key, fabric())
        .open("10.9.9.9:9".parse().expect("an address"), TIMEOUT)
        .err()
        .expect("no way");
    assert!(
        matches!(error.code, ErrorCode::NoRdmaPath | ErrorCode::DataConnection)
            && error.hint.is_some(),
        "{error:?}"
    );
}

/// Both ends of a channel that was connected without rdma_cm, and what the node's end knows.
fn exchanged() -> (Exchange, RdmaChannel, Box<dyn Channel>) {
    wire();
    let key = key();
    let (mut node, terms) = (Exchange::new(key.clone()), terms(2));
    let fabric = Fabric { queue_pairs: 2, exchange: true, ..fabric() };
    let offered = RdmaDialer::new(key, fabric)
        .offer("10.9.1.2:9".parse().expect("an address"))
        .expect("an offer");
    let ip = "10.9.1.2".parse().expect("an address");
    let (honest, told) = node.accept(ip, terms, offered.text()).expect("it is taken");
    let error = node.accept(ip, terms, offered.text()).err().expect("a proof serves once");
    assert_eq!((error.code, error.fault), (ErrorCode::PermissionDenied, Fault::Refused));
    (node, offered.connect(&told).expect("a channel"), honest)
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn exchange_refuses_strangers_and_misses_a_lost_peer() {
    if is_iwarp() {
        eprintln!("skipped: iWARP is connected by rdma_cm alone");
        return;
    }
    let (mut node, mut gone, mut waits) = exchanged();
    gone.progress(None).expect("sent");
    for slot in pool(2, SLOT_LEN).expect("memory") {
        waits.offer(slot);
    }
    let stranger = Fabric { exchange: true, rtt: Span::ZERO, ..fabric() };
    let offered = RdmaDialer::new(key(), stranger)
        .offer("10.9.1.2:9".parse().expect("an address"))
        .expect("an offer");
    let error = node
        .accept("10.9.1.2".parse().expect("an address"), terms(2), offered.text())
        .err()
        .expect("another key");
    assert_eq!((error.code, error.fault), (ErrorCode::PermissionDenied, Fault::Refused));

    // Its queue pairs are destroyed without a word.
    gone.broken = true;
    drop(gone);
    let (tell, heard) = mpsc::channel();
    let driving = std::thread::spawn(move || drive(waits, tell));
    let error = heard.recv_timeout(2 * TIMEOUT).expect("an answer").expect_err("nothing came");
    let error = told(&error).expect("it says why");
    assert_eq!((error.code, error.fault), (ErrorCode::ChannelLost, Fault::Between), "{error}");
    let mut waits = driving.join().expect("it lives");
    assert_eq!(std::iter::from_fn(|| waits.withdraw()).count(), 2, "its slots are its own again");
}
