//! `farline partials`: what a killed copy left is listed and removed, and what a running one holds
//! is not.

use farline_lab::files::{folder, random, text};
use farline_lab::{Running, error_of, farline, json_of, node, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Bytes of the copied file.
const LEN: usize = 200 << 20;

fn ls(dir: &Path) -> Vec<Value> {
    let said = json_of(farline().args(["--json", "partials", "ls", text(dir)]));
    assert_eq!(said["schema"], "farline/partials/1");
    said["partials"].as_array().expect("a list").clone()
}

fn rm(path: &Path) -> (Value, Option<i32>) {
    let output =
        farline().args(["--json", "partials", "rm", text(path)]).output().expect("farline runs");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(said["schema"], "farline/partials-rm/1", "{said}");
    (said, output.status.code())
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a folder").count()
}

/// Copies `from` slowly to `to`, and returns when `root` shows that some of it is durable.
fn begin(from: &Path, to: &str, root: &Path) -> Running {
    let mut command = farline();
    command
        .args(["-q", "cp", "-r", "--limit", "100Mbit/s", text(from), to])
        .stderr(Stdio::null())
        .stdout(Stdio::null());
    let mut copy = Running(command.spawn().expect("farline runs"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ls(root).iter().any(|left| left["durable_bytes"].as_u64() > Some(0)) {
        assert!(
            copy.0.try_wait().expect("asked").is_none(),
            "the copy was over before something was durable"
        );
        assert!(Instant::now() < deadline, "nothing was durable within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
    copy
}

#[test]
fn partials_of_killed_copies_go_and_of_running_ones_stay() {
    let dir = folder();
    let (root, tree) = (dir.path().join("root"), dir.path().join("run7"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir_all(tree.join("deep")).expect("folders");
    std::fs::write(tree.join("deep/big"), random(9, 1 << 20).repeat(LEN >> 20)).expect("written");
    let (mut server, url) = node(&root, "write", &[]);
    let target = root.canonicalize().expect("there").join("run7/deep/big");

    let mut copy = begin(&tree, &format!("{url}/"), &root);
    let listed = ls(&root);
    assert_eq!((listed.len(), &listed[0]["running"]), (1, &Value::Bool(true)), "{listed:?}");
    let (said, code) = rm(&root);
    assert_eq!((said["removed"].as_array().map(Vec::len), code), (Some(0), Some(6)), "{said}");
    assert_eq!(said["kept"][0]["error"]["code"], "busy", "{said}");
    // Seen from below, too: its journal lies above.
    let (said, code) = rm(&root.join("run7/deep"));
    assert_eq!(
        (said["kept"][0]["error"]["code"].as_str(), code),
        (Some("busy"), Some(6)),
        "{said}"
    );

    server.end(Signal::KILL);
    assert!(!copy.0.wait().expect("ended").success());
    let listed = ls(&root);
    let left = &listed[0];
    assert_eq!((listed.len(), &left["running"]), (1, &Value::Bool(false)), "{listed:?}");
    assert_eq!(
        (left["target"].as_str(), left["total_bytes"].as_u64()),
        (Some(text(&target)), Some(LEN as u64))
    );
    let (durable, age) = (
        left["durable_bytes"].as_u64().expect("bytes"),
        left["age"].as_u64().expect("nanoseconds"),
    );
    assert!((1 << 20..LEN as u64).contains(&durable) && age < 60_000_000_000, "{left}");
    let table = succeed(farline().args(["partials", "ls", text(&root)]));
    assert!(
        table.contains("broken off") && table.contains(text(&target)) && table.contains("200 MiB"),
        "{table}"
    );

    // A copy of the tree leaves it out.
    let beside = dir.path().join("beside");
    succeed(farline().args(["-q", "cp", "-r", &format!("{}/", text(&root)), text(&beside)]));
    assert_eq!((files(&beside), files(&beside.join("run7/deep"))), (1, 0));

    let (error, code) = error_of(&["partials", "rm", text(&root.join("other"))]);
    assert_eq!((error["code"].as_str(), code), (Some("no-partial"), 2), "{error}");
    let (said, code) = rm(&target);
    assert_eq!((said["removed"].as_array().map(Vec::len), code), (Some(1), Some(0)), "{said}");
    assert_eq!((ls(&root), files(&root), files(&root.join("run7/deep"))), (Vec::new(), 1, 0));
}
