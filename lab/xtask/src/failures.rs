//! What failed, in its own words: kept for the end of a long output, and tried once more by itself.

use std::mem;

/// How many lines of a failed test are kept.
const LINES: usize = 30;
/// With more failures than this it is not the machine: nothing is tried again. A slow and busy one
/// had eleven that passed alone.
const FEW: usize = 16;

/// A test that failed, and the first lines of what it printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) test: String,
    pub(crate) lines: Vec<String>,
}

/// Finds failures in what test programs print.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    found: Vec<Failure>,
    is_within: bool,
}

impl Failures {
    /// Takes in a line of a test program, such as `---- cli::help stdout ----`.
    pub(crate) fn add(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
        if let Some(name) = name {
            let test = name.strip_suffix(" stdout").unwrap_or(name).to_owned();
            self.found.push(Failure { test, lines: Vec::new() });
            self.is_within = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.is_within = false;
        } else if let Some(last) = self.found.last_mut()
            && self.is_within
            && !is_frame(line)
            && last.lines.len() < LINES
        {
            last.lines.push(line.to_owned());
        }
    }

    /// The names of the tests to try again; none where too many failed, or one has no name to ask
    /// by.
    pub(crate) fn again(&self) -> Vec<String> {
        let names: Vec<String> = self.found.iter().map(|failure| failure.test.clone()).collect();
        // A documentation test is named by its file.
        let can = names.len() <= FEW && names.iter().all(|name| !name.contains(' '));
        if can { names } else { Vec::new() }
    }

    /// What was found so far, and from now on nothing.
    pub(crate) fn take(&mut self) -> Vec<Failure> {
        mem::take(&mut self.found)
    }

    /// Prints what failed under `title`, if something did.
    pub(crate) fn print(title: &str, failures: &[Failure]) {
        if failures.is_empty() {
            return;
        }
        println!("\n== {title}");
        for failure in failures {
            println!("{}", failure.test);
            for line in failure.lines.iter().filter(|line| !line.trim().is_empty()) {
                println!("  {line}");
            }
        }
    }
}

/// Whether `line` is of a backtrace, which would take the place of words.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let is_numbered = line.split_once(": ").is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    is_numbered || line == "stack backtrace:" || line.starts_with("at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n\
        thread panicked at x.rs:1:2:\nleft: 1\nstack backtrace:\n   0: main\n             at ./src/main.rs:1:2\n\nfailures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed";

    fn found(printed: &str) -> Failures {
        let mut failures = Failures::default();
        printed.lines().for_each(|line| failures.add(line));
        failures
    }

    #[test]
    fn what_a_failed_test_printed_is_kept_and_nothing_else() {
        let mut failures = found(PRINTED);
        assert_eq!(failures.again(), ["a::b"]);
        let all = failures.take();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].lines, ["thread panicked at x.rs:1:2:", "left: 1", ""]);
        assert!(failures.again().is_empty());
    }

    #[test]
    fn many_failures_and_those_of_documents_are_not_tried_again() {
        let many: String = (0..17).map(|i| format!("---- t{i} stdout ----\n")).collect();
        assert!(found(&many).again().is_empty());
        assert!(found("---- src/lib.rs - Client (line 3) stdout ----").again().is_empty());
        assert!(found("test a::b ... ok\nfailures:").again().is_empty());
    }
}
