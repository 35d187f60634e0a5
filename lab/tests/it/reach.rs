//! Ways to the other end: data connections by key among strangers, and past firewalls.

use farline_lab::raw::RawClient;
use farline_lab::{
    Namespaces, assert_same_tree, farline, farline_binary, free_port, node, plant, succeed,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Copies `source` up to `url` and back, and returns the two results.
fn there_and_back(source: &Path, root: &Path, url: &str, name: &str) -> [serde_json::Value; 2] {
    let back = source.with_file_name(format!("back-{name}"));
    let up = succeed(
        farline()
            .args(["--json", "cp", "-r", "--streams", "3"])
            .arg(source)
            .arg(format!("{url}/{name}/")),
    );
    assert_same_tree(source, &root.join(name).join("src"));
    let from = format!("{url}/{name}/src/");
    let down = succeed(farline().args(["--json", "cp", "-r", "--streams", "3", &from]).arg(&back));
    assert_same_tree(source, &back);
    [up, down].map(|text| serde_json::from_str(&text).expect("one object"))
}

/// Copies `source` from one host to the other and back, by the way that is expected; no way may
/// cost a wait that a user would feel.
fn both_ways(spaces: &Namespaces, source: &Path, root: &Path, url: &str, way: &str) {
    let back = source.with_file_name("back");
    for (args, path) in [
        ([source.into(), PathBuf::from(format!("{url}/up/"))], root.join("up/src")),
        ([format!("{url}/up/src/").into(), back.clone()], back),
    ] {
        let began = Instant::now();
        let out = succeed(
            spaces
                .run_here(&farline_binary())
                .args(["--json", "cp", "-r", "--streams", "2"])
                .args(args),
        );
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_same_tree(source, &path);
        let result: serde_json::Value = serde_json::from_str(&out).expect("one object");
        assert_eq!(result["data_path"], way, "{result}");
    }
}

/// Set when this is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_node_behind_another_address_tells_it_with_a_key_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &["--data-address", "192.0.2.7"]);
    let mut client = RawClient::open(&url);
    let without = client.ask("PASV");
    let key = client.ask(&format!("OPTS FARLINE key={};", "5a".repeat(32)));
    assert!(key.starts_with('2'), "{key}");
    for reply in [without, client.ask("PASV")] {
        assert!(reply.starts_with("227") && reply.contains("(192,0,2,7,"), "{reply}");
    }
}

#[test]
fn strangers_at_the_data_port_get_nothing_and_disturb_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let port = free_port();
    let (_node, url) = node(&root, "write", &["--data-ports", &format!("{port}-{port}")]);
    let (over, heard, came) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // Some say nothing and stay, some speak MODE E without a key, some send half a preamble
        // byte by byte.
        for kind in 0..3usize {
            let (over, heard, came) = (&over, &heard, &came);
            scope.spawn(move || {
                let mut kept = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    came.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
                    let _ = match kind {
                        0 => Ok(()),
                        1 => stream.write_all(&[0x48; 57]),
                        _ => b"FARLINE\x01AAAA"
                            .iter()
                            .try_for_each(|byte| stream.write_all(&[*byte])),
                    };
                    if kind > 0 || kept.len() % 100 == 0 {
                        heard.fetch_add(stream.read(&mut [0; 100]).unwrap_or(0), Ordering::Relaxed);
                    }
                    kept.push(stream);
                    if kept.len() > 400 {
                        kept.clear();
                    }
                }
            });
        }
        // Also when a copy fails: the scope ends with its threads.
        let ended = Over(&over);
        let began = Instant::now();
        for i in 0..5 {
            let results = there_and_back(&source, &root, &url, &format!("n{i}"));
            for result in results {
                assert_eq!(
                    (&result["data_path"], &result["verified"]),
                    (&"direct".into(), &true.into()),
                    "{result}"
                );
            }
        }
        drop(ended);
        assert!(began.elapsed() < Duration::from_secs(90), "ten copies took {:?}", began.elapsed());
    });
    assert_eq!(heard.into_inner(), 0, "a stranger heard something");
    assert!(came.into_inner() > 300, "the strangers were there");
}

#[test]
fn a_laptop_behind_a_firewall_fetches_and_stores() {
    let Some(spaces) = Namespaces::pair("reach-fw") else { return };
    // Nothing may connect to the laptop.
    spaces.here(
        "nft add table inet f; nft add chain inet f i \
        '{ type filter hook input priority 0; policy drop; }'",
    );
    spaces.here("nft add rule inet f i ct state established,related accept");
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, url) = spaces.node(&root);
    both_ways(&spaces, &source, &root, &url, "direct");
}

#[test]
fn with_data_ports_blocked_data_takes_the_control_port() {
    let Some(spaces) = Namespaces::pair("reach-ctl") else { return };
    spaces.there(
        "nft add table inet f; nft add chain inet f i \
        '{ type filter hook input priority 0; policy drop; }'",
    );
    spaces.there("nft add rule inet f i tcp dport 2811 accept");
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, url) = spaces.node(&root);
    both_ways(&spaces, &source, &root, &url, "control-port");
    // Which firewall stands there: one that drops, then one that rejects, then none.
    let state = || {
        let mut check = spaces.run_here(&farline_binary());
        let said = check.args(["--json", "check", "--no-disk", &url]).output().expect("it runs");
        let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        said["node"]["data"]["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(state(), "filtered");
    spaces.there("nft add rule inet f i tcp dport != 2811 reject with tcp reset");
    assert_eq!(state(), "closed");
    spaces.there("nft add rule inet f i counter; nft insert rule inet f i accept");
    assert_eq!(state(), "open");
    spaces.there("nft flush chain inet f i; nft add rule inet f i tcp dport 2811 accept");
    let said = succeed(
        spaces
            .run_here(&farline_binary())
            .arg("cp")
            .arg(source.join("one/small3"))
            .arg(format!("{url}/")),
    );
    assert!(said.contains("control port"), "{said}");
}
