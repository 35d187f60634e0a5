//! Stores without a disk, at this end and at the node's: `null:`, `memory:SIZE`, `?null`,
//! `?memory=SIZE`.

use farline_lab::{error_of, farline, json_of, node};
use serde_json::Value;

fn copied(args: &[&str]) -> Value {
    json_of(farline().args(["--json", "cp"]).args(args))
}

/// The URL with the scheme that asks for a Farline node.
fn farline_url(url: &str) -> String {
    url.replacen("ftp://", "farline://", 1)
}

#[test]
fn memory_goes_to_null_and_comes_back_as_a_verified_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &["--allow-null", "--allow-memory", "64MiB"]);
    let url = farline_url(&url);
    for (from, to) in [
        ("memory:40000001", format!("{url}/?null")),
        ("memory:40000001", format!("{url}/?memory=40000001")),
        (&*format!("{url}/?memory=40000001"), "null:".to_owned()),
        (&*format!("{url}/?memory=40000001"), "memory:64MiB".to_owned()),
    ] {
        for streams in ["1", "3"] {
            let result = copied(&["--streams", streams, from, &to]);
            assert_eq!(
                (result["bytes"].as_u64(), result["files"].as_u64()),
                (Some(40_000_001), Some(1)),
                "{from} {to}"
            );
            assert_eq!(result["verified"], true, "{from} {to}");
            assert!(
                result["bytes_sent"].as_u64() > Some(40_000_000),
                "every byte crossed the network: {result}"
            );
        }
    }
    let local = copied(&["memory:5000001", "null:"]);
    assert_eq!((local["bytes"].as_u64(), local["files"].as_u64()), (Some(5_000_001), Some(1)));
    assert_eq!(
        std::fs::read_dir(dir.path()).expect("a folder").count(),
        0,
        "no file was made at the node"
    );
}

#[test]
fn a_memory_file_has_the_same_bytes_wherever_it_comes_from() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(&here).expect("a folder");
    let (_node, url) = node(&root, "write", &["--allow-memory", "8MiB"]);
    let at = |name: &str| here.join(name).to_str().expect("text").to_owned();
    copied(&["memory:3MiB", &at("local")]);
    copied(&[&format!("{}/?memory=3MiB", farline_url(&url)), &at("fetched")]);
    copied(&["memory:3MiB", &format!("{url}/")]);
    copied(&[&format!("{}/?memory=3MiB", farline_url(&url)), here.to_str().expect("text")]);
    let local = std::fs::read(here.join("local")).expect("landed");
    assert_eq!(local.len(), 3 << 20);
    for path in [here.join("fetched"), here.join("memory"), root.join("memory")] {
        assert!(std::fs::read(&path).expect("landed") == local, "{}", path.display());
    }
}

#[test]
fn what_the_operator_forbids_is_refused_and_not_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, plain) = node(dir.path(), "write", &[]);
    let (_other, small) = node(dir.path(), "write", &["--allow-memory", "1MiB"]);
    let (plain, small) = (farline_url(&plain), farline_url(&small));
    for (from, to, code, exit) in [
        ("memory:1MiB", format!("{plain}/?null"), "store-not-allowed", 6),
        ("memory:1MiB", format!("{plain}/?memory=1MiB"), "store-not-allowed", 6),
        (&*format!("{plain}/?memory=1MiB"), "null:".to_owned(), "store-not-allowed", 6),
        ("memory:1MiB", format!("{small}/?memory=2MiB"), "store-not-allowed", 6),
        ("memory:2MiB", format!("{small}/?memory=1MiB"), "no-space", 4),
        ("memory:2MiB", "memory:1MiB".to_owned(), "no-space", 3),
        ("null:", "memory:1MiB".to_owned(), "nothing-to-read", 2),
        ("memory:much", "null:".to_owned(), "bad-size", 2),
    ] {
        let (error, actual) = error_of(&["cp", from, &to]);
        assert_eq!((error["code"].as_str(), actual), (Some(code), exit), "{from} {to}: {error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
}

#[test]
fn a_farline_url_that_leads_to_another_server_says_so() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = stream.write_all(b"220 vsFTPd 3.0\r\n");
        let mut buffer = [0; 512];
        while let Ok(len) = stream.read(&mut buffer) {
            let said = String::from_utf8_lossy(&buffer[..len]).into_owned();
            let reply: &[u8] = match said.split_whitespace().next() {
                Some("USER") => b"331 password?\r\n",
                Some("PASS") => b"230 in\r\n",
                Some("TYPE") => b"200 fine\r\n",
                Some("FEAT") => b"211-Features\r\n SIZE\r\n211 End\r\n",
                None => return,
                _ => b"502 what?\r\n",
            };
            let _ = stream.write_all(reply);
        }
    });
    let (error, exit) = error_of(&["cp", "memory:1MiB", &format!("farline://127.0.0.1:{port}/x")]);
    assert_eq!((error["code"].as_str(), exit), (Some("not-farline"), 4), "{error}");
}
