//! Shared parts of the end-to-end tests: where the binaries are, and what this machine lets a test
//! do.

pub mod bearer;
mod brief;
pub mod browser;
pub mod causes;
pub mod circuits;
pub mod controls;
pub mod crowd;
pub mod database;
pub mod files;
mod globus;
mod in_time;
mod isolation;
pub mod line_truth;
mod link;
pub mod list_server;
pub mod modules;
mod namespaces;
mod netem;
pub mod ordinary;
pub mod plain_ftp;
mod ports;
pub mod raw;
pub mod recovery;
pub mod relay;
mod skip;
mod slow_disk;
mod sshd;
pub mod targets;
pub mod throughput;
pub mod tuner;
mod turns;
pub mod udt;

pub use brief::Brief;
pub use globus::{globus_server, globus_server_at, globus_server_behind, globus_url_copy};
pub use in_time::{links_are_in_time, processors_are_free};
pub use isolation::{command, own_control, own_name, run_dir};
pub use link::LinkUp;
pub use namespaces::Namespaces;
pub use ports::free_port;
use rustix::process::{Pid, Signal, kill_process};
pub use skip::skip;
pub use slow_disk::SlowDisk;
pub use sshd::Sshd;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
pub use turns::alone;

/// The `farline` binary built next to the running test or program, or `FARLINE_BIN`.
///
/// # Panics
/// When neither exists: build it with `cargo build -p farline-cli` first (`make test` does).
pub fn farline_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("FARLINE_BIN") {
        return PathBuf::from(path);
    }
    let this = std::env::current_exe().expect("a program has a path");
    // This is target/PROFILE/PROGRAM or target/PROFILE/deps/TEST.
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join("farline"));
    let mut there = beside.filter(|binary| binary.exists());
    there.next().unwrap_or_else(|| {
        panic!("no farline next to {}: run `cargo build -p farline-cli`", this.display())
    })
}

/// A command that runs the `farline` binary, with the run directory of this test run.
pub fn farline() -> Command {
    command(farline_binary())
}

/// A process of a test, ended when the test does, however it does.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts `command` and waits for its first line.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn begun(command: &mut Command) -> (Running, String) {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().expect("piped");
        let running = Running(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it says something");
        (running, line)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it `signal`.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it is ours");
    }

    /// Waits for its end; returns how that was, and what it has written to its pipes: standard
    /// output and error.
    ///
    /// # Panics
    /// When what it wrote is no text.
    pub fn finish(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_string(&mut out).expect("text");
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut err).expect("text");
        }
        (self.0.wait().expect("it ends"), out, err)
    }

    /// Waits until `condition` holds while it runs.
    ///
    /// # Panics
    /// When it ends before, or half a minute goes by: with what it has said.
    pub fn until(mut self, what: &str, condition: impl Fn() -> bool) -> Running {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !condition() {
            let ended = self.0.try_wait().expect("it is ours").is_some();
            // What it has done before its end counts.
            if (ended && !condition()) || Instant::now() >= deadline {
                let _ = self.0.kill();
                panic!("{what} never came: {:?}", self.finish());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Sends it `signal` and waits for its end.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.0.wait().expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `farline serve` of `root` on a free loopback port, and its `ftp://127.0.0.1:PORT` without a
/// path.
///
/// # Panics
/// When it does not say within ten seconds that it listens.
pub fn node(root: &Path, rights: &str, more: &[&str]) -> (Running, String) {
    let mut command = farline();
    let listen =
        if more.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"][..] };
    command
        .args(["--json", "serve", "--anonymous", rights, "--root"])
        .arg(root)
        .args(listen)
        .args(more);
    announced(&mut command)
}

/// Starts a `farline --json serve` and waits until it says where it listens: an `ftp://` URL
/// without a path.
///
/// # Panics
/// When it says something else.
pub fn announced(command: &mut Command) -> (Running, String) {
    let (running, line) = Running::begun(command);
    let said: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let address = said["address"].as_str().expect("an address").to_owned();
    (running, format!("ftp://{address}"))
}

/// Waits until `condition` holds.
///
/// # Panics
/// After half a minute: `what` never came.
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Does `work` with each of `items` on so many threads, of which whoever is free takes the next.
///
/// # Panics
/// When `work` does.
pub fn on_threads<T: Sync>(threads: usize, items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

/// What `trial` comes to: the first of three that is `fit`, else the last. A machine that is busy
/// takes time from a run that it would have had.
pub fn fit_of_three<T>(trial: impl Fn() -> T, fit: impl Fn(&T) -> bool) -> T {
    (0..2).map(|_| trial()).find(&fit).unwrap_or_else(trial)
}

/// Processor seconds that a process has taken so far.
pub fn processor_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // proc_pid_stat(5): the name in parentheses may hold anything; utime and stime are fields 14
    // and 15, the third stands right after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory that a process had at a time, in bytes; none of one that is gone.
pub fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Runs `command` and returns its standard output.
///
/// # Panics
/// When it fails: with all that it said.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Runs `command` and returns the JSON that it prints.
///
/// # Panics
/// When it fails, or prints something else.
pub fn json_of(command: &mut Command) -> serde_json::Value {
    let out = succeed(command);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"))
}

/// Runs `farline --json` with `args`, which must fail, and returns the error object and the
/// exit code.
///
/// # Panics
/// When it succeeds, or says no error object.
pub fn error_of(args: &[&str]) -> (serde_json::Value, i32) {
    error_of_command(farline().arg("--json").args(args))
}

/// The same of a command that is made already, `--json` in it.
///
/// # Panics
/// When it succeeds, or says no error object.
pub fn error_of_command(command: &mut Command) -> (serde_json::Value, i32) {
    let output = command.output().expect("farline starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{command:?} succeeded: {text}");
    let object: serde_json::Value =
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(object["schema"], "farline/error/1");
    (object["error"].clone(), output.status.code().expect("an exit code"))
}

/// Whether two trees have the same files, contents, modes and links, as `diff` and `find` of this
/// machine see them.
///
/// # Panics
/// When they differ: with where.
pub fn assert_same_tree(a: &Path, b: &Path) {
    succeed(Command::new("diff").args(["-r", "--no-dereference"]).arg(a).arg(b));
    let listing = |root: &Path| {
        let list = succeed(Command::new("find").current_dir(root).args([
            ".",
            "-mindepth",
            "1",
            "-printf",
            "%P %y %m %T@ %l\\n",
        ]));
        let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(listing(a), listing(b));
}

/// Fills `root` with files around every size that matters, three folders deep, with an empty folder
/// and a link.
///
/// # Panics
/// When they cannot be written.
pub fn plant(root: &Path) {
    const MIB: usize = 1 << 20;
    let mut rng = farline_core::units::Rng::new(7);
    for folder in ["one/two/three", "empty"] {
        std::fs::create_dir_all(root.join(folder)).expect("folders");
    }
    // Nothing, one byte, odd; around a block; several blocks and a rest.
    for (i, len) in [0, 1, 4095, MIB - 1, MIB, MIB + 1, 5 * MIB + 123].into_iter().enumerate() {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        let folder = ["", "one", "one/two", "one/two/three"][i % 4];
        std::fs::write(root.join(folder).join(format!("file {i} %")), bytes).expect("written");
    }
    for i in 0..200 {
        std::fs::write(
            root.join("one").join(format!("small{i}")),
            format!("content of {i}\n").repeat(i),
        )
        .expect("written");
    }
    std::os::unix::fs::symlink("one/two", root.join("link")).expect("linked");
}
