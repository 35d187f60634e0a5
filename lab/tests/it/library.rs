//! The library as programs use it: its examples run, and a copy in progress can be watched, awaited
//! and given up.

use farline::client::Verify;
use farline::core::units::{Bytes, ErrorCode, Rate};
use farline::{Client, Node};
use farline_lab::LinkUp;
use farline_lab::files::{hidden, plant_file, same, text};
use farline_lab::{assert_same_tree, node, plant, succeed, wait_for};
use std::process::Command;
use std::time::{Duration, Instant};

/// An example of the crate `farline`, which tests of the whole workspace have built. Cargo would
/// build it anew, and all below it, because the crate alone has other features than the workspace.
pub(crate) fn example(name: &str) -> Command {
    let this = std::env::current_exe().expect("a program has a path");
    // This is target/PROFILE/deps/TEST.
    let built = this.ancestors().nth(2).expect("three folders").join("examples").join(name);
    assert!(built.exists(), "no {}: run `cargo build -p farline --examples`", built.display());
    farline_lab::command(built)
}

#[test]
fn the_example_copy_copies_a_tree_and_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    plant(&dir.path().join("t"));
    let (_node, url) = node(dir.path(), "write", &[]);
    let said = succeed(example("copy").arg(dir.path().join("t")).arg(format!("{url}/there/")));
    assert!(said.contains("verified: true") && said.contains("because: "), "{said}");
    assert_same_tree(&dir.path().join("t"), &dir.path().join("there/t"));
}

#[test]
fn what_a_program_could_not_copy_is_its_error() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("t")).expect("a folder");
    std::fs::write(dir.path().join("t/f"), "f").expect("written");
    succeed(Command::new("mkfifo").arg(dir.path().join("t/p")));
    let mut copy = example("copy");
    let output = copy.arg(dir.path().join("t")).arg(dir.path().join("to/")).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("not copied: p: "), "{output:?}");
    assert!(dir.path().join("to/t/f").exists(), "{output:?}");
}

#[test]
fn the_example_serve_serves_and_fetches() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a"), "bytes").expect("written");
    let said = succeed(example("serve").arg(dir.path()));
    assert!(said.contains("1 files came back"), "{said}");
}

#[test]
fn the_example_own_store_serves_what_it_stored() {
    let dir = tempfile::tempdir().expect("a folder");
    plant(&dir.path().join("t"));
    std::fs::remove_file(dir.path().join("t/link")).expect("objects are no links");
    let back = dir.path().join("back");
    std::fs::create_dir(&back).expect("a folder");
    let said = succeed(example("own_store").arg(dir.path().join("t")).arg(&back));
    assert!(said.contains("files came back, verified: true"), "{said}");
    assert_same_tree(&dir.path().join("t"), &back.join("run7/t"));
}

#[test]
fn the_example_link_is_its_own_emulator() {
    let Some(_link) = LinkUp::up("t-library", &["usn-0.2", "--rate", "100M"]) else { return };
    let said = succeed(&mut example("emulated_link"));
    let frames = said.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    assert!(frames.is_some_and(|frames| frames >= 3), "{said}");
    assert!(said.contains("frames went from a to b"), "{said}");
}

#[test]
fn a_copy_is_watched_to_its_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant_file(&from, 8, 1);
    let (_node, url) = node(dir.path(), "write", &[]);
    let copying = Client::new()
        .copy(format!("{url}/from"), &to)
        .and_then(|copy| copy.limit(Rate::from_bps(160_000_000)).verify(Verify::Checksum).start())
        .expect("it begins");
    let progress = copying.watch();
    wait_for("some of it", || progress.borrow().bytes > Bytes(0));
    let outcome = copying.wait().expect("copied");
    assert_eq!((outcome.bytes, outcome.files), (8 << 20, 1));
    assert!(same(&from, &to), "what came differs");
}

#[test]
fn files_of_a_tree_are_counted_as_they_land() {
    const FILES: u64 = 12;
    let dir = tempfile::tempdir().expect("a folder");
    let (from, root) = (dir.path().join("from"), dir.path().join("root"));
    std::fs::create_dir(&from).expect("a folder");
    std::fs::create_dir(&root).expect("a folder");
    (0..FILES).for_each(|index| plant_file(&from.join(format!("f{index}")), 4, index));
    let (_node, url) = node(&root, "write", &[]);
    let copying = Client::new()
        .copy(&from, format!("{url}/to"))
        .and_then(|copy| copy.recursive(true).limit(Rate::from_bps(100_000_000)).start())
        .expect("it begins");
    let progress = copying.watch();
    let landed = || progress.borrow().files.unwrap_or(0);
    wait_for("some files and not all", || (1..FILES).contains(&landed()));
    assert_eq!(progress.borrow().files_total, Some(FILES));
    let outcome = copying.wait().expect("copied");
    assert_eq!(outcome.files, FILES);
}

#[test]
fn a_dropped_copy_leaves_nothing_under_its_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, from) = (dir.path().join("root"), dir.path().join("from"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&from, 64, 2);
    let (_node, url) = node(&root, "write", &[]);
    let request = || {
        Client::new()
            .copy(&from, format!("{url}/f"))
            .map(|copy| copy.channels(1))
            .expect("good words")
    };
    // The whole of it would take 13 seconds.
    let slowly = || request().limit(Rate::from_bps(40_000_000)).start();
    let copying = slowly().expect("it begins");
    wait_for("the copy to begin", || !hidden(&root).is_empty());
    copying.cancel();
    assert_eq!(copying.wait().expect_err("it was given up").code, ErrorCode::Interrupted);
    let copying = slowly().expect("it begins again");
    let progress = copying.watch();
    let moved = || progress.borrow().bytes.0 - progress.borrow().resumed.0;
    wait_for("the copy to move something", || moved() > 1 << 20);
    let left = progress.borrow().bytes_total.expect("known by now").0 - progress.borrow().bytes.0;
    let dropped = Instant::now();
    drop(copying);
    // Whoever told of its progress is gone when it has ended.
    wait_for("the dropped copy to end", || progress.has_changed().is_err());
    let by_itself = Rate::from_bps(40_000_000).time_for(Bytes(left));
    let ended = dropped.elapsed();
    assert!(ended < Duration::from(by_itself) / 2, "it went on for {ended:?}");
    assert!(!root.join("f").exists(), "half of it has its name");
    assert!(!hidden(&root).is_empty(), "what is durable stays");
    let outcome = request().start().and_then(|copy| copy.wait()).expect("it goes on");
    assert!(outcome.resumed_bytes > 0 && same(&from, &root.join("f")), "{outcome:?}");
}

#[tokio::test]
async fn a_node_of_this_program_serves_a_copy_of_this_program() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a"), "bytes").expect("written");
    let node = Node::builder(dir.path())
        .listen(([127, 0, 0, 1], 0).into())
        .anonymous(farline::node::Anonymous::Read)
        .bind()
        .await
        .expect("it listens");
    let (url, to) = (format!("farline://{}/a", node.address()), dir.path().join("b"));
    let copying =
        Client::new().copy(&url, text(&to)).and_then(|copy| copy.start()).expect("it begins");
    tokio::select! {
        ended = node.run() => panic!("the node ended: {ended:?}"),
        outcome = copying => assert_eq!(outcome.expect("copied").bytes, 5),
    }
}
