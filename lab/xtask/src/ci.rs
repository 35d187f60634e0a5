//! `cargo xtask ci`: all checks and all tests, as `make test` and CI run them, with the seconds
//! that each phase took.
//!
//! Budget from a cold clone on 2 cores: build 600 s, tests 600 s, peers 300 s (CONTRIBUTING.md).

use crate::counts::Counts;
use crate::{features, guest, metadata, run, skips, tidy};
use anyhow::{Result, bail};
use std::path::Path;
use std::time::{Duration, Instant};

/// One small copy by RDMA, with the devices' own packet counters as proof.
const RDMA_TEST: &str = "rdma::there_and_back::a_file_goes_there_and_back_and_devices_counted_it";

/// What has happened so far.
struct Report {
    begun: Instant,
    /// Each phase that ended well, and how long it took or why it did not run.
    phases: Vec<(&'static str, String)>,
    counts: Counts,
}

/// Runs every phase until one fails, and prints at the end, also of a failed run, what each phase
/// took, which tests were skipped, and last the counts of all tests in one line. With `strict` a
/// skip fails that is not on the committed list.
pub(crate) fn ci(root: &Path, strict: bool) -> Result<()> {
    let mut report =
        Report { begun: Instant::now(), phases: Vec::new(), counts: Counts::default() };
    skips::forget(root)?;
    let result = report.phases(root).and_then(|()| skips::check(root, strict));
    report.print(root, result.is_ok());
    result
}

impl Report {
    fn phases(&mut self, root: &Path) -> Result<()> {
        self.phase("peers", |_| run::succeed(run::program("lab/setup").arg("test")))?;
        self.phase("format", |_| run::cargo(&["fmt", "--all", "--check"]))?;
        self.phase("build", |_| {
            // The tests run what `cargo build` makes; `make demo` and `make bench` build the
            // release.
            run::cargo(&["build", "--locked", "--workspace", "--all-targets"])
        })?;
        self.phase("law", |_| law())?;
        self.phase("bpf", |_| run::succeed(run::program("lab/bpf").arg("check")))?;
        self.phase("lint", |_| {
            run::cargo(&[
                "clippy",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])
        })?;
        // What takes no feature builds alone, and says what it has not; the core also with each
        // alone (`cargo xtask features` does so with the library and the command).
        self.phase("least", |report| {
            features::check(&metadata()?, "farline-core")?;
            let none = ["-p", "farline", "--no-default-features", "--locked"];
            let warned = ["-p", "farline-cli", "--", "-D", "warnings"];
            run::cargo(&[&["clippy"], &none[..], &warned].concat())?;
            let test = [&["test"], &none[..], &["--lib", "kernelcc::"]].concat();
            report.counts.of(&mut run::command(&test))
        })?;
        self.phase("docs", |_| {
            let arguments = ["doc", "--locked", "--workspace", "--no-deps", "--quiet"];
            run::succeed(run::command(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
        })?;
        self.phase("tests", |report| {
            let arguments = ["test", "--locked", "--workspace", "--no-fail-fast"];
            let threads = test_threads().to_string();
            report.counts.of(run::command(&arguments).env("RUST_TEST_THREADS", threads))
        })?;
        // The guest next to the tests would slow both down, and a guest may be ten times slower
        // than this machine.
        if run::can(run::program("lab/guest").arg("-p")) {
            self.phase("guest", |report| {
                let asked = guest::Asked {
                    groups: vec!["rdma".to_owned()],
                    arguments: vec!["--exact".to_owned(), RDMA_TEST.to_owned()],
                    longest: Duration::from_secs(600),
                };
                guest::run(root, &asked, &mut report.counts)
            })
        } else {
            skips::note(root, RDMA_TEST, "there is no qemu, or no kernel of Debian's, here")
        }
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

    fn print(&self, root: &Path, went_well: bool) {
        println!("\n== seconds");
        for (name, took) in &self.phases {
            println!("  {name:<8} {took}");
        }
        println!("  {:<8} {:5} s", "total", self.begun.elapsed().as_secs());
        skips::print(root);
        println!();
        if self.counts.any() {
            println!("{}", self.counts.line(went_well));
        }
    }
}

/// Twice as many as there are processors: tests of the edge wait for links, time-outs and peers more
/// than half of their time.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// The same rules are read by `tidy`; cargo-deny checks them more deeply and is used where it is
/// installed, because building it costs more than everything else here.
fn law() -> Result<()> {
    if run::can(&mut run::command(&["deny", "--version"])) {
        run::cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    }
    if !tidy()? {
        bail!("the house rules are broken");
    }
    Ok(())
}
