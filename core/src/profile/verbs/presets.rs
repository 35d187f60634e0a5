//! The papers' experiments over verbs as grids, each in a quick form and a full one.

use super::grid::{Model, QpService, Setup, VerbsGrid, VerbsMetric};
use super::measured::Measured;
use super::published::SC08_BASE;
use super::signal::Signal;
use crate::profile::cell::PathPoint;
use crate::profile::grid::Form;
use crate::units::{Bytes, Error, Rate, Span};
use crate::wan::NATIVE_CREDITS;

/// Name and what it is, in the order of the papers.
pub const PRESETS: [(&str, &str); 5] = [
    (
        "sc08-ib-distance",
        "SC08, figures 7 and 8: RDMA by message size over the four USN paths, by port and with \
         native credits",
    ),
    ("sc08-ib-stability", "SC08, figure 7: ten repetitions of 8 MiB messages"),
    (
        "sc08-ib-cross-traffic",
        "SC08, figure 9: RDMA by message size against other traffic of 0 to 4 Gbit/s",
    ),
    (
        "sc08-cm",
        "SC08, figure 6: connections made by rdma_cm and by parameters exchanged over a socket",
    ),
    (
        "icpp08-verbs",
        "ICPP08, figure 2: RC and UD by message size and delays up to 10 ms; both ways; \
         round-trip time",
    ),
];

/// SC08's lengths by name, the base length first.
pub(super) const SC08_PATHS: [&str; 4] = ["usn-0.2", "usn-1400", "usn-6600", "usn-8600"];

/// The standard deviation of USN's round-trip time over SONET: 0.187 % of 26.8 ms (USN slides), and
/// about the same over other lengths.
const USN_JITTER: Span = Span::from_micros(50);

/// A switch port's queue that does not hold what extenders promise each other. No paper prints that
/// of USN's Force10 E300.
const SHALLOW: Bytes = Bytes::mib(4);

/// By what cross-traffic, its link and SC08's hosts are divided to be measured: 18.7 Mbit/s of
/// payload over 163 ms are 381 kB on their way, and one queue pair of soft-RoCE has 128 packets of
/// 4 KiB at most.
const DIVIDED_BY: u64 = 400;

/// The powers of two of the quick form's message sizes: the full packet of 2 KiB and SC08's 8 MiB
/// among them.
const QUICK_POWERS: [u32; 10] = [0, 5, 9, 11, 14, 16, 18, 20, 22, 23];

/// The grid of the preset called `name`; `None` when there is none.
///
/// # Errors
/// As [`PathPoint::named`].
pub fn preset(name: &str, form: Form) -> Result<Option<VerbsGrid>, Error> {
    let quick = form == Form::Quick;
    let named = |names: &[&str]| {
        names.iter().map(|name| PathPoint::named(name, None)).collect::<Result<Vec<_>, _>>()
    };
    let usn = || named(&SC08_PATHS);
    let powers: Vec<u32> = if quick { QUICK_POWERS.to_vec() } else { (0..=23).collect() };
    let sizes: Vec<Bytes> = powers.into_iter().map(|power| Bytes(1 << power)).collect();
    let large = || vec![Bytes::mib(8)];
    let of = |paths, sizes| VerbsGrid::new(name, form, paths, sizes);
    let sc08 = |paths, sizes| VerbsGrid { host_bps: Some(SC08_BASE), ..of(paths, sizes) };
    Ok(Some(match name {
        "sc08-ib-distance" => VerbsGrid {
            signals: Signal::ALL.to_vec(),
            credits_bytes: vec![None, Some(NATIVE_CREDITS)],
            queue_pairs: if quick { vec![1] } else { vec![1, 4] },
            ..sc08(usn()?, sizes)
        },
        "sc08-ib-stability" => {
            VerbsGrid { repetitions: 10, jitter_ns: USN_JITTER, ..sc08(usn()?, large()) }
        }
        "sc08-ib-cross-traffic" => cross_traffic(
            name,
            form,
            if quick { named(&["usn-1400", "usn-6600", "usn-8600"])? } else { usn()? },
            sizes,
        ),
        "sc08-cm" => VerbsGrid {
            model: Model::Packets,
            setups: vec![Setup::Cm, Setup::Exchange],
            repetitions: 10,
            messages: if quick { 200 } else { 1_000 },
            jitter_ns: USN_JITTER,
            ..sc08(usn()?, large())
        },
        "icpp08-verbs" => VerbsGrid {
            transports: vec![QpService::Rc, QpService::Ud],
            ways: vec![VerbsMetric::OneWay, VerbsMetric::BothWays, VerbsMetric::RoundTrip],
            queue_pairs: if quick { vec![1] } else { vec![1, 4] },
            ..of(
                named(&[
                    "longbow:0us",
                    "longbow:10us",
                    "longbow:100us",
                    "longbow:1ms",
                    "longbow:10ms",
                ])?,
                sizes,
            )
        },
        _ => return Ok(None),
    }))
}

/// RDMA over `paths` beside other traffic, with each depth of the queue that both share.
pub(super) fn cross_traffic(
    name: &str,
    form: Form,
    paths: Vec<PathPoint>,
    sizes: Vec<Bytes>,
) -> VerbsGrid {
    let quick = form == Form::Quick;
    VerbsGrid {
        model: Model::Packets,
        host_bps: Some(SC08_BASE),
        cross_bps: (0..=4).map(|gbit| Rate::from_bps(gbit * 1_000_000_000)).collect(),
        queues_bytes: vec![None, Some(SHALLOW)],
        repetitions: if quick { 1 } else { 3 },
        most_s: if quick { 10.0 } else { 60.0 },
        ..VerbsGrid::new(name, form, paths, sizes)
    }
}

/// `grid`, measured too: in the quick form the few cells and the small runs that devices in
/// software carry, in the full form every size of the grid. What divides rates, sizes or counts
/// stands in the document and on the page.
pub fn measured(grid: VerbsGrid) -> VerbsGrid {
    let quick = grid.form == Form::Quick;
    let of_powers =
        |powers: &[u32]| powers.iter().map(|power| Bytes(1 << power)).collect::<Vec<_>>();
    let sizes = match grid.name.as_str() {
        _ if !quick => grid.sizes_bytes.clone(),
        "sc08-ib-distance" => of_powers(&[0, 9, 11, 14, 18, 23]),
        "sc08-ib-cross-traffic" => of_powers(&[20, 23]),
        "icpp08-verbs" => of_powers(&[5, 11, 14, 18, 22]),
        _ => grid.sizes_bytes.clone(),
    };
    let beside = grid.cross_bps.len() > 1;
    let runs = if beside && quick {
        1
    } else if quick {
        3
    } else {
        10
    };
    let measured = Measured {
        sizes_bytes: sizes,
        messages: grid.messages,
        most_bytes: if quick { Bytes::mib(16) } else { Bytes::mib(1_024) },
        most_s: if quick { 10.0 } else { 60.0 },
        // Ten are what the stability is of.
        repetitions: if grid.repetitions > 1 && grid.model == Model::ClosedForm {
            grid.repetitions
        } else {
            runs
        },
        divided_by: beside.then_some(DIVIDED_BY),
    };
    VerbsGrid { measured: Some(measured), ..grid }
}
