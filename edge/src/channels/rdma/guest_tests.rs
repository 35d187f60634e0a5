//! A peer that breaks the rules, against real verbs: two devices of soft-RoCE, or with
//! GUEST_RDMA=siw of soft-iWARP, in a guest of `lab/guest` (`make lab`).

use super::*;
use crate::channels::key::Key;
use crate::channels::told;
use crate::sys::pool::{Slot, pool};
use farline_core::gridftp::mode_e::Flags;
use farline_core::rdma::{Announcement, Credit, RdmaFailure};
use farline_core::units::{ErrorCode, Fault};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::{Once, mpsc};

pub(super) const SLOT_LEN: usize = 64 << 10;
/// A guest is slow, and its host may be busy.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Two devices with a wire between them, once for all tests of this process.
pub(in crate::channels) fn wire() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/verbs");
        let made = Command::new(script).status().expect("lab/verbs runs");
        assert!(made.success(), "two RDMA devices, as lab/verbs makes them in the guest: make lab");
    });
}

pub(in crate::channels) fn is_iwarp() -> bool {
    std::env::var_os("GUEST_RDMA").is_some_and(|kind| kind == "siw")
}

/// What an end sees whose request the other device refused for this reason: iWARP's requests are
/// done when they are sent, and its devices end the connection.
pub(super) fn refused(why: RdmaFailure) -> RdmaFailure {
    if is_iwarp() { RdmaFailure::Flushed } else { why }
}

pub(super) fn key() -> Key {
    Key::random().expect("random bytes")
}

/// What channels of two slots are like.
pub(super) fn fabric() -> Fabric {
    let (slot_len, rtt) = (Bytes(SLOT_LEN as u64), Span::from_millis(1));
    Fabric {
        queue_pairs: 1,
        credits: 2,
        elastic: false,
        exchange: false,
        read: false,
        slot_len,
        rtt,
    }
}

/// What a node gives to a channel.
pub(super) fn terms(credits: usize) -> Terms {
    Terms { begin: credits, credits, slot_len: Bytes(SLOT_LEN as u64) }
}

/// A listener at the far end of the wire, and what comes through it.
pub(super) fn listener(
    key: &Key,
    credits: usize,
) -> (RdmaListener, mpsc::Receiver<Box<dyn Channel>>) {
    wire();
    let (deliver, delivered) = mpsc::channel();
    let at = "10.9.1.2".parse().expect("an address");
    let listener = RdmaListener::open(at, key.clone(), terms(credits), move |channel| {
        deliver.send(channel).is_ok()
    });
    (listener.expect("a listener"), delivered)
}

/// The end that connected, to be used past its rules; and the honest end.
pub(super) fn ends(read: bool) -> (RdmaListener, RdmaChannel, Box<dyn Channel>) {
    let key = key();
    let (listener, delivered) = listener(&key, 2);
    let mut liar = RdmaDialer::new(key, Fabric { read, ..fabric() })
        .open(listener.address(), TIMEOUT)
        .expect("a channel");
    // The first word, without which the other end may not speak.
    liar.progress(None).expect("sent");
    (listener, liar, delivered.recv_timeout(TIMEOUT).expect("the other end"))
}

pub(super) fn offer_two(honest: &mut dyn Channel) {
    for slot in pool(2, SLOT_LEN).expect("memory") {
        honest.offer(slot);
    }
}

fn slot() -> Slot {
    pool(1, SLOT_LEN).expect("memory").pop().expect("a slot")
}

/// What the device says next that `wanted` takes; what it said behind that waits for the next time.
pub(super) fn next<T>(channel: &mut RdmaChannel, wanted: impl Fn(Completion) -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        let mut said = std::mem::take(&mut channel.completions).into_iter();
        let found = said.find_map(&wanted);
        channel.completions = said.collect();
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < until, "the device says nothing");
        let waited = channel.link.wait(
            &mut channel.completions,
            channel.breaker.as_fd(),
            Duration::from_secs(1),
        );
        waited.expect("a working device");
    }
}

/// The slots that the honest end advertises, which has to be driven meanwhile.
fn advertised(liar: &mut RdmaChannel) -> Vec<Credit> {
    next(liar, advertises)
}

/// Both slots of the honest end, from the record that advertises them.
pub(super) fn advertises(completion: Completion) -> Option<Vec<Credit>> {
    match completion {
        Completion::Record { bytes, .. } => match Record::decode(&bytes) {
            Ok(Record::Credits { credits, .. }) if credits.len() == 2 => Some(credits),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn failure(completion: Completion) -> Option<RdmaFailure> {
    match completion {
        Completion::Failed(failure) => Some(failure),
        _ => None,
    }
}

/// Announces and writes a block of `announced` bytes, `written` in truth, from the liar's own slot.
pub(super) fn write(liar: &mut RdmaChannel, to: Credit, announced: u32, written: u32) {
    let header = RecordHeader::new(&Header::data(0, announced.into()).encode()).expect("short");
    let record = Record::Block(Announcement { credit: to.number, len: announced, header }).encode();
    if is_iwarp() {
        write_only(liar, to, written);
        liar.link.post(0, &record).expect("posted");
    } else {
        liar.link.post(0, &record).expect("posted");
        write_only(liar, to, written);
    }
}

pub(super) fn write_only(liar: &mut RdmaChannel, to: Credit, len: u32) {
    let slot = slot();
    let index = slot.index();
    liar.link.hold(slot, Access::Sent).expect("registered");
    liar.link
        .write(0, index, len, to.address, to.key, (!is_iwarp()).then_some(to.number))
        .expect("posted");
}

/// Drives the honest end in a thread of its own: its arrivals in turn, the last of them an error.
pub(super) fn drive(
    mut honest: Box<dyn Channel>,
    arrivals: mpsc::Sender<Result<Arrival, io::Error>>,
) -> Box<dyn Channel> {
    loop {
        let arrival = honest.receive().transpose();
        let is_over = matches!(arrival, Some(Err(_) | Ok(Arrival::End { .. })));
        if let Some(arrival) = arrival {
            let _ = arrivals.send(arrival);
        }
        if is_over {
            return honest;
        }
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_key_opens_its_slot_alone_and_for_its_transfer_alone() {
    for crossed in [false, true] {
        let (_door, mut liar, mut honest) = ends(false);
        offer_two(&mut *honest);
        let (tell, told) = mpsc::channel();
        let driving = std::thread::spawn(move || drive(honest, tell));
        let credits = advertised(&mut liar);
        if crossed {
            let past = Credit {
                address: credits[0].address + u64::from(credits[0].len) - 10,
                ..credits[0]
            };
            write_only(&mut liar, past, 11);
        } else {
            write(&mut liar, credits[0], 1000, 1000);
            let header =
                RecordHeader::new(&Header::eof(1).with(Flags::EOD).encode()).expect("short");
            liar.link
                .post(0, &Record::Mark { credit: credits[1].number, blocks: 1, header }.encode())
                .expect("posted");
            assert!(matches!(told.recv_timeout(TIMEOUT), Ok(Ok(Arrival::Data { .. }))));
            assert!(matches!(told.recv_timeout(TIMEOUT), Ok(Ok(Arrival::End { .. }))));
            write_only(&mut liar, credits[0], 1);
        }
        assert_eq!(
            next(&mut liar, failure),
            refused(RdmaFailure::RemoteAccess),
            "crossed: {crossed}"
        );
        drop(liar);
        driving.join().expect("the honest end lives");
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn lies_about_sizes_and_slots_break_the_channel_first() {
    type Lie = fn(&mut RdmaChannel, &[Credit]);
    let mut lies: Vec<Lie> = vec![
        // Longer than the slot.
        |liar, credits| write(liar, credits[0], SLOT_LEN as u32 + 1, 1),
        // A slot that was not given.
        |liar, credits| write(liar, Credit { number: 77, ..credits[0] }, 1, 1),
        // No record.
        |liar, _| liar.link.post(0, b"GET / HTTP/1.1").expect("posted"),
    ];
    if !is_iwarp() {
        // What an iWARP device writes it tells nobody of: such a peer spoils its own block, which
        // the check and the digest find.
        let told: [Lie; 2] = [
            // Another number of bytes than announced.
            |liar, credits| write(liar, credits[0], 1000, 999),
            // Not announced.
            |liar, credits| write_only(liar, credits[0], 1),
        ];
        lies.extend(told);
    }
    for (number, lie) in lies.into_iter().enumerate() {
        assert_eq!(caught(false, lie), ErrorCode::RdmaBroken, "lie {number}");
    }
}

/// What an honest end that offers two slots says of a lie; its slots must be its own again.
fn caught(read: bool, lie: impl Fn(&mut RdmaChannel, &[Credit])) -> ErrorCode {
    let (_door, mut liar, mut honest) = ends(read);
    offer_two(&mut *honest);
    let (tell, heard) = mpsc::channel();
    let driving = std::thread::spawn(move || drive(honest, tell));
    let credits = advertised(&mut liar);
    lie(&mut liar, &credits);
    let error =
        heard.recv_timeout(TIMEOUT).expect("an answer").expect_err("no arrival came of a lie");
    let error = told(&error).unwrap_or_else(|| panic!("{error}"));
    assert_eq!(error.fault, Fault::There, "{error}");
    let mut honest = driving.join().expect("the honest end lives");
    assert_eq!(std::iter::from_fn(|| honest.withdraw()).count(), 2, "{error}");
    error.code
}

/// Says of a slot of the liar's that a block of `len` bytes may be read there, once `twist` has
/// changed where.
fn lend(liar: &mut RdmaChannel, credit: u32, len: u32, twist: impl Fn(&mut BlockSource)) {
    let (address, key) = liar.link.hold(slot(), Access::Read).expect("registered");
    let mut source = BlockSource { key, address };
    twist(&mut source);
    let header = RecordHeader::new(&Header::data(0, len.into()).encode()).expect("short");
    let record = Record::Filled(Announcement { credit, len, header }, source);
    liar.link.post(0, &record.encode()).expect("posted");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn lies_about_blocks_to_read_break_the_channel() {
    if is_iwarp() {
        eprintln!("skipped: what iWARP's ends say of these lies is not known yet");
        return;
    }
    type Lie = fn(&mut RdmaChannel, &[Credit]);
    let lies: [(ErrorCode, Lie); 6] = [
        // A byte past its own slot.
        (ErrorCode::RdmaAccess, |liar, credits| {
            lend(liar, credits[0].number, 11, |source| source.address += SLOT_LEN as u64 - 10)
        }),
        // A key that it never had.
        (ErrorCode::RdmaAccess, |liar, credits| {
            lend(liar, credits[0].number, 11, |source| source.key ^= 0xff_ff00)
        }),
        // Longer than the slot that it is to go to.
        (ErrorCode::RdmaBroken, |liar, credits| {
            lend(liar, credits[0].number, SLOT_LEN as u32 + 1, |_| {})
        }),
        // A credit that was not given.
        (ErrorCode::RdmaBroken, |liar, _| lend(liar, 77, 11, |_| {})),
        // A write, for which no bytes need no key.
        (ErrorCode::RdmaBroken, |liar, credits| write_only(liar, credits[0], 0)),
        // The end of a reading that nobody asked for.
        (ErrorCode::RdmaBroken, |liar, credits| {
            liar.link.post(0, &Record::Done(vec![credits[0].number]).encode()).expect("posted")
        }),
    ];
    for (number, (code, lie)) in lies.into_iter().enumerate() {
        assert_eq!(caught(true, lie), code, "lie {number}");
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn reads_expose_no_receiver_and_close_their_source_after() {
    let (_door, mut liar, mut honest) = ends(true);
    let credits = [0, 1].map(|number| Credit { number, key: 0, address: 0, len: SLOT_LEN as u32 });
    liar.link
        .post(0, &Record::Credits { transfer: 0, credits: credits.to_vec() }.encode())
        .expect("posted");
    let mut block = slot();
    block.fill(0x5a);
    let (is_back, back) = mpsc::channel();
    let driving = std::thread::spawn(move || {
        honest
            .send(Header::data(0, 1000), &Check::default(), block, 0..1000)
            .expect("it has a credit");
        honest.mark(Header::eof(1).with(Flags::EOD)).expect("and another");
        is_back
            .send(honest.sent(None).expect("the peer has read it").is_some())
            .expect("somebody waits");
        offer_two(&mut *honest);
        let _ = honest.receive();
    });
    let found = next(&mut liar, |completion| match completion {
        Completion::Record { bytes, .. } => match Record::decode(&bytes) {
            Ok(Record::Filled(announcement, source)) => Some((announcement, source)),
            _ => None,
        },
        _ => None,
    });
    let (Announcement { credit, len, .. }, source) = found;
    let into = slot();
    let index = into.index();
    liar.link.hold(into, Access::Fetched).expect("registered");
    let is_read = |completion| matches!(completion, Completion::SlotRead { .. }).then_some(());
    liar.link.read(0, index, len, source.address, source.key).expect("posted");
    next(&mut liar, is_read);
    liar.link.read(0, index, len, source.address, source.key).expect("posted");
    next(&mut liar, is_read);
    liar.link.post(0, &Record::Done(vec![credit]).encode()).expect("posted");
    assert!(back.recv_timeout(TIMEOUT).expect("an answer"), "its slot is its own again");
    assert_eq!(liar.link.release(index).expect("held")[..1000], [0x5a; 1000]);
    assert!(
        advertised(&mut liar).iter().all(|credit| (credit.address, credit.key) == (0, 0)),
        "no memory is told"
    );

    let into = slot();
    let index = into.index();
    liar.link.hold(into, Access::Fetched).expect("registered");
    liar.link.read(0, index, len, source.address, source.key).expect("posted");
    assert_eq!(next(&mut liar, failure), refused(RdmaFailure::RemoteAccess));
    drop(liar);
    driving.join().expect("the honest end lives");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_peer_that_takes_nothing_is_an_error_in_the_end() {
    let (_door, mut liar, mut honest) = ends(false);
    offer_two(&mut *honest);
    // Nobody drives the other end: its receives are used up by these.
    let receives = liar.settings.receives();
    let sends = liar.settings.sends();
    let empty = Record::Credits { transfer: 0, credits: Vec::new() }.encode();
    let mut posted = 1;
    let failed = loop {
        while posted < receives + 2 && liar.link.post(0, &empty).is_ok() {
            posted += 1;
        }
        assert!(posted > sends.min(receives), "{posted}");
        let done = next(&mut liar, |completion| match completion {
            Completion::Failed(failure) => Some(Some(failure)),
            Completion::RecordSent { .. } => Some(None),
            _ => None,
        });
        if let Some(failure) = done {
            break failure;
        }
    };
    assert_eq!(failed, refused(RdmaFailure::ReceiverNotReady));
}
