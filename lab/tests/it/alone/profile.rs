//! `farline profile` measured over emulated links, as a user has it. One at a time: their links
//! have one name, and two would measure each other.

use crate::profile_broken::measured;
use crate::profile_model::{error_of, read};
use farline_lab::files::text;
use farline_lab::ordinary::Ordinary;
use farline_lab::{alone, farline, json_of, links_are_in_time, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Waits for a turn without other tests; whether links can be in time then.
fn quiet() -> bool {
    alone();
    links_are_in_time()
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

#[test]
fn a_measured_profile_has_both_ends_view_and_a_window_limits() {
    if !quiet() {
        return;
    }
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
    if !quiet() {
        return;
    }
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
    if !quiet() {
        return;
    }
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
    if !quiet() {
        return;
    }
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
    if !quiet() {
        return;
    }
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
