//! Data connections that a client begins before the node has said where its data port is
//! (docs/protocol.md, K-7).

use farline_lab::files::{plant_file, same};
use farline_lab::{LinkUp, Running, json_of, skip};
use serde_json::Value;

/// Long enough that it is worth it.
const PATH: [&str; 5] = ["custom", "--rate", "100M", "--rtt", "40ms"];

/// A node at the far end of a link, over which no connection comes to any but its control port.
fn bed(name: &str, more: &[&str]) -> Option<(LinkUp, tempfile::TempDir, String, Running)> {
    let link = LinkUp::up(name, &PATH)?;
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(&root).expect("a folder");
    let listen = ["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811", "--tls"];
    let mut serve = link.farline("b", &listen);
    let (node, line) = Running::begun(serve.args(more).arg("--root").arg(&root));
    let said: Value = serde_json::from_str(&line).expect("one object");
    let fingerprint = said["fingerprint"].as_str().expect("a fingerprint").to_owned();
    Some((link, dir, fingerprint, node))
}

fn block_data_ports(link: &LinkUp) {
    let rules = "nft add table inet f; nft add chain inet f i \
        '{ type filter hook input priority 0; }'; \
        nft add rule inet f i tcp flags syn tcp dport != 2811 drop";
    assert!(link.exec("b", &["sh", "-c", rules]).status.success());
}

#[test]
fn data_goes_ahead_of_the_reply_that_tells_its_port() {
    let Some((link, dir, fingerprint, _node)) = bed("t-early", &[]) else { return };
    block_data_ports(&link);
    let (near, far, back) =
        (dir.path().join("near"), dir.path().join("root/far"), dir.path().join("back"));
    plant_file(&near, 3, 7);
    let [near_text, back_text] = [&near, &back].map(|path| path.to_str().expect("text"));
    for (scheme, encrypted) in [("farline", false), ("farlines", true)] {
        let url = format!("{scheme}://{}-b:2811/far", link.name());
        for ends in [[near_text, &url], [&url, back_text]] {
            let _ = std::fs::remove_file(&back);
            let mut command = link.farline("a", &["--json", "cp", "--streams", "3"]);
            if encrypted {
                command.args(["--tls-pin", &fingerprint]);
            }
            let result = json_of(command.args(ends));
            // Behind the reply it would have found the data port closed, and said `control-port`.
            assert_eq!(result["data_path"], "direct", "{result}");
            assert_eq!(result["encrypted"], encrypted, "{result}");
            assert_eq!(result["streams"], 3, "{result}");
        }
        assert!(same(&near, &far) && same(&near, &back), "{scheme}: other bytes came");
    }
}

#[test]
fn a_held_rate_goes_ahead_with_the_window_that_it_needs() {
    if !rustix::process::geteuid().is_root() {
        return skip("over TCP: only root can load a congestion control");
    }
    let admitted = ["--allow-held", "90M"];
    let Some((link, dir, fingerprint, _node)) = bed("t-early-held", &admitted) else { return };
    block_data_ports(&link);
    let (near, far) = (dir.path().join("near"), dir.path().join("root/far"));
    let near_text = near.to_str().expect("text");
    plant_file(&near, 6, 7);
    for scheme in ["farline", "farlines"] {
        let url = format!("{scheme}://{}-b:2811/far", link.name());
        for ends in [[near_text, &url], [&url, near_text]] {
            let mut command = link.farline("a", &["--json", "cp"]);
            if scheme == "farlines" {
                command.args(["--tls-pin", &fingerprint]);
            }
            command.args(["--congestion", "held", "--rate", "90M"]);
            let result = json_of(command.args(ends));
            assert_eq!(result["data_path"], "direct", "{result}");
            assert!(result["reasons"].to_string().contains("90.0 Mbit/s held"), "{result}");
        }
        assert!(same(&near, &far), "{scheme}: other bytes came");
    }
    let url = format!("farline://{}-b:2811/far", link.name());
    let mut command = link.farline("a", &["--json", "cp", "--streams", "3", near_text, &url]);
    let result = json_of(&mut command);
    assert_eq!(result["data_path"], "direct", "what holds no rate goes ahead as ever: {result}");
}

/// The receive buffer of a connection that has said nothing to the node, so long after it came.
fn strangers_buffer(link: &LinkUp, seconds: f64) -> u64 {
    let look = &format!("exec 3<>/dev/tcp/::1/2811; sleep {seconds}; ss -tmnH 'sport = :2811'");
    let said = link.exec("b", &["bash", "-c", look]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let buffer = said.split(",rb").nth(1).and_then(|rest| rest.split(',').next());
    buffer.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_stranger_has_little_of_the_window_of_a_held_rate() {
    let Some((link, _dir, _fingerprint, _node)) = bed("t-early-narrow", &["--allow-held", "10G"])
    else {
        return;
    };
    // Of 500 MB, which an ordinary user's node may not have: its connections begin as at any other
    // node.
    let most = if rustix::process::geteuid().is_root() { 512 << 10 } else { 8 << 20 };
    // A busy node takes its time to find that somebody came.
    let buffers = [0.5, 2.0, 8.0].map(|seconds| strangers_buffer(&link, seconds));
    let buffer = buffers.into_iter().min().unwrap_or_default();
    assert!(buffer <= most, "{buffer} bytes");
}

#[test]
fn more_channels_than_go_ahead_come_by_the_data_port() {
    let Some((link, dir, fingerprint, _node)) = bed("t-early-more", &[]) else { return };
    let (near, far) = (dir.path().join("near"), dir.path().join("root/far"));
    plant_file(&near, 24, 7);
    let url = format!("farlines://{}-b:2811/far", link.name());
    let mut command = link.farline("a", &["--json", "cp", "--streams", "20"]);
    command.args(["--tls-pin", &fingerprint]).arg(&near).arg(&url);
    let result = json_of(&mut command);
    assert_eq!(result["streams"], 20, "{result}");
    assert!(same(&near, &far), "other bytes came");
}
