//! `cargo xtask ci`: all checks and all tests, as `make test` and CI run them, with the seconds
//! that each phase took.
//!
//! Budget from a cold clone on 2 cores: build 600 s, tests 600 s, peers 300 s (CONTRIBUTING.md).

use crate::counts::Counts;
use crate::failures::{Failure, Failures};
use crate::lint::Aside;
use crate::{guest, run, skips, tidy};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// One small copy by RDMA, with the devices' own packet counters as proof.
const RDMA_TEST: &str = "rdma::there_and_back::a_file_goes_there_and_back_and_devices_counted_it";

/// The module of the tests that need the machine's quiet.
const QUIET: &str = "alone::";

/// The modules of integration tests that know no clock: models, pages, and readers of bytes. They
/// run next to the others, in the time that those leave the processors idle.
pub(crate) const CLOCKLESS: [&str; 5] =
    ["corpus::", "error_codes::", "profile_model::", "snapshots::", "tuner::"];

/// The modules of tests that hold a rate, or a line, for a while; by a word alone others would be
/// caught, `farline` having `line` in it.
const RATES: [&str; 10] = [
    "known_path::",
    "limit::",
    "line::",
    "line_ethernet::",
    "line_faults::",
    "line_flood::",
    "line_own::",
    "line_reports::",
    "line_truth::",
    "sender_memory::",
];

/// What has happened so far.
struct Report {
    begun: Instant,
    /// Each phase that ended well, and how long it took or why it did not run.
    phases: Vec<(&'static str, String)>,
    counts: Counts,
    /// The tests that failed and then passed by themselves.
    flaky: Vec<Failure>,
    aside: Option<Aside>,
}

/// Runs every phase until one fails, and prints at the end, also of a failed run, what each phase
/// took, which tests were skipped, and last the counts of all tests in one line. With `strict` a
/// skip fails that is not on the committed list.
pub(crate) fn ci(root: &Path, strict: bool) -> Result<()> {
    let mut report = Report {
        begun: Instant::now(),
        phases: Vec::new(),
        counts: Counts::default(),
        flaky: Vec::new(),
        aside: None,
    };
    skips::forget(root)?;
    let result = report.phases(root).and_then(|()| skips::check(root, strict));
    report.print(root, result.is_ok());
    result
}

impl Report {
    fn phases(&mut self, root: &Path) -> Result<()> {
        // Its file is another once the workspace has been built.
        let xtask = std::env::current_exe()?;
        self.phase("peers", |_| run::succeed(run::program("lab/setup").arg("test")))?;
        self.phase("format", |_| run::cargo(&["fmt", "--all", "--check"]))?;
        self.phase("build", |_| {
            // The tests run what `cargo build` makes; `make demo` and `make bench` build the
            // release. The core's test program is wanted later, and is built next to the tests.
            let all = ["build", "--locked", "--workspace", "--all-targets"];
            run::cargo(&[&all[..], &["--exclude", "farline-core"]].concat())
        })?;
        self.phase("bpf", |_| run::succeed(run::program("lab/bpf").arg("check")))?;
        // By its own name from here on: cargo would wait for what runs aside, which has the folder
        // of builds for minutes, and for good where others leave it no time.
        let program = guest::program(&["--test", "it"], "it")?;
        let tests = self.phase("tests", |report| report.tests(root, &program, &xtask));
        let tests = tests.and_then(|()| self.guest(root, &program));
        let linted = self.phase("aside", Report::end_aside);
        tests.and(linted)
    }

    /// One test of RDMA, on devices of a guest; what runs aside yields to it.
    fn guest(&mut self, root: &Path, program: &Path) -> Result<()> {
        // Next to the tests it would slow both down, and a guest may be ten times slower than this
        // machine.
        if !run::can(run::program("lab/guest").arg("-p")) {
            return skips::note(
                root,
                RDMA_TEST,
                "there is no qemu, or no kernel of Debian's, here",
            );
        }
        self.phase("guest", |report| {
            let arguments = ["--exact".to_owned(), RDMA_TEST.to_owned()];
            guest::test(root, program, &arguments, Duration::from_secs(600), &mut report.counts)
        })
    }

    /// All tests; where a few fail they are tried once more by themselves, for what else runs on a
    /// machine may be the reason. What then passes is named at the end all the same. Lints, the
    /// core's tests and those without a clock run aside, from when all is built: tests of the edge
    /// wait half of their time.
    fn tests(&mut self, root: &Path, program: &Path, xtask: &Path) -> Result<()> {
        let mut documents = run::command(&["test", "--locked", "--workspace", "--no-fail-fast"]);
        let documents = self.counts.of(documents.arg("--doc"));
        let aside = &mut self.aside;
        let units = &mut edges_tests(&["--lib", "--bins"]);
        let units = self.counts.of_amid(units, || {
            *aside = Some(Aside::start(root, xtask)?);
            Ok(())
        });
        let units_passed = units.is_ok();
        let integrated = self.integration_tests(root, program);
        let integrated = units.and(integrated);
        documents.and(self.again(integrated, root, units_passed.then_some(program)))
    }

    /// Waits for what runs aside, if something does.
    fn end_aside(&mut self) -> Result<()> {
        self.aside.take().map_or(Ok(()), |aside| aside.end(&mut self.counts))
    }

    /// Those of real sockets, links and peers: first those that need the machine's quiet, then
    /// those that half a dozen others would find late, and then all others.
    fn integration_tests(&mut self, root: &Path, program: &Path) -> Result<()> {
        let mut it = |filters: &[&str], threads: usize| {
            let mut command = run::program(program);
            command.args(filters).arg(format!("--test-threads={threads}"));
            self.counts.of(command.current_dir(root.join("lab")))
        };
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let quiet = it(&[QUIET], 1);
        let of_rates = it(&[&RATES[..], &["--skip", QUIET]].concat(), processors * 3 / 2);
        let elsewhere = RATES.iter().chain(&CLOCKLESS).chain([&QUIET]);
        let skipped = elsewhere.flat_map(|skipped| ["--skip", *skipped]);
        // They wait for links, time-outs and peers more than half of their time.
        let others = it(&skipped.collect::<Vec<_>>(), processors * 3);
        quiet.and(of_rates).and(others)
    }

    /// Tries a few failed tests of `result` once more: of one `program`, or of all that there are.
    fn again(&mut self, result: Result<()>, root: &Path, program: Option<&Path>) -> Result<()> {
        let again = self.counts.failures.again();
        if result.is_ok() || again.is_empty() {
            return result;
        }
        let mut command = match program {
            Some(program) => run::program(program),
            None => {
                self.end_aside()?;
                edges_tests(&["--tests"])
            }
        };
        println!("\n== once more, alone: {}", again.join(", "));
        command.args(["--exact", "--test-threads=1"]).args(&again).current_dir(root.join("lab"));
        let mut alone = Counts::default();
        alone.of(&mut command)?;
        let failed = again.len() as u64;
        if alone.passed() < failed {
            return result;
        }
        self.counts.make_good(failed);
        self.flaky = self.counts.failures.take();
        Ok(())
    }

    /// Runs a phase and notes its seconds.
    fn phase(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Report) -> Result<()>,
    ) -> Result<()> {
        println!("\n== {name}");
        let from = Instant::now();
        work(self)?;
        self.phases.push((name, format!("{:5} s", from.elapsed().as_secs())));
        Ok(())
    }

    fn print(&mut self, root: &Path, went_well: bool) {
        println!("\n== seconds");
        for (name, took) in &self.phases {
            println!("  {name:<8} {took}");
        }
        println!("  {:<8} {:5} s", "total", self.begun.elapsed().as_secs());
        skips::print(root);
        Failures::print("passed the second time alone; the first time:", &self.flaky);
        Failures::print("failed", &self.counts.failures.take());
        println!();
        if self.counts.any() {
            println!("{}", self.counts.line(went_well));
        }
    }
}

/// The tests of `targets`, but for the core's; what is added goes to the programs of tests. Always
/// of the whole workspace, for a part alone would be built anew (`guest` says why).
fn edges_tests(targets: &[&str]) -> Command {
    let mut command = run::command(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    command.args(["--exclude", "farline-core"]).args(targets).arg("--");
    command
}

/// The same rules are read by `tidy`; cargo-deny checks them more deeply and is used where it is
/// installed, because building it costs more than everything else here.
pub(crate) fn law() -> Result<()> {
    if run::can(&mut run::command(&["deny", "--version"])) {
        run::cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    }
    if !tidy()? {
        bail!("the house rules are broken");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_rates_has_each_module_of_line_tests() {
        let main = include_str!("../../tests/it/main.rs");
        let named = |line: &'static str| line.strip_prefix("mod ")?.strip_suffix(';');
        let there: Vec<&str> = main.lines().filter_map(named).collect();
        let listed: Vec<&str> = RATES.iter().filter_map(|name| name.strip_suffix("::")).collect();
        assert_eq!(listed.len(), RATES.len(), "a module, and what is in it alone");
        for module in &listed {
            assert!(there.contains(module), "there is no {module}");
        }
        let holds = |module: &str| module == "line" || module.starts_with("line_");
        for module in there.into_iter().filter(|module| holds(module)) {
            assert!(listed.contains(&module), "{module} is not on the list");
        }
    }
}
