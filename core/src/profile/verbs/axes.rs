//! The axes of a profile of RDMA, from which its cells, its refusals and its outline follow.

use super::document::{VerbsProfile, VerbsRun};
use super::grid::{QpService, Setup, VerbsCell, VerbsGrid, VerbsMetric};
use super::signal::Signal;
use crate::experiment::{Document, Experiment, GridAxis, Outline};
use crate::units::{Bytes, Rate};

type Axis = GridAxis<VerbsCell>;

impl Experiment for VerbsGrid {
    type Cell = VerbsCell;
    type Run = VerbsRun;

    fn first(&self) -> Option<VerbsCell> {
        Some(VerbsCell {
            path: self.paths.first()?.clone(),
            signal: Signal::default(),
            transport: QpService::default(),
            way: VerbsMetric::default(),
            setup: Setup::default(),
            size_bytes: Bytes(1),
            queue_pairs: 1,
            credits_bytes: None,
            cross_bps: Rate::default(),
            queue_bytes: None,
        })
    }

    fn axes(&self) -> Vec<Axis> {
        let or = |none: &'static str| {
            move |size: &Option<Bytes>| size.map_or(none.to_owned(), |size| size.to_string())
        };
        let sizes = match self.sizes_bytes[..] {
            [first, _, _, _, .., last] => Some(format!("{first} to {last}")),
            _ => None,
        };
        vec![
            Axis::paths(&self.paths, |cell, path| cell.path = path),
            Axis::named("ports", &self.signals, Signal::name, |cell, one| cell.signal = one),
            Axis::named("transports", &self.transports, QpService::name, |cell, one| {
                cell.transport = one
            }),
            Axis::named("ways", &self.ways, VerbsMetric::name, |cell, one| cell.way = one),
            Axis::named("setups", &self.setups, Setup::name, |cell, one| cell.setup = one),
            Axis::new("queue pairs", &self.queue_pairs, u64::to_string, |cell, pairs| {
                cell.queue_pairs = *pairs;
            })
            .unit(" queue pairs"),
            Axis::new("credits", &self.credits_bytes, or("an extender's"), |cell, credits| {
                cell.credits_bytes = *credits;
            })
            .unit(" of credits"),
            Axis::cross_traffic(&self.cross_bps, |cell, cross| cell.cross_bps = cross),
            Axis::new("queues", &self.queues_bytes, or("the path's"), |cell, queue| {
                cell.queue_bytes = *queue;
            })
            .unit(" of queue"),
            Axis::new("message sizes", &self.sizes_bytes, Bytes::to_string, |cell, size| {
                cell.size_bytes = *size;
            })
            .short(sizes),
        ]
    }

    fn longest_run_s(&self) -> f64 {
        self.measured.as_ref().map_or(0.0, |measured| measured.most_s)
    }

    fn found(&self, run: &VerbsRun) -> String {
        run.round_trip_ns
            .map_or_else(|| run.throughput_bps.to_string(), |round_trip| round_trip.to_string())
    }

    fn cell_name(cell: &VerbsCell) -> String {
        cell.name()
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    /// In the order of the axes; a datagram is at most one packet, so larger ones have no cell.
    fn cells(&self) -> Vec<VerbsCell> {
        let mut cells = self.combinations();
        // Nor is there more than one way to tell each other where datagrams go.
        let setup = self.setups.first();
        let fits =
            |cell: &VerbsCell| cell.size_bytes <= self.mtu_bytes && setup == Some(&cell.setup);
        cells.retain(|cell| cell.transport != QpService::Ud || fits(cell));
        cells
    }
}

impl VerbsGrid {
    /// Such as `40 cells modelled, 24 measured 3 times, at most 12 min: usn-0.2, usn-1400; RC, UD;
    /// 64 B, 2 KiB`. A grid that is modelled only says nothing of measuring.
    pub fn outline(&self) -> String {
        let mut outline = Outline::new(self.cells().len(), &self.axes()).say(" modelled");
        if self.repetitions > 1 {
            outline = outline.say(format!(" {} times", self.repetitions));
        }
        if let Some(measured) = &self.measured {
            let (_, cells) = VerbsProfile::new(self.clone(), "").progress();
            let times = Outline::times(measured.repetitions, measured.repetitions);
            let seconds = cells as f64 * f64::from(measured.repetitions) * measured.most_s;
            let longest = Outline::at_most(seconds);
            outline = outline.say(format!(", {cells} measured {times}, {longest}"));
        }
        outline.line()
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::{measured, preset, presets};
    use super::*;
    use crate::experiment::Form;

    #[test]
    fn an_outline_has_the_cells_the_time_and_what_varies() {
        let of = |name, form| {
            measured(preset(name, form).expect("its paths are known").expect("a preset")).outline()
        };
        assert_eq!(
            of("icpp08-verbs", Form::Quick),
            "210 cells modelled, 105 measured 3 times, at most 52 min: longbow:0us, longbow:10us, \
             longbow:100us, longbow:1ms, \
             longbow:10ms; RC, UD; one way, both ways, round trip; 1 B to 8 MiB"
        );
        assert!(
            of("sc08-cm", Form::Quick).contains("; rdma_cm, exchanged"),
            "{}",
            of("sc08-cm", Form::Quick)
        );
        for (name, _) in presets() {
            let (quick, full) = (of(name, Form::Quick), of(name, Form::Full));
            assert!(
                quick != full && quick.contains(" measured ") && full.contains(" at most "),
                "{name}: {quick}, {full}"
            );
        }
        let alone =
            preset("icpp08-verbs", Form::Quick).expect("known").expect("a preset").outline();
        assert!(!alone.contains("measured"), "{alone}");
    }

    #[test]
    fn a_grid_of_messages_names_the_axis_that_cannot_be() {
        let grid = preset("sc08-ib-distance", Form::Quick).expect("known").expect("a preset");
        assert!(grid.check().is_ok());
        let twice = VerbsGrid { sizes_bytes: vec![Bytes(64); 2], ..grid.clone() };
        let empty = VerbsGrid { transports: Vec::new(), ..grid };
        let words = |grid: VerbsGrid| grid.check().expect_err("no such grid").message;
        assert!(words(twice).contains("message sizes has a value twice"));
        assert!(words(empty).contains("transports is empty"));
    }
}
