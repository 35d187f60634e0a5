//! Brings one cause about, and returns what `farline cp` says of its copy.

use super::{Cause, DataDirection, MachineUse, Means, Said};
use crate::link::LinkUp;
use crate::{Running, announced, farline, farline_binary, node};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Networks of links, to which a node may send for somebody elsewhere.
const NETWORKS: [&str; 5] =
    ["--third-party", "--third-party-net", "10.0.0.0/8", "--third-party-net", "fd00::/8"];

/// The processors of the client and of the node, where each has its own: those of a small machine,
/// or two of many.
const OURS: &str = "0";
const NODES: &str = "1";

/// A command that runs `farline` on one processor.
fn on_processor(processor: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", processor]).arg(farline_binary());
    command
}

/// Both ends of a copy.
struct Ends<'a> {
    cause: &'a Cause,
    folder: &'a Path,
    link: Option<LinkUp>,
}

impl Ends<'_> {
    /// The folder of the node.
    fn served(&self) -> PathBuf {
        self.folder.join("served")
    }

    /// What is copied, as a file of this host.
    fn source(&self) -> PathBuf {
        match self.cause.way {
            DataDirection::Out => self.folder.join("here"),
            DataDirection::Back => self.served().join("there"),
            DataDirection::Between => self.folder.join("sender/there"),
        }
    }

    /// What is copied to, likewise.
    fn landed(&self) -> PathBuf {
        match self.cause.way {
            DataDirection::Back => self.folder.join("landed"),
            _ => self.served().join("arrived"),
        }
    }

    /// Writes what is copied, but for what comes from a pipe or from nowhere.
    fn plant(&self) {
        for folder in [self.served(), self.folder.join("sender")] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let is_elsewhere = matches!(self.cause.means, Means::Feeder(_)) || self.cause.is_pinned();
        let size = if is_elsewhere { 0 } else { self.cause.size as usize };
        std::fs::write(self.source(), vec![0x5a_u8; size]).expect("a file");
    }

    /// Narrows the receiver's windows, where that is the cause.
    fn narrow(&self) {
        let (Means::Buffer(len), Some(link)) = (self.cause.means, &self.link) else { return };
        let side = if self.cause.way == DataDirection::Back { "a" } else { "b" };
        let limits = format!("net.ipv4.tcp_rmem=4096 131072 {len}");
        assert!(link.exec(side, &["sysctl", "-qw", &limits]).status.success(), "sysctl");
    }

    /// The node, and its URL.
    fn node(&self) -> (Running, String) {
        let options = match self.cause.means {
            Means::NodeOptions(options) => options,
            _ => &[],
        };
        let served = self.served();
        let (node, url) = match &self.link {
            Some(link) if self.cause.way == DataDirection::Between => {
                let options = [&NETWORKS, options].concat();
                (link.node(&served, &options), format!("ftp://{}-b:2811", link.name()))
            }
            Some(link) => (link.node(&served, options), format!("ftp://{}-b:2811", link.name())),
            None if self.cause.is_pinned() => {
                let mut command = on_processor(NODES);
                command.args(["--json", "serve", "--anonymous", "write", "--listen"]);
                command.args(["127.0.0.1:0", "--allow-null", "--allow-memory", "4GiB", "--root"]);
                announced(command.arg(&served))
            }
            None => node(&served, "write", options),
        };
        (node, url.replacen("ftp://", "farline://", 1))
    }

    /// The node that sends to the other one, and its URL, where there are two.
    fn sender(&self) -> Option<(Running, String)> {
        let link = self.link.as_ref().filter(|_| self.cause.way == DataDirection::Between)?;
        let mut command = link.farline("a", &["--json", "serve", "--anonymous", "read"]);
        command.args(NETWORKS).args(["--listen", "[::]:2812"]);
        if let Means::SenderOptions(options) = self.cause.means {
            command.args(options);
        }
        let running = announced(command.arg("--root").arg(self.folder.join("sender"))).0;
        Some((running, format!("farline://{}-a:2812", link.name())))
    }

    /// The copy, to the node at `url`, from the one at `sender` where there are two.
    fn copy(&self, url: &str, sender: Option<&str>) -> Command {
        let mut command = match (&self.link, self.cause.is_pinned()) {
            (Some(link), _) => link.command("a", farline_binary()),
            (None, true) => on_processor(OURS),
            (None, false) => farline(),
        };
        command.args(["--json", "cp"]);
        match self.cause.means {
            Means::Options(options) => drop(command.args(options)),
            Means::Buffer(_) => drop(command.args(["--streams", "2"])),
            // The lab's commands do not try again by themselves.
            Means::NodeAway(_) => drop(command.args(["--retry-for", "2min"])),
            _ => {}
        }
        let (size, arrived) = (self.cause.size, format!("{url}/arrived"));
        match (self.cause.way, self.cause.means) {
            // No disk, which may be slower than what is left of a processor.
            (DataDirection::Out, _) if self.cause.is_pinned() => {
                command.args([&format!("memory:{size}"), &format!("{url}/?null")])
            }
            (DataDirection::Back, _) if self.cause.is_pinned() => {
                command.args([&format!("{url}/?memory={size}"), "null:"])
            }
            (_, Means::Feeder(_)) => command.args(["-", &arrived]),
            (_, Means::Taker(_)) => command.args([&format!("{url}/there"), "-"]),
            (DataDirection::Out, _) => command.arg(self.source()).arg(&arrived),
            (DataDirection::Back, _) => command.arg(format!("{url}/there")).arg(self.landed()),
            (DataDirection::Between, _) => {
                command.args([&format!("{}/there", sender.unwrap_or_default()), &arrived])
            }
        };
        command
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
            let place = if cause.way == DataDirection::Between { "two" } else { "one" };
            let name = format!("{place}-{}-{}", cause.limit, cause.party).replace('_', "-");
            Some(LinkUp::up(&name, &arguments)?)
        }
    };
    let ends = Ends { cause, folder, link };
    ends.plant();
    ends.narrow();
    let neighbours = match cause.means {
        Means::Neighbours(count) => Some(Neighbours::on(OURS, count)),
        Means::NodesNeighbours(count) => Some(Neighbours::on(NODES, count)),
        _ => None,
    };
    let (mut node, url) = ends.node();
    let sender = ends.sender();
    let mut command = ends.copy(&url, sender.as_ref().map(|(_, url)| url.as_str()));
    let before = MachineUse::now();
    let result = match cause.means {
        Means::Feeder(rate) => fed(&mut command, cause.size, rate),
        Means::Taker(rate) => taken(&mut command, rate),
        Means::NodeAway(seconds) => {
            let child = command.stdout(Stdio::piped()).spawn().expect("farline runs");
            std::thread::sleep(Duration::from_secs(1));
            node.end(Signal::KILL);
            std::thread::sleep(Duration::from_secs(seconds));
            node = ends.node().0;
            said(&child.wait_with_output().expect("it ends").stdout, cause)
        }
        _ => said(&command.output().expect("farline runs").stdout, cause),
    };
    let others = before.until_now();
    drop((neighbours, node));
    // Of the next copy.
    let _ = std::fs::remove_file(ends.landed());
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    assert!(result["error"].is_null() && result["bytes"] == cause.size, "{cause:?}: {result}");
    Some(Said {
        limit: text("limited_by"),
        party: text("limited_party"),
        evidence: text("limited_evidence"),
        seconds: result["seconds"].as_f64().unwrap_or_default(),
        others,
    })
}

/// The document that a copy wrote.
fn said(stdout: &[u8], cause: &Cause) -> Value {
    serde_json::from_slice(stdout)
        .unwrap_or_else(|error| panic!("{cause:?}: {error}: {}", String::from_utf8_lossy(stdout)))
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
