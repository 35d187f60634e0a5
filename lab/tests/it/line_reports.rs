//! What `farline line` writes down: each file as its name says, and nothing over what it is made
//! from.

use farline_lab::{Brief, LinkUp, Running, error_of_command, farline, succeed, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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

fn json(file: &Path) -> Brief {
    Brief::read(file)
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
    let mut empty = Value::clone(&json(&a));
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
        let said = Brief::of(&output);
        assert_eq!(json(&out[1]), said);
        assert_eq!(said["settings"]["target"], address, "{said}");
        let html = read(&out[0]);
        assert!(html.contains(said["schema"].as_str().expect("a schema")), "{said}");
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

/// `farline line --preset NAME` with a page, a document and a table, in `folder`.
fn preset(name: &str, folder: &Path) -> Command {
    let mut command = farline();
    command.current_dir(folder).args(["--json", "line", "--preset", name]);
    command.args(["-o", "p.html", "-o", "p.json", "-o", "p.csv"]);
    command
}

/// Its document, where all three were written and say the same.
fn written(folder: &Path, figures: usize) -> Brief {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("written");
    let document = json(&folder.join("p.json"));
    assert_eq!(document["schema"], "farline/line-preset/1", "{document}");
    assert_eq!(document["figures"].as_array().map(Vec::len), Some(figures), "{document}");
    assert_eq!(read("p.csv").lines().filter(|line| !line.starts_with('#')).count(), figures + 1);
    assert!(read("p.html").contains("The paper"), "a page");
    document
}

#[test]
fn a_papers_line_test_is_whole_in_its_reports() {
    if LinkUp::up("t-preset", &["custom", "--rtt", "1ms"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = preset("wanphy-line", folder.path()).output().expect("farline runs");
    let document = written(folder.path(), 3);
    let test = &document["documents"][0];
    // This host may be too busy to say; what the line is says nobody else.
    let outcome = test["outcome"].as_str().expect("an outcome");
    assert!(["passed", "unfit", "undecided"].contains(&outcome), "{document}");
    assert_eq!(output.status.code(), Some(if outcome == "passed" { 0 } else { 3 }), "{document}");
    let rtt = document["figures"][0]["here"].as_f64().expect("a round trip");
    assert!((17.0..25.0).contains(&rtt), "{document}");
}

#[test]
fn raw_ethernet_as_in_the_paper_is_whole_in_its_reports() {
    if LinkUp::up("t-raw", &["custom", "--rtt", "1ms", "--ethernet"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = preset("wanphy-raw", folder.path()).output().expect("farline runs");
    let said = Brief::of(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("written");
    let document = json(&folder.path().join("p.json"));
    assert_eq!(document["schema"], "farline/line-raw-preset/1", "{document}");
    assert_eq!((&said["figures"], &said["sizes"]), (&document["figures"], &document["sizes"]));
    let rows = document["sizes"]["rows"].as_array().expect("a row for each size");
    let came = rows.iter().filter(|row| row["received"].as_u64() > Some(0)).count();
    assert_eq!((came, document["together"].as_array().map(Vec::len)), (rows.len(), Some(2)));
    // Two senders that offer more than the port's rate fill it, and do not bring more through it.
    let together = document["together_percent"].as_f64().expect("a share");
    assert!((30.0..=101.0).contains(&together), "{document}");
    let table = read("p.csv");
    let lines = table.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(lines, 1 + rows.len(), "{table}");
    assert!(read("p.html").contains("The paper"), "a page");
}

#[test]
fn a_preset_that_is_ended_leaves_its_reports() {
    if LinkUp::up("t-ended", &["custom", "--rtt", "1ms"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let piped = Stdio::piped;
    let mut command = preset("usn-vlans", folder.path());
    let test = Running(command.stdout(piped()).stderr(piped()).spawn().expect("farline runs"));
    std::thread::sleep(Duration::from_secs(8));
    test.signal(Signal::INT);
    let (status, _, _) = test.finish();
    assert_eq!(status.code(), Some(3));
    let document = written(folder.path(), 6);
    let tests = document["documents"].as_array().expect("a list");
    assert_eq!((tests.len(), &tests[0]["broken_off"]), (1, &Value::from("ended by you")));
}

#[test]
fn a_preset_that_was_killed_goes_on_from_its_state() {
    if LinkUp::up("t-preset-state", &["custom", "--rtt", "1ms"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let saved = || -> Value {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let (silent, piped) = (Stdio::null, Stdio::piped);
    let mut command = preset("usn-vlans", folder.path());
    command.args(["--state", "state"]).stdout(silent()).stderr(silent());
    let mut test = Running(command.spawn().expect("farline runs"));
    // Of the three paths' tests, 15 s each, the second is under way.
    wait_for("the first test's begin", || saved()["running"].is_object());
    wait_for("its end", || saved()["documents"].as_array().map(Vec::len) == Some(1));
    // A busy machine may be late in all of them.
    let seconds = |sums: &Value| -> u64 {
        let counted = ["tested", "away", "sender_late", "sender_drops", "receiver_drops"];
        counted.iter().filter_map(|key| sums[*key].as_u64()).sum()
    };
    wait_for("a second of the next", || seconds(&saved()["running"]["test"]["sums"]) > 1);
    test.end(Signal::KILL);
    let before = saved();
    let (error, code) =
        error_of_command(preset("usn-vlans", folder.path()).args(["--state", "state"]));
    assert_eq!((error["code"].as_str(), code), (Some("line-state"), 2), "{error}");

    let mut command = farline();
    command.current_dir(folder.path()).args(["--json", "line", "--resume", "state"]);
    command.args(["-o", "p.html", "-o", "p.json", "-o", "p.csv"]).stdout(piped()).stderr(piped());
    let output = command.output().expect("farline runs");
    let document = written(folder.path(), 6);
    let tests = document["documents"].as_array().expect("a list");
    let names: Vec<&Value> = tests.iter().map(|test| &test["settings"]["target"]).collect();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(names, ["sonet", "mpls", "composed"], "{document} {told}");
    assert!(tests[0] == before["documents"][0], "what was done is not done again: {document}");
    // The second was away while nobody ran it, and all of its time is accounted for.
    let sums = &tests[1]["sums"];
    // A busy machine may have been late in the same seconds.
    assert_eq!((seconds(sums), sums["tested"].as_u64() < Some(15)), (15, true), "{sums}");
    assert_eq!(saved()["is_over"], true);
}
