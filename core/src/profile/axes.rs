//! The axes of a profile over TCP, from which its cells, its refusals and its outline follow.

use super::cell::{Cell, TrafficDirection};
use super::driver::ProfileDriver;
use super::grid::Grid;
use super::hypothesis::Hypothesis;
use super::repetition::Repetition;
use super::staging::{Order, Staged, StagingStore};
use crate::experiment::{ChartAxis, Experiment, GridAxis, Outline};
use crate::units::{Bytes, Error, Rate};
use std::borrow::Cow;

type Axis = GridAxis<Cell>;

/// The axis of streams, as a chart has it.
pub(super) const STREAMS: &str = "Streams";

/// An axis as a chart has it, with even steps.
pub(super) fn along(
    name: &'static str,
    unit: &'static str,
    at: fn(&Cell) -> f64,
    words: fn(&Cell) -> String,
) -> ChartAxis<Cell> {
    ChartAxis { name, unit, is_log: false, at, words }
}

fn or_none(bytes: Option<Bytes>, what: &str) -> String {
    bytes.map_or_else(|| format!("the kernel's {what}"), |bytes| format!("{what} {bytes}"))
}

fn mib(bytes: Option<Bytes>) -> f64 {
    bytes.map_or(f64::NAN, |bytes| bytes.0 as f64 / 1_048_576.0)
}

/// Of no loss there is no power of ten.
fn loss_in_words(cell: &Cell) -> String {
    if cell.loss == 0.0 { "loss 0".to_owned() } else { format!("loss {:e}", cell.loss) }
}

fn message(cell: &Cell) -> Bytes {
    cell.message_bytes.unwrap_or(Grid::USUAL_MESSAGE)
}

impl Experiment for Grid {
    type Cell = Cell;
    type Run = Repetition;

    fn first(&self) -> Option<Cell> {
        let congestion = *self.congestion.first()?;
        let staged = match &self.copies {
            None => None,
            Some(copies) => Some(Staged {
                staging_bytes: *copies.staging_bytes.first()?,
                store: *copies.stores.first()?,
                order: *copies.orders.first()?,
                driver: *copies.drivers.first()?,
            }),
        };
        Some(Cell {
            path: self.paths.first()?.clone(),
            congestion,
            set: self.set_of(congestion),
            streams: 1,
            window_bytes: None,
            buffer_bytes: None,
            message_bytes: None,
            mtu: Grid::USUAL_MTU,
            cross_bps: Rate::default(),
            loss: 0.0,
            direction: TrafficDirection::Out,
            staged,
            hypothesis: None,
        })
    }

    fn axes(&self) -> Vec<Axis> {
        let size = |size: &Option<Bytes>| size.map_or("any".to_owned(), |size| size.to_string());
        let sets: Vec<_> = self.congestion.iter().map(|one| (*one, self.set_of(*one))).collect();
        let is_range = self.streams.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let range = match self.streams[..] {
            [first, .., last] if is_range => Some(format!("{first} to {last} streams")),
            _ => None,
        };
        let mut axes = vec![
            Axis::paths(&self.paths, |cell, path| cell.path = path),
            Axis::new(
                "congestion controls",
                &sets,
                |(one, _)| one.to_string(),
                |cell, one| {
                    (cell.congestion, cell.set) = *one;
                },
            ),
            Axis::new("MTUs", &self.mtus, u32::to_string, |cell, mtu| cell.mtu = *mtu)
                .unit(" bytes of MTU")
                .shown(3)
                .chart(along(
                    "MTU",
                    "B",
                    |cell| cell.mtu.into(),
                    |cell| format!("MTU {}", cell.mtu),
                )),
            Axis::new("windows", &self.windows_bytes, size, |cell, one| cell.window_bytes = *one)
                .unit(" of window")
                .shown(2)
                .chart(along(
                    "Largest window",
                    "MiB",
                    |cell| mib(cell.window_bytes),
                    |cell| or_none(cell.window_bytes, "window"),
                )),
            Axis::new("buffers", &self.buffers_bytes, size, |cell, one| cell.buffer_bytes = *one)
                .unit(" of send buffer")
                .shown(2)
                .chart(along(
                    "Send buffer",
                    "MiB",
                    |cell| mib(cell.buffer_bytes),
                    |cell| or_none(cell.buffer_bytes, "buffer"),
                )),
            Axis::new("messages", &self.messages_bytes, size, |cell, one| {
                cell.message_bytes = *one;
            })
            .unit(" a message")
            .shown(2)
            .chart(ChartAxis {
                is_log: true,
                ..along(
                    "Message size",
                    "KiB",
                    |cell| message(cell).0 as f64 / 1_024.0,
                    |cell| format!("messages of {}", message(cell)),
                )
            }),
            Axis::cross_traffic(&self.cross_bps, |cell, cross| cell.cross_bps = cross)
                .shown(4)
                .chart(along(
                    "Other traffic",
                    "Gbit/s",
                    |cell| cell.cross_bps.as_gbps(),
                    |cell| format!("cross {}", cell.cross_bps),
                )),
            Axis::new("losses", &self.losses, f64::to_string, |cell, loss| cell.loss = *loss)
                .unit(" of loss")
                .shown(4)
                .chart(along("Loss", "", |cell| cell.loss, loss_in_words)),
            Axis::new("streams", &self.streams, u32::to_string, |cell, one| cell.streams = *one)
                .unit(" streams")
                .short(range)
                .shown(1)
                .chart(along(STREAMS, "", |cell| cell.streams.into(), Cell::streams_in_words)),
            Axis::named("directions", &self.directions, TrafficDirection::name, |cell, one| {
                cell.direction = one
            })
            .shown(4),
        ];
        let Some(copies) = &self.copies else { return axes };
        fn put(cell: &mut Cell, of: impl FnMut(&mut Staged)) {
            cell.staged.iter_mut().for_each(of);
        }
        axes.extend([
            Axis::named("stores", &copies.stores, StagingStore::name, |cell, one| {
                put(cell, |staged| staged.store = one)
            })
            .shown(6),
            Axis::named("orders", &copies.orders, Order::name, |cell, one| {
                put(cell, |staged| staged.order = one)
            })
            .shown(6),
            Axis::named("drivers", &copies.drivers, ProfileDriver::name, |cell, one| {
                put(cell, |staged| staged.driver = one)
            })
            .shown(6),
            Axis::new("staging", &copies.staging_bytes, Bytes::to_string, |cell, bytes| {
                put(cell, |staged| staged.staging_bytes = *bytes);
            })
            .unit(" of staging")
            .shown(5)
            .chart(along(
                "Staging",
                "MiB",
                |cell| mib(cell.staged.map(|one| one.staging_bytes)),
                |cell| {
                    let pool = |staged: Staged| format!("staging {}", staged.staging_bytes);
                    cell.staged.map(pool).unwrap_or_default()
                },
            )),
        ]);
        axes
    }

    /// A hypothesis may ask for another length.
    fn under(&self, cell: &Cell) -> Cow<'_, Grid> {
        let of = |one: &&Hypothesis| Some(&one.name) == cell.hypothesis.as_ref();
        match self.hypotheses.iter().find(of).and_then(|one| one.seconds) {
            Some(seconds) => {
                let warm_up_s = self.warm_up_s.min(seconds / 2.0);
                Cow::Owned(Grid { seconds, warm_up_s, ..self.clone() })
            }
            None => Cow::Borrowed(self),
        }
    }

    fn longest_run_s(&self) -> f64 {
        self.seconds
    }

    fn found(&self, run: &Repetition) -> String {
        let full = run.whole.receiver_bps.as_bps() as f64 * f64::from(self.scale);
        let scaled = if self.scale > 1 { " at the full rate" } else { "" };
        format!("{}{scaled}", Rate::from_bps(full as u64))
    }

    fn cell_name(cell: &Cell) -> String {
        cell.name()
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    /// In the order of the axes; those of hypotheses after them. A driver that has a control of its
    /// own is measured with it once, whatever the others are.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = self.combinations();
        let first = |driver: ProfileDriver| {
            let mut all = self.congestion.iter().copied();
            all.find(|&control| driver.own_control(control))
        };
        cells.retain(|cell| {
            cell.control().is_some() || first(cell.driver()) == Some(cell.congestion)
        });
        let tested: Vec<Cell> = self.hypotheses.iter().flat_map(|one| one.cells(&cells)).collect();
        cells.extend(tested);
        cells
    }

    fn check(&self) -> Result<(), Error> {
        self.check_values()
    }
}

impl Grid {
    /// Cells, repetitions, time and axes, such as `10 cells, 3 to 10 times 20 s, at most 33 min:
    /// bic, htcp; 1 to 5 streams`.
    pub fn outline(&self) -> String {
        let cells = self.cells();
        let hypotheses = cells.iter().filter(|cell| cell.hypothesis.is_some()).count();
        let mut outline = Outline::new(cells.len() - hypotheses, &self.axes());
        if hypotheses > 0 {
            outline =
                outline.say(format!(" and {hypotheses} for {} hypotheses", self.hypotheses.len()));
        }
        let times = Outline::times(self.repetitions.least, self.repetitions.most);
        let longest = Outline::at_most(self.longest().as_secs_f64());
        outline = outline.say(format!(", {times} {} s, {longest}", self.seconds));
        if let Some(disturbance) = &self.disturbance {
            outline = outline.varied(format!("a disturbance after {}", disturbance.at_ns));
        }
        outline.line()
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Form, preset};

    #[test]
    fn an_outline_has_the_cells_the_time_and_what_varies() {
        let of = |name, form| preset(name, form).expect("a preset").outline();
        assert_eq!(
            of("sc08-distance", Form::Quick),
            "40 cells and 24 for 6 hypotheses, once 15 s, at most 17 min: usn-0.2, usn-1400, \
             usn-6600, usn-8600; bic, htcp; 1, 5, 10, 15, 20 streams"
        );
        assert!(of("sc08-distance", Form::Full).ends_with("; bic, htcp; 1 to 20 streams"));
        assert!(
            of("wanphy-stability", Form::Full).starts_with("1 cell, 15 times 3600 s, at most 15 h")
        );
        assert!(
            of("adts-staging", Form::Quick)
                .contains("; 16 MiB, 32 MiB, 64 MiB, 128 MiB of staging; memory, file; ")
        );
    }
}
