//! The fuzz targets on stable: every file of the corpus, and some thousand seeded mutations of
//! each.

use farline_lab::bearer::bearer;
use farline_lab::targets::{ALL, Target, mutate};
use std::path::Path;

#[test]
fn every_target_holds_its_laws_on_corpus_and_mutations() {
    let library = [("bearer", bearer as Target)];
    for (name, target) in ALL.into_iter().chain(library) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .expect("a corpus")
            .map(|item| item.expect("an entry").path())
            .collect();
        files.sort();
        assert!(files.len() >= 3, "{}: {} files", folder.display(), files.len());
        for file in files {
            let bytes = std::fs::read(&file).expect("readable");
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
    }
}
