//! `farline profile NODE` and `plan NODE`: a real node as the other end, with its operator's
//! consent and below its ceiling.

use crate::library::example;
use farline_core::congestion::Algorithm;
use farline_core::profile::{
    Copies, Document, Environment, Grid, PathPoint, Profile, ProfileDriver, ProfileKind, Simulator,
};
use farline_core::units::{Rate, Span};
use farline_lab::controls::may_choose;
use farline_lab::files::plant_file;
use farline_lab::ordinary::Ordinary;
use farline_lab::{LinkUp, Running, announced, error_of_command, farline, json_of, node, succeed};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn error_of(command: &mut Command) -> Value {
    error_of_command(command).0
}

/// A node that lets itself be measured at 200 Mbit/s, as HOST:PORT.
fn measurable(root: &Path) -> (Running, String) {
    let (running, url) = node(root, "read", &["--allow-profile", "200M"]);
    (running, url.trim_start_matches("ftp://").to_owned())
}

/// A `farline` whose stored profiles are in `state`.
fn keeping(state: &Path) -> Command {
    let mut command = farline();
    command.env("XDG_STATE_HOME", state).stderr(Stdio::null());
    command
}

#[test]
fn a_nodes_path_is_measured_and_plans_come_from_it() {
    if !may_choose("cubic") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, host) = measurable(dir.path());
    let state = dir.path().join("state");
    // Before anything is stored, a plan probes.
    let probed = json_of(keeping(&state).args(["--json", "plan", &host, "--size", "10GB"]));
    assert_eq!(probed["source"], "probe", "{probed}");
    // It is kept: a copy goes by it, and the next plan too.
    let again = json_of(keeping(&state).args(["--json", "plan", &host, "--size", "10GB"]));
    assert_eq!(
        (&again["source"], &again["streams"]),
        (&"profile".into(), &probed["streams"]),
        "{again}"
    );
    let axes = ["--streams", "1,3", "--seconds", "2", "--repetitions", "1"];
    let profile = json_of(keeping(&state).args(["--json", "profile", &host]).args(axes));
    assert_eq!(
        (profile["kind"].as_str(), profile["environment"]["node"].as_str()),
        (Some("measured"), Some(&*host))
    );
    for cell in profile["cells"].as_array().expect("cells") {
        let one = &cell["repetitions"][0];
        let both = [&one["whole"]["receiver_bps"], &one["whole"]["sender_bps"]]
            .map(|rate| rate.as_f64().expect("a rate"));
        // What was measured is slower than the ceiling, and not nothing; both ends agree.
        assert!(both.iter().all(|rate| *rate > 1e6 && *rate < 200e6 * 1.05), "{both:?}");
        assert!((both[0] / both[1] - 1.0).abs() < 0.3, "{both:?}");
        let streams = cell["cell"]["streams"].as_u64().expect("a number");
        assert_eq!(one["streams_bps"].as_array().map(Vec::len), usize::try_from(streams).ok());
    }
    // From the node to here, and both at once: each way below the ceiling.
    let ways =
        ["--direction", "back,both", "--streams", "2", "--seconds", "2", "--repetitions", "1"];
    let other =
        json_of(keeping(&dir.path().join("ways")).args(["--json", "profile", &host]).args(ways));
    for (cell, (streams, most)) in
        other["cells"].as_array().expect("cells").iter().zip([(2, 200e6), (4, 400e6)])
    {
        let one = &cell["repetitions"][0];
        let rates = [&one["whole"]["receiver_bps"], &one["whole"]["sender_bps"]]
            .map(|rate| rate.as_f64().expect("a rate"));
        assert!(rates.iter().all(|rate| *rate > 1e6 && *rate < most * 1.05), "{rates:?}: {cell}");
        assert_eq!(one["streams_bps"].as_array().map(Vec::len), Some(streams), "{cell}");
    }
    let planned = json_of(keeping(&state).args(["--json", "plan", &host, "--size", "10GB"]));
    assert_eq!(planned["source"], "profile", "{planned}");
    let rate = planned["rate_bps"].as_f64().expect("a rate");
    assert!(rate > 1e6 && rate < 210e6, "{planned}");
    // The ceiling held every cell, so that nothing was learnt but a lower bound.
    assert_eq!(planned["ceiling_bps"], 200_000_000, "{planned}");
    assert!(planned["interval_s"][0].as_f64().is_some_and(|low| low < 1.0), "{planned}");
    // A copy to the same node begins as the profile found best, where that is not the ceiling's.
    let (_other, url) = node(dir.path(), "write", &["--allow-null", "--allow-profile", "200M"]);
    let there = url.trim_start_matches("ftp://").to_owned();
    succeed(keeping(&state).args([
        "--json",
        "profile",
        &there,
        "--streams",
        "3",
        "--seconds",
        "2",
        "--host-rate",
        "100M",
        "--repetitions",
        "1",
    ]));
    let copied = json_of(keeping(&state).args([
        "--json",
        "cp",
        "memory:64MiB",
        &format!("farline://{there}/?null"),
    ]));
    let reasons = copied["reasons"].to_string();
    let words = "3 channels to begin with: by the profile of";
    assert!(reasons.contains(words), "{reasons}");
    // A program's copy plans as the command's does.
    plant_file(&dir.path().join("f"), 64, 1);
    let mut copy = example("copy");
    copy.env("XDG_STATE_HOME", &state).arg(dir.path().join("f"));
    let said = succeed(copy.arg(format!("farline://{there}/by-library")));
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_nodes_channels_are_measured_side_by_side() {
    if !may_choose("cubic") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let axes = ["--channel", "tcp,udt", "--staging", "8MiB", "--seconds", "2"];
    let profile = |host: &str| {
        let mut command = keeping(dir.path());
        command.args(["--json", "profile", host, "--repetitions", "1"]).args(axes);
        command
    };
    let allow = ["--allow-null", "--allow-profile", "200M"];
    let (_node, url) = node(dir.path(), "write", &allow);
    let host = url.trim_start_matches("ftp://");
    let measured = json_of(&mut profile(host));
    let cells = measured["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "{measured}");
    for cell in cells {
        let rate = cell["repetitions"][0]["whole"]["receiver_bps"].as_f64().expect("a rate");
        assert!((20e6..200e6 * 1.05).contains(&rate), "{cell}");
    }
    assert_eq!(cells[1]["cell"]["staged"]["driver"], "udt", "{measured}");
    // A plan never takes UDT, and says so where it was faster.
    let planned = json_of(keeping(dir.path()).args(["--json", "plan", host, "--size", "10GB"]));
    assert!(planned["source"] == "profile" && planned["channel"].is_null(), "{planned}");
    // A node that takes no such channel says so, and one without `?null` names the flag.
    let (_plain, url) = node(dir.path(), "write", &[&allow[..], &["--channel", "tcp"]].concat());
    let error = error_of(&mut profile(url.trim_start_matches("ftp://")));
    assert!(error["fault"] == "there" && error["message"].to_string().contains("UDT"), "{error}");
    let (_strict, url) = node(dir.path(), "write", &allow[1..]);
    let error = error_of(&mut profile(url.trim_start_matches("ftp://")));
    assert!(error["hint"].to_string().contains("--allow-null"), "{error}");
}

/// A profile, as if it was measured, in which QUIC was twice as fast as TCP.
fn quic_wins(date: &str) -> Profile {
    let path = PathPoint::custom(Rate::from_bps(1_000_000_000), Span::from_millis(10));
    let mut copies = Copies::usual();
    copies.drivers = vec![ProfileDriver::Tcp, ProfileDriver::Quic];
    let mut grid = Grid::new("custom", vec![path], vec![Algorithm::Cubic]);
    grid.copies = Some(copies);
    let made = Profile::new(grid, ProfileKind::Measured, Environment::default(), date);
    let mut profile = made.expect("a grid");
    profile.run(&mut Simulator, |_| true).expect("a model stands in for the path");
    for result in &mut profile.cells {
        let mbit = if result.cell.driver() == ProfileDriver::Quic { 80 } else { 40 };
        for one in &mut result.repetitions {
            for part in [&mut one.whole, &mut one.ramp, &mut one.steady] {
                part.receiver_bps = Rate::from_bps(mbit * 1_000_000);
            }
        }
    }
    profile
}

#[test]
fn a_copy_goes_over_quic_where_a_stored_profile_found_it_best() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, state) = (dir.path().join("root"), dir.path().join("state"));
    fs::create_dir(&root).expect("a folder");
    let (_node, address, fingerprint) = crate::tls::node(&root, &["--tls"]);
    let kept = state.join("farline/profiles");
    fs::create_dir_all(&kept).expect("a folder");
    let text = serde_json::to_string(&quic_wins("2026-11-29")).expect("JSON");
    fs::write(kept.join(format!("{}.json", address.replace(':', "_"))), text).expect("written");
    let copy = |scheme: &str, name: &str, more: &[&str]| {
        let url = format!("{scheme}://{address}/{name}");
        json_of(keeping(&state).args(["--json", "cp", "memory:3MiB", &url]).args(more))
    };
    let pin = ["--tls-pin", &fingerprint];
    let said = copy("farlines", "a", &pin);
    assert_eq!((&said["data_path"], &said["encrypted"]), (&"quic".into(), &true.into()), "{said}");
    let reasons = said["reasons"].to_string();
    assert!(reasons.contains("over quic, by the profile of 2026-11-29"), "{reasons}");
    // What the user asks for goes before it, and in the clear there is no QUIC.
    let asks = [&pin[..], &["--channel", "tcp"]].concat();
    for said in [copy("farlines", "b", &asks), copy("farline", "c", &[])] {
        assert_eq!(said["data_path"], "direct", "{said}");
        assert!(!said["reasons"].to_string().contains("over quic"), "{said}");
    }
}

#[test]
fn a_node_is_measured_where_allowed_by_one_client_at_a_time() {
    if !may_choose("cubic") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (_closed, url) = node(dir.path(), "write", &[]);
    let host = url.trim_start_matches("ftp://");
    let error = error_of(keeping(dir.path()).args(["--json", "profile", host]));
    assert_eq!(
        (error["code"].as_str(), error["fault"].as_str()),
        (Some("profile-not-allowed"), Some("refused")),
        "{error}"
    );
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--allow-profile")), "{error}");
    // A plan for it comes from the model of a path as long as it is, and says so.
    let plan = ["--json", "plan", host, "--size", "1GB"];
    for (more, words) in [
        (&[][..], "allows no probe: 10.0 Gbit/s assumed"),
        (&["--rate", "1G"], "told to it: 1.00 Gbit/s as asked"),
    ] {
        let planned = json_of(keeping(dir.path()).args(plan).args(more));
        assert_eq!(planned["source"], "model", "{planned}");
        assert!(planned["reasons"].to_string().contains(words), "{planned}");
    }
    let (_open, host) = measurable(dir.path());
    let error = error_of(keeping(dir.path()).args([
        "--json",
        "profile",
        &host,
        "--preset",
        "sc08-cross-traffic",
    ]));
    assert_eq!(error["code"], "profile-grid", "{error}");
    let start = || {
        let mut first = keeping(dir.path());
        first
            .args(["--json", "profile", &host, "--seconds", "60", "--repetitions", "1"])
            .stdout(Stdio::null());
        Running(first.spawn().expect("farline runs"))
    };
    let mut first = start();
    let began = Instant::now();
    let code = loop {
        std::thread::sleep(Duration::from_secs(1));
        if first.0.try_wait().expect("it is ours").is_some() {
            // A short one of ours came before it, and it was the second.
            first = start();
            continue;
        }
        let short = ["--json", "profile", &host, "--seconds", "2", "--repetitions", "1"];
        let output = keeping(dir.path()).args(short).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
        if !output.status.success() || began.elapsed() > Duration::from_secs(60) {
            break said["error"]["code"].clone();
        }
    };
    assert_eq!(code, "profile-running");
    // A client that is gone measures no more.
    drop(first);
    let began = Instant::now();
    let short = ["--json", "profile", &host, "--seconds", "2", "--repetitions", "1"];
    while !keeping(dir.path()).args(short).output().expect("farline runs").status.success() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the node still thinks that it is measured"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn stored_profiles_are_per_way_and_less_does_not_replace_them() {
    if !may_choose("cubic") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, host) = measurable(dir.path());
    let state = dir.path().join("state");
    let kept = |host: &str, way: &str| {
        state.join(format!("farline/profiles/{}{way}.json", host.replace(':', "_")))
    };
    let profile = |axes: &[&str]| {
        // Below what the node allows: cells at its ceiling choose nothing.
        let short = ["--json", "profile", &host, "--seconds", "2", "--repetitions", "1"];
        let short = [&short[..], &["--host-rate", "100M"]].concat();
        json_of(keeping(&state).args(short).args(axes))
    };
    profile(&["--streams", "1,3"]);
    let first = fs::read(kept(&host, "")).expect("a stored profile");
    profile(&["--streams", "2"]);
    assert!(fs::read(kept(&host, "")).is_ok_and(|now| now == first), "less replaces nothing");
    profile(&["--streams", "2", "--direction", "back"]);
    assert!(
        fs::read(kept(&host, "")).is_ok_and(|now| now == first),
        "the other way is another path"
    );
    let streams = |way: &[&str]| {
        let planned =
            json_of(keeping(&state).args(["--json", "plan", &host, "--size", "10GB"]).args(way));
        assert_eq!(planned["source"], "profile", "{planned}");
        planned["streams"].as_u64().expect("a number")
    };
    assert!(matches!(streams(&[]), 1 | 3));
    assert_eq!((streams(&["--direction", "back"]), kept(&host, ".back").exists()), (2, true));
    // A copy from the node begins with what came from it.
    fs::write(dir.path().join("data"), vec![7; 32 << 20]).expect("written");
    let copied =
        json_of(keeping(&state).args(["--json", "cp", &format!("farline://{host}/data"), "null:"]));
    assert!(
        copied["reasons"].to_string().contains("2 channels to begin with: by the profile of"),
        "{copied}"
    );
    profile(&["--streams", "2,4,6", "--direction", "out"]);
    assert!(fs::read(kept(&host, "")).is_ok_and(|now| now != first), "more does");
    // A node that allows nothing, of which a profile is stored that has nothing valid.
    let (_closed, url) = node(dir.path(), "write", &[]);
    let closed = url.trim_start_matches("ftp://");
    let mut document: Value = serde_json::from_slice(&first).expect("a document");
    for cell in document["cells"].as_array_mut().expect("cells") {
        cell["repetitions"][0]["invalid"] = "late".into();
    }
    fs::write(kept(closed, ""), document.to_string()).expect("written");
    let planned = json_of(keeping(&state).args(["--json", "plan", closed, "--size", "10GB"]));
    assert_eq!(planned["source"], "model", "{planned}");
}

#[test]
fn a_probe_of_a_long_path_ends_within_twenty_seconds() {
    let Some(link) = LinkUp::up("t-probe", &["custom", "--rtt", "300ms", "--rate", "100M"]) else {
        return;
    };
    let root = tempfile::tempdir().expect("a folder");
    let _node = link.node(root.path(), &["--allow-profile", "50M"]);
    let state = root.path().join("state");
    let began = Instant::now();
    let mut command =
        link.farline("a", &["--json", "-q", "plan", "10.77.0.2:2811", "--size", "10GB"]);
    let planned = json_of(command.env("XDG_STATE_HOME", &state));
    let took = began.elapsed();
    assert_eq!(planned["source"], "probe", "{planned}");
    // All six cells take half as long again here: 2.5 s each, and eight round trips around. A
    // machine may stand still for a while.
    assert!(took < Duration::from_secs(28), "{took:?}");
    let stored =
        fs::read(state.join("farline/profiles/10.77.0.2_2811.json")).expect("a stored probe");
    let stored: Value = serde_json::from_slice(&stored).expect("a document");
    let tried = |streams: u64| {
        let of = |cell: &&Value| {
            cell["cell"]["streams"] == streams && cell["cell"]["congestion"] == "cubic"
        };
        let cell =
            stored["cells"].as_array().expect("cells").iter().find(of).expect("a cell of each");
        cell["repetitions"].as_array().expect("a list").len()
    };
    assert_eq!((tried(4), tried(16), tried(1)), (1, 1, 0), "{stored}");
}

#[test]
fn what_was_measured_of_a_path_is_told_to_who_comes_next() {
    if !may_choose("cubic") {
        return;
    }
    let path = ["custom", "--rtt", "40ms", "--rate", "100M"];
    let Some(link) = LinkUp::up("t-measured", &path) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (root, kept) = (dir.path().join("root"), dir.path().join("node"));
    fs::create_dir(&root).expect("a folder");
    let serve = |more: &[&str]| {
        let listen = ["--json", "serve", "--anonymous", "read", "--listen", "[::]:2811"];
        let mut serve = link.farline("b", &listen);
        serve.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", &kept);
        announced(serve.args(more).arg("--root").arg(&root)).0
    };
    let ask = |state: &str, args: &[&str]| {
        let mut command = link.farline("a", args);
        command.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", dir.path().join(state));
        json_of(command.stderr(Stdio::null()))
    };
    let measuring = serve(&["--allow-profile", "1G"]);
    let profile = ["--json", "profile", "10.77.0.2:2811", "--repetitions", "1"];
    let both = ["--direction", "both", "--streams", "2", "--seconds"];
    let measure = |more: &[&str]| ask("measuring", &[&profile[..], &both[..], more].concat());
    measure(&["2", "--window", "64KiB"]);
    assert!(!kept.join("farline/paths").exists(), "a window that was set is no word on a path");
    measure(&["3"]);
    // Later it lets nobody measure it.
    drop(measuring);
    let _node = serve(&[]);
    let plan = ["--json", "plan", "10.77.0.2:2811", "--size", "1GB", "--direction"];
    for way in ["out", "back"] {
        let planned = ask("another", &[&plan[..], &[way]].concat());
        assert_eq!(planned["source"], "told", "{way}: {planned}");
        let rate = planned["rate_bps"].as_f64().expect("a rate");
        assert!((10e6..115e6).contains(&rate), "{way}: {planned}");
    }
}

/// Where the kernel keeps a control from ordinary users: what they may choose is probed, and what
/// they may not is refused by name.
#[test]
fn an_ordinary_user_probes_with_what_the_kernel_lets_them_use() {
    let user = Ordinary::new();
    let (_node, host) = measurable(user.path());
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let allowed = allowed.expect("a kernel with TCP");
    let allowed: Vec<&str> = allowed.split_whitespace().collect();
    let state = user.path().join("state");
    let as_user = || {
        let mut command = user.farline();
        command.env("XDG_STATE_HOME", &state).stderr(Stdio::null()).arg("--json");
        command
    };
    let planned = json_of(as_user().args(["plan", &host, "--size", "10GB"]));
    if allowed.contains(&"cubic") || allowed.contains(&"bbr") {
        assert_eq!(planned["source"], "probe", "{planned}");
        let chosen = planned["congestion"].as_str().expect("a control");
        assert!(allowed.contains(&chosen), "{chosen} of {allowed:?}");
    }
    let brief = ["--streams", "1", "--seconds", "2", "--repetitions", "1", "--congestion"];
    for control in ["reno", "cubic"] {
        let mut profile = as_user();
        profile.args(["profile", &host]).args(brief).arg(control);
        if allowed.contains(&control) {
            json_of(&mut profile);
        } else {
            let error = error_of(&mut profile);
            assert_eq!(error["code"], "congestion-capability", "{error}");
            assert!(error["message"].as_str().is_some_and(|text| text.contains(control)));
        }
    }
}
