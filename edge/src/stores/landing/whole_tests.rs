//! Files that land before the others, and what a later run makes of them.

use super::PosixSink;
use crate::stores::file_limit::LEAST_OPEN;
use crate::stores::file_limit::tests::places;
use crate::stores::{ResumeState, Root, Sink};
use crate::sys::lock::lock;
use crate::sys::pacing_limits::PacingLimit;
use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{
    DigestAlgorithm, DigestVerdict, Digests, Entry, EntryKind, Layout, PieceDigest, VerdictList,
};
use farline_core::units::ErrorCode;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BLOCK: usize = 1024;
const LEN: u64 = 1500;
/// So many files and they are made durable together, and have no names before they land.
const MANY: usize = 20;
const ORIGIN: PartialOrigin =
    PartialOrigin { source: [5; 32], digests: Some(DigestAlgorithm::Crc64Nvme) };

/// Three files, and so many `others`.
fn layout(others: usize) -> Arc<Layout> {
    let names = ["a", "b", "locked"].map(str::to_owned).into_iter();
    let names = names.chain((0..others).map(|other| match other {
        0 => "open".to_owned(),
        other => format!("z{other}"),
    }));
    layout_of(names)
}

fn layout_of(names: impl Iterator<Item = String>) -> Arc<Layout> {
    let entry = |path: String| Entry {
        mode: match path.as_str() {
            "locked" => 0o444,
            "open" => 0o666,
            _ => 0o640,
        },
        path: path.into_bytes(),
        kind: EntryKind::File { len: LEN },
        modified_ns: 1_000_000_000,
        changed_ns: 7,
        attributes: None,
    };
    Arc::new(Layout::new(names.map(entry).collect(), BLOCK))
}

fn content(entry: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at as usize * (entry + 3)) as u8).collect()
}

struct Run {
    sink: PosixSink,
    layout: Arc<Layout>,
    digests: Digests,
    landed: Vec<usize>,
}

fn begin(at: &Path, one_by_one: bool, others: usize) -> Run {
    begin_with(at, one_by_one, layout(others))
}

fn begin_with(at: &Path, one_by_one: bool, layout: Arc<Layout>) -> Run {
    let root = Arc::new(Root::open(at).expect("opened"));
    let sink = PosixSink::new(root, b"t".to_vec(), Arc::clone(&layout), true);
    let sink = if one_by_one { sink.one_by_one() } else { sink };
    fs::create_dir_all(at.join("t")).expect("a folder");
    let ResumeState { digests, landed, .. } = sink.begin(ORIGIN).expect("begun");
    Run { sink, layout, digests, landed }
}

impl Run {
    /// Brings what is left of `entries`, each block as it was read but for those `doubted`.
    fn bring(&mut self, entries: &[usize], doubted: &[usize]) {
        for block in (0..self.layout.block_count()).map(|index| self.layout.block(index)) {
            for piece in self.layout.pieces(block.offset, block.len) {
                if !entries.contains(&piece.entry) {
                    continue;
                }
                let from = piece.file_offset as usize;
                let bytes = &content(piece.entry)[from..from + piece.len];
                let digest =
                    PieceDigest::of(&self.layout, &piece, bytes, DigestAlgorithm::Crc64Nvme);
                self.digests.insert(&digest);
                if !doubted.contains(&piece.entry) {
                    self.sink.record(std::slice::from_ref(&digest));
                }
                self.sink.write(piece.entry, piece.file_offset, bytes).expect("written");
            }
        }
        self.sink.checkpoint();
    }

    fn verdicts(&self) -> VerdictList {
        self.digests.verdicts().into_iter().collect()
    }
}

fn there(at: &Path) -> Vec<String> {
    let names = fs::read_dir(at.join("t"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Temporary names: those of unnamed files are none.
fn temporaries(at: &Path) -> usize {
    let names = fs::read_dir(at.join("t")).expect("listed");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().contains(".farline")).count()
}

#[test]
fn as_many_files_are_open_as_there_are_places() {
    for (count, one_by_one) in [(0, true), (7, true), (7, false), (0, false)] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut run = begin(dir.path(), one_by_one, MANY);
        let (limit, taken) = places(count);
        let struck = Arc::default();
        run.sink = run.sink.within(limit.telling(&struck));
        let files = run.layout.entries().len();
        for (from, to) in [(0, 700), (700, LEN as usize)] {
            for entry in 0..files {
                let bytes = &content(entry)[from..to];
                run.sink.write(entry, from as u64, bytes).expect("written");
                let open = |entry: &usize| lock(&run.sink.state).entries.file(*entry).is_some();
                let open = (0..files).filter(open).count();
                let placed = taken.load(Ordering::Relaxed);
                let is_few = placed <= count && open <= placed + LEAST_OPEN;
                assert!(is_few, "{open} of {count}, {placed} of them placed");
            }
        }
        let landed = run.sink.land(None);
        assert!(landed.failures.is_empty(), "{:?}", landed.failures);
        for (entry, of) in run.layout.entries().iter().enumerate() {
            let path = dir.path().join("t").join(String::from_utf8_lossy(&of.path).into_owned());
            assert_eq!(fs::read(path).expect("landed"), content(entry), "{count}");
        }
        drop(run);
        assert_eq!(taken.load(Ordering::Relaxed), 0, "all are closed");
        let struck = struck.take();
        assert!(struck.contains(&PacingLimit::TreeFiles), "{struck:?}");
        assert_eq!(struck.contains(&PacingLimit::UnnamedFiles), one_by_one, "{struck:?}");
    }
}

#[test]
fn a_file_lands_when_it_is_whole_and_vouched_for() {
    for others in [0, MANY] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut run = begin(dir.path(), true, others);
        run.bring(&[0], &[]);
        assert_eq!(there(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("t/a")).expect("read"), content(0));
        run.bring(&[1], &[1]);
        assert_eq!(there(dir.path()), ["a"], "its sender did not vouch for b");
        // The journal is one of them.
        assert_eq!(temporaries(dir.path()), if others == 0 { 2 } else { 1 });
        let mut back = vec![0; LEN as usize];
        run.sink.read_back(1).expect("opened")(0, &mut back).expect("read");
        assert_eq!(back, content(1));
        // Said once more, as what broke on its way is.
        run.bring(&[1], &[1]);
        run.bring(&[2], &[]);
        assert_eq!(there(dir.path()), ["a", "locked"]);
        let meta = fs::metadata(dir.path().join("t/locked")).expect("there");
        assert_eq!((meta.mode() & 0o777, meta.mtime()), (0o444, 1));
        let before = fs::metadata(dir.path().join("t/a")).expect("there").ino();
        let rest: Vec<usize> = (3..3 + others).collect();
        run.bring(&rest, &rest);
        let landed = run.sink.land(Some((&run.verdicts(), &run.digests)));
        let files = 3 + others as u64;
        assert_eq!((landed.files, landed.bytes), (files, files * LEN), "{:?}", landed.failures);
        assert_eq!(fs::metadata(dir.path().join("t/a")).expect("there").ino(), before);
        assert_eq!(there(dir.path()).len(), 3 + others);
        for (entry, item) in run.layout.entries().iter().enumerate() {
            let at = dir.path().join("t").join(String::from_utf8_lossy(&item.path).as_ref());
            let meta = fs::metadata(&at).expect("there");
            assert_eq!((meta.mode() & 0o777, meta.mtime()), (item.mode, 1), "{at:?}");
            assert_eq!(fs::read(at).expect("read"), content(entry));
        }
        drop(run);
        assert_eq!(fs::read_dir(dir.path().join("t")).expect("listed").count(), 3 + others);
    }
}

#[test]
fn what_has_no_name_takes_the_place_of_what_has_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join("t").join(name);
    let mut run = begin(dir.path(), true, MANY);
    fs::write(at("a"), "an old one").expect("written");
    fs::create_dir(at("b")).expect("a folder");
    run.bring(&[0, 1, 2], &[]);
    assert_eq!(there(dir.path()), ["a", "b", "locked"]);
    assert_eq!(fs::read(at("a")).expect("read"), content(0));
    assert_eq!(fs::metadata(at("a")).expect("there").mode() & 0o777, 0o640);
    run.bring(&(3..3 + MANY).collect::<Vec<_>>(), &[]);
    let landed = run.sink.land(Some((&run.verdicts(), &run.digests)));
    assert_eq!(landed.files, 2 + MANY as u64);
    assert_eq!(landed.failures.len(), 1, "a folder is not replaced: {:?}", landed.failures);
    assert!(at("b").is_dir());
    assert_eq!(temporaries(dir.path()), 0, "{:?}", there(dir.path()));
}

#[test]
fn a_name_of_several_is_that_of_the_trees_first() {
    for (others, order) in [(0, [0, 1]), (0, [1, 0]), (MANY, [0, 1]), (MANY, [1, 0])] {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().join("t");
        fs::create_dir_all(top.join("one")).expect("a folder");
        // As a file system has it to which both are one name.
        symlink("one", top.join("two")).expect("linked");
        let names = ["one/f", "two/f"].map(str::to_owned).into_iter();
        let names = names.chain((0..others).map(|other| format!("z{other}")));
        let mut run = begin_with(dir.path(), true, layout_of(names));
        for entry in order {
            run.bring(&[entry], &[]);
        }
        assert_eq!(fs::read(top.join("one/f")).expect("landed"), content(order[0]));
        run.bring(&(2..2 + others).collect::<Vec<_>>(), &[]);
        let landed = run.sink.land(Some((&run.verdicts(), &run.digests)));
        let files = 1 + others as u64;
        assert_eq!((landed.files, landed.bytes), (files, files * LEN), "{:?}", landed.failures);
        let failed: Vec<_> =
            landed.failures.iter().map(|(path, error)| (&path[..], error.code)).collect();
        assert_eq!(failed, [(&b"two/f"[..], ErrorCode::PathExists)], "{order:?}");
        assert_eq!(fs::read(top.join("one/f")).expect("landed"), content(0), "{order:?}");
        assert_eq!(fs::read_dir(top.join("one")).expect("listed").count(), 1);
    }
}

#[test]
fn what_has_no_name_leaves_nothing_of_a_broken_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut run = begin(dir.path(), true, MANY);
    let all: Vec<usize> = (0..3 + MANY).collect();
    run.bring(&all, &all);
    assert_eq!((there(dir.path()).len(), temporaries(dir.path())), (0, 1));
    drop(run);
    // Durable and not vouched for: gone, and the next run knows it.
    let mut run = begin(dir.path(), true, MANY);
    assert!(run.landed.is_empty() && run.sink.durable().is_empty());
    run.bring(&all, &[]);
    assert_eq!(there(dir.path()).len(), 3 + MANY);
}

#[test]
fn atomic_lands_nothing_before_the_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut run = begin(dir.path(), false, 0);
    run.bring(&[0, 1, 2], &[]);
    assert!(there(dir.path()).is_empty());
    run.sink.land(Some((&run.verdicts(), &run.digests)));
    assert_eq!(there(dir.path()), ["a", "b", "locked"]);
}

#[test]
fn what_landed_is_left_alone_by_the_next_run_unless_it_changed() {
    for (change, others) in [(false, 0), (true, 0), (false, MANY), (true, MANY)] {
        let dir = tempfile::tempdir().expect("a folder");
        begin(dir.path(), true, others).bring(&[0, 2], &[]);
        let a = dir.path().join("t/a");
        assert_eq!(there(dir.path()), ["a", "locked"]);
        let inode = fs::metadata(&a).expect("there").ino();
        if change {
            // The same length and modification time, as if nothing had happened.
            let other: Vec<u8> = content(0).iter().map(|byte| byte ^ 1).collect();
            let times = fs::FileTimes::new()
                .set_modified(fs::metadata(&a).expect("there").modified().expect("known"));
            fs::write(&a, other).expect("changed");
            fs::File::options()
                .write(true)
                .open(&a)
                .expect("opened")
                .set_times(times)
                .expect("put back");
        }
        let mut run = begin(dir.path(), true, others);
        let expected: &[usize] = if change { &[2] } else { &[0, 2] };
        assert_eq!(run.landed, expected, "changed: {change}");
        run.bring(&(0..3 + others).collect::<Vec<_>>(), &[]);
        let landed = run.sink.land(Some((&run.verdicts(), &run.digests)));
        let files = 3 + others as u64;
        assert_eq!((landed.files, landed.failures.len()), (files, 0), "{:?}", landed.failures);
        assert_eq!(fs::read(&a).expect("read"), content(0));
        assert_eq!(fs::metadata(&a).expect("there").ino() == inode, !change);
    }
}

#[test]
fn one_that_turns_out_wrong_at_the_end_goes() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut run = begin(dir.path(), true, 0);
    run.bring(&[0, 1, 2], &[]);
    assert_eq!(there(dir.path()), ["a", "b", "locked"]);
    let mut verdicts = run.digests.verdicts();
    verdicts[0] = DigestVerdict::Read([9; 32]);
    // It changed when it had been read, and was to be read again.
    verdicts[1] = DigestVerdict::Unreadable;
    let landed = run.sink.land(Some((&verdicts.into_iter().collect(), &run.digests)));
    assert_eq!((landed.files, landed.failures.len()), (2, 1));
    assert_eq!(landed.failures[0].0, b"a");
    assert_eq!(there(dir.path()), ["b", "locked"]);
}

#[test]
fn where_nothing_is_replaced_what_an_earlier_run_left_stays() {
    for only_new in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        begin(dir.path(), true, 0).bring(&[0], &[]);
        let mut run = begin(dir.path(), true, 0);
        assert_eq!(run.landed, [0]);
        run.sink = run.sink.only_new(only_new);
        run.bring(&[0, 1, 2], &[]);
        let mut verdicts = run.digests.verdicts();
        verdicts[0] = DigestVerdict::Read([9; 32]);
        let landed = run.sink.land(Some((&verdicts.into_iter().collect(), &run.digests)));
        assert_eq!((landed.files, landed.failures.len()), (2, 1), "{:?}", landed.failures);
        assert_eq!(dir.path().join("t/a").exists(), only_new, "a journal's word is not enough");
    }
}

#[test]
fn where_nothing_is_replaced_folders_stay_as_they_are() {
    let entry = |path: &str, mode| Entry {
        path: path.as_bytes().to_vec(),
        kind: EntryKind::Directory,
        mode,
        modified_ns: 1_000_000_000,
        changed_ns: 7,
        attributes: None,
    };
    let entries = vec![entry("", 0o700), entry("bob", 0), entry("new", 0o705)];
    let layout = Arc::new(Layout::new(entries, BLOCK));
    let dir = tempfile::tempdir().expect("a folder");
    let at = |path: &str| dir.path().join(path);
    fs::create_dir_all(at("t/bob")).expect("folders");
    // Not even for as long as the copy lasts may its owner write there.
    fs::set_permissions(at("t/bob"), fs::Permissions::from_mode(0o550)).expect("set");
    let looks = |path: &str| {
        let meta = fs::metadata(at(path)).expect("there");
        (meta.mode() & 0o777, meta.mtime(), meta.mtime_nsec())
    };
    let bob = looks("t/bob");
    let root = Arc::new(Root::open(dir.path()).expect("opened"));
    let sink = PosixSink::new(root, b"t".to_vec(), layout, true).only_new(true);
    sink.begin(ORIGIN).expect("begun");
    sink.make_folders().expect("made");
    // Its time is that at which another came into it.
    let top = looks("t");
    assert_eq!(looks("t/bob"), bob);
    let landed = sink.land(None);
    assert!(landed.failures.is_empty(), "{:?}", landed.failures);
    assert_eq!((looks("t"), looks("t/bob")), (top, bob));
    assert_eq!(looks("t/new"), (0o705, 1, 0), "this one was made for it");
}

#[test]
fn a_tree_of_which_nothing_came_leaves_no_folder() {
    let entry = |path: &str, kind| Entry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o755,
        modified_ns: 1_000_000_000,
        changed_ns: 7,
        attributes: None,
    };
    let folder = |path| entry(path, EntryKind::Directory);
    let file = entry("d/e/f", EntryKind::File { len: LEN });
    let layout =
        Layout::new(vec![folder(""), folder("d"), folder("d/e"), folder("old"), file], BLOCK);
    let layout = Arc::new(layout);
    let dir = tempfile::tempdir().expect("a folder");
    let at = |path: &str| dir.path().join(path);
    let new = || {
        let root = Arc::new(Root::open(dir.path()).expect("opened"));
        PosixSink::new(root, b"t".to_vec(), Arc::clone(&layout), true)
    };
    let begun = || {
        let sink = new();
        sink.begin(ORIGIN).expect("begun");
        sink.make_folders().expect("made");
        sink
    };
    drop(begun());
    assert!(!at("t").exists(), "all of it was made for this");
    // What was there before stays, and what somebody else put something into meanwhile.
    fs::create_dir_all(at("t/old")).expect("a folder");
    let second = begun();
    fs::write(at("t/d/other"), "of somebody else's").expect("written");
    drop(second);
    assert!(at("t/old").is_dir() && at("t/d/other").is_file() && !at("t/d/e").exists());
    // What is durable is kept, with its folders.
    let third = begun();
    let block = layout.block(0);
    let piece = layout.pieces(block.offset, block.len).next().expect("a piece");
    let bytes = &content(piece.entry)[..piece.len];
    third.record(&[PieceDigest::of(&layout, &piece, bytes, DigestAlgorithm::Crc64Nvme)]);
    third.write(piece.entry, piece.file_offset, bytes).expect("written");
    drop(third);
    assert!(at("t/d/e").is_dir(), "the next run goes on there");
    // Who makes folders, and copies file by file, wants them to stay.
    fs::remove_dir_all(at("t")).expect("removed");
    new().make_folders().expect("made");
    assert!(at("t/d/e").is_dir());
}
