//! The papers' experiments over verbs as grids, each in a quick form and a full one: what
//! `presets/rdma.toml` has.

use super::grid::{Measured, Model, VerbsGrid};
use crate::experiment::{Form, PresetFile};
use crate::units::{Bytes, Error};
use serde::Deserialize;
use std::sync::LazyLock;

/// The presets' file.
const TOML: &str = include_str!("../presets/rdma.toml");

/// It is read by the tests, so that it can be.
pub(super) static FILE: LazyLock<PresetFile> =
    LazyLock::new(|| PresetFile::read(TOML).unwrap_or_default());

/// By what cross-traffic, its link and SC08's hosts are divided to be measured: 18.7 Mbit/s of
/// payload over 163 ms are 381 kB on their way, and one queue pair of soft-RoCE has 128 packets of
/// 4 KiB at most.
const DIVIDED_BY: u64 = 400;

/// What the quick form of a preset measures of its sizes.
#[derive(Deserialize)]
struct QuickSizes {
    preset: String,
    sizes_bytes: Vec<Bytes>,
}

/// Name and what it is, in the order of the papers.
pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILE.names()
}

/// The grid of the preset called `name`; `None` when there is none.
///
/// # Errors
/// As [`PathPoint::named`](crate::plan::PathPoint::named).
pub fn preset(name: &str, form: Form) -> Result<Option<VerbsGrid>, Error> {
    FILE.grid(name, form, &VerbsGrid::new(name, form, Vec::new(), Vec::new())).transpose()
}

/// `grid`, measured too: in the quick form the few cells and the small runs that devices in
/// software carry, in the full form every size of the grid. What divides rates, sizes or counts
/// stands in the document and on the page.
pub fn measured(grid: VerbsGrid) -> VerbsGrid {
    let quick = grid.form == Form::Quick;
    let few: Vec<QuickSizes> = FILE.section("measured").unwrap_or_default();
    let few = few.into_iter().find(|few| quick && few.preset == grid.name);
    let sizes = few.map_or_else(|| grid.sizes_bytes.clone(), |few| few.sizes_bytes);
    let crossed = grid.cross_bps.len() > 1;
    let runs = if crossed && quick {
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
        divided_by: crossed.then_some(DIVIDED_BY),
    };
    VerbsGrid { measured: Some(measured), ..grid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::verbs::published::{FIGURES, sc08_base};

    #[test]
    fn the_file_is_read_with_every_preset_and_figure() {
        let file = PresetFile::read(TOML).expect("a file of presets");
        assert_eq!(file.names().count(), 5);
        assert_eq!((FIGURES.sc08.len(), FIGURES.sc08_cross.len()), (4, 6));
        let few: Vec<QuickSizes> = file.section("measured").expect("what is measured");
        assert!(few.iter().all(|few| file.names().any(|(name, _)| name == few.preset)));
        for (name, _) in file.names() {
            let grid = preset(name, Form::Quick).expect("its keys are known").expect("a preset");
            // SC08's hosts carry what they carried over the base length.
            assert_eq!(grid.host_bps.is_some(), name.starts_with("sc08"), "{name}");
            assert!(grid.host_bps.is_none_or(|host| host == sc08_base()), "{name}");
        }
    }
}
