//! `farline line` over emulated links whose trouble is known: what it says must be that, and what a
//! host loses itself must never be the line's.

use farline_lab::{LinkUp, Running, error_of, farline, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// The far end at side b.
fn reflector(link: &LinkUp, more: &[&str]) -> Running {
    let mut command = link.farline("b", &["--json", "line", "reflect"]);
    let (running, line) = Running::begun(command.args(more));
    assert!(line.contains("farline/line-reflect/1"), "{line}");
    running
}

/// A test from side a with `arguments`.
fn tester(link: &LinkUp, arguments: &[&str]) -> Command {
    let mut command = link.farline("a", &["--json", "line", "10.77.0.2"]);
    command.args(arguments);
    command
}

/// Its document and its exit code.
fn tested(link: &LinkUp, arguments: &[&str]) -> (Value, i32) {
    document(tester(link, arguments).output().expect("farline runs"))
}

fn document(output: std::process::Output) -> (Value, i32) {
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(document["schema"], "farline/line/1", "{document}");
    (document, output.status.code().expect("an exit code"))
}

fn count(document: &Value, key: &str) -> u64 {
    document["sums"][key].as_u64().unwrap_or_else(|| panic!("no {key}: {document}"))
}

#[test]
fn a_clean_line_passes_and_a_bad_one_fails() {
    let Some(link) = LinkUp::up("t-line", &["custom", "--rtt", "4ms", "--rate", "100M"]) else {
        return;
    };
    let far = reflector(&link, &[]);
    let asked = ["--rate", "20M", "--ber", "1e-7", "--for", "30s"];
    let (document, code) = tested(&link, &asked);
    assert_eq!((document["outcome"].as_str(), code), (Some("passed"), 0), "{document}");
    assert_eq!((count(&document, "lost"), count(&document, "wrong_bits")), (0, 0));
    assert!(document["bit_errors"]["below"].as_f64() < Some(1e-7), "{document}");
    let rtt = document["rtt"]["min_ns"].as_f64().expect("a round trip");
    assert!((4e6..8e6).contains(&rtt), "{rtt} ns");
    let there = document["one_way_delay"]["min_ns"].as_f64().expect("a delay");
    assert!((2e6..5e6).contains(&there), "{there} ns");
    drop(far);
    drop(link);
    let lossy = ["custom", "--rtt", "4ms", "--rate", "100M", "--loss", "0.02"];
    let Some(link) = LinkUp::up("t-line-lossy", &lossy) else { return };
    let _far = reflector(&link, &[]);
    let (document, code) = tested(&link, &asked);
    assert_eq!((document["outcome"].as_str(), code), (Some("failed"), 5), "{document}");
}

#[test]
fn loss_and_flipped_bits_are_measured_as_put_in() {
    let trouble =
        ["custom", "--rtt", "2ms", "--rate", "100M", "--loss", "0.01", "--flips", "0.003"];
    let Some(link) = LinkUp::up("t-line-truth", &trouble) else { return };
    let _far = reflector(&link, &[]);
    let (document, code) = tested(&link, &["--rate", "30M", "--confidence", "99.9", "--for", "5s"]);
    assert_eq!((document["outcome"].as_str(), code), (Some("measured"), 0), "{document}");
    let holds = |ratio: &Value, truth: f64| {
        let end = |end: &str| ratio[end].as_f64().expect("an end");
        assert!(end("low") <= truth && truth <= end("high"), "{truth}: {ratio}");
    };
    holds(&document["loss"], 0.01);
    let sent = count(&document, "sent") as f64;
    let wrong = count(&document, "wrong_frames") as f64 / (sent * 0.99);
    assert!((0.0015..0.006).contains(&wrong), "{wrong} of the frames have a flipped bit");
    assert_eq!(count(&document, "wrong_frames"), count(&document, "wrong_bits"), "one bit each");
}

#[test]
fn what_a_stopped_receiver_drops_is_not_the_lines() {
    let Some(link) = LinkUp::up("t-line-stop", &["custom", "--rtt", "2ms", "--rate", "100M"])
    else {
        return;
    };
    let far = reflector(&link, &["--buffer", "256KiB"]);
    let test = tester(&link, &["--rate", "40M", "--for", "8s"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("farline runs");
    std::thread::sleep(Duration::from_secs(2));
    far.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    far.signal(Signal::CONT);
    let (document, _) = document(test.wait_with_output().expect("it ends"));
    assert!(count(&document, "receiver_drops") >= 2, "{document}");
    assert_eq!(count(&document, "lost"), 0, "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
    assert!(count(&document, "tested") >= 2, "{document}");
}

#[test]
fn nobody_there_and_frames_too_large_are_clear_words() {
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--for", "1s"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-gone"), 5), "{error}");
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--frames", "63"]);
    assert_eq!((error["code"].as_str(), code), (Some("usage"), 2), "{error}");
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--ber", "0.5"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
    let Some(link) = LinkUp::up("t-line-mtu", &["custom", "--rtt", "1ms", "--mtu", "1500"]) else {
        return;
    };
    let output = tester(&link, &["--frames", "9000"]).output().expect("farline runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("line-frames") && said.contains("1500"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_test_at_a_higher_rate_than_allowed_is_refused() {
    let listen = ["--json", "line", "reflect", "--listen", "127.0.0.1:0", "--allow", "10M"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address");
    let (error, code) = error_of(&["line", address, "--rate", "20M"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-not-allowed"), 6), "{error}");
}

#[test]
fn a_page_has_the_verdict_and_the_document() {
    let listen = ["--json", "line", "reflect", "--listen", "127.0.0.1:0"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let (page, json) = (folder.path().join("p.html"), folder.path().join("p.json"));
    let mut command = farline();
    command.args(["-q", "line", &address, "--rate", "10M", "--for", "2s", "-o"]).arg(&page);
    let output = command.arg("-o").arg(&json).output().expect("farline runs");
    assert!(output.status.success() || output.status.code() == Some(3), "{output:?}");
    wait_for("the page", || page.exists());
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Line test of") && html.contains("farline/line/1"), "{html}");
    let document: Value =
        serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("an object");
    assert_eq!(document["settings"]["frames"]["name"], "cjpat-mix");
}
