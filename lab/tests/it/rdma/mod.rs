//! Copies by RDMA: what becomes of the wish where there is no device; and, with real verbs between
//! two devices in the guests of `lab/guest` (`make lab`: soft-RoCE, and with GUEST_RDMA=siw
//! soft-iWARP), that verbs carry the bytes, what a broken path does, and how a copy goes on.

mod broken;
mod ends;
mod instead;
mod tap;
mod there_and_back;
mod window;

use ends::{MIB, assert_same, by_tcp_instead, plant};
use farline_lab::{error_of, farline, node};
use std::path::Path;

#[test]
fn without_a_device_a_copy_goes_by_tcp_and_says_why_in_one_line() {
    if std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
    {
        farline_lab::skip("this host has an RDMA device");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, 3 * MIB);
    std::fs::create_dir(dir.path().join("root")).expect("a folder");
    let (_node, url) = node(&dir.path().join("root"), "write", &[]);
    let url = url.replacen("ftp://", "farline://", 1);
    let source = source.to_str().expect("UTF-8");
    let (there, back) = (format!("{url}/a"), dir.path().join("b"));
    for (driver, from, to) in
        [("rdma", source, &*there), ("rdma:4:exchange:read", &there, back.to_str().expect("UTF-8"))]
    {
        by_tcp_instead(farline().args(["--json", "cp", "--channel", driver, from, to]));
    }
    assert_same(Path::new(source), &back);
    for driver in
        ["rdma:17", "rdma:0", "rdma:exchange:4", "rdma:4:4", "rdma:read:read", "tcp:read", "sctp"]
    {
        let (error, code) = error_of(&["cp", "--channel", driver, source, &format!("{url}/c")]);
        assert_eq!((error["code"].as_str(), code), (Some("usage"), 2), "{driver}: {error}");
    }
}
