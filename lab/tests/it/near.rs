//! A copy within a host or a rack: it takes a congestion control that does not pace, and says why.

use farline_lab::{Namespaces, farline_binary, json_of};
use serde_json::Value;
use std::path::Path;

fn has(reasons: &Value, what: &str) -> bool {
    let reasons = reasons.as_array().expect("a list");
    reasons.iter().any(|reason| reason.as_str().is_some_and(|text| text.contains(what)))
}

#[test]
fn a_near_copy_does_not_pace_and_says_why() {
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    if !["bbr", "cubic"].iter().all(|name| offered.split_whitespace().any(|offer| offer == *name)) {
        farline_lab::skip(format!("this kernel has not both cubic and bbr ({})", offered.trim()));
        return;
    }
    let Some(spaces) = Namespaces::pair("near") else { return };
    // A namespace's default may only be what the whole machine lets everybody use.
    let bbr = ["-qw", "net.ipv4.tcp_congestion_control=bbr"];
    if !spaces.run_here(Path::new("sysctl")).args(bbr).status().is_ok_and(|set| set.success()) {
        farline_lab::skip("this machine lets no namespace have bbr as its default");
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let (_node, url) = spaces.node(root.path());
    let copy = |from: &str, to: &str| {
        let mut command = spaces.run_here(&farline_binary());
        json_of(command.args(["--json", "cp", from, to]))
    };
    let up = copy("memory:8MiB", &format!("{url}/up"));
    let reason = "cubic rather than this host's bbr: below 1.00 ms of rtt";
    assert!(up["congestion"] == "cubic" && has(&up["reasons"], reason), "{up}");
    assert!(has(&up["reasons"], "without fq on this route"), "{up}");
    // The node sends then, and takes what it is told.
    let down = copy(&format!("{url}/up"), "null:");
    assert!(down["congestion"] == "cubic" && has(&down["reasons"], reason), "{down}");
    let fq =
        spaces.run_here(Path::new("tc")).args(["qdisc", "add", "dev", "v", "root", "fq"]).status();
    if fq.is_ok_and(|status| status.success()) {
        let paced = copy("memory:8MiB", &format!("{url}/paced"));
        assert!(paced["congestion"] == "cubic", "{paced}");
        assert!(has(&paced["reasons"], "fq on this route would pace it"), "{paced}");
    }
    // What was asked for stays.
    let mut asked = spaces.run_here(&farline_binary());
    let to = format!("{url}/asked");
    let asked = json_of(asked.args(["--json", "cp", "--congestion", "bbr", "memory:8MiB", &to]));
    assert_eq!(asked["congestion"], "bbr", "{asked}");
}
