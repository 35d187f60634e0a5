//! The counts of test programs, added up.

use crate::failures::Failures;
use crate::run;
use anyhow::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// What test programs say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By `WORDS`.
    numbers: [u64; 5],
    pub(crate) failures: Failures,
}

const PASSED: usize = 0;
const FAILED: usize = 1;
const WORDS: [&str; 5] = ["passed", "failed", "ignored", "measured", "filtered out"];

impl Counts {
    /// Runs `command`, shows what it prints, and adds the counts of each test program among it.
    pub(crate) fn of(&mut self, command: &mut Command) -> Result<()> {
        self.of_amid(command, || Ok(()))
    }

    /// The same, and `amid` when the first test runs: then cargo needs the folder of builds no
    /// more.
    pub(crate) fn of_amid(
        &mut self,
        command: &mut Command,
        amid: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut amid = Some(amid);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                println!("{line}");
                self.add(&line);
                self.failures.add(&line);
                if line.starts_with("test ")
                    && let Some(amid) = amid.take()
                {
                    amid()?;
                }
            }
        }
        run::judge(command, child.wait()?)
    }

    /// Adds those of a line such as `test result: ok. 9 passed; 0 failed; ...`.
    pub(crate) fn add(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((number, word)) = part.split_once(' ') else { continue };
            if let Some(at) = WORDS.iter().position(|known| *known == word) {
                self.numbers[at] += number.parse::<u64>().unwrap_or(0);
            }
        }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.numbers[PASSED]
    }

    /// Takes back `failed` failures: those tests have passed since.
    pub(crate) fn make_good(&mut self, failed: u64) {
        self.numbers[FAILED] = self.numbers[FAILED].saturating_sub(failed);
        self.numbers[PASSED] += failed;
    }

    pub(crate) fn any(&self) -> bool {
        self.numbers.iter().any(|count| *count > 0)
    }

    /// All in one line, as a test program has it.
    pub(crate) fn line(&self, went_well: bool) -> String {
        let verdict = if went_well { "ok" } else { "FAILED" };
        let parts: Vec<String> =
            self.numbers.iter().zip(WORDS).map(|(count, word)| format!("{count} {word}")).collect();
        format!("test result: {verdict}. {}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_programs_are_added() {
        let mut counts = Counts::default();
        assert!(!counts.any());
        counts.add("test result: ok. 9 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 47.26s");
        counts.add("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s");
        counts.add("test x ... ok");
        assert_eq!(
            counts.line(false),
            "test result: FAILED. 10 passed; 1 failed; 2 ignored; 0 measured; 7 filtered out"
        );
    }
}
