//! The data path over real sockets and files.

use super::*;
use crate::channels::Channel;
use crate::channels::socket::{TcpOptions, connect};
use crate::stores::{BytesSink, PosixSink, PosixSource, Root, Sink, Source, walk};
use crate::sys::pool::{Slot, pool, pool_within};
use crate::sys::pool_memory::PoolMemory;
use farline_core::gridftp::mode_e::{Flags, Header};
use farline_core::transfer::{DigestAlgorithm, DigestVerdict, Digests, Entry, Layout, Watermarks};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Rng};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_list_is_cut_so_that_each_channel_carries_some() {
    for (len, channels, blocks) in
        [(0, 4, 0), (10, 4, 1), (1_030_000, 10, 8), (1_030_000, 1, 1), (40 << 20, 16, 40)]
    {
        let layout = list_layout(len, channels);
        assert_eq!((layout.payload(), layout.block_count()), (len as u64, blocks), "{channels}");
        assert!(layout.block_len() <= BLOCK_LEN, "a slot holds no more");
    }
}

const CHECKED: Integrity =
    Integrity { checks: true, digests: Some(DigestAlgorithm::Crc64Nvme), short_zeros: false };

pub(super) fn acceptor() -> Acceptor {
    Acceptor::bind(
        "127.0.0.1:0".parse().expect("an address"),
        None,
        DataPeers::any(),
        &TcpOptions::default(),
    )
    .expect("a port")
}

/// Receives five bytes over a TCP channel, with `channels` next to it.
pub(super) fn receive_hello(
    acceptor: &Acceptor,
    channels: Vec<Box<dyn Channel>>,
    slots: Vec<Slot>,
) -> Vec<Slot> {
    let address = acceptor.address();
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("loopback");
        stream.write_all(&Header::data(0, 5).encode()).expect("header");
        stream.write_all(b"hello").expect("payload");
        stream.write_all(&Header::eof(1).with(Flags::EOD).encode()).expect("end");
        stream
    });
    let sink = BytesSink::new(5);
    let received = receive(ReceiveJob {
        layout: Arc::new(Layout::of_file(5, BLOCK_LEN)),
        sink: &sink,
        wire_offset: 0,
        channels,
        acceptor: Some(acceptor),
        slots,
        writers: 1,
        digests: None,
        tally: &Tally::default(),
        held: &Mutex::default(),
        integrity: Integrity::default(),
        on_resize: None,
        pace: None,
        unsent: None,
        cancel: Cancel::new(),
    });
    drop(sender.join());
    assert_eq!(sink.take(), b"hello");
    received.expect("the sender's channel is all there is to wait for").slots
}

#[test]
fn a_short_pool_takes_as_many_channels_as_a_whole_one() {
    const CHANNELS: u64 = 10;
    let memory = PoolMemory::new(Bytes(0));
    let slots = pool_within(&memory, (3, 64), BLOCK_LEN, BLOCK_LEN).expect("memory");
    assert_eq!((slots.len(), memory.is_short()), (3, true));
    let acceptor = acceptor();
    let address = acceptor.address();
    let sender = std::thread::spawn(move || {
        let connect = |_| TcpStream::connect(address).expect("loopback");
        let mut streams: Vec<TcpStream> = (0..CHANNELS).map(connect).collect();
        for (at, stream) in (0..CHANNELS).zip(&mut streams) {
            stream.write_all(&Header::data(at, 1).encode()).expect("header");
            stream.write_all(b"x").expect("payload");
            let end = if at == 0 { Header::eof(CHANNELS).with(Flags::EOD) } else { Header::eod() };
            stream.write_all(&end.encode()).expect("end");
        }
        streams
    });
    let sink = BytesSink::new(CHANNELS as usize);
    let received = receive(ReceiveJob {
        layout: Arc::new(Layout::of_file(CHANNELS, BLOCK_LEN)),
        sink: &sink,
        wire_offset: 0,
        channels: Vec::new(),
        acceptor: Some(&acceptor),
        slots,
        writers: 1,
        digests: None,
        tally: &Tally::default(),
        held: &Mutex::default(),
        integrity: Integrity::default(),
        on_resize: None,
        pace: None,
        unsent: None,
        cancel: Cancel::new(),
    });
    drop(sender.join());
    let received = received.expect("each channel has its slot");
    assert_eq!(sink.take(), [b'x'; CHANNELS as usize]);
    // A slot for each, and one to write from.
    assert_eq!((received.slots.len(), received.channels.len()), (11, 10));
    assert_eq!(memory.taken(), 11 * BLOCK_LEN as u64);
}

struct Ends {
    sent: Result<Vec<DigestVerdict>, Error>,
    received: Result<Digests, Error>,
    held: ByteRanges,
    /// Blocks, headers.
    bad: (u64, u64),
    /// Bytes that the channels brought.
    carried: u64,
}

/// Moves `layout` from `source` to `sink` over `count` loopback channels, with digests at both
/// ends.
fn transfer(
    layout: &Arc<Layout>,
    source: &dyn Source,
    sink: &dyn Sink,
    count: usize,
    cancel: &Cancel,
) -> Ends {
    let through = |address| address;
    transfer_through(layout, source, sink, count, cancel, CHECKED, through)
}

/// The same through something that stands in the way.
fn transfer_through(
    layout: &Arc<Layout>,
    source: &dyn Source,
    sink: &dyn Sink,
    count: usize,
    cancel: &Cancel,
    integrity: Integrity,
    through: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Ends {
    let acceptor = acceptor();
    let address = through(acceptor.address());
    let (held, tally) = (Mutex::default(), Tally::default());
    std::thread::scope(|scope| {
        let (acceptor, held, tally, cancel) = (acceptor, &held, &tally, cancel.clone());
        // The port goes with the receiver: whom it has not accepted by then hears of it.
        let receiving = scope.spawn(move || {
            let digests = Mutex::new(Digests::new(layout, integrity.digests));
            let done = receive(ReceiveJob {
                layout: Arc::clone(layout),
                sink,
                wire_offset: 0,
                channels: Vec::new(),
                acceptor: Some(&acceptor),
                slots: pool(count + 3, BLOCK_LEN).expect("memory"),
                writers: 2,
                digests: Some(&digests),
                tally,
                held,
                integrity,
                on_resize: None,
                pace: None,
                unsent: None,
                cancel,
            });
            done.map(|received| {
                assert_eq!(received.slots.len(), count + 3, "no slot is lost");
                assert_eq!(received.channels.len(), count - usize::from(received.lost));
                digests.into_inner().expect("no thread panicked")
            })
        });
        let channels = (0..count)
            .map(|_| {
                connect(address, None, &TcpOptions::default(), Duration::from_secs(5))
                    .map(|channel| Box::new(channel) as Box<dyn Channel>)
            })
            .collect::<Result<Vec<_>, _>>()
            .expect("loopback");
        let audit = Audit::new(layout, integrity.digests);
        let sent = send(SendJob {
            layout: Arc::clone(layout),
            source,
            blocks: WantedBlocks::all((0..layout.block_count()).map(|index| layout.block(index))),
            wire_offset: 0,
            channels,
            slots: pool(4, BLOCK_LEN).expect("memory"),
            watermarks: Watermarks::of_pool(4),
            readers: 2,
            audit: Some(&audit),
            integrity,
            tally: &Tally::default(),
            pace: None,
            tuning: None,
            start: None,
            on_resize: None,
            held: None,
            yields: None,
            cancel: Cancel::new(),
        });
        let received = receiving.join().expect("no thread panicked");
        let held = held.lock().expect("no thread panicked").clone();
        Ends {
            sent: sent.map(|_| audit.finish().0),
            received,
            held,
            bad: (tally.bad_blocks(), tally.bad_headers()),
            carried: tally.on_wire(),
        }
    })
}

/// Files of sizes around every boundary, two levels deep, one of them empty, and a link.
fn plant(folder: &Path) {
    let mut rng = Rng::new(11);
    std::fs::create_dir_all(folder.join("deep/er")).expect("folders");
    let sizes = [0, 1, 1000, BLOCK_LEN - 1, BLOCK_LEN, BLOCK_LEN + 1, 3 * BLOCK_LEN + 77, 12];
    for (i, size) in sizes.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..size).map(|_| rng.next_u64() as u8).collect();
        let below = ["", "deep", "deep/er"][i % 3];
        std::fs::write(folder.join(below).join(format!("file {i}\n%")), bytes).expect("written");
    }
    std::os::unix::fs::symlink("deep/er", folder.join("link")).expect("linked");
}

fn tree(path: &Path) -> (Arc<Root>, Arc<Layout>) {
    let root = Arc::new(Root::open(path).expect("open"));
    let (entries, problems) = walk(&root, b"").expect("walked");
    assert_eq!(problems, []);
    (root, Arc::new(Layout::new(entries, BLOCK_LEN)))
}

#[test]
fn a_tree_lands_whole_with_digests_modes_and_times() {
    let (from, to) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    plant(from.path());
    for channels in [1, 4] {
        let (root, layout) = tree(from.path());
        let source = PosixSource::new(root, Vec::new(), Arc::clone(&layout));
        let target = Arc::new(Root::open(to.path()).expect("open"));
        let sink = PosixSink::new(target, b"new/tree".to_vec(), Arc::clone(&layout), true);
        sink.make_folders().expect("folders");
        let ends = transfer(&layout, &source, &sink, channels, &Cancel::new());
        let (verdicts, digests) = (ends.sent.expect("sent"), ends.received.expect("received"));
        let landed = sink.land(Some((&verdicts.into_iter().collect(), &digests)));
        assert_eq!(
            (landed.files, landed.bytes, &landed.failures[..]),
            (8, layout.payload(), &[][..])
        );
        let (_, copy) = tree(&to.path().join("new/tree"));
        // The time of its last change nobody can give to a copy.
        let copied = |layout: &Layout| {
            let entries = layout.entries()[1..].iter().cloned();
            entries.map(|entry| Entry { changed_ns: 0, ..entry }).collect::<Vec<_>>()
        };
        assert_eq!(copied(&copy), copied(&layout), "same paths, lengths, modes, times and links");
        for entry in layout.entries().iter().filter(|entry| !entry.is_empty()) {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(&entry.path);
            let copy = std::fs::read(to.path().join("new/tree").join(name)).expect("landed");
            assert!(
                copy == std::fs::read(from.path().join(name)).expect("source"),
                "{name:?} differs"
            );
        }
    }
}

#[test]
fn a_file_whose_digest_differs_does_not_land_and_the_others_do() {
    let (from, to) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    plant(from.path());
    let (root, layout) = tree(from.path());
    let source = PosixSource::new(root, Vec::new(), Arc::clone(&layout));
    let sink = PosixSink::new(
        Arc::new(Root::open(to.path()).expect("open")),
        Vec::new(),
        Arc::clone(&layout),
        true,
    );
    sink.make_folders().expect("folders");
    let ends = transfer(&layout, &source, &sink, 2, &Cancel::new());
    let (mut verdicts, digests) = (ends.sent.expect("sent"), ends.received.expect("received"));
    let victim = layout.entries().iter().position(|entry| entry.len() == 1000).expect("planted");
    verdicts[victim] = DigestVerdict::Read([0; 32]);
    let landed = sink.land(Some((&verdicts.into_iter().collect(), &digests)));
    assert_eq!((landed.files, landed.failures.len()), (7, 1));
    assert_eq!(landed.failures[0].1.code, ErrorCode::DigestMismatch);
    let (_, copy) = tree(to.path());
    assert_eq!(
        copy.entries().len(),
        layout.entries().len() - 1,
        "neither the file nor its temporary is there"
    );
}

#[test]
fn a_failing_sink_ends_both_ends_and_leaves_nothing() {
    struct Full;
    impl Sink for Full {
        fn write(&self, _: usize, offset: u64, _: &[u8]) -> Result<(), Error> {
            if offset < 3 << 20 {
                Ok(())
            } else {
                Err(Error::new(Fault::Here, ErrorCode::NoSpace, "disk full"))
            }
        }
    }
    let layout = Arc::new(Layout::of_file(64 << 20, BLOCK_LEN));
    let ends = transfer(&layout, &crate::stores::ZeroSource, &Full, 2, &Cancel::new());
    assert_eq!(ends.received.expect_err("the sink is full").code, ErrorCode::NoSpace);
    assert_eq!(ends.sent.expect_err("the receiver hung up").code, ErrorCode::ChannelLost);
}

#[test]
fn a_cancelled_transfer_ends_at_once() {
    struct Endless(Cancel);
    impl Sink for Endless {
        fn write(&self, _: usize, _: u64, _: &[u8]) -> Result<(), Error> {
            self.0.cancel(Error::new(Fault::You, ErrorCode::Interrupted, "stopped by the user"));
            Ok(())
        }
    }
    let cancel = Cancel::new();
    let layout = Arc::new(Layout::of_file(1 << 40, BLOCK_LEN));
    // Guarded, a channel that was never accepted would wait for the control channel's word.
    let (sink, plain) = (Endless(cancel.clone()), Integrity { checks: false, ..CHECKED });
    let ends = transfer_through(
        &layout,
        &crate::stores::ZeroSource,
        &sink,
        3,
        &cancel,
        plain,
        |address| address,
    );
    assert_eq!(ends.received.expect_err("cancelled").code, ErrorCode::Interrupted);
    assert!(ends.sent.is_err());
}

/// Carries connections on, with one bit of the first of them turned at byte `at`.
fn flipping(at: usize) -> impl FnOnce(SocketAddr) -> SocketAddr {
    move |to| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for (i, from) in listener.incoming().flatten().enumerate() {
                let (mut from, mut to) = (from, TcpStream::connect(to).expect("loopback"));
                std::thread::spawn(move || {
                    let (mut buffer, mut passed) = (vec![0; 1 << 16], 0);
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        if i == 0 && (passed..passed + read).contains(&at) {
                            buffer[at - passed] ^= 4;
                        }
                        passed += read;
                        if to.write_all(&buffer[..read]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }
}

#[test]
fn a_bad_block_is_counted_and_a_bad_header_costs_its_channel() {
    let layout = Arc::new(Layout::of_file(24 << 20, BLOCK_LEN));
    for (at, bad, lost) in [(57 + 5000, (1, 0), 1..=1), (57 + BLOCK_LEN + 3, (0, 1), 1..=20)] {
        let sink = BytesSink::new(24 << 20);
        let source = crate::stores::MemorySource::new();
        let ends =
            transfer_through(&layout, &source, &sink, 3, &Cancel::new(), CHECKED, flipping(at));
        let digests = ends.received.expect("the others go on");
        assert_eq!(ends.bad, bad, "byte {at}");
        let missing = (layout.payload() - ends.held.total()) / BLOCK_LEN as u64;
        assert!(lost.contains(&missing), "byte {at}: {missing} blocks are missing");
        assert_eq!(digests.digest(0), None, "what is not whole has no digest");
        let came = sink.take();
        let mut expected = vec![0; BLOCK_LEN];
        for range in ends.held.iter().flat_map(|range| range.step_by(BLOCK_LEN)) {
            source.read(0, range, &mut expected).expect("memory");
            assert!(
                came[range as usize..][..BLOCK_LEN] == expected,
                "the block at {range} is not what was sent"
            );
        }
    }
}

#[test]
fn blocks_of_zeros_cross_as_headers_and_count_as_bytes() {
    // Data, two blocks of zeros, a block whose last byte alone is none, zeros to the end.
    let mut bytes = vec![0; 6 * BLOCK_LEN + 3];
    bytes[..BLOCK_LEN].fill(7);
    bytes[4 * BLOCK_LEN - 1] = 1;
    let layout = Arc::new(Layout::of_file(bytes.len() as u64, BLOCK_LEN));
    let whole = blake3::hash(&bytes);
    for (short_zeros, blocks) in [(true, 2), (false, 7)] {
        let (source, sink) =
            (crate::stores::BytesSource(bytes.clone()), BytesSink::new(bytes.len()));
        let digests = Some(DigestAlgorithm::Blake3);
        let integrity = Integrity { short_zeros, digests, ..CHECKED };
        let ends =
            transfer_through(&layout, &source, &sink, 2, &Cancel::new(), integrity, |address| {
                address
            });
        assert_eq!(ends.received.expect("received").digest(0), Some(*whole.as_bytes()));
        assert_eq!(
            (ends.sent.expect("sent"), ends.bad),
            (vec![DigestVerdict::Read(*whole.as_bytes())], (0, 0))
        );
        assert_eq!(ends.held.total(), bytes.len() as u64);
        assert!(sink.take() == bytes);
        let payload = ends.carried.checked_sub(7 * 57).expect("seven headers came");
        assert_eq!(payload.div_ceil(BLOCK_LEN as u64), blocks, "{payload} bytes crossed");
    }
}

#[test]
fn slots_that_stood_for_zeros_hold_data_after_and_before() {
    let mut rng = Rng::new(11);
    for round in 0..4 {
        // Many more blocks than slots, of either kind in any order.
        let mut bytes = vec![0; 60 * BLOCK_LEN + 99];
        for block in bytes.chunks_mut(BLOCK_LEN) {
            if rng.below(2) == 0 {
                block.fill(rng.below(255) as u8 + 1);
            }
        }
        let layout = Arc::new(Layout::of_file(bytes.len() as u64, BLOCK_LEN));
        let (source, sink) =
            (crate::stores::BytesSource(bytes.clone()), BytesSink::new(bytes.len()));
        let digests = DigestAlgorithm::ALL[round % 2];
        let integrity = Integrity { short_zeros: true, digests: Some(digests), checks: true };
        let ends =
            transfer_through(&layout, &source, &sink, 2, &Cancel::new(), integrity, |address| {
                address
            });
        let digests = ends.received.expect("received");
        assert_eq!(ends.sent.expect("sent"), digests.verdicts(), "both saw the same");
        assert_eq!(ends.bad, (0, 0));
        assert!(sink.take() == bytes, "round {round}");
    }
}

#[test]
fn a_silent_stranger_does_not_hold_the_transfer_up() {
    let acceptor = acceptor();
    let _silent = TcpStream::connect(acceptor.address()).expect("loopback");
    receive_hello(&acceptor, Vec::new(), pool(4, BLOCK_LEN).expect("memory"));
}
