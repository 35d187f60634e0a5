//! A copy that changes its own means while it runs, over a real link. One at a time: what the
//! sender sees of a path is late where links share two cores, and lateness looks like a queue.

use farline_lab::{LinkUp, alone};
use serde_json::Value;

/// The document of a copy over `link`, with `more` arguments, that must succeed.
fn copied(link: &LinkUp, more: &[&str], from: &str, to: &str) -> Value {
    let arguments = [&["--json", "cp"], more, &[from, to]].concat();
    let outcome = link.farline("a", &arguments).output().expect("farline runs");
    assert!(outcome.status.success(), "{outcome:?}");
    let outcome: Value = serde_json::from_slice(&outcome.stdout).expect("one object");
    assert_eq!(outcome["verified"], true, "{outcome}");
    outcome
}

fn says(outcome: &Value, what: &str) -> bool {
    outcome["reasons"]
        .as_array()
        .expect("a list")
        .iter()
        .any(|reason| reason.as_str().is_some_and(|text| text.contains(what)))
}

/// Random loss on a path without a queue: CUBIC cannot fill it, and the sending end finds out and
/// takes BBR for all its channels.
#[test]
fn losses_without_congestion_lead_to_bbr_both_ways() {
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    if !["bbr", "cubic"].iter().all(|name| offered.split_whitespace().any(|offer| offer == *name)) {
        farline_lab::skip(format!("this kernel has not both cubic and bbr ({})", offered.trim()));
        return;
    }
    alone();
    // So lossy that CUBIC stays far below the rate and what the machine can do: no queue, whatever
    // else runs.
    let Some(link) =
        LinkUp::up("t-tuning", &["custom", "--rtt", "20ms", "--rate", "1G", "--loss", "0.03"])
    else {
        return;
    };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-null", "--allow-memory", "1GiB"]);
    // Few channels take little of the machine, which then is not late by what looks like a queue.
    let few = ["--streams", "4"];
    let up = copied(&link, &few, "memory:160MiB", "farline://10.77.0.2:2811/?null");
    assert!(says(&up, "bbr: segments are lost") && up["congestion"] == "bbr", "{up}");
    let down = copied(&link, &few, "farline://10.77.0.2:2811/?memory=160MiB", "null:");
    assert!(says(&down, "at 10.77.0.2:2811: bbr: segments are lost"), "{down}");
}

/// Slow start over a long path whose queue holds as much as the path: reno looks at no delay, and
/// would double what is on its way until half of it is lost.
#[test]
fn slow_start_is_paced_before_the_queue_overflows_both_ways() {
    alone();
    let path = ["custom", "--rtt", "100ms", "--rate", "300M"];
    let Some(link) = LinkUp::up("t-slow-start", &path) else { return };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-null", "--allow-memory", "1GiB"]);
    let reno = ["--congestion", "reno", "--streams", "4"];
    let paced = |from: &str, to: &str| {
        let outcome = copied(&link, &reno, from, to);
        let reasons = outcome["reasons"].as_array().expect("a list").iter();
        let rate = reasons.filter_map(Value::as_str).find_map(|text| {
            let (_, paced) = text.split_once("paced to ")?;
            paced.split_once(" Mbit/s, which fills the path")?.0.parse::<f64>().ok()
        });
        // What the link carries is less than its rate by headers.
        assert!(rate.is_some_and(|rate| (240.0..320.0).contains(&rate)), "{outcome}");
        // A quarter of what the path holds, in segments of 1,448 bytes.
        assert!(outcome["retransmits"].as_u64() < Some(650), "{outcome}");
    };
    paced("memory:120MiB", "farline://10.77.0.2:2811/?null");
    paced("farline://10.77.0.2:2811/?memory=120MiB", "null:");
}

/// The sending host's windows are far smaller than what the path holds: the first blocks tell, and
/// further channels open, from this end whichever way data goes.
#[test]
fn windows_the_path_outgrows_get_more_channels_both_ways() {
    alone();
    let Some(link) = LinkUp::up("t-windows", &["custom", "--rtt", "40ms", "--rate", "1G"]) else {
        return;
    };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-null", "--allow-memory", "1GiB"]);
    let opened = |side: &str, from: &str, to: &str| {
        let small = link.exec(side, &["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 16384 262144"]);
        assert!(small.status.success(), "{small:?}");
        let outcome = copied(&link, &[], from, to);
        assert!(says(&outcome, "measured: "), "{outcome}");
        assert!(outcome["streams"].as_u64() > Some(4), "{outcome}");
        // A path that loses packets may lose a connection too; this one does not, and gets its
        // channels in the middle of the pass.
        assert_eq!(outcome["passes"], 1, "{outcome}");
        outcome
    };
    let down = opened("b", "farline://10.77.0.2:2811/?memory=256MiB", "null:");
    // At once, when the first blocks fill the windows; on a machine that is busy then, when a later
    // look finds the network to limit.
    let why = ["all that one window", "channels: the network limits"];
    assert!(
        says(&down, "channels to begin with: ") && why.iter().any(|why| says(&down, why)),
        "{down}"
    );
    // The first choice knows this end's windows, and begins with as many channels as make up for
    // them.
    let up = opened("a", "memory:256MiB", "farline://10.77.0.2:2811/?null");
    assert!(says(&up, "one window is at most 256 KiB"), "{up}");
}

/// A source that rests for a part of each second makes the network wait, until the pool is large
/// enough or at its bound; one that the user fixed stays.
#[test]
fn a_source_that_stalls_gets_a_larger_pool_within_its_bound() {
    alone();
    let Some(link) = LinkUp::up("t-pool", &["custom", "--rtt", "20ms", "--rate", "1G"]) else {
        return;
    };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-null"]);
    let copy = |more: &[&str]| {
        let plain = ["--json", "cp", "--verify", "none"];
        let arguments =
            [&plain, more, &["memory:512MiB", "farline://10.77.0.2:2811/?null"]].concat();
        let outcome = link.farline("a", &arguments).output().expect("farline runs");
        assert!(outcome.status.success(), "{outcome:?}");
        serde_json::from_slice::<Value>(&outcome.stdout).expect("one object")
    };
    let stalled = copy(&["--trial-stall", "300ms/1s"]);
    assert!(says(&stalled, "the store comes in bursts"), "{stalled}");
    let staging = stalled["staging_bytes"].as_u64().expect("a number");
    // Two bandwidth-delay products of this link and what is allowed besides; a busy machine's
    // least round trip is a little longer.
    assert!(staging > 16 << 20 && staging <= 2 * 2_500_000 * 5 / 4 + (32 << 20), "{stalled}");
    let fixed = copy(&["--trial-stall", "300ms/1s", "--staging", "16MiB"]);
    assert_eq!(fixed["staging_bytes"], 16 << 20, "{fixed}");
}
