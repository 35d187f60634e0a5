//! What is asked of a node in the course of a copy, as requests of its control channel.

use crate::gridftp::client::{Request, Transfer, TransferKind};
use crate::gridftp::{Command, Module, Options, Pathname, RetrieveOptions};
use crate::units::ByteRanges;
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
    let option = Options::Farline { name: name.to_owned(), value: value.to_owned() };
    Request::Exec(Command::Options(option))
}

/// Has a sender use so many channels.
pub fn parallelism(channels: usize) -> Request {
    let channels = u32::try_from(channels).unwrap_or(1);
    let retrieve = RetrieveOptions {
        parallelism: Some((channels, channels, channels)),
        ..RetrieveOptions::default()
    };
    Request::Exec(Command::Options(Options::Retrieve(retrieve)))
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
