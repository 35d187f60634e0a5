//! Deletions that a server was asked for and of which nothing was heard, for `--max-delete`: each
//! may have been done, and counts so in the attempts that follow.

use std::collections::BTreeSet;

/// What a copy has asked a server to delete without hearing what became of it, by path.
#[derive(Debug, Default)]
pub(super) struct UnheardDeletions(BTreeSet<Vec<u8>>);

impl UnheardDeletions {
    /// The server is asked to delete `path`.
    pub(super) fn ask(&mut self, path: &[u8]) {
        self.0.insert(path.to_vec());
    }

    /// What became of `path` is known.
    pub(super) fn hear(&mut self, path: &[u8]) {
        self.0.remove(path);
    }

    /// Takes out what is not `listed` any more: it was deleted.
    pub(super) fn take_done(&mut self, listed: &BTreeSet<&[u8]>) -> BTreeSet<Vec<u8>> {
        let all = std::mem::take(&mut self.0).into_iter();
        let (left, done): (BTreeSet<_>, BTreeSet<_>) =
            all.partition(|path| listed.contains(&path[..]));
        self.0 = left;
        done
    }

    /// How many of `paths`, from the first on, may be deleted, where `most` may be and `deleted`
    /// are known to be. What was asked for before counts already.
    pub(super) fn allowed<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p [u8]>,
        (most, deleted): (u64, usize),
    ) -> usize {
        let mut left = most.saturating_sub((deleted + self.0.len()) as u64);
        let mut allowed = 0;
        for path in paths {
            if !self.0.contains(path) {
                let Some(less) = left.checked_sub(1) else { break };
                left = less;
            }
            allowed += 1;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_counts_until_a_refusal_is_heard() {
        let mut unheard = UnheardDeletions::default();
        let paths = [&b"d"[..], b"c", b"b", b"a"];
        assert_eq!(unheard.allowed(paths, (3, 0)), 3);
        paths[..3].iter().for_each(|path| unheard.ask(path));
        // `d` is deleted, and the word on `c` and `b` is lost.
        unheard.hear(b"d");
        assert_eq!(unheard.allowed([&b"c"[..], b"b", b"a"], (3, 1)), 2, "each of them once");
        assert_eq!(unheard.allowed([&b"b"[..], b"a"], (3, 1)), 1, "`c` went, unheard");
        assert_eq!(unheard.allowed([&b"x"[..]], (3, 1)), 0);
        let done = unheard.take_done(&BTreeSet::from([&b"a"[..], b"b"]));
        assert_eq!(done, BTreeSet::from([b"c".to_vec()]));
        assert_eq!(unheard.allowed([&b"b"[..], b"a"], (3, 2)), 1);
        unheard.hear(b"b");
        assert_eq!(unheard.allowed([&b"a"[..]], (3, 2)), 1, "`b` was refused");
    }
}
