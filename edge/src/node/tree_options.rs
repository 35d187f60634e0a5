//! What a client says of the trees to come: what it holds, what it does not want, and how what they
//! replace is kept.

use super::data::DataPlane;
use farline_core::copy::{MOST_HELD_RANGES, parse_paths};
use farline_core::gridftp::Pathname;
use farline_core::transfer::{LONGEST_BLOCK, SHORTEST_BLOCK};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, percent};
use std::collections::BTreeSet;

/// Paths that a client leaves out of its trees, or takes of a folder, at most.
const MOST_PATHS: usize = 4 << 20;

impl DataPlane {
    pub(super) fn hold_there(&mut self, ranges: &str) -> Result<(), Error> {
        let ranges = ByteRanges::parse(ranges).ok_or_else(|| {
            let message = "held is a list of ranges, such as 0-29,90-120";
            Error::new(Fault::You, ErrorCode::Rejected, message)
        })?;
        if self.held_there.count() + ranges.count() > MOST_HELD_RANGES {
            let message = format!("of what is held at most {MOST_HELD_RANGES} ranges are taken");
            return Err(Error::new(Fault::You, ErrorCode::Rejected, message));
        }
        self.held_there.extend(ranges.iter());
        Ok(())
    }

    pub(super) fn keep_replaced(&mut self, value: &str) -> Result<(), Error> {
        if value == "none" {
            self.backup = None;
            return Ok(());
        }
        let decoded = |text: &str| percent::decode(text.as_bytes());
        let parts = value
            .split_once(':')
            .and_then(|(suffix, folder)| Some((decoded(suffix)?, decoded(folder)?)));
        let is_name = |suffix: &[u8]| !suffix.iter().any(|byte| matches!(byte, b'/' | 0));
        let (suffix, folder) = parts
            .filter(|(suffix, folder)| is_name(suffix) && !(suffix.is_empty() && folder.is_empty()))
            .ok_or_else(|| {
                let message = "backup is a suffix, a colon and a folder, one of which may be empty";
                Error::new(Fault::You, ErrorCode::Rejected, message)
            })?;
        let folder = (!folder.is_empty()).then(|| self.shared.home.resolve(&Pathname::new(folder)));
        self.backup = Some((suffix, folder));
        Ok(())
    }

    pub(super) fn agree_block(&mut self, value: &str) -> Result<(), Error> {
        let within = SHORTEST_BLOCK..=LONGEST_BLOCK;
        self.longest_block = match value.parse() {
            _ if value == "none" => None,
            Ok(len) if within.contains(&len) => Some(Bytes(len as u64)),
            _ => {
                let message =
                    format!("a block has {SHORTEST_BLOCK} to {LONGEST_BLOCK} bytes, or is `none`");
                return Err(Error::new(Fault::You, ErrorCode::Rejected, message));
            }
        };
        Ok(())
    }

    pub(super) fn leave(&mut self, value: &str) -> Result<(), Error> {
        let what =
            ("leave is a list of paths below the tree, such as /a,/b/c", "left out of a tree");
        add_paths(&mut self.left, value, |_| true, what)
    }

    pub(super) fn take_only(&mut self, value: &str) -> Result<(), Error> {
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
        let what = ("only is a list of names in a folder, such as /a,/b", "asked for of a folder");
        add_paths(&mut self.only, value, is_name, what)
    }
}

/// Adds the paths that `value` lists, each of which must be one that `may_be`; `none` takes all
/// away. `what` says what it is to be, and what many are too many for.
fn add_paths(
    to: &mut BTreeSet<Vec<u8>>,
    value: &str,
    may_be: impl Fn(&[u8]) -> bool,
    what: (&str, &str),
) -> Result<(), Error> {
    if value == "none" {
        to.clear();
        return Ok(());
    }
    let rejected = |message: String| Error::new(Fault::You, ErrorCode::Rejected, message);
    let paths = parse_paths(value)
        .filter(|paths| paths.iter().all(|path| may_be(path)))
        .ok_or_else(|| rejected(what.0.to_owned()))?;
    if to.len() + paths.len() > MOST_PATHS {
        return Err(rejected(format!("at most {MOST_PATHS} paths are {}", what.1)));
    }
    to.extend(paths);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_added_until_none() {
        let (mut paths, what) = (BTreeSet::new(), ("a list", "taken"));
        for value in ["/a,/b%2C", "/c"] {
            add_paths(&mut paths, value, |_| true, what).expect("paths");
        }
        assert_eq!(paths.iter().collect::<Vec<_>>(), [&b"a"[..], b"b,", b"c"]);
        for wrong in ["a", "", "/a,b", "/%zz", "/x"] {
            let refused = add_paths(&mut paths, wrong, |path| path != b"x", what);
            assert_eq!(refused.map_err(|error| error.fault), Err(Fault::You), "{wrong}");
        }
        assert_eq!(paths.len(), 3, "what is refused adds nothing");
        add_paths(&mut paths, "none", |_| true, what).expect("none");
        assert!(paths.is_empty());
    }
}
