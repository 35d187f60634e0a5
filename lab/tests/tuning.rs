//! A copy that changes its own means while it runs, over a real link.

use farline_lab::Link;
use serde_json::Value;

/// Random loss on a path without a queue: CUBIC cannot fill it, and the copy finds out and takes BBR for all its channels.
#[test]
fn losses_without_congestion_lead_to_bbr() {
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if !["bbr", "cubic"].iter().all(|name| offered.split_whitespace().any(|offer| offer == *name)) {
        eprintln!("SKIPPED: this kernel has not both cubic and bbr ({})", offered.trim());
        return;
    }
    let Some(link) = Link::up("t-tuning", &["custom", "--rtt", "20ms", "--rate", "1G", "--loss", "0.005"]) else { return };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-null"]);
    let copy = ["--json", "cp", "memory:384MiB", "farline://10.77.0.2:2811/?null"];
    let outcome = link.farline("a", &copy).output().expect("farline runs");
    assert!(outcome.status.success(), "{outcome:?}");
    let outcome: Value = serde_json::from_slice(&outcome.stdout).expect("one object");
    let reasons = outcome["reasons"].as_array().expect("a list");
    assert!(reasons.iter().any(|reason| reason.as_str().is_some_and(|text| text.starts_with("bbr: segments"))), "{outcome}");
    assert_eq!((&outcome["congestion"], &outcome["verified"]), (&"bbr".into(), &true.into()), "{outcome}");
}
