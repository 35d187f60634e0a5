//! Plans for paths drawn at random, held against copies over the emulated link: how far off the
//! time is, and how often it lies in the interval.

use crate::side::json;
use crate::table::median;
use anyhow::{Context, Result};
use farline_core::units::{Bytes, Rate, Rng, Span};
use farline_lab::{LinkUp, farline};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

#[derive(clap::Args)]
pub(super) struct Options {
    /// Copies that count, of each kind of plan
    #[arg(long, default_value_t = 40)]
    paths: usize,
    /// Of the paths
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kinds of plans: of a node that is probed first, and of the model
    #[arg(long, value_delimiter = ',', default_values = ["probe", "model"])]
    from: Vec<String>,
    /// Say what each plan and copy said
    #[arg(long, short)]
    verbose: bool,
}

/// A path, and what is copied over it.
struct Drawn {
    rate: Rate,
    rtt: Span,
    loss: f64,
    /// In bandwidth-delay products.
    queue: f64,
    size: Bytes,
    seed: u64,
}

impl Drawn {
    /// Rate, rtt, loss and queue are log-uniform, but for a path in four that loses nothing; the
    /// size is what the path carries in 2 to 8 seconds.
    fn next(rng: &mut Rng) -> Drawn {
        let mut between = |low: f64, high: f64| low * (high / low).powf(rng.unit());
        let rate = Rate::from_bps(between(50e6, 10e9) as u64);
        let rtt = Span::from_secs_f64(between(1e-3, 0.2));
        let (loss, is_clean) = (between(1e-7, 1e-3), between(1.0, 2.0) < 2.0_f64.powf(0.25));
        let queue = between(0.1, 4.0);
        let size = Bytes((rate.as_bps() as f64 / 8.0 * between(2.0, 8.0)) as u64);
        let loss = if is_clean { 0.0 } else { loss };
        Drawn { rate, rtt, loss, queue, size, seed: rng.below(1 << 32) }
    }

    /// The link's arguments.
    fn link(&self) -> Vec<String> {
        let queue = Bytes((self.rate.bytes_in(self.rtt).0 as f64 * self.queue) as u64);
        // A window begins with ten packets.
        let queue = queue.0.max(10 * 1_538);
        ["custom", "--rate", &self.rate(), "--rtt", &self.rtt(), "--loss", &self.loss.to_string()]
            .map(str::to_owned)
            .into_iter()
            .chain(["--queue".to_owned(), queue.to_string()])
            .chain(["--mtu".to_owned(), "1500".to_owned()])
            .chain(["--seed".to_owned(), self.seed.to_string()])
            .collect()
    }

    fn rate(&self) -> String {
        format!("{}bit/s", self.rate.as_bps())
    }

    fn rtt(&self) -> String {
        format!("{}us", self.rtt.as_nanos() / 1_000)
    }
}

/// What came of one path.
struct Row {
    planned: f64,
    interval: (f64, f64),
    took: f64,
}

impl Row {
    fn error(&self) -> f64 {
        self.planned / self.took - 1.0
    }

    fn holds(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.took)
    }
}

/// Prints a row for each path and kind of plan, and what they come to.
///
/// # Errors
/// When a plan or a copy fails.
pub(super) fn run(options: &Options) -> Result<()> {
    println!(
        "| plan from | rate | rtt | loss | queue | size | planned | interval | took | error | held |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    for from in &options.from {
        let (mut rng, mut rows, mut inexact) = (Rng::new(options.seed), Vec::new(), 0);
        while rows.len() < options.paths {
            let drawn = Drawn::next(&mut rng);
            let Some(row) = one(&drawn, from, options.verbose)? else {
                inexact += 1;
                continue;
            };
            println!(
                "| {from} | {} | {} | {:.0e} | {:.2} bdp | {} | {:.2} s | {:.2} to {:.2} s | {:.2} s \
                 | {:+.1} % | {} |",
                drawn.rate,
                drawn.rtt,
                drawn.loss,
                drawn.queue,
                drawn.size,
                row.planned,
                row.interval.0,
                row.interval.1,
                row.took,
                row.error() * 100.0,
                if row.holds() { "yes" } else { "NO" },
            );
            rows.push(row);
        }
        let held = rows.iter().filter(|row| row.holds()).count();
        let wide = |row: &Row| (row.interval.1 - row.interval.0) / 2.0 / row.planned;
        println!(
            "\nby {from}: error {:.1} % in the median, the interval held {held} of {} copies and is \
             {:.0} % to either side in the median; {inexact} paths more that the link could not \
             hold here\n",
            median(rows.iter().map(|row| row.error().abs()))? * 100.0,
            rows.len(),
            median(rows.iter().map(wide))? * 100.0,
        );
    }
    Ok(())
}

/// Plans and copies over one path; nothing where the link says that it was not exact.
fn one(drawn: &Drawn, from: &str, verbose: bool) -> Result<Option<Row>> {
    let arguments = drawn.link();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let link = LinkUp::up("drawn", &arguments).context("a link: run it as root")?;
    let folder = tempfile::tempdir()?;
    let node = link.node(folder.path(), &["--allow-null", "--allow-profile", "20G"]);
    let url = format!("farline://{}-b:2811", link.name());
    let size = drawn.size.0.to_string();
    let (rate, rtt, loss) = (drawn.rate(), drawn.rtt(), drawn.loss.to_string());
    let mut asked = vec!["--json", "-q", "plan", &url, "--size", &size];
    if from == "model" {
        asked.extend(["--rate", &rate, "--rtt", &rtt, "--loss", &loss]);
    }
    let plan = json(&mut at(&link, folder.path(), &asked))?;
    let number = |value: &Value| value.as_f64().context("a number");
    let (streams, congestion) =
        (plan["streams"].to_string(), plan["congestion"].as_str().context("a control")?);
    let (source, sink) = (format!("memory:{size}"), format!("{url}/?null"));
    let mut asked = vec!["--json", "-q", "cp", &source, &sink];
    if from == "model" {
        // As the plan says to paste; by a probe the copy begins so by itself.
        asked.extend(["--streams", &streams, "--congestion", congestion]);
    }
    let began = Instant::now();
    let copy = json(&mut at(&link, folder.path(), &asked))?;
    if verbose {
        eprintln!(
            "{streams} x {congestion}: {}; {}; {} s by the clock",
            plan["reasons"],
            copy["reasons"],
            began.elapsed().as_secs_f64()
        );
    }
    let stats = json(farline().args(["--json", "link", "stats", link.name()]))?;
    drop(node);
    if stats["valid"] != true {
        if verbose {
            eprintln!("{} x {}: {}", drawn.rate, drawn.rtt, stats["invalid_because"]);
        }
        return Ok(None);
    }
    let interval = &plan["interval_s"];
    Ok(Some(Row {
        planned: number(&plan["seconds"])?,
        interval: (number(&interval[0])?, number(&interval[1])?),
        took: number(&copy["seconds"])?,
    }))
}

/// `farline` at the sending side, with profiles of its own.
fn at(link: &LinkUp, folder: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = link.farline("a", arguments);
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}
