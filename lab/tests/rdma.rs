//! Copies by RDMA: what becomes of the wish where there is no device; and, with real verbs between two devices in the guests of `lab/guest`
//! (`make lab`: soft-RoCE, and with GUEST_RDMA=siw soft-iWARP), that verbs carry the bytes, what a broken path does, and how a copy goes on.

use farline_lab::{Running, announced, error_of, farline, node, succeed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const WHY: &str = "two RDMA devices, as lab/verbs makes them in the guest: make lab";

fn plant(path: &Path, len: usize) {
    let mut rng = farline_core::units::Rng::new(len as u64);
    let bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(len).collect();
    std::fs::write(path, bytes).expect("written");
}

fn assert_same(a: &Path, b: &Path) {
    assert!(std::fs::read(a).expect("read") == std::fs::read(b).expect("read"), "{} and {} differ", a.display(), b.display());
}

fn copy(args: &[&str]) -> Value {
    let out = succeed(farline().args(["--json", "cp"]).args(args));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"))
}

fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

#[test]
fn without_a_device_a_copy_goes_by_tcp_and_says_why_in_one_line() {
    if std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        eprintln!("skipped: this host has an RDMA device");
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
    for (driver, from, to) in [("rdma", source, &*there), ("rdma:4:exchange:read", &there, back.to_str().expect("UTF-8"))] {
        let result = copy(&["--channel", driver, from, to]);
        assert_eq!((&result["data_path"], &result["verified"]), (&"direct".into(), &true.into()), "{result}");
        assert_eq!(notes(&result).matches("over TCP instead of RDMA").count(), 1, "{result}");
    }
    assert_same(Path::new(source), &back);
    for driver in ["rdma:17", "rdma:0", "rdma:exchange:4", "rdma:4:4", "rdma:read:read", "tcp:read", "udt"] {
        let (error, code) = error_of(&["cp", "--channel", driver, source, &format!("{url}/c")]);
        assert_eq!((error["code"].as_str(), code), (Some("usage"), 2), "{driver}: {error}");
    }
}

/// Two devices with a wire between them, once for all tests of this process.
fn wire() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        succeed(Command::new("lab/verbs").current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")));
    });
}

/// A node at the other end of the wire.
fn far_node(root: &Path) -> (Running, String) {
    std::fs::create_dir_all(root).expect("a folder");
    let mut command = farline();
    command.args(["--json", "serve", "--anonymous", "write", "--listen", "10.9.1.2:0", "--root"]).arg(root);
    let (running, url) = announced(&mut command);
    (running, url.replacen("ftp://", "farline://", 1))
}

fn is_iwarp() -> bool {
    std::env::var_os("GUEST_RDMA").is_some_and(|kind| kind == "siw")
}

/// The name of the device at an end of the wire: a or b.
fn device(end: &str) -> String {
    format!("{}{end}", if is_iwarp() { "si" } else { "rx" })
}

/// How many packets the device at an end has sent. Soft-iWARP counts none, so of the bytes that its interface has sent, those that one
/// holds at most.
fn sent_packets(end: &str, payload: u64) -> u64 {
    let number = |path: String| -> u64 {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; {WHY}")).trim().parse().expect("a number")
    };
    match is_iwarp() {
        true => number(format!("/sys/class/net/v{end}/statistics/tx_bytes")) / payload,
        false => number(format!("/sys/class/infiniband/{}/ports/1/hw_counters/sent_pkts", device(end))),
    }
}

/// One way for a file to go there and back.
struct Way {
    driver: &'static str,
    /// The far interface's MTU, and the bytes that a packet then carries.
    mtu: (u32, u64),
    /// What the wire does, in the words of netem.
    weather: &'static str,
}

const CALM: &str = "delay 0ms";

impl Way {
    const fn by(driver: &'static str) -> Way {
        Way { driver, mtu: (4_200, 4_096), weather: CALM }
    }
}

/// The digest says that it came whole, and what the sending device counted that verbs carried it.
fn goes_there_and_back(ways: &[Way]) {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, back) = (dir.path().join("source"), dir.path().join("back"));
    plant(&source, 2 * MIB + 123);
    let (_node, url) = far_node(&dir.path().join("root"));
    let (here, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
    for Way { driver, mtu: (mtu, payload), weather: netem } in ways {
        ip(&format!("link set vb mtu {mtu}"));
        weather(netem);
        for (from, to, sender) in [(here, &*there, "a"), (&there, back.to_str().expect("UTF-8"), "b")] {
            let before = sent_packets(sender, *payload);
            let result = copy(&["--channel", driver, "--streams", "2", from, to]);
            assert_eq!((&result["data_path"], &result["verified"]), (&"rdma".into(), &true.into()), "{result}");
            let packets = sent_packets(sender, *payload) - before;
            assert!(packets >= 2 * MIB as u64 / payload, "{driver}, {netem}, {from}: {packets} packets");
        }
        assert_same(&source, &dir.path().join("root/there"));
        assert_same(&source, &back);
    }
    weather(CALM);
    ip("link set vb mtu 4200");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_file_goes_there_and_back_and_the_devices_have_counted_its_packets() {
    goes_there_and_back(&[Way::by("rdma:1"), Way::by("rdma:4")]);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn delay_and_loss_cost_time_and_no_byte_over_any_number_of_queue_pairs() {
    let weathers = [
        ("rdma:1", "delay 0.1ms"),
        ("rdma:2", "delay 1ms loss 0.1%"),
        ("rdma:4", "delay 5ms loss 0.1%"),
        ("rdma:8", "delay 20ms"),
    ];
    goes_there_and_back(&weathers.map(|(driver, weather)| Way { weather, ..Way::by(driver) }));
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn without_rdma_cm_a_file_goes_there_and_back_too_and_ends_of_different_mtu_use_the_smaller_packet() {
    if is_iwarp() {
        eprintln!("skipped: iWARP is connected by rdma_cm alone, and its packets are TCP's");
        return;
    }
    goes_there_and_back(&[Way::by("rdma:1:exchange"), Way { mtu: (1_500, 1_024), ..Way::by("rdma:4:exchange") }]);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn iwarp_is_connected_by_rdma_cm_alone_and_finds_out_what_the_path_takes() {
    if !is_iwarp() {
        eprintln!("skipped: these devices are soft-RoCE");
        return;
    }
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = far_node(&dir.path().join("root"));
    let wish = ["--json", "cp", "--channel", "rdma:1:exchange", source.to_str().expect("UTF-8"), &format!("{url}/there")];
    let said = by_tcp_instead(farline().args(wish));
    assert!(said.contains("iWARP is connected by rdma_cm alone") && said.contains("leave `:exchange` out"), "{said}");
    goes_there_and_back(&[Way { mtu: (1_500, 1_448), ..Way::by("rdma:1") }]);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn by_rdma_read_a_file_goes_there_and_back_over_either_way_of_connecting() {
    let mut ways = vec![Way::by("rdma:1:read"), Way::by("rdma:4:read")];
    if !is_iwarp() {
        ways.push(Way { mtu: (1_500, 1_024), ..Way::by("rdma:2:exchange:read") });
    }
    goes_there_and_back(&ways);
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn to_a_node_that_does_not_say_that_it_reads_blocks_are_written_and_one_line_says_so() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = far_node(&dir.path().join("root"));
    let node = url.trim_start_matches("farline://").trim_end_matches('/').parse().expect("an address");
    let relay = mute(node, "FARLINE RDMA READ");
    let drivers = ["rdma:2:read", "rdma:2:exchange:read"];
    for driver in &drivers[..if is_iwarp() { 1 } else { 2 }] {
        let result = copy(&["--channel", driver, source.to_str().expect("UTF-8"), &format!("farline://{relay}/{driver}")]);
        assert_eq!((&result["data_path"], &result["verified"]), (&"rdma".into(), &true.into()), "{result}");
        assert_eq!(notes(&result).matches("RDMA WRITE instead of READ").count(), 1, "{result}");
        assert_same(&source, &dir.path().join("root").join(driver));
    }
}

/// A relay to the node's control port, at the node's own address, that leaves out lines with `word`.
fn mute(node: SocketAddr, word: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((node.ip(), 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let carry = |from: TcpStream, mut to: TcpStream, without: Option<&'static str>| {
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let is_left_out = without.is_some_and(|word| String::from_utf8_lossy(&line).contains(word));
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
            carry(client.try_clone().expect("a descriptor"), there.try_clone().expect("a descriptor"), None);
            carry(there, client, Some(word));
        }
    });
    address
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn on_a_long_path_more_comes_to_be_on_its_way_unless_memory_may_not_be_locked() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = farline();
    command.args(["--json", "serve", "--anonymous", "write", "--allow-null", "--listen", "10.9.1.2:0", "--root"]).arg(dir.path());
    let (_node, url) = announced(&mut command);
    let there = format!("{}/?null", url.replacen("ftp://", "farline://", 1));
    // Soft-RoCE has 512 KiB of each queue pair on their way, whatever the window. So the control connection alone is made to see a round trip
    // of a second, by which both ends size their windows: at 12 MB/s it would hold more than the 8 MiB that a channel begins with.
    for device in ["va", "vb"] {
        for words in [
            format!("qdisc replace dev {device} root handle 1: prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"),
            format!("qdisc add dev {device} parent 1:3 netem limit 100000 delay 500ms"),
            format!("filter add dev {device} parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff flowid 1:3"),
        ] {
            succeed(Command::new("tc").args(words.split(' ')));
        }
    }
    let wish = [
        "--json",
        "cp",
        "--channel",
        if is_iwarp() { "rdma:2" } else { "rdma:2:exchange" },
        "--streams",
        "1",
        "--limit",
        "100M",
        "--verify",
        "none",
        "memory:80MiB",
        &there,
    ];
    // Root may lock what it likes, unless it gave that right away.
    let limited = ["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=9437184:9437184"];
    let free = succeed(farline().args(wish));
    let limited = succeed(Command::new("setpriv").args(limited).arg(farline_lab::farline_binary()).args(wish));
    weather(CALM);
    let grew = |result: &Value| result["reasons"].to_string().contains("on its way at once");
    for (said, may_grow) in [(free, true), (limited, false)] {
        let result: Value = serde_json::from_str(&said).expect("an object");
        assert_eq!((&result["data_path"], &result["bytes"]), (&"rdma".into(), &(80 * MIB).into()), "{result}");
        assert_eq!((grew(&result), result["staging_bytes"].as_u64() > Some(16 * MIB as u64)), (may_grow, may_grow), "{result}");
        let noticed = ["polled", "told"].map(|way| result["completions"][way].as_u64().unwrap_or(0));
        assert!(noticed.iter().sum::<u64>() >= 2 * 80, "a record and a block of each slot: {noticed:?}");
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_tree_goes_by_rdma_over_two_channels() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("tree");
    farline_lab::plant(&source);
    let (_node, url) = far_node(&dir.path().join("root"));
    let result = copy(&["-r", "--streams", "2", "--channel", "rdma:2", source.to_str().expect("UTF-8"), &format!("{url}/")]);
    assert_eq!((&result["data_path"], &result["verified"]), (&"rdma".into(), &true.into()), "{result}");
    farline_lab::assert_same_tree(&source, &dir.path().join("root/tree"));
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn while_a_copy_goes_on_the_devices_have_its_queue_pairs_and_afterwards_none() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant(&source, 12 * MIB);
    let (_node, url) = far_node(&root);
    let there = format!("{url}/there");
    let args =
        ["--json", "cp", "--channel", "rdma:2", "--streams", "1", "--limit", "4M", source.to_str().expect("UTF-8"), &there];
    let mut copying = Running(farline().args(args).stdout(Stdio::piped()).spawn().expect("farline runs"));
    let id = copying.0.id();
    let until = Instant::now() + Duration::from_secs(120);
    let mut on: Vec<Value> = Vec::new();
    while on.len() < 2 {
        assert!(Instant::now() < until && is_running(&mut copying), "of the copy's queue pairs only these were seen: {on:?}");
        // Soft-iWARP does not tell of states.
        let connected = queue_pairs().into_iter().filter(|pair| is_of(pair, id) && (is_iwarp() || pair["state"] == "RTS"));
        on = connected.map(|pair| pair["ifname"].clone()).collect();
    }
    assert_eq!(on, [device("a"), device("a")]);
    assert!(copying.0.wait().expect("it ends").success());
    assert_same(&source, &root.join("there"));
    assert!(queue_pairs().iter().all(|pair| pair["type"] != "RC"), "they went with the process");
}

/// Whether a thread of the process `id` made a queue pair: what the kernel calls its pid is the thread's.
fn is_of(pair: &Value, id: u32) -> bool {
    Path::new(&format!("/proc/{id}/task/{}", pair["pid"])).exists()
}

/// What the kernel knows of queue pairs.
fn queue_pairs() -> Vec<Value> {
    let said = succeed(Command::new("rdma").args(["-j", "resource", "show", "qp"]));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"))
}

/// Waits until the node's journal has more than its beginning: something is durable.
fn wait_for_journal(root: &Path, copying: &mut Running) {
    let until = Instant::now() + Duration::from_secs(120);
    let journaled = || {
        let entries = std::fs::read_dir(root).expect("the root").flatten();
        let mut journals = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".journal."));
        journals.any(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 300))
    };
    while !journaled() {
        assert!(Instant::now() < until, "nothing was made durable");
        if !is_running(copying) {
            let mut said = String::new();
            copying.0.stdout.take().map(|mut stdout| stdout.read_to_string(&mut said));
            panic!("it ended too early: {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a node can be reached again: the kernel takes a while to notice an interface that is up, and to ask for an address anew.
fn await_path(url: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(url.trim_start_matches("farline://")).is_err() {
        assert!(Instant::now() < until, "the path did not come back");
    }
}

fn is_running(copying: &mut Running) -> bool {
    copying.0.try_wait().expect("it is ours").is_none()
}

/// The same copy again, once the node knows that the one before is gone.
fn go_on(source: &str, there: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let out = farline().args(["--json", "cp", "--channel", "rdma", source, there]).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&out.stdout).expect("an object");
        if said["error"]["code"] != "busy" || Instant::now() > until {
            return said;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What the wire does from now on, in the words of netem.
fn weather(netem: &str) {
    for device in ["va", "vb"] {
        let words = format!("qdisc replace dev {device} root netem limit 100000 {netem}");
        succeed(Command::new("tc").args(words.split(' ')));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_path_that_dies_is_an_error_and_the_copy_goes_on_when_it_is_back() {
    wire();
    for goes_down in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, root) = (dir.path().join("source"), dir.path().join("root"));
        plant(&source, 12 * MIB);
        let (_node, url) = far_node(&root);
        let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
        let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", "--timeout", "10", source_arg, &there];
        let mut copying = Running(farline().args(args).stdout(Stdio::piped()).spawn().expect("farline runs"));
        wait_for_journal(&root, &mut copying);
        if goes_down {
            ip("link set vb down")
        } else {
            weather("loss 100%")
        }
        let mut said = String::new();
        copying.0.stdout.take().expect("piped").read_to_string(&mut said).expect("what it says");
        if goes_down {
            // It has forgotten the route that lab/verbs gave it.
            ["link set vb up", "route add 10.9.1.1/32 dev vb src 10.9.1.2"].into_iter().for_each(ip);
        } else {
            weather(CALM);
        }
        await_path(&url);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(said["error"]["fault"], "between", "{said}");
        let resumed = go_on(source_arg, &there);
        assert_eq!((&resumed["data_path"], &resumed["verified"]), (&"rdma".into(), &true.into()), "{resumed}");
        assert!(resumed["resumed_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB as u64), "{resumed}");
        assert_same(&source, &root.join("there"));
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_killed_copy_goes_on_by_rdma_where_it_stopped() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant(&source, 12 * MIB);
    let (_node, url) = far_node(&root);
    let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
    let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", source_arg, &there];
    let mut killed = Running(farline().args(args).stdout(Stdio::null()).spawn().expect("farline runs"));
    wait_for_journal(&root, &mut killed);
    drop(killed);
    let resumed = go_on(source_arg, &there);
    assert_eq!((&resumed["data_path"], &resumed["verified"]), (&"rdma".into(), &true.into()), "{resumed}");
    assert!(resumed["resumed_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB as u64), "{resumed}");
    assert_same(&source, &root.join("there"));
}
#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_node_whose_address_has_no_device_is_reached_by_tcp_and_said_so() {
    wire();
    succeed(Command::new("ip").args(["link", "add", "plain", "type", "dummy"]));
    succeed(Command::new("ip").args(["addr", "add", "10.9.2.1/24", "dev", "plain"]));
    succeed(Command::new("ip").args(["link", "set", "plain", "up"]));
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = node(dir.path(), "write", &["--listen", "10.9.2.1:0"]);
    let there = format!("{}/there", url.replacen("ftp://", "farline://", 1));
    let result = copy(&["--channel", "rdma", source.to_str().expect("UTF-8"), &there]);
    assert_eq!((&result["data_path"], &result["verified"]), (&"direct".into(), &true.into()), "{result}");
    assert!(notes(&result).contains("over TCP instead of RDMA"), "{result}");
    assert!(notes(&result).contains("no RDMA device here has the address 10.9.2.1"), "{result}");
}

/// Copies to `there`, which must come about by TCP; answers with what was said of it.
fn by_tcp_instead(command: &mut Command) -> String {
    let result: Value = serde_json::from_str(&succeed(command)).expect("an object");
    assert_eq!((&result["data_path"], &result["verified"]), (&"direct".into(), &true.into()), "{result}");
    let notes = notes(&result);
    assert!(notes.contains("over TCP instead of RDMA"), "{notes}");
    notes
}

fn ip(words: &str) {
    succeed(Command::new("ip").args(words.split(' ')));
}

fn add_device(name: &str, interface: &str) {
    let kind = if is_iwarp() { "siw" } else { "rxe" };
    succeed(Command::new("rdma").args(["link", "add", name, "type", kind, "netdev", interface]));
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn ends_of_different_mtu_a_port_that_is_down_and_memory_that_may_not_be_locked_are_told_and_copied_by_tcp() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let source = source.to_str().expect("UTF-8");
    let (_node, url) = far_node(&dir.path().join("root"));
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
    let limited = ["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536:65536"];
    let said = by_tcp_instead(Command::new("setpriv").args(limited).arg(farline_lab::farline_binary()).args(wish));
    assert!(said.contains("this process may lock 64 KiB at most") && said.contains("ulimit -l"), "{said}");

    // The node's interface has no carrier, because the other end of its wire is down; its own address still answers itself.
    ip("link add pa mtu 4200 type veth peer name pb");
    ip("addr add 10.9.3.1/24 dev pa");
    ip("link set pa up");
    let dark = device("p");
    add_device(&dark, "pa");
    let (_dark, url) = node(dir.path(), "write", &["--listen", "10.9.3.1:0"]);
    let there = format!("{}/there", url.replacen("ftp://", "farline://", 1));
    let said = by_tcp_instead(farline().args(["--json", "cp", "--channel", "rdma", source, &there]));
    assert!(said.contains(&format!("port 1 of the RDMA device {dark}, which has 10.9.3.1, is down")), "{said}");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_device_that_is_removed_is_named_and_the_copy_goes_on_without_it() {
    if is_iwarp() {
        eprintln!("skipped: soft-iWARP's device stays until nobody uses it");
        return;
    }
    if std::env::var_os("GUEST_KIND").is_some_and(|kind| kind == "uml") {
        // Built in, verbs come to the device after rdma_cm, and the last that came is asked to leave first: it waits for programs, which
        // nobody has told yet.
        eprintln!("skipped: this kernel's device stays until nobody uses it");
        return;
    }
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("source"), dir.path().join("root"));
    plant(&source, 12 * MIB);
    let (far, url) = far_node(&root);
    let (source_arg, there) = (source.to_str().expect("UTF-8"), format!("{url}/there"));
    let args = ["--json", "cp", "--channel", "rdma", "--limit", "4M", "--timeout", "30", source_arg, &there];
    let mut copying = Running(farline().args(args).stdout(Stdio::piped()).spawn().expect("farline runs"));
    wait_for_journal(&root, &mut copying);
    // The kernel removes it when the last program that has it open has ended.
    let mut removing = Running(Command::new("rdma").args(["link", "delete", &device("b")]).spawn().expect("rdma runs"));
    let mut said = String::new();
    copying.0.stdout.take().expect("piped").read_to_string(&mut said).expect("what it says");
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{said}: {error}"));
    assert!(said["error"]["message"].as_str().is_some_and(|text| text.contains("removed")), "{said}");
    drop(far);
    assert!(removing.0.wait().expect("it ends").success());

    let (_far, url) = far_node(&root);
    let resumed = go_on(source_arg, &format!("{url}/there"));
    add_device(&device("b"), "vb");
    assert_eq!((&resumed["data_path"], &resumed["verified"]), (&"direct".into(), &true.into()), "{resumed}");
    assert!(resumed["resumed_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB as u64), "{resumed}");
    assert_same(&source, &root.join("there"));
}
