//! Copies through outages, of the path and of the node, and more copies at once than a node has
//! sessions for: whether all succeed without anybody's help, and what that costs.

use anyhow::{Context, Result, ensure};
use farline_lab::files::{plant_file, same, text};
use farline_lab::{LinkUp, Running, farline, node};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each outage lasts, in seconds
    #[arg(long, value_delimiter = ',', default_values_t = [5, 60, 300])]
    seconds: Vec<u64>,
    /// What each copy moves, in MiB, at 200 Mbit/s
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Copies begun at once at a node of 64 sessions; 0: none
    #[arg(long, default_value_t = 150)]
    copies: u64,
}

/// What a node takes at once.
const SESSIONS: u64 = 64;
/// What each of the copies begun at once moves, in MiB.
const SMALL: u64 = 8;
/// How fast a copy goes through an outage, in bytes a second.
const PACE: u64 = 25_000_000;

/// What a user has who says nothing; the lab's commands have none.
const TIMEOUT: &str = "10min";

/// What is away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Away {
    Path,
    Node,
}

/// A copy through an outage.
#[derive(Clone, Copy, Debug)]
struct Case {
    away: Away,
    is_up: bool,
    seconds: u64,
}

/// Prints a row for each copy.
///
/// # Errors
/// When one fails, or lands other than it was.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    plant_file(&file, options.mib, 1);
    println!("| away | copy | for | attempts | took | without it | sent again |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for &seconds in &options.seconds {
        let cases =
            [(Away::Path, true), (Away::Path, false), (Away::Node, true), (Away::Node, false)]
                .map(|(away, is_up)| Case { away, is_up, seconds });
        let results: Vec<Result<Value>> = std::thread::scope(|scope| {
            let (file, mib) = (&file, options.mib);
            let one = |case| scope.spawn(move || through(case, file, mib));
            let running: Vec<_> = cases.iter().map(one).collect();
            running
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        for (case, result) in cases.iter().zip(results) {
            let result = result.with_context(|| format!("{case:?}"))?;
            let again =
                result["bytes_sent"].as_u64().unwrap_or(0).saturating_sub(options.mib << 20);
            println!(
                "| {} | {} | {} s | {} | {:.0} s | {:.0} s | {:.1} MiB |",
                if case.away == Away::Path { "path" } else { "node, kill -9" },
                if case.is_up { "up" } else { "down" },
                case.seconds,
                result["attempts"],
                result["seconds"].as_f64().unwrap_or_default(),
                ((options.mib << 20) / PACE) as f64,
                again as f64 / f64::from(1 << 20),
            );
        }
    }
    if options.copies > 0 {
        at_once(options.copies, folder.path())?;
    }
    Ok(())
}

/// Runs a copy of `file` through an outage in its middle, and returns what it said at its end.
fn through(case: &Case, file: &Path, mib: u64) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    std::fs::create_dir(&root)?;
    let middle = Duration::from_secs((mib << 20) / PACE / 2);
    let landed = if case.is_up { root.join("landed") } else { folder.path().join("landed") };
    if !case.is_up {
        // A link would change the source's ctime while another copy reads it.
        std::fs::copy(file, root.join("file"))?;
    }
    let ends = |url: &str| match case.is_up {
        true => [text(file).to_owned(), format!("{url}/landed")],
        false => [format!("{url}/file"), text(&landed).to_owned()],
    };
    let copy = ["--json", "-q", "cp", "--retry-for", TIMEOUT, "--limit", "200M"];
    let result = match case.away {
        Away::Path => {
            let outage = format!("{}s:outage={}s", middle.as_secs() + 2, case.seconds);
            let path = ["custom", "--rate", "1G", "--rtt", "20ms", "--at", &outage];
            let name = if case.is_up { "outage-up" } else { "outage-down" };
            let link = LinkUp::up(name, &path).context("a link: run it as root")?;
            let _node = link.node(&root, &[]);
            let url = format!("farline://{}-b:2811", link.name());
            ended(begun(link.farline("a", &copy).args(ends(&url)))?)?
        }
        Away::Node => {
            let (mut server, url) = node(&root, "write", &[]);
            let listen = url.strip_prefix("ftp://").context("a URL")?.to_owned();
            let running = begun(farline().args(copy).args(ends(&url)))?;
            std::thread::sleep(middle);
            server.end(Signal::KILL);
            std::thread::sleep(Duration::from_secs(case.seconds));
            let _server = node(&root, "write", &["--listen", &listen]);
            ended(running)?
        }
    };
    ensure!(result["verified"] == true && same(file, &landed), "not what was sent: {result}");
    ensure!(result["attempts"].as_u64() > Some(1) || case.seconds < 10, "no outage: {result}");
    Ok(result)
}

/// Begins `copies` at once at a node that has fewer sessions.
fn at_once(copies: u64, folder: &Path) -> Result<()> {
    let (root, file) = (folder.join("root"), folder.join("small"));
    let config: PathBuf = folder.join("node.toml");
    std::fs::create_dir(&root)?;
    plant_file(&file, SMALL, 2);
    std::fs::write(&config, format!("sessions = {SESSIONS}\n"))?;
    let (_node, url) = node(&root, "write", &["--config", text(&config)]);
    let (began, source) = (Instant::now(), text(&file));
    let copy = |index| {
        let to = format!("{url}/{index}");
        // Slow enough that the first still run when the last begins.
        let copy = ["--json", "-q", "cp", "--retry-for", TIMEOUT, "--limit", "20M"];
        begun(farline().args(copy).args([source, &to]))
    };
    let running: Vec<Running> = (0..copies).map(copy).collect::<Result<_>>()?;
    let mut attempts = 0;
    for (index, copy) in running.into_iter().enumerate() {
        let result = ended(copy)?;
        attempts += result["attempts"].as_u64().context("a number")?;
        ensure!(same(&file, &root.join(index.to_string())), "copy {index} landed otherwise");
    }
    println!(
        "\n{copies} copies of {SMALL} MiB at 20 Mbit/s begun at once at a node of {SESSIONS} sessions: \
         all succeeded, {attempts} attempts, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn begun(command: &mut Command) -> Result<Running> {
    Ok(Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?))
}

/// What a copy said at its end, which is a success.
fn ended(copy: Running) -> Result<Value> {
    let (status, out, err) = copy.finish();
    ensure!(status.success(), "{status}: {out}{err}");
    serde_json::from_str(out.trim()).with_context(|| out.clone())
}
