//! `farline line`: loss, bit errors and delay of a path, and what of them is sure.

mod compare;
mod loads;
mod preset;
mod progress;
mod raw;
mod raw_preset;
mod reflect;
mod report;
mod search;
mod state_file;
mod steps;
mod target;
mod vlan;

use crate::connect;
use crate::export::{write_as_named, write_each};
use crate::output::{self, Output};
use crate::provenance::now;
use farline::channels::trust::Fingerprint;
use farline::line::{self, LineProgress, LineRequestOptions};
use farline::plan::document::{check, place};
use farline_core::line::{
    FrameMix, LineCriterion, LineOutcome, LineSettings, MOST_BURST, Pattern, PresetState,
    SavedTest, words,
};
use farline_core::report::Section;
use farline_core::units::{Error, ErrorCode, Fault, Probability, Rate, Span};
use loads::Loads;
use progress::LineFace;
use search::SearchFor;
use state_file::{StateFile, say_how_to_go_on};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use target::LineTarget;
use vlan::VlanTag;

const EXAMPLES: &str = "\
Example (fills the path, RFC 6815; exit 0 passed, 5 failed, 3 not decided):
  farline line dtn2.example.org --rate 1G --ber 1e-12 -o line.html";

/// Without a limit to decide on a test lasts so long.
const USUAL: u64 = 10;
/// With one it lasts at most so many times what it takes at best.
const TIMES: f64 = 10.0;
/// Frames leave in bursts of as many as take this long, unless told otherwise: more in a burst cost
/// less here, and fill queues that single frames would not.
const BURST: f64 = 50e-6;
const MOST_IN_BURST: f64 = 64.0;
/// Bytes of a frame of a test with STAMP, whose packets are of one size.
const USUAL_STAMP: u32 = 512;
/// Longer lines are read less well, however wide a terminal is.
const MOST_COLUMNS: usize = 80;
/// Shorter keys are guessed.
const LEAST_KEY: usize = 8;

/// Test a line: loss, bit errors, delay, and how sure they are
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    override_usage = "farline line [OPTIONS] [TARGET|COMMAND]"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// HOST, HOST:PORT (`line reflect`), farline://NODE, a link
    #[arg(value_name = "TARGET", required_unless_present_any = ["resume", "preset"])]
    target: Option<String>,
    /// Ethernet frames; TARGET is a MAC [default: UDP]
    #[arg(long, value_name = "DEV", conflicts_with = "stamp")]
    ethernet: Option<String>,
    /// Their VLAN and priority [default: none]
    #[arg(long, value_name = "ID[:0-7]", requires = "ethernet")]
    vlan: Option<VlanTag>,
    /// The line's rate, on the wire
    #[arg(long, value_name = "RATE", default_value = "100M")]
    rate: Rate,
    /// Percent of it; 10..100 is a curve
    #[arg(long, value_name = "PERCENT", default_value = "100")]
    load: Loads,
    /// imix, rfc2544, or bytes [default: cjpat-mix]
    #[arg(long, value_name = "FRAMES")]
    frames: Option<FrameMix>,
    /// cjpat, crpat, prbs7 to 31 [default: the mix's]
    #[arg(long, value_name = "NAME")]
    pattern: Option<Pattern>,
    /// Frames back to back [default: 50 us, at most 64]
    #[arg(long, value_name = "FRAMES")]
    burst: Option<u32>,
    /// Bit error ratio to decide on [default: none]
    #[arg(long, value_name = "RATIO", conflicts_with = "loss")]
    ber: Option<Probability>,
    /// Loss ratio to decide on [default: none]
    #[arg(long, value_name = "RATIO")]
    loss: Option<Probability>,
    /// Lost at once where it passes, mean [default: 1]
    #[arg(long, value_name = "FRAMES")]
    loss_burst: Option<u32>,
    /// Of decisions and intervals
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    confidence: f64,
    /// How long at most [default: 10s, or 10 x at best]
    #[arg(long = "for", value_name = "SPAN")]
    duration: Option<Span>,
    /// .html, .csv, .parquet, or document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// Load at this loss; mlr; bursts [default: none]
    #[arg(long, value_name = "RATIO", num_args = 0..=1, default_missing_value = "0", conflicts_with_all = ["ber", "loss", "loss_burst", "state", "resume", "stamp"])]
    search: Option<SearchFor>,
    /// Y.1564's steps, in TOML [default: none]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ber", "loss", "loss_burst", "state", "resume", "stamp", "search", "rate", "load"])]
    service: Option<PathBuf>,
    /// wanphy-line, wanphy-raw, usn-vlans [default: none]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["target", "ethernet", "rate", "load", "frames", "pattern", "burst", "ber", "loss", "loss_burst", "confidence", "duration", "resume", "stamp", "search", "service"])]
    preset: Option<String>,
    /// The preset as long and fast as in the paper
    #[arg(long, requires = "preset")]
    full: bool,
    /// TARGET is any STAMP or TWAMP Light reflector
    #[arg(long, conflicts_with_all = ["state", "resume", "pattern", "burst"])]
    stamp: bool,
    /// Authenticates STAMP [default: none]
    #[arg(long, value_name = "FILE", requires = "stamp")]
    stamp_key: Option<PathBuf>,
    /// Authorities for farlines://, in PEM [default: system's]
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["ethernet", "stamp", "preset"])]
    tls_ca: Option<PathBuf>,
    /// Certificate for farlines://, its SHA-256 [default: any]
    #[arg(long, value_name = "HEX", hide = true, conflicts_with_all = ["ethernet", "stamp", "preset"])]
    tls_pin: Option<Fingerprint>,
    /// What --resume goes on from [default: none]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Go on with that test [default: none]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "ethernet", "rate", "load", "frames", "pattern", "burst", "ber", "loss", "loss_burst", "confidence", "duration", "state"])]
    resume: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    Raw(raw::Args),
    Reflect(reflect::Args),
    Compare(compare::Args),
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match &args.command {
        Some(Command::Raw(raw)) => return raw::run(raw, output),
        Some(Command::Reflect(reflect)) => return reflect::run(reflect, output),
        Some(Command::Compare(compare)) => return compare::run(compare, output),
        None => {}
    }
    let state = args.state.as_ref().or(args.resume.as_ref());
    let read = [state, args.service.as_ref(), args.stamp_key.as_ref()];
    not_over(&args.out, &read.into_iter().flatten().cloned().collect::<Vec<_>>())?;
    args.out.iter().chain(state).try_for_each(|file| check(file))?;
    let state = state.map(|file| StateFile::hold(file)).transpose()?;
    let resume = match &state {
        Some(state) if args.resume.is_some() => Some(state.read()?),
        Some(state) => state.require_free().map(|()| None)?,
        None => None,
    };
    let begun = args.preset.as_ref().map(|name| PresetState::new(name, args.full));
    let (resume, preset) = match resume {
        Some(SavedTest::Line(state)) => (Some(*state), None),
        Some(SavedTest::Preset(state)) => (None, Some(*state)),
        None => (None, begun),
    };
    if let Some(preset) = preset {
        return preset::run(preset, state.as_ref(), &args.out, output);
    }
    let settings = match &resume {
        Some(state) => state.test.settings.clone(),
        None => args.settings()?,
    };
    if let Some(best) = settings.at_best() {
        output.remark(format_args!("a decision takes {} at best", words(best)));
    }
    let (runtime, signals) = crate::interrupt::listening()?;
    let stop = crate::interrupt::asked(runtime, signals)?;
    let target = match settings.ethernet {
        Some(_) => LineTarget::of_ethernet(&settings.target)?,
        None => {
            let connect = connect::with(None, args.tls_ca.clone(), args.tls_pin);
            LineTarget::find(&settings.target, connect)?
        }
    };
    if args.stamp && !target.is_host() {
        let message = "--stamp is for a host that answers STAMP, no link and no node";
        return Err(Error::new(Fault::You, ErrorCode::LineSetting, message));
    }
    let mut options = LineRequestOptions::new(settings);
    (options.stop, options.resume) = (stop, resume);
    if let Some(search) = &args.search {
        return search.run(&target, &options, &args.out, output);
    }
    if let Some(file) = &args.service {
        return steps::service(&target, &options, file, &args.out, output);
    }
    if args.load.is_range() {
        return steps::curve(&target, &options, args.load.all(), &args.out, output);
    }
    let mut face = LineFace::new(output);
    let show = |progress: &LineProgress<'_>| {
        face.show(progress);
        if let Some(file) = &state {
            file.save(&(progress.state)(), output);
        }
        Ok(())
    };
    let key = args.stamp_key.as_deref().map(key).transpose()?;
    let test = match args.stamp {
        true => line::run_stamp(&options, key.as_deref(), show),
        false => target.run(&options, show),
    };
    face.clear();
    let document = test?.document(env!("CARGO_PKG_VERSION"), &now());
    let written = write_each(&args.out, |file| write_as_named(file, &document));
    output.result(&document, document.plain(room()))?;
    if document.can_go_on() {
        say_how_to_go_on(state.as_ref(), "test", output);
    }
    written?;
    Ok(ExitCode::from(exit_code(document.outcome)))
}

/// A section as the terminal behind stdout has it, or in 80 columns.
fn plain(section: &Section) -> String {
    section.plain_in(room().min(MOST_COLUMNS))
}

/// How wide lines are for the terminal behind stdout; what is none takes them whole.
fn room() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(usize::MAX, |columns| columns.min(MOST_COLUMNS))
}

fn exit_code(outcome: LineOutcome) -> u8 {
    match outcome {
        LineOutcome::Passed | LineOutcome::Measured => 0,
        LineOutcome::Failed => Fault::Between.exit_code(),
        LineOutcome::Undecided | LineOutcome::Unfit | LineOutcome::BrokenOff => {
            Fault::Here.exit_code()
        }
    }
}

/// Refuses to write a report over what it is made from.
///
/// # Errors
/// [`Fault::You`] where one of `out` is one of `read`, however it is spelt.
fn not_over(out: &[PathBuf], read: &[PathBuf]) -> Result<(), Error> {
    let whole = |file: &Path| file.canonicalize().unwrap_or_else(|_| place(file));
    let is_read = |file: &&PathBuf| read.iter().any(|read| whole(read) == whole(file));
    match out.iter().find(is_read) {
        None => Ok(()),
        Some(file) => {
            let message = format!("{}: it is read, and would be written over", file.display());
            Err(Error::new(Fault::You, ErrorCode::LineSetting, message)
                .hint("name another file with -o"))
        }
    }
}

/// Reads a file of text.
fn text_of(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!("{}: {}", file.display(), output::plain(&error));
        match error.kind() {
            ErrorKind::NotFound => Error::new(Fault::You, ErrorCode::PathNotFound, message),
            _ => Error::new(Fault::Here, ErrorCode::CannotRead, message),
        }
    })
}

/// Reads a key: the bytes of a file, without the line end.
fn key(file: &Path) -> Result<Vec<u8>, Error> {
    let bytes = std::fs::read(file).map_err(|error| {
        Error::new(
            Fault::You,
            ErrorCode::BadKey,
            format!("{}: {}", file.display(), output::plain(&error)),
        )
    })?;
    // A text's last line end is no part of it.
    let key = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let key = key.strip_suffix(b"\r").unwrap_or(key);
    if key.len() < LEAST_KEY {
        let message = format!(
            "{}: a key of {} bytes authenticates nobody: {LEAST_KEY} at least",
            file.display(),
            key.len()
        );
        return Err(Error::new(Fault::You, ErrorCode::BadKey, message)
            .hint("head -c 32 /dev/urandom > KEYFILE, and the same file at both ends"));
    }
    Ok(key.to_vec())
}

impl Args {
    fn settings(&self) -> Result<LineSettings, Error> {
        let wrong = |message: &str| Error::new(Fault::You, ErrorCode::LineSetting, message);
        let limit = |ratio: Probability| match ratio.0 > 0.0 && ratio.0 < 0.1 {
            true => Ok(ratio.0),
            false => Err(wrong("a ratio to decide on is above 0 and below 0.1, such as 1e-12")),
        };
        if !(50.0..100.0).contains(&self.confidence) {
            return Err(wrong("--confidence is in percent, from 50 to below 100"));
        }
        let has_more = self.ber.or(self.loss).is_some() || self.state.is_some() || self.stamp;
        if self.load.is_range() && (has_more || self.search.is_some()) {
            return Err(wrong(
                "several loads are a curve: leave --ber, --loss, --search, --state and --stamp out",
            ));
        }
        if self.rate.as_bps() == 0 || self.burst == Some(0) {
            return Err(wrong("nothing would be sent: --rate and --burst are above 0"));
        }
        let loss_burst = f64::from(self.loss_burst.unwrap_or(1));
        if !(1.0..=MOST_BURST).contains(&loss_burst) {
            return Err(wrong("--loss-burst is from 1 to 1000 frames, in the mean"));
        }
        if self.loss_burst.is_some() && self.ber.or(self.loss).is_none() {
            return Err(wrong("--loss-burst is of a decision: say --ber or --loss too"));
        }
        let criterion = match (self.ber, self.loss) {
            (Some(ber), _) => Some(LineCriterion::BitErrors(limit(ber)?)),
            (None, Some(loss)) => Some(LineCriterion::Loss(limit(loss)?)),
            (None, None) => None,
        };
        let mut frames = match &self.frames {
            Some(frames) => frames.clone(),
            None if self.stamp => FrameMix::fixed(USUAL_STAMP, Pattern::Cjpat),
            None => FrameMix::cjpat(),
        };
        if let Some(pattern) = self.pattern {
            frames = frames.with_pattern(pattern);
        }
        let mut settings = LineSettings {
            target: self.target.clone().unwrap_or_default(),
            rate: self.rate,
            load_percent: self.load.largest(),
            frames,
            ethernet: self.ethernet.clone().map(|device| VlanTag::framing(device, self.vlan)),
            burst: 1,
            criterion,
            confidence: self.confidence / 100.0,
            loss_burst,
            most_seconds: USUAL,
            most_frames: None,
        };
        let usual = (settings.frames_a_second() * BURST).clamp(1.0, MOST_IN_BURST) as u32;
        settings.burst = self.burst.unwrap_or(if self.stamp { 1 } else { usual });
        settings.most_seconds = match (self.duration, settings.at_best()) {
            (Some(duration), _) => duration.as_secs_f64().ceil() as u64,
            (None, Some(best)) => (best.as_secs_f64() * TIMES).ceil() as u64 + 1,
            (None, None) => self.search.as_ref().map_or(USUAL, |what| what.usual_seconds(USUAL)),
        };
        if settings.most_seconds == 0 {
            return Err(wrong("--for is above 0"));
        }
        // A service level has a rate of its own.
        if self.service.is_none() {
            let load_percent = self.load.all().first().copied().unwrap_or(100.0);
            LineSettings { load_percent, ..settings.clone() }.check_burst()?;
        }
        Ok(settings)
    }
}
