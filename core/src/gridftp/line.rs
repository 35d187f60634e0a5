//! Lines of a control connection: cut from chunks of any size, bounded, never copied twice.

/// The longest line accepted, in bytes, without its end. Range markers and SPOR lists are the
/// longest legal ones.
pub const MAX_LINE: usize = 8 * 1024;

/// Cuts a byte stream into lines that end with CR LF, or with a bare LF as typed by people.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// Bytes of the line under way; at most `max` + 1, the excess byte being a CR that may belong
    /// to its end.
    partial: Vec<u8>,
    /// Set while the rest of a line that was too long is thrown away.
    skipping: bool,
    max: usize,
}

/// One line, or that one was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Complete(Vec<u8>),
    /// With its first bytes, at most [`HEAD`].
    TooLong(Vec<u8>),
}

/// What is kept of a line that is too long: its verb.
const HEAD: usize = 5;

impl Lines {
    pub(super) fn new(max: usize) -> Lines {
        Lines { partial: Vec::new(), skipping: false, max }
    }

    /// Whether no line is under way.
    pub(super) fn is_at_start(&self) -> bool {
        self.partial.is_empty() && !self.skipping
    }

    /// Takes from the front of `bytes` up to the end of one line; `None` when there is no more line
    /// end in them.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Line> {
        let end = bytes.iter().position(|&b| b == b'\n');
        let (taken, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        *bytes = rest;
        let content = if end.is_some() { &taken[..taken.len() - 1] } else { taken };
        let room = (self.max + 1).saturating_sub(self.partial.len());
        if !self.skipping {
            self.skipping = content.len() > room;
            let head = HEAD.saturating_sub(self.partial.len()).min(content.len());
            let kept = if self.skipping { head } else { content.len() };
            self.partial.extend_from_slice(&content[..kept]);
        }
        end?;
        let mut line = std::mem::take(&mut self.partial);
        let skipped = std::mem::take(&mut self.skipping);
        if !skipped && line.last() == Some(&b'\r') {
            line.pop();
        }
        if skipped || line.len() > self.max {
            line.truncate(HEAD);
            return Some(Line::TooLong(line));
        }
        Some(Line::Complete(line))
    }

    /// Forgets the line under way.
    pub(super) fn clear(&mut self) {
        self.partial.clear();
        self.skipping = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(lines: &mut Lines, mut bytes: &[u8]) -> Vec<Line> {
        std::iter::from_fn(|| lines.next(&mut bytes)).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_is_read() {
        let mut lines = Lines::new(4);
        let complete = |text: &str| Line::Complete(text.as_bytes().to_vec());
        let too_long = |head: &str| Line::TooLong(head.as_bytes().to_vec());
        assert_eq!(
            cut(&mut lines, b"NOOP\r\nNOOPS\r\nQUIT\nxxxxxxxxx"),
            [complete("NOOP"), too_long("NOOPS"), complete("QUIT")]
        );
        assert_eq!(cut(&mut lines, b"xxxx\r\n\r\n"), [too_long("xxxxx"), complete("")]);
    }

    proptest! {
        #[test]
        fn chunking_changes_nothing(bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..80), cuts in prop::collection::vec(1usize..9, 80)) {
            let whole = cut(&mut Lines::new(5), &bytes);
            let mut lines = Lines::new(5);
            let (mut rest, mut pieces) = (&bytes[..], Vec::new());
            for size in cuts {
                let (chunk, after) = rest.split_at(size.min(rest.len()));
                pieces.extend(cut(&mut lines, chunk));
                rest = after;
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
