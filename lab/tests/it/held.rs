//! A booked rate is held from the first round trip on, within what the node admits, and given up
//! where the path is not the copy's own.

use farline_lab::files::{plant_file, same};
use farline_lab::{LinkUp, Running, fit_of_three, json_of, run_dir, skip};
use serde_json::Value;
use std::fs::File;

/// What the node admits together, in Mbit/s.
const ADMITS: &str = "150M";

struct Bed {
    link: LinkUp,
    dir: tempfile::TempDir,
    fingerprint: String,
    _node: Running,
}

impl Bed {
    fn new(name: &str, path: &[&str], admits: &[&str]) -> Option<Bed> {
        let link = LinkUp::up(name, path)?;
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("root");
        std::fs::create_dir_all(&root).expect("a folder");
        let listen = ["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811", "--tls"];
        let mut serve = link.farline("b", &listen);
        let (node, line) = Running::begun(serve.args(admits).arg("--root").arg(&root));
        let said: Value = serde_json::from_str(&line).expect("one object");
        let fingerprint = said["fingerprint"].as_str().expect("a fingerprint").to_owned();
        Some(Bed { link, dir, fingerprint, _node: node })
    }

    /// Copies `mib` MiB to the node, or from it, at a held rate; with what came of it.
    fn copy(&self, channel: &str, mib: u64, back: bool, rate: &str) -> Value {
        let (near, far) = (self.dir.path().join("near"), self.dir.path().join("root/far"));
        let (from, to) = if back { (&far, &near) } else { (&near, &far) };
        plant_file(from, mib, 5);
        let result = json_of(&mut self.command(channel, back, rate));
        assert!(same(from, to), "{channel}: other bytes came");
        result
    }

    fn command(&self, channel: &str, back: bool, rate: &str) -> std::process::Command {
        let near = self.dir.path().join("near");
        let url = format!("farlines://{}-b:2811/far", self.link.name());
        let mut args = vec!["--json", "cp", "--tls-pin", &self.fingerprint, "--channel", channel];
        args.extend(["--congestion", "held", "--rate", rate, "--retry-for", "0"]);
        let near = near.to_str().expect("text");
        args.extend(if back { [&url[..], near] } else { [near, &url[..]] });
        self.link.farline("a", &args)
    }

    /// The code of the error that such a copy ends with, and its text.
    fn refusal(&self, rate: &str) -> (String, String) {
        plant_file(&self.dir.path().join("near"), 1, 5);
        let output = self.command("tcp", false, rate).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let text = |field: &str| said["error"][field].as_str().unwrap_or_default().to_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        (text("code"), text("message") + &text("hint"))
    }
}

fn reasons(result: &Value) -> String {
    result["reasons"].to_string() + &result["notes"].to_string()
}

/// Those that this user may have hold a rate: over TCP the control is a BPF program.
fn over<const N: usize>(
    channels: [(&'static str, bool); N],
) -> impl Iterator<Item = (&'static str, bool)> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("over TCP: only root can load a congestion control");
    }
    channels.into_iter().filter(move |(channel, _)| is_root || *channel != "tcp")
}

#[test]
fn a_booked_rate_flows_from_the_first_round_trip_on() {
    let path = ["custom", "--rate", "150M", "--rtt", "200ms"];
    let Some(bed) = Bed::new("t-held", &path, &["--allow-held", ADMITS]) else { return };
    for (channel, back) in over([("tcp", false), ("tcp", true), ("udt", false), ("quic", true)]) {
        // 0.9 s of bytes and their way there; slow start alone would take six round trips more.
        let took = |result: &Value| {
            let read = |field: &str| result[field].as_f64().expect("a number");
            read("seconds") - read("first_data_seconds")
        };
        let is_held = |result: &Value| took(result) < 0.9 + 4.0 * 0.2;
        let result = fit_of_three(|| bed.copy(channel, 16, back, ADMITS), is_held);
        println!("{channel}, back {back}: {:.2} s", took(&result));
        assert!(is_held(&result), "{channel}, back {back}: {:.2} s: {result}", took(&result));
        let why = reasons(&result);
        assert!(why.contains("150 Mbit/s held over 1 channel"), "{channel}: {why}");
        assert!(!why.contains("the held rate fell"), "{channel}: {why}");
    }
    // The control has another name where a process that begins at the same time has its own.
    let holders = run_dir().join("cc");
    std::fs::create_dir_all(&holders).expect("a folder");
    let record =
        File::options().write(true).create(true).truncate(false).open(holders.join("held"));
    let record = record.expect("a record");
    let is_mine = record.try_lock().is_ok();
    for (channel, back) in over([("tcp", false)]) {
        let why = reasons(&bed.copy(channel, 1, back, ADMITS));
        assert!(why.contains("150 Mbit/s held over 1 channel"), "{why}");
    }
    if is_mine {
        std::fs::remove_file(holders.join("held")).expect("it was made here");
    }
    let (code, text) = bed.refusal("151M");
    assert_eq!(code, "held-rate-refused", "{text}");
    assert!(text.contains("150 Mbit/s for all its clients") && text.contains("--allow-held"));
}

#[test]
fn a_rate_that_the_path_does_not_have_is_given_up_and_said() {
    let path = ["custom", "--rate", "80M", "--rtt", "20ms"];
    let Some(bed) = Bed::new("t-heldy", &path, &["--allow-held", ADMITS]) else { return };
    for (channel, back) in over([("tcp", false), ("udt", true), ("quic", false)]) {
        // A sender that a busy machine holds up sends less than it booked.
        let fell = |result: &Value| reasons(result).contains("the held rate fell from 150 Mbit/s");
        let result = fit_of_three(|| bed.copy(channel, 16, back, ADMITS), fell);
        assert!(fell(&result), "{channel}, back {back}: {}", reasons(&result));
    }
}

#[test]
fn a_node_holds_no_rate_that_its_operator_did_not_admit() {
    let Some(bed) = Bed::new("t-heldn", &["custom", "--rate", "100M", "--rtt", "1ms"], &[]) else {
        return;
    };
    let (code, text) = bed.refusal("1M");
    assert_eq!(code, "held-rate-refused", "{text}");
    assert!(text.contains("holds no rate for its clients"), "{text}");
}
