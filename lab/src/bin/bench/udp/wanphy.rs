//! Figure 11 of the trans-European paper: UDT from CERN to Amsterdam over a WAN PHY of 9.2 Gbit/s,
//! next to TCP over the same path.

use super::link::pair;
use crate::side::{Ends, iperf3};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::Result;
use std::path::Path;

/// What the paper read for UDT, and for TCP on the same computers.
const PRINTED: &str = "the paper: 5.4 Gbit/s";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Of each run of UDT's
    #[arg(long, default_value_t = 4 << 30)]
    bytes: u64,
    /// Of each run of TCP's
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let ends = Ends::over("geneva-amsterdam", &["--rate", "9.2G"])?;
    heading("Figure 11: Geneva to Amsterdam, 9.2 Gbit/s x 17 ms, no loss, one flow");
    let tcp = |control: &'static str| {
        let ends = &ends;
        side(format!("TCP {control}"), move || {
            Ok(iperf3(ends, options.seconds, 2, &["-C", control])?.rate)
        })
    };
    let udt = {
        let ends = &ends;
        side("UDT", move || Ok(pair(ends, Path::new(""), true, true, options.bytes, "udt")?.rate))
    };
    let results = in_turns(options.runs, vec![udt, tcp("cubic"), tcp("reno")])?;
    for name in ["UDT", "TCP cubic", "TCP reno"] {
        row(name, &gbit(results.middle(name)?), if name == "UDT" { PRINTED } else { "" });
    }
    row("", &ends.validity()?, "");
    Ok(())
}
