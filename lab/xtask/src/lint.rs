//! What the compiler and its lints say of all code, and of what few features leave of it; by
//! itself, or aside: next to the tests of the edge, with the house's rules and the tests that
//! know no clock, in the time that those leave the processors idle.

use crate::counts::Counts;
use crate::{ci, guest, run};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

/// Runs its arguments in a session of their own, which yields to all others and ends with who began
/// it. The policy alone would not do: where Linux groups tasks by session, an idle one is idle
/// among its own.
const ASIDE: &str = "{ echo 19 > /proc/self/autogroup; } 2> /dev/null; \
                     trap 'trap - TERM; kill 0' TERM; chrt --idle 0 \"$@\" & wait $!";

/// Prints what clippy has against the workspace, and rustdoc against the library, and the seconds of each step.
pub(crate) fn lint() -> Result<()> {
    step("lint", || {
        let all = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        run::cargo(&all)
    })?;
    // What takes no feature builds alone, and says what it has not. With each alone it builds at
    // night (`cargo xtask features`).
    step("least", || {
        let none = ["-p", "farline", "--no-default-features", "--locked"];
        let warned = ["-p", "farline-cli", "--", "-D", "warnings"];
        // Its tests run at night: they would build all of it once more.
        run::cargo(&[&["clippy"], &none[..], &warned].concat())
    })?;
    step("docs", || {
        // Of what others read: the library, and the core that it shows.
        let arguments = ["doc", "--locked", "--no-deps", "--quiet"];
        let arguments = [&arguments[..], &["-p", "farline-core", "-p", "farline"]].concat();
        run::succeed(run::command(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
    })
}

/// Prints the same, what is against the house's rules, and the tests that know no clock that could
/// be late for them: the core's, and of the integration tests some.
pub(crate) fn aside(root: &Path) -> Result<()> {
    step("law", ci::law)?;
    step("core", || {
        let program = guest::program(&["--lib"], "farline_core")?;
        run::succeed(run::program(program).arg("--quiet").current_dir(root.join("core")))
    })?;
    step("models", || {
        let program = guest::program(&["--test", "it"], "it")?;
        let mut tests = run::program(program);
        run::succeed(tests.arg("--quiet").args(ci::CLOCKLESS).current_dir(root.join("lab")))
    })?;
    lint()
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n== {name}");
    let from = Instant::now();
    work()?;
    println!("{name} took {} s", from.elapsed().as_secs());
    Ok(())
}

/// What [`aside`] does, in a process of its own, at no cost to what else runs.
#[derive(Debug)]
pub(crate) struct Aside {
    child: Child,
    log: PathBuf,
}

impl Aside {
    /// Starts it by `xtask`, this program; its words go to a file below `root`. It ends with the
    /// calling thread.
    pub(crate) fn start(root: &Path, xtask: &Path) -> Result<Aside> {
        let folder = root.join("target");
        fs::create_dir_all(&folder)?;
        let log = folder.join("aside.log");
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = run::program("setpriv");
        command.args(["--pdeathsig", "TERM", "setsid", "sh", "-c", ASIDE, "sh"]);
        command.arg(xtask).arg("aside").current_dir(root);
        let child = command.stdout(file.try_clone()?).stderr(file).spawn().context("setpriv")?;
        Ok(Aside { child, log })
    }

    /// Waits for its end, shows what it said, and adds the tests among that to `counts`.
    pub(crate) fn end(mut self, counts: &mut Counts) -> Result<()> {
        let status = self.child.wait()?;
        let said = fs::read(&self.log)?;
        for line in String::from_utf8_lossy(&said).lines() {
            println!("{line}");
            counts.add(line);
        }
        anyhow::ensure!(status.success(), "what runs next to the tests: {status}");
        Ok(())
    }
}
