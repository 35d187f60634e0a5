//! `farline line` over emulated links whose trouble is known: what it says must be that, and what a
//! host loses itself must never be the line's.

use farline_lab::{Brief, LinkUp, Running, error_of, farline, fit_of_three, node, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The far end at side b.
pub(crate) fn reflector(link: &LinkUp, more: &[&str]) -> Running {
    let mut command = link.farline("b", &["--json", "line", "reflect"]);
    let (running, line) = Running::begun(command.args(more));
    assert!(line.contains("farline/line-reflect/1"), "{line}");
    running
}

/// A test from side a with `arguments`.
pub(crate) fn tester(link: &LinkUp, arguments: &[&str]) -> Command {
    let mut command = link.farline("a", &["--json", "line", "10.77.0.2"]);
    command.args(arguments);
    command
}

/// A test with `arguments` of a link by its name, which brings both ends.
pub(crate) fn by_name(link: &LinkUp, arguments: &[&str]) -> Command {
    let mut command = farline();
    command.args(["--json", "-q", "line", link.name()]).args(arguments);
    command
}

/// What a command with `--json` says, and its exit code.
pub(crate) fn said(command: &mut Command) -> (Brief, i32) {
    let output = command.output().expect("farline runs");
    (Brief::of(&output), output.status.code().expect("an exit code"))
}

/// The exit code of a test that a busy host was not fit for.
pub(crate) const UNFIT: i32 = 3;

/// Its document and its exit code.
pub(crate) fn tested(link: &LinkUp, arguments: &[&str]) -> (Brief, i32) {
    document(tester(link, arguments).output().expect("farline runs"))
}

pub(crate) fn document(output: std::process::Output) -> (Brief, i32) {
    let document = Brief::of(&output);
    assert_eq!(document["schema"], "farline/line/1", "{document}");
    (document, output.status.code().expect("an exit code"))
}

pub(crate) fn count(document: &Brief, key: &str) -> u64 {
    document["sums"][key].as_u64().unwrap_or_else(|| panic!("no {key}: {document}"))
}

#[test]
fn a_clean_line_passes_and_a_bad_one_fails() {
    let Some(link) = LinkUp::up("t-line", &["custom", "--rtt", "4ms", "--rate", "100M"]) else {
        return;
    };
    let far = reflector(&link, &[]);
    let asked = ["--rate", "20M", "--ber", "1e-7", "--for", "30s"];
    let (document, code) = fit_of_three(|| tested(&link, &asked), |(_, code)| *code != UNFIT);
    assert_eq!((document["outcome"].as_str(), code), (Some("passed"), 0), "{document}");
    assert_eq!((count(&document, "lost"), count(&document, "wrong_bits")), (0, 0));
    assert!(document["bit_errors"]["below"].as_f64() < Some(1e-7), "{document}");
    let rtt = document["rtt"]["min_ns"].as_f64().expect("a round trip");
    assert!((4e6..8e6).contains(&rtt), "{rtt} ns");
    let there = document["one_way_delay"]["min_ns"].as_f64().expect("a delay");
    assert!((2e6..5e6).contains(&there), "{there} ns");
    drop(far);
    drop(link);
    let lossy = ["custom", "--rtt", "4ms", "--rate", "100M", "--loss", "0.02"];
    let Some(link) = LinkUp::up("t-line-lossy", &lossy) else { return };
    let _far = reflector(&link, &[]);
    let (document, code) = fit_of_three(|| tested(&link, &asked), |(_, code)| *code != UNFIT);
    assert_eq!((document["outcome"].as_str(), code), (Some("failed"), 5), "{document}");
}

#[test]
fn a_curve_says_from_where_on_a_line_queues_and_loses() {
    // 6 Mbit/s are offered to a link of 4.5, whose queue of 30 kB is 53 ms of it: the highest load
    // alone stands in the queue and overflows it. So few packets a second leave in time on a busy
    // machine too.
    let path = ["custom", "--rtt", "4ms", "--rate", "4.5M", "--queue", "30kB"];
    let Some(link) = LinkUp::up("t-line-curve", &path) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("curve.html");
    let asked = ["--rate", "6M", "--load", "20..100/40", "--burst", "1", "--for", "2s", "-o"];
    let curve = || {
        let (curve, code) = said(by_name(&link, &asked).arg(&page));
        assert_eq!(curve["schema"], "farline/line-loads/1", "{curve}");
        (curve, code)
    };
    let (curve, code) = fit_of_three(curve, |(_, code)| *code != UNFIT);
    assert_eq!(code, 0, "{curve}");
    let rows: Vec<(f64, f64, f64)> = (0..3)
        .map(|row| {
            let row = &curve["rows"][row];
            let loss = row["loss"]["events"].as_f64().expect("losses")
                / row["sent"].as_f64().expect("frames");
            let median = row["rtt"]["median_ns"].as_f64().expect("a round trip");
            (row["load_percent"].as_f64().expect("a load"), loss, median)
        })
        .collect();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [20.0, 60.0, 100.0]);
    assert!(rows[0].1 == 0.0 && rows[1].1 == 0.0, "{rows:?}");
    // A quarter of what is offered, less what the queue took at the begin.
    assert!((0.2..0.27).contains(&rows[2].1), "{rows:?}");
    let queued = (rows[2].2 - rows[0].2) / 1e6;
    // A busy machine's link is late itself.
    assert!((35.0..80.0).contains(&queued), "{queued} ms of a queue of 53");
    let html = std::fs::read_to_string(page).expect("a page");
    // A busy machine delays a percent of the packets at the least load by more than the whole
    // queue.
    let usual = curve["rows"][0]["rtt"]["p99_ns"].as_f64().expect("a percentile");
    let from = if rows[2].2 > usual { "from 100 % on" } else { "at no load that was tried" };
    let said = format!("a queue stands {from}; frames are lost from 100 % on");
    assert!(html.contains(&said), "{said}: {curve}");
}

#[test]
fn nobody_there_and_frames_too_large_are_clear_words() {
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--for", "1s"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-gone"), 5), "{error}");
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--frames", "63"]);
    assert_eq!((error["code"].as_str(), code), (Some("usage"), 2), "{error}");
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--ber", "0.5"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
    let Some(link) = LinkUp::up("t-line-mtu", &["custom", "--rtt", "1ms", "--mtu", "1500"]) else {
        return;
    };
    let output = tester(&link, &["--frames", "9000"]).output().expect("farline runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("line-frames") && said.contains("1500"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_test_at_a_higher_rate_than_allowed_is_refused() {
    let listen = ["--json", "line", "reflect", "--listen", "127.0.0.1:0", "--allow", "10M"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address");
    let (error, code) = error_of(&["line", address, "--rate", "20M"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-not-allowed"), 6), "{error}");
}

#[test]
fn a_page_has_the_verdict_and_the_document() {
    let listen = ["--json", "line", "reflect", "--listen", "127.0.0.1:0"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let (page, json) = (folder.path().join("p.html"), folder.path().join("p.json"));
    let mut command = farline();
    command.args(["-q", "line", &address, "--rate", "10M", "--for", "2s", "-o"]).arg(&page);
    let output = command.arg("-o").arg(&json).output().expect("farline runs");
    assert!(output.status.success() || output.status.code() == Some(3), "{output:?}");
    wait_for("the page", || page.exists());
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Line test of") && html.contains("farline/line/1"), "{output:?}");
    let document = Brief::read(&json);
    // The verdict stands before all else, on the page and in a terminal.
    let verdict = document["verdict"].as_str().expect("a verdict");
    let place = |what: &str| html.find(what).unwrap_or_else(|| panic!("no {what} on the page"));
    assert!(place("<h1") < place(verdict) && place(verdict) < place("<h2"), "{verdict}");
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(plain.lines().next(), Some(verdict), "{plain}");
    assert_eq!(document["settings"]["frames"]["name"], "cjpat-mix");
}

/// The far end at a loopback port, and where that is.
fn reflector_here(listen: &str) -> (Running, String) {
    let (far, line) =
        Running::begun(farline().args(["--json", "line", "reflect", "--listen", listen]));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (far, said["address"].as_str().expect("an address").to_owned())
}

#[test]
fn a_killed_tester_goes_on_and_the_gap_is_shown() {
    let (_far, address) = reflector_here("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let mut first = farline();
    first.args(["-q", "line", &address, "--rate", "5M", "--for", "12s", "--state"]).arg(&state);
    let mut first = Running(first.stdout(Stdio::null()).spawn().expect("farline runs"));
    let tested = || {
        let json = std::fs::read_to_string(&state).unwrap_or_default();
        let state: Value = serde_json::from_str(&json).unwrap_or_default();
        state["test"]["sums"]["tested"].as_u64() >= Some(2)
    };
    wait_for("two seconds of the test", tested);
    first.end(Signal::KILL);
    std::thread::sleep(Duration::from_secs(2));
    let mut second = farline();
    second.args(["--json", "-q", "line", "--resume"]).arg(&state);
    let (document, _) = document(second.output().expect("farline runs"));
    let (tested, away) = (count(&document, "tested"), count(&document, "away"));
    let late = count(&document, "sender_late");
    assert!(away >= 2 && tested >= 4, "{document}");
    assert_eq!(tested + away + late, 12, "every second is accounted for: {document}");
    assert_eq!(count(&document, "lost"), 0, "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
    // Its time is over: nothing more is tested, nor counted.
    let mut third = farline();
    third.args(["--json", "-q", "line", "--resume"]).arg(&state);
    let began = std::time::Instant::now();
    let (again, _) = self::document(third.output().expect("farline runs"));
    assert!(began.elapsed() < Duration::from_secs(5), "{again}");
    let counted: u64 =
        ["tested", "away", "sender_late"].map(|what| count(&again, what)).iter().sum();
    assert_eq!(counted, 12, "{again}");
    assert_eq!(count(&again, "tested"), tested, "{again}");
}

#[test]
fn a_reflector_that_was_killed_and_comes_back_loses_nothing() {
    let (mut far, address) = reflector_here("127.0.0.1:0");
    let test = farline()
        .args(["--json", "-q", "line", &address, "--rate", "5M", "--for", "9s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("farline runs");
    std::thread::sleep(Duration::from_secs(3));
    far.end(Signal::KILL);
    let (_again, _) = reflector_here(&address);
    let (document, _) = document(test.wait_with_output().expect("it ends"));
    let untested: u64 = ["away", "sender_drops", "sender_late", "receiver_drops"]
        .iter()
        .map(|why| count(&document, why))
        .sum();
    assert!(untested >= 1 && count(&document, "tested") >= 2, "{document}");
    assert_eq!(count(&document, "tested") + untested, 9, "{document}");
    assert_eq!(count(&document, "lost"), 0, "{document}");
}

/// Python with scapy, whose STAMP is another's.
fn scapy() -> Option<PathBuf> {
    let own = std::env::var_os("HOME")
        .map(|home| PathBuf::from(home).join(".cache/farline/python/bin/python3"));
    let found = own.into_iter().chain([PathBuf::from("python3")]).find(|python| {
        let has = ["-c", "import scapy.contrib.stamp"];
        Command::new(python)
            .args(has)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
    });
    if found.is_none() {
        farline_lab::skip("there is no scapy with STAMP on this machine (lab/setup brings it)");
    }
    found
}

fn peer(python: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stamp_peer.py");
    command.arg(script).args(arguments);
    command
}

#[test]
fn scapys_sender_is_answered_as_the_standard_says() {
    let Some(python) = scapy() else { return };
    let listen = ["--json", "line", "reflect", "--stamp", "--listen", "127.0.0.1:0"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let port = said["address"].as_str().and_then(|at| at.rsplit(':').next()).expect("a port");
    let said = farline_lab::json_of(&mut peer(&python, &["ask", port]));
    let answers = said.as_array().expect("a list");
    assert_eq!(answers.len(), 5);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer["len"][0], answer["len"][1], "as long as it was: {answer}");
        assert_eq!(
            (answer["seq"].as_u64(), answer["seq_sender"].as_u64()),
            (Some(n as u64), Some(n as u64))
        );
        assert_eq!(
            (answer["ssid"].as_u64(), answer["value"].as_str()),
            (Some(77), Some("paddings"))
        );
        assert!(answer["in_order"] == true && answer["echoed"] == true, "{answer}");
    }
}

/// What stands at `at` in a packet, as a number of four bytes.
fn word(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*packet[at..].first_chunk().expect("four bytes"))
}

#[test]
fn a_reflector_says_when_its_last_answer_left() {
    let listen = ["--json", "line", "reflect", "--stamp", "--listen", "127.0.0.1:0"];
    let (_far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(said["address"].as_str().expect("an address")).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let ask = |sequence: u32| {
        // RFC 8972, section 4.7: flags, type 7, length 16, and a value of nothing.
        let mut packet = [0; 64];
        packet[..4].copy_from_slice(&sequence.to_be_bytes());
        packet[44..48].copy_from_slice(&[0x80, 7, 0, 16]);
        socket.send(&packet).expect("sent");
        let mut answer = [0; 128];
        let len = socket.recv(&mut answer).expect("an answer");
        assert_eq!((len, &answer[44..48]), (64, &[0, 7, 0, 16][..]), "understood");
        answer
    };
    let first = ask(70);
    assert_eq!(first[48..64], [0; 16], "none has left before");
    let second = ask(71);
    assert_eq!((word(&second, 48), second[60]), (70, 2), "its number; by local software");
    // In NTP's seconds and their parts: after it was written, and before the next one came.
    let time = |packet: &[u8], at| (word(packet, at), word(packet, at + 4));
    let (written, left, came) = (time(&first, 4), time(&second, 52), time(&second, 16));
    assert!(written < left && left < came, "{written:?} {left:?} {came:?}");
}

#[test]
fn scapys_reflector_is_tested_and_what_it_drops_is_lost() {
    let Some(python) = scapy() else { return };
    let (_far, line) = Running::begun(&mut peer(&python, &["reflect", "-"]));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = format!("127.0.0.1:{}", said["port"]);
    let mut command = farline();
    command.args(["--json", "-q", "line", &address, "--stamp", "--frames", "128"]);
    let (document, code) =
        document(command.args(["--rate", "60k", "--for", "6s"]).output().expect("farline runs"));
    assert!(code == 0 || code == 3, "{document}");
    let (sent, lost) = (count(&document, "sent") as f64, count(&document, "lost") as f64);
    assert!(sent > 50.0 && (lost / sent - 0.1).abs() < 0.04, "every tenth: {document}");
    assert!(document["rtt"]["min_ns"].as_f64() > Some(0.0), "{document}");
}

#[test]
fn authenticated_packets_of_another_key_are_not_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    std::fs::write(&right, "a key of both\n").expect("written");
    std::fs::write(&wrong, "another key\n").expect("written");
    let mut far = farline();
    far.args(["--json", "line", "reflect", "--stamp", "--listen", "127.0.0.1:0", "--stamp-key"]);
    let (_far, line) = Running::begun(far.arg(&right));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address");
    let test = |key: &Path| {
        let mut command = farline();
        command.args(["--json", "-q", "line", address, "--stamp", "--frames", "256"]);
        command.args(["--rate", "200k", "--for", "3s", "--stamp-key"]).arg(key);
        command.output().expect("farline runs")
    };
    let (document, _) = document(test(&right));
    assert!(count(&document, "sent") > 50 && count(&document, "lost") == 0, "{document}");
    let refused = String::from_utf8_lossy(&test(&wrong).stdout).into_owned();
    assert!(refused.contains("line-gone") && refused.contains("the same key"), "{refused}");
}

#[test]
fn a_service_level_is_held_or_not() {
    let Some(link) = LinkUp::up("t-line-level", &["custom", "--rtt", "20ms", "--rate", "100M"])
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let level = folder.path().join("level.toml");
    for (delay, is_held) in [(2_000, true), (5, false)] {
        let text = format!("rate = \"8M\"\nframe_transfer_delay_ms = {delay}\n");
        std::fs::write(&level, text).expect("written");
        let asked = |command: &mut Command| said(command.arg("--service").arg(&level));
        let held = || asked(&mut by_name(&link, &["--for", "2s"]));
        let (said, code) = fit_of_three(held, |(_, code)| *code != UNFIT);
        if code == UNFIT {
            // A busy machine is not fit to say, and says so.
            assert!(said["is_held"].is_null() && said["undecided"].is_string(), "{said}");
            continue;
        }
        assert_eq!(said["is_held"], is_held, "{said}");
        assert_eq!(said["rows"].as_array().map(Vec::len), Some(4), "{said}");
        assert_eq!(code, if is_held { 0 } else { 5 });
    }
}

#[test]
fn a_link_is_tested_by_its_name_until_it_is_stopped() {
    let trouble = ["custom", "--rtt", "20ms", "--rate", "100M", "--loss", "0.02,0"];
    let Some(link) = LinkUp::up("t-line-name", &trouble) else { return };
    let mut command = farline();
    let asked = ["--rate", "20M", "--for", "60s", "--confidence", "99.9", "--state"];
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    command.args(["--json", "-q", "line", link.name()]).args(asked).arg(&state);
    let test = Running(command.stdout(Stdio::piped()).spawn().expect("farline runs"));
    let tested = || {
        let json = std::fs::read_to_string(&state).unwrap_or_default();
        let state: Value = serde_json::from_str(&json).unwrap_or_default();
        state["test"]["sums"]["tested"].as_u64() >= Some(2)
    };
    wait_for("two seconds of the test", tested);
    test.signal(Signal::INT);
    let (status, said, _) = test.finish();
    let document = Brief::parsed(&said);
    assert_eq!(
        (document["outcome"].as_str(), status.code()),
        (Some("broken_off"), Some(3)),
        "{document}"
    );
    assert!(document["verdict"].as_str().is_some_and(|said| said.contains("ended by you")));
    assert_eq!(document["settings"]["target"], link.name());
    let loss = ["low", "high"].map(|end| document["loss"][end].as_f64().expect("an end"));
    assert!(loss[0] <= 0.02 && 0.02 <= loss[1], "{loss:?}");
    let rtt = document["rtt"]["min_ns"].as_f64().expect("a round trip");
    assert!((20e6..30e6).contains(&rtt), "{rtt} ns");
    let (error, code) = error_of(&["line", link.name(), "--stamp"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
    let (error, code) = error_of(&["line", "usn-6600"]);
    assert_eq!((error["code"].as_str(), code), (Some("link-gone"), 2), "{error}");
    assert!(
        error["hint"].as_str().is_some_and(|hint| hint.contains("link up usn-6600")),
        "{error}"
    );
}

#[test]
fn how_long_a_decision_takes_is_said_beforehand() {
    let (_far, address) = reflector_here("127.0.0.1:0");
    let mut command = farline();
    command.args(["line", &address, "--rate", "10M", "--ber", "1e-8", "--for", "1s"]);
    let output = command.output().expect("farline runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3.4 over the limit of bits, of 9.86 million a second: preambles and gaps carry none.
    assert!(told.contains("a decision takes 35 s at best"), "{told}");
    assert_eq!(output.status.code(), Some(UNFIT), "not decided: {output:?}");
}

#[test]
fn a_terminal_shows_what_is_left_until_the_verdict() {
    let (_far, address) = reflector_here("127.0.0.1:0");
    let test = format!(
        "{} line {address} --rate 10M --ber 1e-8 --for 3s",
        farline_lab::farline_binary().display()
    );
    let mut command = farline_lab::command("script");
    command.env("TERM", "xterm").args(["-qec", &test, "/dev/null"]);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return farline_lab::skip("this machine has no script, which is a terminal for a test");
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    // 35 s less those that count, of which a busy machine may have none.
    let is_said = |left: u32| shown.contains(&format!("; passes in {left} s at best, ends in 1 s"));
    assert!((32..=35).any(is_said), "{shown}");
}

#[test]
fn a_node_over_tls_is_trusted_by_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(folder.path(), "read", &["--tls", "--allow-line", "20M"]);
    let url = url.replace("ftp://", "farlines://") + "/";
    let (error, code) = error_of(&["line", &url, "--for", "1s"]);
    assert_eq!((error["code"].as_str(), code), (Some("tls-untrusted"), 6), "{error}");
    let hint = error["hint"].as_str().expect("a hint");
    let (_, pin) = hint.rsplit_once("--tls-pin ").expect("the pin");
    let mut command = farline();
    command.args(["--json", "-q", "line", &url, "--rate", "5M", "--for", "1s", "--tls-pin", pin]);
    let (document, _) = document(command.output().expect("farline runs"));
    assert!(document["totals"]["received"].as_u64() > Some(100), "{document}");
    let (error, code) = error_of(&["line", "127.0.0.1:9", "--tls-pin", pin]);
    assert_eq!((error["code"].as_str(), code), (Some("line-setting"), 2), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("farlines://")), "{error}");
}

#[test]
fn a_node_that_allows_it_is_the_far_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(folder.path(), "read", &["--allow-line", "20M"]);
    let url = url.replace("ftp://", "farline://") + "/";
    let mut command = farline();
    command.args(["--json", "-q", "line", &url, "--rate", "10M", "--for", "2s"]);
    let (document, code) = document(command.output().expect("farline runs"));
    assert!(code == 0 || code == 3, "{document}");
    assert_eq!(document["settings"]["target"], url);
    assert!(document["totals"]["received"].as_u64() > Some(1_000), "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
    let (error, code) = error_of(&["line", &url, "--rate", "30M"]);
    assert_eq!((error["code"].as_str(), code), (Some("line-not-allowed"), 6), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("20.0 Mbit/s")), "{error}");
    let (_other, url) = node(folder.path(), "read", &[]);
    let (error, code) = error_of(&["line", &url.replace("ftp:", "farline:")]);
    assert_eq!((error["code"].as_str(), code), (Some("line-not-allowed"), 6), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--allow-line")), "{error}");
}
