//! Trees whose files land one by one: what a kill leaves under final names, and what a later run
//! does with it.

use farline_lab::files::{folder, hidden, plant_file, same, text};
use farline_lab::{Running, assert_same_tree, farline, json_of, node, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

const FILES: u64 = 30;
const MIB: u64 = 4;

fn plant_tree(root: &Path) {
    std::fs::create_dir(root).expect("a folder");
    for index in 0..FILES {
        plant_file(&root.join(format!("f{index:02}")), MIB, index);
    }
}

/// The files that have their final names, with their inode numbers.
fn landed(root: &Path) -> BTreeMap<String, u64> {
    let Ok(entries) = std::fs::read_dir(root) else { return BTreeMap::new() };
    let entries = entries.map(|entry| entry.expect("an entry"));
    let shown = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    shown
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.metadata().expect("there").ino())
        })
        .collect()
}

/// Begins a copy of about five seconds.
fn begin(from: &str, to: &str, more: &[&str]) -> Running {
    let mut command = farline();
    command.args(["-q", "cp", "-r", "--limit", "200Mbit/s"]).args(more).args([from, to]);
    Running(command.stderr(Stdio::null()).spawn().expect("runs"))
}

/// Kills the receiver in the middle of a copy, and has the same command go on.
fn kill_and_go_on(down: bool) {
    let dir = folder();
    let (root, there) = (dir.path().join("root"), dir.path().join("t"));
    std::fs::create_dir(&root).expect("a folder");
    plant_tree(&there);
    let served = if down { dir.path() } else { &root };
    let to = root.join("t");
    let (mut server, url) = node(served, "write", &[]);
    let (from, into) = match down {
        true => (format!("{url}/t"), text(&root).to_owned()),
        false => (text(&there).to_owned(), format!("{url}/")),
    };
    let mut client = begin(&from, &into, &[]);
    wait_for("files that landed", || landed(&to).len() > 5);
    if !down {
        server.end(Signal::KILL);
    }
    client.end(Signal::KILL);
    let before = landed(&to);
    assert!(before.len() < FILES as usize, "killed before the end");
    for name in before.keys() {
        assert!(same(&to.join(name), &there.join(name)), "{name} is whole");
    }
    // An upload's journal is known by its source, which has not moved; the node may have.
    let again = (!down).then(|| node(served, "write", &[]));
    let into = again.as_ref().map_or(into.clone(), |(_, url)| format!("{url}/"));
    let result = json_of(farline().args(["--json", "cp", "-r", &from, &into]));
    assert_eq!((result["verified"].as_bool(), result["files"].as_u64()), (Some(true), Some(FILES)));
    assert_same_tree(&there, &to);
    assert!(hidden(&root).is_empty() && hidden(&to).is_empty());
    assert_left_alone(&before, &to, &result);
}

/// The files that landed `before` are the same ones, and their bytes did not move again.
fn assert_left_alone(before: &BTreeMap<String, u64>, to: &Path, result: &Value) {
    let after = landed(to);
    for (name, inode) in before {
        assert_eq!(after[name], *inode, "{name} is not written again");
    }
    let moved = result["moved_bytes"].as_u64().expect("a count");
    let most = (FILES - before.len() as u64) * (MIB << 20);
    assert!(moved <= most, "{moved} of {most} bytes moved");
}

#[test]
fn what_landed_before_a_kill_is_whole_and_stays() {
    kill_and_go_on(false);
}

#[test]
fn what_landed_here_before_a_kill_is_whole_and_stays() {
    kill_and_go_on(true);
}

#[test]
fn atomic_shows_nothing_before_all_is_there() {
    let dir = folder();
    let (root, there) = (dir.path().join("root"), dir.path().join("t"));
    std::fs::create_dir(&root).expect("a folder");
    plant_tree(&there);
    let (_node, url) = node(&root, "write", &[]);
    let copy = begin(text(&there), &format!("{url}/"), &["--atomic"]);
    let to = root.join("t");
    wait_for("a folder", || to.exists());
    wait_for("most of the data", || {
        assert!(landed(&to).len() == FILES as usize || landed(&to).is_empty());
        hidden(&to).len() > FILES as usize * 2 / 3
    });
    let (status, _, said) = copy.finish();
    assert!(status.success(), "{said}");
    assert_same_tree(&there, &to);
}

#[test]
fn a_copy_within_this_host_goes_on_after_a_kill() {
    let dir = folder();
    let (root, there) = (dir.path().join("root"), dir.path().join("t"));
    std::fs::create_dir(&root).expect("a folder");
    plant_tree(&there);
    let to = root.join("t");
    let mut copy = begin(text(&there), text(&root), &[]);
    wait_for("files that landed", || landed(&to).len() > 5);
    copy.end(Signal::KILL);
    let before = landed(&to);
    assert!(before.len() < FILES as usize, "killed before the end");
    let result = json_of(farline().args(["--json", "cp", "-r", text(&there), text(&root)]));
    assert_same_tree(&there, &to);
    assert!(hidden(&root).is_empty() && hidden(&to).is_empty());
    assert_left_alone(&before, &to, &result);
    assert_eq!(result["files"].as_u64(), Some(FILES));
}

/// Bytes of the journal of a copy to `root` or to a folder there.
fn journal(root: &Path, to: &Path) -> u64 {
    let folders = [root, to].into_iter().filter(|folder| folder.is_dir());
    let files =
        folders.flat_map(|folder| hidden(folder).into_iter().map(move |name| folder.join(name)));
    let journals = files.filter(|file| text(file).ends_with(".journal.farline"));
    journals.filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).max().unwrap_or(0)
}

#[test]
fn what_was_held_of_a_file_that_fails_has_not_moved() {
    for way in ["up", "down", "here"] {
        let dir = folder();
        let (root, there) = (dir.path().join("served"), dir.path().join("t"));
        for folder in [&root, &there] {
            std::fs::create_dir(folder).expect("a folder");
        }
        plant_file(&there.join("big"), 120, 1);
        plant_file(&there.join("tail"), 8, 2);
        let (_node, url) = node(dir.path(), "write", &[]);
        let (from, into) = match way {
            "up" => (text(&there).to_owned(), format!("{url}/served/")),
            "down" => (format!("{url}/t"), text(&root).to_owned()),
            _ => (text(&there).to_owned(), text(&root).to_owned()),
        };
        let to = root.join("t");
        let mut copy = begin(&from, &into, &[]);
        // It begins with what is copied; what follows is what is durable of that.
        wait_for("a journal", || journal(&root, &to) > 0);
        let begun = journal(&root, &to);
        wait_for("a durable part", || journal(&root, &to) > begun);
        copy.end(Signal::KILL);
        std::fs::create_dir(to.join("big")).expect("nothing of that name");
        let output = farline().args(["--json", "cp", "-r", &from, &into]).output().expect("runs");
        let result: Value = serde_json::from_slice(&output.stdout).expect("a document");
        let failures = result["failures"].as_array().expect("a list");
        assert_eq!(failures.len(), 1, "{way}: {result}");
        let failed = failures[0]["path"].as_str().expect("a path");
        assert!(Path::new(failed).ends_with("big"), "{way}: {result}");
        let figures = ["bytes", "moved_bytes", "resumed_bytes"].map(|name| result[name].as_u64());
        assert_eq!(figures, [Some(8 << 20), Some(8 << 20), Some(0)], "{way}: {result}");
        assert!(same(&there.join("tail"), &to.join("tail")), "{way}");
    }
}
