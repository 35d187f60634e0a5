//! The data path over real sockets and files.

use super::*;
use crate::channels::Channel;
use crate::channels::tcp::{TcpOptions, connect};
use crate::stores::{BytesSink, PosixSink, PosixSource, Root, Sink, Source, walk};
use crate::sys::pool::pool;
use farline_core::transfer::{Digests, Entry, EntryKind, Layout, Marks, Verdict};
use farline_core::units::{ByteRanges, Error, Fault, Rng};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Ends {
    sent: Result<Vec<Verdict>, Error>,
    received: Result<Digests, Error>,
}

/// Moves `layout` from `source` to `sink` over `count` loopback channels, with digests at both ends.
fn transfer(layout: &Arc<Layout>, source: &dyn Source, sink: &dyn Sink, count: usize, cancel: &Cancel) -> Ends {
    let options = TcpOptions::default();
    let acceptor = Acceptor::bind("127.0.0.1:0".parse().expect("an address"), None, None, &options).expect("a port");
    let address = acceptor.address();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let digests = Mutex::new(Digests::new(layout));
            let done = receive(ReceiveJob {
                layout: Arc::clone(layout),
                sink,
                wire_offset: 0,
                channels: Vec::new(),
                acceptor: Some(&acceptor),
                slots: pool(count + 3, BLOCK_LEN).expect("memory"),
                writers: 2,
                digests: Some(&digests),
                tally: &Tally::default(),
                written: &Mutex::new(ByteRanges::new()),
                pace: None,
                cancel: cancel.clone(),
            });
            done.map(|received| {
                assert_eq!((received.channel_count, received.channels.len(), received.slots.len()), (count, count, count + 3));
                digests.into_inner().expect("no thread panicked")
            })
        });
        let channels = (0..count)
            .map(|_| {
                connect(address, None, &options, Duration::from_secs(5)).map(|channel| Box::new(channel) as Box<dyn Channel>)
            })
            .collect::<Result<Vec<_>, _>>()
            .expect("loopback");
        let audit = Audit::new(layout);
        let sent = send(SendJob {
            layout: Arc::clone(layout),
            source,
            blocks: Box::new((0..layout.block_count()).map(|index| layout.block(index))),
            wire_offset: 0,
            channels,
            slots: pool(4, BLOCK_LEN).expect("memory"),
            marks: Marks::of_pool(4),
            readers: 2,
            audit: Some(&audit),
            tally: &Tally::default(),
            pace: None,
            cancel: Cancel::new(),
        });
        let received = receiving.join().expect("no thread panicked");
        Ends { sent: sent.map(|_| audit.finish().0), received }
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
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    plant(from.path());
    for channels in [1, 4] {
        let (root, layout) = tree(from.path());
        let source = PosixSource::new(root, Vec::new(), Arc::clone(&layout));
        let target = Arc::new(Root::open(to.path()).expect("open"));
        let sink = PosixSink::new(target, b"new/tree".to_vec(), Arc::clone(&layout), true);
        sink.make_folders().expect("folders");
        let ends = transfer(&layout, &source, &sink, channels, &Cancel::new());
        let (verdicts, digests) = (ends.sent.expect("sent"), ends.received.expect("received"));
        let landed = sink.land(Some((&verdicts, &digests)));
        assert_eq!((landed.files, landed.bytes, &landed.failures[..]), (8, layout.payload(), &[][..]));
        let (_, copy) = tree(&to.path().join("new/tree"));
        assert_eq!(copy.entries()[1..], layout.entries()[1..], "same paths, lengths, modes, times and links");
        for entry in layout.entries().iter().filter(|entry| !entry.is_empty()) {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(&entry.path);
            let copy = std::fs::read(to.path().join("new/tree").join(name)).expect("landed");
            assert!(copy == std::fs::read(from.path().join(name)).expect("source"), "{name:?} differs");
        }
    }
}

#[test]
fn a_file_whose_digest_differs_does_not_land_and_the_others_do() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    plant(from.path());
    let (root, layout) = tree(from.path());
    let source = PosixSource::new(root, Vec::new(), Arc::clone(&layout));
    let sink = PosixSink::new(Arc::new(Root::open(to.path()).expect("open")), Vec::new(), Arc::clone(&layout), true);
    sink.make_folders().expect("folders");
    let ends = transfer(&layout, &source, &sink, 2, &Cancel::new());
    let (mut verdicts, digests) = (ends.sent.expect("sent"), ends.received.expect("received"));
    let victim = layout.entries().iter().position(|entry| entry.len() == 1000).expect("planted");
    verdicts[victim] = Verdict::Read([0; 32]);
    let landed = sink.land(Some((&verdicts, &digests)));
    assert_eq!((landed.files, landed.failures.len()), (7, 1));
    assert_eq!(landed.failures[0].1.code, "digest-mismatch");
    let (_, copy) = tree(to.path());
    assert_eq!(copy.entries().len(), layout.entries().len() - 1, "neither the file nor its temporary is there");
}

#[test]
fn a_failing_sink_ends_both_ends_and_leaves_nothing() {
    struct Full;
    impl Sink for Full {
        fn write(&self, _: usize, offset: u64, _: &[u8]) -> Result<(), Error> {
            if offset < 3 << 20 { Ok(()) } else { Err(Error::new(Fault::Here, "no-space", "disk full")) }
        }
    }
    let layout = Arc::new(Layout::of_file(64 << 20, BLOCK_LEN));
    let ends = transfer(&layout, &crate::stores::ZeroSource, &Full, 2, &Cancel::new());
    assert_eq!(ends.received.expect_err("the sink is full").code, "no-space");
    assert_eq!(ends.sent.expect_err("the receiver hung up").code, "channel-lost");
}

#[test]
fn a_cancelled_transfer_ends_at_once() {
    struct Endless(Cancel);
    impl Sink for Endless {
        fn write(&self, _: usize, _: u64, _: &[u8]) -> Result<(), Error> {
            self.0.cancel(Error::new(Fault::You, "cancelled", "stopped by the user"));
            Ok(())
        }
    }
    let cancel = Cancel::new();
    let layout = Arc::new(Layout::of_file(1 << 40, BLOCK_LEN));
    let ends = transfer(&layout, &crate::stores::ZeroSource, &Endless(cancel.clone()), 3, &cancel);
    assert_eq!(ends.received.expect_err("cancelled").code, "cancelled");
    assert!(ends.sent.is_err());
}

#[test]
fn a_stranger_who_connects_and_says_nothing_does_not_hold_the_transfer_up() {
    let layout = Arc::new(Layout::new(
        vec![Entry { path: Vec::new(), kind: EntryKind::File { len: 5 }, mode: 0o644, modified_ns: 0 }],
        BLOCK_LEN,
    ));
    let acceptor =
        Acceptor::bind("127.0.0.1:0".parse().expect("an address"), None, None, &TcpOptions::default()).expect("a port");
    let address = acceptor.address();
    let _silent = std::net::TcpStream::connect(address).expect("loopback");
    let sink = BytesSink::new(100);
    let sender = std::thread::spawn(move || {
        use farline_core::gridftp::mode_e::{Flags, Header};
        let mut stream = std::net::TcpStream::connect(address).expect("loopback");
        stream.write_all(&Header::data(0, 5).encode()).expect("header");
        stream.write_all(b"hello").expect("payload");
        stream.write_all(&Header::eof(1).with(Flags::EOD).encode()).expect("end");
        stream
    });
    let received = receive(ReceiveJob {
        layout,
        sink: &sink,
        wire_offset: 0,
        channels: Vec::new(),
        acceptor: Some(&acceptor),
        slots: pool(4, BLOCK_LEN).expect("memory"),
        writers: 1,
        digests: None,
        tally: &Tally::default(),
        written: &Mutex::new(ByteRanges::new()),
        pace: None,
        cancel: Cancel::new(),
    });
    received.expect("the sender's channel is all there is to wait for");
    drop(sender.join());
    assert_eq!(sink.take(), b"hello");
}
