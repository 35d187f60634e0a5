//! From the start to the first data byte: login, negotiation, connections, and reading the first
//! block.

use super::{Bench, Device};
use crate::side::number;
use crate::table::{heading, in_turns, row, side};
use anyhow::Result;

/// Queue pairs.
const PAIRS: [u32; 3] = [1, 4, 16];

impl Bench<'_> {
    pub(super) fn setup(&self) -> Result<()> {
        heading(
            "from the start to the first data byte: login, negotiation, connections, and reading \
             the first block",
        );
        let node = self.node()?;
        let null = node.url("?null");
        let run = |options: &[&str]| {
            let result = node.copy(&self.ends, &[options, &["memory:1MiB", &null]].concat())?;
            number(&result, "first_data_seconds")
        };
        for rtt in [0.0, 20.0] {
            self.delay(rtt);
            let mut sides = vec![side("tcp", || run(&["--streams", "1"]))];
            for pairs in PAIRS {
                let channel = format!("rdma:{pairs}");
                let exchange = format!("rdma:{pairs}:exchange");
                let by_cm = channel.clone();
                sides.push(side(channel, move || run(&["--channel", &by_cm])));
                if self.device == Device::Rxe {
                    let by = exchange.clone();
                    sides.push(side(exchange, move || run(&["--channel", &by])));
                }
            }
            let results = in_turns(self.runs, sides)?;
            let ms = |name: &str| results.middle(name).map(|seconds| seconds * 1e3);
            row(&format!("{rtt} ms RTT, TCP"), &format!("{:.0} ms", ms("tcp")?), "");
            for pairs in PAIRS {
                let cm = ms(&format!("rdma:{pairs}"))?;
                let mut value = format!("rdma_cm {cm:.0} ms");
                if self.device == Device::Rxe {
                    let exchange = ms(&format!("rdma:{pairs}:exchange"))?;
                    value += &format!(", exchange {exchange:.0} ms, {:+.0} ms", exchange - cm);
                }
                row(&format!("{rtt} ms RTT, {pairs} queue pairs"), &value, "");
            }
        }
        Ok(())
    }
}
