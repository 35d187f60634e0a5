//! What tests put into folders, and what they find there.

use farline_core::units::Rng;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A folder in memory where there is one: a disk's pace is not what is tested.
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// A path as an argument.
///
/// # Panics
/// When it is no text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}

/// A file of this host, as a grid's clients name it.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Bytes that cannot be compressed.
pub fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// A file of pseudo-random bytes, no mebibyte like another.
///
/// # Panics
/// When it cannot be written.
pub fn plant_file(path: &Path, mib: u64, seed: u64) {
    let mut block = random(seed, 1 << 20);
    let mut file = fs::File::create(path).expect("made");
    for index in 0..mib {
        block[..8].copy_from_slice(&index.to_le_bytes());
        file.write_all(&block).expect("written");
    }
}

/// Copies the program at `from` to `to`, where it may be run at once. A child does it: what this
/// process has open for writing is open, for a moment, in every child that another thread starts,
/// and may not be run then (`ETXTBSY` of execve(2)).
///
/// # Panics
/// When it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status().expect("cp runs");
    assert!(copied.success(), "{} was not copied to {}", from.display(), to.display());
}

/// Whether two files have the same bytes.
///
/// # Panics
/// When one of them is not there.
pub fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).expect("there") == fs::read(b).expect("landed")
}

/// What is in a folder, sorted.
///
/// # Panics
/// When it cannot be read.
pub fn names(folder: &Path) -> Vec<String> {
    let names =
        fs::read_dir(folder).expect("a folder").map(|item| item.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Names that are not for users: partial files and journals.
pub fn hidden(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.ends_with(".farline")).collect()
}
