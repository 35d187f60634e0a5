//! A source that stalls, by size of the staging pool and by how it is used (ADTS, figures 8 and 9).

use super::Bench;
use crate::side::{Ends, number};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::Result;

impl Bench<'_> {
    pub(super) fn staging(&self) -> Result<()> {
        heading(
            "4 GiB memory to null over usn-1400 from a source that stalls 50 ms in every second \
             (ADTS, figures 8 and 9)",
        );
        let ends = Ends::over("usn-1400", &["--rate", "10G"])?;
        let nodes = self.nodes(&ends, &[])?;
        let node = &nodes[0].1;
        // The least pool is three blocks: one for the channel and two more.
        let mut pools = vec![("none, in turns".to_owned(), Some(1), true)];
        for size in [4, 8, 16, 32, 64, 128] {
            pools.push((format!("{size} MiB, in turns (synchronous)"), Some(size), true));
            pools.push((format!("{size} MiB, at once (asynchronous)"), Some(size), false));
        }
        pools.push(("as large as the copy makes it, at once".to_owned(), None, false));
        let sides = pools.iter().map(|(name, size, in_turns)| {
            let run = || {
                let mut arguments = vec!["--streams", "1", "--trial-stall", "50ms/1s"];
                let size = size.map(|size| format!("{size}MiB"));
                if let Some(size) = &size {
                    arguments.extend(["--staging", size]);
                }
                if *in_turns {
                    arguments.push("--trial-in-turns");
                }
                let target = node.url("?null");
                arguments.extend(["memory:4GiB", &target]);
                number(&node.copy(&ends, &arguments)?, "rate_bps")
            };
            side(name.clone(), run)
        });
        let results = in_turns(self.runs, sides.collect())?;
        let least = results.middle(&pools[0].0)?;
        for (name, ..) in &pools {
            let rate = results.middle(name)?;
            let value = format!("{}, x {:.2}", gbit(rate), rate / least);
            row(&format!("staging {name}"), &value, "");
        }
        let eight = "almost x 2 of IPoIB's GridFTP; no one size is best";
        row("ADTS, figure 8 (synchronous, disks, RDMA)", eight, "");
        let nine = "better than synchronous at medium and large delays, and with more staging";
        row("ADTS, figure 9 (asynchronous)", nine, "");
        row(&ends.validity()?, "", "");
        Ok(())
    }
}
