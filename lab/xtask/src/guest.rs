//! `cargo xtask guest`: tests that need another kernel than this machine's, in the guests of
//! `lab/guest`.

use crate::counts::Counts;
use crate::run;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Of the whole workspace and with xtask, as `cargo xtask ci` builds: for a part alone cargo would
/// choose other features of the dependencies, and other debug information for what macros are made
/// of, and build nearly all of them anew.
const SAME: [&str; 4] = ["--locked", "--workspace", "--bin", "xtask"];

/// What to run.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Modules of `lab/tests/it`, or `lib` for the unit tests of `edge/`.
    pub(crate) groups: Vec<String>,
    /// What to tell the test program; all ignored tests of the group when empty.
    pub(crate) arguments: Vec<String>,
    /// How long one group may take: without KVM a guest is slow, and on a busy machine slower.
    pub(crate) longest: Duration,
}

impl Asked {
    /// `GROUP... [-- ARGUMENT...]`, and the seconds from `GUEST_SECONDS`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Asked> {
        let mut parts = arguments.splitn(2, |word| word == "--");
        let groups = parts.next().unwrap_or_default().to_vec();
        let arguments = parts.next().unwrap_or_default().to_vec();
        if groups.is_empty() {
            bail!("usage: cargo xtask guest GROUP... [-- ARGUMENT...]");
        }
        let seconds = match std::env::var("GUEST_SECONDS") {
            Ok(seconds) => seconds.parse().context("GUEST_SECONDS")?,
            Err(_) => 900,
        };
        Ok(Asked { groups, arguments, longest: Duration::from_secs(seconds) })
    }
}

/// Builds the test programs and runs those of their tests that need a guest's kernel there, one at
/// a time. `GUEST_KIND` is the guest's kind (default: debian), `GUEST_RDMA` the kind of its RDMA
/// devices (default: rxe; siw takes uml).
pub(crate) fn run(root: &Path, asked: &Asked, counts: &mut Counts) -> Result<()> {
    run::succeed(run::command(&["build", "--quiet"]).args(SAME).args(["--bin", "farline"]))?;
    for group in &asked.groups {
        let (targets, name) = match group.as_str() {
            "lib" => (&["--lib"][..], "farline"),
            _ => (&["--test", "it"][..], "it"),
        };
        let program = program(targets, name)?;
        let mut arguments = asked.arguments.clone();
        if arguments.is_empty() && group != "lib" {
            arguments.push(format!("{group}::"));
        }
        println!("== {group}");
        test(root, &program, &arguments, asked.longest, counts)?;
    }
    Ok(())
}

/// Runs what `arguments` leave of a program's ignored tests in a guest.
pub(crate) fn test(
    root: &Path,
    program: &Path,
    arguments: &[String],
    longest: Duration,
    counts: &mut Counts,
) -> Result<()> {
    let setting =
        |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let (kind, rdma) = (setting("GUEST_KIND", "debian"), setting("GUEST_RDMA", "rxe"));
    println!("== in the guest {kind}, RDMA devices {rdma}");
    let mut command = run::program(root.join("lab/guest"));
    command.args(["-k", &kind, "-t", &longest.as_secs().to_string()]).arg(program);
    command.args(["--ignored", "--nocapture", "--test-threads=1"]).args(arguments);
    counts.of(&mut command)
}

/// Where cargo put the test program of `targets` that is called `name`.
pub(crate) fn program(targets: &[&str], name: &str) -> Result<PathBuf> {
    let mut command = run::command(&["test"]);
    command.args(SAME).args(targets).args(["--no-run", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    run::judge(&command, output.status)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut executables = messages.filter_map(|message: serde_json::Value| {
        (message["target"]["name"] == name && message["profile"]["test"] == true)
            .then(|| message["executable"].as_str().map(PathBuf::from))
            .flatten()
    });
    executables.next_back().with_context(|| format!("cargo built no test program {name}"))
}
