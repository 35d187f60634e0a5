//! Where the lines of a manifest stand in its text, so that a part of it is written by itself: the
//! text of a million files has a hundred megabytes, which nobody needs to hold.

use super::layout::Entry;
use super::manifest::manifest_line;

/// How far apart the places are that are remembered, in bytes of text.
const PAGE: u64 = 64 << 10;

/// The places of a manifest's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestIndex {
    /// `(where its line starts in the text, entry)`, about one for each [`PAGE`], ascending.
    pages: Vec<(u64, usize)>,
    len: u64,
}

impl ManifestIndex {
    /// That of the manifest of `entries`.
    pub fn of(entries: &[Entry]) -> ManifestIndex {
        let (mut pages, mut len) = (Vec::<(u64, usize)>::new(), 0);
        let mut line = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            if pages.last().is_none_or(|&(start, _)| len - start >= PAGE) {
                pages.push((len, index));
            }
            line.clear();
            manifest_line(entry, &mut line);
            len += line.len() as u64;
        }
        ManifestIndex { pages, len }
    }

    /// Bytes of the whole text.
    pub fn text_len(&self) -> u64 {
        self.len
    }

    /// Writes the text from `offset` on into the whole of `into`; returns false where it ends
    /// before.
    ///
    /// `entries` are those that it was made of.
    pub fn write(&self, entries: &[Entry], offset: u64, into: &mut [u8]) -> bool {
        if into.is_empty() {
            return offset <= self.len;
        }
        let page = self.pages.partition_point(|&(start, _)| start <= offset);
        let Some(&(mut start, first)) = page.checked_sub(1).and_then(|page| self.pages.get(page))
        else {
            return false;
        };
        let (mut line, mut written) = (Vec::new(), 0);
        for entry in &entries[first..] {
            line.clear();
            manifest_line(entry, &mut line);
            let end = start + line.len() as u64;
            let at = offset + written as u64;
            if at < end {
                let part = &line[(at - start) as usize..];
                let len = part.len().min(into.len() - written);
                into[written..written + len].copy_from_slice(&part[..len]);
                written += len;
                if written == into.len() {
                    return true;
                }
            }
            start = end;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::EntryKind;
    use super::super::manifest::manifest_lines;
    use super::*;
    use proptest::prelude::*;

    fn entries(count: usize) -> Vec<Entry> {
        let file = |index: usize| Entry {
            path: format!("{}/{index}", "d".repeat(index % 97)).into_bytes(),
            kind: EntryKind::File { len: index as u64 },
            mode: 0o644,
            modified_ns: index as i64 * 1_000_003,
            changed_ns: 0,
            attributes: None,
        };
        (0..count).map(file).collect()
    }

    proptest! {
        #[test]
        fn any_part_is_that_of_the_text(
            count in 0usize..3_000, at in 0.0f64..1.1, len in 0usize..200_000,
        ) {
            let entries = entries(count);
            let (text, index) = (manifest_lines(&entries), ManifestIndex::of(&entries));
            prop_assert_eq!(index.text_len(), text.len() as u64);
            let from = (text.len() as f64 * at) as usize;
            let mut part = vec![0; len];
            let wanted = text.get(from..from + len);
            prop_assert_eq!(index.write(&entries, from as u64, &mut part), wanted.is_some());
            if let Some(wanted) = wanted {
                prop_assert!(part == wanted);
            }
        }
    }
}
