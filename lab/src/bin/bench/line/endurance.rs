//! A long test over an emulated link, of which either end is killed in turn: whether every second
//! is accounted for, whether anything is held against the line, and whether memory stays flat.

use crate::table::{heading, row};
use anyhow::{Context, Result, bail, ensure};
use farline_lab::{LinkUp, Running, farline};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long an end that was killed is away.
const DOWN: Duration = Duration::from_secs(3);
/// Memory is looked at so often, and not in the first seconds of a life: what a process takes at
/// its begin is no growth.
const LOOK: u64 = 10;
const SETTLES: u64 = 30;
/// Part of the link's rate that is sent: STAMP packets and questions need room too.
const LOAD: &str = "95";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of the test
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
    /// Seconds from one kill to the next, of the tester and of the reflector in turn
    #[arg(long, default_value_t = 300)]
    every: u64,
    /// Rate of the link, of which 95 % are sent
    #[arg(long, default_value = "1G")]
    rate: String,
}

/// What an end takes of memory, in KiB: least and most of each of its lives.
#[derive(Default)]
struct Memory(Vec<(u64, u64)>);

impl Memory {
    fn note(&mut self, pid: u32) -> Result<()> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = line
            .and_then(|line| line.trim().strip_suffix("kB"))
            .context("memory")?
            .trim()
            .parse()?;
        let life = self.0.last_mut().context("a life")?;
        *life = (life.0.min(kib), life.1.max(kib));
        Ok(())
    }

    fn begin(&mut self) {
        self.0.push((u64::MAX, 0));
    }

    /// The most that it changed in a life, and over all of them, with its peak, in MiB.
    fn shown(&self) -> String {
        let seen = || self.0.iter().filter(|life| life.1 > 0);
        let life = seen().map(|life| life.1 - life.0).max().unwrap_or(0);
        let most = seen().map(|life| life.1).max().unwrap_or(0);
        let least = seen().map(|life| life.0).min().unwrap_or(0);
        let mib = |kib: u64| kib as f64 / 1024.0;
        format!("{:.2} MiB; {:.2} over lives, of {:.1}", mib(life), mib(most - least), mib(most))
    }
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { seconds, every, rate } = options;
    let (seconds, every) = (*seconds, *every);
    let up = ["custom", "--rtt", "10ms", "--rate", rate];
    let link = LinkUp::up("bench-long", &up).context("a link")?;
    let folder = tempfile::tempdir()?;
    let (state, said) = (folder.path().join("state"), folder.path().join("said"));
    heading(&format!("{seconds} s at {LOAD} % of {rate}bit/s, a kill every {every} s"));
    let mut far = reflector(&link);
    let begun = Instant::now();
    let mut near = tester(&link, &said, &begin(rate, seconds, &state))?;
    let (mut near_memory, mut far_memory) = (Memory::default(), Memory::default());
    near_memory.begin();
    far_memory.begin();
    let (mut near_since, mut far_since, mut kills) = (0, 0, Vec::new());
    let mut looked = 0;
    while near.0.try_wait()?.is_none() {
        let now = begun.elapsed().as_secs();
        ensure!(now < seconds + 120, "the test does not end");
        if now >= (kills.len() as u64 + 1) * every && now + every / 2 < seconds {
            let is_tester = kills.len() % 2 == 0;
            kills.push(begun.elapsed().as_secs_f64());
            if is_tester {
                near.end(Signal::KILL);
                std::thread::sleep(DOWN);
                let resume = ["--resume".to_owned(), state.display().to_string()];
                near = tester(&link, &said, &resume)?;
                near_memory.begin();
                near_since = now;
            } else {
                far.end(Signal::KILL);
                std::thread::sleep(DOWN);
                far = reflector(&link);
                far_memory.begin();
                far_since = now;
            }
        }
        if now >= looked + LOOK {
            looked = now;
            if now >= near_since + SETTLES && now + LOOK < seconds {
                near_memory.note(near.id())?;
            }
            if now >= far_since + SETTLES {
                far_memory.note(far.id())?;
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let wall = begun.elapsed().as_secs_f64();
    let text = fs::read_to_string(&said)?;
    let document: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    if document["schema"] != "farline/line/1" {
        bail!("the test failed: {text}");
    }
    let stats = farline().args(["--json", "link", "stats", link.name()]).output()?;
    let stats: Value = serde_json::from_slice(&stats.stdout)?;
    let there = &stats["a_to_b"];
    let queue = there["model"]["dropped_queue"].as_u64().context("the link's own account")?;
    told(&document, seconds, wall, &kills, queue)?;
    row("  dropped by the link for lack of processor", &there["overrun"].to_string(), "");
    row("the link was exact enough to be believed", &stats["valid"].to_string(), "true");
    row("memory of the tester, change in a life", &near_memory.shown(), "at most 4 MiB");
    row("memory of the reflector, change in a life", &far_memory.shown(), "at most 4 MiB");
    let state = fs::metadata(&state)?.len() as f64 / 1024.0;
    row("state file", &format!("{state:.0} KiB"), "at most 200 MB");
    Ok(())
}

/// What the document says of the time and of the line.
///
/// The link's queue dropped `queue` frames, of seconds that count or not.
fn told(document: &Value, seconds: u64, wall: f64, kills: &[f64], queue: u64) -> Result<()> {
    let sums = &document["sums"];
    let count = |key: &str| sums[key].as_u64().with_context(|| format!("{key}: {document}"));
    let untested = ["away", "sender_late", "sender_drops", "receiver_drops"];
    let why: Vec<u64> = untested.iter().map(|key| count(key)).collect::<Result<_>>()?;
    let (tested, all) = (count("tested")?, count("tested")? + why.iter().sum::<u64>());
    row("seconds by the wall clock, with begin and end", &format!("{wall:.1}"), "");
    row("seconds tested and untested", &format!("{all}"), &format!("{seconds}"));
    row("  tested", &format!("{tested}"), "");
    for (key, count) in untested.iter().zip(&why) {
        row(&format!("  untested: {key}"), &format!("{count}"), "");
    }
    // A kill falls into a part of the strip, or its first second without it into the next.
    let part = document["strip_seconds"].as_u64().context("the strip's parts")?;
    let is_shown = |kill: &&f64| {
        let at = (**kill / part as f64) as usize;
        (at..=at + 1).any(|at| document["strip"][at]["untested"].as_u64() > Some(0))
    };
    let shown = kills.iter().filter(is_shown).count();
    row("kills that the strip of time shows", &format!("{shown}"), &format!("{}", kills.len()));
    let frames = count("sent")? as f64 / tested.max(1) as f64;
    row("frames a second in tested time", &format!("{frames:.0}"), "");
    let bits = count("framed_bits")? as f64 / tested.max(1) as f64;
    row("  bits a second, header to FCS", &format!("{:.1} Mbit/s", bits / 1e6), "");
    let most = format!("at most {queue}, by the link's own account");
    row("frames held against the line", &format!("{}", count("lost")?), &most);
    row("  wrong bits", &format!("{}", count("wrong_bits")?), "0");
    row("verdict", document["verdict"].as_str().unwrap_or_default(), "");
    Ok(())
}

fn reflector(link: &LinkUp) -> Running {
    Running::begun(&mut link.farline("b", &["--json", "line", "reflect"])).0
}

fn begin(rate: &str, seconds: u64, state: &Path) -> Vec<String> {
    let words = ["10.77.0.2", "--rate", rate, "--load", LOAD, "--for", &format!("{seconds}s")];
    let words = words.iter().map(|word| (*word).to_owned());
    words.chain(["--state".to_owned(), state.display().to_string()]).collect()
}

/// The end that tests, whose last word is in `said`.
fn tester(link: &LinkUp, said: &Path, arguments: &[String]) -> Result<Running> {
    let mut command = link.farline("a", &["--json", "-q", "line"]);
    command.args(arguments).stdin(Stdio::null()).stdout(fs::File::create(said)?);
    Ok(Running(command.spawn()?))
}
