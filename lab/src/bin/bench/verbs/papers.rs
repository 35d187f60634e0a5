//! What ADTS measured with RDMA: against TCP by distance, with staging, and with its traces.

use super::{Bench, Guest, MIB, moving, steady};
use crate::side::{Node, RateAndCpu, number, random_file};
use crate::table::{heading, in_turns, median, row, side};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

impl Bench<'_> {
    pub(super) fn tcp(&self) -> Result<()> {
        heading(
            "TCP against RDMA on the same wire (ADTS, figure 7): rate, and processor seconds of \
             both ends for a Gbit",
        );
        let node = self.node()?;
        let measured = |copy: &dyn Fn() -> Result<Value>| -> Result<RateAndCpu> {
            let before = node.server.cpu()?;
            let result = copy()?;
            let cpu = number(&result, "cpu_seconds")? + node.server.cpu()? - before;
            let gigabits = number(&result, "bytes")? * 8.0 / 1e9;
            Ok(RateAndCpu { rate: steady(&result)?, cpu: cpu / gigabits })
        };
        let (memory, null) = (format!("memory:{}", self.long()), node.url("?null"));
        let by_tcp = || node.copy(&self.ends, &["--verify", "none", &memory, &null]);
        let by_rdma = || self.by_rdma(&node, self.long(), "rdma");
        for rtt in [1.0, 2.0, 5.0, 10.0, 20.0] {
            self.delay(rtt);
            let sides =
                vec![side("tcp", || measured(&by_tcp)), side("rdma", || measured(&by_rdma))];
            let results = in_turns(self.runs, sides)?;
            let rate = |name: &str| results.median(name, |run| run.rate);
            let said = |name: &str| -> Result<String> {
                let cpu = results.median(name, |run| run.cpu)?;
                Ok(format!("{:.1} MB/s, {cpu:.2} s a Gbit", rate(name)? / 1e6))
            };
            let ratio = rate("rdma")? / rate("tcp")?;
            let value = format!("RDMA {}, rate x {ratio:.2}", said("rdma")?);
            row(&format!("{rtt} ms RTT: TCP {}", said("tcp")?), &value, "");
        }
        Ok(())
    }

    pub(super) fn staging(&self) -> Result<()> {
        // MiB; those of the paper where a guest is fast enough for files twice as large.
        let pools: &[u64] = match self.guest {
            Guest::Debian => &[4, 8, 16, 32],
            Guest::Uml => &[4, 8, 16, 32, 64, 128],
        };
        for rtt in [1.0, 10.0] {
            self.delay(rtt);
            let node = self.node()?;
            // The store is slower than the wire, a run sees several of its pauses, and its second
            // half finds every slot touched.
            let store = steady(&self.by_rdma(&node, self.long(), "rdma")?)? / 2.0;
            let size = ((store * 4.0) as u64 / MIB).max(2 * pools.last().copied().unwrap_or(1));
            heading(&format!(
                "file to file, {size} MiB at {rtt} ms RTT, a store of {:.0} MB/s (half of what \
                 the wire carries) that stalls 50 ms in every second (ADTS, figures 8 and 9)",
                store / 1e6
            ));
            let piece = self.source("piece", size * MIB)?;
            let sides = pools.iter().flat_map(|&pool| {
                let (node, piece) = (&node, &piece);
                [true, false].map(|turns| {
                    let run = move || self.staged(node, piece, store, pool, turns);
                    side(staged_name(pool, turns), run)
                })
            });
            let results = in_turns(self.runs, sides.collect())?;
            fs::remove_file(&piece)?;
            let all = |turns: bool| {
                median(
                    pools
                        .iter()
                        .flat_map(|&pool| results.of(&staged_name(pool, turns)).iter().copied()),
                )
            };
            for &pool in pools {
                for turns in [true, false] {
                    let name = staged_name(pool, turns);
                    let rate = results.middle(&name)? / 1e6;
                    row(&format!("staging {name}"), &format!("{rate:.1} MB/s"), "");
                }
            }
            let ratio = format!("x {:.2}", all(false)? / all(true)?);
            let label = "asynchronous against synchronous, median of all sizes";
            row(label, &ratio, "asked: faster");
        }
        Ok(())
    }

    fn staged(
        &self,
        node: &Node,
        piece: &Path,
        store: f64,
        pool: u64,
        in_turns: bool,
    ) -> Result<f64> {
        let (read, pool) = (format!("{:.0}bit/s", store * 8.0), format!("{pool}MiB"));
        let mut arguments = vec!["--channel", "rdma", "--verify", "none"];
        arguments.extend(["--trial-stall", "50ms/1s", "--trial-read", &read, "--staging", &pool]);
        if in_turns {
            arguments.push("--trial-in-turns");
        }
        let target = node.url("landed");
        arguments.extend([piece.to_str().context("a path in UTF-8")?, &target]);
        let rate = steady(&node.copy(&self.ends, &arguments)?)?;
        fs::remove_file(self.root().join("landed"))?;
        Ok(rate)
    }

    pub(super) fn traces(&self) -> Result<()> {
        // Name, round-trip time in ms, files, bytes of each: a guest without KVM would take an hour
        // for those of the paper.
        let traces = match self.guest {
            Guest::Debian => [("CCSM", 30.0, 4, 16 * MIB), ("Ultravis", 80.0, 1, 64 * MIB)],
            Guest::Uml => [("CCSM", 30.0, 4, 256 * MIB), ("Ultravis", 80.0, 1, 2_600_000_000)],
        };
        for (name, rtt, count, size) in traces {
            heading(&format!(
                "{name} at {rtt} ms (ADTS, figure 10: 256 MiB files of CCSM, 2.6 GB files of \
                 Ultravis): {count} x {:.0} MB",
                size as f64 / 1e6
            ));
            self.delay(rtt);
            let folder = self.space.join("trace");
            fs::create_dir_all(&folder)?;
            if count > 1 {
                for number in 0..count {
                    self.source(&format!("trace/{number}"), size)?;
                }
            }
            let node = self.node()?;
            let from = format!("{}/", folder.display());
            let run = |channel: &str| -> Result<f64> {
                if count == 1 {
                    let (memory, null) = (format!("memory:{size}"), node.url("?null"));
                    let arguments = ["--channel", channel, &memory, &null];
                    return moving(&node.copy(&self.ends, &arguments)?);
                }
                let arguments = ["--channel", channel, "-r", &from, &node.url("landed")];
                let rate = moving(&node.copy(&self.ends, &arguments)?)?;
                // The guest's disk is memory.
                fs::remove_dir_all(self.root().join("landed"))?;
                Ok(rate)
            };
            let sides = vec![side("tcp", || run("tcp")), side("rdma", || run("rdma"))];
            let results = in_turns(self.runs, sides)?;
            let (tcp, rdma) = (results.middle("tcp")?, results.middle("rdma")?);
            row("TCP", &format!("{:.1} MB/s", tcp / 1e6), "");
            let value = format!("{:.1} MB/s, x {:.2}", rdma / 1e6, rdma / tcp);
            row("RDMA", &value, "ADTS: RDMA more than 2 x IPoIB");
            fs::remove_dir_all(&folder)?;
        }
        Ok(())
    }

    /// A file of random bytes.
    fn source(&self, name: &str, size: u64) -> Result<PathBuf> {
        let path = self.space.join(name);
        random_file(&path, size)?;
        Ok(path)
    }
}

fn staged_name(pool: u64, in_turns: bool) -> String {
    match in_turns {
        true => format!("{pool} MiB, in turns (synchronous)"),
        false => format!("{pool} MiB, at once (asynchronous)"),
    }
}
