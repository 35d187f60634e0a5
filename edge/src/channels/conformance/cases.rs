//! What every driver has to show.

use super::*;
use crate::channels::driver::{CongestionBy, Offered, Peer};
use crate::channels::offers::{Need, Tunnelled};
use crate::channels::ordered::ByteStream;
use crate::channels::{is_damage, is_final};
use farline_core::congestion::Algorithm;
use farline_core::gridftp::checked::{CHECKED_LEN, ZEROS, encode};
use farline_core::gridftp::mode_e::HEADER_LEN;
use farline_core::units::{ErrorCode, Rate};
use std::io::Write;
use std::time::Instant;

/// A case, and what it shows.
type Case = (&'static str, fn(&Bench));

/// A sender that gets nothing off for so long has no room left in front of it.
const FULL: Duration = Duration::from_millis(300);

pub(super) const CASES: [Case; 14] = [
    ("sizes around a block come whole, both ways, checked or not", sizes),
    ("ordered bytes come in order", order),
    ("slots come back, as many as went", depth),
    ("zeros that are left out come as zeros", zeros),
    ("a peer that breaks off between blocks", broken_between),
    ("a peer that breaks off in a header or a payload", broken_within),
    ("a header that is damaged", damaged),
    ("full windows end when they are broken", broken_full),
    ("a sender with a full window hears that its peer broke off", broken_far),
    ("who waits is broken off from another thread", cancelled),
    ("a wake returns from a wait, or is nothing", woken),
    ("further channels of a session", further),
    ("a stranger gets nothing", stranger),
    ("what capabilities deny", denied),
];

fn sizes(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    let (mut ours, mut theirs) = (slots(), slots());
    for checked in [false, true] {
        near.check_blocks(checked);
        far.check_blocks(checked);
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK + 3] {
            for back in [false, true] {
                let bytes = bytes(size);
                let (from, to) = if back { (&mut far, &mut near) } else { (&mut near, &mut far) };
                let (sent, received) = both(
                    || send(&mut **from, &bytes, &mut ours),
                    || receive(&mut **to, &mut theirs),
                );
                let what = format!("{size} bytes, checked {checked}, back {back}");
                sent.unwrap_or_else(|error| panic!("{what}: {error}"));
                let received = received.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(received.bytes == bytes, "{what}: other bytes came");
                assert_eq!(received.carried, size, "{what}");
                for (&offset, check) in received.offsets.iter().zip(&received.checks) {
                    let at = offset as usize;
                    let block = &bytes[at..size.min(at + BLOCK)];
                    let told = Check::of(block, [(at / BLOCK) as u8 + 1; 32]);
                    assert_eq!(*check, checked.then_some(told), "{what}");
                }
            }
        }
    }
}

fn order(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    let bytes = bytes(20 * BLOCK);
    let (sent, received) =
        both(|| send(&mut *near, &bytes, &mut slots()), || receive(&mut *far, &mut slots()));
    sent.expect("sent");
    let mut offsets = received.expect("received").offsets;
    if bench.carries() == Carries::RegisteredSlots {
        // They may come in any order, each once.
        offsets.sort_unstable();
    }
    assert_eq!(offsets, (0..20).map(|number| number * BLOCK as u64).collect::<Vec<_>>());
}

fn depth(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    assert!((1..=near.reach()).contains(&near.depth()), "{} of {}", near.depth(), near.reach());
    match bench.carries() {
        Carries::OrderedBytes => assert_eq!((near.depth(), near.reach()), (1, 1)),
        Carries::RegisteredSlots => assert!(near.depth() <= SLOTS, "more than was agreed"),
    }
    let (mut ours, mut theirs) = (slots(), slots());
    for _ in 0..3 {
        let (sent, received) = both(
            || send(&mut *near, &bytes(7 * BLOCK), &mut ours),
            || receive(&mut *far, &mut theirs),
        );
        sent.expect("sent");
        received.expect("received");
        let numbers = |slots: &[Slot]| {
            let mut numbers: Vec<_> = slots.iter().map(Slot::index).collect();
            numbers.sort_unstable();
            numbers
        };
        let all = (0..SLOTS).collect::<Vec<_>>();
        assert_eq!((numbers(&ours), numbers(&theirs)), (all.clone(), all));
    }
    assert_eq!((withdrawn(&mut *near), withdrawn(&mut *far)), (0, 0), "none is left inside");
}

fn zeros(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    assert!(bench.carries() == Carries::OrderedBytes || !near.leaves_zeros_out());
    near.check_blocks(true);
    far.check_blocks(true);
    if !near.leaves_zeros_out() {
        return;
    }
    let header = Header::data(0, BLOCK as u64).with(ZEROS);
    let (check, slot) = (Check::of(&[0; BLOCK], [0; 32]), slots().remove(0));
    let leave_out = || {
        near.send(header, &check, slot, 0..0)?;
        near.sent(None)?;
        near.mark(Header::eof(1).with(Flags::EOD))
    };
    // What they would be received into is not zero: who counted on the slot would see that.
    let mut theirs = slots();
    theirs.iter_mut().for_each(|slot| slot.fill(7));
    let (sent, received) = both(leave_out, || receive(&mut *far, &mut theirs));
    sent.expect("sent");
    let received = received.expect("received");
    assert!(received.bytes == [0; BLOCK] && received.carried == 0, "{} came", received.carried);
}

/// Asserts that a channel which holds `offered` slots says that its peer is gone, and gives them
/// back.
fn assert_gone(channel: &mut dyn Channel, offered: usize, what: &str) -> io::Error {
    let error = loop {
        match channel.receive() {
            Err(error) => break error,
            Ok(None) => {}
            Ok(Some(Arrival::Data { slot, .. })) => channel.offer(slot),
            Ok(Some(Arrival::End { .. })) => panic!("{what}: an end came that nobody sent"),
        }
    };
    assert_eq!(withdrawn(channel), offered, "{what}: {error}");
    error
}

fn broken_between(bench: &Bench) {
    for blocks in [0, 1] {
        let Ends { mut near, mut far, port: _port } = bench.open();
        let offered = far.depth();
        slots().into_iter().take(offered).for_each(|slot| far.offer(slot));
        let part = || {
            if blocks > 0 {
                let check = Check::of(&[0; BLOCK], [0; 32]);
                near.send(Header::data(0, BLOCK as u64), &check, slots().remove(0), 0..BLOCK)?;
                while near.sent(None)?.is_none() {}
            }
            near.handle()?.break_now();
            while near.withdraw().is_some() {}
            drop(near);
            io::Result::Ok(())
        };
        let (sent, error) =
            both(part, || assert_gone(&mut *far, offered, &format!("after {blocks} blocks")));
        sent.expect("sent");
        assert!(!is_final(&error), "another connection may do better: {error}");
    }
}

fn broken_within(bench: &Bench) {
    if bench.carries() == Carries::RegisteredSlots {
        // A device delivers a record and a block whole or not at all.
        return;
    }
    let wire = [&Header::data(0, BLOCK as u64).encode()[..], &bytes(BLOCK)].concat();
    for cut in [0, 1, HEADER_LEN - 1, HEADER_LEN, HEADER_LEN + 1, wire.len() - 1] {
        for politely in [false, true] {
            let (mut raw, mut far, _port) = raw(bench);
            far.offer(slots().remove(0));
            let part = || {
                raw.write_all(&wire[..cut])?;
                if politely {
                    raw.finish()?;
                }
                drop(raw);
                io::Result::Ok(())
            };
            let what = format!("after {cut} bytes, politely {politely}");
            let (sent, error) = both(part, || assert_gone(&mut *far, 1, &what));
            sent.expect("sent");
            assert!(!is_final(&error), "{what}: {error}");
        }
    }
}

/// A connection of the near end without MODE E, and the channel at the far end.
fn raw(bench: &Bench) -> (Box<dyn ByteStream>, Box<dyn Channel>, Port) {
    let port = bench.listen();
    let raw = bench.opener(&port.key, port.address()).open_bytes().expect("a connection");
    let far = port.next();
    (raw, far, port)
}

fn damaged(bench: &Bench) {
    if bench.carries() == Carries::RegisteredSlots {
        return;
    }
    let good = encode(&Header::data(0, 5), &Check::of(b"hello", [1; 32]));
    for at in [0, HEADER_LEN, CHECKED_LEN - 1] {
        let (mut raw, mut far, _port) = raw(bench);
        far.check_blocks(true);
        far.offer(slots().remove(0));
        let mut wire = good;
        wire[at] ^= 1;
        raw.write_all(&wire).expect("sent");
        let error = assert_gone(&mut *far, 1, &format!("byte {at}"));
        assert!(is_damage(&error), "byte {at}: {error}");
    }
    // Without checks a header that asks for what no transfer has is refused too.
    let (mut raw, mut far, _port) = raw(bench);
    far.offer(slots().remove(0));
    raw.write_all(&Header::data(0, 5).with(Flags::ERROR).encode()).expect("sent");
    let error = assert_gone(&mut *far, 1, "an error flag");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

fn broken_full(bench: &Bench) {
    let Ends { mut near, far, port: _port } = bench.open();
    let handle = near.handle().expect("a handle");
    let (began, has_begun) = mpsc::channel();
    let forever = move || {
        let mut ours = slots();
        let endless = vec![3; 64 * BLOCK];
        loop {
            let _ = began.send(());
            if let Err(error) = send(&mut *near, &endless, &mut ours) {
                return (error, ours.len() + withdrawn(&mut *near));
            }
        }
    };
    let ((_, back), ()) = both(forever, move || {
        has_begun.recv_timeout(TIMEOUT).expect("it sends");
        handle.break_now();
        drop(far);
    });
    assert_eq!(back, SLOTS, "every slot comes back");
}

/// What was received is read out after the break, as a thread in the middle of a block does: then
/// no byte is left unread at the end, for which a kernel would reset the connection by itself.
fn broken_far(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    let (progress, blocks) = mpsc::channel();
    let sending = std::thread::spawn(move || {
        let mut ours = slots();
        while send(&mut *near, &bytes(BLOCK), &mut ours).is_ok() {
            let _ = progress.send(());
        }
    });
    while blocks.recv_timeout(FULL).is_ok() {}
    let handle = far.handle().expect("a handle");
    handle.break_now();
    drop(handle);
    let offered = far.depth();
    slots().into_iter().take(offered).for_each(|slot| far.offer(slot));
    while let Ok(arrival) = far.receive() {
        match arrival {
            Some(Arrival::Data { slot, .. } | Arrival::End { slot, .. }) => far.offer(slot),
            None => {}
        }
    }
    while far.withdraw().is_some() {}
    drop(far);
    let until = Instant::now() + TIMEOUT / 2;
    while !sending.is_finished() {
        assert!(Instant::now() < until, "the sender waits on");
        std::thread::sleep(Duration::from_millis(5));
    }
    sending.join().expect("no panic");
}

fn cancelled(bench: &Bench) {
    let Ends { near, mut far, port: _port } = bench.open();
    let handle = far.handle().expect("a handle");
    let offered = far.depth();
    slots().into_iter().take(offered).for_each(|slot| far.offer(slot));
    let (_, ()) = both(|| assert_gone(&mut *far, offered, "cancelled"), || handle.break_now());
    drop(near);
}

fn woken(bench: &Bench) {
    let Ends { mut near, mut far, port: _port } = bench.open();
    let handle = far.handle().expect("a handle");
    let mut theirs = slots();
    for slot in theirs.drain(..far.depth()) {
        far.offer(slot);
    }
    if far.depth() > 1 {
        let (woken, ()) = both(|| far.receive(), || handle.wake());
        assert!(matches!(woken, Ok(None)), "{woken:?}");
    } else {
        handle.wake();
    }
    let (sent, came) = both(
        || send(&mut *near, &bytes(1), &mut slots()),
        || loop {
            if let Some(came) = far.receive()? {
                return io::Result::Ok(came);
            }
        },
    );
    sent.expect("sent");
    assert!(matches!(came, Ok(Arrival::Data { .. })), "{came:?}");
}

fn further(bench: &Bench) {
    let Ends { mut near, mut far, port } = bench.open();
    let (mut more, mut theirs) = bench.open_at(&port);
    for (from, to) in [(&mut near, &mut far), (&mut more, &mut theirs)] {
        let bytes = bytes(3 * BLOCK);
        let (sent, received) =
            both(|| send(&mut **from, &bytes, &mut slots()), || receive(&mut **to, &mut slots()));
        sent.expect("sent");
        assert!(received.expect("received").bytes == bytes);
    }
}

fn stranger(bench: &Bench) {
    let port = bench.listen();
    let key = Key::random().expect("random bytes");
    if let Ok(mut near) = bench.opener(&key, port.address()).open_one() {
        // It connected before the node looked.
        near.offer(slots().remove(0));
        assert_gone(&mut *near, 1, "a stranger");
    }
    assert!(port.arrived.try_recv().is_err(), "a stranger was let in");
    if !bench.dialer(&port.key).is_by_offer() {
        let near = bench.opener(&port.key, port.address()).open_one();
        let _near = near.expect("who has the key is let in");
        port.next();
    }
}

fn denied(bench: &Bench) {
    let driver = bench.stack.channel();
    let can = driver.capabilities;
    let Ends { near, port: _port, .. } = bench.open();
    let handle = near.handle().expect("a handle");
    let kernels = can.congestion == CongestionBy::Kernel;
    assert_eq!(handle.set_congestion(Algorithm::Reno.into()).is_ok(), kernels, "set a control");
    let named = can.congestion != CongestionBy::Below;
    assert_eq!(near.congestion().is_some(), named, "name its control");
    assert_eq!(near.tcp_info().is_some(), kernels, "TCP's figures");
    assert_eq!(handle.pace(Rate::from_bps(1 << 40)), kernels, "paced by the kernel");
    assert!(can.max_block.is_none_or(|most| most.0 >= BLOCK as u64));

    let registry = &bench.site.registry;
    let layer = registry.encrypting_layer().expect("a layer").name;
    let stands = registry.stack(&format!("{layer}+{}", driver.name)).is_ok();
    assert_eq!(stands, can.carries == Carries::OrderedBytes, "a layer over it");

    let bottom = registry.stack(driver.name).expect("a stack");
    let tunnel = match can.offered {
        Offered::AsTheControlConnection => Tunnelled::May,
        _ => Tunnelled::No,
    };
    let all = |_: &str| true;
    let nothing = |_: &str| false;
    let ranks = |encrypt, keyed, has: &dyn Fn(&str) -> bool| {
        let peer = Peer { server: "the node", has };
        let offers = registry.offers(&Need { asked: Some(&bottom), encrypt, keyed, tunnel, peer });
        let ranked = offers.map(|offers| offers.ranked).unwrap_or_default();
        assert!(!encrypt || ranked.iter().all(|offer| offer.stack.is_encrypted()), "{ranked:?}");
        ranked.iter().any(|offer| offer.stack.channel().name == driver.name)
    };
    // Whom a driver that encrypts by itself may trust, an encrypted control connection alone tells.
    let encrypt = can.encrypted && tunnel == Tunnelled::No;
    assert!(ranks(encrypt, true, &all), "nothing stands against it");
    assert_eq!(ranks(encrypt, false, &all), !can.needs_key, "without a key");
    assert_eq!(ranks(encrypt, true, &nothing), driver.features.is_empty(), "the peer has it not");
    assert_eq!(ranks(false, true, &all), !encrypt, "in the clear");
    let encrypts = can.encrypted || can.carries == Carries::OrderedBytes;
    assert_eq!(ranks(true, true, &all), encrypts, "encrypted");
    let port = bench.listen();
    let dialer = bench.dialer(&port.key);
    if !dialer.is_by_offer() && bench.transport().taker(&port.key).is_none() {
        let offered = dialer.offer(port.address());
        assert_eq!(
            refusal(offered).code,
            ErrorCode::Unsupported,
            "offers over the control connection"
        );
    }
}
