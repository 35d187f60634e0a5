//! A profile's page: the same cell over each channel driver, side by side, and what a bit costs
//! each of them.

use super::cell::Cell;
use super::document::{CellResult, Profile};
use super::driver::ProfileDriver;
use crate::report::{Section, TableSpec};
use crate::statistics::Summary;

/// Longer tables are not read.
const ROWS: usize = 60;

/// A cell over one driver, next to the same over the first one.
struct Row {
    name: String,
    driver: ProfileDriver,
    summary: Option<Summary>,
    /// What it brought as a part of what the first driver did.
    times: Option<f64>,
    /// Processor seconds for a gigabit, of sender and receiver.
    cost: Option<(f64, f64)>,
}

impl CellResult {
    /// Processor seconds for each gigabit that arrived, of sender and receiver; `None` in a model.
    fn cost(&self) -> Option<(f64, f64)> {
        let each: Vec<(f64, f64)> = self
            .valid()
            .filter_map(|one| {
                let (sender, receiver) = one.cpu?;
                let gbps = one.whole.receiver_bps.as_bps() as f64 / 1e9;
                (gbps > 0.0).then_some((sender / gbps, receiver / gbps))
            })
            .collect();
        let mean =
            |end: fn(&(f64, f64)) -> f64| each.iter().map(end).sum::<f64>() / each.len() as f64;
        (!each.is_empty()).then(|| (mean(|both| both.0), mean(|both| both.1)))
    }
}

impl Profile {
    /// Drivers next to each other; `None` where there is but one.
    pub(super) fn channels(&self) -> Option<Section> {
        let copies = self.grid.copies.as_ref().filter(|copies| copies.drivers.len() > 1)?;
        let mut rows = Vec::new();
        for result in self.plain().filter(|result| result.cell.driver() == copies.drivers[0]) {
            let here = |driver: ProfileDriver| {
                self.plain().find(move |other| is_over(&other.cell, driver, &result.cell))
            };
            let first = result.summary();
            for &driver in &copies.drivers {
                // What has a control of its own was measured once for all.
                let Some(found) = here(driver) else { continue };
                let summary = found.summary();
                let times = summary.zip(first).map(|(one, first)| one.mean / first.mean.max(1.0));
                let cell = Cell { staged: None, ..result.cell.clone() };
                rows.push(Row { name: cell.name(), driver, summary, times, cost: found.cost() });
            }
        }
        let more = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        let has_cost = rows.iter().any(|row| row.cost.is_some());
        let first = copies.drivers[0].title();
        let (unit, unit_name) = self.rate_unit();
        let spec = TableSpec::new()
            .words("Cell", |row: &Row| row.name.clone())
            .words("Channel", |row| row.driver.title().to_owned())
            .figures(unit_name, move |row| {
                row.summary.map_or_else(
                    || "none valid".to_owned(),
                    |one| {
                        let gbps = |bps: f64| format!("{:.3}", bps / unit);
                        let off =
                            one.ci95.map(|(low, high)| format!(" ± {}", gbps((high - low) / 2.0)));
                        gbps(one.mean) + &off.unwrap_or_default()
                    },
                )
            })
            .figures(format!("Times {first}"), |row| {
                row.times.map_or_else(String::new, |times| format!("{times:.2}"))
            })
            .when(has_cost, |spec| {
                spec.figures("Processor seconds a gigabit", |row: &Row| {
                    row.cost.map_or_else(String::new, |(sender, receiver)| {
                        format!("{sender:.3}, {receiver:.3}")
                    })
                })
            });
        let section = Section::new("Channels side by side").text(format!(
            "The same copies over each channel driver, {}. UDT sends with a congestion control of \
             its own, or with BBR; QUIC with the cell's, in user space; TLS and QUIC encrypt.",
            self.label()
        ));
        let section = section.table(spec.of(rows));
        let section = if has_cost {
            section.note("Processor seconds: of sender and receiver, all their threads.")
        } else {
            section
        };
        Some(if more > 0 { section.note(format!("And {more} rows more.")) } else { section })
    }
}

/// Whether `cell` is `like` over `driver`.
fn is_over(cell: &Cell, driver: ProfileDriver, like: &Cell) -> bool {
    let mut as_like = cell.clone();
    if cell.control().is_none() {
        (as_like.congestion, as_like.set) = (like.congestion, like.set);
    }
    let over = as_like.staged.as_mut().zip(like.staged).map(|(staged, like)| {
        staged.driver = like.driver;
    });
    over.is_some() && cell.driver() == driver && as_like == *like
}
