//! The house's own checks, run by `make test`: `cargo run -p xtask -- tidy`.

mod arrows;
mod errors;
mod house;
mod source;
mod supply;
mod words;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("tidy"), None) => tidy(),
        _ => bail!("usage: cargo run -p xtask -- tidy"),
    }
}

/// Runs every check over the workspace and prints each violation as `place: what is wrong`.
fn tidy() -> Result<ExitCode> {
    let metadata = metadata()?;
    let root =
        metadata["workspace_root"].as_str().context("cargo metadata names no workspace_root")?;
    let root = Path::new(root);
    let mut found = house::check(root, &metadata)?;
    found.extend(supply::check(root, &metadata)?);
    found.extend(errors::check(root)?);
    found.extend(words::check(root)?);
    for violation in &found {
        eprintln!("{violation}");
    }
    if found.is_empty() {
        println!(
            "tidy: arrows, names, sizes, unsafe code, licences and sources are as the house says"
        );
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "tidy: {} violations of the house rules (CONTRIBUTING.md, ARCHITECTURE.md)",
        found.len()
    );
    Ok(ExitCode::FAILURE)
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
