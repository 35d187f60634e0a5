//! The compiled BPF programs that Farline carries, and what is set in them before they are loaded.
//!
//! `lab/bpf` compiles them from `bpf/*.bpf.c` and records with which compiler; `make test` checks
//! that they match.

use farline_core::congestion::{Algorithm, Constants, ControlName, SavedPath};
use farline_core::units::Span;

/// libbpf wants ELF at eight bytes' alignment.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! embedded {
    ($file:literal) => {{
        static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!($file));
        &OBJECT.0
    }};
}

/// The compiled object of `algorithm`; `None` for those that every kernel of today has.
pub(super) fn object(algorithm: Algorithm) -> Option<&'static [u8]> {
    match algorithm {
        Algorithm::Bic => Some(embedded!("bpf/bic.o")),
        Algorithm::HTcp => Some(embedded!("bpf/htcp.o")),
        Algorithm::HighSpeed => Some(embedded!("bpf/highspeed.o")),
        Algorithm::Scalable => Some(embedded!("bpf/scalable.o")),
        Algorithm::Vegas => Some(embedded!("bpf/vegas.o")),
        Algorithm::Held => Some(embedded!("bpf/held.o")),
        Algorithm::Bbr | Algorithm::Cubic | Algorithm::Reno => None,
    }
}

/// The kernel's CUBIC that begins from what an earlier flow saw.
pub(super) fn resuming() -> &'static [u8] {
    embedded!("bpf/resume.o")
}

/// The section with `struct saved` of `bpf/resume.bpf.c`.
pub(super) const SAVED: &str = ".rodata.saved";

/// Writes `struct saved`: bytes on their way, microseconds of a round trip, and whether the path
/// was full.
pub(super) fn write_saved(place: &mut [u8], saved: SavedPath) {
    place[..8].copy_from_slice(&saved.in_flight.0.to_ne_bytes());
    place[8..16].copy_from_slice(&(saved.rtt.as_nanos() / 1_000).to_ne_bytes());
    place[16..24].copy_from_slice(&u64::from(saved.fills).to_ne_bytes());
}

/// The section with `struct config` of `bpf/flow.h`.
pub(super) const CONFIG: &str = ".rodata.config";

/// Writes `struct config`: which constants, how often a flow is sampled (zero: never), and the
/// registered name.
pub(super) fn write_config(
    config: &mut [u8],
    set: Constants,
    sample_every: Span,
    name: ControlName,
) {
    let every = u32::try_from(sample_every.as_nanos() / 1_000).unwrap_or(u32::MAX);
    config[..4].copy_from_slice(&u32::from(set == Constants::Paper).to_ne_bytes());
    config[4..8].copy_from_slice(&every.to_ne_bytes());
    write_name(&mut config[8..24], name);
}

/// Where `name` stands in `struct tcp_congestion_ops` of `bpf/flow.h`: behind seven pointers.
const NAME_AT: usize = 7 * 8;

/// Writes the registered name into the operations.
pub(super) fn write_operations(operations: &mut [u8], name: ControlName) {
    write_name(&mut operations[NAME_AT..NAME_AT + ControlName::LONGEST + 1], name);
}

fn write_name(place: &mut [u8], name: ControlName) {
    place.fill(0);
    let name = name.as_str().as_bytes();
    place[..name.len()].copy_from_slice(name);
}

/// The names of the operations' variables in `bpf/*.c`, by which Farline knows its own in a list of
/// BPF maps.
pub(super) fn map_name(algorithm: Algorithm) -> String {
    format!("fl_{}", algorithm.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernelcc::is_brought;
    use farline_core::congestion::highspeed::table;

    #[test]
    fn what_is_brought_has_an_object_and_nothing_else() {
        for algorithm in Algorithm::ALL {
            assert_eq!(object(algorithm).is_some(), is_brought(algorithm), "{algorithm}");
        }
    }

    #[test]
    fn the_rows_in_the_header_are_the_rfcs() {
        let text = include_str!("bpf/highspeed.h");
        let rows: Vec<(u32, u32)> = text
            .lines()
            .filter_map(|line| {
                line.trim().strip_prefix("{ ")?.strip_suffix(" },")?.split_once(", ")
            })
            .map(|(window, decrease)| {
                (window.parse().expect("a window"), decrease.parse().expect("256 b"))
            })
            .collect();
        let expected: Vec<(u32, u32)> =
            table().iter().map(|row| (row.window, (row.decrease * 256.0).round() as u32)).collect();
        assert_eq!(rows, expected);
        assert!(text.contains(&format!("#define ROWS {}\n", expected.len())));
    }
}
