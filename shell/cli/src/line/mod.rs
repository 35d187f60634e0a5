//! `farline line`: loss, bit errors and delay of a path, and what of them is sure.

mod progress;
mod reflect;

use crate::output::Output;
use crate::profile::{command, now};
use farline::line::{self, LineProgress, LineRequestOptions};
use farline::plan::document::{check, write};
use farline_core::line::{
    FrameMix, LineCriterion, LineDocument, LineOutcome, LineSettings, Pattern, words,
};
use farline_core::units::{Error, ErrorCode, Fault, Probability, Rate, Span};
use progress::LineFace;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline line dtn2.example.org --rate 10G --load 90 --for 1h -o line.html
  farline line 192.0.2.7 --rate 1G --ber 1e-12

It fills the path at that rate: not for networks that others use (RFC 6815).
Exit: 0 passed or measured, 5 failed by the line, 3 not decided or not fit.";

/// Without a limit to decide on a test lasts so long.
const USUAL: u64 = 10;
/// With one it lasts at most so many times what it takes at best.
const TIMES: f64 = 10.0;
/// Frames leave in bursts of as many as take this long, unless told otherwise: more in a burst cost
/// less here, and fill queues that single frames would not.
const BURST: f64 = 50e-6;
const MOST_IN_BURST: f64 = 64.0;

/// Test a line: loss, bit errors, delay, and how sure they are
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Where `farline line reflect` runs: HOST or HOST:PORT
    #[arg(value_name = "TARGET", required = true)]
    target: Option<String>,
    /// The line's rate, on the wire
    #[arg(long, value_name = "RATE", default_value = "100M")]
    rate: Rate,
    /// Percent of it that is sent
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    load: f64,
    /// imix, rfc2544, or bytes
    #[arg(long, value_name = "FRAMES", default_value = "cjpat-mix")]
    frames: FrameMix,
    /// cjpat, crpat, prbs7 to prbs31 [default: the frames']
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
    /// Of decisions and intervals
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    confidence: f64,
    /// How long at most [default: 10s, or 10 x at best]
    #[arg(long = "for", value_name = "SPAN")]
    duration: Option<Span>,
    /// .html or document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    Reflect(reflect::Args),
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    if let Some(Command::Reflect(reflect)) = args.command {
        return reflect::run(&reflect, output);
    }
    args.out.iter().try_for_each(|file| check(file))?;
    let settings = args.settings()?;
    if let Some(best) = settings.at_best() {
        output.remark(format_args!("a decision takes {} at best", words(best)));
    }
    let (runtime, signals) = crate::interrupt::listening()?;
    let options = LineRequestOptions { settings, stop: crate::interrupt::asked(runtime, signals)? };
    let mut face = LineFace::new(output);
    let test = line::run(&options, |progress: &LineProgress<'_>| {
        face.show(progress);
        Ok(())
    });
    face.clear();
    let document = test?.document(env!("CARGO_PKG_VERSION"), &now());
    for file in &args.out {
        written(file, &document)?;
    }
    output.result(&document, document.plain())?;
    Ok(match document.outcome {
        LineOutcome::Passed | LineOutcome::Measured => ExitCode::SUCCESS,
        LineOutcome::Failed => ExitCode::from(Fault::Between.exit_code()),
        LineOutcome::Undecided | LineOutcome::Unfit => ExitCode::from(Fault::Here.exit_code()),
    })
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
        if !(self.load > 0.0 && self.load <= 100.0) {
            return Err(wrong("--load is in percent of --rate, above 0 and up to 100"));
        }
        if self.rate.as_bps() == 0 || self.burst == Some(0) {
            return Err(wrong("nothing would be sent: --rate and --burst are above 0"));
        }
        let criterion = match (self.ber, self.loss) {
            (Some(ber), _) => Some(LineCriterion::BitErrors(limit(ber)?)),
            (None, Some(loss)) => Some(LineCriterion::Loss(limit(loss)?)),
            (None, None) => None,
        };
        let frames = match self.pattern {
            Some(pattern) => self.frames.clone().with_pattern(pattern),
            None => self.frames.clone(),
        };
        let mut settings = LineSettings {
            target: self.target.clone().unwrap_or_default(),
            rate: self.rate,
            load_percent: self.load,
            frames,
            burst: 1,
            criterion,
            confidence: self.confidence / 100.0,
            most_seconds: USUAL,
        };
        let usual = (settings.frames_a_second() * BURST).clamp(1.0, MOST_IN_BURST) as u32;
        settings.burst = self.burst.unwrap_or(usual);
        settings.most_seconds = match (self.duration, settings.at_best()) {
            (Some(duration), _) => duration.as_secs_f64().ceil() as u64,
            (None, Some(best)) => (best.as_secs_f64() * TIMES).ceil() as u64 + 1,
            (None, None) => USUAL,
        };
        if settings.most_seconds == 0 {
            return Err(wrong("--for is above 0"));
        }
        Ok(settings)
    }
}

fn written(file: &Path, document: &LineDocument) -> Result<(), Error> {
    let is_page = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"));
    if is_page {
        return write(file, document.page(&[command()]).html().as_bytes());
    }
    let json = serde_json::to_vec(document)
        .map_err(|error| Error::new(Fault::Bug, ErrorCode::LineDocument, error.to_string()))?;
    write(file, &json)
}
