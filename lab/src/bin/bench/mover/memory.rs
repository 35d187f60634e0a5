//! Memory to null over loopback, one channel, against one stream of iperf3.

use super::Bench;
use crate::side::{Ends, Node, RateAndCpu, iperf3, number};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Context, Result};

const DIGEST: &str = "block checksums and file digest";
/// What is checked: name, options, scheme, and what was asked of it.
const CHECKS: [(&str, &[&str], &str, &str); 4] = [
    ("no checks", &["--verify", "none"], "farline", ""),
    ("block checksums", &["--verify", "checksum"], "farline", "asked: rate 1.5, CPU at most 0.70"),
    (DIGEST, &[], "farline", "asked: CPU at most 1.1 of block checksums"),
    ("encrypted, with both", &[], "farlines", "asked: at most 1.5"),
];

impl Bench<'_> {
    pub(super) fn memory(&self) -> Result<()> {
        heading("memory to null, loopback, one channel, against one stream of iperf3");
        let ends = Ends::Loopback;
        let nodes = self.nodes(&ends, &["--tls"])?;
        let mut sides = vec![side("iperf3", || iperf3(&ends, 3, 0, &[]))];
        for (name, node) in &nodes {
            for (what, options, scheme, _) in CHECKS {
                let run = || memory_to_null(node, &ends, options, scheme);
                sides.push(side(format!("{name}, {what}"), run));
            }
        }
        let results = in_turns(self.runs, sides)?;
        let of = |name: &str| -> Result<RateAndCpu> {
            let rate = results.median(name, |run| run.rate)?;
            Ok(RateAndCpu { rate, cpu: results.median(name, |run| run.cpu)? })
        };
        let shown = |name: &str, seen: RateAndCpu| {
            format!("{name}: {}, {:.1} ms CPU a Gbit", gbit(seen.rate), seen.cpu * 1e3)
        };
        let theirs = of("iperf3")?;
        for (name, _) in &nodes {
            let plain = of(&format!("{name}, {DIGEST}"))?;
            for (what, _, scheme, asked) in CHECKS {
                let name = format!("{name}, {what}");
                let seen = of(&name)?;
                let value = match scheme {
                    "farlines" => format!("CPU x {:.2} of plain", seen.cpu / plain.cpu),
                    _ => {
                        let (rate, cpu) = (seen.rate / theirs.rate, seen.cpu / theirs.cpu);
                        format!("rate x {rate:.2}, CPU x {cpu:.2}")
                    }
                };
                row(&shown(&name, seen), &value, asked);
            }
        }
        row(&shown("iperf3", theirs), "1", "");
        Ok(())
    }
}

fn memory_to_null(node: &Node, ends: &Ends, options: &[&str], scheme: &str) -> Result<RateAndCpu> {
    let target = format!("{scheme}://{}/?null", node.address);
    let mut arguments = [&["--streams", "1"], options].concat();
    if scheme == "farlines" {
        arguments.extend(["--tls-pin", node.fingerprint.as_deref().context("a fingerprint")?]);
    }
    arguments.extend(["memory:4GiB", &target]);
    let before = node.server.cpu()?;
    let result = node.copy(ends, &arguments)?;
    let cpu = number(&result, "cpu_seconds")? + node.server.cpu()? - before;
    let gigabits = number(&result, "bytes")? * 8.0 / 1e9;
    Ok(RateAndCpu { rate: number(&result, "rate_bps")?, cpu: cpu / gigabits })
}
