//! A rate that a node admits is a limit: on no more channels than it was booked for, and never
//! where nothing holds it (docs/protocol.md, O-8).

use farline_lab::node;
use farline_lab::raw::RawClient;
use std::net::UdpSocket;
use std::path::Path;

const KEY: &str = "abababababababababababababababababababababababababababababababab";
const RATE: &str = "OPTS FARLINE rate=50000000,1;";

fn admitting(root: &Path) -> (farline_lab::Running, String) {
    std::fs::write(root.join("f"), vec![7; 1 << 20]).expect("written");
    node(root, "write", &["--allow-held", "50M"])
}

/// A session that holds a rate and sends by the driver `stack` to who shows its key.
fn keyed(url: &str, stack: &str) -> RawClient {
    let mut client = RawClient::open(url);
    assert!(client.ask(RATE).starts_with("200"), "it is admitted");
    assert!(client.ask(&format!("SITE SETNETSTACK {stack}")).starts_with('2'), "{stack}");
    assert!(client.ask(&format!("OPTS FARLINE key={KEY};")).starts_with("200"), "a key");
    client
}

#[test]
fn more_channels_than_were_booked_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = admitting(dir.path());
    for stack in ["tcp", "udt"] {
        let mut client = keyed(&url, stack);
        client.ask("OPTS RETR Parallelism=16,16,16;");
        client.data_port();
        for command in ["RETR f", "STOR g", "MLSD"] {
            let reply = client.ask(command);
            assert!(reply.starts_with("501"), "{stack}, {command}: {reply}");
            assert!(reply.contains("booked for 1 channel"), "{stack}, {command}: {reply}");
        }
    }
}

#[test]
fn a_rate_that_nothing_would_hold_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = admitting(dir.path());
    let mut client = RawClient::open(&url);
    assert!(client.ask(RATE).starts_with("200"), "it is admitted");
    assert!(client.ask("PORT 127,0,0,1,200,200").starts_with("200"), "an address");
    let reply = client.ask("RETR f");
    assert!(reply.starts_with("501") && reply.contains("key"), "{reply}");
    // Given back, it is as any other transfer.
    assert!(client.ask("OPTS FARLINE rate=0,1;").starts_with("200"), "given back");
    client.ask("PORT 127,0,0,1,200,200");
    let reply = client.ask("RETR f");
    assert!(reply.contains("cannot connect"), "{reply}");
}

#[test]
fn a_port_that_holds_a_rate_closes_when_it_is_given_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = admitting(dir.path());
    let mut client = keyed(&url, "udt");
    let port = client.data_port();
    assert!(client.ask("OPTS FARLINE rate=0,1;").starts_with("200"), "given back");
    let again = || UdpSocket::bind(port);
    farline_lab::wait_for("the port to close", || again().is_ok());
}

#[test]
fn what_is_no_rate_is_said_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = admitting(dir.path());
    let mut client = RawClient::open(&url);
    for wrong in ["x", "100,0", "1", "99999999999999999999,1"] {
        let reply = client.ask(&format!("OPTS FARLINE rate={wrong};"));
        assert!(reply.starts_with("501") && reply.contains("BAD_RATE"), "{wrong}: {reply}");
    }
}
