//! `farline cp`: copy files and trees.

use crate::output::Output;
use crate::progress::{Progress, Sample};
use farline::channels::trust::{Fingerprint, Trust};
use farline::client::{DataPath, Location, Options, Outcome, Reach, Standing, Trial, Verify, copy};
use farline::stores::Stall;
use farline_core::transfer::{Limit, Wishes};
use farline_core::units::{Bytes, Error, Fault, Rate, Span};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline cp big.h5 dtn2.example.org:/data/
  farline cp -r ftp://old.site:2811/run7 /scratch/
  farline cp memory:10G 'farline://dtn2.example.org/?null'

`src` is copied by its name, `src/` is its content alone, as rsync has it. Every
file lands whole under its name or not at all. Between Farline ends each file's
BLAKE3 digest is compared; with a stock server, where --verify digest is written
out or a copy is resumed, its CKSM. Over ssh (host:path) and ftps:// data is encrypted.";

/// Copy files and trees between this host and a GridFTP node
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to copy: local paths, USER@HOST:PATH, memory:SIZE, farline://, ftp:// or ftps://user:password@host:port/path
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// Where to: a path, null:, memory:SIZE, a URL; what ends in / is a directory
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Copy directories with what they hold [default: no]
    #[arg(long, short)]
    recursive: bool,
    /// Data channels, 1 to 60 [default: by round-trip time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=60))]
    streams: Option<u8>,
    /// Congestion control of the sending end, such as htcp; loaded if missing
    /// [default: chosen]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Staging memory, such as 64MiB [default: chosen]
    #[arg(long, value_name = "BYTES")]
    staging: Option<Bytes>,
    /// How arrival is checked [default: digest]
    #[arg(long, value_name = "HOW")]
    verify: Option<VerifyHow>,
    /// No faster in all, such as 500Mbit/s [default: none]
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,
    /// Data in the clear over ssh and ftps:// [default: no]
    #[arg(long)]
    no_encrypt: bool,
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
    /// For measuring staging (docs/speed.md): the source stalls so, such as 50ms/1s [default: no]
    #[arg(long, hide = true, value_name = "PAUSE/EVERY")]
    trial_stall: Option<Stall>,
    /// For measuring staging: reading and sending take turns [default: no]
    #[arg(long, hide = true)]
    trial_in_turns: bool,
}

/// How a copy's arrival is checked.
#[derive(Clone, Copy, clap::ValueEnum)]
enum VerifyHow {
    // Not doc comments: clap would give each value a paragraph, and the help would not fit a screen.
    // CRC32C of every block and BLAKE3 of every file, end to end
    Digest,
    // CRC32C of every block
    Checksum,
    // Not beyond TCP's own checksum
    None,
}

impl From<VerifyHow> for Verify {
    fn from(how: VerifyHow) -> Verify {
        match how {
            VerifyHow::Digest => Verify::Digest,
            VerifyHow::Checksum => Verify::Checksum,
            VerifyHow::None => Verify::None,
        }
    }
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let sources: Result<Vec<Location>, Error> = args.sources.iter().map(|text| Location::parse(text)).collect();
    let sources = sources?;
    let destination = Location::parse(&args.destination)?;
    let wishes = Wishes { streams: args.streams.map(usize::from), congestion: args.congestion, staging: args.staging };
    let ssh = args.ssh.or_else(|| std::env::var("FARLINE_SSH").ok()).unwrap_or_default();
    let reach = Reach {
        trust: Trust { authorities: args.tls_ca, fingerprint: args.tls_pin },
        no_encrypt: args.no_encrypt,
        ssh: ssh.split_whitespace().map(str::to_owned).collect(),
        remote_farline: args.remote_farline,
    };
    let trial = Trial { stall: args.trial_stall, in_turns: args.trial_in_turns };
    let options = Options {
        recursive: args.recursive,
        limit: args.limit,
        wishes,
        reach,
        verify: args.verify.unwrap_or(VerifyHow::Digest).into(),
        trial,
        compare_at_stock: matches!(args.verify, Some(VerifyHow::Digest)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Fault::Here, "no-runtime", format!("cannot start: {error}")))?;
    let mut progress = Progress::new(output, "copy");
    let mut watch = |standing: &Standing| {
        progress.update(&Sample {
            bytes_done: standing.bytes,
            bytes_total: standing.bytes_total,
            // Files of a tree land together at its end.
            files_done: None,
            files_total: standing.files_total,
            elapsed: standing.elapsed,
        });
    };
    let result = runtime.block_on(async {
        tokio::select! {
            result = copy(&sources, &destination, &options, &mut watch) => result,
            _ = crate::interrupt::interrupted() => Err(Error::new(Fault::You, "interrupted", "interrupted; nothing half-done was left under a final name")),
        }
    });
    progress.finish();
    // Threads of an interrupted transfer end with the process.
    runtime.shutdown_background();
    let outcome = result?;
    report(&outcome, args.verbose, output)?;
    Ok(match outcome.failures.first() {
        None => ExitCode::SUCCESS,
        Some(failure) => ExitCode::from(failure.error.fault.exit_code()),
    })
}

fn report(outcome: &Outcome, verbose: bool, output: &Output) -> Result<(), Error> {
    let mut text = format!(
        "{} in {} file{}, {:.2} s, {}; {}",
        Bytes(outcome.bytes),
        outcome.files,
        if outcome.files == 1 { "" } else { "s" },
        outcome.seconds,
        Rate::from_bps(outcome.rate_bps),
        if outcome.verified { "verified" } else { outcome.verified_how },
    );
    match outcome.encrypted {
        Some(true) => text.push_str(", encrypted"),
        Some(false) => text.push_str(", not encrypted"),
        None => {}
    }
    match outcome.data_path {
        Some(DataPath::ControlPort) => {
            text.push_str("\ndata went through the control port: the node's data ports could not be reached");
        }
        Some(DataPath::Ssh) => text.push_str("\ndata went through ssh: the other host's data ports could not be reached"),
        _ => {}
    }
    for note in &outcome.notes {
        text.push_str(&format!("\n{note}"));
    }
    if verbose {
        text.push_str(&format!("\nrtt {}", Span::from_secs_f64(outcome.rtt_seconds)));
        for reason in &outcome.reasons {
            text.push_str(&format!("\nchosen: {reason}"));
        }
        text.push_str(&format!(
            "\nlimited by {}; {} retransmissions, {:.2} s of processor time, {} of memory",
            in_words(outcome.limited_by),
            outcome.retransmits,
            outcome.cpu_seconds,
            Bytes(outcome.peak_rss_bytes)
        ));
    }
    for failure in &outcome.failures {
        text.push_str(&format!("\nnot copied: {}: {}", failure.path, failure.error));
        if let Some(hint) = &failure.error.hint {
            text.push_str(&format!("\nhint: {hint}"));
        }
    }
    output.result(outcome, text)
}

fn in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu => "this host's processor",
        Limit::DiskRead => "reading the source",
        Limit::DiskWrite => "writing the destination",
        Limit::Network => "the network: congestion window, rate or loss",
        Limit::ReceiverWindow => "the receiver's window",
        Limit::SendBuffer => "this host's send buffers (net.ipv4.tcp_wmem)",
        Limit::SetUp => "set-up: connections and round trips",
        _ => "something this version has no words for",
    }
}
