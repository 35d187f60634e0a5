//! How fast blocks go: against perftest, by queue pairs, written or read.

use super::{Bench, Guest, MIB, moving, shown, steady};
use crate::side::number;
use crate::table::{heading, in_turns, median, row, side};
use anyhow::{Context, Result};
use serde_json::Value;

/// The part of ib_write_bw's rate that was asked for.
const ASKED: f64 = 0.85;

/// A figure of a copy.
type Figure = fn(&Value) -> Result<f64>;

/// What a side measured: a copy, or the rate of a peer where it did not fail.
enum Rates {
    Copy(Value),
    Peer(Option<f64>),
}

impl Rates {
    fn rate(&self, of: Figure) -> Result<Option<f64>> {
        match self {
            Rates::Copy(result) => of(result).map(Some),
            Rates::Peer(rate) => Ok(*rate),
        }
    }
}

impl Bench<'_> {
    pub(super) fn memory(&self) -> Result<()> {
        // So many that the slots' first use, which perftest does before its clock starts, weighs
        // little in the whole, too.
        let mebibytes: u64 = match self.guest {
            Guest::Debian => 256,
            Guest::Uml => 1024,
        };
        let size = format!("{mebibytes}MiB");
        heading(&format!(
            "memory to memory, {size}, one queue pair, 1 MiB, no delay, against ib_write_bw"
        ));
        self.delay(0.0);
        let node = self.node()?;
        let (one, wide) = (MIB.to_string(), (32 * MIB).to_string());
        let (many, few) = (mebibytes.to_string(), (mebibytes / 32).to_string());
        let write = |size: &str, count: &str| {
            self.perftest("ib_write_bw", &["-s", size, "-n", count]).map(Rates::Peer)
        };
        let checked = || {
            let (memory, null) = (format!("memory:{size}"), node.url("?null"));
            node.copy(&self.ends, &["--channel", "rdma:1", &memory, &null]).map(Rates::Copy)
        };
        let results = in_turns(
            self.runs,
            vec![
                side("theirs", || write(&one, &many)),
                side("wide", || write(&wide, &few)),
                side("no checks", || self.by_rdma(&node, &size, "rdma:1").map(Rates::Copy)),
                side("block checksums and digest", checked),
            ],
        )?;
        let rates = |name: &str, of| {
            results.of(name).iter().map(|seen| seen.rate(of)).collect::<Result<Vec<_>>>()
        };
        let theirs = rates("theirs", moving)?;
        let note = "its clock starts when connected and registered, and it sends one buffer";
        row(&format!("ib_write_bw -s {one} -n {many}"), &shown(&theirs), note);
        let wide_rates = shown(&rates("wide", moving)?);
        row(&format!("ib_write_bw -s {wide}"), &wide_rates, "as much memory as a copy's pool");
        let theirs = median(theirs.iter().flatten().copied()).context("ib_write_bw")?;
        let parts: [(&str, Figure); 2] =
            [("whole, from its first byte", moving), ("its second half", steady)];
        for name in ["no checks", "block checksums and digest"] {
            for (part, of) in parts {
                let found = rates(name, of)?;
                let ratio = median(found.iter().flatten().copied())? / theirs;
                let met = if ratio >= ASKED { "met" } else { "NOT MET" };
                let asked = format!("asked: at least {ASKED}: {met}");
                let asked = if name == "no checks" { asked.as_str() } else { "" };
                let value = format!("{}, x {ratio:.2}", shown(&found));
                row(&format!("farline, {name}, {part}"), &value, asked);
            }
        }
        Ok(())
    }

    pub(super) fn pairs(&self) -> Result<()> {
        heading("4 queue pairs against 1 at 20 ms RTT");
        self.delay(20.0);
        let node = self.node()?;
        let ours = |size: &str, channel: &str| steady(&self.by_rdma(&node, size, channel)?);
        let write =
            |pairs: &str| self.perftest("ib_write_bw", &["-s", "65536", "-n", "400", "-q", pairs]);
        let results = in_turns(
            self.runs,
            vec![
                side("one", || ours("96MiB", "rdma:1").map(Some)),
                side("four", || ours(self.long(), "rdma:4").map(Some)),
                side("write 1", || write("1")),
                side("write 4", || write("4")),
            ],
        )?;
        let rate = |name: &str| shown(results.of(name));
        let middle = |name: &str| median(results.of(name).iter().flatten().copied());
        row("farline, 1 queue pair", &rate("one"), "128 packets of 4 KiB in 20 ms are 26 MB/s");
        let ratio = middle("four")? / middle("one")?;
        let four = format!("{}, x {ratio:.2}", rate("four"));
        row("farline, 4 queue pairs", &four, "asked: at least 2");
        let both = format!("{} and {}", rate("write 1"), rate("write 4"));
        row("ib_write_bw -s 65536 -q 1 and -q 4", &both, "");
        Ok(())
    }

    pub(super) fn reads(&self) -> Result<()> {
        heading("blocks written by the sender against blocks read by the receiver, 4 queue pairs");
        let node = self.node()?;
        let run = |channel: &str| steady(&self.by_rdma(&node, self.long(), channel)?);
        for rtt in [0.0, 20.0] {
            self.delay(rtt);
            let sides = vec![side("write", || run("rdma:4")), side("read", || run("rdma:4:read"))];
            let results = in_turns(self.runs, sides)?;
            let (write, read) = (results.middle("write")?, results.middle("read")?);
            let label = format!("{rtt} ms RTT: written {:.1} MB/s", write / 1e6);
            row(&label, &format!("read {:.1} MB/s, x {:.2}", read / 1e6, read / write), "");
        }
        Ok(())
    }

    pub(super) fn completions(&self) -> Result<()> {
        heading("how the sender notices completions");
        let node = self.node()?;
        for rtt in [0.0, 1.0, 20.0] {
            self.delay(rtt);
            let run = || Ok(self.by_rdma(&node, "48MiB", "rdma")?["completions"].clone());
            let results = in_turns(self.runs, vec![side("rdma", run)])?;
            let count = |name: &str| -> Result<f64> {
                let counts = results.of("rdma").iter().map(|counts| number(counts, name));
                median(counts.collect::<Result<Vec<_>>>()?)
            };
            let value = format!("{} by polling, {} by event", count("polled")?, count("told")?);
            row(&format!("{rtt} ms RTT"), &value, "");
        }
        Ok(())
    }
}
