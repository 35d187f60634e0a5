//! Who connects and who waits to be asked: lost, repeated, forged and strange handshakes.

use super::*;
use crate::units::{Rng, Span, Time};
use std::net::SocketAddr;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn listener() -> UdtListener {
    UdtListener::new([7; 32], EndSettings::default(), 2)
}

/// The one reply of a listener, and whom it accepted.
fn replies(listener: &mut UdtListener) -> (Option<UdtHandshake>, Option<Established>) {
    let (mut reply, mut accepted) = (None, None);
    loop {
        match listener.poll() {
            ListenerOutput::Send { handshake, .. } => {
                assert!(reply.replace(handshake).is_none(), "two replies to one packet");
            }
            ListenerOutput::Accepted { established, .. } => accepted = Some(established),
            ListenerOutput::Wait => return (reply, accepted),
        }
    }
}

/// Two connectors, or one and a listener, by a path that loses; what both ends came to.
fn meet(seed: u64, loses: f64, rendezvous: bool) -> (Established, Established) {
    let mut rng = Rng::new(seed);
    let settings = EndSettings::default();
    let gives_up = Time::ZERO + Span::from_secs(600);
    let connector =
        |rng: &mut Rng| Connector::new(Time::ZERO, gives_up, address(1).ip(), &settings, rng);
    let (mut near, mut far, mut waits) = (connector(&mut rng), connector(&mut rng), listener());
    if rendezvous {
        (near, far) = (near.rendezvous(), far.rendezvous());
    }
    let (mut one, mut other) = (None, None);
    for step in 0..200_000 {
        let now = Time::ZERO + Span::from_millis(step);
        let (mut to_far, mut to_near) = (Vec::new(), Vec::new());
        match near.poll(now) {
            ConnectorOutput::Send(said) => to_far.push(said),
            ConnectorOutput::Connected(established) => one = Some(established),
            ConnectorOutput::Failed(why) => panic!("seed {seed}: {why:?}"),
            ConnectorOutput::Wait(_) => {}
        }
        if rendezvous {
            match far.poll(now) {
                ConnectorOutput::Send(said) => to_near.push(said),
                ConnectorOutput::Connected(established) => other = Some(established),
                ConnectorOutput::Failed(why) => panic!("seed {seed}: {why:?}"),
                ConnectorOutput::Wait(_) => {}
            }
        }
        for said in to_far.into_iter().filter(|_| rng.unit() >= loses) {
            match rendezvous {
                // A connected end says so to one that asks still.
                true if other.is_some() => to_near.extend(other.map(|end: Established| end.reply)),
                true => far.handle(now, &said),
                false => {
                    waits.handle(now, address(2), &said, false);
                    let (reply, accepted) = replies(&mut waits);
                    to_near.extend(reply);
                    other = other.or(accepted);
                }
            }
        }
        for said in to_near.into_iter().filter(|_| rng.unit() >= loses) {
            match one {
                Some(end) if rendezvous => far.handle(now, &end.reply),
                _ => near.handle(now, &said),
            }
        }
        if let (Some(one), Some(other)) = (one, other) {
            return (one, other);
        }
    }
    panic!("seed {seed}: no connection")
}

#[test]
fn ends_meet_however_much_is_lost() {
    for seed in 0..1000 {
        for rendezvous in [false, true] {
            let (one, other) = meet(seed, 0.5, rendezvous);
            assert_eq!(one.ends, (other.ends.1, other.ends.0), "seed {seed}");
            assert_eq!(one.first, (other.first.1, other.first.0), "seed {seed}");
            assert_eq!(one.packet_len, other.packet_len);
        }
    }
}

/// What a client says first, and with its cookie.
pub(super) fn asks() -> (UdtHandshake, Connector) {
    let settings = EndSettings::default();
    let end = Time::ZERO + Span::from_secs(3);
    let mut connector =
        Connector::new(Time::ZERO, end, address(1).ip(), &settings, &mut Rng::new(9));
    let ConnectorOutput::Send(said) = connector.poll(Time::ZERO) else { panic!("no request") };
    (said, connector)
}

#[test]
fn a_listener_believes_only_who_is_where_it_says() {
    let (request, _) = asks();
    let mut waits = listener();
    // Nobody is remembered, and 64 bytes are replied to with 64.
    for port in 0..1000 {
        waits.handle(Time::ZERO, address(port), &request, false);
        assert_eq!(replies(&mut waits).1, None);
    }
    waits.handle(Time::ZERO, address(5), &request, false);
    let cookie = replies(&mut waits).0.expect("a cookie").cookie;
    let shows = UdtHandshake { kind: HandshakeKind::Response, cookie, ..request };
    // Neither from another address, nor with another cookie, nor when it is old.
    waits.handle(Time::ZERO, address(6), &shows, false);
    assert_eq!(replies(&mut waits), (None, None));
    waits.handle(Time::ZERO, address(5), &UdtHandshake { cookie: cookie ^ 1, ..shows }, false);
    assert_eq!(replies(&mut waits), (None, None));
    let late = Time::ZERO + Span::from_secs(121);
    let mut later = listener();
    later.handle(late, address(5), &shows, false);
    assert_eq!(replies(&mut later), (None, None));
    // It itself, once; again it is told the same.
    waits.handle(Time::ZERO, address(5), &shows, false);
    let (reply, accepted) = replies(&mut waits);
    assert!(accepted.is_some());
    waits.handle(Time::ZERO, address(5), &shows, false);
    assert_eq!(replies(&mut waits), (reply, None));
}

#[test]
fn a_listener_that_is_full_or_asked_for_messages_says_so() {
    let (request, _) = asks();
    let mut waits = listener();
    for (port, is_stream, kind) in [
        (1, false, HandshakeKind::Refused(1002)),
        (2, true, HandshakeKind::Response),
        (3, true, HandshakeKind::Response),
        (4, true, HandshakeKind::Refused(1000)),
    ] {
        waits.handle(Time::ZERO, address(port), &request, false);
        let cookie = replies(&mut waits).0.expect("a cookie").cookie;
        let shows = UdtHandshake { kind: HandshakeKind::Response, cookie, is_stream, ..request };
        waits.handle(Time::ZERO, address(port), &shows, false);
        assert_eq!(replies(&mut waits).0.expect("a reply").kind, kind, "{port}");
    }
    waits.forget(address(2), request.from);
    waits.handle(Time::ZERO, address(4), &request, false);
    let cookie = replies(&mut waits).0.expect("a cookie").cookie;
    waits.handle(
        Time::ZERO,
        address(4),
        &UdtHandshake { kind: HandshakeKind::Response, cookie, ..request },
        false,
    );
    assert!(replies(&mut waits).1.is_some(), "there is room again");
}

/// What a listener replies to such a handshake with its cookie, and whom it accepted.
fn shown(
    waits: &mut UdtListener,
    port: u16,
    asks: UdtHandshake,
    is_known: bool,
) -> (HandshakeKind, Option<Established>) {
    let request = UdtHandshake { kind: HandshakeKind::Request, ..asks };
    waits.handle(Time::ZERO, address(port), &request, is_known);
    let cookie = replies(waits).0.expect("a cookie").cookie;
    let shows = UdtHandshake { kind: HandshakeKind::Response, cookie, ..asks };
    waits.handle(Time::ZERO, address(port), &shows, is_known);
    let (reply, accepted) = replies(waits);
    (reply.expect("a reply").kind, accepted)
}

#[test]
fn strangers_leave_room_for_who_is_known() {
    let (request, _) = asks();
    let mut waits = listener();
    for port in 1..9 {
        shown(&mut waits, port, request, false);
    }
    for (port, is_known, kind) in [
        (10, false, HandshakeKind::Refused(1000)),
        (11, true, HandshakeKind::Response),
        (12, true, HandshakeKind::Response),
        (13, true, HandshakeKind::Refused(1000)),
    ] {
        assert_eq!(shown(&mut waits, port, request, is_known).0, kind, "{port}");
    }
}

#[test]
fn packets_that_are_too_short_are_not_agreed_on() {
    let (request, _) = asks();
    for (packet_len, kind) in [
        (0, HandshakeKind::Refused(1002)),
        (575, HandshakeKind::Refused(1002)),
        (576, HandshakeKind::Response),
        (u32::MAX, HandshakeKind::Response),
    ] {
        let asks = UdtHandshake { packet_len, ..request };
        let (said, accepted) = shown(&mut listener(), 1, asks, false);
        assert_eq!(said, kind, "{packet_len}");
        let agreed = (kind == HandshakeKind::Response).then_some(packet_len.min(1500));
        assert_eq!(accepted.map(|established| established.packet_len), agreed);
    }
}

#[test]
fn two_listeners_that_hear_each_other_fall_silent() {
    let (request, _) = asks();
    let mut listeners = [listener(), UdtListener::new([9; 32], EndSettings::default(), 2)];
    // As if the other had asked: what is said to 0 is for whoever listens.
    let mut said = UdtHandshake { from: SocketId(0), ..request };
    for turn in 0..9 {
        let (own, other) = (usize::from(turn % 2), address(2 - turn % 2));
        listeners[own].handle(Time::ZERO, other, &said, false);
        match listeners[own].poll() {
            ListenerOutput::Send { to: SocketId(0), handshake, .. } => said = handshake,
            _ => return,
        }
    }
    panic!("each replies to the other for ever");
}

#[test]
fn a_client_believes_no_reply_to_what_it_did_not_say() {
    let (request, mut connector) = asks();
    // A response before the cookie, and its own request reflected.
    let response = UdtHandshake { kind: HandshakeKind::Response, from: SocketId(77), ..request };
    connector.handle(Time::ZERO, &response);
    assert!(matches!(connector.poll(Time::ZERO), ConnectorOutput::Wait(_)));
    connector.handle(Time::ZERO, &UdtHandshake { cookie: 5, ..request });
    let ConnectorOutput::Send(said) = connector.poll(Time::ZERO) else { panic!("no cookie") };
    assert_eq!((said.kind, said.cookie), (HandshakeKind::Response, 5));
    let other = UdtHandshake { first: request.first.after(1), ..response };
    connector.handle(Time::ZERO, &other);
    assert_eq!(connector.poll(Time::ZERO), ConnectorOutput::Failed(ConnectFailure::Nonsense));
    let (_, mut alone) = asks();
    let late = Time::ZERO + Span::from_secs(3);
    assert_eq!(alone.poll(late), ConnectorOutput::Failed(ConnectFailure::TimedOut));
}

#[test]
fn what_is_for_nobody_is_for_a_rendezvous_alone() {
    let (request, connector) = asks();
    assert!(connector.is_for(request.from) && !connector.is_for(SocketId(0)));
    assert!(!connector.is_for(SocketId(request.from.0 ^ 2)));
    let connector = connector.rendezvous();
    assert!(connector.is_for(request.from) && connector.is_for(SocketId(0)));
}

#[test]
fn a_refusal_before_the_cookie_is_nobodys() {
    let (request, mut connector) = asks();
    let refused = UdtHandshake { kind: HandshakeKind::Refused(1002), ..request };
    connector.handle(Time::ZERO, &refused);
    assert!(matches!(connector.poll(Time::ZERO), ConnectorOutput::Wait(_)));
    connector.handle(Time::ZERO, &UdtHandshake { cookie: 5, ..request });
    connector.poll(Time::ZERO);
    connector.handle(Time::ZERO, &refused);
    let failed = ConnectorOutput::Failed(ConnectFailure::Refused(1002));
    assert_eq!(connector.poll(Time::ZERO), failed);
}

#[test]
fn a_wrong_cookie_stalls_no_connect_whatever_is_lost() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (request, mut connector) = asks();
        let mut waits = listener();
        let spoofed_at = rng.below(1_000);
        let met = (0..2_900).any(|step| {
            let now = Time::ZERO + Span::from_millis(step);
            if step == spoofed_at {
                connector.handle(now, &UdtHandshake { cookie: 1, ..request });
            }
            let said = match connector.poll(now) {
                ConnectorOutput::Send(said) => said,
                ConnectorOutput::Connected(_) => return true,
                _ => return false,
            };
            // The first of the listener's words is lost, at whatever moment.
            waits.handle(now, address(2), &said, false);
            let reply = replies(&mut waits).0;
            if let Some(reply) = reply.filter(|_| rng.below(6) > 0) {
                connector.handle(now, &reply);
            }
            false
        });
        assert!(met, "seed {seed}, spoofed at {spoofed_at} ms");
    }
}
