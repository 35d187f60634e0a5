//! What a Gbit costs of processor time at both ends by each channel, memory to nothing, with and
//! without encryption.

use crate::side::{Ends, Node, RateAndCpu, binary, json, number};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Context, Result};

/// A row's name, its channel, and whether its bytes are encrypted.
const ROWS: [(&str, &str, bool); 5] = [
    ("TCP", "tcp", false),
    ("TLS over TCP", "tcp", true),
    ("UDT", "udt", false),
    ("TLS over UDT", "udt", true),
    ("QUIC", "quic", true),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What is copied
    #[arg(long, default_value = "2GiB")]
    size: String,
    /// Round trips of links at 10 Gbit/s; 0 is a veth pair without a link
    #[arg(long, value_delimiter = ',', default_value = "0ms,26.8ms")]
    rtts: Vec<String>,
}

/// Prints a table for each round trip.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    for rtt in &options.rtts {
        let ends = Ends::of_rtt(rtt)?;
        let folder = tempfile::tempdir()?;
        let node = Node::start(&ends, &binary(), folder.path(), &["--tls"])?;
        heading(&format!("{} memory to nothing, {rtt}: processor time of both ends", options.size));
        let sides = ROWS.map(|(name, channel, encrypted)| {
            let (ends, node, size) = (&ends, &node, &options.size);
            side(name, move || copy(ends, node, (channel, encrypted), size))
        });
        let results = in_turns(options.runs, sides.into())?;
        for (name, ..) in ROWS {
            let cpu = results.median(name, |run: &RateAndCpu| run.cpu)?;
            let rate = results.median(name, |run| run.rate)?;
            row(name, &format!("{:.1} ms a Gbit", cpu * 1e3), &gbit(rate));
        }
        row("", &ends.validity()?, "");
    }
    Ok(())
}

fn copy(
    ends: &Ends,
    node: &Node,
    (channel, encrypted): (&str, bool),
    size: &str,
) -> Result<RateAndCpu> {
    let before = node.server.cpu()?;
    let mut command = node.client(ends);
    command.args(["--json", "cp", "--channel", channel]);
    let scheme = if encrypted { "farlines" } else { "farline" };
    if encrypted {
        command.args(["--tls-pin", node.fingerprint.as_deref().context("a fingerprint")?]);
    }
    let url = format!("{scheme}://{}/?null", node.address);
    let result = json(command.arg(format!("memory:{size}")).arg(url))?;
    let cpu = number(&result, "cpu_seconds")? + node.server.cpu()? - before;
    let bits = number(&result, "bytes")? * 8.0;
    Ok(RateAndCpu { rate: bits / number(&result, "seconds")?, cpu: cpu / (bits / 1e9) })
}
