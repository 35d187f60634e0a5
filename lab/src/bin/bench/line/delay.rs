//! One-way delays of a test against the account of the emulated link that it goes over: mean and
//! deviation, each way, at a low and at a high load.

use crate::table::{heading, row};
use anyhow::{Context, Result, ensure};
use farline_core::units::Rng;
use farline_lab::{LinkUp, farline};
use serde_json::Value;

/// Bytes of each frame of the load: the link has an account of its own of shorter packets, which
/// are the test's questions and answers alone then.
const FRAME_BYTES: &str = "1518";
/// Other traffic that is in the link's queue at once, in bytes, and how often a second: of 20
/// Mbit/s a millisecond.
const BURST_BYTES: u32 = 2_500;
const BURSTS: f64 = 20.0;
/// Events are told for so long beyond the test, in seconds.
const BEYOND: f64 = 10.0;
/// A test of which too few seconds count is made again, so often at most.
const AGAIN: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of each test: its mean of some hundred questions a second is as sure as these are
    /// many
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// Rate of the link in Mbit/s
    #[arg(long, default_value_t = 20)]
    mbit: u64,
    /// Jitter of the link, in microseconds
    #[arg(long, default_value_t = 1_000)]
    jitter_us: u64,
}

/// Mean and deviation, in microseconds.
#[derive(Clone, Copy)]
struct Delay {
    mean: f64,
    sd: f64,
}

/// Prints the rows.
///
/// # Errors
/// When a test says nothing, or the link is never in time.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { seconds, mbit, jitter_us } = options;
    heading(&format!(
        "{seconds} s over {mbit} Mbit/s with {jitter_us} us of jitter and other traffic in its queue"
    ));
    for load in ["10", "90"] {
        let document = (0..=AGAIN).find_map(|_| test(options, load).transpose());
        let document = document.context("the link was never in time")??;
        row(&format!("load {load} %: seconds whose delays count"), &counted(&document), "");
        for (way, key, account) in
            [("there", "one_way_delay", "there"), ("back", "one_way_delay_back", "back")]
        {
            let found = &document[key];
            let figure = |name: &str| found[name].as_f64().with_context(|| format!("no {name}"));
            let found = Delay { mean: figure("mean_ns")? / 1e3, sd: figure("sd_ns")? / 1e3 };
            let link = account_of(&document["link_account"][account]).context("no account")?;
            let label = format!("  {way}: the link's own mean and deviation");
            row(&label, &format!("{:.1} and {:.1} us", link.mean, link.sd), "");
            let off = format!("{:+.1} us", found.mean - link.mean);
            row(&format!("  {way}: the test's mean less that"), &off, "within 20 us");
            let off = format!("{:+.2} %", (found.sd / link.sd - 1.0) * 100.0);
            row(&format!("  {way}: the test's deviation, off by"), &off, "within 5 %");
        }
    }
    Ok(())
}

/// The document of a test; `None` where less than a third of the seconds count, since the link was
/// late.
fn test(options: &Options, load: &str) -> Result<Option<Value>> {
    let Options { seconds, mbit, jitter_us } = options;
    let (rate, jitter) = (format!("{mbit}M"), format!("{jitter_us}us"));
    let mut up = ["custom", "--rtt", "10ms", "--inline-receive", "--queue", "1MiB"]
        .map(str::to_owned)
        .to_vec();
    up.extend(["--rate".to_owned(), rate.clone(), "--jitter".to_owned(), jitter]);
    up.extend(traffic(*seconds as f64 + BEYOND));
    let up: Vec<&str> = up.iter().map(String::as_str).collect();
    let link = LinkUp::up("bench-delay", &up).context("a link")?;
    let length = format!("{seconds}s");
    let words = [
        "--rate",
        &rate,
        "--load",
        load,
        "--frames",
        FRAME_BYTES,
        "--burst",
        "1",
        "--for",
        &length,
    ];
    let output = farline().args(["--json", "-q", "line", link.name()]).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&said).with_context(|| said.to_string())?;
    ensure!(document["schema"] == "farline/line/1", "{document}");
    let late = document["link_late"].as_u64().context("late seconds")?;
    Ok((late * 3 < *seconds * 2).then_some(document))
}

/// Other traffic at random times, each way.
fn traffic(end: f64) -> Vec<String> {
    let mut rng = Rng::new(19);
    let mut events = Vec::new();
    for side in ["a-to-b", "b-to-a"] {
        let mut at = 0.0;
        while at < end {
            at -= (1.0 - rng.unit()).ln() / BURSTS;
            let nanos = (at * 1e9).round();
            events.extend(["--at".to_owned(), format!("{nanos}ns:{side}:burst={BURST_BYTES}B")]);
        }
    }
    events
}

fn counted(document: &Value) -> String {
    let late = document["link_late"].as_u64().unwrap_or(0);
    let all = document["sums"]["tested"].as_u64().unwrap_or(0);
    format!("all but {late} of {all}")
}

/// What the sums of a link's account are.
fn account_of(sums: &Value) -> Option<Delay> {
    let of = |key: &str| sums[key].as_f64();
    let (count, sum, squares) = (of("count")?, of("sum")?, of("squares")?);
    let mean = sum / count;
    Some(Delay { mean, sd: ((squares - mean * sum) / (count - 1.0)).max(0.0).sqrt() })
}
