//! What every store has to show.

use super::*;
use farline_core::units::{ByteRanges, ErrorCode, Fault};
use std::collections::BTreeSet;
use std::io::Read;

/// A case, and what it shows.
type Case = (&'static str, fn(&Site));

pub(super) const CASES: [Case; 13] = [
    ("files around a block land whole", sizes),
    ("parts come in the order that it says", order),
    ("zeros that come as such are zeros there", zeros),
    ("a tree lands with its folders, and is listed so", trees),
    ("what has another digest does not land", digests),
    ("until it lands, what was there stays", until_landed),
    ("what is to be left alone is", left),
    ("a stream has no length beforehand", unknown_length),
    ("what is read is the same every time, anywhere", rereads),
    ("a copy that broke off goes on, or begins anew", broken_off),
    ("what was refused is not kept", refused),
    ("one transfer at a time writes to a place", busy),
    ("what it cannot is refused", denied),
];

/// One file, where there is no other: its path is the start itself.
fn one(bytes: Vec<u8>) -> [(&'static str, Vec<u8>); 1] {
    [("", bytes)]
}

fn sizes(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
        let content = bytes(len, 1);
        let landed = site.bring(&one(content.clone()));
        assert_eq!((landed.files, landed.bytes), (1, len as u64), "{landed:?}");
        assert!(landed.failures.is_empty(), "{landed:?}");
        if site.capabilities.keeps {
            assert!(site.read("") == Some(content.clone()), "{len} bytes differ");
        }
        if site.is_ordered() {
            assert!((site.taken)() == content, "{len} bytes went out otherwise");
        }
    }
}

fn order(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    let content = bytes(5 * BLOCK + 7, 2);
    let mut writing = site.write(&one(content.clone()));
    writing.sink.open(0).expect("room");
    assert_eq!(writing.sink.wants_order(), site.is_ordered());
    if site.is_ordered() {
        let error = writing.sink.write(0, BLOCK as u64, &content[BLOCK..]).expect_err("a gap");
        assert_eq!(error.code, ErrorCode::OutOfOrder);
        return;
    }
    for block in writing.blocks().into_iter().rev() {
        writing.put(block);
    }
    assert_eq!(writing.land().files, 1);
    drop(writing);
    // And by several threads at once.
    let writing = site.write(&one(content.clone()));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (sink, content) = (&*writing.sink, &content);
            scope.spawn(move || {
                for (number, part) in content.chunks(100).enumerate().skip(thread).step_by(3) {
                    sink.write(0, number as u64 * 100, part).expect("written");
                }
            });
        }
    });
    let landed = writing.sink.land(None);
    assert_eq!((landed.files, landed.failures.len()), (1, 0));
    if site.capabilities.keeps {
        assert!(site.read("") == Some(content), "bytes differ");
    }
}

fn zeros(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    // Of a file that is too short for a hole, and of one that is not; a pipe that nobody reads
    // holds no more.
    let long = if site.is_ordered() { 6 } else { 150_000_usize.div_ceil(BLOCK) };
    for blocks in [5, long] {
        let mut content = bytes(blocks * BLOCK + 9, 6);
        content[BLOCK..3 * BLOCK].fill(0);
        content[4 * BLOCK..].fill(0);
        let landed = site.bring(&one(content.clone()));
        assert_eq!((landed.files, landed.failures.len()), (1, 0), "{landed:?}");
        if site.capabilities.keeps {
            assert!(site.read("") == Some(content.clone()), "{blocks} blocks differ");
        }
        if site.is_ordered() {
            assert!((site.taken)() == content, "{blocks} blocks went out otherwise");
        }
    }
}

fn trees(site: &Site) {
    if !site.capabilities.paths {
        return;
    }
    let files = [
        ("a", bytes(10, 3)),
        ("b/c/d", bytes(BLOCK + 1, 4)),
        ("b/empty", Vec::new()),
        ("b-", bytes(3, 5)),
    ];
    let landed = site.bring(&files);
    assert_eq!((landed.files, landed.failures.len()), (4, 0), "{landed:?}");
    if !site.capabilities.keeps {
        return;
    }
    let listing = site.store.list(START).expect("listed");
    assert!(listing.problems.is_empty(), "{:?}", listing.problems);
    let paths: Vec<&[u8]> = listing.entries.iter().map(|entry| &entry.path[..]).collect();
    let expected: [&[u8]; 7] = [b"", b"a", b"b", b"b-", b"b/c", b"b/c/d", b"b/empty"];
    assert_eq!(BTreeSet::from_iter(paths.clone()), BTreeSet::from(expected));
    assert_eq!(paths.len(), expected.len(), "each once");
    for (index, entry) in listing.entries.iter().enumerate() {
        let is_folder = matches!(&entry.path[..], b"" | b"b" | b"b/c");
        assert_eq!(entry.kind == EntryKind::Directory, is_folder, "{entry:?}");
        if let Some(at) = entry.path.iter().rposition(|&byte| byte == b'/') {
            assert!(paths[..index].contains(&&entry.path[..at]), "{entry:?} before its folder");
        }
    }
    for (path, content) in files {
        assert!(site.read(path) == Some(content), "{path} differs");
    }
    let below = site.store.list(b"run/7/b/c").expect("a folder in it").entries;
    assert_eq!(below.len(), 2, "{below:?}");
    let error = site.store.list(b"run/8").expect_err("it is not there");
    assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::PathNotFound));
}

fn digests(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    let (good, bad) = (bytes(BLOCK + 9, 6), bytes(2 * BLOCK, 7));
    let files = match site.capabilities.paths {
        true => vec![("bad", bad), ("good", good.clone())],
        false => one(bad).to_vec(),
    };
    let mut writing = site.write(&files);
    writing.sink.make_folders().expect("folders");
    writing.bring(|_| true);
    let bad = writing.index(files[0].0);
    let mut verdicts = writing.digests.verdicts();
    // Another file's, or that of one whose sender could not read it.
    verdicts[bad] = DigestVerdict::Unreadable;
    let landed = writing.land_as(&verdicts);
    let codes: Vec<_> = landed.failures.iter().map(|(_, error)| error.code).collect();
    assert_eq!(
        (landed.files as usize, codes),
        (files.len() - 1, vec![ErrorCode::SourceUnreadable])
    );
    drop(writing);
    if site.capabilities.keeps && site.capabilities.paths {
        assert_eq!(site.read("bad"), None, "it landed all the same");
        assert!(site.read("good") == Some(good), "the other differs");
    }
}

fn until_landed(site: &Site) {
    if !site.capabilities.keeps {
        return;
    }
    let before = bytes(BLOCK, 8);
    assert_eq!(site.bring(&one(before.clone())).files, 1);
    let mut writing = site.write(&one(bytes(3 * BLOCK, 9)));
    writing.bring(|_| true);
    assert!(site.read("") == Some(before.clone()), "a part of the new one is seen");
    drop(writing);
    assert!(site.read("") == Some(before), "what was broken off took its place");
    if site.capabilities.paths {
        let files = site.store.list(b"run").expect("listed").entries;
        assert_eq!(files.len(), 2, "something was left: {files:?}");
    }
}

fn left(site: &Site) {
    if !(site.capabilities.keeps && site.capabilities.paths) {
        return;
    }
    let old = [("a", bytes(100, 10)), ("b", bytes(200, 11))];
    assert_eq!(site.bring(&old).files, 2);
    let new = [("a", bytes(150, 12)), ("b", bytes(250, 13))];
    let mut writing = site.write(&new);
    writing.sink.leave(&BTreeSet::from([writing.index("b")]));
    writing.sink.make_folders().expect("folders");
    let a = writing.index("a");
    let pieces: Vec<_> = writing.blocks().into_iter().collect();
    pieces.into_iter().for_each(|block| writing.put(block));
    let landed = writing.land();
    assert_eq!((landed.files, landed.failures.len()), (1, 0), "{a}: {landed:?}");
    drop(writing);
    assert!(site.read("a") == Some(new[0].1.clone()), "a did not land");
    assert!(site.read("b") == Some(old[1].1.clone()), "b did not stay");
}

fn unknown_length(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    let content = bytes(2 * BLOCK + 3, 14);
    let layout = Arc::new(Layout::of_file(1 << 61, BLOCK));
    let options = LandingOptions::default();
    let sink = site.store.sink(site.start(), &layout, options).expect("a sink");
    sink.open(0).expect("room");
    for (number, part) in content.chunks(BLOCK).enumerate() {
        sink.write(0, (number * BLOCK) as u64, part).expect("written");
    }
    let landed = sink.land(None);
    assert_eq!((landed.files, landed.failures.len()), (1, 0), "{landed:?}");
    drop(sink);
    if site.capabilities.keeps {
        assert!(site.read("") == Some(content), "bytes differ");
    }
}

fn rereads(site: &Site) {
    if !site.capabilities.source {
        return;
    }
    if site.is_ordered() {
        let content = bytes(3 * BLOCK + 1, 15);
        (site.feed)(&content);
        let mut read = Vec::new();
        site.store.stream().expect("a stream").read_to_end(&mut read).expect("read");
        assert!(read == content, "bytes differ");
        return;
    }
    if site.capabilities.keeps {
        assert_eq!(site.bring(&one(bytes(3 * BLOCK + 1, 15))).files, 1);
    }
    let entries = site.store.list(site.start()).expect("listed").entries;
    let len = usize::try_from(entries[0].len()).expect("short");
    assert!(len > 2 * BLOCK, "{entries:?}");
    let source = site.store.source(site.start(), &Arc::new(Layout::new(entries, BLOCK)));
    let source = source.expect("a source");
    let mut whole = vec![0; len];
    source.read(0, 0, &mut whole).expect("all at once");
    assert_ne!(whole[..BLOCK], whole[BLOCK..2 * BLOCK], "two blocks are alike");
    std::thread::scope(|scope| {
        for (from, part) in [(0, 1), (len - 1, 1), (BLOCK - 3, 7), (5, 2 * BLOCK), (len / 2, 0)] {
            let (source, whole) = (&source, &whole);
            scope.spawn(move || {
                let mut again = vec![0xee; part];
                source.read(0, from as u64, &mut again).expect("read");
                assert!(again == whole[from..from + part], "{part} bytes at {from} differ");
            });
        }
    });
}

fn broken_off(site: &Site) {
    if !site.capabilities.sink {
        return;
    }
    let files = one(bytes(6 * BLOCK, 16));
    let half = |block: &Block| block.offset < 3 * BLOCK as u64;
    let mut writing = site.write(&files).from(1);
    assert_eq!(writing.resume_state.is_some(), site.capabilities.journals);
    assert_eq!(writing.sink.journals(), site.capabilities.journals);
    if !site.capabilities.journals {
        return;
    }
    assert!(held(&writing).is_empty(), "of nothing something is held");
    writing.bring(half);
    writing.sink.checkpoint();
    assert_eq!(writing.sink.durable().total(), 3 * BLOCK as u64);
    drop(writing);
    let mut again = site.write(&files).from(1);
    let mut first_half = ByteRanges::new();
    first_half.insert(0..3 * BLOCK as u64);
    assert_eq!(held(&again), first_half);
    again.bring(|block| !half(block));
    let landed = again.land();
    assert_eq!((landed.files, landed.failures.len()), (1, 0), "{landed:?}");
    drop(again);
    assert!(site.read("") == Some(files[0].1.clone()), "the halves do not make the whole");
    let mut other = site.write(&files).from(2);
    other.bring(half);
    other.sink.checkpoint();
    drop(other);
    assert!(held(&site.write(&files).from(3)).is_empty(), "another source's bytes are held");
}

fn held(writing: &Writing<'_>) -> ByteRanges {
    writing.resume_state.as_ref().map(|state| state.blocks.clone()).unwrap_or_default()
}

fn refused(site: &Site) {
    if !site.capabilities.journals {
        return;
    }
    let files = one(bytes(4 * BLOCK, 17));
    let mut writing = site.write(&files).from(1);
    writing.bring(|block| block.offset == 0);
    writing.sink.checkpoint();
    writing.sink.refuse();
    drop(writing);
    assert!(held(&site.write(&files).from(1)).is_empty(), "what was refused is held");
}

fn busy(site: &Site) {
    if !site.capabilities.journals {
        return;
    }
    let files = one(bytes(BLOCK, 18));
    let first = site.write(&files).from(1);
    let second = site.write(&files);
    let origin = PartialOrigin { source: [2; 32], digests: Some(DigestAlgorithm::Crc64Nvme) };
    assert_eq!(second.sink.begin(origin).expect_err("taken").code, ErrorCode::Busy);
    drop((first, second));
    site.write(&files).from(2);
}

fn denied(site: &Site) {
    let StoreCapabilities { source, sink, .. } = site.capabilities;
    let layout = layout_of(&one(bytes(BLOCK, 19)));
    let is_listed = source && !site.is_ordered();
    if !is_listed {
        for error in [
            site.store.list(site.start()).map(drop).expect_err("no listing"),
            site.store.source(site.start(), &layout).map(drop).expect_err("no source"),
        ] {
            assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::NothingToRead));
        }
    }
    if !(source && site.is_ordered()) {
        let error = site.store.stream().expect_err("no stream");
        assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::NothingToRead));
    }
    if !sink {
        let refused = site.store.sink(site.start(), &layout, LandingOptions::default());
        assert_eq!(refused.expect_err("no sink").fault, Fault::You);
    }
    if site.is_ordered() && sink {
        let two = layout_of(&[("a", bytes(1, 20)), ("b", bytes(1, 21))]);
        let refused = site.store.sink(b"", &two, LandingOptions::default());
        assert_eq!(refused.expect_err("two files").code, ErrorCode::OneFile);
    }
}
