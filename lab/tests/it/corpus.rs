//! The fuzz targets on stable: every file of the corpus, and some thousand seeded mutations of
//! each.

use farline_lab::bearer::bearer;
use farline_lab::targets::{ALL, Target, mutate};
use std::path::{Path, PathBuf};

/// The files of a target's corpus.
fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a corpus")
        .map(|item| item.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{}: {} files", folder.display(), files.len());
    files
}

/// That `target` holds its laws on `file` and on mutations of it.
fn assert_holds(name: &str, target: Target, file: &Path) {
    let bytes = std::fs::read(file).expect("readable");
    target(&bytes);
    for seed in 0..3000 {
        let changed = mutate(&bytes, seed);
        let held = std::panic::catch_unwind(|| target(&changed));
        assert!(
            held.is_ok(),
            "{name}: {} with seed {seed}: {:?}",
            file.display(),
            String::from_utf8_lossy(&changed)
        );
    }
}

#[test]
fn every_target_holds_its_laws_on_corpus_and_mutations() {
    // First the one that takes longest.
    let library = [("bearer", bearer as Target)];
    let mut cases = Vec::new();
    for (name, target) in library.into_iter().chain(ALL) {
        cases.extend(corpus(name).into_iter().map(|file| (name, target, file)));
    }
    // A file on each processor.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    farline_lab::on_threads(processors, &cases, |(name, target, file)| {
        assert_holds(name, *target, file);
    });
}
