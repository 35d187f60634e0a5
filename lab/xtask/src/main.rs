//! The house's own commands: `cargo xtask ci` runs all checks and tests, `guest` the tests that
//! need another kernel, `nightly` the fuzzers, `bench` what measures Farline against others, `tidy`
//! the house's rules; `features` builds with each feature alone, `lint` is what clippy and rustdoc
//! say, `aside` what `ci` runs next to the tests.

mod arrows;
mod ci;
mod circles;
mod columns;
mod counts;
mod exhaustive;
mod failures;
mod features;
mod flags;
mod guest;
mod house;
mod links;
mod lint;
mod messages;
mod nightly;
mod run;
mod shown;
mod skips;
mod source;
mod supply;
mod words;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask aside [DONE...] | ci [--strict] | features | lint | \
    nightly [SECONDS] | guest GROUP... [-- ARGUMENT...] | bench calendar|mover|link|line|plan|causes|outages|crowd|tuner|udp|verbs [OPTION...] | tidy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(arguments: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("a workspace")?;
    std::env::set_current_dir(root).context("the workspace")?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["ci"] => ci::ci(root, std::env::var("CI").is_ok_and(|value| value == "true")),
        ["ci", "--strict"] => ci::ci(root, true),
        // Some minutes: dependencies are built for each.
        ["features"] => {
            let metadata = metadata()?;
            ["farline-core", "farline", "farline-cli"]
                .into_iter()
                .try_for_each(|package| features::check(&metadata, package))
        }
        ["lint"] => lint::lint(),
        ["aside", ref done @ ..] => lint::aside(root, done),
        ["nightly"] => nightly::nightly(root, nightly::SECONDS),
        ["nightly", seconds] => nightly::nightly(
            root,
            seconds.parse().context("so many seconds for each target, 1 at least")?,
        ),
        ["guest", ..] => {
            guest::run(root, &guest::Asked::parse(&arguments[1..])?, &mut counts::Counts::default())
        }
        ["bench", ref options @ ..] => bench(options),
        ["tidy"] if tidy()? => Ok(()),
        ["tidy"] => bail!("the house rules are broken"),
        _ => bail!(USAGE),
    }
}

/// Measures with release binaries.
fn bench(options: &[&str]) -> Result<()> {
    let programs = ["-p", "farline-cli", "-p", "farline-lab", "--bins"];
    run::cargo(&[&["build", "--locked", "--quiet", "--release"], &programs[..]].concat())?;
    run::succeed(run::program("target/release/farline-bench").args(options))
}

/// Runs every check over the workspace, prints each violation as `place: what is wrong`, and says
/// whether there is none.
fn tidy() -> Result<bool> {
    let metadata = metadata()?;
    let root =
        metadata["workspace_root"].as_str().context("cargo metadata names no workspace_root")?;
    let root = Path::new(root);
    let mut found = house::check(root, &metadata)?;
    found.extend(supply::check(root, &metadata)?);
    found.extend(messages::check(root)?);
    found.extend(words::check(root)?);
    found.extend(flags::check(root)?);
    found.extend(exhaustive::check(root)?);
    found.extend(links::check(root)?);
    found.extend(shown::check(root)?);
    found.extend(nightly::check(root)?);
    found.extend(skips::unknown(root)?);
    for violation in &found {
        eprintln!("{violation}");
    }
    if found.is_empty() {
        println!(
            "tidy: arrows, names, sizes, unsafe code, licences and sources are as the house says"
        );
        return Ok(true);
    }
    eprintln!(
        "tidy: {} violations of the house rules (CONTRIBUTING.md, ARCHITECTURE.md)",
        found.len()
    );
    Ok(false)
}

/// What cargo knows about the workspace and everything it depends on.
fn metadata() -> Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out =
        Command::new(cargo).args(["metadata", "--format-version", "1", "--locked"]).output()?;
    if !out.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}
