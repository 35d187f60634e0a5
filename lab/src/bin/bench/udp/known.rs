//! A copy over a path that the last one measured, in turns with one that begins as over any path.

use crate::side::{CLEAR, Ends, Node, binary, json, number};
use crate::table::{heading, in_turns, row, side};
use anyhow::Result;
use std::path::Path;

/// A path that copies over several channels have measured.
#[derive(clap::Args)]
pub(super) struct KnownPath {
    /// A path of `farline link ls`
    #[arg(long, default_value = "usn-8600")]
    pub(super) path: String,
    /// Its rate
    #[arg(long, default_value = "10G")]
    pub(super) rate: String,
    /// Over these channels, encrypted; `clear`: TCP, which is not
    #[arg(long, value_delimiter = ',', default_value = "clear,tcp,quic,udt,farlineq")]
    pub(super) channels: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// What is copied, from memory to nothing
    #[arg(long, default_value = "1GiB")]
    size: String,
    #[command(flatten)]
    over: KnownPath,
}

impl KnownPath {
    /// The path's ends.
    ///
    /// # Errors
    /// When this machine does not let us make a link.
    pub(super) fn ends(&self) -> Result<Ends> {
        Ends::over(&self.path, &["--rate", &self.rate])
    }

    /// A node with files below `root`, which every channel reaches.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn node(&self, ends: &Ends, root: &Path) -> Result<Node> {
        let udp = format!("{}:0", ends.address());
        Node::start(ends, &binary(), root, &["--tls", "--listen-udp", &udp])
    }
}

/// Prints a row for each channel.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let over = &options.over;
    let ends = over.ends()?;
    let node = over.node(&ends, folder.path())?;
    let size = &options.size;
    heading(&format!("{size} memory to memory over {}, {}", over.path, over.rate));
    let copy = |channel: &str, is_known: bool| -> Result<f64> {
        copy(&ends, &node, folder.path(), (channel, size), is_known)
    };
    let mut sides = Vec::new();
    for channel in &over.channels {
        // What is known is of this channel alone.
        copy(channel, true)?;
        for (name, is_known) in [("as over any path", false), ("over a known one", true)] {
            sides.push(side(format!("{channel} {name}"), move || copy(channel, is_known)));
        }
    }
    let results = in_turns(options.runs, sides)?;
    for channel in &over.channels {
        let any = results.middle(&format!("{channel} as over any path"))?;
        let known = results.middle(&format!("{channel} over a known one"))?;
        let figure = format!("{}: {any:.2} s, {known:.2} s when it is known", in_words(channel));
        row(&figure, &format!("x {:.2}", known / any), "at most x 0.6");
    }
    row("", &ends.validity()?, "");
    Ok(())
}

/// What goes over `channel`, for people.
pub(super) fn in_words(channel: &str) -> String {
    match channel {
        CLEAR => "tcp, in the clear".to_owned(),
        _ => format!("{channel}, encrypted"),
    }
}

/// The seconds of one copy.
fn copy(
    ends: &Ends,
    node: &Node,
    folder: &Path,
    (channel, size): (&str, &str),
    is_known: bool,
) -> Result<f64> {
    let (mut command, url) = node.over(ends, channel)?;
    command.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", folder.join(channel));
    if !is_known {
        command.arg("--fresh-start");
    }
    number(&json(command.arg(format!("memory:{size}")).arg(format!("{url}?null")))?, "seconds")
}
