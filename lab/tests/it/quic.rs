//! QUIC channels: trees there and back, over a path that loses, and where they cannot be had.

use crate::tls::{node, openssl};
use farline_lab::files::{plant_file, same};
use farline_lab::{
    LinkUp, Running, assert_same_tree, error_of, error_of_command, farline, fit_of_three, json_of,
    plant, succeed,
};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_tree_goes_there_and_back_over_quic() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, address, fingerprint) = node(&root, &["--tls"]);
    for (channel, streams) in [("quic", "1"), ("quic", "3"), ("quic:2", "4")] {
        let cp = || {
            let mut command = farline();
            command.args(["--json", "cp", "-r", "--tls-pin", &fingerprint]);
            command.args(["--channel", channel, "--streams", streams]);
            command
        };
        let name = format!("{}-{streams}", channel.replace(':', "-"));
        let back = dir.path().join(&name);
        let there = format!("farlines://{address}/{name}/");
        let results = [
            json_of(cp().arg(&source).arg(&there)),
            json_of(cp().arg(format!("{there}src/")).arg(&back)),
        ];
        assert_same_tree(&source, &root.join(&name).join("src"));
        assert_same_tree(&source, &back);
        for result in results {
            let said = (&result["data_path"], &result["encrypted"], &result["verified"]);
            assert_eq!(said, (&"quic".into(), &true.into(), &true.into()), "{result}");
        }
    }
}

#[test]
fn a_renewed_certificate_counts_on_the_one_udp_port_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("root")).expect("a folder");
    let renew = || {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
        let own = ["req", "-x509", "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.pem"];
        openssl(dir.path(), &[&own[..], &key[..]].concat());
        let mut print = std::process::Command::new("openssl");
        print.current_dir(dir.path()).args(["x509", "-in", "node.pem", "-noout", "-fingerprint"]);
        let print = succeed(print.arg("-sha256"));
        print.trim().split('=').nth(1).expect("a fingerprint").to_owned()
    };
    let first = renew();
    let files = ["node.pem", "node.key"].map(|name| at(name).display().to_string());
    let more = ["--tls-cert", &files[0], "--tls-key", &files[1], "--listen-udp", "127.0.0.1:0"];
    let mut serve = farline();
    serve.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0"]);
    let (_node, line) = Running::begun(serve.args(more).arg("--root").arg(at("root")));
    let said: serde_json::Value = serde_json::from_str(&line).expect("one object");
    let udp = said["udp"].as_str().expect("a port");
    let cp = |pin: &str, name: &str| {
        let mut command = farline();
        command.args(["--json", "cp", "--streams", "2", "--tls-pin", pin, "memory:3MiB"]);
        command.arg(format!("farlineq://{udp}/{name}"));
        command
    };
    json_of(&mut cp(&first, "a"));
    let second = renew();
    // Files are looked at once a second.
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(json_of(&mut cp(&second, "b"))["data_path"], "quic");
    let (error, _) = error_of_command(&mut cp(&first, "c"));
    assert_eq!(error["code"], "tls-untrusted", "{error}");
    assert!(at("root/b").exists() && !at("root/c").exists());
}

#[test]
fn quic_is_refused_where_nothing_tells_whom_to_trust() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, address, _) = node(dir.path(), &["--tls"]);
    let url = format!("farline://{address}/f");
    let (error, exit) = error_of(&["cp", "--channel", "quic", "memory:1MiB", &url]);
    assert_eq!((error["code"].as_str(), exit), (Some("cannot-encrypt"), 2), "{error}");
    assert!(!dir.path().join("f").exists(), "nothing was copied");
}

#[test]
fn a_node_without_quic_gets_tcp_and_the_copy_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, address, fingerprint) = node(dir.path(), &["--tls", "--channel", "rdma"]);
    let url = format!("farlines://{address}/f");
    let mut cp = farline();
    cp.args(["--json", "cp", "--tls-pin", &fingerprint, "--channel", "quic", "memory:3MiB", &url]);
    let result = json_of(&mut cp);
    let said = (&result["data_path"], &result["encrypted"]);
    assert_eq!(said, (&"direct".into(), &true.into()), "{result}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("over TCP instead of QUIC") && notes.contains("QUIC"), "{notes}");
}

/// Copies a file of so many MiB to a node over `link`, and compares.
fn copied_over(link: &LinkUp, mib: u64) {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(&root).expect("a folder");
    let source = dir.path().join("f");
    plant_file(&source, mib, 7);
    let listen = ["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811", "--tls"];
    let mut serve = link.farline("b", &listen);
    let mut child = serve.arg("--root").arg(&root).stdout(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    let _node = farline_lab::Running(child);
    BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
    let said: serde_json::Value = serde_json::from_str(&line).expect("one object");
    let fingerprint = said["fingerprint"].as_str().expect("a fingerprint");
    let url = format!("farlines://{}-b:2811/f", link.name());
    let source = source.to_str().expect("text");
    let args = ["--json", "cp", "--tls-pin", fingerprint, "--channel", "quic", source, &url];
    let result = json_of(&mut link.farline("a", &args));
    assert_eq!(result["data_path"], "quic", "{result}");
    assert!(same(source.as_ref(), &root.join("f")), "other bytes came");
}

#[test]
fn quic_gets_whole_files_over_a_path_that_loses_and_delays() {
    let arguments = ["custom", "--rate", "200M", "--rtt", "20ms", "--loss", "0.003"];
    let Some(link) = LinkUp::up("t-quic", &arguments) else { return };
    copied_over(&link, 12);
}

#[test]
fn quic_packets_become_as_long_as_the_path_takes() {
    for (mtu, least, most) in [("9000", 4_500, 6_600), ("1500", 1_300, 1_500)] {
        let arguments = ["custom", "--rate", "200M", "--rtt", "4ms", "--mtu", mtu];
        let mean = || {
            let link = LinkUp::up("t-quicmtu", &arguments)?;
            copied_over(&link, 24);
            let stats = json_of(farline().args(["--json", "link", "stats", link.name()]));
            let count = |name: &str| stats["a_to_b"]["model"][name].as_u64().expect("a count");
            Some(count("delivered_bytes") / count("delivered_frames"))
        };
        let is_fit = |mean: &Option<u64>| mean.is_none_or(|mean| (least..=most).contains(&mean));
        // A machine that is busy has sent most of it before longer packets are found to pass.
        let Some(mean_len) = fit_of_three(mean, is_fit) else { return };
        assert!((least..=most).contains(&mean_len), "{mean_len} bytes a packet of {mtu}");
    }
}
