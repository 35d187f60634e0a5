//! What comes about instead where the other end, the path or this host cannot do what was wished
//! for, and the line that says so.

use super::ends::{
    MIB, add_device, assert_same, by_tcp_instead, copy, device, far_node, ip, is_iwarp, notes,
    plant, wire,
};
use farline_lab::{farline, node};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn blocks_are_written_where_the_node_does_not_read() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = far_node(&dir.path().join("root"), &[]);
    let node =
        url.trim_start_matches("farline://").trim_end_matches('/').parse().expect("an address");
    let relay = mute(node, "FARLINE RDMA READ");
    let drivers = ["rdma:2:read", "rdma:2:exchange:read"];
    for driver in &drivers[..if is_iwarp() { 1 } else { 2 }] {
        let (result, _) = copy(&[
            "--channel",
            driver,
            source.to_str().expect("UTF-8"),
            &format!("farline://{relay}/{driver}"),
        ]);
        assert_eq!(notes(&result).matches("RDMA WRITE instead of READ").count(), 1, "{result}");
        assert_same(&source, &dir.path().join("root").join(driver));
    }
}

/// A relay to the node's control port, at the node's own address, that leaves out lines with
/// `word`.
fn mute(node: SocketAddr, word: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((node.ip(), 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let carry = |from: TcpStream, mut to: TcpStream, without: Option<&'static str>| {
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let is_left_out =
                    without.is_some_and(|word| String::from_utf8_lossy(&line).contains(word));
                if !is_left_out && to.write_all(&[&line[..], b"\n"].concat()).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let there = TcpStream::connect(node).expect("the node listens");
            carry(
                client.try_clone().expect("a descriptor"),
                there.try_clone().expect("a descriptor"),
                None,
            );
            carry(there, client, Some(word));
        }
    });
    address
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_node_without_a_device_is_reached_by_tcp_and_said_so() {
    wire();
    ["link add plain type dummy", "addr add 10.9.2.1/24 dev plain", "link set plain up"]
        .into_iter()
        .for_each(ip);
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = node(dir.path(), "write", &["--listen", "10.9.2.1:0"]);
    let there = format!("{}/there", url.replacen("ftp://", "farline://", 1));
    let said = by_tcp_instead(farline().args([
        "--json",
        "cp",
        "--channel",
        "rdma",
        source.to_str().expect("UTF-8"),
        &there,
    ]));
    assert!(said.contains("no RDMA device here has the address 10.9.2.1"), "{said}");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn what_rdma_cannot_do_is_told_and_copied_by_tcp() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let source = source.to_str().expect("UTF-8");
    let (_node, url) = far_node(&dir.path().join("root"), &[]);
    let there = format!("{url}/there");
    let wish = ["--json", "cp", "--channel", "rdma", source, &there];

    if !is_iwarp() {
        ip("link set vb mtu 1500");
        let said = by_tcp_instead(farline().args(wish));
        ip("link set vb mtu 4200");
        assert!(said.contains("carry 4096 bytes, the node's device takes 1024 at most"), "{said}");
        assert!(said.contains("the same MTU"), "{said}");
    }

    // Root may lock what it likes, unless it gave that right away.
    let limited =
        ["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536:65536"];
    let said = by_tcp_instead(
        farline_lab::command("setpriv").args(limited).arg(farline_lab::farline_binary()).args(wish),
    );
    assert!(
        said.contains("this process may lock 64 KiB at most") && said.contains("ulimit -l"),
        "{said}"
    );

    // The node's interface has no carrier, because the other end of its wire is down; its own
    // address still answers itself.
    ip("link add pa mtu 4200 type veth peer name pb");
    ip("addr add 10.9.3.1/24 dev pa");
    ip("link set pa up");
    let dark = device("p");
    add_device(&dark, "pa");
    let (_dark, url) = node(dir.path(), "write", &["--listen", "10.9.3.1:0"]);
    let there = format!("{}/there", url.replacen("ftp://", "farline://", 1));
    let said =
        by_tcp_instead(farline().args(["--json", "cp", "--channel", "rdma", source, &there]));
    assert!(
        said.contains(&format!("port 1 of the RDMA device {dark}, which has 10.9.3.1, is down")),
        "{said}"
    );
}
