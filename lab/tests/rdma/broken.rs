//! What a copy does when the path dies, the interface goes down, a process is killed or a device is removed, and how it goes on.

use crate::ends::{CALM, End, MIB, Proof, add_device, assert_same, far_node, ip, is_iwarp, is_running, plant, weather, wire};
use farline_lab::{Running, farline};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits until the node's journal has more than its beginning: something is durable.
fn wait_for_journal(root: &Path, copying: &mut Running) {
    let until = Instant::now() + Duration::from_secs(120);
    let journaled = || {
        let entries = std::fs::read_dir(root).expect("the root").flatten();
        let mut journals = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".journal."));
        journals.any(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 300))
    };
    while !journaled() {
        assert!(Instant::now() < until, "nothing was made durable");
        if !is_running(copying) {
            let mut said = String::new();
            copying.0.stdout.take().map(|mut stdout| stdout.read_to_string(&mut said));
            panic!("it ended too early: {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The same copy goes on where it stopped, and verbs carry what is missing.
#[track_caller]
fn goes_on_by_verbs(source: &str, there: &str) {
    let proof = Proof::of(End::Near);
    let resumed = go_on(source, there);
    assert_eq!((&resumed["data_path"], &resumed["verified"]), (&"rdma".into(), &true.into()), "{resumed}");
    let before = resumed["resumed_bytes"].as_u64().expect("a number");
    assert!(before >= MIB as u64, "{resumed}");
    proof.holds(resumed["bytes"].as_u64().expect("a number") - before);
}

/// Waits until a node can be reached again: the kernel takes a while to notice an interface that is up, and to ask for an address anew.
fn await_path(url: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(url.trim_start_matches("farline://")).is_err() {
        assert!(Instant::now() < until, "the path did not come back");
    }
}

/// The same copy again, once the node knows that the one before is gone.
fn go_on(source: &str, there: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let out = farline().args(["--json", "cp", "--channel", "rdma", source, there]).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&out.stdout).expect("an object");
        if said["error"]["code"] != "busy" || Instant::now() > until {
            return said;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_path_that_dies_is_an_error_and_the_copy_goes_on_when_it_is_back() {
    wire();
    for goes_down in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, root) = (dir.path().join("source"), dir.path().join("root"));
        plant(&source, 12 * MIB);
        let (_node, url) = far_node(&root, &[]);
        let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
        let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", "--timeout", "10", source_arg, &there];
        let proof = Proof::of(End::Near);
        let mut copying = Running(farline().args(args).stdout(Stdio::piped()).spawn().expect("farline runs"));
        wait_for_journal(&root, &mut copying);
        proof.holds(MIB as u64);
        if goes_down {
            ip("link set vb down")
        } else {
            weather("loss 100%")
        }
        let mut said = String::new();
        copying.0.stdout.take().expect("piped").read_to_string(&mut said).expect("what it says");
        if goes_down {
            // It has forgotten the route that lab/verbs gave it.
            ["link set vb up", "route add 10.9.1.1/32 dev vb src 10.9.1.2"].into_iter().for_each(ip);
        } else {
            weather(CALM);
        }
        await_path(&url);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(said["error"]["fault"], "between", "{said}");
        goes_on_by_verbs(source_arg, &there);
        assert_same(&source, &root.join("there"));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_killed_copy_goes_on_by_rdma_where_it_stopped() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant(&source, 12 * MIB);
    let (_node, url) = far_node(&root, &[]);
    let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
    let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", source_arg, &there];
    let proof = Proof::of(End::Near);
    let mut killed = Running(farline().args(args).stdout(Stdio::null()).spawn().expect("farline runs"));
    wait_for_journal(&root, &mut killed);
    proof.holds(MIB as u64);
    drop(killed);
    goes_on_by_verbs(source_arg, &there);
    assert_same(&source, &root.join("there"));
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_device_that_is_removed_is_named_and_the_copy_goes_on_without_it() {
    if is_iwarp() {
        eprintln!("skipped: soft-iWARP's device stays until nobody uses it");
        return;
    }
    if std::env::var_os("GUEST_KIND").is_some_and(|kind| kind == "uml") {
        // Built in, verbs come to the device after rdma_cm, and the last that came is asked to leave first: it waits for programs, which
        // nobody has told yet.
        eprintln!("skipped: this kernel's device stays until nobody uses it");
        return;
    }
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant(&source, 12 * MIB);
    let (far, url) = far_node(&root, &[]);
    let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
    let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", "--timeout", "30", source_arg, &there];
    let proof = Proof::of(End::Near);
    let mut copying = Running(farline().args(args).stdout(Stdio::piped()).spawn().expect("farline runs"));
    wait_for_journal(&root, &mut copying);
    proof.holds(MIB as u64);
    // The kernel removes it when the last program that has it open has ended.
    let mut removing = Running(Command::new("rdma").args(["link", "delete", &End::Far.device()]).spawn().expect("rdma runs"));
    let mut said = String::new();
    copying.0.stdout.take().expect("piped").read_to_string(&mut said).expect("what it says");
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
    assert!(said["error"]["message"].as_str().is_some_and(|text| text.contains("removed")), "{said}");
    drop(far);
    assert!(removing.0.wait().expect("it ends").success());

    let (_far, url) = far_node(&root, &[]);
    let resumed = go_on(source_arg, &format!("{url}/there"));
    add_device(&End::Far.device(), "vb");
    assert_eq!((&resumed["data_path"], &resumed["verified"]), (&"direct".into(), &true.into()), "{resumed}");
    assert!(resumed["resumed_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB as u64), "{resumed}");
    assert_same(&source, &root.join("there"));
}
