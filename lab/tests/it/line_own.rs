//! What devices of either end drop of what comes to them, before any socket hears of it: it is told
//! apart, and never the line's.
//!
//! The drops are put in by a port of a bridge that gives none of its frames on (an ifb device, to
//! which nothing is redirected): the kernel counts each as that device's `rx_dropped`, and it is
//! one by which frames come to the bridge's address.

use farline_lab::{
    Brief, Namespaces, Running, announced, farline_binary, fit_of_three, skip, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const HERE: &str = "02:00:00:77:00:01";
const THERE: &str = "02:00:00:77:00:02";
/// How many frames that port is given.
const DROPPED: usize = 5;

/// Two ends, of which the other has its address on such a bridge; `None` where a test cannot have
/// them.
fn ends(name: &str) -> Option<Namespaces> {
    let spaces = Namespaces::pair(name)?;
    // What a kernel says of its own accord would be dropped, too.
    let quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
    spaces.here(quiet);
    spaces.there(quiet);
    let ifb =
        spaces.run_there(Path::new("ip")).args(["link", "add", "lost0", "type", "ifb"]).status();
    if !ifb.is_ok_and(|status| status.success()) {
        skip(format!("{name}: this kernel has no ifb devices"));
        return None;
    }
    spaces.there(
        "ip link add br0 type bridge
         ip addr del 10.77.0.2/24 dev v
         ip addr add 10.77.0.2/24 dev br0
         ip link set v master br0
         ip link set lost0 master br0
         ip link set lost0 type bridge_slave flood off
         ip link set lost0 up
         ip link set br0 up",
    );
    // Who asks for an address asks all ports.
    spaces.here(&format!(
        "ip link set v address {HERE}
         ip neigh replace 10.77.0.2 lladdr {THERE} dev v nud permanent"
    ));
    spaces.there(&format!(
        "ip link set br0 address {THERE}
         ip neigh replace 10.77.0.1 lladdr {HERE} dev br0 nud permanent"
    ));
    Some(spaces)
}

/// Frames that the bridge gives to all of its ports, and as many of a protocol that nobody takes:
/// these are no drops of the device's.
fn drops_some(spaces: &Namespaces) {
    let frame = |to: &str| format!("{to}0200000000991234{}\n", "00".repeat(46));
    send(spaces, &[frame("ffffffffffff"), frame(&THERE.replace(':', ""))].concat().repeat(DROPPED));
}

/// Sends frames that are lines of hexadecimal numbers.
fn send(spaces: &Namespaces, frames: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frame_pipe.py");
    let mut pipe = spaces.run_here(Path::new("python3"));
    let pipe = pipe.args([script, "v"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut pipe = pipe.spawn().expect("python runs");
    let mut input = pipe.stdin.take().expect("piped");
    input.write_all(frames.as_bytes()).expect("it reads");
    drop(input);
    assert!(pipe.wait().expect("it ends").success());
}

/// What a test says that was begun with `command`, and meanwhile had a device drop some; and what
/// it prints.
fn tested(spaces: &Namespaces, command: &mut Command, folder: &Path) -> (Brief, String, String) {
    tested_while(command, folder, || drops_some(spaces))
}

/// The same of one in whose middle `something` is done.
fn tested_while(
    command: &mut Command,
    folder: &Path,
    something: impl Fn(),
) -> (Brief, String, String) {
    let [json, page] = ["p.json", "p.html"].map(|name| folder.join(name));
    command.args(["--rate", "1M", "--frames", "512", "--for", "7s", "-o"]).arg(&json);
    let test = command.arg("-o").arg(&page).stdout(Stdio::piped()).stderr(Stdio::piped());
    let test = Running(test.spawn().expect("farline runs"));
    std::thread::sleep(Duration::from_millis(2_500));
    something();
    let (_, plain, told) = test.finish();
    let html =
        std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{error}: {plain} {told}"));
    (Brief::read(&json), plain, html)
}

fn count(document: &Brief, of: &str, key: &str) -> u64 {
    document[of][key].as_u64().unwrap_or_else(|| panic!("no {key} in {of}: {document}"))
}

/// Whether a busy machine was in time in a second at least.
fn is_fit((document, ..): &(Brief, String, String)) -> bool {
    count(document, "sums", "tested") >= 1
}

/// A busy machine is late in some seconds; of the others, none that was dropped in counts.
///
/// Those of the protocol that nobody takes would be as many again; one or two of the kernel's own
/// may go to that port. Returns how many were counted.
fn assert_told_apart(document: &Brief, of: &str) -> u64 {
    assert_eq!(count(document, "sums", "lost"), 0, "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
    let drops = &document[of]["device_drops"];
    let dropped = drops["dropped"].as_u64().unwrap_or_else(|| panic!("unknown: {document}"));
    assert!((DROPPED..2 * DROPPED).contains(&(dropped as usize)), "{document}");
    assert_eq!(drops["missed"], 0, "{document}");
    dropped
}

#[test]
fn what_a_device_there_drops_is_told_apart() {
    let Some(spaces) = ends("t-own-there") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut far = spaces.run_there(&farline_binary());
    let (far, _) = Running::begun(far.args(["--json", "line", "reflect"]));
    let mut node = spaces.run_there(&farline_binary());
    node.args(["--json", "serve", "--anonymous", "read", "--allow-line", "20M", "--listen"]);
    let (_node, url) = announced(node.args(["10.77.0.2:2811", "--root"]).arg(folder.path()));
    let url = url.replace("ftp://", "farline://") + "/";
    for target in ["10.77.0.2", &url] {
        let once = || {
            let mut command = spaces.run_here(&farline_binary());
            tested(&spaces, command.args(["-q", "line", target]), folder.path())
        };
        let (document, plain, page) = fit_of_three(once, is_fit);
        let dropped = assert_told_apart(&document, "totals");
        assert!((1..=3).contains(&count(&document, "sums", "receiver_drops")), "{document}");
        assert!(count(&document, "sums", "tested") >= 1, "{document}");
        let said = format!("there: {dropped} by the device or behind it (rx_dropped)");
        assert!(plain.contains(&said) && page.contains(&said), "{plain}");
        assert!(plain.contains("s: the receiver dropped packets"), "{plain}");
    }
    drop(far);
}

#[test]
fn what_a_device_here_drops_is_told_apart() {
    let Some(spaces) = ends("t-own-here") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut far = spaces.run_here(&farline_binary());
    let (_far, _) = Running::begun(far.args(["--json", "line", "reflect", "--stamp"]));
    // Packets of STAMP come back to be counted; of a load nothing does.
    for (stamp, untested) in [(&["--stamp"][..], 1..=3), (&[], 0..=0)] {
        let once = || {
            let mut command = spaces.run_there(&farline_binary());
            command.args(["-q", "line", "10.77.0.1:8620"]).args(stamp);
            tested(&spaces, &mut command, folder.path())
        };
        let (document, plain, page) = fit_of_three(once, is_fit);
        let dropped = assert_told_apart(&document, "sender");
        assert!(untested.contains(&count(&document, "sums", "receiver_drops")), "{document}");
        assert!(count(&document, "sums", "tested") >= 1, "{document}");
        let said = format!("here: {dropped} by the device or behind it (rx_dropped)");
        assert!(plain.contains(&said) && page.contains(&said), "{plain}");
    }
}

#[test]
fn frames_of_foreign_vlans_are_nobodys_drops() {
    let Some(spaces) = Namespaces::pair("t-own-vlan") else { return };
    let quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
    spaces.here(quiet);
    spaces.there(quiet);
    let dropped = || {
        let mut ip = farline_lab::command("ip");
        let said = ip.args(["-n", spaces.there_name(), "-s", "-j", "link", "show", "v"]).output();
        let said: Value = serde_json::from_slice(&said.expect("ip runs").stdout).expect("JSON");
        said[0]["stats64"]["rx"]["dropped"].as_u64().expect("a count")
    };
    let mut far = spaces.run_there(&farline_binary());
    let (_far, _) = Running::begun(far.args(["--json", "line", "reflect"]));
    let folder = tempfile::tempdir().expect("a folder");
    // Of VLAN 77, for which there is no device.
    let frame = format!("ffffffffffff0200000000998100004d1234{}\n", "00".repeat(46));
    let before = dropped();
    let once = || {
        let mut command = spaces.run_here(&farline_binary());
        let send = || send(&spaces, &frame.repeat(DROPPED));
        tested_while(command.args(["-q", "line", "10.77.0.2"]), folder.path(), send)
    };
    let (document, ..) = fit_of_three(once, is_fit);
    assert!(dropped() >= before + DROPPED as u64, "the kernel counts them: there is no need");
    let drops = &document["totals"]["device_drops"];
    assert_eq!((&drops["dropped"], &drops["missed"]), (&0.into(), &0.into()), "{document}");
    assert_eq!(count(&document, "sums", "receiver_drops"), 0, "{document}");
    assert_eq!(count(&document, "sums", "lost"), 0, "{document}");
}

#[test]
fn what_a_receiver_drops_until_the_end_is_its_own() {
    let Some(spaces) = Namespaces::pair("t-own-end") else { return };
    let mut far = spaces.run_there(&farline_binary());
    let (far, _) = Running::begun(far.args(["--json", "line", "reflect", "--buffer", "64KiB"]));
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let mut test = spaces.run_here(&farline_binary());
    test.args(["--json", "-q", "line", "10.77.0.2", "--rate", "20M", "--for", "6s", "--state"]);
    let test = Running(test.arg(&state).stdout(Stdio::piped()).spawn().expect("farline runs"));
    let tested = || {
        let json = std::fs::read_to_string(&state).unwrap_or_default();
        let state: Value = serde_json::from_str(&json).unwrap_or_default();
        state["test"]["sums"]["tested"].as_u64() >= Some(1)
    };
    wait_for("a second of the test", tested);
    // Beyond its end: of the last seconds not one frame comes.
    far.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(6));
    far.signal(Signal::CONT);
    let (_, said, _) = test.finish();
    let document = Brief::parsed(&said);
    assert_eq!(count(&document, "sums", "lost"), 0, "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
    assert!(count(&document, "sums", "receiver_drops") >= 2, "{document}");
}
