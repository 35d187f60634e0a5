//! Two RDMA devices with a wire between them, a node at the far one, and copies whose blocks verbs
//! must have carried.

use super::tap::{Pair, Tap};
use farline_lab::files::random;
use farline_lab::{Running, announced, farline, json_of, succeed};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use tempfile::TempDir;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const CALM: &str = "delay 0ms";
const WHY: &str = "two RDMA devices, as lab/verbs makes them in the guest: make lab";
/// The most that a packet carries over InfiniBand and RoCE.
const MOST_PAYLOAD: u64 = 4_096;

/// An end of the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Near,
    Far,
}

impl End {
    fn letter(self) -> char {
        if self == End::Near { 'a' } else { 'b' }
    }

    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 1, if self == End::Near { 1 } else { 2 })
    }

    pub(crate) fn interface(self) -> String {
        format!("v{}", self.letter())
    }

    pub(crate) fn device(self) -> String {
        device(&self.letter().to_string())
    }

    pub(crate) fn other(self) -> End {
        if self == End::Near { End::Far } else { End::Near }
    }

    /// What its device has counted; soft-iWARP counts nothing.
    pub(crate) fn counted(self, what: &str) -> u64 {
        let path = format!("/sys/class/infiniband/{}/ports/1/hw_counters/{what}", self.device());
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; {WHY}"));
        text.trim().parse().expect("a number")
    }

    /// Packets of all kinds that the weather has taken from those that it sent.
    pub(crate) fn lost(self) -> u64 {
        let said = json_of(Command::new("tc").args([
            "-s",
            "-j",
            "qdisc",
            "show",
            "dev",
            &self.interface(),
        ]));
        said[0]["drops"].as_u64().unwrap_or_else(|| panic!("no count: {said}"))
    }
}

pub(crate) fn is_iwarp() -> bool {
    std::env::var_os("GUEST_RDMA").is_some_and(|kind| kind == "siw")
}

/// A device of this guest's kind.
pub(crate) fn device(suffix: &str) -> String {
    format!("{}{suffix}", if is_iwarp() { "si" } else { "rx" })
}

pub(crate) fn add_device(name: &str, interface: &str) {
    let kind = if is_iwarp() { "siw" } else { "rxe" };
    succeed(Command::new("rdma").args(["link", "add", name, "type", kind, "netdev", interface]));
}

pub(crate) fn ip(words: &str) {
    succeed(Command::new("ip").args(words.split(' ')));
}

/// What the wire does from now on, in the words of netem.
pub(crate) fn weather(netem: &str) {
    for end in [End::Near, End::Far] {
        let words =
            format!("qdisc replace dev {} root netem limit 100000 {netem}", end.interface());
        succeed(Command::new("tc").args(words.split(' ')));
    }
}

/// Two devices with a wire between them, once for all tests of this process.
pub(crate) fn wire() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        succeed(
            Command::new("lab/verbs").current_dir(
                Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository"),
            ),
        );
    });
}

/// A node at the other end of the wire.
pub(crate) fn far_node(root: &Path, more: &[&str]) -> (Running, String) {
    std::fs::create_dir_all(root).expect("a folder");
    let mut command = farline();
    command
        .args(["--json", "serve", "--anonymous", "write", "--listen", "10.9.1.2:0", "--root"])
        .arg(root)
        .args(more);
    let (running, url) = announced(&mut command);
    (running, url.replacen("ftp://", "farline://", 1))
}

pub(crate) fn plant(path: &Path, len: usize) {
    std::fs::write(path, random(len as u64, len)).expect("written");
}

pub(crate) fn assert_same(a: &Path, b: &Path) {
    assert!(
        std::fs::read(a).expect("read") == std::fs::read(b).expect("read"),
        "{} and {} differ",
        a.display(),
        b.display()
    );
}

pub(crate) fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

/// What verbs carried of a copy.
#[derive(Debug)]
pub(crate) struct Carried {
    /// By each queue pair that carried blocks.
    pub(crate) pairs: Vec<Pair>,
}

impl Carried {
    /// Packets that were sent again although they had come through.
    pub(crate) fn again(&self) -> usize {
        self.pairs.iter().map(Pair::again).sum()
    }

    /// The largest payload of a packet.
    pub(crate) fn largest(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.largest).max().unwrap_or(0)
    }
}

/// The proof that verbs carry a copy, from before it begins.
#[derive(Debug)]
pub(crate) struct Proof {
    tap: Tap,
    sender: End,
    packets: u64,
}

impl Proof {
    /// That `sender` sends by verbs.
    pub(crate) fn of(sender: End) -> Proof {
        let packets = if is_iwarp() { 0 } else { sender.counted("sent_pkts") };
        Proof { tap: Tap::new(), sender, packets }
    }

    /// Verbs carried `bytes` since: the sender's device counted their packets, the wire saw them go
    /// to queue pairs, and what TCP carried besides is a control connection's.
    #[track_caller]
    pub(crate) fn holds(self, bytes: u64) -> Carried {
        let seen = self.tap.seen();
        let carried = Carried { pairs: seen.pairs(self.sender.address()) };
        let found: u64 = carried.pairs.iter().map(|pair| pair.bytes).sum();
        assert!(
            found >= bytes,
            "{bytes} bytes, of which verbs carried {found}, TCP {}",
            seen.tcp_bytes()
        );
        assert!(
            seen.tcp_bytes() < 200_000 + bytes / 8,
            "{bytes} bytes, and {} by TCP",
            seen.tcp_bytes()
        );
        if !is_iwarp() {
            let packets = self.sender.counted("sent_pkts") - self.packets;
            assert!(
                packets >= bytes / MOST_PAYLOAD,
                "{bytes} bytes in {packets} packets of {}",
                self.sender.device()
            );
        }
        carried
    }
}

/// Runs a `farline --json cp` to the end that `sender` is not, which verbs must have carried.
#[track_caller]
pub(crate) fn by_verbs(command: &mut Command, sender: End) -> (Value, Carried) {
    let proof = Proof::of(sender);
    let result = json_of(command);
    assert_eq!(result["data_path"], "rdma", "{result}");
    let carried = proof.holds(result["bytes"].as_u64().expect("a number"));
    (result, carried)
}

/// Copies, which verbs must have carried, and says whole what was.
#[track_caller]
pub(crate) fn copy(args: &[&str]) -> (Value, Carried) {
    let sender = if args.last().is_some_and(|to| to.starts_with("farline://")) {
        End::Near
    } else {
        End::Far
    };
    let (result, carried) = by_verbs(farline().args(["--json", "cp"]).args(args), sender);
    assert_eq!(result["verified"], true, "{result}");
    (result, carried)
}

/// Copies by a command that asks for RDMA, which must come about by TCP; returns what was said
/// of it.
#[track_caller]
pub(crate) fn by_tcp_instead(command: &mut Command) -> String {
    let result = json_of(command);
    assert_eq!(
        (&result["data_path"], &result["verified"]),
        (&"direct".into(), &true.into()),
        "{result}"
    );
    let notes = notes(&result);
    assert_eq!(notes.matches("over TCP instead of RDMA").count(), 1, "{notes}");
    notes
}

/// A copy of twelve mebibytes to a node at the far end, of which something can be seen on its way.
pub(crate) struct SlowCopy {
    pub(crate) running: Running,
    pub(crate) node: Running,
    pub(crate) url: String,
    pub(crate) root: PathBuf,
    pub(crate) source: PathBuf,
    _dir: TempDir,
}

impl SlowCopy {
    /// Begins it with `more` arguments, and the proof that verbs carry it.
    pub(crate) fn begun(more: &[&str]) -> (SlowCopy, Proof) {
        wire();
        let dir = tempfile::tempdir().expect("a folder");
        let (source, root) = (dir.path().join("source"), dir.path().join("root"));
        plant(&source, 12 * MIB);
        let (node, url) = far_node(&root, &[]);
        let proof = Proof::of(End::Near);
        let mut command = farline();
        command
            .args(["--json", "cp", "--limit", "4M"])
            .args(more)
            .arg(&source)
            .arg(format!("{url}/there"));
        let running = Running(command.stdout(Stdio::piped()).spawn().expect("farline runs"));
        (SlowCopy { running, node, url, root, source, _dir: dir }, proof)
    }
}

pub(crate) fn is_running(copying: &mut Running) -> bool {
    copying.0.try_wait().expect("it is ours").is_none()
}
