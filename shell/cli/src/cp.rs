//! `farline cp`: copy files and trees.

use crate::attributes::AttributeArgs;
use crate::booked::{self, Begun, ReserveFlag};
use crate::connect;
use crate::copy_report::{self, Asked};
use crate::flags;
use crate::interrupt::{self, Signals};
use crate::numbers;
use crate::output::Output;
use crate::progress::{ProgressDisplay, ProgressLine};
use crate::select::SelectionArgs;
use farline::channels::Stack;
use farline::channels::trust::Fingerprint;
use farline::client::{
    Backup, CancelToken, Existing, HeldRate, Location, Options, Outcome, Progress, RetryListener,
    RetryNotice, StoredProfiles, Trial, Verify, copy,
};
use farline::stores::DirectIo;
use farline_core::copy::RETRY_FOR;
use farline_core::plan::{ChannelLimits, Stall};
use farline_core::transfer::UserOverrides;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, ParseQuantityError, Rate, Span};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long an interrupted copy may take to make durable what it has.
const GRACE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  farline cp big.h5 dtn2.example.org:/data/
  farline cp -r ftp://old.site:2811/run7 /scratch/
  tar c run7 | farline cp - dtn2.example.org:run7.tar

`src` goes by name, `src/` is its content. Files land whole, compared by CRC-64;
over ssh, ftps:// encrypted (gsiftp://: --encrypt). More: `farline sync --help`.";

/// Copy files and trees between this host and a GridFTP node
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Paths, HOST:PATH, -, memory:SIZE, URLs: farline, (gsi|ssh)ftp(s)
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// Where to: the same, or null:; what ends in / is a directory
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Copy directories with what they hold [default: no]
    #[arg(long, short)]
    recursive: bool,
    /// Leave what is there alone [default: replace it]
    #[arg(long, conflicts_with = "skip_same")]
    no_clobber: bool,
    /// Leave files of the same size and time alone
    #[arg(long)]
    skip_same: bool,
    #[command(flatten)]
    how: How,
}

/// What a copy does, which `sync` says of itself.
pub(crate) struct What {
    pub(crate) recursive: bool,
    pub(crate) existing: Existing,
    pub(crate) most_deleted: Option<u64>,
}

/// How it is done.
#[derive(clap::Args)]
pub(crate) struct How {
    /// Only say what would be copied, and why
    #[arg(long, hide = true)]
    dry_run: bool,
    /// Compare by content, not size and time [default: no]
    #[arg(long, short, hide = true)]
    checksum: bool,
    /// Keep what is replaced or deleted [default: no]
    #[arg(long, short, hide = true)]
    backup: bool,
    /// Ends their names [default: ~; none in a directory]
    #[arg(long, value_name = "S", hide = true)]
    suffix: Option<OsString>,
    /// Keep it there, by its path [default: next to it]
    #[arg(long, value_name = "DIR", hide = true)]
    backup_dir: Option<OsString>,
    #[command(flatten)]
    attributes: AttributeArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Such as tcp or rdma:4:exchange:read [default: tcp]
    #[arg(long, value_name = "DRIVER", value_parser = crate::channel::stack)]
    channel: Option<Stack>,
    /// Data channels, 1 to 60 [default: by round-trip time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(ChannelLimits::ASKED)))]
    streams: Option<u8>,
    /// Such as htcp, or held --rate 4G [default: chosen]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// The booked rate that --congestion held holds from the first round trip on, such as 4G: with
    /// nodes that admit it (serve --allow-held) [default: none]
    #[arg(long, hide = true, value_name = "RATE")]
    rate: Option<Rate>,
    /// Socket buffers, such as 16MiB [default: kernel's]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<Bytes>,
    /// Files past the page cache, here [default: no]
    #[arg(long, hide = true)]
    direct_io: bool,
    /// Staging memory, such as 64MiB [default: chosen]
    #[arg(long, value_name = "BYTES")]
    staging: Option<Bytes>,
    /// All files land at the end [default: when whole]
    #[arg(long)]
    atomic: bool,
    /// digest, blake3, checksum or none [default: by peer]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    verify: Option<VerifyHow>,
    /// No faster in all, such as 500Mbit/s [default: none]
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,
    /// Book bandwidth: by=18:00, or id=r-17 [default: no]
    #[arg(long, value_name = "HOW", value_parser = booked::reserve_flag)]
    reserve: Option<ReserveFlag>,
    /// Longest silence of a server; 0: any [default: 60]
    #[arg(long, value_name = "SECS", value_parser = numbers::seconds)]
    timeout: Option<u64>,
    /// Retry passing faults; 0: never [default: 10min]
    #[arg(long, value_name = "TIME", value_parser = retry_time)]
    retry_for: Option<Span>,
    /// End after so long, such as 2h [default: none]
    #[arg(long, hide = true, value_name = "TIME", value_parser = deadline)]
    #[arg(conflicts_with = "reserve")]
    deadline: Option<Span>,
    /// Begin as over any path, whatever earlier copies saw [default: $FARLINE_FRESH_START, or no]
    #[arg(long, hide = true)]
    fresh_start: bool,
    /// Data in the clear over ssh and ftps:// [default: no]
    #[arg(long)]
    no_encrypt: bool,
    /// Data of gsiftp:// encrypted with any server, not only authenticated [default: with Farline
    /// nodes]
    #[arg(long, hide = true, conflicts_with = "no_encrypt")]
    encrypt: bool,
    /// Authorities for ftps://, in PEM [default: system's]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate for ftps://, its SHA-256 [default: any]
    #[arg(long, value_name = "HEX")]
    tls_pin: Option<Fingerprint>,
    /// For host:path [default: $FARLINE_SSH, or ssh]
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// Path of farline there [default: found by its PATH]
    #[arg(long, value_name = "P")]
    remote_farline: Option<String>,
    /// Say what was chosen, why, and what held it back
    #[arg(long, short)]
    verbose: bool,
    /// For measuring staging (docs/decisions): the source stalls so, such as 50ms/1s [default: no]
    #[arg(long, hide = true, value_name = "PAUSE/EVERY")]
    trial_stall: Option<Stall>,
    /// For measuring staging: the source gives no more than this, such as 500M [default: all it
    /// can]
    #[arg(long, hide = true, value_name = "RATE")]
    trial_read: Option<Rate>,
    /// For measuring: the destination takes no more than this, here [default: all it can]
    #[arg(long, hide = true, value_name = "RATE")]
    trial_write: Option<Rate>,
    /// For measuring: making what came durable takes so much longer, here [default: 0s]
    #[arg(long, hide = true, value_name = "SPAN")]
    trial_sync: Option<Span>,
    /// For measuring staging: reading and sending take turns [default: no]
    #[arg(long, hide = true)]
    trial_in_turns: bool,
}

/// How a copy's arrival is checked.
#[derive(Clone, Copy, clap::ValueEnum)]
enum VerifyHow {
    // Not doc comments: clap would give each value a paragraph, and the help would not fit a
    // screen. CRC32C of every block and CRC-64/NVME of every file, end to end
    Digest,
    // The same with BLAKE3
    Blake3,
    // CRC32C of every block
    Checksum,
    // Not beyond TCP's own checksum
    None,
}

impl From<VerifyHow> for Verify {
    fn from(how: VerifyHow) -> Verify {
        match how {
            VerifyHow::Digest => Verify::Digest,
            VerifyHow::Blake3 => Verify::Blake3,
            VerifyHow::Checksum => Verify::Checksum,
            VerifyHow::None => Verify::None,
        }
    }
}

/// A time such as 10min; 0 needs no unit.
fn retry_time(text: &str) -> Result<Span, ParseQuantityError> {
    if text == "0" { Ok(Span::ZERO) } else { text.parse() }
}

/// A time in which something can be copied.
fn deadline(text: &str) -> Result<Span, String> {
    let within: Span = text.parse().map_err(|error: ParseQuantityError| error.to_string())?;
    match within == Span::ZERO {
        true => Err("no time at all; leave --deadline out for no end".to_owned()),
        false => Ok(within),
    }
}

/// What `FARLINE_RETRY_FOR` says, or ten minutes.
fn usual_retry_time() -> Result<Span, Error> {
    let Ok(text) = std::env::var("FARLINE_RETRY_FOR") else { return Ok(RETRY_FOR) };
    retry_time(&text).map_err(|error| {
        let message = format!("FARLINE_RETRY_FOR: {error}");
        Error::new(Fault::You, ErrorCode::BadConfig, message)
    })
}

/// Whether `FARLINE_FRESH_START` is set.
pub(crate) fn is_fresh_start() -> bool {
    std::env::var_os("FARLINE_FRESH_START").is_some_and(|value| !value.is_empty())
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let sources: Result<Vec<Location>, Error> =
        args.sources.iter().map(|text| Location::parse(text)).collect();
    let sources = sources?;
    let destination = Location::parse(&args.destination)?;
    let existing = match (args.no_clobber, args.skip_same) {
        (true, _) => Existing::Keep,
        (false, true) => Existing::KeepSame,
        (false, false) => Existing::Replace,
    };
    let what = What { recursive: args.recursive, existing, most_deleted: None };
    carry_out(&sources, &destination, what, args.how, output)
}

impl How {
    /// What the copy is told, whatever comes of it.
    ///
    /// # Errors
    /// When two of the flags contradict each other.
    fn options(self, what: What, ends: &[&Location]) -> Result<Options, Error> {
        let is_booked = self.reserve.is_some();
        let congestion = self.congestion.as_deref();
        let booked_rate = (is_booked && congestion == Some("held")).then(Rate::default);
        let held = held(congestion, self.rate.or(booked_rate), self.streams, is_booked)?;
        let mut options = Options::default();
        options.recursive = what.recursive || self.attributes.archive;
        options.attributes = self.attributes.set();
        options.existing = existing(what.existing, self.checksum)?;
        options.most_deleted = what.most_deleted;
        options.selection = self.selection.selection()?;
        options.dry_run = self.dry_run;
        options.backup = backup(self.backup, self.suffix, self.backup_dir)?;
        options.limit = self.limit;
        options.overrides = UserOverrides {
            streams: self.streams.map(usize::from),
            congestion: match held {
                Some(_) => None,
                None => congestion.map(str::parse).transpose()?,
            },
            staging: self.staging,
            prior: None,
        };
        options.held = held;
        options.stored_profiles = StoredProfiles::Use;
        options.fresh_start = self.fresh_start || is_fresh_start();
        options.verify = self.verify.unwrap_or(VerifyHow::Digest).into();
        options.compare_at_stock = matches!(self.verify, Some(VerifyHow::Digest));
        options.atomic = self.atomic;
        options.buffer = self.buffer;
        options.direct_io = if self.direct_io { DirectIo::wanted() } else { DirectIo::default() };
        options.channel = self.channel;
        options.retry_for = self.retry_for.map_or_else(usual_retry_time, Ok)?;
        let Trial { read, write, stall, sync, in_turns, .. } = &mut options.trial;
        (*read, *write) = (self.trial_read, self.trial_write);
        (*stall, *sync) = (self.trial_stall, self.trial_sync);
        *in_turns = self.trial_in_turns;
        options.connect = connect::with(self.ssh, self.tls_ca, self.tls_pin);
        (options.connect.no_encrypt, options.connect.encrypt) = (self.no_encrypt, self.encrypt);
        options.connect.remote_farline = self.remote_farline;
        options.connect.timeout = self.timeout.map(Span::from_secs);
        connect::ask_for_password(&mut options.connect, ends.iter().copied())?;
        Ok(options)
    }
}

/// What happens to what is there.
///
/// # Errors
/// When it can be replaced and cannot.
fn existing(existing: Existing, by_content: bool) -> Result<Existing, Error> {
    match (existing, by_content) {
        (Existing::Keep, true) => {
            let message = "--checksum replaces what differs, and --no-clobber nothing";
            Err(Error::new(Fault::You, ErrorCode::Usage, message))
        }
        (_, true) => Ok(Existing::KeepSameContent),
        (existing, false) => Ok(existing),
    }
}

/// Where what is replaced is kept, if it is.
///
/// # Errors
/// When a suffix stands alone, or is none.
fn backup(
    is_wanted: bool,
    suffix: Option<OsString>,
    folder: Option<OsString>,
) -> Result<Option<Backup>, Error> {
    if !is_wanted && folder.is_none() {
        if suffix.is_none() {
            return Ok(None);
        }
        let message = "--suffix is of backups: --backup or --backup-dir is missing";
        return Err(Error::new(Fault::You, ErrorCode::Usage, message));
    }
    let usual = if folder.is_some() { "" } else { "~" };
    let suffix = suffix.unwrap_or_else(|| usual.into()).into_vec();
    Backup::new(suffix, folder.map(OsString::into_vec)).map(Some)
}

/// Copies, and says what came of it.
pub(crate) fn carry_out(
    sources: &[Location],
    destination: &Location,
    what: What,
    args: How,
    output: &Output,
) -> Result<ExitCode, Error> {
    if *destination == Location::Standard {
        output.leave_stdout_to_data();
    }
    let (verbose, dry_run, deadline) = (args.verbose, args.dry_run, args.deadline);
    let reserve = args.reserve.clone().filter(|_| !dry_run);
    let ends: Vec<&Location> = sources.iter().chain([destination]).collect();
    let mut options = args.options(what, &ends)?;
    let runtime = interrupt::runtime("start")?;
    let mut booked = match &reserve {
        None => None,
        Some(flag) => {
            match booked::begin(flag, sources, destination, &mut options, &runtime, output) {
                Err(error) => return booked::refused(error, output),
                Ok(Begun::Booked(booked)) => Some(booked),
                Ok(Begun::Nothing) => None,
                Ok(Begun::Ended(code)) => {
                    output.error(&CancelToken::error());
                    runtime.shutdown_background();
                    return Ok(ExitCode::from(code));
                }
            }
        }
    };
    let mut progress = ProgressDisplay::new(output, "copy");
    let say = progress.speaker();
    options.on_retry = RetryListener::new(move |notice: &RetryNotice| {
        let RetryNotice { error, failures, wait, .. } = notice;
        let error = flags::in_flags(&error.to_string());
        say(&format!("{error}; trying again in {wait:.0} (attempt {})", failures + 1));
    });
    if let Some(booked) = &mut booked {
        booked.watch(&options.cancel, progress.speaker())?;
    }
    let mut watch = |so_far: &Progress| {
        if let Some(booked) = &booked {
            booked.on_progress(so_far);
        }
        progress.update(&sample(so_far));
    };
    let ended =
        runtime.block_on(copy_until_ended(sources, destination, &options, deadline, &mut watch));
    let (result, cause) = ended;
    progress.finish();
    // Threads of an interrupted transfer end with the process.
    runtime.shutdown_background();
    let (booking, ended) = match booked.map(|booked| booked.end(result.is_ok())) {
        Some((summary, ended)) => (Some(summary), ended),
        None => (None, None),
    };
    let result = match (result, ended) {
        (Err(error), Some(ended)) if error.code == ErrorCode::Interrupted => Err(ended),
        (result, _) => result,
    };
    let is_piped = ends.iter().any(|end| matches!(end, Location::Standard));
    let result = result.map_err(|error| with_way_on(error, is_piped));
    let outcome = match (result, cause) {
        (Err(error), Some(Ended::Signalled(code))) if error.code == ErrorCode::Interrupted => {
            output.error(&error);
            return Ok(ExitCode::from(code));
        }
        (Err(error), Some(Ended::Late(within))) if error.code == ErrorCode::Interrupted => {
            return Err(late(&error, within));
        }
        (result, _) => result?,
    };
    let asked = Asked { verbose, dry_run: options.dry_run, existing: options.existing };
    copy_report::report(&outcome, booking, &asked, output)?;
    Ok(match outcome.failures.first().or(outcome.not_deleted.first()) {
        None => ExitCode::SUCCESS,
        Some(failure) => ExitCode::from(failure.error.fault.exit_code()),
    })
}

/// The error of a copy whose connection was lost, with how to go on; what went through a pipe is
/// gone.
fn with_way_on(error: Error, is_piped: bool) -> Error {
    let is_lost = matches!(error.code, ErrorCode::ControlClosed | ErrorCode::ChannelLost);
    if !is_lost || is_piped || error.hint.is_some() {
        return error;
    }
    error.hint(
        "run the same command again: it goes on from what is durable; with a longer --retry-for \
         it does so by itself",
    )
}

/// What the screen shows of how a copy stands.
fn sample(so_far: &Progress) -> ProgressLine {
    ProgressLine {
        bytes_done: so_far.bytes,
        bytes_there: so_far.resumed,
        bytes_total: so_far.bytes_total,
        files_done: so_far.files,
        files_total: so_far.files_total,
        limited_by: so_far.limited_by,
        elapsed: so_far.elapsed,
    }
}

/// Why a copy was ended before it was over.
enum Ended {
    /// A signal, with its exit code.
    Signalled(u8),
    /// It took longer than this.
    Late(Span),
}

/// Copies until it is over, a signal comes, or it took too long; what came of it, and which of
/// those.
async fn copy_until_ended(
    sources: &[Location],
    destination: &Location,
    options: &Options,
    deadline: Option<Span>,
    watch: &mut (dyn FnMut(&Progress) + Send),
) -> (Result<Outcome, Error>, Option<Ended>) {
    // Before a congestion control is loaded: a signal in between would leave it.
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return (Err(error), None),
    };
    let late = async {
        match deadline {
            Some(within) => {
                tokio::time::sleep(within.into()).await;
                within
            }
            None => std::future::pending().await,
        }
    };
    let copying = copy(sources, destination, options, watch);
    tokio::pin!(copying);
    let cause = tokio::select! {
        result = &mut copying => return (result, None),
        code = signals.next() => Ended::Signalled(code),
        within = late => Ended::Late(within),
    };
    options.cancel.ask();
    // It makes durable what it can go on from, and says so; who asks twice does not want to wait
    // for that.
    let result = tokio::select! {
        result = copying => result,
        () = tokio::time::sleep(GRACE) => Err(CancelToken::error()),
        _ = signals.next() => Err(CancelToken::error()),
    };
    (result, Some(cause))
}

/// What an interrupted copy says that took longer than `within`: what is kept is the same.
fn late(interrupted: &Error, within: Span) -> Error {
    let kept = &interrupted.message;
    let message = format!("the copy was not over within its --deadline, {within}: {kept}");
    let error = Error::new(Fault::Between, ErrorCode::DeadlinePassed, message);
    match &interrupted.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error.hint("give it longer, or none"),
    }
}

/// The booked rate that is to be held, if one is.
///
/// # Errors
/// When the control or its rate is missing.
fn held(
    congestion: Option<&str>,
    rate: Option<Rate>,
    streams: Option<u8>,
    is_booked: bool,
) -> Result<Option<HeldRate>, Error> {
    let wrong = |message, hint| Err(Error::new(Fault::You, ErrorCode::Usage, message).hint(hint));
    match (congestion == Some("held"), rate) {
        (false, None) => Ok(None),
        // What is booked for it is known when it is.
        (true, Some(rate)) if rate > Rate::default() || is_booked => {
            Ok(Some(HeldRate { rate, channels: streams.map_or(1, usize::from) }))
        }
        (true, _) => {
            let message = "--congestion held needs the rate that was booked";
            wrong(message, "such as --congestion held --rate 4G")
        }
        (false, Some(_)) => {
            let message = "--rate is what --congestion held holds";
            wrong(message, "to go no faster than a rate: --limit 500M")
        }
    }
}
