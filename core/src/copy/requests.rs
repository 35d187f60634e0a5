//! What is asked of a node in the course of a copy, as requests of its control channel.

use crate::gridftp::client::{Request, Transfer, TransferKind};
use crate::gridftp::{Command, CommandOptions, Module, Pathname, RetrieveOptions};
use crate::units::{ByteRanges, percent};
use std::ops::Range;

/// The module that moves trees (`docs/protocol.md`, clause T-1).
pub const TREE_MODULE: &str = "FARLINE.TREE";
/// Ranges that a line names at most: a command line has 8 KiB, a range at most 41 characters.
const RANGES_IN_LINE: usize = 150;
/// Ranges that a node takes besides those of REST: a few megabytes of memory (`docs/protocol.md`,
///
pub const MOST_HELD_RANGES: usize = 1 << 18;

/// One part of a tree: `manifest`, `data` or `digests`, without what the receiver holds.
pub fn tree_part(what: TransferKind, path: &Pathname, part: &str, held: ByteRanges) -> Request {
    let module = Some(Module { name: TREE_MODULE.to_owned(), parms: part.to_owned() });
    Request::Transfer(Transfer { module, held, ..Transfer::new(what, path.clone()) })
}

/// A switch of Farline's own: `OPTS FARLINE name=value;`.
pub fn farline_option(name: &str, value: &str) -> Request {
    let option = CommandOptions::Farline { name: name.to_owned(), value: value.to_owned() };
    Request::Exec(Command::Options(option))
}

/// Bytes of paths that a switch names at most, of a command line of 8 KiB.
const MOST_LEFT: usize = 7 << 10;

/// Has a sender leave `paths` out of its tree (`docs/protocol.md`, T-10), many with one switch;
/// `None` when one is too long for a command line.
pub fn leave<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Request>> {
    path_options("leave", paths)
}

/// Has a sender send only `names` of the folders that are retrieved from now on (T-13), where
/// nothing else was said before; `None` when one is too long for a command line.
pub fn only<'a>(names: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Request>> {
    path_options("only", names)
}

fn path_options<'a>(option: &str, paths: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Request>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for path in paths {
        let mut named = b"/".to_vec();
        percent::encode(
            path,
            |byte| byte.is_ascii_graphic() && !b",;=".contains(&byte),
            &mut named,
        );
        match lines.last_mut() {
            _ if named.len() > MOST_LEFT => return None,
            Some(line) if line.len() + named.len() < MOST_LEFT => {
                line.push(b',');
                line.extend(named);
            }
            _ => lines.push(named),
        }
    }
    let switch = |line: Vec<u8>| farline_option(option, &String::from_utf8_lossy(&line));
    Some(lines.into_iter().map(switch).collect())
}

/// The paths that a switch of [`leave`] or [`only`] names, or nothing when it is none.
pub fn parse_paths(value: &str) -> Option<Vec<Vec<u8>>> {
    value.split(',').map(|path| percent::decode(path.strip_prefix('/')?.as_bytes())).collect()
}

/// Has a sender use so many channels.
pub fn parallelism(channels: usize) -> Request {
    let channels = u32::try_from(channels).unwrap_or(1);
    let retrieve = RetrieveOptions {
        parallelism: Some((channels, channels, channels)),
        ..RetrieveOptions::default()
    };
    Request::Exec(Command::Options(CommandOptions::Retrieve(retrieve)))
}

/// As much of `held` as a REST line can name: its longest ranges. What is not named comes again,
/// and is dropped.
pub fn nameable(held: &ByteRanges) -> ByteRanges {
    longest(held, RANGES_IN_LINE)
}

/// What the receiver of a tree holds, as its sender is told it.
#[derive(Clone, Debug)]
pub struct NamedHeld {
    /// Switches that go before the request for data.
    pub before: Vec<Request>,
    /// What that request itself names.
    pub in_line: ByteRanges,
    /// Both: all that need not come.
    pub all: ByteRanges,
}

impl NamedHeld {
    /// All of `held` to a sender that takes it however scattered, else what a line can name.
    pub fn of(held: &ByteRanges, takes_all: bool) -> NamedHeld {
        let in_line = nameable(held);
        if !takes_all {
            return NamedHeld { before: Vec::new(), all: in_line.clone(), in_line };
        }
        let mut further = held.clone();
        in_line.iter().for_each(|range| further.remove(range));
        let further = longest(&further, MOST_HELD_RANGES);
        let ranges: Vec<_> = further.iter().collect();
        let named = |ranges: &[Range<u64>]| ranges.iter().cloned().collect::<ByteRanges>();
        let lines = ranges.chunks(RANGES_IN_LINE);
        let before =
            lines.map(|ranges| farline_option("held", &named(ranges).to_string())).collect();
        let mut all = in_line.clone();
        all.extend(further.iter());
        NamedHeld { before, in_line, all }
    }
}

fn longest(held: &ByteRanges, count: usize) -> ByteRanges {
    if held.count() <= count {
        return held.clone();
    }
    let mut ranges: Vec<_> = held.iter().collect();
    ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
    ranges.into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_that_no_line_can_carry_is_not_left_out() {
        let long = vec![b'\n'; 4000];
        assert_eq!(leave([&b"a"[..], &long].into_iter()), None);
        assert_eq!(parse_paths("/a,b"), None);
    }

    proptest! {
        #[test]
        fn paths_to_leave_out_survive_the_wire(
            paths in prop::collection::vec(prop::collection::vec(1u8.., 0..300), 0..90),
        ) {
            let mut came = Vec::new();
            for request in leave(paths.iter().map(|path| &path[..])).expect("short enough") {
                let Request::Exec(Command::Options(CommandOptions::Farline { value, .. })) = request else {
                    panic!("no switch");
                };
                prop_assert!(value.len() <= MOST_LEFT && !value.contains([';', ' ', '\r']));
                came.extend(parse_paths(&value).expect("our own"));
            }
            prop_assert_eq!(came, paths);
        }
    }
}
