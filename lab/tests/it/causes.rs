//! `limited_by`: what holds a copy back on purpose is what it names. The whole matrix, with its figures,
//! is `cargo xtask bench causes`.

use farline_lab::alone;
use farline_lab::causes::{causes, run};

/// On a machine that others use a copy may be held back by more than one thing: each cause has as
/// many copies.
const TRIES: u64 = 3;

#[test]
fn a_copy_names_what_was_made_to_hold_it_back() {
    alone();
    let folder = tempfile::tempdir().expect("a folder");
    for cause in causes().into_iter().filter(|cause| cause.strength == 2) {
        let mut seen = Vec::new();
        for seed in 1..=TRIES {
            let Some(said) = run(&cause, seed, folder.path()) else { return };
            let is_named = (&*said.limit, &*said.party) == (cause.limit, cause.party);
            seen.push(said);
            if is_named {
                break;
            }
        }
        let last = seen.last().expect("one copy");
        assert_eq!((&*last.limit, &*last.party), (cause.limit, cause.party), "{cause:?}: {seen:?}");
        assert!(!last.evidence.is_empty(), "{cause:?}");
    }
}
