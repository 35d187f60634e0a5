//! Copies from and to a disk that is slow by itself: what is said of it, here and at a node.

use farline_lab::files::{folder, plant_file, same, text};
use farline_lab::{SlowDisk, farline, json_of, node};
use serde_json::Value;

/// As fast as the disk is, in bytes a second.
const RATE: u64 = 30 << 20;

fn copied(from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "cp", from, to]))
}

/// That the disk was named, and whose it is.
fn assert_named(result: &Value, limit: &str, party: &str) {
    let said = [&result["limited_by"], &result["limited_party"]];
    assert_eq!(said, [limit, party], "{}: {result}", result["limited_evidence"]);
    let rate = result["rate_bps"].as_u64().expect("a rate") / 8;
    assert!(rate < RATE * 2, "the disk was not slow: {rate} bytes a second");
}

#[test]
fn a_slow_disk_that_is_written_to_is_named() {
    let Some(disk) = SlowDisk::up(800) else { return };
    let dir = folder();
    let (file, served) = (dir.path().join("file"), dir.path().join("served"));
    // More than two windows of what may be written and not durable.
    plant_file(&file, 180, 1);
    std::fs::create_dir(&served).expect("a folder");
    std::fs::copy(&file, served.join("file")).expect("copied");
    disk.write_at(RATE);
    let (_far, there) = node(disk.path(), "write", &[]);
    let (_near, from) = node(&served, "read", &[]);
    let up = copied(text(&file), &format!("{there}/up"));
    assert_named(&up, "disk_write", "there");
    let down = copied(&format!("{from}/file"), text(&disk.path().join("down")));
    assert_named(&down, "disk_write", "here");
    assert!(same(&file, &disk.path().join("up")) && same(&file, &disk.path().join("down")));
}

#[test]
fn a_slow_disk_that_is_read_from_is_named() {
    let Some(disk) = SlowDisk::up(400) else { return };
    let dir = folder();
    plant_file(&disk.path().join("file"), 100, 1);
    let (_far, to) = node(dir.path(), "write", &[]);
    disk.forget("file");
    disk.read_at(RATE);
    let up = copied(text(&disk.path().join("file")), &format!("{to}/up"));
    assert_named(&up, "disk_read", "here");
    disk.forget("file");
    let (_near, from) = node(disk.path(), "read", &[]);
    let down = copied(&format!("{from}/file"), text(&dir.path().join("down")));
    assert_named(&down, "disk_read", "there");
    assert!(same(&dir.path().join("up"), &dir.path().join("down")));
}
