//! The mover against iperf3, globus-url-copy and rsync, and against another Farline.

mod again;
mod files;
mod identities;
mod memory;
mod small;
mod staging;
mod traces;

use crate::side::{Ends, Node, Server, binary, random_file, timed};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Another farline, such as the version before, whose figures stand next to this one's
    #[arg(long, value_name = "FARLINE")]
    against: Option<PathBuf>,
    /// Files of `many`
    #[arg(long, default_value_t = 1_000_000)]
    files: usize,
    /// What to measure [default: all but `many`, `again` and `identities`]
    rows: Vec<Row>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Row {
    /// Memory to null over loopback, one channel, by what is checked
    Memory,
    /// 1 GiB file to file over usn-1400, then `small`
    Files,
    /// 10,000 files of 1 KiB at 0 and 50 ms
    Small,
    /// A million files of 1 KiB, for the memory that they take: 10 GB of it for the files
    Many,
    /// The same over usn-8600, and 8 GiB memory to memory
    Far,
    /// A tree that has landed once more: 100,000 files at 0 ms, 10,000 at 50 ms
    Again,
    /// 4 GiB, and 10,000 files of 1 KiB, as somebody with limits next to as nobody
    Identities,
    /// The files of ADTS, figure 10
    Traces,
    /// A source that stalls, by size of the staging pool (ADTS, figures 8 and 9)
    Staging,
}

const ALL: [Row; 5] = [Row::Memory, Row::Files, Row::Far, Row::Traces, Row::Staging];
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Where globus-gridftp-server listens.
pub(crate) const GLOBUS_PORT: u16 = 2898;

/// Prints the rows that were asked for.
///
/// # Errors
/// When a part of one fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let space = tempfile::tempdir_in("/dev/shm").context("a folder in memory")?;
    let bench = Bench { runs: options.runs, space: space.path(), binaries: binaries(options)? };
    let rows = if options.rows.is_empty() { &ALL[..] } else { &options.rows };
    for row in rows {
        match row {
            Row::Memory => bench.memory()?,
            Row::Files => {
                bench.files("usn-1400", 1.2)?;
                bench.small()?;
            }
            Row::Small => bench.small()?,
            Row::Many => bench.many(options.files)?,
            Row::Again => bench.again()?,
            Row::Far => {
                bench.files("usn-8600", 2.0)?;
                bench.far()?;
            }
            Row::Identities => bench.identities()?,
            Row::Traces => bench.traces()?,
            Row::Staging => bench.staging()?,
        }
    }
    Ok(())
}

/// Every Farline that is measured, with the name that its sides have.
fn binaries(options: &Options) -> Result<Vec<(String, PathBuf)>> {
    let mut binaries = vec![("farline".to_owned(), binary())];
    if let Some(other) = &options.against {
        let other = other.canonicalize().with_context(|| other.display().to_string())?;
        binaries.push(("the other farline".to_owned(), other));
    }
    Ok(binaries)
}

struct Bench<'a> {
    runs: usize,
    /// A folder in memory.
    space: &'a Path,
    binaries: Vec<(String, PathBuf)>,
}

impl Bench<'_> {
    /// A node of each Farline, with the name of its sides.
    fn nodes(&self, ends: &Ends, more: &[&str]) -> Result<Vec<(&str, Node)>> {
        let start = |binary| Node::start(ends, binary, self.space, more);
        self.binaries.iter().map(|(name, binary)| Ok((name.as_str(), start(binary)?))).collect()
    }

    /// A file of random bytes in memory, its pages touched.
    fn source(&self, name: &str, size: u64) -> Result<PathBuf> {
        let path = self.space.join(name);
        if !path.exists() {
            random_file(&path, size)?;
        }
        Ok(path)
    }

    /// Makes the machine give us memory now, not while a clock runs.
    fn touch(&self, size: u64) -> Result<()> {
        let path = self.space.join("touch");
        let mut file = File::create(&path)?;
        for _ in 0..size / MIB {
            file.write_all(&[0; MIB as usize])?;
        }
        Ok(fs::remove_file(path)?)
    }

    /// Where a copy lands; nothing is there afterwards.
    fn landed(&self) -> PathBuf {
        self.space.join("landed")
    }

    /// A copy of a file by Farline, whose bytes must be the same.
    fn copy_file(&self, node: &Node, ends: &Ends, path: &Path) -> Result<Value> {
        let path_text = path.to_str().context("a path in UTF-8")?;
        let result = node.copy(ends, &[path_text, &node.url("landed")])?;
        self.take_away(path)?;
        Ok(result)
    }

    /// The same by globus-url-copy; bit/s.
    fn copy_by_globus(&self, ends: &Ends, streams: u32, path: &Path) -> Result<f64> {
        let mut command = ends.a("globus-url-copy");
        command.args(["-p", &streams.to_string(), "-fast", &format!("file://{}", path.display())]);
        command.arg(self.globus_url(ends));
        let elapsed = timed(&mut command)?;
        self.take_away(path)?;
        Ok(fs::metadata(path)?.len() as f64 * 8.0 / elapsed.as_secs_f64())
    }

    fn globus_url(&self, ends: &Ends) -> String {
        format!("ftp://{}:{GLOBUS_PORT}{}", ends.address(), self.landed().display())
    }

    fn take_away(&self, source: &Path) -> Result<()> {
        if !Command::new("cmp").arg("-s").arg(source).arg(self.landed()).status()?.success() {
            bail!("the copy of {} has other bytes", source.display());
        }
        Ok(fs::remove_file(self.landed())?)
    }
}

/// A globus-gridftp-server at the second end.
///
/// # Errors
/// When it does not listen.
pub(crate) fn globus(ends: &Ends) -> Result<Server> {
    let mut command = ends.b("globus-gridftp-server");
    command.args(["-p", &GLOBUS_PORT.to_string(), "-aa", "-anonymous-user", "root"]);
    command.args(["-allow-root", "-home-dir", "/", "-log-level", "NONE"]);
    command.args(["-data-interface", ends.address(), "-control-interface", ends.address()]);
    Server::listening(ends, command, GLOBUS_PORT)
}
