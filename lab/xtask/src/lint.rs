//! What the compiler and its lints say of all code; by itself, and of what few features leave of
//! it too, or aside: next to the tests of the edge, with the house's rules and the tests that know
//! no clock, in the time that those leave the processors idle.

use crate::counts::Counts;
use crate::{ci, guest, run};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Runs its arguments in a session of their own, which yields to all others and ends with who began
/// it. The policy alone would not do: where Linux groups tasks by session, an idle one is idle
/// among its own.
const ASIDE: &str = "{ echo 19 > /proc/self/autogroup; } 2> /dev/null; \
                     trap 'trap - TERM; kill 0' TERM; chrt --idle 0 \"$@\" & wait $!";

/// How long what runs aside may take when nothing is left that it runs next to: where others keep
/// the processors busy it would never end.
const LINGERS: Duration = Duration::from_secs(60);

/// What a step prints at its end stands around the seconds that it took.
const TOOK: (&str, &str) = (" took ", " s");

/// Prints what clippy has against the workspace and what few features leave of it, and rustdoc
/// against the library, and the seconds of each step.
pub(crate) fn lint() -> Result<()> {
    lints(&[])?;
    step("least", &[], least)
}

/// What takes no feature builds alone, and says what it has not: all that it depends on is built
/// once more.
pub(crate) fn least() -> Result<()> {
    let none = ["-p", "farline", "--no-default-features", "--locked"];
    let warned = ["-p", "farline-cli", "--", "-D", "warnings"];
    run::cargo(&[&["clippy"], &none[..], &warned].concat())
}

/// What clippy says of the workspace and rustdoc of the library, but for those that are `done`.
fn lints(done: &[&str]) -> Result<()> {
    step("lint", done, || {
        let all = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        run::cargo(&all)
    })?;
    step("docs", done, || {
        // Of what others read: the library, and the core that it shows.
        let arguments = ["doc", "--locked", "--no-deps", "--quiet"];
        let arguments = [&arguments[..], &["-p", "farline-core", "-p", "farline"]].concat();
        run::succeed(run::command(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
    })
}

/// Prints what both say, what is against the house's rules, and the tests that know no clock that
/// could be late for them: the core's, and of the integration tests some. Without the steps that
/// are `done`.
pub(crate) fn aside(root: &Path, done: &[&str]) -> Result<()> {
    step("law", done, ci::law)?;
    let mut core = run::program(guest::program(&["--lib"], "farline_core")?);
    core.arg("--quiet").current_dir(root.join("core"));
    let mut models = run::program(guest::program(&["--test", "it"], "it")?);
    models.arg("--quiet").args(ci::CLOCKLESS).current_dir(root.join("lab"));
    // What the lints wait for, one crate after another, keeps one processor busy.
    std::thread::scope(|scope| {
        let tests =
            scope.spawn(|| tests("core", done, &mut core).and(tests("models", done, &mut models)));
        let linted = lints(done);
        tests.join().expect("no panic").and(linted)
    })
}

/// A step that is a program of tests; it says all at its end, for others speak meanwhile.
fn tests(name: &str, done: &[&str], program: &mut Command) -> Result<()> {
    if done.contains(&name) {
        return Ok(());
    }
    let from = Instant::now();
    let output = program.stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let ended = match output.status.success() {
        true => took(name, from) + "\n",
        false => String::new(),
    };
    print!("\n== {name}\n{said}\n{ended}");
    run::judge(program, output.status)
}

fn step(name: &str, done: &[&str], work: impl FnOnce() -> Result<()>) -> Result<()> {
    if done.contains(&name) {
        return Ok(());
    }
    println!("\n== {name}");
    let from = Instant::now();
    work()?;
    println!("{}", took(name, from));
    Ok(())
}

/// What a step says that ended well.
fn took(name: &str, from: Instant) -> String {
    format!("{name}{}{}{}", TOOK.0, from.elapsed().as_secs(), TOOK.1)
}

/// The steps that have ended, by what they printed.
fn ended(said: &str) -> Vec<&str> {
    let steps = said.lines().filter_map(|line| line.strip_suffix(TOOK.1)?.split_once(TOOK.0));
    steps.filter(|(_, took)| took.parse::<u64>().is_ok()).map(|(name, _)| name).collect()
}

/// What [`aside`] does, in a process of its own, at no cost to what else runs.
#[derive(Debug)]
pub(crate) struct Aside {
    child: Child,
    log: PathBuf,
    /// This program, in the folder of the workspace.
    xtask: PathBuf,
    root: PathBuf,
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
        Ok(Aside { child, log, xtask: xtask.to_owned(), root: root.to_owned() })
    }

    /// Waits for its end, shows what it said, and adds the tests among that to `counts`. What does
    /// not end by itself is gone on with here, where it yields to nobody.
    pub(crate) fn end(mut self, counts: &mut Counts) -> Result<()> {
        let status = self.wait()?;
        let said = fs::read(&self.log)?;
        let said = String::from_utf8_lossy(&said);
        for line in said.lines() {
            println!("{line}");
            counts.add(line);
        }
        let Some(status) = status else {
            let mut rest = run::program(&self.xtask);
            return counts.of(rest.arg("aside").args(ended(&said)).current_dir(&self.root));
        };
        anyhow::ensure!(status.success(), "what runs next to the tests: {status}");
        Ok(())
    }

    /// How it ended; nothing where it had to be.
    fn wait(&mut self) -> Result<Option<ExitStatus>> {
        let from = Instant::now();
        while from.elapsed() < LINGERS {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let id = self.child.id().to_string();
        run::succeed(run::program("sh").args(["-c", "kill -TERM $0", &id]))?;
        self.child.wait()?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_ended_are_not_begun_again() {
        let said =
            "== law\nit took 5 s more\nlaw took 25 s\n\n== core\nok\ncore took 87 s\n\n== lint\n";
        let done = ended(said);
        assert_eq!(done, ["law", "core"]);
        step("core", &done, || anyhow::bail!("begun again")).expect("nothing happens");
        step("lint", &done, || anyhow::bail!("begun")).expect_err("it was not over");
    }
}
