//! Which files of a source stay as they are at the destination, over several attempts.

use std::collections::BTreeSet;

/// What the attempts of a copy have found of that.
#[derive(Debug, Default)]
pub(super) enum KeptFiles {
    /// None has looked.
    #[default]
    Unknown,
    /// The one that runs is the first that has.
    Found,
    /// The first that has found these, by name, and failed: what another one finds beyond them has
    /// landed in between.
    First(BTreeSet<Vec<u8>>),
}

impl KeptFiles {
    /// The attempt that runs has looked.
    pub(super) fn found(&mut self) {
        if matches!(self, KeptFiles::Unknown) {
            *self = KeptFiles::Found;
        }
    }

    /// The attempt that has failed found that files of these `names` stay, if it has looked.
    pub(super) fn failed(&mut self, names: Vec<Vec<u8>>) {
        if matches!(self, KeptFiles::Found) {
            *self = KeptFiles::First(names.into_iter().collect());
        }
    }

    /// Whether the file of this name, which is found to stay, was there before the copy.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        match self {
            KeptFiles::Unknown | KeptFiles::Found => true,
            KeptFiles::First(names) => names.contains(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_beyond_the_first_look_has_landed_in_between() {
        let name = |name: &str| name.as_bytes().to_vec();
        let mut kept = KeptFiles::default();
        // Nothing was looked at: of what it had found there is nothing to tell.
        kept.failed(Vec::new());
        assert!(kept.has(b"a"));
        kept.found();
        assert!(kept.has(b"a") && kept.has(b"b"));
        kept.failed(vec![name("a")]);
        for _ in 0..2 {
            assert!(kept.has(b"a") && !kept.has(b"b"));
            kept.found();
            kept.failed(vec![name("a"), name("b")]);
        }
    }
}
