//! Peers that fall silent without a word: one clear error, exit code 5, within the time that
//! --timeout says; and a node that does not keep a place for a client that is stopped.

use farline_lab::files::{folder, hidden, plant_file, text};
use farline_lab::{
    Namespaces, Running, error_of_command, farline, farline_binary, json_of, node, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// What --timeout is here, in seconds; and what an error may take beyond it: a look every 200 ms,
/// and a slow machine.
const TIMEOUT: u64 = 3;
const SLACK: Duration = Duration::from_secs(12);

/// Whether a partial file in `folder` has come some way: at the rate of these tests, more than a
/// second.
fn flows(folder: &Path) -> bool {
    let is_partial = |path: &Path| path.extension().is_some_and(|extension| extension == "farline");
    let long = |path: &Path| {
        is_partial(path) && std::fs::metadata(path).is_ok_and(|meta| meta.blocks() * 512 > 64 << 20)
    };
    std::fs::read_dir(folder).expect("a folder").any(|item| long(&item.expect("an entry").path()))
}

fn silent_error(output: &Output, began: Instant) {
    let took = began.elapsed();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(
        (said["error"]["fault"].as_str(), output.status.code()),
        (Some("between"), Some(5)),
        "{said}"
    );
    assert!(
        matches!(said["error"]["code"].as_str(), Some("peer-silent" | "control-timeout")),
        "{said}"
    );
    assert!(said["error"]["hint"].is_string(), "{said}");
    println!("{:?}: {}", took, said["error"]["message"]);
    assert!(took < Duration::from_secs(TIMEOUT) + SLACK, "it took {took:?}");
}

#[test]
fn a_server_that_connects_and_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let began = Instant::now();
    let url = format!("ftp://127.0.0.1:{port}/x");
    let (error, code) = error_of_command(farline().args([
        "--json",
        "cp",
        "--timeout",
        &TIMEOUT.to_string(),
        &url,
        "/nowhere/x",
    ]));
    assert_eq!(
        (error["code"].as_str(), error["fault"].as_str(), code),
        (Some("control-timeout"), Some("between"), 5),
        "{error}"
    );
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(TIMEOUT) && took < Duration::from_secs(TIMEOUT) + SLACK,
        "it took {took:?}"
    );
}

#[test]
fn a_stopped_node_is_given_up_and_the_copy_resumes_later() {
    let dir = folder();
    let (root, down, file) =
        (dir.path().join("root"), dir.path().join("down"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&down).expect("a folder");
    plant_file(&file, 200, 5);
    std::fs::copy(&file, root.join("stored")).expect("copied");
    for up in [true, false] {
        let (mut server, url) = node(&root, "write", &[]);
        let stored = format!("{url}/stored");
        let (from, to, place) =
            if up { (text(&file), &url[..], &root) } else { (&stored[..], text(&down), &down) };
        let mut command = farline();
        let timeout = TIMEOUT.to_string();
        command.args(["--json", "cp", "--limit", "300Mbit/s", "--timeout", &timeout, from, to]);
        let client =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("farline runs");
        wait_for("some data", || flows(place) && !hidden(place).is_empty());
        server.signal(Signal::STOP);
        let began = Instant::now();
        let output = client.wait_with_output().expect("ended");
        silent_error(&output, began);
        assert!(
            !place.join("file").exists() && !down.join("stored").exists(),
            "nothing half-done under a final name"
        );
        server.end(Signal::KILL);
        // Another node in its place goes on with what it finds; to another port a download begins
        // anew.
        let (_again, url) = node(&root, "write", &[]);
        let stored = format!("{url}/stored");
        let (from, to) = if up { (text(&file), &url[..]) } else { (&stored[..], text(&down)) };
        let result = json_of(farline().args(["--json", "cp", from, to]));
        assert_eq!(
            (&result["verified"], up && result["resumed_bytes"] == 0),
            (&Value::Bool(true), false),
            "{result}"
        );
    }
}

#[test]
fn a_path_that_goes_dead_without_a_word_is_noticed_at_both_ends() {
    let Some(spaces) = Namespaces::pair("stock-dead") else { return };
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 200, 5);
    let (_node, url) = spaces.node(&root);
    let copy = |timeout: &str| {
        let mut command = spaces.run_here(&farline_binary());
        command.args([
            "--json",
            "cp",
            "--limit",
            "300Mbit/s",
            "--timeout",
            timeout,
            text(&file),
            &url,
        ]);
        command
    };
    let client = copy(&TIMEOUT.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("farline runs");
    wait_for("some data", || flows(&root));
    // Packets vanish; nobody is told.
    spaces.there(
        "nft add table inet f; nft add chain inet f i \
        '{ type filter hook input priority 0; policy drop; }'",
    );
    spaces.there("nft add chain inet f o '{ type filter hook output priority 0; policy drop; }'");
    let began = Instant::now();
    silent_error(&client.wait_with_output().expect("ended"), began);
    spaces.there("nft delete table inet f");
    // The node holds the place until it knows that its client is gone: within half a minute, by the
    // kernel's word.
    let gone = Instant::now();
    loop {
        let output = copy("60").output().expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
        if output.status.success() {
            assert!(said["resumed_bytes"].as_u64() > Some(0) && said["verified"] == true, "{said}");
            break;
        }
        assert!(
            said["error"]["code"] == "busy" && gone.elapsed() < Duration::from_secs(60),
            "{:?}: {said}",
            gone.elapsed()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("the node let go {:?} after the path went dead", began.elapsed());
}

#[test]
fn a_node_does_not_keep_a_place_for_a_client_that_is_stopped() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 200, 5);
    let (_node, url) = node(&root, "write", &["--timeout", &TIMEOUT.to_string()]);
    let mut command = farline();
    command
        .args(["--json", "cp", "--limit", "300Mbit/s", text(&file), &url])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let client = Running(command.spawn().expect("farline runs"));
    wait_for("some data", || flows(&root));
    client.signal(Signal::STOP);
    let began = Instant::now();
    loop {
        let output =
            farline().args(["--json", "cp", text(&file), &url]).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
        if output.status.success() {
            assert!(said["resumed_bytes"].as_u64() > Some(0) && said["verified"] == true, "{said}");
            break;
        }
        assert_eq!(said["error"]["code"], "busy", "{said}");
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(TIMEOUT) + SLACK,
            "the place is still held after {took:?}"
        );
    }
    assert_eq!(hidden(&root), Vec::<String>::new());
}

#[test]
fn a_stock_server_that_is_stopped_is_given_up_too() {
    let dir = folder();
    let (there, file) = (dir.path().join("there"), dir.path().join("file"));
    std::fs::create_dir(&there).expect("a folder");
    plant_file(&file, 200, 5);
    let (server, url) = farline_lab::globus_server();
    let to = format!("{url}{}/landed", there.display());
    let mut command = farline();
    command.env("XDG_STATE_HOME", dir.path()).args(["--json", "cp", "--limit", "300Mbit/s"]);
    command.args(["--timeout", &TIMEOUT.to_string(), text(&file), &to]);
    let client =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("farline runs");
    wait_for("some data", || flows(&there));
    let id = server.0.id();
    let children =
        std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("its sessions");
    let children: Vec<Pid> = children
        .split_whitespace()
        .filter_map(|child| Pid::from_raw(child.parse().ok()?))
        .collect();
    for &child in &children {
        kill_process(child, Signal::STOP).expect("the session is ours");
    }
    let began = Instant::now();
    let output = client.wait_with_output();
    for &child in &children {
        let _ = kill_process(child, Signal::KILL);
    }
    silent_error(&output.expect("ended"), began);
    assert!(!there.join("landed").exists());
    let mut again = farline_lab::command(farline_binary());
    let result =
        json_of(again.env("XDG_STATE_HOME", dir.path()).args(["--json", "cp", text(&file), &to]));
    assert_eq!(
        result["resumed_bytes"].as_u64(),
        Some(0),
        "a server that may not know that its client is gone writes elsewhere: {result}"
    );
}
