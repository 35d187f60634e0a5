//! A copy that changes its own means while it runs, over a real link.

use farline_lab::{farline, farline_binary};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LINK: &str = "t-tuning";

fn enter(side: &str, arguments: &[&str]) -> Command {
    let mut command = farline();
    command.args(["link", "exec", LINK, side, "--"]).arg(farline_binary()).args(arguments);
    command
}

/// Random loss on a path without a queue: CUBIC cannot fill it, and the copy finds out and takes BBR for all its channels.
#[test]
fn losses_without_congestion_lead_to_bbr() {
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if !["bbr", "cubic"].iter().all(|name| offered.split_whitespace().any(|offer| offer == *name)) {
        eprintln!("SKIPPED: this kernel has not both cubic and bbr ({})", offered.trim());
        return;
    }
    let up = ["--json", "link", "up", "custom", "--name", LINK, "--rtt", "20ms", "--rate", "1G", "--loss", "0.005"];
    let up = farline().args(up).output().expect("farline runs");
    if !up.status.success() {
        let said = String::from_utf8_lossy(&up.stdout).into_owned();
        let error: Value = serde_json::from_str(&said).expect("one object");
        assert!(matches!(error["error"]["code"].as_str(), Some("link-forbidden" | "link-device")), "{said}");
        eprintln!("SKIPPED: this machine does not let us make a link: {said}");
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let place = root.path().to_str().expect("text");
    let serve = ["serve", "--listen", "10.77.0.2:2811", "--root", place, "--anonymous", "write", "--allow-null"];
    let node = enter("b", &serve).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut node = node.expect("farline runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    let outcome = loop {
        let copy =
            enter("a", &["--json", "cp", "memory:384MiB", "farline://10.77.0.2:2811/?null"]).output().expect("farline runs");
        // The node may not listen yet.
        if copy.status.success() || Instant::now() > deadline {
            break copy;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let _ = farline().args(["link", "down", LINK]).output();
    let _ = node.kill();
    let _ = node.wait();
    assert!(outcome.status.success(), "{outcome:?}");
    let outcome: Value = serde_json::from_slice(&outcome.stdout).expect("one object");
    let reasons = outcome["reasons"].as_array().expect("a list");
    assert!(reasons.iter().any(|reason| reason.as_str().is_some_and(|text| text.starts_with("bbr: segments"))), "{outcome}");
    assert_eq!((&outcome["congestion"], &outcome["verified"]), (&"bbr".into(), &true.into()), "{outcome}");
}
