//! The confusion matrix of `limited_by`: copies that are held back on purpose, and what they say.

use anyhow::{Result, bail, ensure};
use farline_lab::causes::{Cause, causes, run as run_cause};
use std::collections::{BTreeMap, BTreeSet};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs of each cause at each strength, with a seed of its own each
    #[arg(long, default_value_t = 20)]
    runs: u64,
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

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut said_of: BTreeMap<(&str, &str, &str), BTreeMap<String, u64>> = BTreeMap::new();
    let (mut right, mut wrong_party, mut all) = (0, 0, 0);
    let chosen = |cause: &Cause| {
        let is_among = |names: &[String], one| names.is_empty() || names.iter().any(|n| n == one);
        is_among(&options.only, cause.limit) && is_among(&options.place, cause.place())
    };
    let all_causes = causes();
    known("cause", &options.only, all_causes.iter().map(|cause| cause.limit))?;
    known("place", &options.place, all_causes.iter().map(Cause::place))?;
    let causes: Vec<Cause> = all_causes.into_iter().filter(chosen).collect();
    ensure!(!causes.is_empty(), "none of these causes is brought about in these places");
    for seed in 1..=options.runs {
        for cause in &causes {
            let folder = tempfile::tempdir()?;
            let Some(said) = run_cause(cause, seed, folder.path()) else { continue };
            all += 1;
            right += u64::from(said.limit == cause.limit);
            wrong_party += u64::from(said.party != cause.party);
            let seen = format!("{} {}", said.limit, said.party);
            let row = (cause.limit, cause.party, cause.place());
            *said_of.entry(row).or_default().entry(seen).or_default() += 1;
            if options.verbose {
                println!(
                    "{:<16} {:<6} {:<15} {} {:>6.2} s  {:<16} {:<6} {}",
                    cause.limit,
                    cause.party,
                    cause.place(),
                    cause.strength,
                    said.seconds,
                    said.limit,
                    said.party,
                    said.evidence
                );
            }
        }
    }
    println!("\n| brought about | who | over | copies | named so | otherwise |");
    println!("|---|---|---|---:|---:|---|");
    for ((limit, party, place), seen) in &said_of {
        let own = format!("{limit} {party}");
        let copies: u64 = seen.values().sum();
        let others: Vec<String> = seen
            .iter()
            .filter(|(name, _)| **name != own)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let named = seen.get(&own).copied().unwrap_or(0);
        println!("| {limit} | {party} | {place} | {copies} | {named} | {} |", others.join(", "));
    }
    println!(
        "\n{right} of {all} copies name the right cause ({:.1} %), {wrong_party} a wrong party",
        100.0 * right as f64 / all.max(1) as f64
    );
    Ok(())
}
