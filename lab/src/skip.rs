//! Tests that a machine does not let run: each says so, and the end of `make test` names them all.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Where skips are noted, a line for each: the test's name, a tab, the reason.
///
/// It is `skipped.tsv` in the folder of build results, in which this program's own folder stands.
fn list() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    // target/PROFILE/deps/TEST
    Some(this.ancestors().nth(3)?.join("skipped.tsv"))
}

/// Says that the running test is skipped, and notes it for the end of `make test`.
///
/// # Panics
/// When it cannot be noted: a silent skip is a test that cannot fail.
pub fn skip(reason: impl std::fmt::Display) {
    let test = std::thread::current().name().unwrap_or("main").to_owned();
    let reason = reason.to_string().replace(['\n', '\t'], " ");
    eprintln!("SKIPPED: {test}: {reason}");
    let list = list().expect("a test stands in a folder of build results");
    let mut file = File::options().create(true).append(true).open(&list).expect("a list of skips");
    // One write, so that tests that run next to each other do not mix their lines.
    file.write_all(format!("{test}\t{reason}\n").as_bytes()).expect("noted");
}
