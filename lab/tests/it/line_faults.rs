//! What `farline line` does when something around it fails: another process on its state, a full disk, an
//! end that goes away.

use farline_lab::{Running, error_of_command, farline, farline_binary, skip, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The far end at a loopback port, and where that is.
fn reflector(listen: &str) -> (Running, String) {
    let (far, line) =
        Running::begun(farline().args(["--json", "line", "reflect", "--listen", listen]));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (far, said["address"].as_str().expect("an address").to_owned())
}

/// A test of `address` with a state, which has one already.
fn begun(address: &str, seconds: &str, state: &Path) -> Running {
    let mut command = farline();
    command.args(["--json", "-q", "line", address, "--rate", "5M", "--for", seconds, "--state"]);
    let piped = command.arg(state).stdout(Stdio::piped());
    let running = Running(piped.spawn().expect("farline runs"));
    wait_for("a state", || tested(state) >= 1);
    running
}

/// Seconds that the state counts as tested.
fn tested(state: &Path) -> u64 {
    let json = std::fs::read_to_string(state).unwrap_or_default();
    let state: Value = serde_json::from_str(&json).unwrap_or_default();
    state["test"]["sums"]["tested"].as_u64().unwrap_or(0)
}

/// What a test says at its end, and its exit code.
fn ended(test: Running) -> (Value, i32) {
    let (status, said, _) = test.finish();
    let document = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    (document, status.code().expect("an exit code"))
}

#[test]
fn a_test_is_one_processs_alone() {
    let (_far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let first = begun(&address, "6s", &state);
    let mut second = farline();
    let (error, code) = error_of_command(second.args(["--json", "line", "--resume"]).arg(&state));
    assert_eq!((error["code"].as_str(), code), (Some("line-state"), 2), "{error}");
    let (message, hint) = (error["message"].to_string(), error["hint"].to_string());
    assert!(message.contains(&first.id().to_string()) && hint.contains("--state"), "{error}");
    let (document, _) = ended(first);
    assert_eq!(document["sums"]["lost"], 0, "{document}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "the lock goes with the test: {left:?}");
}

#[test]
fn a_full_disk_takes_no_other_report() {
    if !rustix::process::geteuid().is_root() {
        return skip("a mount of its own needs root");
    }
    let (_far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let full = folder.path().join("full");
    std::fs::create_dir(&full).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=256k none {full} && echo old > {full}/p.html && \
         {farline} --json line {address} --rate 5M --for 3s --state {full}/state -o {full}/p.html \
         -o {full}/p.csv -o {good}; echo \"exit $?\"; cat {full}/p.html; ls {full}",
        full = full.display(),
        farline = farline_binary().display(),
        good = folder.path().join("p.json").display(),
    );
    let mut command = farline_lab::command("unshare");
    let output = Command::output(command.args(["--mount", "sh", "-c", &script])).expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("farline/line/1"), "the result itself: {said}");
    let error: Value = serde_json::from_str(lines[1]).unwrap_or_else(|e| panic!("{e}: {said}"));
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("p.html") && message.contains("p.csv"), "{message}");
    assert!(!error["error"]["hint"].to_string().contains("--resume"), "{error}");
    // What was there is whole, and nothing is left half.
    assert_eq!(lines[2..], ["exit 3", "old", "p.html"], "{said}");
    let good = std::fs::read_to_string(folder.path().join("p.json")).expect("written");
    assert_eq!(serde_json::from_str::<Value>(&good).expect("JSON")["schema"], "farline/line/1");
    assert_eq!(told.matches("the test goes on").count(), 1, "said once: {told}");
}
