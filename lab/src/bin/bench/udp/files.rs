//! One file to a file over a long path that an earlier copy has measured, against the best of
//! globus-url-copy's parallel streams.

use super::known::{KnownPath, in_words};
use crate::mover::{GLOBUS_PORT, globus};
use crate::side::{Ends, json, random_file, timed};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const STREAMS: [u32; 3] = [1, 4, 8];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Bytes of the file
    #[arg(long, default_value_t = 1 << 30)]
    bytes: u64,
    #[command(flatten)]
    over: KnownPath,
    /// Where files are: in memory, so that no disk is measured
    #[arg(long, default_value = "/dev/shm")]
    folder: String,
}

/// Prints a row for each channel.
///
/// # Errors
/// When a part of it fails, or other bytes come.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let (source, root) = (folder.path().join("source"), folder.path().join("root"));
    std::fs::create_dir(&root)?;
    random_file(&source, options.bytes)?;
    let over = &options.over;
    let ends = over.ends()?;
    let node = over.node(&ends, &root)?;
    let _globus = globus(&ends)?;
    heading(&format!("{} bytes file to file over {}, {}", options.bytes, over.path, over.rate));
    let landed = root.join("landed");
    let rate = |command: &mut Command| -> Result<f64> {
        let took = timed(command)?;
        ensure!(
            timed(Command::new("cmp").arg("-s").args([&source, &landed])).is_ok(),
            "other bytes"
        );
        std::fs::remove_file(&landed)?;
        Ok(options.bytes as f64 * 8.0 / took.as_secs_f64())
    };
    let by_farline = |channel: &str| -> Result<Command> {
        let (mut command, url) = node.over(&ends, channel)?;
        // What is known of the path is kept for each channel by itself.
        command.env_remove("FARLINE_FRESH_START");
        command.env("XDG_STATE_HOME", folder.path().join(channel));
        command.arg(&source).arg(format!("{url}landed"));
        Ok(command)
    };
    let mut sides = Vec::new();
    for streams in STREAMS {
        let (rate, ends, source, landed) = (&rate, &ends, source.as_path(), landed.as_path());
        sides.push(side(globus_name(streams), move || {
            rate(&mut globus_url_copy(ends, streams, source, landed))
        }));
    }
    for channel in &over.channels {
        json(&mut by_farline(channel)?)?;
        std::fs::remove_file(&landed)?;
        let (rate, by_farline) = (&rate, &by_farline);
        sides.push(side(channel.clone(), move || rate(&mut by_farline(channel)?)));
    }
    let results = in_turns(options.runs, sides)?;
    let mut best = 0.0f64;
    for streams in STREAMS {
        let theirs = results.middle(&globus_name(streams))?;
        best = best.max(theirs);
        row(&globus_name(streams), &gbit(theirs), "");
    }
    for channel in &over.channels {
        let ours = results.middle(channel)?;
        let figure = format!("x {:.2} of the best globus", ours / best);
        row(&format!("{}: {}", in_words(channel), gbit(ours)), &figure, "at least x 2.5");
    }
    row("", &ends.validity()?, "");
    Ok(())
}

fn globus_name(streams: u32) -> String {
    format!("globus-url-copy -fast -p {streams}")
}

fn globus_url_copy(ends: &Ends, streams: u32, source: &Path, landed: &Path) -> Command {
    let mut command = ends.a("globus-url-copy");
    command.args(["-fast", "-p", &streams.to_string()]);
    command.arg(format!("file://{}", source.display()));
    command.arg(format!("ftp://{}:{GLOBUS_PORT}{}", ends.address(), landed.display()));
    command
}
