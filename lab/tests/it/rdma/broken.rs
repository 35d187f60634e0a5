//! What a copy does when the path dies, the interface goes down, a process is killed or a device is
//! removed, and how it goes on.

use super::ends::{
    CALM, End, MIB, Proof, SlowCopy, add_device, assert_same, far_node, ip, is_iwarp, is_running,
    weather,
};
use farline_lab::{Running, farline};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A copy that verbs carry, of which something is durable: the node's journal has more than its
/// beginning.
fn begun(more: &[&str]) -> SlowCopy {
    let (mut copy, proof) = SlowCopy::begun(&[&["--channel", "rdma"], more].concat());
    let until = Instant::now() + Duration::from_secs(120);
    let journaled = |root: &Path| {
        let entries = std::fs::read_dir(root).expect("the root").flatten();
        let mut journals =
            entries.filter(|entry| entry.file_name().to_string_lossy().contains(".journal."));
        journals.any(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 300))
    };
    while !journaled(&copy.root) {
        assert!(Instant::now() < until, "nothing was made durable");
        assert!(is_running(&mut copy.running), "it ended too early: {}", last_words(&mut copy));
        std::thread::sleep(Duration::from_millis(50));
    }
    proof.holds(MIB as u64);
    copy
}

/// What a copy says until it ends.
fn last_words(copy: &mut SlowCopy) -> String {
    let mut said = String::new();
    copy.running.0.stdout.take().expect("piped").read_to_string(&mut said).expect("what it says");
    said
}

/// The same copy goes on where it stopped, and verbs carry what is missing.
#[track_caller]
fn goes_on_by_verbs(copy: &SlowCopy) {
    let proof = Proof::of(End::Near);
    let resumed = go_on(copy, &copy.url);
    assert_eq!(
        (&resumed["data_path"], &resumed["verified"]),
        (&"rdma".into(), &true.into()),
        "{resumed}"
    );
    let before = resumed["resumed_bytes"].as_u64().expect("a number");
    assert!(before >= MIB as u64, "{resumed}");
    proof.holds(resumed["bytes"].as_u64().expect("a number") - before);
    assert_same(&copy.source, &copy.root.join("there"));
}

/// Waits until a node can be reached again: the kernel takes a while to notice an interface that is
/// up, and to ask for an address anew.
fn await_path(url: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(url.trim_start_matches("farline://")).is_err() {
        assert!(Instant::now() < until, "the path did not come back");
    }
}

/// The same copy again, to the node at `url`, once that knows that the one before is gone.
fn go_on(copy: &SlowCopy, url: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let mut command = farline();
        command
            .args(["--json", "cp", "--channel", "rdma"])
            .arg(&copy.source)
            .arg(format!("{url}/there"));
        let out = command.output().expect("farline runs");
        let said: Value = serde_json::from_slice(&out.stdout).expect("an object");
        if said["error"]["code"] != "busy" || Instant::now() > until {
            return said;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_dead_path_is_an_error_and_the_copy_resumes_when_back() {
    for goes_down in [false, true] {
        let mut copy = begun(&["--timeout", "10"]);
        if goes_down {
            ip("link set vb down")
        } else {
            weather("loss 100%")
        }
        let said = last_words(&mut copy);
        if goes_down {
            // It has forgotten the route that lab/verbs gave it.
            ["link set vb up", "route add 10.9.1.1/32 dev vb src 10.9.1.2"]
                .into_iter()
                .for_each(ip);
        } else {
            weather(CALM);
        }
        await_path(&copy.url);
        let said: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(said["error"]["fault"], "between", "{said}");
        goes_on_by_verbs(&copy);
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_killed_copy_goes_on_by_rdma_where_it_stopped() {
    let mut copy = begun(&[]);
    copy.running.end(Signal::KILL);
    goes_on_by_verbs(&copy);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_removed_device_is_named_and_the_copy_goes_on() {
    if is_iwarp() {
        farline_lab::skip("soft-iWARP's device stays until nobody uses it");
        return;
    }
    if std::env::var_os("GUEST_KIND").is_some_and(|kind| kind == "uml") {
        // Built in, verbs come to the device after rdma_cm, and the last that came is asked to
        // leave first: it waits for programs, which nobody has told yet.
        farline_lab::skip("this kernel's device stays until nobody uses it");
        return;
    }
    let mut copy = begun(&["--timeout", "30"]);
    // The kernel removes it when the last program that has it open has ended.
    let mut removing = Running(
        Command::new("rdma")
            .args(["link", "delete", &End::Far.device()])
            .spawn()
            .expect("rdma runs"),
    );
    let said = last_words(&mut copy);
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
    assert!(
        said["error"]["message"].as_str().is_some_and(|text| text.contains("removed")),
        "{said}"
    );
    copy.node.end(Signal::KILL);
    assert!(removing.0.wait().expect("it ends").success());

    let (_far, url) = far_node(&copy.root, &[]);
    let resumed = go_on(&copy, &url);
    add_device(&End::Far.device(), "vb");
    assert_eq!(
        (&resumed["data_path"], &resumed["verified"]),
        (&"direct".into(), &true.into()),
        "{resumed}"
    );
    assert!(
        resumed["resumed_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB as u64),
        "{resumed}"
    );
    assert_same(&copy.source, &copy.root.join("there"));
}
