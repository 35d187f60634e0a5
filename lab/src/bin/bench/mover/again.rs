//! Trees that have landed, once more: unchanged, and after a kill when half had landed.

use super::Bench;
use super::small::{FILE_LEN, make_files};
use crate::side::{Ends, Node, json, number};
use crate::table::{Results, heading, in_turns, median, row, side};
use anyhow::{Context, Result, ensure};
use farline_lab::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files of the large tree, and of one folder in it.
const MANY: usize = 100_000;
const PER_FOLDER: usize = 1_000;
/// Files of the tree that goes over a path.
const FAR: usize = 10_000;
/// A copy is killed when so much of its tree has landed.
const LANDED: usize = MANY / 2;
/// The copy that is killed goes no faster: in memory all would be at the node by then, which would
/// land it without its client.
const KILLED_AT: &str = "200M";
/// How long that may take.
const LONGEST: Duration = Duration::from_secs(600);

/// Which way a tree is synchronised.
#[derive(Clone, Copy)]
enum SyncDirection {
    Up,
    Down,
}

impl Bench<'_> {
    /// 100,000 files on this host, 10,000 over 50 ms.
    pub(super) fn again(&self) -> Result<()> {
        let many = self.space.join("landed-many");
        make_files(&many, MANY, PER_FOLDER)?;
        self.unchanged(&Ends::Loopback, "0 ms", &many, "asked: no data")?;
        self.killed(&many)?;
        fs::remove_dir_all(many)?;
        let far = self.space.join("landed-far");
        make_files(&far, FAR, usize::MAX)?;
        let path = Ends::over("custom", &["--rate", "1Gbit/s", "--rtt", "50ms"])?;
        self.unchanged(&path, "50 ms, 1 Gbit/s", &far, "asked: no data, under 1 s")?;
        row(&path.validity()?, "", "");
        Ok(fs::remove_dir_all(far)?)
    }

    /// `sync` of a tree that has landed as it is, either way.
    fn unchanged(&self, ends: &Ends, path: &str, source: &Path, asked: &str) -> Result<()> {
        let count = count_of(source)?;
        heading(&format!("sync of {count} unchanged files of 1 KiB in memory, {path}"));
        let nodes = self.nodes(ends, &[])?;
        let source = format!("{}/", source.to_str().context("a path in UTF-8")?);
        let (_, first) = nodes.first().context("a node")?;
        // The tree that both ends of each sync have.
        first.copy(ends, &["-r", &source, &first.url("landed/")])?;
        let mut sides = Vec::new();
        for (name, node) in &nodes {
            for way in [SyncDirection::Up, SyncDirection::Down] {
                let landed = node.url("landed/");
                let places = match way {
                    SyncDirection::Up => [source.clone(), landed],
                    SyncDirection::Down => [landed, source.clone()],
                };
                sides.push(side(called(name, way), move || {
                    json(node.client(ends).args(["--json", "sync"]).args(&places))
                }));
            }
        }
        let results: Results<Value> = in_turns(self.runs, sides)?;
        for (name, _) in &nodes {
            for way in [SyncDirection::Up, SyncDirection::Down] {
                let runs = results.of(&called(name, way));
                let figures = |figure| runs.iter().map(|run| number(run, figure)).collect();
                let (times, moved): (Result<Vec<f64>>, Result<Vec<f64>>) =
                    (figures("seconds"), figures("moved_bytes"));
                let value = format!("{:.2} s, {:.0} bytes", median(times?)?, median(moved?)?);
                row(&called(name, way), &value, asked);
            }
        }
        Ok(fs::remove_dir_all(self.landed())?)
    }

    /// `cp -r` that is killed when half has landed, and the same command again: of what had landed
    /// nothing comes again.
    fn killed(&self, source: &Path) -> Result<()> {
        heading(&format!(
            "cp -r of {MANY} files of 1 KiB, killed when {LANDED} have landed, again"
        ));
        let from = format!("{}/", source.to_str().context("a path in UTF-8")?);
        for (name, binary) in &self.binaries {
            let node = Node::start(&Ends::Loopback, binary, self.space, &[])?;
            let to = node.url("landed/");
            let mut command = node.client(&Ends::Loopback);
            command.args(["-q", "cp", "-r", "--limit", KILLED_AT, &from, &to]);
            let lacked = MANY - killed_at(&mut command, &self.landed(), LANDED)?;
            let result = node.copy(&Ends::Loopback, &["-r", &from, &to])?;
            let (moved, lacked) = (number(&result, "moved_bytes")?, (lacked * FILE_LEN) as f64);
            let seconds = number(&result, "seconds")?;
            let value = format!("{seconds:.2} s, {moved:.0} of {lacked:.0} bytes");
            let share = format!("x {:.2}", moved / lacked);
            row(&format!("{name}, of what had not landed: {value}"), &share, "at most x 1");
            let same = Command::new("diff").arg("-rq").arg(source).arg(self.landed()).status()?;
            ensure!(same.success(), "the copy differs");
            fs::remove_dir_all(self.landed())?;
        }
        Ok(())
    }
}

fn called(farline: &str, way: SyncDirection) -> String {
    match way {
        SyncDirection::Up => format!("{farline} sync to its node"),
        SyncDirection::Down => format!("{farline} sync from its node"),
    }
}

/// Kills a copy when `most` files have landed in `folder`; how many there are then.
fn killed_at(command: &mut Command, folder: &Path, most: usize) -> Result<usize> {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut running, began) = (Running(quiet.spawn()?), Instant::now());
    while count_of(folder)? < most {
        ensure!(running.0.try_wait()?.is_none(), "the copy was over before it could be killed");
        ensure!(began.elapsed() < LONGEST, "{most} files did not land");
        std::thread::sleep(Duration::from_millis(20));
    }
    let landed = count_of(folder)?;
    running.end(Signal::KILL);
    Ok(landed)
}

/// Files below `folder` that have their final names; none where there is no folder yet.
fn count_of(folder: &Path) -> Result<usize> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(0) };
    let mut count = 0;
    for entry in entries {
        let entry = entry?;
        count += match entry.file_type()?.is_dir() {
            true => count_of(&entry.path())?,
            false => usize::from(!entry.file_name().to_string_lossy().starts_with('.')),
        };
    }
    Ok(count)
}
