//! What takes Debian's own kernel, or a clock that may be stepped: `make lab` runs these in the
//! guest of `lab/guest`.

use farline::kernelcc::{available, default_control};
use farline_lab::controls::{holding, until};
use farline_lab::{Running, error_of, farline, node, succeed};
use rustix::process::Signal;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WHY: &str = "Debian's own kernel, as lab/guest boots it";

fn unload_module(name: &str) {
    succeed(Command::new("modprobe").args(["-r", &format!("tcp_{name}")]));
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn a_module_is_taken_before_bpf_and_its_name_is_then_taken() {
    assert!(!available().iter().any(|name| name == "htcp"), "{WHY}");
    let default = default_control();
    let said = succeed(farline().args(["--json", "cc", "load", "htcp", "--", "true"]));
    assert!(said.contains("\"module\""), "{said}");
    let listed = succeed(farline().args(["cc", "ls"]));
    assert!(
        listed.lines().any(|line| line.starts_with("htcp") && line.contains("module")),
        "{listed}"
    );
    let (error, code) = error_of(&["cc", "load", "htcp", "--set", "paper"]);
    assert_eq!((error["code"].as_str(), code), (Some("congestion-taken"), 2), "{error}");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|said| said.contains("by the kernel module tcp_htcp")),
        "{error}"
    );
    let (error, _) = error_of(&["cc", "unload", "htcp"]);
    assert_eq!(error["code"], "congestion-foreign", "{error}");
    assert_eq!(error["hint"], "modprobe -r tcp_htcp", "{error}");
    unload_module("htcp");

    // The other way round: while Farline holds the name, the module is refused. (tcp_vegas would
    // stay, unregistered: it does not ask whether its name was taken.)
    let (mut held, _) = holding(&["htcp", "--set", "paper"]);
    // modprobe itself takes "exists" for "is loaded".
    let _ = Command::new("modprobe").args(["-q", "tcp_htcp"]).status();
    assert!(
        !std::path::Path::new("/sys/module/tcp_htcp").exists(),
        "the module took a name that was taken"
    );
    held.end(Signal::TERM);
    until("htcp", false);
    assert_eq!(default_control(), default);
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn without_links_a_signal_leaves_nothing_and_a_kill_is_cleaned() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert!(release.starts_with("6.1."), "{release}: {WHY}");
    let there = || available().iter().any(|name| name == "fl_g_old");
    for signal in [Signal::TERM, Signal::INT] {
        let (mut held, said) = holding(&["htcp", "--set", "paper", "--as", "fl_g_old"]);
        assert!(said.contains("in BPF with the paper constants") && there(), "{said}");
        held.end(signal);
        until("fl_g_old", false);
    }
    let (mut held, _) = holding(&["htcp", "--set", "paper", "--as", "fl_g_old"]);
    held.end(Signal::KILL);
    assert!(there(), "without links nobody takes it back");
    succeed(farline().args(["cc", "ls"]));
    until("fl_g_old", false);
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn a_signalled_profile_leaves_no_control_without_links() {
    // Nobody loads it at the guest's start.
    succeed(Command::new("modprobe").arg("tun"));
    let default = default_control();
    let own = || available().into_iter().find(|name| name.as_str().starts_with("scalable_"));
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut command = farline();
        command.args([
            "--json", "-q", "profile", "--rtt", "20ms", "--rate", "20M", "--mtu", "1500",
            "--scale", "1",
        ]);
        command.args(["--congestion", "scalable", "--set", "paper", "--seconds", "60"]);
        let mut child = Running(command.stdout(Stdio::null()).spawn().expect("farline runs"));
        let until = Instant::now() + Duration::from_secs(60);
        while own().is_none() {
            assert!(
                Instant::now() < until && child.0.try_wait().expect("a child").is_none(),
                "it loads its control"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(child.end(signal).code(), Some(code), "{signal:?}");
        assert_eq!(own(), None, "{signal:?}");
    }
    assert_eq!(default_control(), default);
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn a_module_that_a_copy_had_loaded_goes_with_it() {
    let is_loaded = || std::path::Path::new("/sys/module/tcp_htcp/initstate").exists();
    assert!(!is_loaded(), "{WHY}");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("file"), vec![7; 8 << 20]).expect("written");
    let (_node, url) = node(dir.path(), "write", &["--allow-congestion"]);
    let (file, back) = (
        dir.path().join("file").display().to_string(),
        dir.path().join("back").display().to_string(),
    );
    // The end that sends loads it: this one, then the node.
    for (from, to) in [(file, format!("{url}/there")), (format!("{url}/there"), back)] {
        let mut command = farline();
        command.args([
            "--json",
            "-q",
            "cp",
            "--congestion",
            "htcp",
            "--limit",
            "20Mbit/s",
            &from,
            &to,
        ]);
        let child = command.stdout(Stdio::piped()).spawn().expect("farline runs");
        let until = Instant::now() + Duration::from_secs(30);
        while !is_loaded() {
            assert!(Instant::now() < until, "the module is loaded");
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = child.wait_with_output().expect("it ends");
        let outcome: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
        assert_eq!(outcome["congestion"], "htcp", "{outcome}");
        let until = Instant::now() + Duration::from_secs(10);
        while is_loaded() {
            assert!(Instant::now() < until, "nobody uses the module, and it stays");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
#[ignore = "steps the machine's clock: make lab"]
fn a_clock_that_steps_changes_nothing_that_is_measured() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert!(release.starts_with("6.1."), "{release}: only a guest's clock may be stepped");
    // Nobody loads it at the guest's start.
    succeed(Command::new("modprobe").arg("tun"));
    let path = ["--rtt", "20ms", "--rate", "20M", "--mtu", "1500", "--scale", "1"];
    let run = ["--seconds", "8", "--repetitions", "1"];
    let mut command = farline();
    command.args(["--json", "-q", "profile"]).args(path).args(run).stdout(Stdio::piped());
    let mut child = Running(command.spawn().expect("farline runs"));
    let mut steps = 0;
    while child.0.try_wait().expect("a child").is_none() {
        // A day forward and two back, by turns: the calendar's clock, not the one that only goes
        // forward.
        let step = if steps % 2 == 0 { "+1 day" } else { "-2 days" };
        succeed(Command::new("date").args(["--set", step]));
        steps += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(steps >= 6, "the clock was stepped {steps} times");
    let mut said = String::new();
    child.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    let profile: serde_json::Value = serde_json::from_str(&said).expect("one object");
    let one = &profile["cells"][0]["repetitions"][0];
    let samples: Vec<f64> = one["samples_bps"]
        .as_array()
        .expect("samples")
        .iter()
        .map(|bps| bps.as_f64().expect("a rate"))
        .collect();
    assert_eq!((samples.len(), one["seconds"].as_f64()), (16, Some(8.0)), "{profile}");
    // A clock that jumped would make a sample a day long, or none: its rate would be nothing, or
    // without bound.
    assert!(samples[4..].iter().all(|bps| (5e6..25e6).contains(bps)), "{profile}");
    assert!(
        one["rtt_ns"].as_u64().is_some_and(|rtt| (20_000_000..60_000_000).contains(&rtt)),
        "{profile}"
    );
}
