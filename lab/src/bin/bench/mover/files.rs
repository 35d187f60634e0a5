//! One file over a link, against globus-url-copy; and memory over a long one, against iperf3.

use super::{Bench, GIB, MIB, globus};
use crate::side::{Ends, iperf3, number};
use crate::table::{gbit, heading, in_turns, median, row, side};
use anyhow::Result;
use serde_json::Value;

const STREAMS: [u32; 3] = [1, 4, 8];

/// What is seen of one copy, by Farline or another.
struct Copied {
    rate: f64,
    result: Option<Value>,
}

impl Copied {
    fn by_farline(result: Value) -> Result<Copied> {
        Ok(Copied { rate: number(&result, "rate_bps")?, result: Some(result) })
    }
}

impl Bench<'_> {
    pub(super) fn files(&self, path: &str, asked: f64) -> Result<()> {
        heading(&format!("1 GiB file to file in memory over {path}, 10 Gbit/s"));
        let data = self.source("1g", GIB)?;
        self.touch(2 * GIB)?;
        let ends = Ends::over(path, &["--rate", "10G"])?;
        let (nodes, _globus) = (self.nodes(&ends, &[])?, globus(&ends)?);
        let mut sides = Vec::new();
        for streams in STREAMS {
            let (ends, data) = (&ends, &data);
            let run = move || {
                let rate = self.copy_by_globus(ends, streams, data)?;
                Ok(Copied { rate, result: None })
            };
            sides.push(side(globus_name(streams), run));
        }
        for (name, node) in &nodes {
            let file = || Copied::by_farline(self.copy_file(node, &ends, &data)?);
            let null =
                || Copied::by_farline(node.copy(&ends, &["memory:1GiB", &node.url("?null")])?);
            sides.push(side(*name, file));
            sides.push(side(format!("{name}, memory to null"), null));
        }
        let results = in_turns(self.runs, sides)?;
        let rate = |name: &str| results.median(name, |copied| copied.rate);
        let mut best = 0.0f64;
        for streams in STREAMS {
            let theirs = rate(&globus_name(streams))?;
            best = best.max(theirs);
            row(&globus_name(streams), &gbit(theirs), "");
        }
        for (name, node) in &nodes {
            let (ours, null) = (rate(name)?, rate(&format!("{name}, memory to null"))?);
            let copies = || results.of(name).iter().filter_map(|copied| copied.result.as_ref());
            let how = copies().next_back().map(|last| {
                let (streams, control) = (&last["streams"], last["congestion"].as_str());
                let limit = last["limited_by"].as_str().unwrap_or("nothing that is known");
                format!("{streams} x {}, limited by {limit}", control.unwrap_or("its own control"))
            });
            let asked = format!("asked: at least {asked} of the best globus");
            let value = format!("{}, x {:.2}", gbit(ours), ours / best);
            row(&format!("{name} ({})", how.unwrap_or_default()), &value, &asked);
            let asked = if path == "usn-1400" { "asked: at most 1.4" } else { "" };
            let label = format!("{name}, memory to null: {}", gbit(null));
            row(&label, &format!("file within x {:.2}", null / ours), asked);
            let mut round_trips = Vec::new();
            for result in copies() {
                round_trips
                    .push(number(result, "first_data_seconds")? / number(result, "rtt_seconds")?);
            }
            let asked = if path == "usn-8600" { "asked: at most 4" } else { "" };
            let first = format!("{:.1} RTT", median(round_trips)?);
            row(&format!("{name}, start to first data byte"), &first, asked);
            let mut memory = node.server.peak_memory()?;
            for result in copies() {
                memory = memory.max(number(result, "peak_rss_bytes")?);
            }
            let asked = "asked: at most 2 BDP + 64 MiB (453 MiB at 163 ms)";
            let asked = if path == "usn-8600" { asked } else { "" };
            let memory = format!("{:.0} MiB", memory / MIB as f64);
            row(&format!("{name}, memory of either end"), &memory, asked);
        }
        row(&ends.validity()?, "", "");
        Ok(())
    }

    pub(super) fn far(&self) -> Result<()> {
        heading("8 GiB memory to memory over usn-8600, against iperf3 -P 8");
        let ends = Ends::over("usn-8600", &["--rate", "10G"])?;
        let nodes = self.nodes(&ends, &[])?;
        let mut sides = vec![side("iperf3 -P 8", || Ok(iperf3(&ends, 8, 8, &["-P", "8"])?.rate))];
        for (name, node) in &nodes {
            let run = || {
                let result = node.copy(&ends, &["memory:8GiB", &node.url("?null")])?;
                number(&result, "rate_bps")
            };
            sides.push(side(*name, run));
        }
        let results = in_turns(self.runs.div_ceil(2), sides)?;
        let theirs = results.middle("iperf3 -P 8")?;
        row("iperf3 -P 8", &gbit(theirs), "");
        for (name, _) in &nodes {
            let ours = results.middle(name)?;
            let value = format!("{}, {:.0} %", gbit(ours), ours / theirs * 100.0);
            row(name, &value, "asked: at least 85 %");
        }
        row(&ends.validity()?, "", "");
        Ok(())
    }
}

fn globus_name(streams: u32) -> String {
    format!("globus-url-copy -fast -p {streams}")
}
