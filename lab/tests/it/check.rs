//! `farline check`, with and without a node.

use crate::adversary::{configured, log_of};
use farline_lab::files::folder;
use farline_lab::{Sshd, error_of, farline, farline_binary, node, succeed};
use serde_json::Value;

/// Runs it; a host that is not fit is no failure of the test: the exit code must say the same as
/// the document.
fn check(args: &[&str]) -> Value {
    let output = farline().args(["--json", "check"]).args(args).output().expect("farline runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let expected = if report["fit"] == true { 0 } else { 3 };
    assert_eq!(
        (report["schema"].as_str(), output.status.code()),
        (Some("farline/check/1"), Some(expected)),
        "{report}"
    );
    report
}

#[test]
fn it_judges_this_host_for_the_path_that_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let report =
        check(&["--dir", dir.path().to_str().expect("text"), "--rtt", "1ms", "--rate", "1G"]);
    assert_eq!(
        (report["path"]["rtt"].as_u64(), report["path"]["rate"].as_u64()),
        (Some(1_000_000), Some(1_000_000_000))
    );
    let slugs: Vec<&str> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["about"].as_str())
        .collect();
    for slug in [
        "path",
        "receive-buffers",
        "send-buffers",
        "qdisc",
        "congestion-control",
        "processors",
        "disk",
    ] {
        assert!(slugs.contains(&slug), "nothing about {slug}: {slugs:?}");
    }
    assert!(report["facts"]["disk"]["write"]["rate"].as_u64() > Some(0));
    assert_eq!(
        std::fs::read_dir(dir.path()).expect("a folder").count(),
        0,
        "the test file is gone"
    );
    // A path that no host's buffers fill: what is too small is named with its cure.
    let report = check(&["--no-disk", "--rtt", "10s", "--rate", "100G"]);
    let buffers = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["about"] == "receive-buffers")
        .expect("judged");
    assert_eq!(
        (buffers["level"].as_str(), report["fit"].as_bool()),
        (Some("problem"), Some(false))
    );
    assert!(
        buffers["mend"]
            .as_str()
            .is_some_and(|mend| mend.starts_with("sysctl -w net.ipv4.tcp_rmem=")),
        "{buffers}"
    );
}

#[test]
fn a_node_is_greeted_and_one_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "read", &[]);
    let address = url.trim_start_matches("ftp://");
    let report = check(&["--no-disk", address]);
    assert_eq!(
        (report["node"]["farline"].as_bool(), report["path"]["measured"].as_bool()),
        (Some(true), Some(true))
    );
    let rtt = report["path"]["rtt"].as_u64().expect("nanoseconds");
    // Nanoseconds, whatever this machine did meanwhile.
    assert!((1_000..10_000_000_000).contains(&rtt), "{rtt} ns over the loopback");
    assert_eq!(report["facts"]["interfaces"][0]["name"], "lo");
    let (error, exit) = error_of(&["check", "--no-disk", "127.0.0.1:9"]);
    assert_eq!((error["code"].as_str(), exit), (Some("unreachable"), 5), "{error}");
    let (error, exit) = error_of(&["check", "--dir", "/no/such/folder"]);
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
}

#[test]
fn a_node_is_greeted_over_ssh_and_under_tls() {
    let dir = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&dir.path().join("sshd"), "127.0.0.1", "", &[]);
    let config = dir.path().join("ssh_config");
    std::fs::write(&config, sshd.client_config("far", None)).expect("written");
    let (ssh, binary) = (format!("ssh -F {}", config.display()), farline_binary());
    let binary = binary.to_str().expect("text");
    let report = check(&["--no-disk", "--ssh", &ssh, "--remote-farline", binary, "far:"]);
    assert_eq!(
        (report["node"]["farline"].as_bool(), &report["node"]["local"]),
        (Some(true), &Value::Null),
        "{report}"
    );
    let (_node, url) = node(dir.path(), "read", &["--tls"]);
    let url = url.replacen("ftp://", "ftps://", 1);
    let (error, exit) = error_of(&["check", "--no-disk", &url]);
    assert_eq!((error["code"].as_str(), exit), (Some("tls-untrusted"), 6), "{error}");
    let pin = error["hint"]
        .as_str()
        .and_then(|hint| hint.rsplit_once("--tls-pin "))
        .expect("the pin")
        .1
        .to_owned();
    let report = check(&["--no-disk", "--tls-pin", &pin, &url]);
    assert_eq!(
        (report["node"]["farline"].as_bool(), report["path"]["measured"].as_bool()),
        (Some(true), Some(true))
    );
    assert!(succeed(farline().args(["check", "--help"])).lines().count() <= 40);
}

#[test]
fn a_node_that_is_looked_at_logs_no_stranger() {
    let dir = folder();
    let (node, url) = configured(dir.path(), "", &["--tls"]);
    let tls = url.replacen("ftp://", "farlines://", 1);
    let (error, _) = error_of(&["check", "--no-disk", &tls]);
    let hint = error["hint"].as_str().unwrap_or_default();
    let pin = hint.rsplit_once("--tls-pin ").unwrap_or_else(|| panic!("{error}")).1;
    for more in [&[&tls[..], "--tls-pin", pin][..], &[&url]] {
        let report = check(&[&["--no-disk"], more].concat());
        assert_eq!(report["node"]["data"]["state"], "open", "{report}");
    }
    // Who plans needs no data port.
    succeed(farline().args(["plan", "--size", "1GiB"]).arg(url.replacen("ftp", "farline", 1)));
    let log = log_of(node);
    assert!(!log.contains("stranger"), "{log}");
}
