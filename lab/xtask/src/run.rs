//! Commands that must succeed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Stdio};

/// A command that finds what Debian keeps from an ordinary user's PATH, such as `ip`.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    command
}

/// cargo with `arguments`: the one that runs this program.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs cargo with `arguments`.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    succeed(&mut command(arguments))
}

/// Runs `command` to its end.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| shown(command))?;
    judge(command, status)
}

/// An error unless `command` came to a good end.
pub(crate) fn judge(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Whether `command` succeeds; what it says on standard output is not shown.
pub(crate) fn can(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
