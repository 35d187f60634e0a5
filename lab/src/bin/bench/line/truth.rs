//! Emulated links whose bit error or loss ratio is known: how often it lies in the interval that
//! `farline line` states.

use crate::table::{heading, row};
use anyhow::{Context, Result, bail};
use farline_lab::line_truth::{KnownLink, Trouble, TruthTest};
use std::collections::BTreeMap;
use std::time::Instant;

/// A link that was not believed is made again with another seed so often.
const AGAIN: u64 = 3;
/// Of fewer bursts the size is hardly known, and of none nothing is.
const MANY: f64 = 10.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Links, a third of each kind
    #[arg(long, default_value_t = 200)]
    links: u64,
    /// Seconds of each test
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Rate of each test in Mbit/s; the link has five times that
    #[arg(long, default_value_t = 100)]
    mbit: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Of links of a kind, how many there were and how many tests held the truth.
#[derive(Default)]
struct Coverage {
    tests: u64,
    held: u64,
}

impl Coverage {
    fn note(&mut self, holds: bool) {
        self.tests += 1;
        self.held += u64::from(holds);
    }

    fn shown(&self) -> String {
        let percent = 100.0 * self.held as f64 / self.tests.max(1) as f64;
        format!("{} of {}, {percent:.1} %", self.held, self.tests)
    }
}

/// What came of all of them.
#[derive(Default)]
struct Found {
    by_kind: [Coverage; 3],
    all: Coverage,
    with_many_bursts: Coverage,
    /// Why links were not believed, and how often.
    not_believed: BTreeMap<String, u64>,
    given_up: u64,
}

/// Tests links and prints the rows.
///
/// # Errors
/// When a link cannot be made, or a test says nothing.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { links, seconds, mbit, .. } = options;
    let begun = Instant::now();
    heading(&format!("{links} links, each tested at {mbit} Mbit/s for {seconds} s"));
    let mut found = Found::default();
    for n in 0..*links {
        let kind = (n % 3) as usize;
        match believed(options, Trouble::ALL[kind], n, &mut found)? {
            None => found.given_up += 1,
            Some((link, test)) => {
                let holds = test.holds(link.ratio);
                found.by_kind[kind].note(holds);
                found.all.note(holds);
                if link.trouble == Trouble::Bursts && link.bursts() >= MANY {
                    found.with_many_bursts.note(holds);
                }
                if !holds {
                    eprintln!("not in its interval: {link:?}: {test:?}");
                }
            }
        }
    }
    let labels = [
        "true bit error ratio in the 95 % interval, 1e-9..1e-6",
        "true uniform loss ratio in it, 1e-5..1e-2",
        "true bursty loss ratio in it, 1e-5..1e-2",
    ];
    for (label, held) in labels.iter().zip(&found.by_kind) {
        row(label, &held.shown(), "at least 93 %");
    }
    let many = format!("  of these, where {MANY} bursts or more are to be expected");
    row(&many, &found.with_many_bursts.shown(), "");
    row("all of them", &found.all.shown(), "at least 93 %");
    let again = found.not_believed.values().sum::<u64>();
    row("links not believed and made again, with a new seed", &again.to_string(), "");
    for (why, count) in &found.not_believed {
        row(&format!("  {why}"), &count.to_string(), "");
    }
    row("  of these never believed", &found.given_up.to_string(), "0");
    row("minutes", &format!("{:.1}", begun.elapsed().as_secs_f64() / 60.0), "below 20");
    Ok(())
}

/// The first link of number `n` that is believed, and what its test says.
fn believed(
    options: &Options,
    trouble: Trouble,
    n: u64,
    found: &mut Found,
) -> Result<Option<(KnownLink, TruthTest)>> {
    for again in 0..=AGAIN {
        // A link of its own number and of each time that it is made again.
        let drawn = KnownLink::drawn(trouble, options.seed + n * (AGAIN + 1) + again);
        let link = KnownLink { mbit: options.mbit, seconds: options.seconds, ..drawn };
        match link.test("bench-truth").context("a link")? {
            Err(said) => bail!("{link:?}: {said}"),
            Ok(test) => match &test.not_believed {
                None => return Ok(Some((link, test))),
                Some(why) => *found.not_believed.entry(plain(why)).or_default() += 1,
            },
        }
    }
    Ok(None)
}

/// A reason without its figures, by which those of a kind are counted together.
fn plain(why: &str) -> String {
    let words = why.split(' ').filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}
