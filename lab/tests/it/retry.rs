//! Faults that pass: a copy tries again by itself, and goes on from what is durable.

use farline_lab::files::{folder, hidden, plant_file, same, text};
use farline_lab::relay::relay_that_turns_away;
use farline_lab::{LinkUp, Running, assert_same_tree, error_of, farline, node};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A copy at 200 Mbit/s that tries again for a minute.
fn begin(from: &str, to: &str) -> Running {
    let mut command = farline();
    command.args(["--json", "cp", "-r", "--retry-for", "60s", "--limit", "200M", from, to]);
    Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs"))
}

/// What it said at its end, which is a success.
fn ended(copy: Running) -> Value {
    let (status, out, err) = copy.finish();
    assert!(status.success(), "{out} {err}");
    serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{out}: {error}"))
}

/// Bytes that are on disk under hidden names.
fn arrived(root: &Path) -> u64 {
    let all = Command::new("du").args(["-s", "-B1"]).arg(root).output().expect("du runs");
    let text = String::from_utf8_lossy(&all.stdout).into_owned();
    text.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[test]
fn a_node_that_is_killed_and_started_again_is_waited_for() {
    let dir = folder();
    let (root, file, down) =
        (dir.path().join("root"), dir.path().join("file"), dir.path().join("down"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&down).expect("a folder");
    plant_file(&file, 150, 1);
    let (mut server, url) = node(&root, "write", &[]);
    let listen = url.strip_prefix("ftp://").expect("a URL").to_owned();
    for (from, to, at) in [
        (text(&file).to_owned(), url.clone(), &root),
        (format!("{url}/file"), text(&down).to_owned(), &down),
    ] {
        let before = arrived(at);
        let part = || arrived(at) > before + (50 << 20);
        let copy = begin(&from, &to).until("a part of it", part);
        server.end(Signal::KILL);
        std::thread::sleep(Duration::from_secs(2));
        (server, _) = node(&root, "write", &["--listen", &listen]);
        let result = ended(copy);
        assert!(result["attempts"].as_u64() > Some(1), "{result}");
        assert_eq!(
            (result["verified"].as_bool(), result["bytes"].as_u64()),
            (Some(true), Some(150 << 20)),
            "{result}"
        );
        assert!(same(&file, &at.join("file")));
        assert_eq!(hidden(at), Vec::<String>::new());
        // All of it was moved by this command, and little of it twice.
        assert_eq!(result["moved_bytes"].as_u64(), Some(150 << 20), "{result}");
    }
}

#[test]
fn a_tree_goes_on_when_its_node_comes_back() {
    let dir = folder();
    let (root, tree) = (dir.path().join("root"), dir.path().join("tree"));
    std::fs::create_dir_all(tree.join("sub")).expect("a folder");
    std::fs::create_dir(&root).expect("a folder");
    for i in 0..30 {
        plant_file(&tree.join(format!("sub/{i}")), 4, i);
    }
    let (mut server, url) = node(&root, "write", &[]);
    let listen = url.strip_prefix("ftp://").expect("a URL").to_owned();
    let copy = begin(text(&tree), &url).until("a part of it", || arrived(&root) > 30 << 20);
    server.end(Signal::KILL);
    let (_server, _) = node(&root, "write", &["--listen", &listen]);
    let result = ended(copy);
    assert!(result["attempts"].as_u64() > Some(1), "{result}");
    assert_same_tree(&tree, &root.join("tree"));
}

#[test]
fn a_full_node_is_waited_for() {
    let dir = folder();
    let (root, file, config) =
        (dir.path().join("root"), dir.path().join("file"), dir.path().join("node.toml"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 8, 1);
    std::fs::write(&config, "sessions = 2\n").expect("written");
    let (_node, url) = node(&root, "write", &["--config", text(&config)]);
    let copies: Vec<Running> = (0..12).map(|i| begin(text(&file), &format!("{url}/{i}"))).collect();
    let attempts: u64 =
        copies.into_iter().map(|copy| ended(copy)["attempts"].as_u64().expect("a number")).sum();
    assert!(attempts > 12, "no copy was turned away: {attempts} attempts");
    for i in 0..12 {
        assert!(same(&file, &root.join(i.to_string())), "copy {i}");
    }
}

/// The ends of a copy to a node with TLS that turns away who comes first: what its clients are
/// given, and where the file lies and goes.
struct TurnedAway {
    _node: Running,
    dir: tempfile::TempDir,
    port: u16,
    fingerprint: String,
}

impl TurnedAway {
    fn new() -> TurnedAway {
        let dir = folder();
        std::fs::create_dir(dir.path().join("root")).expect("a folder");
        std::fs::create_dir(dir.path().join("tree")).expect("a folder");
        plant_file(&dir.path().join("tree/file"), 1, 1);
        let (_node, address, fingerprint) = crate::tls::node(&dir.path().join("root"), &["--tls"]);
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        TurnedAway { _node, dir, port, fingerprint }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// What `command` says of its copy from `from` to `name` at the node, by `scheme`; its first
    /// connection gets `greeting` alone.
    fn said(
        &self,
        (scheme, greeting): (&str, &'static str),
        (command, from): (&str, &str),
        name: &str,
    ) -> Value {
        let (port, count) = relay_that_turns_away(self.port, greeting, 1);
        let mut copy = farline();
        copy.args(["--json", command, "--retry-for", "60s"]);
        if scheme.ends_with('s') {
            copy.args(["--tls-pin", &self.fingerprint]);
        }
        copy.args([from, &format!("{scheme}://127.0.0.1:{port}/{name}")]);
        let input = std::fs::File::open(self.at("tree/file")).expect("planted");
        let output = copy.stdin(input).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{scheme}, {greeting}: {said}");
        let landed = self.at("root").join(name);
        let landed = if command == "sync" { landed.join("file") } else { landed };
        assert!(same(&self.at("tree/file"), &landed));
        assert!(count.load(Ordering::Relaxed) > 1, "{scheme}: nobody was turned away");
        serde_json::from_str(said.trim()).unwrap_or_else(|error| panic!("{said}: {error}"))
    }
}

const BUSY: &str = "450 No place here now.\r\n";

/// As ProFTPD has it where there are as many as `MaxClientsPerHost` and its like allow.
const PROFTPD_FULL: &str =
    "530 Sorry, the maximum number of clients (1) from your host are already connected.\r\n";

#[test]
fn who_is_turned_away_at_the_greeting_comes_again() {
    let ends = TurnedAway::new();
    let file = ends.at("tree/file");
    let greetings = [BUSY, "421 Too many connections.\r\n", PROFTPD_FULL];
    // Each waits for its next attempt most of its time.
    std::thread::scope(|scope| {
        for (index, greeting) in greetings.into_iter().enumerate() {
            let (ends, file) = (&ends, &file);
            scope.spawn(move || {
                for scheme in ["ftp", "farline", "ftps", "farlines"] {
                    let name = format!("{scheme}{index}");
                    let said = ends.said((scheme, greeting), ("cp", text(file)), &name);
                    assert_eq!(said["attempts"], 2, "{scheme}, {greeting}: {said}");
                }
            });
        }
    });
}

#[test]
fn before_a_copy_begins_a_pipe_and_a_sync_wait_too() {
    let ends = TurnedAway::new();
    let said = ends.said(("farline", BUSY), ("cp", "-"), "of-a-pipe");
    assert_eq!((&said["attempts"], &said["bytes"]), (&2.into(), &(1 << 20).into()), "{said}");
    let tree = format!("{}/", text(&ends.at("tree")));
    ends.said(("farline", BUSY), ("sync", &tree), "synced");
}

/// A copy of `mib` MiB by the scheme `scheme` over a path of 200 Mbit/s that is away from 3 s on
/// for so many `seconds`; what it says.
fn over_an_outage(
    name: &str,
    (seconds, mib): (u64, u64),
    scheme: &str,
    options: &[&str],
) -> Option<Value> {
    let outage = format!("3s:outage={seconds}s");
    let path = ["custom", "--rate", "200M", "--rtt", "10ms", "--at", &outage];
    let link = LinkUp::up(name, &path)?;
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, mib, 1);
    let _node = link.node(&root, &[]);
    let url = format!("{scheme}://{}-b:2811/", link.name());
    let mut command = link.farline("a", &["--json", "cp"]);
    command.args(options).args([text(&file), &url]);
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success() && result["verified"] == true, "{result} {said}");
    assert!(same(&file, &root.join("file")));
    assert_eq!(result["limited_by"], "outage", "{result}");
    Some(result)
}

#[test]
fn an_outage_longer_than_the_silence_allowed_is_outlasted() {
    let options = ["--retry-for", "2min", "--timeout", "3"];
    let Some(result) = over_an_outage("retry", (12, 150), "ftp", &options) else { return };
    assert!(result["attempts"].as_u64() > Some(1), "{result}");
    assert!(result["waited_seconds"].as_f64() > Some(0.5), "{result}");
}

#[test]
fn what_took_longest_was_an_outage_and_no_limit() {
    let options = ["--limit", "100M"];
    let over = over_an_outage("retry-limit", (14, 70), "farline", &options);
    let Some(result) = over else { return };
    assert_eq!(result["attempts"], 1, "{result}");
    assert_eq!(result["limited_party"], "path", "{result}");
}

/// The timers of TCP double: 12.6 s and some after the path went away each channel tries, and next
/// 25.4 s and some after it, 10 s after the path is back.
#[test]
fn channels_move_again_soon_after_an_outage() {
    if !Path::new("/proc/sys/net/ipv4/tcp_rto_max_ms").exists() {
        return farline_lab::skip("a kernel before 6.15 bounds no retransmission timer");
    }
    let over = over_an_outage("retry-often", (15, 100), "farline", &["--streams", "8"]);
    let Some(result) = over else { return };
    assert_eq!(result["attempts"], 1, "{result}");
    // 4.2 s of data at the path's rate, and 15 s without.
    let took = result["seconds"].as_f64().expect("a number");
    assert!((15.0..25.0).contains(&took), "{took} s: {result}");
}

#[test]
fn a_wrong_port_is_said_at_once_and_a_wait_can_be_interrupted() {
    let began = Instant::now();
    let args = ["cp", "--retry-for", "60s", "ftp://127.0.0.1:9/x", "/tmp/"];
    let (error, code) = error_of(&args);
    assert_eq!((error["code"].as_str(), code), (Some("unreachable"), 5), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for what never was");

    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 100, 1);
    let (mut server, url) = node(&root, "write", &[]);
    let mut command = farline();
    command.args(["cp", "--retry-for", "60s", "--limit", "200M", text(&file), &url]);
    let copy = Running(command.stderr(Stdio::piped()).spawn().expect("runs"));
    let copy = copy.until("a part of it", || arrived(&root) > 30 << 20);
    server.end(Signal::KILL);
    std::thread::sleep(Duration::from_secs(4));
    let asked = Instant::now();
    copy.signal(Signal::INT);
    let (status, _, said) = copy.finish();
    assert!(asked.elapsed() < Duration::from_secs(5), "it waited on: {said}");
    assert!(!status.success() && said.contains("trying again in"), "{said}");
}

#[test]
fn a_node_that_dies_is_named_with_how_to_go_on() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 150, 1);
    for (from, to) in [(text(&file), "up"), ("up", text(&dir.path().join("down")))] {
        let (mut server, url) = node(&root, "write", &[]);
        std::fs::copy(&file, root.join("up")).expect("copied");
        let there = |path: &str| if path == "up" { format!("{url}/up") } else { path.to_owned() };
        let mut command = farline();
        command.args(["cp", "--retry-for", "0", "--limit", "200M", &there(from), &there(to)]);
        let before = arrived(dir.path());
        let copy = Running(command.stderr(Stdio::piped()).spawn().expect("runs"));
        let copy = copy.until("a part of it", || arrived(dir.path()) > before + (10 << 20));
        server.end(Signal::KILL);
        let (status, _, err) = copy.finish();
        assert_eq!(status.code(), Some(5), "{err}");
        let server = url.trim_start_matches("ftp://");
        let port = server.rsplit(':').next().expect("a port");
        assert!(err.contains(port), "{err}");
        assert!(err.contains("hint: run the same command again: it goes on"), "{err}");
    }
}
