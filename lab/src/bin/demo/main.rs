//! The demo, `make demo`: the same files over an emulated 8,600-mile path with rsync,
//! globus-url-copy and Farline.
//!
//! It brings the link up, serves a scratch folder in side b, runs each tool in side a, compares
//! every byte, prints a table, and writes demo.json and demo.html to the current folder. All that
//! it starts ends with it, also on Ctrl-C.
//!
//! `farline-demo calendar` is another, `make demo-calendar`: channels booked in an emulated
//! network.
//!
//! Environment: `FARLINE_DEMO_DIR`, a folder with 3 GiB free for the files (default: /dev/shm where
//! there is plenty of memory, else the folder for temporary files); `FARLINE_DEMO_TOOLS`, the tools
//! to run, such as `rsync,farline` (default: all); `FARLINE_BIN`, the farline to use (default: the
//! one next to this program).

mod calendar;
mod compare;
mod dataset;
mod lane;
mod race;
mod table;
mod tools;

use anyhow::{Context, Result, bail};
use dataset::Dataset;
use farline_core::report::demo::{DemoChoice, DemoResult, DemoRun, SCHEMA, Skipped};
use farline_core::units::{Bytes, Rate, Span};
use lane::Lane;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use tools::Tool;

/// The path of the demo.
const PATH: &str = "usn-8600";
/// What all runs may take together; the rest of the three minutes is for making and comparing
/// files.
const FOR_RUNS: Duration = Duration::from_secs(140);
/// What one run may take: a tool that needs longer is stopped, and the page says how far it came.
const FOR_ONE_RUN: Duration = Duration::from_secs(40);
/// What is kept for each run that is still to come.
const AT_LEAST: Duration = Duration::from_secs(12);

fn main() -> ExitCode {
    match demo() {
        Ok(code) => code,
        Err(error) if race::interrupted() => {
            eprintln!("demo: stopped ({error:#}); everything it had started is gone");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<ExitCode> {
    race::catch_signals()?;
    let scratch = tempfile::Builder::new().prefix("farline-demo-").tempdir_in(scratch_folder()?)?;
    if std::env::args().nth(1).is_some_and(|word| word == "calendar") {
        return calendar::run(scratch.path());
    }
    let began = Instant::now();
    println!("demo: preparing files in {}", scratch.path().display());
    let datasets = [dataset::large(scratch.path())?, dataset::small(scratch.path())?];
    println!("demo: bringing up {PATH}");
    let lane = Lane::up(PATH, scratch.path())?;
    let (runs, skipped, choices) = all_runs(&lane, &datasets, scratch.path())?;
    let accuracy = lane.accuracy()?;
    let link = lane.facts();
    lane.down()?;

    let result = DemoResult {
        schema: SCHEMA.to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        link,
        accuracy,
        datasets: datasets.iter().map(Dataset::facts).collect(),
        runs,
        skipped,
        choices,
        reproduce: vec![
            "git clone https://github.com/farline/farline".to_owned(),
            "make -C farline demo".to_owned(),
        ],
    };
    fs::write("demo.json", serde_json::to_vec_pretty(&result)?).context("demo.json")?;
    fs::write("demo.html", result.page().html()).context("demo.html")?;
    table::print(&result);
    println!("\ndemo: {:.0} s; see demo.html and demo.json", began.elapsed().as_secs_f64());
    // A copy that differs fails the demo; a link that was late does not make the copies wrong.
    Ok(if result.runs.iter().any(|run| run.finished && !run.identical) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Every tool on every dataset, one after the other.
fn all_runs(
    lane: &Lane,
    datasets: &[Dataset],
    scratch: &Path,
) -> Result<(Vec<DemoRun>, Vec<Skipped>, Vec<DemoChoice>)> {
    let (mut runs, mut skipped, mut choices) = (Vec::new(), Vec::new(), Vec::new());
    let tools = Tool::all();
    let mut to_come = (tools.len() * datasets.len()) as u32;
    let began = Instant::now();
    for tool in tools {
        if let Err(reason) = tool.is_here() {
            to_come -= datasets.len() as u32;
            println!("demo: without {}: {reason}", tool.name());
            skipped.push(Skipped { tool: tool.name().to_owned(), reason });
            continue;
        }
        for dataset in datasets {
            to_come -= 1;
            let left = FOR_RUNS.saturating_sub(began.elapsed()).saturating_sub(AT_LEAST * to_come);
            let limit = left.clamp(AT_LEAST, FOR_ONE_RUN);
            println!(
                "demo: {} copies {}: {} files, {}",
                tool.name(),
                dataset.name,
                dataset.files,
                dataset.bytes
            );
            let destination = scratch.join("arrived");
            fs::create_dir(&destination)?;
            let outcome = one_run(lane, tool, dataset, &destination, limit);
            fs::remove_dir_all(&destination)?;
            match outcome {
                Ok((run, chosen)) => {
                    runs.push(run);
                    choices.extend(chosen.into_iter().map(|choice| DemoChoice {
                        parameter: format!("{}: {}", dataset.name, choice.parameter),
                        ..choice
                    }));
                }
                Err(error) if race::interrupted() || tool.is_ours() => return Err(error),
                // Another tool that fails here is no reason not to show the rest.
                Err(error) => {
                    eprintln!("demo: {} on {}: {error:#}", tool.name(), dataset.name);
                    skipped.push(Skipped {
                        tool: format!("{} on {}", tool.name(), dataset.name),
                        reason: format!("{error:#}"),
                    });
                }
            }
        }
    }
    Ok((runs, skipped, choices))
}

/// One tool on one dataset: serve, copy, compare.
fn one_run(
    lane: &Lane,
    tool: Tool,
    dataset: &Dataset,
    destination: &Path,
    limit: Duration,
) -> Result<(DemoRun, Vec<DemoChoice>)> {
    let server = tool.serve(lane, destination)?;
    let race = race::run(
        tool.copy(lane, dataset),
        &lane.log(&format!("{}-client", tool.name())),
        &server,
        limit,
    )?;
    drop(server);
    if race.finished && !race.succeeded {
        bail!("it failed: {}", race.last_words());
    }
    let told = tool.told(&race)?;
    let (identical, verified, files, bytes) = if race.finished {
        match compare::trees(&dataset.folder, &tool.landed(dataset, destination)) {
            Ok(()) => (true, "every byte compared".to_owned(), dataset.files, dataset.bytes),
            Err(difference) => (false, difference.to_string(), 0, Bytes(0)),
        }
    } else {
        let (files, bytes) = dataset::count(destination)?;
        (
            false,
            format!("stopped after {:.0} s with {files} of {} files", race.seconds, dataset.files),
            files,
            bytes,
        )
    };
    let run = DemoRun {
        tool: tool.name().to_owned(),
        version: tool.version(),
        dataset: dataset.name.to_owned(),
        settings: tool.settings(),
        congestion: told.congestion.unwrap_or_else(|| lane.default_congestion()),
        streams: told.streams.unwrap_or_else(|| tool.streams()),
        seconds: race.seconds,
        bytes,
        files,
        rate_bps: Rate::of(bytes, Span::from_secs_f64(race.seconds)),
        finished: race.finished,
        identical,
        verified,
        limited_by: told.limited_by,
        samples: race.samples,
    };
    Ok((run, told.choices))
}

/// Where 3 GiB are free: `FARLINE_DEMO_DIR`, the folder for temporary files, or the current folder.
fn scratch_folder() -> Result<std::path::PathBuf> {
    const NEEDED: u64 = 3 << 30;
    let chosen = std::env::var_os("FARLINE_DEMO_DIR").map(std::path::PathBuf::from);
    let candidates = [chosen, memory_folder(), Some(std::env::temp_dir()), Some(".".into())];
    for folder in candidates.into_iter().flatten() {
        let free = rustix::fs::statvfs(&folder)
            .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
            .unwrap_or(0);
        if free >= NEEDED {
            return fs::canonicalize(&folder).with_context(|| folder.display().to_string());
        }
    }
    bail!("no folder with {} free: name one in FARLINE_DEMO_DIR", Bytes(NEEDED))
}

/// A folder in memory, where this machine has plenty: the demo is about the path, not about this
/// machine's disk.
fn memory_folder() -> Option<std::path::PathBuf> {
    const PLENTY_KIB: u64 = 8 << 20;
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.trim().trim_end_matches(" kB").parse().ok()?;
    (kib >= PLENTY_KIB).then(|| "/dev/shm".into())
}

/// The first line that a command prints, on whichever of its two outputs, or nothing.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().trim().to_owned()
}
