//! `farline line raw`: Ethernet frames of each size as fast as this host can send them.

use super::target::LineTarget;
use super::vlan::VlanTag;
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::LineRequestOptions;
use farline::plan::document::check;
use farline_core::line::{EthernetFraming, FrameMix, LineSettings, RawDocument, RawRow};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span};
use std::path::PathBuf;
use std::process::ExitCode;

/// The device of an emulated link.
pub(super) const LINK_DEVICE: &str = "wan0";
/// Frames that are given to the kernel at once.
const BURST: u32 = 64;

const EXAMPLES: &str = "\
Examples:
  farline line reflect --ethernet eth1            there; it says its address
  farline line raw 02:00:00:77:00:02 --ethernet eth1 -o raw.html
  farline line raw LINK --sizes 64,1518,9018      a link up with --ethernet

What an end drops itself is told apart from what the line loses. It fills the
line: not for networks that others use.";

/// Stream Ethernet frames of each size, as fast as this host can
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The other end's hardware address, or a link of Ethernet
    #[arg(value_name = "TARGET")]
    target: String,
    /// Device of this host [default: the link's]
    #[arg(long, value_name = "DEV")]
    ethernet: Option<String>,
    /// VLAN of the frames, and priority [default: none]
    #[arg(long, value_name = "ID[:0-7]")]
    vlan: Option<VlanTag>,
    /// Bytes from Ethernet header to FCS, 64 to 9252
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64,256,512,1024,1518,4096,8018,9018"
    )]
    sizes: Vec<FrameMix>,
    /// How long each
    #[arg(long = "for", value_name = "SPAN", default_value = "2s")]
    duration: Span,
    /// .html, .csv, .parquet, or document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    args.out.iter().try_for_each(|file| check(file))?;
    let device = match &args.ethernet {
        Some(device) => Some(device.clone()),
        None => LineTarget::is_link(&args.target).then(|| LINK_DEVICE.to_owned()),
    };
    let device = device.ok_or_else(|| {
        let message = format!("by which device of this host is `{}` reached?", args.target);
        Error::new(Fault::You, ErrorCode::LineDevice, message).hint("name it: --ethernet DEV")
    })?;
    let framing = VlanTag::framing(device, args.vlan);
    let target = LineTarget::of_ethernet(&args.target)?;
    let most_seconds = args.duration.as_secs_f64().ceil() as u64;
    if most_seconds == 0 {
        return Err(Error::new(Fault::You, ErrorCode::LineSetting, "--for is above 0"));
    }
    let (runtime, signals) = crate::interrupt::listening()?;
    let stop = crate::interrupt::asked(runtime, signals)?;
    let (mut rows, mut is_whole) = (Vec::new(), true);
    for frames in &args.sizes {
        let mut options =
            LineRequestOptions::new(settings(&args.target, frames, &framing, most_seconds));
        options.stop = std::sync::Arc::clone(&stop);
        let test = target.run(&options, |_| Ok(()))?;
        if let Some(why) = &test.broken_off {
            output.remark(format_args!("{why}: this size, and those behind it, are left out"));
            is_whole = false;
            break;
        }
        let row = RawRow::of(&test);
        output.remark(format_args!(
            "{frames} B: {:.1} Mbit/s, {:.0} frames/s",
            row.throughput_bps() / 1e6,
            row.frames_a_second()
        ));
        rows.push(row);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    let document = document(&args.target, rows);
    let written = write_each(&args.out, |file| write_as_named(file, &document));
    output.result(&document, super::plain(&document.section()))?;
    written?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(Fault::Here.exit_code()) })
}

/// A test of `frames` as fast as this host can.
pub(super) fn settings(
    target: &str,
    frames: &FrameMix,
    framing: &EthernetFraming,
    most_seconds: u64,
) -> LineSettings {
    LineSettings {
        target: target.to_owned(),
        rate: Rate::default(),
        load_percent: 100.0,
        frames: frames.clone(),
        ethernet: Some(framing.clone()),
        burst: BURST,
        criterion: None,
        confidence: 0.95,
        loss_burst: 1.0,
        most_seconds,
        most_frames: None,
    }
}

pub(super) fn document(target: &str, rows: Vec<RawRow>) -> RawDocument {
    RawDocument {
        schema: RawDocument::SCHEMA.to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        date: now(),
        target: target.to_owned(),
        rows,
    }
}
