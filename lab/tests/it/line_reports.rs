//! What `farline line` writes down: each file as its name says, and nothing over what it is made from.

use farline_lab::{Running, error_of_command, farline, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The far end at a loopback port, and where that is.
fn reflector() -> (Running, String) {
    let listen = ["--json", "line", "reflect", "--listen", "127.0.0.1:0"];
    let (far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (far, said["address"].as_str().expect("an address").to_owned())
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A test of `address` that writes `file`; a busy host may not be fit for it.
fn tested(address: &str, file: &Path) {
    let mut command = farline();
    command.args(["-q", "line", address, "--rate", "5M", "--for", "2s", "-o"]).arg(file);
    let output = command.output().expect("farline runs");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
}

#[test]
fn a_comparison_is_written_as_its_files_names_say() {
    let (_far, address) = reflector();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (a, b) = (at("a.json"), at("b.json"));
    tested(&address, &a);
    tested(&address, &b);
    let compare = |files: &[&Path], out: &[&Path]| -> Command {
        let mut command = farline();
        command.args(["--json", "line", "compare", "--composed"]).args(files);
        command.args(out.iter().flat_map(|file| [Path::new("-o"), file]));
        command
    };
    let out = ["c.json", "c.csv", "c.html"].map(at);
    succeed(&mut compare(&[&a, &b], &[&out[0], &out[1], &out[2]]));
    let paths = &json(&out[0])["paths"];
    for (path, file) in [(&paths[0], &a), (&paths[1], &b)] {
        let document = json(file);
        assert_eq!((&path["date"], &path["verdict"]), (&document["date"], &document["verdict"]));
    }
    assert_eq!(read(&out[1]).lines().count(), 3);
    assert!(read(&out[2]).contains("Normalised histograms"));
    // However it is spelt, what is read stays.
    let same = folder.path().join(".").join("b.json");
    let before = read(&b);
    let (error, code) = error_of_command(&mut compare(&[&a, &b], &[&same]));
    assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
    assert_eq!(read(&b), before);
    // Without samples there is nothing to draw a prediction from.
    let mut empty = json(&a);
    empty["rtts_ns"] = Value::Array(Vec::new());
    std::fs::write(at("e.json"), empty.to_string()).expect("written");
    let (error, code) = error_of_command(&mut compare(&[&at("e.json"), &b], &[]));
    assert_eq!((error["code"].as_str(), code), (Some("line-document"), 2), "{error}");
}

#[test]
fn searches_and_service_levels_are_written_too() {
    let (_far, address) = reflector();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let level = at("level.toml");
    std::fs::write(&level, "rate = \"4M\"\navailability = 0.1\n").expect("written");
    let level = level.to_string_lossy().into_owned();
    let whats: [&[&str]; 3] =
        [&["--service", &level], &["--search", "0.5", "--rate", "4M"], &["--search", "bursts:1"]];
    for (n, what) in whats.into_iter().enumerate() {
        let out = ["html", "json", "csv"].map(|kind| at(&format!("{n}.{kind}")));
        let mut command = farline();
        command.args(["--json", "-q", "line", &address, "--for", "1s"]).args(what);
        command.args(out.iter().flat_map(|file| [Path::new("-o"), file]));
        let output = command.output().expect("farline runs");
        // A busy host may not be fit to say.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(json(&out[1]), said);
        assert_eq!(said["settings"]["target"], address, "{said}");
        let html = read(&out[0]);
        assert!(html.contains(said["schema"].as_str().expect("a schema")), "{html}");
        assert!(read(&out[2]).lines().count() >= 1);
    }
    assert!(read(&at("0.html")).contains("Looked at, at each step of 4.00 Mbit/s: availability"));
}

#[test]
fn what_compares_nothing_or_never_ends_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let level = folder.path().join("level.toml");
    std::fs::write(&level, "rate = \"4M\"\n").expect("written");
    let asked = |more: &[&str]| {
        let mut command = farline();
        command.args(["--json", "line", "127.0.0.1:9", "--for", "1s"]).args(more);
        let (error, code) = error_of_command(&mut command);
        assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
        error["message"].as_str().expect("a message").to_owned()
    };
    let level = level.to_string_lossy().into_owned();
    assert!(asked(&["--service", &level]).contains("nothing to hold"));
    let burst = asked(&["--burst", "10000", "--rate", "1M"]);
    assert!(burst.contains("10000 frames") && burst.contains("longer than the test"), "{burst}");
    let frame = asked(&["--rate", "1k"]);
    assert!(frame.contains("a frame takes") && frame.contains("longer than the test"), "{frame}");
}

#[test]
fn a_strip_has_a_part_for_each_second() {
    let (_far, address) = reflector();
    let folder = tempfile::tempdir().expect("a folder");
    let csv = folder.path().join("p.csv");
    tested(&address, &csv);
    assert_eq!(read(&csv).lines().count(), 1 + 2, "{}", read(&csv));
}
