//! Clients that mean harm to a node: each takes its own share of it and nobody else's, is told why,
//! and stands in the log.

use farline_lab::crowd::{Crowd, CrowdSize, may_open_many};
use farline_lab::files::{folder, hidden, names, random, text};
use farline_lab::raw::{Blocks, RawClient, connected_from};
use farline_lab::{Running, announced, error_of, farline, json_of, node, succeed, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a node may take for what it does at once, on a machine with other work.
const SOON: Duration = Duration::from_secs(20);

/// A connection that has read the greeting and says nothing.
fn silent(url: &str) -> TcpStream {
    may_open_many();
    let address = url.trim_start_matches("ftp://");
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    stream
}

/// Waits for the other end to close `stream`; returns what came before.
fn until_closed(mut stream: &TcpStream) -> String {
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => said.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it stays open: {error}: {}", String::from_utf8_lossy(&said)),
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// A node by a configuration file, with its log.
pub(crate) fn configured(root: &Path, config: &str, more: &[&str]) -> (Running, String) {
    // It is read before the node is announced.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, config).expect("written");
    let mut command = farline();
    command.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0", "--root"]);
    command.arg(root).args(more).arg("--config").arg(file.path()).stderr(Stdio::piped());
    announced(&mut command)
}

/// Ends a node; returns what it wrote to its log.
pub(crate) fn log_of(node: Running) -> String {
    node.signal(Signal::TERM);
    let (status, _, log) = node.finish();
    assert!(status.success(), "{status}: {log}");
    log
}

#[test]
fn amid_a_crowd_of_all_kinds_a_copy_begins_and_lands_whole() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(11, 20_000_001)).expect("written");
    let (_node, url) = node(&root, "write", &["--tls"]);
    let size = CrowdSize {
        silent: 600,
        half_open: 100,
        stalled: 40,
        dripping: 2,
        babbling: 2,
        ..CrowdSize::default()
    };
    let crowd = Crowd::gather(&url, size);
    for index in 0..3 {
        // One attempt, with no time to wait for a place.
        let to = format!("{}/{index}", url.replacen("ftp", "farline", 1));
        let said = json_of(farline().args(["--json", "cp", text(&file), &to]));
        assert_eq!((&said["attempts"], &said["verified"]), (&1.into(), &true.into()), "{said}");
        succeed(Command::new("cmp").arg(&file).arg(root.join(index.to_string())));
    }
    drop(crowd);
    // Nothing of the crowd's landed.
    let landed = std::fs::read_dir(&root).expect("a folder").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with("crowd")
    });
    assert_eq!(landed.count(), 0, "half a file under its name");
}

#[test]
fn silent_connections_keep_nobody_out() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(1, 100_000)).expect("written");
    let (_node, url) = node(&root, "write", &["--tls"]);
    let mut crowd: Vec<TcpStream> = (0..300).map(|_| silent(&url)).collect();
    for stream in &mut crowd[..100] {
        // Half a TLS handshake, or less.
        stream.write_all(b"AUTH TLS\r\n\x16\x03\x01").expect("written");
    }
    let began = Instant::now();
    let result =
        json_of(farline().env("FARLINE_RETRY_FOR", "0").args(["--json", "cp", text(&file), &url]));
    assert!(result["verified"] == true && began.elapsed() < SOON, "{result}");
    drop(crowd);
}

#[test]
fn who_does_not_log_in_goes_and_stands_in_the_log() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = configured(&root, "login_timeout = 2\nlogins = 3\n", &[]);
    // A byte now and then makes the time no longer.
    let mut slow = silent(&url);
    let began = Instant::now();
    while began.elapsed() < SOON && slow.write_all(b"N").is_ok() {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() < SOON, "single bytes kept the place");
    assert!(until_closed(&slow).contains("421 Not logged in within 2.00 s"));
    // The oldest goes when there is no room.
    let crowd: Vec<TcpStream> = (0..4).map(|_| silent(&url)).collect();
    let said = until_closed(&crowd[0]);
    assert!(said.contains("421 Too many connections that have not logged in"), "{said}");
    RawClient::open(&url);
    let log = log_of(node);
    assert!(log.contains("farline: login_timeout: 127.0.0.1 did not log in in time"), "{log}");
    assert!(log.contains("farline: logins: no room for 127.0.0.1; the oldest goes"), "{log}");
}

#[test]
fn one_address_has_its_share_of_the_sessions() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = configured(&root, "sessions = 5\nsessions_per_address = 2\n", &[]);
    let _sessions: Vec<RawClient> = (0..2).map(|_| RawClient::open(&url)).collect();
    let file = root.join("f");
    std::fs::write(&file, "x").expect("written");
    let mut command = farline();
    command.env("FARLINE_RETRY_FOR", "0").args(["--json", "cp", &format!("{url}/f")]);
    let (error, _) = farline_lab::error_of_command(command.arg(dir.path().join("got")));
    assert_eq!(error["code"], "server-closing", "{error}");
    assert!(error["message"].as_str().is_some_and(|words| words.contains("from your address")));
    assert!(log_of(node).contains("farline: sessions_per_address: 127.0.0.1 is not let in"));
}

#[test]
fn a_file_in_millions_of_pieces_is_refused_in_few_words() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = configured(&root, "", &[]);
    let mut client = RawClient::open(&url);
    let mut data = client.passive();
    client.say("STOR f");
    let pieces: Vec<u8> =
        (0..200_000).flat_map(|i| [Blocks::header(0, 2 * i, 1), vec![7]].concat()).collect();
    Blocks::write(&mut data, &pieces);
    Blocks::write(&mut data, &Blocks::eof(1));
    let reply = client.final_reply();
    assert!(reply.starts_with("552") && reply.contains("TOO_MANY_RANGES"), "{}", &reply[..200]);
    // Fewer are a file with holes, and said in few words too.
    let mut data = client.passive();
    client.say("STOR f");
    Blocks::write(&mut data, &pieces[..18 * 10_000]);
    Blocks::write(&mut data, &Blocks::eof(1));
    let reply = client.final_reply();
    assert!(reply.contains("holes") && reply.len() < 2_000, "{} bytes", reply.len());
    assert_eq!(names(&root), Vec::<String>::new());
    assert!(log_of(node).contains("pieces: 127.0.0.1: more than 65536 pieces came with gaps"));
}

/// Of limits that a client runs into alone its operator hears as of those that others share.
#[test]
fn each_limit_stands_in_the_log_by_its_name() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let file = std::fs::File::create(root.join("hole")).expect("made");
    file.set_len(1 << 40).expect("a hole");
    let (node, url) = configured(&root, "timeout = 1\nlogin_timeout = 2\n", &[]);
    let mut client = RawClient::open(&url);
    assert!(client.ask(&format!("STAT {}", "x".repeat(9_000))).starts_with("500"));
    assert!(client.ask("CKSM MD5 0 -1 /hole").starts_with("504"));
    assert!(client.ask("RNTO x").starts_with("503"));
    // A transfer of which nothing comes, behind which commands without end wait.
    let _data = client.passive();
    client.say("STOR f");
    client.say(&"NOOP\r\n".repeat(20_000));
    assert!(client.final_reply().starts_with("426"));
    // Who reads none of its replies.
    let mut unread = silent(&url);
    unread.set_write_timeout(Some(SOON)).expect("a timeout");
    let commands = "FEAT\r\n".repeat(10_000);
    while unread.write_all(commands.as_bytes()).is_ok() {}
    drop(client);
    // More than a second after the other of its kind.
    assert!(RawClient::open(&url).ask(&format!("MKD {}", "n".repeat(256))).starts_with("553"));
    let log = log_of(node);
    for line in [
        "command_line: 127.0.0.1: a line of more than 8192 bytes is refused",
        "sum_holes: 127.0.0.1: more than 64 GiB of /hole lie in holes",
        "timeout: 127.0.0.1: no data has moved for 1.00 s",
        "command_queue: 127.0.0.1: 256 KiB of commands wait, and no more are read",
        "unread_reply: 127.0.0.1: a reply was not read",
        "rejected: 127.0.0.1: 503 Send RNFR first.",
        "rejected: 127.0.0.1: 553 ",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn a_refused_transfer_closes_its_data_connection() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("d")).expect("a folder");
    for rights in ["read", "write"] {
        let (_node, url) = node(dir.path(), rights, &[]);
        let mut client = RawClient::in_stream_mode(&url);
        for command in ["RETR nothing", "RETR d", "LIST nothing", "STOR d", "APPE d"] {
            let data = client.passive();
            data.set_read_timeout(Some(SOON)).expect("a timeout");
            let reply = client.ask(command);
            assert!(reply.starts_with('5') || reply.starts_with('4'), "{command}: {reply}");
            assert_eq!(until_closed(&data), "", "{command}");
        }
    }
}

#[test]
fn fifos_and_devices_are_not_opened_to_be_written() {
    let dir = folder();
    succeed(Command::new("mkfifo").arg(dir.path().join("fifo")));
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket"));
    let mut commands = vec!["APPE fifo", "ESTO A 0 fifo", "APPE socket", "STOR fifo"];
    let null = dir.path().join("device");
    if Command::new("mknod")
        .arg(&null)
        .args(["c", "1", "3"])
        .output()
        .is_ok_and(|made| made.status.success())
    {
        commands.extend(["APPE device", "ESTO A 0 device", "STOR device"]);
    }
    let (node, url) = node(dir.path(), "write", &[]);
    for command in commands {
        let mut client = RawClient::in_stream_mode(&url);
        let _data = client.passive();
        let reply = client.ask(command);
        assert!(reply.starts_with("553") && reply.contains("FIFO"), "{command}: {reply}");
    }
    let began = Instant::now();
    node.signal(Signal::TERM);
    let (status, _, _) = node.finish();
    assert!(status.success() && began.elapsed() < SOON, "{status} after {:?}", began.elapsed());
}

#[test]
fn a_node_that_ends_lets_its_transfers_end() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(2, 20 << 20)).expect("written");
    let (node, url) = node(&root, "write", &["--drain", "60"]);
    let mut command = farline();
    command.args(["--json", "cp", "--limit", "60Mbit/s", text(&file), &format!("{url}/got")]);
    let copy = Running(command.stdout(Stdio::piped()).spawn().expect("farline runs"));
    wait_for("some data", || std::fs::read_dir(&root).expect("a folder").count() > 0);
    let idle = RawClient::open(&url);
    node.signal(Signal::TERM);
    std::thread::sleep(Duration::from_secs(2));
    let mut late = farline();
    late.env("FARLINE_RETRY_FOR", "0").args(["--json", "cp", text(&file), &format!("{url}/late")]);
    let (error, _) = farline_lab::error_of_command(&mut late);
    assert_eq!(error["code"], "server-closing", "{error}");
    let (status, said, _) = copy.finish();
    assert!(status.success() && said.contains("\"verified\":true"), "{said}");
    let (status, _, _) = node.finish();
    assert!(status.success(), "{status}");
    drop(idle);
}

#[test]
fn a_slow_reader_does_not_keep_a_node_from_ending() {
    let dir = folder();
    std::fs::write(dir.path().join("f"), random(3, 64 << 20)).expect("written");
    for signals in [1, 2] {
        let drain = if signals == 1 { "1" } else { "600" };
        let (node, url) = node(dir.path(), "read", &["--drain", drain]);
        let mut client = RawClient::in_stream_mode(&url);
        let mut data = client.passive();
        client.say("RETR f");
        data.read_exact(&mut [0; 1000]).expect("it begins");
        let began = Instant::now();
        for _ in 0..signals {
            node.signal(Signal::TERM);
            std::thread::sleep(Duration::from_millis(500));
        }
        let (status, _, _) = node.finish();
        assert!(began.elapsed() < SOON, "{signals} signals: {:?}", began.elapsed());
        assert_eq!(status.code(), Some(if signals == 1 { 0 } else { 143 }));
    }
}

#[test]
fn a_node_connects_to_no_service_for_a_client() {
    let dir = folder();
    let (_node, url) = node(dir.path(), "read", &["--third-party"]);
    let mut client = RawClient::open(&url);
    for target in [
        "PORT 127,0,0,1,0,25",
        "PORT 127,0,0,2,20,0",
        "PORT 169,254,169,254,31,144",
        "PORT 10,0,0,1,20,0",
        "EPRT |1|192.168.1.1|5000|",
        "EPRT |2|::1|5000|",
        "SPOR 127,0,0,1,20,0 10,0,0,1,20,0",
    ] {
        let reply = client.ask(target);
        assert!(reply.starts_with("550") || reply.starts_with("501"), "{target}: {reply}");
    }
    for target in ["PORT 127,0,0,1,20,0", "PORT 198,51,100,1,20,0"] {
        assert!(client.ask(target).starts_with("200"), "{target}");
    }
    let (_node, url) =
        node(dir.path(), "read", &["--third-party", "--third-party-net", "10.0.0.0/8"]);
    let mut client = RawClient::open(&url);
    assert!(client.ask("PORT 10,0,0,1,20,0").starts_with("200"));
    assert!(client.ask("PORT 10,0,0,1,0,25").starts_with("550"));
}

#[test]
fn ports_for_data_that_others_have_are_waited_for() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let port = farline_lab::free_port();
    let (node, url) = configured(&root, &format!("data_ports = '{port}-{port}'\n"), &[]);
    let (mut first, second) = (RawClient::open(&url), RefCell::new(RawClient::open(&url)));
    assert!(first.ask("EPSV").starts_with("229"));
    let reply = second.borrow_mut().ask("EPSV");
    assert!(reply.starts_with("450") && reply.contains("--data-ports"), "{reply}");
    drop(first);
    wait_for("the port", || second.borrow_mut().ask("EPSV").starts_with("229"));
    drop(second);
    let log = log_of(node);
    assert!(log.contains("data_ports: 127.0.0.1: all ports for data"), "{log}");
}

#[test]
fn who_shows_no_key_or_a_wrong_name_stands_in_the_log() {
    let dir = folder();
    let (node, url) = configured(dir.path(), "", &[]);
    let mut client = RawClient::open(&url);
    client.say(&format!("OPTS FARLINE key={};", "ab".repeat(32)));
    assert!(client.final_reply().starts_with("200"), "a key");
    let preamble = [b"FARLINE\x01".to_vec(), vec![7; 32]].concat();
    let control: SocketAddr =
        url.trim_start_matches("ftp://").trim_end_matches('/').parse().expect("an address");
    for at in [client.data_port(), control] {
        let mut stranger = TcpStream::connect(at).expect("a way");
        stranger.write_all(&preamble).expect("sent");
        let said = until_closed(&stranger);
        assert!(said.is_empty() || said.starts_with("220 ") && said.lines().count() == 1, "{said}");
    }
    client.say("USER root\x1b[2J");
    assert!(client.final_reply().starts_with("530"), "it has no users");
    drop(client);
    let log = log_of(node);
    for line in [
        "stranger: a data connection from 127.0.0.1 to the session of 127.0.0.1 shows no key",
        "stranger: a data connection from 127.0.0.1 is of no session",
        "refused: 127.0.0.1: root",
        "Only anonymous users are let in here.",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_third_party_node_takes_data_of_no_stranger() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(root.join("f"), b"of the client").expect("written");
    for (networks, is_named) in [("10.0.0.0/8", false), ("127.0.0.0/8", true)] {
        let config = format!("third_party = true\nthird_party_networks = ['{networks}']\n");
        let (node, url) = configured(&root, &config, &[]);
        let mut client = RawClient::in_stream_mode(&url);
        let port = client.data_port();
        let mut stranger = connected_from("127.0.0.2:0", port);
        client.say("RETR f");
        let mut got = Vec::new();
        if is_named {
            // Another server that the client sends to, as far as the node can tell.
            stranger.read_to_end(&mut got).expect("a file");
        } else {
            assert!(!matches!(stranger.read(&mut [0; 16]), Ok(1..)), "the file of another");
            let mut own = TcpStream::connect(port).expect("the client's own");
            own.read_to_end(&mut got).expect("a file");
        }
        assert_eq!(got, b"of the client");
        assert!(client.final_reply().starts_with("226"), "{networks}");
        drop(client);
        let (log, kind) = (log_of(node), if is_named { "third_party" } else { "stranger" });
        assert!(log.contains(&format!("{kind}: a data connection from 127.0.0.2")), "{log}");
    }
}

#[test]
fn a_client_has_no_congestion_control_loaded() {
    let dir = folder();
    let (_node, url) = node(dir.path(), "read", &[]);
    let mut client = RawClient::open(&url);
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.expect("Linux says");
    for control in ["htcp", "scalable", "highspeed", "vegas", "bic"] {
        if available.split_whitespace().any(|there| there == control) {
            continue;
        }
        let reply = client.ask(&format!("OPTS FARLINE congestion={control};"));
        assert!(reply.starts_with("550"), "{control}: {reply}");
        assert!(reply.contains("--allow-congestion"), "what its operator can do: {reply}");
    }
}

#[test]
fn whom_to_trust_is_not_ignored_in_the_clear() {
    let dir = folder();
    let file = dir.path().join("f");
    std::fs::write(&file, "secret").expect("written");
    let (_node, url) = node(dir.path(), "write", &[]);
    let address = url.trim_start_matches("ftp://");
    let pin = "ab".repeat(32);
    for scheme in ["ftp", "farline"] {
        let to = format!("{scheme}://{address}/g");
        for trust in [["--tls-pin", &pin], ["--tls-ca", text(&file)]] {
            let (error, code) = error_of(&["cp", trust[0], trust[1], text(&file), &to]);
            assert_eq!((error["code"].as_str(), code), (Some("cannot-encrypt"), 2), "{error}");
            let hint = error["hint"].as_str().expect("a way out");
            assert!(hint.contains(&format!("{scheme}s://")), "{error}");
        }
    }
    assert_eq!(names(dir.path()), ["f"]);
}

#[test]
fn odd_names_do_not_steer_the_terminal() {
    let dir = folder();
    let (root, tree) = (dir.path().join("root"), dir.path().join("t"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&tree).expect("a folder");
    let name = "a\u{1b}]0;owned\u{7}b\u{9b}2Jc\nd";
    succeed(Command::new("mkfifo").arg(tree.join(name)));
    std::fs::write(tree.join("good"), "x").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    let steers =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().any(|c| c.is_control() && c != '\n');
    for to in [&url[..], text(&dir.path().join("here"))] {
        for json in [&["--json"][..], &[]] {
            let output = farline().args(json).args(["cp", "-r", text(&tree), to]).output();
            let output = output.expect("farline runs");
            let said = [&output.stdout[..], &output.stderr].concat();
            assert!(!steers(&said), "{:?}", String::from_utf8_lossy(&said));
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(
                !json.is_empty() || said.contains("a\\x1b]0;owned\\x07b\\x9b2Jc\\nd"),
                "{said}"
            );
        }
    }
}

#[test]
fn what_lies_in_the_place_of_a_journal_is_named() {
    if !rustix::process::geteuid().is_root() {
        farline_lab::skip("only root can plant a file of another user");
        return;
    }
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(4, 20 << 20)).expect("written");
    let (_node, url) = node(&root, "write", &[]);
    let mut command = farline();
    command.args(["cp", "--limit", "60Mbit/s", text(&file), &url]);
    let mut copy = Running(command.stderr(Stdio::null()).spawn().expect("farline runs"));
    wait_for("a journal", || hidden(&root).len() > 1);
    copy.end(Signal::KILL);
    for name in hidden(&root) {
        std::os::unix::fs::chown(root.join(name), Some(65_534), Some(65_534)).expect("chown");
    }
    wait_for("the node to let go", || {
        let mut again = farline();
        again.env("FARLINE_RETRY_FOR", "0").args(["--json", "cp", text(&file), &url]);
        farline_lab::error_of_command(&mut again).0["code"] != "busy"
    });
    let (error, _) = error_of(&["cp", text(&file), &url]);
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("user 65534 put") && hint.contains("may remove it"), "{error}");
}

#[test]
fn a_node_is_confined_unless_that_is_not_wanted() {
    let dir = tempfile::tempdir().expect("a folder");
    for (options, is_confined) in [
        (&[][..], true),
        (&["--no-sandbox"], false),
        (&["--allow-congestion"], true),
        (&["--allow-held", "1Gbit/s"], true),
    ] {
        let mut command = farline();
        command.args(["--json", "serve", "--listen", "127.0.0.1:0", "--anonymous", "write"]);
        command.arg("--root").arg(dir.path()).args(options).stdout(Stdio::piped());
        let mut node = Running(command.spawn().expect("it starts"));
        let mut line = String::new();
        let stdout = node.0.stdout.take().expect("piped");
        std::io::BufReader::new(stdout).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(said["confined"].as_bool(), Some(is_confined), "{options:?}: {said}");
        // Of each of its threads: Landlock holds for those that ask, and for what they begin.
        let threads = std::fs::read_dir(format!("/proc/{}/task", node.0.id())).expect("it runs");
        for thread in threads.map_while(Result::ok) {
            // Some end meanwhile.
            let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else {
                continue;
            };
            assert_eq!(status.contains("NoNewPrivs:\t1"), is_confined, "{options:?}: {status}");
            let is_filtered = status.contains("Seccomp:\t2");
            assert!(is_filtered || !is_confined, "{options:?}: {status}");
        }
    }
}

#[test]
fn who_may_write_does_not_shut_the_others_out() {
    let dir = folder();
    let (_node, url) = node(dir.path(), "write", &[]);
    let mut client = RawClient::open(&url);
    for path in ["/", ".", "//", "/x/.."] {
        let said = client.ask(&format!("SITE CHMOD 000 {path}"));
        assert!(said.starts_with("55"), "{path}: {said}");
    }
    let mode = std::fs::metadata(dir.path()).expect("there").permissions();
    assert_ne!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0);
}

#[test]
fn no_page_in_a_browser_has_a_node_do_anything() {
    let dir = folder();
    std::fs::write(dir.path().join("f"), b"stays").expect("written");
    let (node, url) = configured(dir.path(), "", &[]);
    // As a page's script can have it sent, to whatever its user's host reaches.
    let content = "USER anonymous\r\nPASS x\r\nDELE f\r\nMKD planted\r\n";
    let post = Command::new("curl")
        .args(["-s", "--http0.9", "--max-time", "10", "-H", "Content-Type: text/plain"])
        .args(["--data-binary", content, &url.replacen("ftp", "http", 1)])
        .output()
        .expect("curl runs");
    let said = String::from_utf8_lossy(&post.stdout).into_owned();
    assert!(said.contains("421 This is a GridFTP server"), "{said}");
    assert!(dir.path().join("f").exists() && !dir.path().join("planted").exists(), "{said}");
    let log = log_of(node);
    assert!(log.contains("refused: 127.0.0.1: it speaks HTTP"), "{log}");
}
