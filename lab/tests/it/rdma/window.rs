//! What a copy has on its way and at the devices: a window that grows where memory may be locked,
//! and queue pairs that go with it.

use super::ends::{
    CALM, End, MIB, SlowCopy, assert_same, by_verbs, far_node, is_iwarp, is_running, weather, wire,
};
use farline_lab::{farline, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_long_path_widens_the_window_unless_memory_is_locked_out() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = far_node(dir.path(), &["--allow-null"]);
    let there = format!("{url}/?null");
    // Soft-RoCE has 512 KiB of each queue pair on their way, whatever the window. So the control
    // connection alone is made to see a round trip of a second, by which both ends size their
    // windows: at 12 MB/s it would hold more than the 8 MiB that a channel begins with.
    for device in ["va", "vb"] {
        for words in [
            format!(
                "qdisc replace dev {device} root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                 0 0 0"
            ),
            format!("qdisc add dev {device} parent 1:3 netem limit 100000 delay 500ms"),
            format!(
                "filter add dev {device} parent 1: protocol ip prio 1 u32 match ip protocol 6 \
                 0xff flowid 1:3"
            ),
        ] {
            succeed(Command::new("tc").args(words.split(' ')));
        }
    }
    let wish = [
        "--json",
        "cp",
        "--channel",
        if is_iwarp() { "rdma:2" } else { "rdma:2:exchange" },
        "--streams",
        "1",
        "--limit",
        "100M",
        "--verify",
        "none",
        "memory:80MiB",
        &there,
    ];
    // Root may lock what it likes, unless it gave that right away.
    let limited = [
        "--bounding-set=-ipc_lock",
        "--inh-caps=-ipc_lock",
        "prlimit",
        "--memlock=9437184:9437184",
    ];
    let (free, _) = by_verbs(farline().args(wish), End::Near);
    let (limited, _) = by_verbs(
        farline_lab::command("setpriv").args(limited).arg(farline_lab::farline_binary()).args(wish),
        End::Near,
    );
    weather(CALM);
    let grew = |result: &Value| result["reasons"].to_string().contains("on its way at once");
    for (result, may_grow) in [(free, true), (limited, false)] {
        assert_eq!(result["bytes"], 80 * MIB, "{result}");
        assert_eq!(
            (grew(&result), result["staging_bytes"].as_u64() > Some(16 * MIB as u64)),
            (may_grow, may_grow),
            "{result}"
        );
        let noticed =
            ["polled", "told"].map(|way| result["completions"][way].as_u64().unwrap_or(0));
        assert!(
            noticed.iter().sum::<u64>() >= 2 * 80,
            "a record and a block of each slot: {noticed:?}"
        );
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn devices_have_a_copys_queue_pairs_only_while_it_runs() {
    let (mut copy, proof) = SlowCopy::begun(&["--channel", "rdma:2", "--streams", "1"]);
    let id = copy.running.0.id();
    let until = Instant::now() + Duration::from_secs(120);
    let mut on: Vec<Value> = Vec::new();
    while on.len() < 2 {
        assert!(
            Instant::now() < until && is_running(&mut copy.running),
            "of the copy's queue pairs only these were seen: {on:?}"
        );
        // Soft-iWARP does not tell of states.
        let connected = queue_pairs()
            .into_iter()
            .filter(|pair| is_of(pair, id) && (is_iwarp() || pair["state"] == "RTS"));
        on = connected.map(|pair| pair["ifname"].clone()).collect();
    }
    assert_eq!(on, [End::Near.device(), End::Near.device()]);
    assert!(copy.running.0.wait().expect("it ends").success());
    proof.holds(12 * MIB as u64);
    assert_same(&copy.source, &copy.root.join("there"));
    assert!(queue_pairs().iter().all(|pair| pair["type"] != "RC"), "they went with the process");
}

/// Whether a thread of the process `id` made a queue pair: what the kernel calls its pid is the
/// thread's.
fn is_of(pair: &Value, id: u32) -> bool {
    Path::new(&format!("/proc/{id}/task/{}", pair["pid"])).exists()
}

/// What the kernel knows of queue pairs.
fn queue_pairs() -> Vec<Value> {
    let said = succeed(Command::new("rdma").args(["-j", "resource", "show", "qp"]));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"))
}
