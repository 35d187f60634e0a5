//! Congestion controls with several processes: who holds what is seen by all, nobody takes
//! another's away, and traces keep apart.
//!
//! A machine whose kernel loads no BPF for this user skips these tests, and says so.

use farline::kernelcc::available;
use farline_lab::controls::{Pinned, absent, holding, is_there, turn, until};
use farline_lab::files::copy_program;
use farline_lab::{
    Running, error_of, error_of_command, farline, farline_binary, globus_server, json_of, node,
    own_control, run_dir, succeed,
};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The binary where user nobody can run it, and a command that does, with `capabilities` (such as
/// `+bpf,+perfmon`).
struct Nobody(tempfile::TempDir);

impl Nobody {
    fn new() -> Nobody {
        let folder = tempfile::Builder::new().prefix("farline-nobody").tempdir().expect("a folder");
        copy_program(&farline_binary(), &folder.path().join("farline"));
        std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).expect("chown");
        Nobody(folder)
    }

    fn farline(&self, capabilities: &str) -> Command {
        let mut command = farline_lab::command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
        command.arg(self.0.path().join("farline"));
        command
    }
}

/// A file that is put aside, and back at the end, however that comes: without its record what a
/// process left would stay for good.
struct Aside<'a>(&'a Path, &'a Path);

impl<'a> Aside<'a> {
    fn put(file: &'a Path, aside: &'a Path) -> Aside<'a> {
        std::fs::rename(file, aside).expect("root may");
        Aside(file, aside)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // Where that fails the test does, which looks for what the record is of.
        let _ = std::fs::rename(self.1, self.0);
    }
}

/// What the hint of a missing capability recommends.
const RECOMMENDED: &str = "-all,+bpf,+perfmon,+net_admin";

#[test]
fn only_a_dead_processs_record_is_removed() {
    let fl_nobody: &str = &own_control("nobody");
    let fl_root: &str = &own_control("root");
    let Some(_turn) = turn() else { return };
    let nobody = Nobody::new();
    let load = ["cc", "load", "scalable", "--set", "paper", "--as", fl_nobody];
    // Without links its end would be nobody's: it is refused, not taken for left behind later.
    let mut command = nobody.farline(RECOMMENDED);
    let (error, code) =
        error_of_command(command.arg("--json").args(load).args(["--without-link", "--", "true"]));
    assert_eq!((error["code"].as_str(), code), (Some("congestion-record"), 3), "{error}");
    assert!(
        error["hint"].as_str().is_some_and(
            |hint| hint.contains(&format!("install -d -o USER {}/cc", run_dir().display()))
        ),
        "{error}"
    );
    assert!(!is_there(fl_nobody));
    // With one it is held, root sees by whom in outline, and leaves it.
    let (held, said) = Running::begun(nobody.farline(RECOMMENDED).args(load));
    assert!(said.contains("in BPF with the paper constants"), "{said}");
    let listed = succeed(farline().args(["cc", "ls"]));
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with(fl_nobody) && line.contains("farline, another process")),
        "{listed}"
    );
    assert!(is_there(fl_nobody));
    drop(held);
    until(fl_nobody, false);

    // The other way round: an ordinary user sees who holds what.
    let (mut held, _) = holding(&["scalable", "--as", fl_root, "--without-link"]);
    let listed = succeed(nobody.farline("-all").args(["cc", "ls"]));
    assert!(listed.contains(&format!("farline, process {}", held.0.id())), "{listed}");
    let record = &run_dir().join("cc").join(fl_root);
    assert!(record.exists());
    // A control without a record is somebody's whom this process does not see.
    let aside = run_dir().join("aside");
    let aside = Aside::put(record, &aside);
    succeed(farline().args(["cc", "ls"]));
    assert!(is_there(fl_root), "what has no record was not left by a killed process");
    drop(aside);
    // And of a killed one the record goes too.
    held.end(Signal::KILL);
    succeed(farline().args(["cc", "ls"]));
    until(fl_root, false);
    assert!(!record.exists(), "the record of a process that is gone");
}

#[test]
fn a_closed_run_directory_says_nothing_false_and_is_opened() {
    let Some(_turn) = turn() else { return };
    let fl_open: &str = &own_control("open");
    let nobody = Nobody::new();
    let folder = tempfile::Builder::new().prefix("farline-open").tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    // As an older Farline's link made it.
    let run = folder.path().join("farline");
    DirBuilder::new().mode(0o700).create(&run).expect("made");
    let list = || {
        let mut list = nobody.farline("-all");
        succeed(list.env("FARLINE_RUN_DIR", &run).args(["cc", "ls"]))
    };
    let from = |listed: &str, name: &str| {
        let line = listed.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("no {name}: {listed}"))
    };
    let (other, _) = holding(&["scalable", "--as", fl_open]);
    let listed = list();
    assert!(!listed.contains("farline, another process"), "{listed}");
    assert!(from(&listed, "reno").contains("kernel"), "{listed}");
    assert!(from(&listed, fl_open).contains("unknown"), "{listed}");
    drop(other);
    until(fl_open, false);
    // Whoever writes there next, as its owner, opens it: now it is known who holds what.
    let mut hold = farline();
    hold.env("FARLINE_RUN_DIR", &run).args(["cc", "load", "scalable", "--as", fl_open]);
    let (held, _) = Running::begun(&mut hold);
    let listed = list();
    let process = format!("farline, process {}", held.0.id());
    assert!(from(&listed, fl_open).contains(&process), "{listed}");
}

#[test]
fn a_name_another_process_holds_is_not_the_kernels() {
    let Some(_turn) = turn() else { return };
    let Some([held_name, copied]) = absent() else {
        farline_lab::skip("this kernel has the controls that this would load");
        return;
    };
    let (held, _) = holding(&[held_name, "--set", "paper"]);
    let (error, code) = error_of(&["cc", "load", held_name, "--set", "linux"]);
    assert_eq!((error["code"].as_str(), code), (Some("congestion-taken"), 2), "{error}");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains(&format!("process {}", held.0.id()))),
        "{error}"
    );
    let said = succeed(farline().args(["cc", "load", held_name]));
    assert!(said.contains("Farline has it registered already"), "{said}");
    drop(held);
    until(held_name, false);

    // Two copies at a time: the end of the first takes nothing from the second.
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &["--allow-congestion"]);
    // Of pipes: each lasts until the test closes its own.
    let copy = |to: &str| {
        let mut command = farline();
        command
            .args(["--json", "-q", "cp", "--congestion", copied, "-"])
            .arg(format!("{url}/{to}"));
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("farline runs"))
    };
    let mut first = copy("first");
    until(copied, true);
    let mut second = copy("second");
    let deadline = Instant::now() + Duration::from_secs(30);
    let own = loop {
        if let Some(own) =
            available().into_iter().find(|name| name.as_str().starts_with(&format!("{copied:.4}_")))
        {
            break own;
        }
        assert!(Instant::now() < deadline, "the second copy has no control of its own");
        std::thread::sleep(Duration::from_millis(10));
    };
    let outcome = |copy: &mut Running| -> Value {
        copy.0.stdin.take().expect("piped").write_all(&[7; 4096]).expect("it reads");
        let mut said = String::new();
        copy.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
        copy.0.wait().expect("it ends");
        serde_json::from_str(&said).expect("one object")
    };
    let first = outcome(&mut first);
    assert_eq!(
        (first["congestion"].as_str(), first["notes"].as_array().map(Vec::len)),
        (Some(copied), Some(0)),
        "{first}"
    );
    until(copied, false);
    assert!(is_there(own.as_str()), "the end of the first took it from the second");
    let second = outcome(&mut second);
    assert_eq!(
        (second["congestion"].as_str(), second["notes"].as_array().map(Vec::len)),
        (Some(own.as_str()), Some(0)),
        "{second}"
    );
    until(own.as_str(), false);
}

#[test]
fn what_cannot_be_loaded_so_is_said_of_what_was_asked() {
    let fl_cubic: &str = &own_control("cubic");
    let Some(_turn) = turn() else { return };
    for asked in [&["cubic", "--set", "paper"][..], &["cubic", "--as", fl_cubic]] {
        let mut words = vec!["cc", "load"];
        words.extend(asked);
        let (error, code) = error_of(&words);
        assert_eq!((error["code"].as_str(), code), (Some("congestion-native"), 2), "{error}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("is this kernel's own")),
            "{error}"
        );
    }
    let (error, code) = error_of(&["cc", "load", "highspeed-tcp"]);
    assert_eq!((error["code"].as_str(), code), (Some("unknown-congestion"), 2), "{error}");
    let said = json_of(farline().args(["--json", "cc", "load", "cubic", "--pin"]));
    assert_eq!(
        (said["source"].as_str(), said["pinned"].as_bool()),
        (Some("native"), Some(false)),
        "{said}"
    );
}

#[test]
fn a_holder_that_waits_sleeps() {
    let fl_idle: &str = &own_control("idle");
    let Some(_turn) = turn() else { return };
    let (held, _) = holding(&["scalable", "--as", fl_idle]);
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", held.0.id())).expect("it lives");
        let of = |task: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(task.expect("an entry").path().join("status"))
                .expect("it lives");
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .expect("Linux says so");
            line.trim().parse::<u64>().expect("a number")
        };
        tasks.map(of).sum()
    };
    std::thread::sleep(Duration::from_millis(300));
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    let woken = switches() - before;
    assert!(woken < 20, "{woken} wake-ups in two seconds");
}

/// Connections over loopback that use `control` and have something on its way all the time, until
/// they are dropped.
struct Flows {
    over: Arc<AtomicBool>,
    ends: Vec<(TcpStream, TcpStream)>,
    sends: Option<std::thread::JoinHandle<()>>,
}

impl Flows {
    fn new(control: &str, count: usize) -> Flows {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let connect = |_| {
            let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
            set_tcp_congestion(&near, control).expect("it is there");
            (near, listener.accept().expect("accept").0)
        };
        let ends: Vec<(TcpStream, TcpStream)> = (0..count).map(connect).collect();
        let over = Arc::new(AtomicBool::new(false));
        let mut pairs: Vec<(TcpStream, TcpStream)> = ends
            .iter()
            .map(|(a, b)| (a.try_clone().expect("a copy"), b.try_clone().expect("a copy")))
            .collect();
        let stop = Arc::clone(&over);
        let sends = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !stop.load(Ordering::Relaxed) {
                for (near, far) in &mut pairs {
                    near.write_all(&buffer).expect("the flow lives");
                    far.read_exact(&mut buffer).expect("the flow lives");
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Flows { over, ends, sends: Some(sends) }
    }

    fn ports(&self) -> Vec<u64> {
        self.ends
            .iter()
            .map(|(near, _)| u64::from(near.local_addr().expect("bound").port()))
            .collect()
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.sends.take().map(std::thread::JoinHandle::join);
    }
}

/// A `farline cc trace` that has begun, what it said first, and its lines as they come.
struct Tracing {
    process: Running,
    said: String,
    stderr: BufReader<ChildStderr>,
    lines: std::thread::JoinHandle<Vec<Value>>,
    count: Arc<AtomicUsize>,
}

impl Tracing {
    fn begun(command: &mut Command, more: &[&str]) -> Tracing {
        command.args(["--json", "cc", "trace"]).args(more);
        let mut process = Running(
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("farline runs"),
        );
        let stdout = BufReader::new(process.0.stdout.take().expect("piped"));
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let note = move |line: std::io::Result<String>| {
            counted.fetch_add(1, Ordering::Relaxed);
            serde_json::from_str(&line.expect("text")).expect("JSON")
        };
        let lines = std::thread::spawn(move || stdout.lines().map(note).collect());
        let (mut said, mut stderr) =
            (String::new(), BufReader::new(process.0.stderr.take().expect("piped")));
        // Who tells is said when the trace reads already.
        stderr.read_line(&mut said).expect("text");
        Tracing { process, said, stderr, lines, count }
    }

    /// Waits until `count` lines have come.
    fn until(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.count.load(Ordering::Relaxed) < count {
            assert!(Instant::now() < deadline, "no {count} lines in a minute: {}", self.said);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its lines and its words, when it has come to its end or is `asked` to.
    fn end(mut self, asked: bool) -> (Vec<Value>, String) {
        if asked {
            self.process.signal(Signal::TERM);
        }
        let lines = self.lines.join().expect("lines of JSON");
        self.stderr.read_to_string(&mut self.said).expect("text");
        assert!(self.process.0.wait().expect("it ends").success(), "{}", self.said);
        (lines, self.said)
    }
}

/// Microseconds between a line of a flow and the next, in order of size.
fn gaps(lines: &[Value], flow: u64) -> Vec<u64> {
    let ours =
        lines.iter().filter(|line| line["flow"].as_u64() == Some(flow) && line["changed"] == false);
    let times: Vec<u64> =
        ours.map(|line| line["time_us"].as_u64().expect("microseconds")).collect();
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps
}

#[test]
fn two_controls_traces_keep_apart_a_second_of_one_is_refused() {
    let fl_x: &str = &own_control("x");
    let fl_y: &str = &own_control("y");
    let Some(_turn) = turn() else { return };
    let (_x, _) = holding(&["scalable", "--as", fl_x]);
    let (_y, _) = holding(&["vegas", "--as", fl_y]);
    let flows = [Flows::new(fl_x, 1), Flows::new(fl_y, 1)];
    let of_y = Tracing::begun(&mut farline(), &[fl_y]);
    let of_x = Tracing::begun(&mut farline(), &[fl_x]);
    let (error, code) = error_of(&["cc", "trace", fl_y, "--for", "1s"]);
    assert_eq!((error["code"].as_str(), code), (Some("congestion-traced"), 2), "{error}");
    for (trace, flow) in [(of_x, &flows[0]), (of_y, &flows[1])] {
        trace.until(100);
        let (lines, said) = trace.end(true);
        assert!(said.contains("what the control itself tells"), "{said}");
        // Ten milliseconds at least, and usually little more: a busy machine is late now and then.
        let gaps = gaps(&lines, 1);
        assert!(gaps[0] >= 10_000 && gaps[gaps.len() / 2] < 50_000, "{gaps:?}");
        let ours = |line: &Value| {
            line["told"] == "control"
                && line["local_port"].as_u64() == Some(flow.ports()[0])
                && line["flow"].as_u64() == Some(1)
        };
        assert!(lines.iter().all(ours), "{lines:#?}");
    }
}

#[test]
fn a_traces_lines_come_as_asked_from_the_source_that_is_named() {
    let fl_thin: &str = &own_control("thin");
    let fl_own: &str = &own_control("own");
    let Some(_turn) = turn() else { return };
    for every in ["0s", "900ns"] {
        let (error, code) = error_of(&["cc", "trace", "reno", "--every", every, "--for", "1s"]);
        assert_eq!((error["code"].as_str(), code), (Some("usage"), 2), "{error}");
    }
    // A pinned control tells every ten milliseconds; its reader wants less.
    let pinned = Pinned::load("scalable", fl_thin, &[]);
    let (nobody_there, said) =
        Tracing::begun(&mut farline(), &[fl_thin, "--for", "300ms"]).end(false);
    assert!(nobody_there.is_empty() && said.contains(&format!("no flow used {fl_thin}")), "{said}");
    let flows = Flows::new(fl_thin, 2);
    let trace = Tracing::begun(&mut farline(), &[fl_thin, "--every", "500ms"]);
    trace.until(6);
    let (lines, _) = trace.end(true);
    drop(flows);
    drop(pinned);
    let gaps = [1, 2].map(|flow| gaps(&lines, flow));
    assert!(gaps.iter().all(|gaps| !gaps.is_empty() && gaps[0] >= 500_000), "{gaps:?}: {lines:#?}");

    // With the capabilities that are recommended, and no more, the control itself tells of what was
    // loaded for the trace.
    let nobody = Nobody::new();
    let trace = Tracing::begun(
        &mut nobody.farline(RECOMMENDED),
        &["scalable", "--as", fl_own, "--set", "paper"],
    );
    until(fl_own, true);
    let flows = Flows::new(fl_own, 1);
    trace.until(50);
    // Before the trace: what it has loaded goes with it.
    drop(flows);
    let (lines, said) = trace.end(true);
    assert!(said.contains("what the control itself tells"), "{said}");
    assert!(lines.iter().all(|line| line["told"] == "control"), "{lines:#?}");

    // Of a control of the kernel's TCP_INFO tells, of each flow each time.
    let flows = Flows::new("reno", 200);
    let trace = Tracing::begun(&mut farline(), &["reno", "--every", "100ms"]);
    trace.until(4_000);
    let (lines, said) = trace.end(true);
    assert!(said.contains("what TCP_INFO tells") && said.contains("packets sent again"), "{said}");
    let number = |line: &Value, key: &str| line[key].as_u64().expect("a number");
    let mut asked: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in &lines {
        asked.entry(number(line, "time_us")).or_default().push(number(line, "local_port"));
    }
    let ports = flows.ports();
    assert!(
        asked.values().all(|told| ports.iter().all(|port| told.contains(port))),
        "a flow is missing: {asked:?}"
    );
    let mut gaps: Vec<u64> =
        asked.keys().zip(asked.keys().skip(1)).map(|(this, next)| next - this).collect();
    gaps.sort_unstable();
    assert!((90_000..500_000).contains(&gaps[gaps.len() / 2]), "{gaps:?}");
}

#[test]
fn a_copy_tells_the_sender_the_control_or_says_it_did_not() {
    let Some(_turn) = turn() else { return };
    let Some([control, _]) = absent() else {
        farline_lab::skip("this kernel has the controls that this would load");
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&a, &b] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::fs::write(a.join("file"), vec![7; 3 << 20]).expect("written");
    let (_a, from) = node(
        &a,
        "write",
        &[
            "--listen",
            "127.0.0.2:0",
            "--third-party",
            "--third-party-net",
            "127.0.0.0/8",
            "--allow-congestion",
        ],
    );
    let (_b, to) = node(
        &b,
        "write",
        &[
            "--listen",
            "127.0.0.3:0",
            "--third-party",
            "--third-party-net",
            "127.0.0.0/8",
            "--allow-congestion",
        ],
    );
    let there = |name: &str| (format!("{from}/file"), format!("{to}/{name}"));
    let copied = |control: &str, from: &str, to: &str| -> Value {
        json_of(farline().args(["--json", "-q", "cp", "--congestion", control, from, to]))
    };
    // From node to node.
    let (file, copy) = there("copy");
    let outcome = copied(control, &file, &copy);
    assert_eq!(
        (outcome["congestion"].as_str(), outcome["notes"].as_array().map(Vec::len)),
        (Some(control), Some(0)),
        "{outcome}"
    );
    until(control, false);
    // A word that nobody knows is a mistake in each direction, before anything moves.
    let here = dir.path().join("here");
    let here = here.to_str().expect("text");
    for (from, to) in [
        there("never"),
        (file.clone(), here.to_owned()),
        (a.join("file").display().to_string(), copy.clone()),
    ] {
        let (error, code) = error_of(&["cp", "--congestion", "tahoe", &from, &to]);
        assert_eq!(
            (error["code"].as_str(), code),
            (Some("unknown-congestion"), 2),
            "{from} {to}: {error}"
        );
    }
    assert!(!b.join("never").exists() && !Path::new(here).exists());
    // A node without the privilege says which it lacks.
    let nobody = Nobody::new();
    std::fs::write(nobody.0.path().join("file"), b"of nobody").expect("written");
    let mut serve = nobody.farline("-all");
    serve
        .args(["--json", "serve", "--anonymous", "read", "--listen", "127.0.0.1:0"])
        .args(["--allow-congestion", "--root"])
        .arg(nobody.0.path());
    let (_serves, poor) = farline_lab::announced(&mut serve);
    let outcome = copied(control, &format!("{poor}/file"), here);
    let note = outcome["notes"][0].as_str().unwrap_or_default();
    assert!(
        note.contains(&format!("without {control}"))
            && note.contains("needs CAP_BPF and CAP_PERFMON"),
        "{outcome}"
    );
    // A stock server cannot be told: that is said, in both ways in which it sends.
    let (_stock, stock) = globus_server();
    let file = a.join("file");
    for to in [here.to_owned(), format!("{to}/of-stock")] {
        let outcome = copied(control, &format!("{stock}{}", file.display()), &to);
        let note = outcome["notes"].to_string();
        assert!(
            note.contains(&format!("without {control}")) && note.contains("no Farline node"),
            "{outcome}"
        );
        let (error, code) =
            error_of(&["cp", "--congestion", "tahoe", &format!("{stock}{}", file.display()), &to]);
        assert_eq!((error["code"].as_str(), code), (Some("unknown-congestion"), 2), "{error}");
    }
}
