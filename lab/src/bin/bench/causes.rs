//! The confusion matrix of `limited_by`: copies that are held back on purpose, and what they say.

use anyhow::{Result, bail, ensure};
use farline_lab::causes::{Cause, Said, causes, run as run_cause};
use std::collections::{BTreeMap, BTreeSet};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs of each cause at each strength, with a seed of its own each
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// The first run's seed: a matrix can be made in parts
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only these causes, by the names of `limited_by`
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only in this place, which may be given again: link, loopback, "link, two nodes"
    #[arg(long)]
    place: Vec<String>,
    /// Say each copy's verdict as it comes
    #[arg(long, short)]
    verbose: bool,
}

/// Refuses a name of `asked` that `there` has not: a matrix without rows would be right of nothing.
fn known<'a>(what: &str, asked: &[String], there: impl Iterator<Item = &'a str>) -> Result<()> {
    let there: BTreeSet<&str> = there.collect();
    let stranger = asked.iter().find(|name| !there.contains(name.as_str()));
    let Some(stranger) = stranger else { return Ok(()) };
    let there: Vec<&str> = there.into_iter().collect();
    bail!("there is no {what} `{stranger}`: {}", there.join("; "))
}

/// How often a copy is made that others disturb, until one is undisturbed.
const TRIES: usize = 4;

/// How many of some copies there are, and what they name.
#[derive(Default)]
struct Verdicts {
    all: u64,
    right: u64,
    wrong_party: u64,
}

impl Verdicts {
    fn add(&mut self, cause: &Cause, said: &Said) {
        self.all += 1;
        self.right += u64::from(said.limit == cause.limit);
        self.wrong_party += u64::from(said.party != cause.party);
    }
}

/// What was said of a row's copies.
#[derive(Default)]
struct Row {
    said: BTreeMap<String, u64>,
    /// Copies next to which others took the machine, whatever they said.
    invalid: u64,
}

fn print(cause: &Cause, said: &Said) {
    println!(
        "{:<16} {:<6} {:<15} {} {:>6.2} s  {:<16} {:<6} others: {:.0} % of the processors, {:.1} \
         MB/s of disks{}  {}",
        cause.limit,
        cause.party,
        cause.place(),
        cause.strength,
        said.seconds,
        said.limit,
        said.party,
        100.0 * said.others.processors,
        said.others.disk / 1e6,
        said.others.disturbs().map_or_else(String::new, |why| format!(", invalid: {why}")),
        said.evidence
    );
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut rows: BTreeMap<(&str, &str, &str), Row> = BTreeMap::new();
    let (mut valid, mut invalid) = (Verdicts::default(), Verdicts::default());
    let chosen = |cause: &Cause| {
        let is_among = |names: &[String], one| names.is_empty() || names.iter().any(|n| n == one);
        is_among(&options.only, cause.limit) && is_among(&options.place, cause.place())
    };
    let all_causes = causes();
    known("cause", &options.only, all_causes.iter().map(|cause| cause.limit))?;
    known("place", &options.place, all_causes.iter().map(Cause::place))?;
    let causes: Vec<Cause> = all_causes.into_iter().filter(chosen).collect();
    ensure!(!causes.is_empty(), "none of these causes is brought about in these places");
    for seed in (options.first_seed..).take(options.runs) {
        for cause in &causes {
            let row = rows.entry((cause.limit, cause.party, cause.place())).or_default();
            for _ in 0..TRIES {
                let folder = tempfile::tempdir()?;
                let Some(said) = run_cause(cause, seed, folder.path()) else { break };
                if options.verbose {
                    print(cause, &said);
                }
                // What it says is not asked: a copy is counted, or not, by what others took alone.
                if said.others.disturbs().is_some() {
                    row.invalid += 1;
                    invalid.add(cause, &said);
                    continue;
                }
                valid.add(cause, &said);
                *row.said.entry(format!("{} {}", said.limit, said.party)).or_default() += 1;
                break;
            }
        }
    }
    println!("\n| brought about | who | over | copies | named so | otherwise | invalid |");
    println!("|---|---|---|---:|---:|---|---:|");
    let made = rows.iter().filter(|(_, row)| !row.said.is_empty() || row.invalid > 0);
    for ((limit, party, place), Row { said, invalid }) in made {
        let own = format!("{limit} {party}");
        let copies: u64 = said.values().sum();
        let others: Vec<String> = said
            .iter()
            .filter(|(name, _)| **name != own)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let (named, others) = (said.get(&own).copied().unwrap_or(0), others.join(", "));
        println!("| {limit} | {party} | {place} | {copies} | {named} | {others} | {invalid} |");
    }
    let Verdicts { all, right, wrong_party } = valid;
    println!(
        "\n{right} of {all} copies name the right cause ({:.1} %), {wrong_party} a wrong party",
        100.0 * right as f64 / all.max(1) as f64
    );
    let Verdicts { all, right, wrong_party } = invalid;
    if all > 0 {
        println!(
            "{all} more are invalid, for others took the machine: {right} of them name the right \
             cause, {wrong_party} a wrong party"
        );
    }
    Ok(())
}
