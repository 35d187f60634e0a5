//! `cargo xtask nightly`: what takes longer than a change should wait for. What is installed is
//! built, which is to be small; the core builds with each of its features alone, and the command
//! with none; what the library says without them is tested; and each fuzz target runs for some
//! minutes. What fails fails the night, after all others had their time.

use crate::{features, lint, metadata, run};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::num::NonZeroU64;
use std::path::Path;

/// For each target, in seconds, where nothing else is said: two hours together.
pub(crate) const SECONDS: NonZeroU64 = NonZeroU64::new(600).expect("above zero");
/// Lines of a log that are shown of a target that failed.
const SHOWN: usize = 40;

/// What a library without features says that it has not.
const WITHOUT_FEATURES: [&str; 7] =
    ["test", "--locked", "-p", "farline", "--no-default-features", "--lib", "kernelcc::"];

const MANIFEST: &str = "lab/fuzz/Cargo.toml";
const CORPUS: &str = "lab/fuzz/corpus";
const PAGE: &str = "docs/security.md";

/// Builds what is installed and what few features leave, tests the latter, fuzzes each target for
/// so many seconds, of which libFuzzer takes 0 for no end, and prints what each did as a row of a
/// table.
pub(crate) fn nightly(root: &Path, seconds: NonZeroU64) -> Result<()> {
    let manifest = fs::read_to_string(root.join(MANIFEST)).context(MANIFEST)?;
    let logs = root.join("target/nightly");
    fs::create_dir_all(&logs)?;
    let mut failed = Vec::new();
    if let Err(error) = install(root) {
        eprintln!("{error:#}");
        failed.push("install".to_owned());
    }
    if let Err(error) = metadata().and_then(|data| features::check(&data, "farline-core")) {
        eprintln!("{error:#}");
        failed.push("features".to_owned());
    }
    if let Err(error) = lint::least() {
        eprintln!("{error:#}");
        failed.push("least".to_owned());
    }
    if let Err(error) = run::cargo(&WITHOUT_FEATURES) {
        eprintln!("{error:#}");
        failed.push("without features".to_owned());
    }
    println!("| target | executions |\n|---|---:|");
    for target in targets(&manifest)? {
        let log = logs.join(format!("{target}.log"));
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = run::program("lab/fuzz/run");
        command.args([&target, &seconds.to_string()]).current_dir(root);
        let status = command.stdout(file.try_clone()?).stderr(file).status()?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        match executions(&said).filter(|_| status.success()) {
            Some(count) => println!("| `{target}` | {count} |"),
            None => {
                println!("| `{target}` | failed: {status} |");
                let lines: Vec<&str> = said.lines().collect();
                let from = lines.len().saturating_sub(SHOWN);
                eprintln!("{}\n{}", log.display(), lines[from..].join("\n"));
                failed.push(target);
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}; what broke a law is in lab/fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

/// Installs the command below `target/nightly`, as `make install` does: it refuses what is too
/// large.
fn install(root: &Path) -> Result<()> {
    run::cargo(&["build", "--locked", "--profile", "dist", "-p", "farline-cli"])?;
    let mut install = run::program("lab/install-stripped");
    install.args(["target/dist/farline", "target/nightly/bin"]).current_dir(root);
    run::succeed(&mut install)
}

/// The targets of that manifest, in order.
fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context(MANIFEST)?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).context("no [[bin]]")?;
    let names = bins.iter().filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// How often libFuzzer ran a target, by the last words of its log.
fn executions(log: &str) -> Option<u64> {
    let count =
        |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    log.lines().rev().find_map(count)
}

/// Targets without a corpus, which `make test` would not run, or without a row in the page that
/// says what is fuzzed; and corpora of no target.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    let mut corpora = BTreeSet::new();
    for entry in fs::read_dir(root.join(CORPUS)).context(CORPUS)? {
        corpora.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(unlisted(&targets(&read(MANIFEST)?)?, &corpora, &read(PAGE)?))
}

fn unlisted(targets: &[String], corpora: &BTreeSet<String>, page: &str) -> Vec<String> {
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let has_row = |target: &String| rows.iter().any(|row| row.contains(&format!("`{target}`")));
    let without_corpus = targets.iter().filter(|target| !corpora.contains(*target));
    let without_row = targets.iter().filter(|target| !has_row(target));
    let of_none = corpora.iter().filter(|corpus| !targets.contains(corpus));
    let no_corpus =
        without_corpus.map(|name| format!("{MANIFEST}: `{name}` has no {CORPUS}/{name}"));
    let no_row = without_row.map(|name| format!("{PAGE}: no row says what `{name}` fuzzes"));
    let no_target = of_none.map(|name| format!("{CORPUS}/{name}: there is no such target"));
    no_corpus.chain(no_row).chain(no_target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_what_they_did_are_read() {
        let manifest = "[package]\nname = 'x'\n[[bin]]\nname = 'reply'\n[[bin]]\nname = 'line'\n";
        assert_eq!(targets(manifest).expect("TOML"), ["line", "reply"]);
        assert!(targets("[package]\n").is_err());
        let log = "#4\tINITED\nDone 77 runs in 2 second(s)\nstat::number_of_executed_units: 77\n\
                   stat::average_exec_per_sec:     38\n";
        assert_eq!(executions(log), Some(77));
        assert_eq!(executions("panicked at\nlibFuzzer: deadly signal\n"), None);
    }

    #[test]
    fn a_target_without_corpus_or_row_is_named() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let page = "`line` is in a sentence\n| `reply`, `token` | replies | 3 |\n";
        let corpora = names(&["line", "reply", "old"]).into_iter().collect();
        let said = unlisted(&names(&["line", "reply", "token"]), &corpora, page);
        assert_eq!(
            said,
            [
                "lab/fuzz/Cargo.toml: `token` has no lab/fuzz/corpus/token",
                "docs/security.md: no row says what `line` fuzzes",
                "lab/fuzz/corpus/old: there is no such target",
            ]
        );
        let corpora = names(&["reply", "token"]).into_iter().collect();
        assert_eq!(unlisted(&names(&["reply", "token"]), &corpora, page), Vec::<String>::new());
    }
}
