//! What the devices do by perftest, and `farline profile` next to it.

use super::{Bench, Device, MIB, shown};
use crate::side::{binary, json};
use crate::table::{heading, in_turns, median, row, side};
use anyhow::{Context, Result};

impl Bench<'_> {
    /// Whether these devices cannot do that: iWARP has no datagrams.
    fn lacks(&self, options: &[&str]) -> bool {
        self.device == Device::Siw && options.contains(&"UD")
    }

    pub(super) fn peers(&self) -> Result<()> {
        heading("what the devices do: perftest, no delay");
        self.delay(0.0);
        let mebibyte = MIB.to_string();
        let programs: [(&str, &[&str]); 4] = [
            ("ib_write_bw", &["-s", &mebibyte, "-n", "32"]),
            ("ib_read_bw", &["-s", &mebibyte, "-n", "32"]),
            ("ib_write_bw", &["-s", "65536", "-n", "400"]),
            ("ib_send_bw", &["-c", "UD", "-s", "2048", "-n", "4000"]),
        ];
        for (program, options) in programs {
            if self.lacks(options) {
                continue;
            }
            let results = in_turns(self.runs, vec![self.peer("it", program, options)])?;
            row(&format!("{program} {}", options.join(" ")), &shown(results.of("it")), "");
        }
        Ok(())
    }

    pub(super) fn messages(&self) -> Result<()> {
        heading(
            "farline profile --channel rdma next to perftest, no delay: as many messages of each \
             size, 16 MiB of them or 1000",
        );
        self.delay(0.0);
        let cells: [(&str, &str, u64, &[&str]); 6] = [
            ("ib_write_bw", "rc", MIB, &[]),
            ("ib_write_bw", "rc", 65536, &[]),
            ("ib_write_bw", "rc", 64, &[]),
            ("ib_read_bw", "read", MIB, &[]),
            ("ib_read_bw", "read", 65536, &[]),
            ("ib_send_bw", "ud", 2048, &["-c", "UD"]),
        ];
        for (program, transport, size, options) in cells {
            if self.lacks(options) {
                continue;
            }
            let (bytes, count) = (size.to_string(), (16 * MIB / size).min(1000).to_string());
            let options = [options, &["-s", &bytes, "-n", &count]].concat();
            let ours = || profiled(transport, &bytes);
            let sides = vec![self.peer("theirs", program, &options), side("ours", ours)];
            let results = in_turns(self.runs, sides)?;
            let middle = |name: &str| median(results.of(name).iter().flatten().copied());
            let ratio = match (middle("ours"), middle("theirs")) {
                (Ok(ours), Ok(theirs)) => format!(", x {:.2}", ours / theirs),
                _ => String::new(),
            };
            let theirs = shown(results.of("theirs"));
            let ours = format!("farline {}{ratio}", shown(results.of("ours")));
            row(&format!("{program} {}: {theirs}", options.join(" ")), &ours, "");
        }
        Ok(())
    }
}

/// The throughput of one cell as `farline profile` measures it, in bytes a second; nothing where
/// the run proves nothing.
fn profiled(transport: &str, size: &str) -> Result<Option<f64>> {
    let mut profile = farline_lab::command(binary());
    profile.args(["--json", "-q", "profile", "--channel", "rdma", "--transport", transport]);
    profile.args(["--message-size", size, "--repetitions", "1"]);
    let document = json(&mut profile)?;
    let measured = document["cells"][0]["measured"].as_array().context("a measured cell")?;
    for run in measured {
        match run.get("invalid") {
            None => return Ok(run["throughput_bps"].as_f64().map(|rate| rate / 8.0)),
            Some(reason) => println!("  {transport}, {size}: {reason}"),
        }
    }
    Ok(None)
}
