//! Shared parts of the end-to-end tests: where the binaries are, and what this machine lets a test do.

use std::path::PathBuf;
use std::process::Command;

/// The `farline` binary built beside the running test, or `FARLINE_BIN`.
///
/// # Panics
/// When neither exists: build it with `cargo build -p farline-cli` first (`make test` does).
pub fn farline_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("FARLINE_BIN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a test has a path");
    let binary = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("farline");
    assert!(binary.exists(), "{} is missing: run `cargo build -p farline-cli`", binary.display());
    binary
}

/// A command that runs the `farline` binary.
pub fn farline() -> Command {
    Command::new(farline_binary())
}
