//! A booked rate held from the first round trip on: what the receiver's device takes in the first
//! full second, and how long the whole takes.

use super::watch::Watch;
use crate::side::{Ends, Node, binary, json, number};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::Result;
use farline_core::units::{Bytes, Rate, Span};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What is copied, from memory to nothing
    #[arg(long, default_value = "1GiB")]
    size: Bytes,
    /// What is booked, and all that the link has
    #[arg(long, default_value = "4G")]
    rate: Rate,
    /// The link's round trip
    #[arg(long, default_value = "163ms")]
    rtt: Span,
    /// Over these channels
    #[arg(long, value_delimiter = ',', default_value = "tcp,udt,quic,farlineq")]
    channels: Vec<String>,
}

/// What one copy showed.
struct Run {
    /// Bit/s of IP packets that came in the first full second.
    first_second: f64,
    seconds: f64,
}

/// Prints two rows for each channel.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { rate, rtt, size, .. } = *options;
    let folder = tempfile::tempdir()?;
    let (link_rate, link_rtt) =
        (rate.as_bps().to_string() + "bit/s", format!("{}ns", rtt.as_nanos()));
    let ends = Ends::over("custom", &["--rate", &link_rate, "--rtt", &link_rtt])?;
    let admits = rate.as_bps().to_string() + "bit/s";
    let quic = format!("{}:0", ends.address());
    let more = ["--tls", "--listen-udp", &quic, "--allow-held", &admits];
    let node = Node::start(&ends, &binary(), folder.path(), &more)?;
    heading(&format!("{size} memory to memory, {rate} held over {rate} x {rtt}"));
    let sides = options.channels.iter().map(|channel| {
        let (ends, node, admits) = (&ends, &node, &admits);
        side(channel.clone(), move || copy(ends, node, channel, admits, size))
    });
    let results = in_turns(options.runs, sides.collect())?;
    let physical = size.0 as f64 * 8.0 / rate.as_bps() as f64 + 2.0 * rtt.as_secs_f64();
    for channel in &options.channels {
        let first = results.median(channel, |run: &Run| run.first_second)?;
        let share = format!("{:.1} % of the rate", first / rate.as_bps() as f64 * 100.0);
        row(
            &format!("{channel}: {} in the first full second", gbit(first)),
            &share,
            "at least 95 %",
        );
        let seconds = results.median(channel, |run| run.seconds)?;
        let figure = format!("{channel}: {seconds:.2} s in all, of {physical:.2} s physical");
        row(&figure, &format!("x {:.2}", seconds / physical), "at most x 1.2");
    }
    row("", &ends.validity()?, "");
    Ok(())
}

fn copy(ends: &Ends, node: &Node, channel: &str, rate: &str, size: Bytes) -> Result<Run> {
    let watch = Watch::begin(ends)?;
    let (mut command, url) = node.over(ends, channel)?;
    command.args(["--congestion", "held", "--rate", rate, &format!("memory:{}", size.0)]);
    let result = json(command.arg(format!("{url}?null")))?;
    let first_second = watch.first_second()?;
    Ok(Run { first_second, seconds: number(&result, "seconds")? })
}
