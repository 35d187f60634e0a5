//! `farline link` with real namespaces: it comes up, carries packets with the right delay, says how
//! exact it was, and goes away.
//!
//! A machine that cannot make network namespaces skips these tests, and says so.

use farline::link::Settings;
use farline_lab::{LinkUp, Running, farline, farline_binary, own_name};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a link has counted.
fn stats(name: &str) -> Value {
    json(&["link", "stats", name])
}

/// The object that a command prints with `--json`.
fn json(arguments: &[&str]) -> Value {
    let output = farline().arg("--json").args(arguments).output().expect("farline runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

/// The record of a link, when it is listed.
fn listed(name: &str) -> Option<Value> {
    let links = json(&["link", "ls"])["links"].as_array().cloned().expect("a list");
    links.into_iter().find(|link| link["name"] == name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The smallest round trip that ping saw, in milliseconds.
fn smallest_rtt(output: &Output) -> f64 {
    let said = text(&output.stdout);
    let line = said
        .lines()
        .find(|line| line.starts_with("rtt"))
        .unwrap_or_else(|| panic!("ping: {output:?}"));
    let least = line.split(" = ").nth(1).and_then(|times| times.split('/').next());
    least.and_then(|least| least.parse().ok()).expect("rtt min/avg/max/mdev = ...")
}

#[test]
fn a_long_fast_path_of_small_packets_comes_up() {
    // On its way are more packets than a device's queue may have.
    let path = ["usn-8600", "--rate", "20G", "--mtu", "1500"];
    let Some(link) = LinkUp::up("t-small", &path) else { return };
    let by_name = format!("{}-b", link.name());
    let rtt = smallest_rtt(&link.exec("a", &["ping", "-c", "2", "-i", "0.2", &by_name]));
    assert!((163.0..200.0).contains(&rtt), "{rtt} ms");
}

#[test]
fn a_link_delays_both_families_by_its_rtt_and_counts_them() {
    let Some(link) = LinkUp::up("t-rtt", &["custom", "--rtt", "20ms", "--rate", "100M"]) else {
        return;
    };
    let by_name = format!("{}-b", link.name());
    for peer in [by_name.as_str(), "fd77::2"] {
        let rtt = smallest_rtt(&link.exec("a", &["ping", "-c", "5", "-i", "0.1", peer]));
        // Never faster than the path; how much slower depends on the machine.
        assert!((20.0..30.0).contains(&rtt), "{peer}: {rtt} ms");
    }
    // The kernel has words of its own for a new device's neighbours, which may be on their way when
    // the link is asked.
    let arrived = |stats: &Value| {
        ["a_to_b", "b_to_a"]
            .iter()
            .all(|way| stats[way]["model"]["frames"] == stats[way]["model"]["delivered_frames"])
    };
    let until = Instant::now() + Duration::from_secs(20);
    let stats = loop {
        let stats = stats(link.name());
        if arrived(&stats) {
            break stats;
        }
        assert!(Instant::now() < until, "frames do not arrive: {stats}");
    };
    assert_eq!(stats["schema"], "farline/link-stats/1");
    for direction in ["a_to_b", "b_to_a"] {
        let model = &stats[direction]["model"];
        assert!(model["delivered_frames"].as_u64() >= Some(10), "{stats}");
        assert!(stats[direction]["lateness"]["buckets"].is_array(), "{stats}");
    }
    assert!(stats["valid"].is_boolean(), "{stats}");
}

#[test]
fn tcp_crosses_a_lossy_link_and_the_losses_are_counted_by_cause() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        farline_lab::skip("iperf3 is not installed");
        return;
    }
    let options = ["custom", "--rtt", "4ms", "--rate", "200M", "--loss", "0.03"];
    let Some(link) = LinkUp::up("t-tcp", &options) else { return };
    let serve = ["link", "exec", link.name(), "b", "--", "iperf3", "-s", "-1"];
    let _server =
        Running(farline().args(serve).stdout(Stdio::null()).spawn().expect("farline runs"));
    let until = Instant::now() + Duration::from_secs(20);
    let result = loop {
        // The server may need a moment to listen; iperf3 answers success with an error in its JSON.
        let client = link.exec("a", &["iperf3", "-c", "10.77.0.2", "-n", "4M", "-J"]);
        let result: Value = serde_json::from_slice(&client.stdout).expect("iperf3 prints JSON");
        if result["error"].is_null() || Instant::now() > until {
            break result;
        }
    };
    assert!(result["end"]["sum_sent"]["bytes"].as_u64() >= Some(4 << 20), "{result}");
    assert!(
        stats(link.name())["a_to_b"]["model"]["dropped_loss"].as_u64() > Some(0),
        "of some 470 frames 3 % are lost"
    );
}

#[test]
fn up_or_down_cleans_what_a_killed_emulator_left() {
    let Some(link) = LinkUp::up("t-kill", &["usn-0.2", "--rate", "100M"]) else { return };
    for next in ["up", "down"] {
        let pid =
            listed(link.name()).and_then(|link| link["pid"].as_i64()).expect("the link is listed");
        let emulator = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(emulator, Signal::KILL).expect("the emulator is ours");
        let until = Instant::now() + Duration::from_secs(10);
        while listed(link.name()).is_some_and(|link| link["alive"] == true) {
            assert!(Instant::now() < until, "the emulator survived");
        }
        assert_eq!(json(&["link", "stats", link.name()])["error"]["code"], "link-gone");
        let mut command = farline();
        let command = match next {
            "up" => {
                command.args(["link", "up", "usn-0.2", "--rate", "100M", "--name", link.name()])
            }
            _ => command.args(["link", "down", link.name()]),
        };
        let output = command.output().expect("farline runs");
        assert!(output.status.success(), "link {next}: {}", text(&output.stderr));
        if next == "up" {
            let peer = format!("{}-b", link.name());
            assert!(link.exec("a", &["ping", "-c", "1", "-W", "5", &peer]).status.success());
        }
    }
    assert!(listed(link.name()).is_none());
    assert!(
        ["/run/netns", "/etc/netns"]
            .iter()
            .all(|folder| !Path::new(folder).join(format!("{}-a", link.name())).exists())
    );
}

#[test]
fn a_link_of_which_nobody_heard_goes_down_again() {
    let Some(_link) = LinkUp::up("t-heard", &["usn-0.2", "--rate", "100M"]) else { return };
    let mut settings = Settings::named("usn-0.2").expect("a path");
    settings.name = own_name("t-unheard");
    let mut emulator = farline()
        .env("FARLINE_AGENT", r#"{"link":"Emulate"}"#)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("farline runs");
    // As when who asked for the link dies before it is up.
    drop(emulator.stdout.take());
    let stdin = emulator.stdin.take().expect("piped");
    serde_json::to_writer(stdin, &settings).expect("it reads its settings");
    assert!(emulator.wait().expect("it ends").success());
    assert!(
        listed(&settings.name).is_none()
            && !Path::new("/run/netns").join(format!("{}-a", settings.name)).exists()
    );
}

#[test]
fn exec_and_run_pass_on_exit_code_and_environment() {
    let Some(link) = LinkUp::up("t-exec", &["usn-0.2", "--rate", "100M"]) else { return };
    assert_eq!(link.exec("b", &["sh", "-c", "exit 7"]).status.code(), Some(7));
    let environment =
        link.exec("b", &["sh", "-c", "echo $FARLINE_LINK $FARLINE_PEER $FARLINE_PEER_NS"]);
    assert_eq!(text(&environment.stdout), format!("{0} 10.77.0.1 {0}-a\n", link.name()));

    let script =
        "ping -c 1 -W 5 $FARLINE_PEER >/dev/null && ip netns exec $FARLINE_PEER_NS true && exit 9";
    let name = &own_name("t-run");
    let run =
        ["link", "run", "usn-0.2", "--rate", "100M", "--name", name, "--", "sh", "-c", script];
    let run = farline().args(run).output().expect("farline runs");
    assert_eq!(run.status.code(), Some(9), "{}", text(&run.stderr));
    assert!(
        text(&run.stderr).contains(&format!("link {name}:")),
        "it says how exact it was: {}",
        text(&run.stderr)
    );
    assert!(listed(name).is_none(), "run takes its link down");
}

#[test]
fn run_takes_its_link_down_when_terminated() {
    let name = &own_name("t-term");
    let Some(_link) = LinkUp::up("t-running", &["usn-0.2", "--rate", "100M"]) else { return };
    let run = [
        "link",
        "run",
        "usn-0.2",
        "--rate",
        "100M",
        "--name",
        name,
        "--",
        "sh",
        "-c",
        "echo ready; exec sleep 60",
    ];
    let (mut run, _) = Running::begun(farline().args(run).stderr(Stdio::null()));
    assert!(listed(name).is_some());
    assert_eq!(run.end(Signal::TERM).code(), Some(128 + 15));
    assert!(listed(name).is_none());
}

#[test]
fn wrong_requests_get_one_error_with_a_hint() {
    let unknown = farline().args(["link", "up", "mars"]).output().expect("farline runs");
    assert_eq!(unknown.status.code(), Some(2));
    let said = text(&unknown.stderr);
    assert!(
        said.contains("no path called `mars`")
            && said.contains("hint:")
            && said.contains("usn-8600"),
        "{said}"
    );

    let gone = json(&["link", "down", "no-such-link"]);
    assert_eq!(
        (&gone["schema"], &gone["error"]["code"]),
        (&Value::from("farline/error/1"), &Value::from("link-gone"))
    );

    let Some(link) = LinkUp::up("t-taken", &["usn-0.2", "--rate", "100M"]) else { return };
    let taken = json(&["link", "up", "usn-1400", "--rate", "100M", "--name", link.name()]);
    assert_eq!(taken["error"]["code"], "link-taken", "{taken}");
}

#[test]
fn an_ordinary_user_can_run_a_command_over_a_link() {
    if !rustix::process::geteuid().is_root() {
        // Then every other test here is this one.
        return;
    }
    // A copy that any user may run, and a runtime folder of the user's own.
    let folder = tempfile::Builder::new().prefix("farline-nobody").tempdir().expect("a folder");
    let binary = folder.path().join("the-binary");
    std::fs::copy(farline_binary(), &binary).expect("a copy");
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).expect("chown");
    // Some machines keep /dev/net/tun for root: in a mount namespace of the test's own it is open
    // to all, as elsewhere.
    let script = "mknod -m 666 $DIR/tun c 10 200 && mount --bind $DIR/tun /dev/net/tun && export \
        XDG_RUNTIME_DIR=$DIR HOME=$DIR && cd / &&
        exec setpriv --reuid=65534 --regid=65534 --clear-groups $DIR/the-binary link run custom \
        --rtt 10ms --rate 1G -- sh -c \"$CMD\"";
    let command = "ping -c 2 -i 0.2 $FARLINE_PEER && ip netns exec $FARLINE_PEER_NS cat \
        /proc/sys/net/ipv4/tcp_rmem";
    let mut run = farline_lab::command("unshare");
    let run = run
        .args(["-m", "sh", "-c", script])
        .env("DIR", folder.path())
        .env_remove("FARLINE_RUN_DIR")
        .env("CMD", command)
        .output()
        .expect("unshare runs");
    let said = text(&run.stderr);
    if said.contains("making a user namespace") || said.contains("making a TUN device") {
        farline_lab::skip(format!(
            "this machine gives ordinary users no namespaces or no TUN device: {said}"
        ));
        return;
    }
    assert!(run.status.success(), "{}\n{said}", text(&run.stdout));
    let rtt = smallest_rtt(&run);
    assert!((10.0..30.0).contains(&rtt), "{rtt} ms");
    assert!(said.contains("without root"), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path().join("farline/link"))
        .expect("the runtime folder")
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
