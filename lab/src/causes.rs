//! Copies that are held back on purpose, each by one thing, to see whether `farline cp` names it.

use crate::link::LinkUp;
use crate::{Running, farline, farline_binary, node};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDirection {
    /// From here to the node.
    Out,
    /// From the node to here.
    Back,
}

/// How a copy is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Means {
    /// By options of `farline cp`.
    Options(&'static [&'static str]),
    /// By options of `farline serve`.
    NodeOptions(&'static [&'static str]),
    /// By the receiver's largest buffer, in bytes, in the namespace that receives.
    Buffer(u64),
    /// By nothing but the path and the size.
    Path,
    /// By a program before standard input that gives so many bytes a second.
    Feeder(u64),
    /// By a program behind standard output that takes so many.
    Taker(u64),
    /// By other work of so many threads on the one processor that `farline cp` may use, at this
    /// niceness of its own.
    Neighbours(usize),
    /// The same for the node's processor.
    NodesNeighbours(usize),
}

/// A copy, what holds it back, and what should be said of it.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The name that `limited_by` should have.
    pub limit: &'static str,
    /// The name that `limited_party` should have.
    pub party: &'static str,
    /// How strong, from 0, the weakest.
    pub strength: usize,
    /// The link's arguments; loopback when empty.
    pub link: Vec<String>,
    /// Which way.
    pub way: DataDirection,
    /// Bytes.
    pub size: u64,
    /// What holds it back.
    pub means: Means,
}

/// What was said of one copy.
#[derive(Clone, Debug)]
pub struct Said {
    /// `limited_by`.
    pub limit: String,
    /// `limited_party`.
    pub party: String,
    /// `limited_evidence`.
    pub evidence: String,
    /// How long it took.
    pub seconds: f64,
}

const MIB: u64 = 1 << 20;

/// A path of 1 Gbit/s and 40 ms, with more options.
fn gigabit(more: &[&str]) -> Vec<String> {
    path("1G", "40ms", more)
}

fn path(rate: &str, rtt: &str, more: &[&str]) -> Vec<String> {
    ["custom", "--rate", rate, "--rtt", rtt].iter().chain(more).map(|&s| s.to_owned()).collect()
}

/// The fourteen causes, each at three strengths.
pub fn causes() -> Vec<Cause> {
    let mut all = Vec::new();
    let mut add = |limit, party, cases: [(Vec<String>, DataDirection, u64, Means); 3]| {
        for (strength, (link, way, size, means)) in cases.into_iter().enumerate() {
            all.push(Cause { limit, party, strength, link, way, size, means });
        }
    };
    let wide = || path("300M", "20ms", &[]);
    add(
        "rate_limit",
        "you",
        [
            (wide(), DataDirection::Out, 40 * MIB, Means::Options(&["--limit", "200M"])),
            (wide(), DataDirection::Back, 20 * MIB, Means::Options(&["--limit", "100M"])),
            (wide(), DataDirection::Out, 8 * MIB, Means::Options(&["--limit", "30M"])),
        ],
    );
    add(
        "send_buffer",
        "you",
        [
            (
                gigabit(&[]),
                DataDirection::Out,
                40 * MIB,
                Means::Options(&["--buffer", "512KiB", "--streams", "1"]),
            ),
            (
                gigabit(&[]),
                DataDirection::Out,
                20 * MIB,
                Means::Options(&["--buffer", "256KiB", "--streams", "1"]),
            ),
            (
                gigabit(&[]),
                DataDirection::Out,
                16 * MIB,
                Means::Options(&["--buffer", "64KiB", "--streams", "1"]),
            ),
        ],
    );
    add(
        "receiver_window",
        "there",
        [
            (gigabit(&[]), DataDirection::Out, 60 * MIB, Means::Buffer(MIB)),
            (gigabit(&[]), DataDirection::Out, 30 * MIB, Means::Buffer(MIB / 2)),
            (gigabit(&[]), DataDirection::Out, 10 * MIB, Means::Buffer(MIB / 8)),
        ],
    );
    let cubic = |streams| match streams {
        1 => Means::Options(&["--congestion", "cubic", "--streams", "1"]),
        _ => Means::Options(&["--congestion", "cubic", "--streams", "2"]),
    };
    let lossy = |loss: &str, mtu: &str| gigabit(&["--loss", loss, "--mtu", mtu]);
    add(
        "loss",
        "path",
        [
            (lossy("2e-3", "1500"), DataDirection::Out, 16 * MIB, cubic(2)),
            (lossy("5e-3", "1500"), DataDirection::Back, 8 * MIB, cubic(2)),
            (lossy("1e-2", "1500"), DataDirection::Out, 4 * MIB, cubic(1)),
        ],
    );
    add(
        "path_rate",
        "path",
        [
            (path("600M", "20ms", &[]), DataDirection::Out, 200 * MIB, Means::Path),
            (path("300M", "20ms", &[]), DataDirection::Back, 100 * MIB, Means::Path),
            (path("100M", "20ms", &[]), DataDirection::Out, 40 * MIB, cubic(2)),
        ],
    );
    let far = || path("1G", "160ms", &[]);
    add(
        "slow_start",
        "path",
        [
            (far(), DataDirection::Out, 40 * MIB, Means::Path),
            (far(), DataDirection::Out, 24 * MIB, Means::Path),
            (far(), DataDirection::Back, 16 * MIB, Means::Path),
        ],
    );
    type Slow = fn(&'static [&'static str]) -> Means;
    let readers: [(_, _, Slow); 2] = [
        ("here", DataDirection::Out, Means::Options),
        ("there", DataDirection::Back, Means::NodeOptions),
    ];
    for (party, way, means) in readers {
        let read = |rate: &'static [&'static str], mib| (gigabit(&[]), way, mib * MIB, means(rate));
        add(
            "disk_read",
            party,
            [
                read(&["--trial-read", "300M"], 60),
                read(&["--trial-read", "100M"], 30),
                read(&["--trial-read", "20M"], 8),
            ],
        );
    }
    let writers: [(_, _, Slow); 2] = [
        ("there", DataDirection::Out, Means::NodeOptions),
        ("here", DataDirection::Back, Means::Options),
    ];
    for (party, way, means) in writers {
        let write =
            |rate: &'static [&'static str], mib| (gigabit(&[]), way, mib * MIB, means(rate));
        // Longer than a staging pool and the windows hold.
        add(
            "disk_write",
            party,
            [
                write(&["--trial-write", "400M"], 200),
                write(&["--trial-write", "300M"], 250),
                write(&["--trial-write", "100M"], 150),
            ],
        );
    }
    add(
        "pipe_read",
        "here",
        [
            (gigabit(&[]), DataDirection::Out, 40 * MIB, Means::Feeder(20 * MIB)),
            (gigabit(&[]), DataDirection::Out, 20 * MIB, Means::Feeder(10 * MIB)),
            (gigabit(&[]), DataDirection::Out, 4 * MIB, Means::Feeder(2 * MIB)),
        ],
    );
    add(
        "pipe_write",
        "here",
        [
            (gigabit(&[]), DataDirection::Back, 200 * MIB, Means::Taker(40 * MIB)),
            (gigabit(&[]), DataDirection::Back, 150 * MIB, Means::Taker(30 * MIB)),
            (gigabit(&[]), DataDirection::Back, 60 * MIB, Means::Taker(20 * MIB)),
        ],
    );
    add(
        "cpu",
        "here",
        [
            (Vec::new(), DataDirection::Out, 1024 * MIB, Means::Neighbours(3)),
            (Vec::new(), DataDirection::Back, 512 * MIB, Means::Neighbours(6)),
            (Vec::new(), DataDirection::Out, 256 * MIB, Means::Neighbours(12)),
        ],
    );
    add(
        "peer",
        "there",
        [
            (Vec::new(), DataDirection::Out, 1024 * MIB, Means::NodesNeighbours(3)),
            (Vec::new(), DataDirection::Back, 512 * MIB, Means::NodesNeighbours(6)),
            (Vec::new(), DataDirection::Out, 256 * MIB, Means::NodesNeighbours(12)),
        ],
    );
    add(
        "set_up",
        "path",
        [
            (far(), DataDirection::Out, 20_000, Means::Path),
            (far(), DataDirection::Out, 4_000, Means::Path),
            (far(), DataDirection::Back, 10, Means::Path),
        ],
    );
    all
}

/// Threads that do nothing but work, on one processor.
#[expect(dead_code, reason = "they end with it")]
struct Neighbours(Vec<Running>);

impl Neighbours {
    fn on(processor: &str, count: usize) -> Neighbours {
        let spin = || {
            let mut command = Command::new("taskset");
            command.args(["-c", processor, "sh", "-c", "while :; do :; done"]);
            Running(command.spawn().expect("taskset runs"))
        };
        Neighbours((0..count).map(|_| spin()).collect())
    }
}

/// Runs `cause` with links of `seed`; `None` where this machine makes no links.
///
/// # Panics
/// When a copy fails.
pub fn run(cause: &Cause, seed: u64, folder: &Path) -> Option<Said> {
    let link = match cause.link.is_empty() {
        true => None,
        false => {
            let seed = seed.to_string();
            let mut arguments: Vec<&str> = cause.link.iter().map(String::as_str).collect();
            arguments.extend(["--seed", &seed]);
            // Others may be held back at the same time.
            let name = format!("cause-{}-{}", cause.limit, cause.party).replace('_', "-");
            Some(LinkUp::up(&name, &arguments)?)
        }
    };
    let served = folder.join("served");
    std::fs::create_dir_all(&served).expect("a folder");
    let (here, there) = (folder.join("here"), served.join("there"));
    let from = if cause.way == DataDirection::Out { &here } else { &there };
    let is_fed = matches!(cause.means, Means::Feeder(_));
    std::fs::write(
        from,
        vec![0x5a_u8; if is_fed || cause.link.is_empty() { 0 } else { cause.size as usize }],
    )
    .expect("a file");
    let node_options = match cause.means {
        Means::NodeOptions(options) => options,
        _ => &[],
    };
    if let (Means::Buffer(len), Some(link)) = (cause.means, &link) {
        let side = if cause.way == DataDirection::Out { "b" } else { "a" };
        let limits = format!("net.ipv4.tcp_rmem=4096 131072 {len}");
        assert!(link.exec(side, &["sysctl", "-qw", &limits]).status.success(), "sysctl");
    }
    // The two processors of a small machine, or two of many.
    let (ours, theirs) = ("0", "1");
    let neighbours = match cause.means {
        Means::Neighbours(count) => Some(Neighbours::on(ours, count)),
        Means::NodesNeighbours(count) => Some(Neighbours::on(theirs, count)),
        _ => None,
    };
    let is_pinned = neighbours.is_some();
    let (_node, url) = match &link {
        Some(link) => {
            let node = link.node(&served, node_options);
            (node, format!("farline://{}-b:2811", link.name()))
        }
        None if is_pinned => {
            let mut command = Command::new("taskset");
            command.args(["-c", theirs]).arg(farline_binary());
            command.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0"]);
            let (node, url) = crate::announced(
                command.args(["--allow-null", "--allow-memory", "4GiB", "--root"]).arg(&served),
            );
            (node, url.replacen("ftp://", "farline://", 1))
        }
        None => {
            let (node, url) = node(&served, "write", node_options);
            (node, url.replacen("ftp://", "farline://", 1))
        }
    };
    let mut command = match (&link, is_pinned) {
        (Some(link), _) => link.command("a", farline_binary()),
        (None, true) => {
            let mut command = Command::new("taskset");
            command.args(["-c", ours]).arg(farline_binary());
            command
        }
        (None, false) => farline(),
    };
    command.args(["--json", "cp"]);
    match cause.means {
        Means::Options(options) => drop(command.args(options)),
        Means::Buffer(_) => drop(command.args(["--streams", "2"])),
        _ => {}
    }
    let (landed, arrived) = (folder.join("landed"), format!("{url}/arrived"));
    let size = cause.size;
    match (cause.way, cause.means) {
        // No disk, which may be slower than what is left of a processor.
        (DataDirection::Out, _) if is_pinned => {
            command.args([&format!("memory:{size}"), &format!("{url}/?null")])
        }
        (DataDirection::Back, _) if is_pinned => {
            command.args([&format!("{url}/?memory={size}"), "null:"])
        }
        (_, Means::Feeder(_)) => command.args(["-", &arrived]),
        (_, Means::Taker(_)) => command.args([&format!("{url}/there"), "-"]),
        (DataDirection::Out, _) => command.arg(&here).arg(&arrived),
        (DataDirection::Back, _) => command.arg(format!("{url}/there")).arg(&landed),
    };
    let result = match cause.means {
        Means::Feeder(rate) => fed(&mut command, cause.size, rate),
        Means::Taker(rate) => taken(&mut command, rate),
        _ => {
            let output = command.output().expect("farline runs");
            serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{cause:?}: {error}: {output:?}"))
        }
    };
    drop(neighbours);
    for file in [&landed, &served.join("arrived")] {
        // Of the other way.
        let _ = std::fs::remove_file(file);
    }
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    assert!(result["error"].is_null() && result["bytes"] == cause.size, "{cause:?}: {result}");
    Some(Said {
        limit: text("limited_by"),
        party: text("limited_party"),
        evidence: text("limited_evidence"),
        seconds: result["seconds"].as_f64().unwrap_or_default(),
    })
}

/// Writes `size` bytes into the command at `rate` bytes a second.
fn fed(command: &mut Command, size: u64, rate: u64) -> Value {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("farline runs");
    let mut input = child.stdin.take().expect("a pipe");
    let (began, part) = (Instant::now(), vec![0x5a_u8; 64 << 10]);
    for written in (0..size).step_by(part.len()) {
        let due = Duration::from_secs_f64(written as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let len = part.len().min((size - written) as usize);
        input.write_all(&part[..len]).expect("it reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Takes what the command writes at `rate` bytes a second; its result comes on the other stream.
fn taken(command: &mut Command, rate: u64) -> Value {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("farline runs");
    let mut output = child.stdout.take().expect("a pipe");
    let (began, mut part, mut taken) = (Instant::now(), vec![0_u8; 64 << 10], 0_u64);
    loop {
        let read = output.read(&mut part).expect("a pipe");
        if read == 0 {
            break;
        }
        taken += read as u64;
        let due = Duration::from_secs_f64(taken as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    let mut said = String::new();
    let mut errors = child.stderr.take().expect("a pipe");
    errors.read_to_string(&mut said).expect("text");
    child.wait().expect("it ends");
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}
