//! `farline profile` and `plan` as a user has them: modelled, measured over real links, broken off,
//! and compared. Measurements run one at a time: their links have one name, and two would
//! measure each other.

use farline::run_dir::name_below;
use farline_core::profile::Profile;
use farline_lab::files::text;
use farline_lab::ordinary::Ordinary;
use farline_lab::{
    LinkUp, Running, alone, error_of_command, farline, json_of, run_dir, skip, succeed,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The error that `command` must end with.
fn error_of(command: &mut Command) -> Value {
    error_of_command(command).0
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a document")).expect("one object")
}

fn repetitions(profile: &Value) -> usize {
    profile["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .map(|cell| cell["repetitions"].as_array().map_or(0, Vec::len))
        .sum()
}

/// The repetition of `cell` that counts.
fn valid(cell: &Value) -> Option<&Value> {
    cell["repetitions"].as_array().expect("repetitions").iter().find(|one| one["invalid"].is_null())
}

/// What `command` measures, into `document`: again while this machine was too busy for a cell, of
/// whose path nothing is known then.
///
/// # Panics
/// When it was too busy six times.
fn quietly(command: &mut Command, document: &Path) -> Value {
    let mut reasons = Vec::new();
    for _ in 0..6 {
        // A document that is there is not overwritten by another measurement.
        let _ = fs::remove_file(document);
        let profile = json_of(command);
        let cells = profile["cells"].as_array().expect("cells");
        match cells.iter().find(|cell| valid(cell).is_none()) {
            None => return profile,
            Some(cell) => reasons.push(cell["repetitions"][0]["invalid"].to_string()),
        }
    }
    panic!("this machine was too busy to measure, six times: {reasons:#?}");
}

/// Profiles over an emulated path of 50 Mbit/s; `None` where this machine makes no link.
fn measured(seconds: &str, document: &Path, more: &[&str]) -> Option<Command> {
    drop(LinkUp::up("t-profile", &["custom", "--rtt", "1ms", "--rate", "1M"])?);
    let mut command = farline();
    command.args([
        "--json",
        "profile",
        "--rtt",
        "20ms",
        "--rate",
        "50M",
        "--mtu",
        "1500",
        "--scale",
        "1",
        "--seconds",
        seconds,
    ]);
    command.args(["--out", text(document)]).args(more).stderr(Stdio::null());
    Some(command)
}

#[test]
fn rdma_is_modelled_next_to_the_paper_and_refuses_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| dir.path().join(name);
    let (table, page) = (file("d.csv"), file("d.html"));
    let mut command = farline();
    command.args([
        "--json",
        "profile",
        "--simulate",
        "--preset",
        "sc08-ib-stability",
        "-o",
        text(&table),
        "-o",
        text(&page),
    ]);
    assert_eq!(json_of(&mut command)["schema"], "farline/verbs/1");
    assert!(fs::read_to_string(&table).expect("a table").contains(",modelled,7.34"));
    assert!(fs::read_to_string(&page).expect("a page").contains("Decrease per mile"));
    let refused: [(&[&str], &str); 3] = [
        (&["--preset", "sc08-cm"], "--simulate"),
        (&["--simulate", "--preset", "sc08-cm", "--rtt", "1ms"], "--seed"),
        (&["--simulate", "--preset", "sc08-tcp-rdma", "--scale", "4"], "--scale"),
    ];
    for (arguments, hint) in refused {
        let error = error_of(farline().args(["--json", "profile"]).args(arguments));
        assert_eq!(error["code"], "profile-preset", "{arguments:?}");
        assert!(error["hint"].as_str().is_some_and(|found| found.contains(hint)), "{error}");
    }
}

#[test]
fn a_model_is_written_compared_and_planned_from() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| dir.path().join(name);
    let simulate = |out: &Path, more: &[&str]| {
        let mut command = farline();
        command.args([
            "-q",
            "profile",
            "--simulate",
            "--link",
            "usn-1400",
            "--rate",
            "1G",
            "--streams",
            "1,4",
            "--out",
            text(out),
        ]);
        succeed(command.args(more))
    };
    simulate(&file("a.json"), &["--out", text(&file("a.html")), "--out", text(&file("a.parquet"))]);
    simulate(&file("b.json"), &["--host-rate", "300M"]);
    simulate(&file("c.json"), &["--window", "256KiB"]);
    let a = read(&file("a.json"));
    assert_eq!(
        (&a["schema"], &a["kind"], repetitions(&a)),
        (&"farline/profile/1".into(), &"modelled".into(), 10),
        "{a}"
    );
    let page = fs::read_to_string(file("a.html")).expect("a page");
    assert!(
        page.contains("usn-1400 cubic 4 streams") && !page.contains("src=\"http"),
        "a page that stands alone"
    );
    let table = fs::read(file("a.parquet")).expect("a table");
    assert!(
        table.starts_with(b"PAR1") && table.ends_with(b"PAR1") && table.len() > 1_000,
        "a Parquet file"
    );
    let differ = |x: &str, y: &str| {
        json_of(farline().args(["--json", "profile", "diff", text(&file(x)), text(&file(y))]))
    };
    let significant = |found: &Value| {
        found["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .filter(|cell| cell["significant"] == true)
            .count()
    };
    let (same, slower) = (differ("a.json", "a.json"), differ("a.json", "b.json"));
    assert_eq!((significant(&same), significant(&slower)), (0, 2), "{slower}");
    let error = error_of(farline().args([
        "--json",
        "profile",
        "diff",
        text(&file("a.json")),
        text(&file("c.json")),
    ]));
    assert_eq!(error["code"], "profile-diff", "{error}");
    // One repetition of each says nothing of others, and a level is a probability.
    let one = ["--repetitions", "1", "--seconds", "5"];
    simulate(&file("e.json"), &one);
    simulate(&file("f.json"), &[&one[..], &["--host-rate", "300M"]].concat());
    let untested = differ("e.json", "f.json");
    assert_eq!((&untested["tested"], significant(&untested)), (&0.into(), 0), "{untested}");
    let said =
        succeed(farline().args(["profile", "diff", text(&file("e.json")), text(&file("f.json"))]));
    assert!(said.contains("none of 2 cells could be tested"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for level in ["7", "nan", "0"] {
        let mut diff = farline();
        diff.args([
            "--json",
            "profile",
            "diff",
            text(&file("a.json")),
            text(&file("b.json")),
            "--level",
            level,
        ]);
        assert_eq!(error_of(&mut diff)["code"], "profile-diff", "{level}");
    }
    let plan =
        |file: &Path| json_of(farline().args(["--json", "plan", text(file), "--size", "100GB"]));
    let (wide, narrow) = (plan(&file("a.json")), plan(&file("c.json")));
    assert_eq!(narrow["streams"], 4, "{narrow}");
    assert!(narrow["seconds"].as_f64() > wide["seconds"].as_f64(), "{wide} {narrow}");
    // Flags that would change nothing are refused, and so is what is no path.
    let a = file("a.json");
    let refused: [(&[&str], &str, &str); 10] = [
        (&[text(&a), "--loss", "5"], "plan-flag", "--loss"),
        (&[text(&a), "--congestion", "bbr", "--rate", "1M"], "plan-flag", "--rate"),
        (&[text(&a), "--direction", "back"], "plan-profile", "goes back"),
        (&["usn-1400", "--path", "nope"], "plan-flag", "--path"),
        (&["127.0.0.1:2811", "--path", "nope"], "plan-flag", "--path"),
        (&["usn-1400", "--direction", "back"], "plan-flag", "same both ways"),
        (&["usn-1400", "--loss", "5"], "plan-loss", "probability"),
        (&["usn-1400", "--window", "1B"], "plan-path", "holds no packet"),
        (&["custom", "--rate", "1G", "--rtt", "100s"], "plan-path", "more than a minute"),
        (&["127.0.0.1:2811", "--rtt", "100s", "--window", "1B"], "plan-path", "more than a minute"),
    ];
    for (arguments, code, words) in refused {
        let error = error_of(farline().args(["--json", "plan", "--size", "1GB"]).args(arguments));
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(
            error["message"].as_str().is_some_and(|found| found.contains(words)),
            "{arguments:?}: {error}"
        );
    }
    // What is no profile is refused in words.
    fs::write(file("d.json"), b"{}").expect("write");
    let error =
        error_of(farline().args(["--json", "plan", text(&file("d.json")), "--size", "1GB"]));
    assert_eq!(
        (&error["code"], &error["fault"]),
        (&"profile-document".into(), &"you".into()),
        "{error}"
    );
}

#[test]
fn a_measured_profile_has_both_ends_view_and_a_window_limits() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let document = dir.path().join("p.json");
    let more = ["--streams", "1,3", "--window", "64KiB,1MiB", "--repetitions", "1"];
    let Some(mut command) = measured("3", &document, &more) else { return };
    let profile = quietly(&mut command, &document);
    assert_eq!(profile, read(&document));
    assert_eq!(profile["kind"], "measured");
    for cell in profile["cells"].as_array().expect("cells") {
        let one = valid(cell).expect("measured until it was");
        let (streams, window) = (
            cell["cell"]["streams"].as_f64().expect("a number"),
            cell["cell"]["window_bytes"].as_f64(),
        );
        let (sent, got) = (
            one["whole"]["sender_bps"].as_f64(),
            one["whole"]["receiver_bps"].as_f64().expect("a rate"),
        );
        // The path's rate or one window a round trip, whichever is less; the ramp takes some of
        // three seconds.
        let most = 50e6_f64.min(streams * window.expect("a window") * 8.0 / 0.020);
        assert!((0.5 * most..1.02 * most).contains(&got), "{got} of {most}: {cell}");
        assert!((sent.expect("a rate") / got - 1.0).abs() < 0.2, "{cell}");
        // Each end's own, so that they are not the same to the last bit.
        let steady = [&one["steady"]["sender_bps"], &one["steady"]["receiver_bps"]]
            .map(|rate| rate.as_f64().expect("a rate"));
        assert!((steady[0] / steady[1] - 1.0).abs() < 0.2 && steady[0] != steady[1], "{cell}");
        assert!(one["began"].as_str().is_some_and(|began| began.ends_with(" UTC")), "{cell}");
        assert_eq!(one["samples_bps"].as_array().expect("samples").len(), 6, "{cell}");
        assert!(
            one["rtt_ns"].as_u64().is_some_and(|rtt| (20_000_000..40_000_000).contains(&rtt)),
            "{cell}"
        );
        assert_eq!(
            (&one["link"]["limit_ns"], &one["link"]["overruns"]),
            (&1_000_000.into(), &0.into()),
            "{cell}"
        );
        if streams == 1.0 && most < 50e6 {
            assert_eq!(one["limited_by"], "receiver_window", "{cell}");
        }
    }
}

#[test]
fn a_send_buffer_limits_a_stream_and_any_message_arrives() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let more = ["--buffer", "16KiB,2MiB", "--message", "700B,1MiB", "--repetitions", "1"];
    let document = dir.path().join("p.json");
    let Some(mut command) = measured("3", &document, &more) else { return };
    let profile = quietly(&mut command, &document);
    assert_eq!(profile["cells"].as_array().map(Vec::len), Some(4), "{profile}");
    let rate = |buffer: u64, message: u64| {
        let of = |cell: &&Value| {
            (&cell["cell"]["buffer_bytes"], &cell["cell"]["message_bytes"])
                == (&buffer.into(), &message.into())
        };
        let cell =
            profile["cells"].as_array().expect("cells").iter().find(of).expect("a cell of each");
        let one = valid(cell).expect("measured until it was");
        one["whole"]["receiver_bps"].as_f64().expect("a rate")
    };
    let (wide, small, narrow) = (rate(2 << 20, 1 << 20), rate(2 << 20, 700), rate(16 << 10, 700));
    assert!((25e6..51e6).contains(&wide) && small > 15e6, "{profile}");
    // 16 KiB a round trip are 6.6 Mbit/s. Linux looks at the limit before it begins a segment, so
    // that a large write goes beyond it.
    assert!((1e6..0.7 * wide).contains(&narrow), "{narrow} of {wide}: {profile}");
    if narrow > 4e6 {
        let held = |cell: &Value| {
            cell["cell"]["buffer_bytes"] == 16 << 10
                && valid(cell).is_some_and(|one| one["limited_by"] == "send_buffer")
        };
        assert!(profile["cells"].as_array().expect("cells").iter().any(held), "{profile}");
    }
}

#[test]
fn data_goes_the_other_way_and_both_ways_at_once() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let document = dir.path().join("p.json");
    let more = ["--direction", "out,back,both", "--streams", "2", "--repetitions", "1"];
    let Some(mut command) = measured("3", &document, &more) else { return };
    let profile = quietly(&mut command, &document);
    let mean = |direction: &str| {
        let of = |cell: &&Value| cell["cell"]["direction"].as_str().unwrap_or("out") == direction;
        let cell =
            profile["cells"].as_array().expect("cells").iter().find(of).expect("a cell of each");
        let one = valid(cell).expect("measured until it was");
        (
            one["whole"]["receiver_bps"].as_f64().expect("a rate"),
            one["streams_bps"].as_array().expect("streams").len(),
        )
    };
    let (out, back, both) = (mean("out"), mean("back"), mean("both"));
    assert_eq!((out.1, back.1, both.1), (2, 2, 4), "as many streams each way");
    assert!([out.0, back.0].iter().all(|rate| (20e6..50e6).contains(rate)), "{out:?} {back:?}");
    assert!((50e6..100e6).contains(&both.0), "each way has a line of its own: {both:?}");
}

#[test]
fn a_mover_is_measured_from_memory_and_from_a_file_that_stalls() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let staging = ["--staging", "8MiB", "--store", "memory,file", "--order", "synchronous"];
    let document = dir.path().join("p.json");
    let more = [&staging[..], &["--streams", "2", "--repetitions", "1"]].concat();
    let Some(mut command) = measured("2", &document, &more) else { return };
    let profile = quietly(command.env("TMPDIR", dir.path()), &document);
    let cells = profile["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "{profile}");
    for cell in cells {
        let one = valid(cell).expect("measured until it was");
        let rate = one["whole"]["receiver_bps"].as_f64().expect("a rate");
        assert!((10e6..50e6).contains(&rate), "{cell}");
        assert!(
            one["seconds"].as_f64().is_some_and(|seconds| seconds >= 1.5),
            "what two seconds carry was moved: {cell}"
        );
        for nobody_measured in ["streams_bps", "reductions", "timeouts", "fairness"] {
            assert!(one[nobody_measured].is_null(), "{nobody_measured}: {cell}");
        }
    }
    let left: Vec<_> = fs::read_dir(dir.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["p.json"], "the files are gone");
    // Staging that cannot be is refused before anything runs.
    let error =
        error_of(farline().args(["--json", "profile", "--rtt", "5ms", "--staging", "1MiB"]));
    assert_eq!(error["code"], "profile-grid", "{error}");
}

#[test]
fn a_mover_is_measured_over_each_channel_and_rdma_says_where() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let more = [
        "--channel",
        "tcp,tls,udt,quic",
        "--staging",
        "8MiB",
        "--streams",
        "2",
        "--repetitions",
        "1",
    ];
    let (document, page) = (dir.path().join("p.json"), dir.path().join("p.html"));
    let more = [&more[..], &["-o", text(&page)]].concat();
    let Some(mut command) = measured("2", &document, &more) else { return };
    let profile = quietly(command.env("TMPDIR", dir.path()), &document);
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Channels side by side") && html.contains("UDT"), "the page");
    let cells = profile["cells"].as_array().expect("cells");
    let driver =
        |cell: &Value| cell["cell"]["staged"]["driver"].as_str().unwrap_or("tcp").to_owned();
    assert_eq!(
        cells.iter().map(driver).collect::<Vec<_>>(),
        ["tcp", "tls", "udt", "quic"],
        "{profile}"
    );
    for cell in cells {
        let one = valid(cell).expect("measured until it was");
        assert!(
            one["whole"]["receiver_bps"].as_f64().is_some_and(|rate| (10e6..50e6).contains(&rate)),
            "{cell}"
        );
        let cpu = one["cpu"].as_array().expect("both ends' processor time");
        assert!(
            cpu.len() == 2
                && cpu.iter().all(|share| share.as_f64().is_some_and(|share| share < 4.0)),
            "{cell}"
        );
    }
    let refused: [(&[&str], &str, &str); 6] = [
        (&["--rtt", "5ms", "--channel", "tcp,rdma"], "profile-channel", "--channel rdma alone"),
        (&["--rtt", "5ms", "--simulate", "--channel", "tls"], "profile-grid", "--host-rate"),
        (&["--rtt", "5ms", "--simulate", "--channel", "tcp,quic"], "profile-grid", "--host-rate"),
        (
            &["--rtt", "5ms", "--simulate", "--channel", "udt", "--store", "file"],
            "profile-grid",
            "--store memory",
        ),
        (&["--rtt", "5ms", "--channel", "tls", "--direction", "back"], "profile-grid", ""),
        (&["--rtt", "5ms", "--store", "file"], "profile-grid", "--staging"),
    ];
    for (arguments, code, hint) in refused {
        let error = error_of(farline().args(["--json", "profile"]).args(arguments));
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(
            error["hint"].as_str().unwrap_or_default().contains(hint),
            "{arguments:?}: {error}"
        );
    }
}

/// Waits until `file` holds `count` repetitions.
fn wait_for(file: &Path, count: usize, running: &mut Running) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !file.exists() || repetitions(&read(file)) < count {
        assert!(Instant::now() < deadline, "no {count} repetitions in a minute");
        assert!(running.0.try_wait().expect("a child").is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the link `name` is up, or is not.
fn link_is(name: &str, up: bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while farline()
        .args(["link", "stats", name])
        .output()
        .is_ok_and(|output| output.status.success())
        != up
    {
        assert!(Instant::now() < deadline, "link {name}: up {}, wanted {up}", !up);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_profile_resumes_and_a_dead_path_keeps_results() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let document = dir.path().join("p.json");
    let more = ["--streams", "1,2", "--repetitions", "2"];
    let Some(mut command) = measured("2", &document, &more) else { return };
    let mut running = Running(command.stdout(Stdio::null()).spawn().expect("farline runs"));
    wait_for(&document, 1, &mut running);
    // Another one next to it is told so.
    let mut other = measured("2", &dir.path().join("q.json"), &more).expect("links can be made");
    let error = error_of(&mut other);
    assert_eq!(error["code"], "profile-running", "{error}");
    running.end(Signal::KILL);
    assert!(repetitions(&read(&document)) >= 1);
    let link = name_below(run_dir(), "profile");
    // Its link goes with it, and is not to be taken for the next one's.
    link_is(&link, false);
    // The path is taken away under the next one.
    let mut command = farline();
    command
        .args(["--json", "profile", "--resume", text(&document)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let child = command.spawn().expect("farline runs");
    link_is(&link, true);
    std::thread::sleep(Duration::from_millis(300));
    // Each repetition has its own: there may be none at this moment.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !farline()
        .args(["link", "down", &link])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        assert!(Instant::now() < deadline, "no link to take down");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("a child");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(
        !output.status.success()
            && said["error"]["hint"].as_str().is_some_and(|hint| hint.contains("--resume")),
        "{said}"
    );
    // One that ended before the path did counts too.
    let kept = repetitions(&read(&document));
    // And whole in the end.
    let dotted = dir.path().join(".").join("p.json");
    let twice = ["-o", text(&document), "-o", text(&dotted)];
    let whole = json_of(
        farline().args(["--json", "-q", "profile", "--resume", text(&document)]).args(twice),
    );
    assert!(repetitions(&whole) >= 4, "{whole}");
    // That it went on is in the document, and that of two times the first one gave nothing.
    let went_on = whole["resumptions"].as_array().expect("resumptions");
    assert_eq!(
        went_on.last().map(|one| one["repetitions"].as_u64()),
        Some(Some(kept as u64)),
        "{went_on:?}"
    );
    assert_eq!(went_on[0]["environment"], whole["environment"], "the same machine");
}

#[test]
fn a_killed_profile_whose_page_alone_was_asked_for_goes_on_too() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let page = dir.path().join("p.html");
    let Some(mut command) = measured("2", &page, &["--repetitions", "40"]) else { return };
    command.env("XDG_STATE_HOME", dir.path()).stdout(Stdio::null());
    let mut running = Running(command.spawn().expect("farline runs"));
    let unfinished =
        dir.path().join(format!("farline/profiles/unfinished-custom-{}.json", running.0.id()));
    wait_for(&unfinished, 1, &mut running);
    running.end(Signal::KILL);
    assert!(!page.exists() && repetitions(&read(&unfinished)) >= 1);
}

#[test]
fn a_full_disk_is_found_before_a_repetition_runs() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::with(dir.path(), "64k") else { return };
    let error = measured("2", &dir.path().join("p.json"), &["--repetitions", "1"])
        .map(|mut command| error_of(&mut command));
    let left = fs::read_dir(dir.path()).expect("a folder").count();
    drop(mounted);
    let Some(error) = error else { return };
    assert_eq!(
        (&error["code"], &error["fault"], left),
        (&"cannot-write".into(), &"here".into(), 0),
        "{error}"
    );
}

#[test]
fn a_disk_that_fills_up_costs_no_finished_repetition() {
    alone();
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::with(dir.path(), "8m") else { return };
    let document = dir.path().join("p.json");
    let Some(mut command) = measured("2", &document, &["--streams", "1-8", "--repetitions", "2"])
    else {
        return;
    };
    let mut child = Running(command.stdout(Stdio::piped()).spawn().expect("farline runs"));
    wait_for(&document, 1, &mut child);
    // Somebody else takes all that is left, and what becomes free.
    let filler = dir.path().join("filler");
    let mut other = fs::File::create(&filler).expect("a file");
    while child.0.try_wait().expect("a child").is_none() {
        while other.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut said = String::new();
    child.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!child.0.wait().expect("a child").success(), "{said}");
    let error: Value = serde_json::from_str(&said).expect("one object");
    assert_eq!(
        (&error["error"]["code"], &error["error"]["fault"]),
        (&"cannot-write".into(), &"here".into()),
        "{error}"
    );
    // The place that the last one needed went to the next one: only when the document has grown is
    // there none.
    assert!((1..16).contains(&repetitions(&read(&document))), "{error}");
    fs::remove_file(&filler).expect("the filler");
    let kept = Profile::read(&fs::read_to_string(&document).expect("the document"));
    assert!(kept.is_ok(), "what is kept is a whole document: {kept:?}");
    drop(mounted);
}

/// A file system that is taken away at the end of a test.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    /// A disk of `size` at `folder`; nothing where this user may not mount one.
    fn with<'a>(folder: &'a Path, size: &str) -> Option<Mounted<'a>> {
        let option = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &option, "tmpfs", text(folder)];
        let mount = Command::new("mount").args(arguments).stderr(Stdio::null()).status();
        if !mount.is_ok_and(|status| status.success()) {
            farline_lab::skip("only root can mount a small disk");
            return None;
        }
        Some(Mounted(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn an_ordinary_user_measures_and_is_told_what_takes_a_privilege() {
    alone();
    let user = Ordinary::new();
    let dir = tempfile::tempdir().expect("a folder");
    if measured("2", &dir.path().join("q.json"), &[]).is_none() {
        return;
    }
    let document = user.path().join("p.json");
    let ordinary = |congestion: &str| {
        let mut command = user.farline();
        command.args([
            "--json", "-q", "profile", "--rtt", "20ms", "--rate", "50M", "--mtu", "1500",
            "--scale", "1",
        ]);
        command.args([
            "--seconds",
            "2",
            "--repetitions",
            "1",
            "--congestion",
            congestion,
            "--out",
            text(&document),
        ]);
        command.stderr(Stdio::null());
        command
    };
    let output = ordinary("reno").output().expect("farline runs");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    if let Some(code) = said["error"]["code"].as_str() {
        // Where a kernel keeps namespaces or TUN from ordinary users, nothing is measured and
        // nothing is left.
        assert!(matches!(code, "link-forbidden" | "link-device"), "{said}");
        assert!(!document.exists());
    } else {
        assert!(
            said["cells"][0]["repetitions"][0]["whole"]["receiver_bps"]
                .as_f64()
                .is_some_and(|bps| bps > 5e6),
            "{said}"
        );
    }
    // Another process may have loaded one for the whole machine.
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    let is_absent = |name: &&str| !known.split_whitespace().any(|known| known == *name);
    let Some(absent) = ["htcp", "bic", "highspeed", "scalable"].into_iter().find(is_absent) else {
        return skip("each control that Farline has is there already");
    };
    let output = ordinary(absent).output().expect("farline runs");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let error = &said["error"];
    if error["code"] != "link-forbidden" && error["code"] != "link-device" {
        assert_eq!(
            (&error["fault"], &error["code"]),
            (&"refused".into(), &"congestion-capability".into()),
            "{said}"
        );
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{said}");
    }
}

#[test]
fn impossible_grids_and_unknown_names_are_the_askers_fault() {
    for (arguments, words) in [
        (&["--link", "usn-9999"][..], "no path"),
        (&["--resume", "p.json", "--streams", "4"], "--streams changes nothing"),
        (&["--link", "usn-1400", "--congestion", "quick"], "quick"),
        (&["--link", "usn-1400", "--loss", "1.5"], "probability"),
        (&["--link", "usn-1400", "--seconds", "0.01"], "at least four"),
        (&["--simulate", "--link", "usn-1400", "--seconds", "1e15"], "a week"),
        (&["--preset", "adts-staging", "--scale", "7"], "divided by 1 to 4"),
        (&["--preset", "sc09"], "sc09"),
        (&["--link", "usn-1400", "--buffer", "1KiB"], "two packets"),
        (&["--link", "usn-1400", "--message", "1GiB"], "messages of"),
        (
            &["--link", "usn-1400", "--staging", "64MiB", "--message", "4KiB"],
            "the mover's own blocks",
        ),
        (&[], "needs a path"),
    ] {
        let error = error_of(farline().args(["--json", "profile"]).args(arguments));
        assert_eq!(error["fault"], "you", "{arguments:?}: {error}");
        assert!(error.to_string().contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn an_unwritable_page_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("missing/p.html");
    for (file, hint) in
        [(text(&missing), "folder"), (text(dir.path()), "a file in it"), ("/dev/null", "device")]
    {
        // Fifteen hours of it: what is refused is refused at once.
        let error = error_of(farline().args([
            "--json",
            "profile",
            "--preset",
            "wanphy-stability",
            "--full",
            "-o",
            file,
        ]));
        assert_eq!(
            (&error["code"], &error["fault"]),
            (&"cannot-write".into(), &"here".into()),
            "{error}"
        );
        assert!(error["hint"].as_str().is_some_and(|found| found.contains(hint)), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0, "and nothing is left");
}
