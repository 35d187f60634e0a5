//! The files of ADTS, figure 10, over its paths, against globus-url-copy.

use super::{Bench, MIB, globus};
use crate::side::{Ends, number, timed};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Context, Result};
use std::fs;

/// Name, path, files, bytes of each.
const TRACES: [(&str, &str, u32, u64); 2] = [
    ("CCSM: 256 MiB files", "ncar-llnl", 4, 256 * MIB),
    ("Ultravis: 2.6 GB files", "ornl-ucdavis", 1, 2_600_000_000),
];

impl Bench<'_> {
    pub(super) fn traces(&self) -> Result<()> {
        for (what, path, count, size) in TRACES {
            heading(&format!("{what} over {path} (ADTS, figure 10)"));
            let folder = self.space.join("trace");
            fs::create_dir(&folder)?;
            for number in 0..count {
                self.source(&format!("trace/{number}"), size)?;
            }
            let from = format!("{}/", folder.to_str().context("a path in UTF-8")?);
            let ends = Ends::over(path, &[])?;
            let (nodes, _globus) = (self.nodes(&ends, &[])?, globus(&ends)?);
            let theirs = || {
                let mut command = ends.a("globus-url-copy");
                command.args(["-r", "-cd", "-fast", "-p", "4", &format!("file://{from}")]);
                let elapsed = timed(command.arg(format!("{}/", self.globus_url(&ends))))?;
                fs::remove_dir_all(self.landed())?;
                Ok((u64::from(count) * size) as f64 * 8.0 / elapsed.as_secs_f64())
            };
            let mut sides = vec![side("globus-url-copy -fast -p 4", theirs)];
            for (name, node) in &nodes {
                let run = || {
                    let result = node.copy(&ends, &["-r", &from, &node.url("landed")])?;
                    fs::remove_dir_all(self.landed())?;
                    number(&result, "rate_bps")
                };
                sides.push(side(*name, run));
            }
            let results = in_turns(self.runs, sides)?;
            let theirs = results.middle("globus-url-copy -fast -p 4")?;
            row("globus-url-copy -fast -p 4", &gbit(theirs), "");
            for (name, _) in &nodes {
                let ours = results.middle(name)?;
                row(name, &format!("{}, x {:.2}", gbit(ours), ours / theirs), "");
            }
            row("ADTS, figure 10 (RDMA against IPoIB)", "more than x 2", "");
            row(&ends.validity()?, "", "");
            fs::remove_dir_all(&folder)?;
        }
        Ok(())
    }
}
