//! `farline profile`: throughput over a grid of cells, and two of them beside each other.

mod axes;
mod diff;
mod print;

use crate::output::Output;
use axes::Axes;
use farline_core::profile::{Environment, Form, Job, Kind, PRESETS, Profile, Repetition, preset, repetition};
use farline_core::units::{Error, Fault};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

const EXAMPLES: &str = "\
Examples:
  farline profile --simulate --preset sc08-distance -o sc08.json -o sc08.html
  farline profile --simulate --rate 100G --rtt 200ms --streams 1-16
Presets are listed by `farline profile --simulate --preset list`.";

/// Measure throughput over a grid of paths, streams and controls
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// In virtual time, without a link, by the model
    #[arg(long)]
    simulate: bool,
    /// A paper's experiment, or `list` [default: axes]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// All cells of the preset, not a choice of them
    #[arg(long, requires = "preset")]
    full: bool,
    #[command(flatten)]
    axes: Axes,
    /// A page (.html) or the document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// Go on with the profile in this file [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    resume: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    Diff(diff::Args),
}

pub(crate) use print::plan as plan_text;

/// A profile under way is written this often, so that a broken run loses little.
const SAVE_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    if let Some(Command::Diff(diff)) = args.command {
        return diff::run(&diff, output);
    }
    if args.preset.as_deref() == Some("list") {
        return list(output);
    }
    if !args.simulate {
        return Err(Error::new(Fault::You, "profile-simulate", "this version measures no path by itself")
            .hint("give --simulate for the model"));
    }
    let mut profile = match (&args.resume, &args.preset) {
        (Some(file), _) => read(file)?,
        (None, Some(name)) => {
            let form = if args.full { Form::Full } else { Form::Quick };
            start(args.axes.over(preset(name, form)?)?)?
        }
        (None, None) => start(args.axes.grid()?)?,
    };
    if profile.kind != Kind::Modelled {
        return Err(Error::new(Fault::You, "profile-kind", "a measured profile cannot go on by simulation"));
    }
    let documents: Vec<&PathBuf> = args.resume.iter().chain(args.out.iter().filter(|file| !is_page(file))).collect();
    let mut saved = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    loop {
        // Many at a time, so that no worker waits long for the others.
        let jobs = profile.next(workers * 8);
        if jobs.is_empty() {
            break;
        }
        for (job, repetition) in simulate(&profile, &jobs, workers) {
            profile.record(job, repetition);
        }
        if saved.elapsed() > SAVE_EVERY {
            documents.iter().try_for_each(|file| write(file, &document(&profile)?))?;
            saved = Instant::now();
        }
    }
    documents.iter().try_for_each(|file| write(file, &document(&profile)?))?;
    let command = std::env::args().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ");
    for file in args.out.iter().filter(|file| is_page(file)) {
        write(file, profile.page(std::slice::from_ref(&command)).html().as_bytes())?;
    }
    output.result(&profile, print::table(&profile))?;
    Ok(ExitCode::SUCCESS)
}

fn start(grid: farline_core::profile::Grid) -> Result<Profile, Error> {
    let environment = Environment { cpus: None, ..Environment::default() };
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Profile::new(grid, Kind::Modelled, environment, print::date(seconds))
}

/// Runs `jobs` on as many threads as there are workers; the order of the results is the jobs'.
fn simulate<'a>(profile: &Profile, jobs: &'a [Job], workers: usize) -> Vec<(&'a Job, Repetition)> {
    let grid = &profile.grid;
    let next = std::sync::atomic::AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            done.push((job, repetition(grid, job)));
        }
        done
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.min(jobs.len())).map(|_| scope.spawn(run)).collect();
        let mut done: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        // A cell's repetitions are recorded in order whichever thread was first.
        done.sort_by_key(|(job, _)| jobs.iter().position(|one| one == *job));
        done
    })
}

fn list(output: &Output) -> Result<ExitCode, Error> {
    #[derive(serde::Serialize)]
    struct Presets {
        schema: &'static str,
        presets: Vec<(&'static str, &'static str)>,
    }
    let text = PRESETS.map(|(name, about)| format!("{name:<20} {about}")).join("\n");
    output.result(&Presets { schema: "farline/presets/1", presets: PRESETS.to_vec() }, text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a profile's document.
pub(crate) fn read(file: &Path) -> Result<Profile, Error> {
    let json = fs::read_to_string(file).map_err(|error| {
        let (fault, code) = match error.kind() {
            std::io::ErrorKind::NotFound => (Fault::You, "path-not-found"),
            _ => (Fault::Here, "cannot-read"),
        };
        Error::new(fault, code, format!("{}: {error}", file.display()))
    })?;
    Profile::read(&json).map_err(|error| error.while_doing(file.display()))
}

fn document(profile: &Profile) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(profile).map_err(|error| Error::new(Fault::Bug, "profile-document", error.to_string()))
}

/// Writes beside `file` and then renames, so that a full disk or an interruption leaves the file that was there.
fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = fs::File::create(&beside)
        .and_then(|mut part| part.write_all(bytes).and_then(|()| part.sync_all()))
        .and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| {
        // What is half-written helps nobody; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&beside);
        Error::new(Fault::Here, "cannot-write", format!("{}: {error}", file.display()))
    })
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
