//! What other programs took of this machine while a copy ran: a copy that they hold back says so
//! rightly, and names another cause than the one that was brought about.

use crate::run_dir;
use farline::run_dir::VARIABLE;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// From this part of all processors' time on a copy shares them with others. It is held against
/// every copy before anybody looks at what the copy said.
const PROCESSORS: f64 = 0.1;
/// The same of a disk, in bytes a second read and written past the page cache.
const DISK: f64 = 8.0 * (1 << 20) as f64;

/// What a process has taken so far, with its children that have ended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessUse {
    process: u32,
    parent: u32,
    /// Whether it bears this run's mark.
    is_marked: bool,
    /// Whether it has real-time priority (`chrt`), and so a processor before all who have not.
    is_realtime: bool,
    /// Of a processor.
    seconds: f64,
    /// Read from disks and written to them.
    bytes: u64,
}

/// What all processes have taken until a moment.
#[derive(Debug)]
pub struct MachineUse {
    at: Instant,
    processes: Vec<ProcessUse>,
    processors: usize,
    /// Seconds that the machine's own host kept from it.
    stolen: f64,
}

/// What others than a copy took of this machine while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForeignLoad {
    /// The part of all processors' time.
    pub processors: f64,
    /// Bytes a second of its disks.
    pub disk: f64,
}

impl ForeignLoad {
    /// Why a copy next to it says nothing of Farline; nothing where it does.
    pub fn disturbs(&self) -> Option<&'static str> {
        match (self.processors >= PROCESSORS, self.disk >= DISK) {
            (true, _) => Some("others had the processors"),
            (false, true) => Some("others had the disk"),
            (false, false) => None,
        }
    }
}

impl MachineUse {
    /// Of this moment.
    pub fn now() -> MachineUse {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
        let stolen = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<f64>().ok());
        let is_processor = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_numeric()))
        };
        MachineUse {
            at: Instant::now(),
            processes: processes(),
            processors: stat.lines().filter(is_processor).count().max(1),
            stolen: stolen.unwrap_or(0.0) / ticks_per_second(),
        }
    }

    /// What others took since then, who are all but this process, what it began, and what bears
    /// the mark of its run.
    pub fn until_now(&self) -> ForeignLoad {
        let now = MachineUse::now();
        let took = now.at.duration_since(self.at).max(Duration::from_millis(10)).as_secs_f64();
        let me = std::process::id();
        let (seconds, bytes) = foreign(me, &self.processes, &now.processes);
        let stolen = (now.stolen - self.stolen).max(0.0);
        ForeignLoad {
            processors: (seconds + stolen) / (took * now.processors as f64),
            disk: bytes / took,
        }
    }
}

/// Processor seconds and bytes that all but `me` and mine took between two moments. Who ended
/// meanwhile stands in what its parent has. Where this run has real-time priority, who has not only
/// has the processors that it leaves.
fn foreign(me: u32, before: &[ProcessUse], after: &[ProcessUse]) -> (f64, f64) {
    let sum = |all: &[ProcessUse]| {
        let ours = ours(me, all);
        let goes_first = all.iter().any(|one| one.process == me && one.is_realtime);
        let others = all.iter().filter(|one| !ours.contains(&one.process));
        others.fold((0.0, 0.0), |(seconds, bytes), one| {
            let has_taken = if goes_first && !one.is_realtime { 0.0 } else { one.seconds };
            (seconds + has_taken, bytes + one.bytes as f64)
        })
    };
    let (before, after) = (sum(before), sum(after));
    ((after.0 - before.0).max(0.0), (after.1 - before.1).max(0.0))
}

/// This process, all that bears its run's mark, and what those began.
fn ours(me: u32, all: &[ProcessUse]) -> BTreeSet<u32> {
    let marked = all.iter().filter(|one| one.is_marked).map(|one| one.process);
    let mut ours: BTreeSet<u32> = marked.chain([me]).collect();
    loop {
        let known = ours.len();
        let is_child = |one: &&ProcessUse| ours.contains(&one.parent);
        let children: Vec<u32> = all.iter().filter(is_child).map(|one| one.process).collect();
        ours.extend(children);
        if ours.len() == known {
            return ours;
        }
    }
}

/// All processes but the kernel's own threads, which work for whoever there is.
fn processes() -> Vec<ProcessUse> {
    const KTHREADD: u32 = 2;
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = numbers.filter_map(process);
    found.filter(|one| ![one.process, one.parent].contains(&KTHREADD)).collect()
}

/// What one process has taken; nothing of one that is gone.
fn process(process: u32) -> Option<ProcessUse> {
    let folder = Path::new("/proc").join(process.to_string());
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // proc_pid_stat(5): behind the name in parentheses stand the state, the parent and, from the
    // twelfth on, utime, stime, cutime and cstime; the 39th is the policy, of which 1 and 2 are
    // real-time ones.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<f64>().unwrap_or(0.0));
    let io = std::fs::read_to_string(folder.join("io")).unwrap_or_default();
    let bytes = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0)
    };
    let mark = [VARIABLE.as_bytes(), b"=", run_dir().as_os_str().as_bytes()].concat();
    let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
    Some(ProcessUse {
        process,
        parent: fields.get(1)?.parse().ok()?,
        is_marked: environment.split(|&byte| byte == 0).any(|one| one == mark),
        is_realtime: fields.get(38).is_some_and(|policy| ["1", "2"].contains(policy)),
        seconds: times.sum::<f64>() / ticks_per_second(),
        bytes: bytes("read_bytes") + bytes("write_bytes"),
    })
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn took(process: u32, parent: u32, seconds: f64, bytes: u64) -> ProcessUse {
        let (is_marked, is_realtime) = (false, false);
        ProcessUse { process, parent, is_marked, is_realtime, seconds, bytes }
    }

    #[test]
    fn a_run_is_invalid_by_what_others_took_alone() {
        let load = |processors, disk| ForeignLoad { processors, disk }.disturbs();
        assert_eq!(load(0.02, 1e6), None);
        assert_eq!(load(0.5, 0.0), Some("others had the processors"));
        assert_eq!(load(0.02, 60e6), Some("others had the disk"));

        // This is 10: its copy (11), what that began (12) and a link that outlived its parent (20)
        // are its own; a shell (5) with a compiler (6) is not.
        let marked = |seconds| ProcessUse { is_marked: true, ..took(20, 1, seconds, 0) };
        let before = [took(1, 0, 1.0, 0), took(5, 1, 0.0, 0), took(10, 5, 1.0, 0), marked(3.0)];
        let busy = [
            took(1, 0, 1.0, 0),
            took(5, 1, 0.0, 0),
            took(10, 5, 2.0, 0),
            took(11, 10, 9.0, 1 << 30),
            took(12, 11, 9.0, 1 << 30),
            marked(8.0),
        ];
        assert_eq!(foreign(10, &before, &busy), (0.0, 0.0), "whatever a copy itself takes");
        let compiles = [&busy[..], &[took(6, 5, 4.0, 1 << 20)]].concat();
        assert_eq!(foreign(10, &before, &compiles), (4.0, f64::from(1 << 20)));
        // With real-time priority it goes first; the disk is everybody's all the same.
        let first = |all: &[ProcessUse]| {
            let mut all = all.to_vec();
            all.iter_mut().for_each(|one| one.is_realtime = one.process == 10);
            all
        };
        assert_eq!(foreign(10, &first(&before), &first(&compiles)), (0.0, f64::from(1 << 20)));
        // Who ended is counted with its parent, once.
        let ended = [took(1, 0, 1.0, 0), took(5, 1, 6.0, 2 << 20), took(10, 5, 2.0, 0)];
        assert_eq!(foreign(10, &compiles, &ended), (2.0, f64::from(1 << 20)));
    }

    #[test]
    fn a_busy_stranger_is_seen_and_a_busy_child_is_not() {
        let spin = || {
            let mut command = Command::new("timeout");
            command.args(["1", "sh", "-c", "while :; do :; done"]);
            command
        };
        let before = MachineUse::now();
        spin().status().expect("timeout runs");
        let after = processes();
        // The child ended, and stands in what this process has: to a stranger that is foreign.
        let to_us = foreign(std::process::id(), &before.processes, &after).0;
        let to_others = foreign(u32::MAX, &before.processes, &after).0;
        assert!(to_others - to_us > 0.3, "{to_us} s are others', with this one's {to_others} s");
    }
}
