//! A copy over a path that the last one measured, in turns with one that begins as over any path.

use crate::side::{Ends, Node, binary, json, number};
use crate::table::{heading, in_turns, row, side};
use anyhow::Result;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What is copied, from memory to nothing
    #[arg(long, default_value = "1GiB")]
    size: String,
    /// A path of `farline link ls`
    #[arg(long, default_value = "usn-8600")]
    path: String,
    /// Its rate
    #[arg(long, default_value = "10G")]
    rate: String,
    /// Over these channels
    #[arg(long, value_delimiter = ',', default_value = "tcp,quic,udt,farlineq")]
    channels: Vec<String>,
}

/// Prints a row for each channel.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ends = Ends::over(&options.path, &["--rate", &options.rate])?;
    let quic = format!("{}:0", ends.address());
    let node = Node::start(&ends, &binary(), folder.path(), &["--tls", "--listen-udp", &quic])?;
    let size = &options.size;
    heading(&format!("{size} memory to memory over {}, {}", options.path, options.rate));
    let copy = |channel: &str, is_known: bool| -> Result<f64> {
        copy(&ends, &node, folder.path(), (channel, size), is_known)
    };
    let mut sides = Vec::new();
    for channel in &options.channels {
        // What is known is of this channel alone.
        copy(channel, true)?;
        for (name, is_known) in [("as over any path", false), ("over a known one", true)] {
            sides.push(side(format!("{channel} {name}"), move || copy(channel, is_known)));
        }
    }
    let results = in_turns(options.runs, sides)?;
    for channel in &options.channels {
        let any = results.middle(&format!("{channel} as over any path"))?;
        let known = results.middle(&format!("{channel} over a known one"))?;
        let figure =
            format!("{channel}: {any:.2} s as over any path, {known:.2} s when it is known");
        row(&figure, &format!("x {:.2}", known / any), "at most x 0.6");
    }
    row("", &ends.validity()?, "");
    Ok(())
}

/// The seconds of one copy.
fn copy(
    ends: &Ends,
    node: &Node,
    folder: &Path,
    (channel, size): (&str, &str),
    is_known: bool,
) -> Result<f64> {
    let (mut command, url) = node.encrypted(ends, channel)?;
    command.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", folder.join(channel));
    if !is_known {
        command.arg("--fresh-start");
    }
    number(&json(command.arg(format!("memory:{size}")).arg(format!("{url}?null")))?, "seconds")
}
