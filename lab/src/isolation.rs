//! What keeps a test run to itself: a run directory and names that no other run on this machine
//! uses, also not a Farline that serves next to it.

use crate::{farline_binary, turns};
use farline::run_dir::VARIABLE;
use farline_core::units::Rng;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const PREFIX: &str = "farline-test-";

/// This run: its directory, whose name ends with the run's own five characters.
struct Run {
    folder: PathBuf,
    /// Held as long as this process lives: who finds it free clears away what the run left.
    _lock: File,
}

fn run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let base = std::env::temp_dir();
        clear_away(&base);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = now.map_or(0, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 40;
        let mut rng = Rng::new(seed);
        let digit = || {
            let digits = b"abcdefghijklmnopqrstuvwxyz0123456789";
            char::from(digits[(rng.next_u64() % digits.len() as u64) as usize])
        };
        let id: String = std::iter::repeat_with(digit).take(5).collect();
        let folder = base.join(format!("{PREFIX}{id}"));
        // Any user's farline reads there who holds what.
        DirBuilder::new().mode(0o755).create(&folder).expect("a run directory");
        let lock = File::create(folder.join("lock")).expect("a lock");
        lock.lock().expect("nobody else knows of it");
        Run { folder, _lock: lock }
    })
}

/// The run directory of this test run.
pub fn run_dir() -> &'static Path {
    &run().folder
}

/// The five characters that names of this run have in them.
fn id() -> &'static str {
    let name = run().folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.strip_prefix(PREFIX).unwrap_or_default()
}

/// `name` as this run's own: for what all of the machine sees, such as a link or a network
/// namespace.
pub fn own_name(name: &str) -> String {
    format!("{name}-{}", id())
}

/// The same for a congestion control, whose name has at most 15 characters: `name` has up to eight.
///
/// # Panics
/// When `name` is longer.
pub fn own_control(name: &str) -> String {
    assert!(name.len() <= 8, "{name} is too long");
    format!("t{}_{name}", id())
}

/// A command that runs `program`; a `farline` that comes of it has this run's directory.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    turns::enter();
    let mut command = Command::new(program);
    command.env(VARIABLE, run_dir());
    // What one test saw of a path is nothing to the next; those of it have a folder of their own.
    command.env("FARLINE_FRESH_START", "1");
    // Tests of faults look at each; those of retries say how long.
    command.env("FARLINE_RETRY_FOR", "0");
    command
}

/// Takes back what runs left that were killed: their links, namespaces, controls and directories.
fn clear_away(base: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let folder = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix(PREFIX).filter(|id| id.len() == 5) else { continue };
        let ours = fs::metadata(&folder).is_ok_and(|metadata| metadata.uid() == user);
        // A run that begins has no lock yet, for a moment.
        let Ok(lock) = File::open(folder.join("lock")) else { continue };
        if !ours || lock.try_lock().is_err() {
            continue;
        }
        let quietly = |command: &mut Command| {
            // Gone already is as good.
            let _ = command
                .env(VARIABLE, &folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        };
        let names = |folder: &Path, ending: &str| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .filter_map(|entry| {
                    Some(entry.file_name().to_str()?.strip_suffix(ending)?.to_owned())
                })
                .collect()
        };
        for link in names(&folder.join("link"), ".json") {
            quietly(Command::new(farline_binary()).args(["link", "down", &link]));
        }
        for space in names(Path::new("/run/netns"), "").iter().filter(|name| name.contains(id)) {
            quietly(Command::new("ip").args(["netns", "del", space]));
        }
        let pins = names(Path::new("/sys/fs/bpf/farline"), "");
        for control in pins.iter().filter(|pin| pin.contains(id) && !pin.ends_with("-events")) {
            quietly(Command::new(farline_binary()).args(["cc", "unload", control]));
        }
        // Lists, and clears away what killed processes held without a link.
        quietly(Command::new(farline_binary()).args(["cc", "ls"]));
        let _ = fs::remove_dir_all(&folder);
    }
}
