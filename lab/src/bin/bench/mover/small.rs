//! Files of a kilobyte by the thousand, next to rsync's daemon and the Globus tools; and a million
//! of them, for the memory that they take.

use super::{Bench, GLOBUS_PORT, MIB, globus};
use crate::side::{Ends, Node, Server, number, timed};
use crate::table::{Results, heading, in_turns, row, side};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of each file.
pub(super) const FILE_LEN: usize = 1 << 10;
/// Files of one folder of the million.
const PER_FOLDER: usize = 1_000;
/// Where rsync's daemon listens.
const RSYNC_PORT: u16 = 2873;
const RSYNC: &str = "rsync to its daemon";
const GLOBUS: &str = "globus-url-copy to its own server";

impl Bench<'_> {
    /// 10,000 files on this host and over 50 ms.
    pub(super) fn small(&self) -> Result<()> {
        let source = self.space.join("small");
        make_files(&source, 10_000, usize::MAX)?;
        self.small_over(&Ends::Loopback, "0 ms", &source, (2.0, 2.0))?;
        let far = Ends::over("custom", &["--rate", "1Gbit/s", "--rtt", "50ms"])?;
        self.small_over(&far, "50 ms, 1 Gbit/s", &source, (3.0, 1.0))?;
        row(&far.validity()?, "", "");
        Ok(())
    }

    /// `asked` is how many times as fast as rsync and the Globus server this is to be.
    fn small_over(&self, ends: &Ends, path: &str, source: &Path, asked: (f64, f64)) -> Result<()> {
        heading(&format!("10,000 files of 1 KiB in memory, {path}"));
        let (nodes, _globus) = (self.nodes(ends, &[])?, globus(ends)?);
        let _rsync = self.rsync(ends)?;
        let from = format!("{}/", source.to_str().context("a path in UTF-8")?);
        let landed = format!("{}/", self.landed().display());
        let globus_url_copy = |server: &str| {
            let mut command = ends.a("globus-url-copy");
            command.args(["-cd", "-fast", "-pp", "-cc", "16", &format!("file://{from}"), server]);
            command
        };
        let mut sides = vec![side(RSYNC, || {
            let mut command = ends.a("rsync");
            command.args(["-rlpt", &from]);
            command.arg(format!("rsync://{}:{RSYNC_PORT}/all/landed/", ends.address()));
            self.time_of_tree(&mut command, source)
        })];
        sides.push(side(GLOBUS, || {
            let server = format!("ftp://{}:{GLOBUS_PORT}{landed}", ends.address());
            self.time_of_tree(&mut globus_url_copy(&server), source)
        }));
        for (name, node) in &nodes {
            sides.push(side(by_cp(name), || {
                let mut command = node.client(ends);
                command.args(["-q", "cp", "-r", &from, &node.url("landed/")]);
                self.time_of_tree(&mut command, source)
            }));
            sides.push(side(by_globus(name), || {
                let server = format!("ftp://{}/landed/", node.address);
                self.time_of_tree(&mut globus_url_copy(&server), source)
            }));
        }
        let results: Results<f64> = in_turns(self.runs, sides)?;
        for (theirs, asked, ours) in
            [(RSYNC, asked.0, &by_cp as &dyn Fn(&str) -> String), (GLOBUS, asked.1, &by_globus)]
        {
            let base = results.middle(theirs)?;
            row(theirs, &format!("{base:.2} s"), "");
            for (name, _) in &nodes {
                let time = results.middle(&ours(name))?;
                let value = format!("{time:.2} s, x {:.2} as fast", base / time);
                row(&ours(name), &value, &format!("asked: x {asked}"));
            }
        }
        Ok(())
    }

    /// `count` files in folders of a thousand, up: what memory either end takes.
    pub(super) fn many(&self, count: usize) -> Result<()> {
        heading(&format!("{count} files of 1 KiB in memory, 0 ms"));
        let source = self.space.join("many");
        make_files(&source, count, PER_FOLDER)?;
        let from = format!("{}/", source.to_str().context("a path in UTF-8")?);
        for (name, binary) in &self.binaries {
            // A node of its own: it tells the most memory that it ever took.
            let node = Node::start(&Ends::Loopback, binary, self.space, &[])?;
            let result = node.copy(&Ends::Loopback, &["-r", &from, &node.url("landed/")])?;
            let files = number(&result, "files")?;
            if files != count as f64 {
                bail!("{files} files of {count} were copied: {result}");
            }
            let mib = |bytes: f64| format!("{:.0} MiB", bytes / MIB as f64);
            let asked = "asked: at most 256 MiB";
            row(name, &format!("{:.1} s", number(&result, "seconds")?), "");
            row(&format!("{name}, memory here"), &mib(number(&result, "peak_rss_bytes")?), asked);
            row(&format!("{name}, memory at the node"), &mib(node.server.peak_memory()?), asked);
            fs::remove_dir_all(self.landed())?;
        }
        Ok(fs::remove_dir_all(source)?)
    }

    /// How long a command takes that copies the files of `source`, which must arrive as they are.
    pub(super) fn time_of_tree(&self, command: &mut Command, source: &Path) -> Result<f64> {
        fs::create_dir(self.landed())?;
        let elapsed = timed(command)?;
        let same = Command::new("diff").arg("-rq").arg(source).arg(self.landed()).status()?;
        if !same.success() {
            bail!("{command:?}: the copy differs");
        }
        fs::remove_dir_all(self.landed())?;
        Ok(elapsed.as_secs_f64())
    }

    /// rsync's daemon at the second end, with the bench's folder as its module `all`.
    fn rsync(&self, ends: &Ends) -> Result<Server> {
        let file: PathBuf = self.space.join("rsyncd.conf");
        let space = self.space.display();
        let text = "use chroot = no\nread only = no\nuid = root\ngid = root\n";
        fs::write(&file, format!("{text}[all]\npath = {space}\n"))?;
        let mut command = ends.b("rsync");
        command.args(["--daemon", "--no-detach", "--port", &RSYNC_PORT.to_string()]);
        command.args(["--address", ends.address()]).arg("--config").arg(file);
        Server::listening(ends, command, RSYNC_PORT)
    }
}

fn by_cp(farline: &str) -> String {
    format!("{farline} cp to its node")
}

fn by_globus(farline: &str) -> String {
    format!("globus-url-copy to {farline} serve")
}

/// `count` files of random bytes in `folder`, or in folders of it that hold no more than
/// `per_folder`.
pub(super) fn make_files(folder: &Path, count: usize, per_folder: usize) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    let bytes = farline_lab::files::random(7, FILE_LEN + count);
    for index in 0..count {
        let within = match per_folder < count {
            true => folder.join(format!("d{:05}", index / per_folder)),
            false => folder.to_owned(),
        };
        if index % per_folder == 0 {
            fs::create_dir_all(&within)?;
        }
        // No two are alike.
        fs::write(within.join(format!("f{index:07}")), &bytes[index..index + FILE_LEN])?;
    }
    Ok(())
}
