//! Trees that have landed, once more: no data moves, and what is asked for takes few round trips.

use farline_lab::files::{folder, plant_file, same, text};
use farline_lab::relay::{relay_that_counts_round_trips, relay_that_loses_a_reply};
use farline_lab::{assert_same_tree, farline, json_of, node};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Over 50 ms these take a second.
const MOST_ROUND_TRIPS: u32 = 20;

fn plant_files(top: &Path, count: u64) {
    for index in 0..count {
        let folder = top.join(format!("d{:03}", index / 1_000));
        if index % 1_000 == 0 {
            fs::create_dir_all(&folder).expect("a folder");
        }
        fs::write(folder.join(format!("f{index:07}")), index.to_string()).expect("written");
    }
}

fn sync(from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "sync", from, to]))
}

/// That a sync found all as it is.
fn assert_nothing_moved(result: &Value, count: u64) {
    for name in ["files", "bytes", "moved_bytes"] {
        assert_eq!(result[name], 0, "{name}: {}", result[name]);
    }
    assert_eq!(result["skipped"].as_array().map(Vec::len), Some(count as usize));
    assert_eq!(result["failures"], serde_json::json!([]));
}

#[test]
fn ten_thousand_unchanged_files_cost_few_round_trips() {
    let dir = folder();
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant_files(&source, 10_000);
    // The same names, sizes and times, for less than a copy of all.
    for parent in fs::read_dir(&source).expect("a folder") {
        let from = parent.expect("an entry").path();
        let to = root.join("landed").join(from.file_name().expect("a name"));
        fs::create_dir_all(&to).expect("a folder");
        for file in fs::read_dir(&from).expect("a folder") {
            let file = file.expect("an entry");
            fs::hard_link(file.path(), to.join(file.file_name())).expect("a link");
        }
    }
    let (_node, url) = node(&root, "write", &[]);
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let (relay, count) = relay_that_counts_round_trips(port);
    let (here, there) = (text(&source), format!("farline://127.0.0.1:{relay}/landed"));
    for (from, to) in [(here, &there[..]), (&there[..], here)] {
        let before = count.load(Ordering::Relaxed);
        let result = sync(from, to);
        assert_nothing_moved(&result, 10_000);
        let took = count.load(Ordering::Relaxed) - before;
        println!("from {from}: {took} round trips");
        assert!((1..=MOST_ROUND_TRIPS).contains(&took), "{took} round trips from {from}");
    }
}

#[test]
fn a_tree_that_landed_sends_no_data_again() {
    let dir = folder();
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant_files(&source, 3_000);
    fs::create_dir(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    let (here, landed) = (text(&source), format!("{url}/landed"));
    let back = dir.path().join("back");
    for (from, to) in [(here, &landed[..]), (&landed[..], text(&back))] {
        let first = json_of(farline().args(["--json", "cp", "-r", &format!("{from}/"), to]));
        assert_eq!(first["files"], 3_000, "{from}");
        let again = sync(from, to);
        assert_nothing_moved(&again, 3_000);
        if from == here {
            assert_eq!(again["bytes_sent"], 0, "not even a list");
        }
    }
}

/// The node has landed all of it when the connection is lost on which it said so.
#[test]
fn what_landed_unheard_is_compared_and_not_sent_again() {
    let dir = folder();
    let (root, tree) = (dir.path().join("root"), dir.path().join("tree"));
    for folder in [&root, &tree, &tree.join("below")] {
        fs::create_dir(folder).expect("a folder");
    }
    plant_file(&tree.join("large"), 70, 1);
    plant_file(&tree.join("below/small"), 1, 2);
    let (_server, url) = node(&root, "write", &[]);
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for (from, to, files) in [("large", "alone", 1), ("", "whole", 2)] {
        // Of the list, the data, and what was read of each file.
        let (relay, count) = relay_that_loses_a_reply(port, "226", 3);
        let source = format!("{}/{from}", tree.display());
        let there = format!("ftp://127.0.0.1:{relay}/{to}");
        let copy = ["--json", "cp", "-r", "--retry-for", "60s", &source, &there];
        let result = json_of(farline().args(copy));
        let said = |name: &str| result[name].as_u64().expect("a number");
        assert_eq!((said("attempts"), count.load(Ordering::Relaxed)), (2, 2), "{result}");
        assert!(said("bytes_sent") < 80 << 20, "{to}: all of it went twice: {result}");
        assert_eq!((said("files"), &result["verified"]), (files, &true.into()), "{result}");
    }
    assert_same_tree(&tree, &root.join("whole"));
    assert!(same(&tree.join("large"), &root.join("alone")));
}

/// What a sync that was tried again had landed itself is no file that it left alone.
#[test]
fn what_an_attempt_landed_is_not_called_skipped() {
    let dir = folder();
    let (root, tree) = (dir.path().join("root"), dir.path().join("tree"));
    for folder in [&root, &tree, &tree.join("below")] {
        fs::create_dir(folder).expect("a folder");
    }
    for (name, seed) in [("there", 1), ("new", 2), ("below/new", 3)] {
        plant_file(&tree.join(name), 1, seed);
    }
    let (_server, url) = node(&root, "write", &[]);
    fs::create_dir(root.join("got")).expect("a folder");
    let (one, landed) = (tree.join("there"), format!("{url}/got/there"));
    json_of(farline().args(["--json", "cp", text(&one), &landed]));
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let (relay, count) = relay_that_loses_a_reply(port, "226", 3);
    let there = format!("ftp://127.0.0.1:{relay}/got");
    let sync = ["--json", "sync", "--retry-for", "60s", text(&tree), &there];
    let result = json_of(farline().args(sync));
    assert_eq!((&result["attempts"], count.load(Ordering::Relaxed)), (&2.into(), 2), "{result}");
    assert_eq!(result["skipped"], serde_json::json!(["there"]), "{result}");
    assert_eq!((&result["files"], &result["bytes"]), (&2.into(), &(2 << 20).into()), "{result}");
    assert_same_tree(&tree, &root.join("got"));
}

/// The same between two nodes, of which the receiver's last word is lost.
#[test]
fn what_landed_unheard_elsewhere_is_not_sent_again() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let tree = a.join("tree");
    for folder in [&b, &tree.join("below")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    plant_file(&tree.join("large"), 70, 3);
    plant_file(&tree.join("below/small"), 1, 4);
    let permits = ["--third-party", "--third-party-net", "127.0.0.0/8"];
    let (_sender, from) = node(&a, "read", &permits);
    let (_receiver, to) = node(&b, "write", &permits);
    let port = to.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for (source, target, files) in [("tree/large", "alone", 1), ("tree/", "whole", 2)] {
        let (relay, count) = relay_that_loses_a_reply(port, "226", 3);
        let (source, there) =
            (format!("{from}/{source}"), format!("ftp://127.0.0.1:{relay}/{target}"));
        let copy = ["--json", "cp", "-r", "--retry-for", "60s", &source, &there];
        let result = json_of(farline().args(copy));
        let said = |name: &str| result[name].as_u64().expect("a number");
        assert_eq!((said("attempts"), count.load(Ordering::Relaxed)), (2, 2), "{result}");
        assert!(said("bytes_sent") < 80 << 20, "{target}: all of it went twice: {result}");
        assert_eq!((said("files"), &result["verified"]), (files, &true.into()), "{result}");
    }
    assert_same_tree(&tree, &b.join("whole"));
    assert!(same(&tree.join("large"), &b.join("alone")));
}
