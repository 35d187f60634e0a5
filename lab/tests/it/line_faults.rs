//! What `farline line` does when something around it fails: another process on its state, a full
//! disk, an end that goes away.

use farline_core::line::stamp::{ReflectorPacket, SenderPacket, StampTime};
use farline_core::units::{Span, Time};
use farline_lab::{
    Brief, Namespaces, Running, error_of_command, farline, farline_binary, skip, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The far end at a loopback port, and where that is.
fn reflector(listen: &str) -> (Running, String) {
    let (far, line) =
        Running::begun(farline().args(["--json", "line", "reflect", "--listen", listen]));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (far, said["address"].as_str().expect("an address").to_owned())
}

/// A test of `address` with a state, which has one already.
fn begun(address: &str, seconds: &str, state: &Path) -> Running {
    let mut command = farline();
    command.args(["--json", "-q", "line", address, "--rate", "5M", "--for", seconds, "--state"]);
    let piped = command.arg(state).stdout(Stdio::piped());
    let running = Running(piped.spawn().expect("farline runs"));
    wait_for("a state", || tested(state) >= 1);
    running
}

/// Seconds that the state counts as tested.
fn tested(state: &Path) -> u64 {
    let json = std::fs::read_to_string(state).unwrap_or_default();
    let state: Value = serde_json::from_str(&json).unwrap_or_default();
    state["test"]["sums"]["tested"].as_u64().unwrap_or(0)
}

/// What a test says at its end, and its exit code.
fn ended(test: Running) -> (Brief, i32) {
    let (status, said, _) = test.finish();
    (Brief::parsed(&said), status.code().expect("an exit code"))
}

#[test]
fn a_test_is_one_processs_alone() {
    let (_far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let first = begun(&address, "6s", &state);
    let mut second = farline();
    let (error, code) = error_of_command(second.args(["--json", "line", "--resume"]).arg(&state));
    assert_eq!((error["code"].as_str(), code), (Some("line-state"), 2), "{error}");
    let (message, hint) = (error["message"].to_string(), error["hint"].to_string());
    assert!(message.contains(&first.id().to_string()) && hint.contains("--state"), "{error}");
    let (document, _) = ended(first);
    assert_eq!(document["sums"]["lost"], 0, "{document}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "the lock goes with the test: {left:?}");
}

#[test]
fn a_full_disk_takes_no_other_report() {
    if !rustix::process::geteuid().is_root() {
        return skip("a mount of its own needs root");
    }
    let (_far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let full = folder.path().join("full");
    std::fs::create_dir(&full).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=256k none {full} && echo old > {full}/p.html && \
         {farline} --json line {address} --rate 5M --for 3s --state {full}/state -o {full}/p.html \
         -o {full}/p.csv -o {good}; echo \"exit $?\"; cat {full}/p.html; ls {full}",
        full = full.display(),
        farline = farline_binary().display(),
        good = folder.path().join("p.json").display(),
    );
    let mut command = farline_lab::command("unshare");
    let output = Command::output(command.args(["--mount", "sh", "-c", &script])).expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let result = Brief::parsed(lines[0]);
    assert_eq!(result["schema"], "farline/line/1", "the result itself: {result}");
    let error = Brief::parsed(lines[1]);
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("p.html") && message.contains("p.csv"), "{message}");
    assert!(!error["error"]["hint"].to_string().contains("--resume"), "{error}");
    // What was there is whole, and nothing is left half.
    assert_eq!(lines[2..], ["exit 3", "old", "p.html"], "{result}");
    let good = std::fs::read_to_string(folder.path().join("p.json")).expect("written");
    assert_eq!(serde_json::from_str::<Value>(&good).expect("JSON")["schema"], "farline/line/1");
    assert_eq!(told.matches("the test goes on").count(), 1, "said once: {told}");
}

#[test]
fn runs_of_a_far_ends_two_lives_are_added_up() {
    let (mut far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let test = begun(&address, "9s", &state);
    wait_for("some seconds", || tested(&state) >= 3);
    far.end(Signal::KILL);
    let (_again, _) = reflector(&address);
    let (document, _) = ended(test);
    let count = |of: &str, key: &str| document[of][key].as_u64().expect("a count");
    assert_eq!(count("sums", "lost"), 0, "{document}");
    assert!(document["restarts"].as_u64() >= Some(1), "{document}");
    // All that came in seconds that count, whichever life counted it.
    assert!(count("totals", "received") >= count("sums", "sent"), "{document}");
    let runs = &document["totals"]["runs"];
    let followed = runs["counts"]["stayed_good"].as_u64();
    assert!(followed > Some(count("sums", "sent") - 10) && runs["lost"] == 0, "{document}");
}

#[test]
fn a_target_that_vanishes_leaves_a_report() {
    let (mut far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let [state, page, json] = ["state", "p.html", "p.json"].map(|name| folder.path().join(name));
    let mut command = farline();
    command.args(["line", &address, "--rate", "5M", "--for", "100s", "-o"]).arg(&page);
    command.arg("-o").arg(&json);
    let piped = command.arg("--state").arg(&state).stdout(Stdio::piped()).stderr(Stdio::piped());
    let test = Running(piped.spawn().expect("farline runs"));
    wait_for("some seconds", || tested(&state) >= 1);
    far.end(Signal::KILL);
    std::thread::sleep(Duration::from_secs(5));
    let asked = Instant::now();
    test.signal(Signal::INT);
    let (status, _, told) = test.finish();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    let document = Brief::read(&json);
    assert_eq!((document["outcome"].as_str(), status.code()), (Some("broken_off"), Some(3)));
    assert!(document["sums"]["tested"].as_u64() >= Some(1), "{document}");
    assert!(document["sums"]["away"].as_u64() >= Some(4), "{document}");
    assert_eq!(document["sums"]["lost"], 0, "{document}");
    assert!(told.contains("no answer for 3 s") && told.contains("--resume"), "{told}");
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains("has not answered for"), "{document}");
    // It comes back, and the test goes on.
    let (_again, _) = reflector(&address);
    let mut command = farline();
    command.args(["--json", "-q", "line", "--resume"]).arg(&state).stdout(Stdio::piped());
    let test = Running(command.spawn().expect("farline runs"));
    let before = tested(&state);
    wait_for("more seconds", || tested(&state) > before);
    test.signal(Signal::INT);
    let (document, _) = ended(test);
    assert_eq!(document["broken_off"], "ended by you", "{document}");
    assert_eq!(document["sums"]["lost"], 0, "{document}");
}

#[test]
fn a_stamp_reflector_that_vanishes_is_no_line_that_loses() {
    let listen = ["--json", "line", "reflect", "--stamp", "--listen", "127.0.0.1:0"];
    let (mut far, line) = Running::begun(farline().args(listen));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let address = said["address"].as_str().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("t.json");
    let mut command = farline();
    command.args(["line", address, "--stamp", "--rate", "200k", "--for", "12s", "-o"]).arg(&json);
    let piped = command.args(["--loss", "0.01"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let test = Running(piped.spawn().expect("farline runs"));
    std::thread::sleep(Duration::from_secs(4));
    far.end(Signal::KILL);
    let (status, _, told) = test.finish();
    let document = Brief::read(&json);
    assert_eq!((document["outcome"].as_str(), status.code()), (Some("broken_off"), Some(3)));
    let count = |key: &str| document["sums"][key].as_u64().expect("a count");
    assert!(count("tested") >= 1 && count("away") >= 5, "{document}");
    assert_eq!((count("lost"), count("sender_drops")), (0, 0), "{document}");
    assert!(told.contains("no answer for 3 s"), "{told}");
}

#[test]
fn what_stamp_cannot_send_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, "\n").expect("written");
    let key = key.to_str().expect("text");
    for (arguments, code, says) in [
        (&["--frames", "imix"][..], "line-frames", "of one size"),
        (&["--frames", "64"], "line-frames", "--frames 90 is the smallest"),
        (&["--stamp-key", key], "bad-key", "authenticates nobody"),
    ] {
        let mut command = farline();
        command.args(["--json", "line", "127.0.0.1:9", "--stamp", "--for", "1s"]).args(arguments);
        let (error, exit) = error_of_command(&mut command);
        assert_eq!((error["code"].as_str(), exit), (Some(code), 2), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_decision_in_the_last_second_leaves_none_untested() {
    let (_far, address) = reflector("127.0.0.1:0");
    let tested = || {
        let mut command = farline();
        command.args(["--json", "-q", "line", &address, "--rate", "5M", "--for", "2s"]);
        Brief::of(&command.args(["--ber", "1e-5"]).output().expect("farline runs"))
    };
    let is_right = |document: &Brief| document["sums"]["sender_late"] == 0;
    let document = farline_lab::fit_of_three(tested, is_right);
    assert!(is_right(&document) && document["outcome"] == "passed", "{document}");
}

#[test]
fn a_short_test_of_a_target_that_vanished_ends_soon() {
    let (mut far, address) = reflector("127.0.0.1:0");
    let folder = tempfile::tempdir().expect("a folder");
    let test = begun(&address, "4s", &folder.path().join("state"));
    far.end(Signal::KILL);
    let began = Instant::now();
    let (document, code) = ended(test);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((document["outcome"].as_str(), code), (Some("broken_off"), 3), "{document}");
}

#[test]
fn what_this_host_could_not_send_is_no_loss() {
    let Some(spaces) = Namespaces::pair("t-line-own") else { return };
    let queue = ["qdisc", "add", "dev", "v", "root", "tbf", "rate", "2mbit", "burst", "3000"];
    let slow = spaces.run_here(Path::new("tc")).args(queue).args(["limit", "6000"]).status();
    if !slow.is_ok_and(|status| status.success()) {
        return skip("this machine has no tc with tbf");
    }
    let mut far = spaces.run_there(&farline_binary());
    far.args(["--json", "line", "reflect", "--stamp", "--listen", "10.77.0.2:8620"]);
    let (_far, _) = Running::begun(&mut far);
    for stamp in [&["--stamp"][..], &[]] {
        let mut command = spaces.run_here(&farline_binary());
        command.args(["--json", "-q", "line", "10.77.0.2:8620", "--rate", "4M", "--for", "3s"]);
        let test = command.args(["--frames", "512"]).args(stamp).stdout(Stdio::piped());
        let (document, code) = ended(Running(test.spawn().expect("farline runs")));
        assert_eq!((document["outcome"].as_str(), code), (Some("unfit"), 3), "{document}");
        assert!(document["sums"]["sender_drops"].as_u64() >= Some(2), "{document}");
        assert_eq!(document["totals"]["runs"]["lost"], 0, "{stamp:?}: {document}");
    }
}

#[test]
fn times_of_a_far_end_that_lies_are_refused() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let asked = SenderPacket::read(None, &bytes[..len]).expect("a packet");
            let later = asked.sent.time + Span::from_millis(9);
            let mut answer = vec![0; len];
            ReflectorPacket {
                sequence: asked.sequence,
                sent: asked.sent,
                session: asked.session,
                received: later,
                sender_sequence: asked.sequence,
                sender_sent: asked.sent,
                sender_ttl: 64,
            }
            .write(None, &mut answer);
            let _ = socket.send_to(&answer, from);
        }
    });
    let mut command = farline();
    command.args(["-q", "line", &address, "--stamp", "--frames", "128", "--rate", "100k"]);
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("p.json");
    let output = command.args(["--for", "3s", "-o"]).arg(&json).output().expect("farline runs");
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    let document = Brief::read(&json);
    assert!(document["impossible_times"].as_u64() > Some(50), "{document}");
    for figure in ["one_way_delay", "one_way_delay_back", "clocks", "delay_variation_ns"] {
        assert!(document[figure].is_null(), "{figure}: {document}");
    }
    // By this end's clock alone.
    let rtt = document["rtt"]["median_ns"].as_f64();
    assert!(rtt > Some(0.0) && rtt < Some(9e6), "{document}");
    assert!(plain.contains("that cannot be"), "{plain}");
}

/// A far end at a loopback port that sends back for each packet what `answers` makes of it.
fn answering(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            for answer in answers(&bytes[..len]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    address
}

#[test]
fn a_clock_there_that_is_set_during_a_test_is_said() {
    let begun = Instant::now();
    let address = answering(move |bytes| {
        let asked = SenderPacket::read(None, bytes).expect("a packet");
        // Half way through it is set forward by 50 ms.
        let ahead = if begun.elapsed() > Duration::from_secs(2) { 50 } else { 0 };
        let received = asked.sent.time + Span::from_micros(10) + Span::from_millis(ahead);
        let time = received + Span::from_micros(1);
        let mut answer = vec![0; bytes.len()];
        ReflectorPacket {
            sequence: asked.sequence,
            sent: StampTime { time, as_it_came: None, ..asked.sent },
            session: asked.session,
            received,
            sender_sequence: asked.sequence,
            sender_sent: asked.sent,
            sender_ttl: 64,
        }
        .write(None, &mut answer);
        vec![answer]
    });
    let mut command = farline();
    command.args(["-q", "line", &address, "--stamp", "--frames", "128", "--rate", "100k"]);
    let folder = tempfile::tempdir().expect("a folder");
    let [json, page] = ["p.json", "p.html"].map(|name| folder.path().join(name));
    command.args(["--for", "4s", "-o"]).arg(&json).arg("-o").arg(&page);
    let output = command.output().expect("farline runs");
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    let document = Brief::read(&json);
    assert_eq!((&document["clock_steps"], &document["sums"]["lost"]), (&1.into(), &0.into()));
    let html = std::fs::read_to_string(&page).expect("written");
    for (place, said) in [("the terminal", plain), ("the page", html)] {
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_said = words.contains("A clock was set 1 time while the test ran");
        assert!(is_said, "{place}: {document}");
    }
    // Delays one way are of the time since: they have no part of the 50 ms.
    let most = document["one_way_delay"]["max_ns"].as_f64().expect("a delay");
    let rtt = document["rtt"]["max_ns"].as_f64().expect("a round trip");
    assert!(most < 25e6 + rtt, "{document}");
    let offset = document["clocks"]["offset_ns"].as_f64().expect("an offset");
    assert!((40e6..60e6).contains(&offset), "{document}");
}

#[test]
fn answers_that_are_thrown_away_are_counted_by_reason() {
    let address = answering(|bytes| {
        let asked = SenderPacket::read(None, bytes).expect("a packet");
        let received = asked.sent.time;
        let answer = |sequence: u32, sent: Time| {
            let mut answer = vec![0; bytes.len()];
            ReflectorPacket {
                sequence,
                sent: asked.sent,
                session: asked.session,
                received,
                sender_sequence: sequence,
                sender_sent: StampTime { time: sent, as_it_came: None, ..asked.sent },
                sender_ttl: 64,
            }
            .write(None, &mut answer);
            answer
        };
        let (number, sent) = (asked.sequence, asked.sent.time);
        let unasked = answer(number + 1_000_000, sent);
        let altered = answer(number, sent + Span::from_millis(1));
        vec![bytes[..40].to_vec(), unasked, altered.clone(), altered, answer(number, sent)]
    });
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("p.json");
    let mut command = farline();
    command.args(["-q", "line", &address, "--stamp", "--frames", "128", "--rate", "100k"]);
    let output = command.args(["--for", "3s", "-o"]).arg(&json).output().expect("farline runs");
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    let document = Brief::read(&json);
    let count = |why: &str| document["refused_answers"][why].as_u64().expect("a count");
    let answered = document["totals"]["received"].as_u64().expect("a count");
    assert!(answered > 100 && document["totals"]["duplicates"] == 0, "{document}");
    let refused = ["too_short", "never_asked", "other_time", "wrong_hmac"].map(count);
    assert_eq!(refused, [answered, answered, 2 * answered, 0], "{document}");
    for said in ["too short for STAMP", "never sent", "at another time", "count for nothing"] {
        assert!(plain.contains(said), "{said}: {plain}");
    }
    // With another key there is nothing but such answers, and the error says so.
    let key = folder.path().join("key");
    std::fs::write(&key, "correct horse").expect("written");
    let address = answering(|bytes| vec![vec![7; bytes.len()]]);
    let mut command = farline();
    command.args(["--json", "line", &address, "--stamp", "--frames", "256", "--for", "8s"]);
    let (error, code) = error_of_command(command.arg("--stamp-key").arg(&key));
    assert_eq!((error["code"].as_str(), code), (Some("line-gone"), 5), "{error}");
    assert!(error["message"].as_str().is_some_and(|said| said.contains("HMAC")), "{error}");
}

#[test]
fn a_state_replaces_no_other_file_and_no_test_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let refused = |what: &str| {
        let mut command = farline();
        command.args(["--json", "line", "127.0.0.1:9", "--for", "1s", "--state"]).arg(&state);
        let (error, code) = error_of_command(&mut command);
        assert_eq!((error["code"].as_str(), code), (Some("line-state"), 2), "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(what)), "{error}");
    };
    std::fs::write(&state, "precious").expect("written");
    refused("is no state");
    assert_eq!(std::fs::read(&state).expect("there"), b"precious");
    std::fs::remove_file(&state).expect("removed");
    let (_far, address) = reflector("127.0.0.1:0");
    let mut test = begun(&address, "60s", &state);
    test.end(Signal::KILL);
    refused("not over");
}

/// How old an answer is that comes again: nobody waits for its packet any more.
const REPLAYED_AFTER: Duration = Duration::from_millis(3_500);

#[test]
fn replayed_authenticated_answers_count_for_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, "a key of both\n").expect("written");
    let mut far = farline();
    far.args(["--json", "line", "reflect", "--stamp", "--listen", "127.0.0.1:0", "--stamp-key"]);
    let (_far, line) = Running::begun(far.arg(&key));
    let said: Value = serde_json::from_str(&line).expect("an object");
    let real = UdpSocket::bind("127.0.0.1:0").expect("a port");
    real.connect(said["address"].as_str().expect("an address")).expect("connected");
    real.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    // Each answer comes twice at once, and again much later.
    let seen = std::sync::Mutex::new(std::collections::VecDeque::new());
    let address = answering(move |bytes| {
        let mut answer = [0; 2_048];
        real.send(bytes).expect("sent");
        let Ok(len) = real.recv(&mut answer) else { return Vec::new() };
        let answer = answer[..len].to_vec();
        let mut seen = seen.lock().expect("whole");
        seen.push_back((Instant::now(), answer.clone()));
        let is_old =
            seen.front().is_some_and(|(at, _): &(Instant, _)| at.elapsed() >= REPLAYED_AFTER);
        let old = if is_old { seen.pop_front() } else { None };
        [answer.clone(), answer].into_iter().chain(old.map(|(_, old)| old)).collect()
    });
    let mut command = farline();
    command.args(["--json", "-q", "line", &address, "--stamp", "--frames", "256"]);
    command.args(["--rate", "100k", "--for", "6s", "--stamp-key"]).arg(&key);
    let output = command.output().expect("farline runs");
    let document = Brief::of(&output);
    let count = |of: &str, key: &str| document[of][key].as_u64().expect("a count");
    let received = count("totals", "received");
    assert!(received > 100 && count("sums", "lost") == 0, "{document}");
    assert_eq!(count("totals", "duplicates"), received, "the copies: {document}");
    let replayed = count("refused_answers", "never_asked");
    assert!(replayed > 20, "what came again much later: {document}");
    assert_eq!(count("refused_answers", "wrong_hmac"), 0, "they are the real one's: {document}");
}
