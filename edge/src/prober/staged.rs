//! Repetitions that ask what a store, a staging pool and a driver do: the mover itself, from one
//! side of a link to the other.

use super::ends::{failed, parse};
use super::role::{Trial, TrialCopy, TrialNode};
use crate::link::{Link, Side};
use farline_core::congestion::ControlName;
use farline_core::profile::{Cell, Grid, LimitedBy, Observed, Order, ProfileDriver, StagingStore};
use farline_core::transfer::Limit;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// What the node says first.
#[derive(Deserialize)]
struct Listening {
    address: std::net::SocketAddr,
    /// Of the certificate, where it offers TLS.
    fingerprint: Option<String>,
}

/// What the copy says at its end.
#[derive(Deserialize)]
struct Copied {
    bytes: u64,
    seconds: f64,
    rtt_seconds: f64,
    retransmits: u64,
    cpu_seconds: f64,
    encrypted: Option<bool>,
    data_path: Option<String>,
    /// Why another channel carried it than was asked for.
    channel_fallback: Option<String>,
    limited_by: Limit,
    samples: Vec<ByteSample>,
}

#[derive(Deserialize)]
struct ByteSample {
    t: f64,
    bytes: u64,
}

/// What a copy showed, how far apart its ends were, and how busy: the processor time of each in its
/// seconds, where the kernel tells.
pub(super) struct Observation {
    pub(super) observed: Observed,
    pub(super) rtt: Span,
    pub(super) cpu: Option<(f64, f64)>,
}

/// A folder for the files of both ends, and the last source in it.
#[derive(Debug)]
pub(super) struct ScratchDir {
    folder: PathBuf,
    source: Option<Bytes>,
}

impl ScratchDir {
    /// A new folder, private to this process, where temporary files go.
    pub(super) fn new() -> Result<ScratchDir, Error> {
        let folder = std::env::temp_dir().join(format!("farline-profile-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| failed("a folder for the files", &error))?;
        Ok(ScratchDir { folder, source: None })
    }

    /// A file of `bytes`: written, so that it has no holes to leap over.
    fn source(&mut self, bytes: Bytes) -> Result<PathBuf, Error> {
        let file = self.folder.join("source");
        if self.source != Some(bytes) {
            self.source = None;
            let write = || -> io::Result<()> {
                let mut out = File::create(&file)?;
                let (block, mut left) = (vec![0x5a; 1 << 20], bytes.0);
                while left > 0 {
                    let now = left.min(block.len() as u64);
                    out.write_all(&block[..now as usize])?;
                    left -= now;
                }
                out.sync_all()
            };
            write().map_err(|error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::CannotWrite,
                    format!("{}, of {bytes}: {error}", file.display()),
                )
                .hint("file cells need twice that space: set TMPDIR")
            })?;
            self.source = Some(bytes);
        }
        Ok(file)
    }

    /// Copies what `cell` moves in the grid's time over `link`, from side A to side B, with
    /// `congestion` as the kernel has it, where the cell's channel takes one.
    pub(super) fn copy(
        &mut self,
        link: &Link,
        program: Option<&Path>,
        grid: &Grid,
        cell: &Cell,
        congestion: Option<ControlName>,
    ) -> Result<Observation, Error> {
        let (Some(staged), Some(copies)) = (cell.staged, &grid.copies) else {
            return Err(Error::new(Fault::Bug, ErrorCode::ProfileStaged, "a cell without a store"));
        };
        let root = self.folder.join("landed");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).map_err(|error| failed("a folder for the files", &error))?;
        let bytes = cell.volume(grid.seconds);
        let source = match staged.store {
            StagingStore::Memory => format!("memory:{}", bytes.0).into(),
            StagingStore::File => self.source(bytes)?.into_os_string(),
        };
        let encrypts = staged.driver.is_encrypted();
        let node = Node::start(link, program, root.clone(), encrypts)?;
        let (scheme, address) = (if encrypts { "farlines" } else { "farline" }, node.address);
        let target = match staged.store {
            StagingStore::Memory => format!("{scheme}://{address}/?null"),
            StagingStore::File => format!("{scheme}://{address}/copy"),
        };
        let is_file = staged.store == StagingStore::File;
        let role = Trial::Copy(Box::new(TrialCopy {
            source,
            target,
            fingerprint: node.fingerprint.clone(),
            congestion,
            channel: staged.driver.channel().map(str::to_owned),
            streams: cell.streams,
            staging: staged.staging_bytes,
            window: cell.window_bytes,
            limit: grid.host_bps,
            in_turns: staged.order == Order::Synchronous,
            stall: is_file.then_some(copies.stall),
            read: is_file.then_some(copies.read_bps),
        }));
        let mut command = link.agent(Side::A, program, &role)?;
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| failed("a copy", &error))?;
        // What landed goes at once: the next repetition needs the space.
        let _ = fs::remove_dir_all(&root);
        let copied: Copied = parse(&String::from_utf8_lossy(&output.stdout))?;
        let way = copied.data_path.as_deref();
        let why = copied.channel_fallback.as_deref();
        check_channel(staged.driver, copied.encrypted, way, why)?;
        let receiver = node.processor_time().map(|time| time / copied.seconds);
        let seen = observation(grid, &copied)?;
        Ok(Observation {
            cpu: receiver.map(|receiver| (copied.cpu_seconds / copied.seconds, receiver)),
            ..seen
        })
    }
}

/// What the outcome of a copy shows of a repetition of `grid`, and how far apart its ends were.
///
/// # Errors
/// [`Fault::Here`] for one that was over too soon, [`Fault::Bug`] for what is no outcome.
pub(crate) fn observed(grid: &Grid, outcome: serde_json::Value) -> Result<(Observed, Span), Error> {
    let copied: Copied = serde_json::from_value(outcome)
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileStaged, error.to_string()))?;
    observation(grid, &copied).map(|found| (found.observed, found.rtt))
}

/// Refuses a copy that was made over another channel than `driver`, with `why` that was.
///
/// # Errors
/// Then, in the words of the copy.
pub(crate) fn check_channel(
    driver: ProfileDriver,
    encrypted: Option<bool>,
    way: Option<&str>,
    why: Option<&str>,
) -> Result<(), Error> {
    let is_way = driver.channel().is_none_or(|channel| way == Some(channel));
    if is_way && driver.is_encrypted() == (encrypted == Some(true)) {
        return Ok(());
    }
    let why = why.unwrap_or("the copy does not say why");
    Err(Error::new(
        Fault::There,
        ErrorCode::ProfileStaged,
        format!("a copy was not made over {}: {why}", driver.title()),
    )
    .hint(format!("leave it out of {}", Setting::Channel)))
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What arrived in equal intervals: the copy's own samples come when it has something to say.
fn observation(grid: &Grid, copied: &Copied) -> Result<Observation, Error> {
    let count = (copied.seconds / grid.sample_s).floor() as usize;
    if count == 0 || copied.bytes == 0 {
        return Err(Error::new(
            Fault::Here,
            ErrorCode::ProfileStaged,
            format!("a copy was over after {:.3} s", copied.seconds),
        )
        .hint(format!("give {}, so that there is more to copy", Setting::Seconds)));
    }
    let at = |t: f64| {
        let next = copied.samples.partition_point(|sample| sample.t < t);
        let before = next
            .checked_sub(1)
            .map_or((0.0, 0), |i| (copied.samples[i].t, copied.samples[i].bytes));
        let after = copied
            .samples
            .get(next)
            .map_or((copied.seconds, copied.bytes), |sample| (sample.t, sample.bytes));
        let share = if after.0 > before.0 {
            ((t - before.0) / (after.0 - before.0)).clamp(0.0, 1.0)
        } else {
            1.0
        };
        before.1 as f64 + share * (after.1.saturating_sub(before.1)) as f64
    };
    let sample = |i: usize| {
        (at((i + 1) as f64 * grid.sample_s) - at(i as f64 * grid.sample_s)) * 8.0 / grid.sample_s
    };
    let mean = copied.bytes as f64 * 8.0 / copied.seconds;
    let limited_by = match copied.limited_by {
        Limit::Cpu | Limit::Peer => LimitedBy::Cpu,
        Limit::DiskRead | Limit::DiskWrite | Limit::PipeRead | Limit::PipeWrite => LimitedBy::Store,
        Limit::ReceiverWindow => LimitedBy::ReceiverWindow,
        Limit::SendBuffer => LimitedBy::SendBuffer,
        _ => LimitedBy::Congestion,
    };
    let observed = Observed {
        samples: (0..count).map(sample).collect(),
        // A mover gives the next block to the channel that is free: shares are not its question,
        // and nobody looks at its windows.
        streams: Vec::new(),
        sender_bps: mean,
        sender_samples: Vec::new(),
        retransmits: copied.retransmits,
        reductions: None,
        timeouts: None,
        limited_by,
        losses: Vec::new(),
    };
    Ok(Observation { observed, rtt: Span::from_secs_f64(copied.rtt_seconds), cpu: None })
}

/// A node in side B for the time of one copy.
struct Node {
    child: Child,
    address: std::net::SocketAddr,
    fingerprint: Option<String>,
}

impl Node {
    fn start(link: &Link, program: Option<&Path>, root: PathBuf, tls: bool) -> Result<Node, Error> {
        let address = link.info().address(Side::B);
        let listen = format!("{address}:0").parse().map_err(|_| {
            Error::new(
                Fault::Bug,
                ErrorCode::ProfileStaged,
                format!("a side's address is {address}"),
            )
        })?;
        let role = Trial::Node(TrialNode { root, listen, tls });
        let mut command = link.agent(Side::B, program, &role)?;
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| failed("a node", &error))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|error| failed("a node", &error))?;
        }
        match parse::<Listening>(&line) {
            Ok(Listening { address, fingerprint }) => Ok(Node { child, address, fingerprint }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// The processor time of all its threads so far, in seconds: fields 14 and 15 of
    /// proc_pid_stat(5), in ticks of the clock.
    fn processor_time(&self) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name of the program, in brackets, may hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It has nothing to keep.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::congestion::Algorithm;

    #[test]
    fn odd_samples_become_even_ones_with_the_same_bytes() {
        let grid =
            Grid { sample_s: 0.5, ..Grid::new("custom", Vec::new(), vec![Algorithm::Cubic]) };
        let sample = |t, bytes| ByteSample { t, bytes };
        let copied = Copied {
            bytes: 4_000_000,
            seconds: 2.0,
            rtt_seconds: 0.03,
            retransmits: 7,
            cpu_seconds: 0.5,
            encrypted: Some(false),
            data_path: Some("direct".to_owned()),
            channel_fallback: None,
            limited_by: Limit::DiskRead,
            samples: vec![
                sample(0.2, 0),
                sample(0.9, 1_400_000),
                sample(1.7, 3_000_000),
                sample(2.0, 4_000_000),
            ],
        };
        let seen = observation(&grid, &copied).expect("a copy").observed;
        let bytes: f64 = seen.samples.iter().map(|bps| bps * grid.sample_s / 8.0).sum();
        assert_eq!(
            (seen.reductions, seen.timeouts, seen.streams.len()),
            (None, None, 0),
            "nobody measured these"
        );
        assert_eq!(
            (seen.samples.len(), bytes.round(), seen.limited_by),
            (4, 4e6, LimitedBy::Store)
        );
        assert!((seen.samples[0] * 0.5 / 8.0 - 600_000.0).abs() < 1.0, "{:?}", seen.samples);
        assert!(
            super::observation(&grid, &Copied { seconds: 0.2, ..copied }).is_err(),
            "too short for a sample"
        );
    }
}
