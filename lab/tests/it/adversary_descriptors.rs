//! A node whose file descriptors run out: it says so, does not spin, and serves when they are free
//! again.

use crate::adversary::{configured, log_of};
use farline::channels::key::Key;
use farline_lab::files::{folder, random, text};
use farline_lab::raw::{Blocks, RawClient};
use farline_lab::{
    Running, announced, error_of, farline, farline_binary, processor_seconds, succeed, wait_for,
};
use std::cell::RefCell;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A node that may have 128 descriptors, with its log.
fn poor(root: &Path) -> (Running, String) {
    let mut command = farline_lab::command("prlimit");
    command.arg("--nofile=128:128").arg(farline_binary());
    command.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0", "--root"]);
    announced(command.arg(root).stderr(Stdio::piped()))
}

#[test]
fn a_node_out_of_descriptors_says_so_and_goes_on_after() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(3, 3_000_001)).expect("written");
    let (node, url) = poor(&root);
    let (mut crowd, mut refused) = (Vec::new(), Vec::new());
    for index in 0..14 {
        let mut client = RawClient::in_stream_mode(&url);
        let reply = client.ask("EPSV");
        let port = reply.split('|').nth(3).and_then(|port| port.parse::<u16>().ok());
        let Some(port) = port else {
            refused.push(reply);
            crowd.push((client, None));
            continue;
        };
        let data = TcpStream::connect(("127.0.0.1", port)).expect("a port");
        client.say(&format!("STOR stalled{index}"));
        std::thread::sleep(Duration::from_millis(100));
        crowd.push((client, Some(data)));
    }
    assert!(!refused.is_empty(), "128 descriptors are enough for 14 transfers");
    for reply in &refused {
        assert!(reply.starts_with("450") && reply.contains("file descriptors"), "{reply}");
    }
    // As many as may come, and more than there are descriptors left.
    let address = url.trim_start_matches("ftp://");
    let silent: Vec<TcpStream> =
        (0..100).filter_map(|_| TcpStream::connect(address).ok()).collect();
    let cpu = || processor_seconds(node.id()).expect("it runs");
    let before = cpu();
    std::thread::sleep(Duration::from_secs(3));
    let took = cpu() - before;
    assert!(took < 1.0, "{took} s of processor time in three");
    let mut copy = farline();
    copy.env("FARLINE_RETRY_FOR", "60s");
    copy.args(["--json", "cp", text(&file), &format!("{}/own", url.replacen("ftp", "farline", 1))]);
    let copy = copy.stdout(Stdio::piped()).spawn().expect("farline starts");
    std::thread::sleep(Duration::from_secs(2));
    for (_, data) in &mut crowd {
        // What is stored ends whole, and so its descriptors are free.
        drop(data.as_mut().map(|data| data.write_all(b"x")));
    }
    drop((crowd, silent));
    let copied = copy.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&copied.stdout);
    assert!(copied.status.success(), "{said}");
    succeed(Command::new("cmp").arg(&file).arg(root.join("own")));
    let log = log_of(node);
    assert!(log.contains("descriptors: 127.0.0.1: the node's file descriptors"), "{log}");
}

/// Clients that store and send nothing, and more who only connect, until data has no descriptor
/// left.
fn all_taken(url: &str) -> (Vec<(RawClient, TcpStream)>, Vec<TcpStream>) {
    let mut crowd = Vec::new();
    for index in 0.. {
        let mut client = RawClient::in_stream_mode(url);
        let reply = client.ask("EPSV");
        let Some(port) = reply.split('|').nth(3).and_then(|port| port.parse::<u16>().ok()) else {
            assert!(reply.starts_with("450"), "{reply}");
            break;
        };
        let data = TcpStream::connect(("127.0.0.1", port)).expect("a port");
        client.say(&format!("STOR stalled{index}"));
        std::thread::sleep(Duration::from_millis(100));
        crowd.push((client, data));
    }
    // What was too little for a port.
    let address = url.trim_start_matches("ftp://");
    let connect = |_| TcpStream::connect(address).expect("the node listens");
    let silent = (0..5).map(connect).collect();
    std::thread::sleep(Duration::from_millis(200));
    (crowd, silent)
}

#[test]
fn a_refused_data_connection_is_told_as_450() {
    let dir = folder();
    std::fs::write(dir.path().join("f"), b"of the node").expect("written");
    let (node, url) = poor(dir.path());
    let mut client = RawClient::in_stream_mode(&url);
    let port = client.data_port();
    client.say("RETR f");
    std::thread::sleep(Duration::from_millis(200));
    let crowd = all_taken(&url);
    let mut data = TcpStream::connect(port).expect("it listens");
    let mut got = Vec::new();
    let came = std::io::Read::read_to_end(&mut data, &mut got);
    assert!(came.is_err() || got.is_empty(), "it is closed unread: {came:?}");
    let reply = client.final_reply();
    assert!(reply.starts_with("450") && reply.contains("file descriptors"), "{reply}");
    drop(crowd);
    let client = RefCell::new(client);
    wait_for("a descriptor", || client.borrow_mut().ask("EPSV").starts_with("229"));
    let log = log_of(node);
    assert!(log.contains("descriptors: 127.0.0.1: the node's file descriptors"), "{log}");
}

#[test]
fn sums_and_lists_take_no_descriptors_that_others_have() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("d")).expect("a folder");
    std::fs::write(dir.path().join("d/f"), b"of the node").expect("written");
    let (node, url) = poor(dir.path());
    let mut client = RawClient::in_stream_mode(&url);
    let asks = ["CKSM MD5 0 -1 d/f", "MLSC d"];
    for ask in asks {
        let reply = client.ask(ask);
        assert!(!reply.starts_with("450"), "{ask}: {reply}");
    }
    let crowd = all_taken(&url);
    for ask in asks {
        let reply = client.ask(ask);
        let is_told = reply.starts_with("450") && reply.contains("file descriptors");
        assert!(is_told, "{ask}: {reply}");
    }
    // What is over in a moment goes on.
    for ask in ["MLST d/f", "SIZE d/f", "MKD e", "RMD e"] {
        let reply = client.ask(ask);
        assert!(reply.starts_with('2'), "{ask}: {reply}");
    }
    // A client shows it to its user.
    let there = format!("{}/d/f", url.replacen("ftp", "farline", 1));
    let to = dir.path().join("got");
    let (error, exit) = error_of(&["cp", "--retry-for", "0s", &there, text(&to)]);
    let message = error["message"].as_str().expect("words");
    assert_eq!((error["code"].as_str(), exit), (Some("busy"), 6), "{error}");
    assert!(message.contains("file descriptors are taken"), "{error}");
    drop(crowd);
    let client = RefCell::new(client);
    wait_for("a descriptor", || client.borrow_mut().ask(asks[0]).starts_with("213"));
    let log = log_of(node);
    assert!(log.contains("descriptors: 127.0.0.1: the node's file descriptors"), "{log}");
}

#[test]
fn a_copy_that_hears_450_before_it_begins_waits() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("d")).expect("a folder");
    for name in ["d/f1", "d/f2"] {
        std::fs::write(dir.path().join(name), name).expect("written");
    }
    let (_node, url) = poor(dir.path());
    let crowd = all_taken(&url);
    // What matches is asked for before anything else is, and a list takes descriptors.
    let there = format!("{}/d/f*", url.replacen("ftp", "farline", 1));
    let to = dir.path().join("got/");
    std::fs::create_dir(&to).expect("a folder");
    let mut copy = farline();
    copy.args(["cp", "--retry-for", "60s", &there, text(&to)]).stderr(Stdio::piped());
    let copy = Running(copy.spawn().expect("farline starts"));
    std::thread::sleep(Duration::from_secs(2));
    drop(crowd);
    let (status, _, said) = copy.finish();
    let has_waited = said.contains("file descriptors") && said.contains("trying again in");
    assert!(status.success() && has_waited, "{said}");
    for name in ["f1", "f2"] {
        assert_eq!(std::fs::read_to_string(to.join(name)).expect("copied"), format!("d/{name}"));
    }
}

#[test]
fn an_idle_data_port_of_a_session_with_a_key_is_closed() {
    let dir = folder();
    std::fs::write(dir.path().join("f"), b"before").expect("written");
    let (_node, url) = configured(dir.path(), "timeout = 1\n", &[]);
    let mut client = RawClient::open(&url);
    let hex = "cd".repeat(32);
    assert!(client.ask(&format!("OPTS FARLINE key={hex};")).starts_with("200"), "a key");
    let key = Key::from_hex(&hex).expect("a key");
    let block = [Blocks::header(0, 0, 3), b"own".to_vec(), Blocks::eof(1)].concat();
    let sent = [key.preamble().to_vec(), block].concat();
    let port = client.data_port();
    std::thread::sleep(Duration::from_secs(3));
    TcpStream::connect(port).expect_err("nobody listens there any more");
    for ask in ["STOR f", "RETR f"] {
        let reply = client.ask(ask);
        assert!(reply.starts_with("425") && reply.contains("say PASV or EPSV again"), "{reply}");
    }
    // The control port still knows the session.
    let mut data = TcpStream::connect(url.trim_start_matches("ftp://")).expect("the node listens");
    data.write_all(&sent).expect("sent");
    let reply = client.ask("STOR f");
    assert!(reply.starts_with("226"), "{reply}");
    // And another port is had as the first was.
    let mut data = client.passive();
    data.write_all(&sent).expect("sent");
    let reply = client.ask("STOR g");
    assert!(reply.starts_with("226"), "{reply}");
    for name in ["f", "g"] {
        assert_eq!(std::fs::read(dir.path().join(name)).expect("stored"), b"own");
    }
}

#[test]
fn a_data_port_that_nothing_uses_is_closed() {
    let dir = folder();
    std::fs::write(dir.path().join("f"), b"of the node").expect("written");
    let (node, url) = configured(dir.path(), "timeout = 1\n", &[]);
    let mut client = RawClient::in_stream_mode(&url);
    let port = client.data_port();
    std::thread::sleep(Duration::from_secs(3));
    TcpStream::connect(port).expect_err("nobody listens there any more");
    let reply = client.ask("RETR f");
    assert!(reply.starts_with("425") && reply.contains("say PASV or EPSV again"), "{reply}");
    let mut data = client.passive();
    assert!(client.ask("RETR f").starts_with("226"), "the next one is used");
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut data, &mut got).expect("a file");
    assert_eq!(got, b"of the node");
    assert!(log_of(node).contains("data_port: 127.0.0.1: a data port that nothing uses is closed"));
}
