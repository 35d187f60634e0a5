//! What a page says of the measured half of a profile of RDMA: between which devices, how it was
//! scaled, and which runs prove nothing.

use super::between::Device;
use super::document::{VerbsCellResult, VerbsProfile, VerbsRun};
use super::grid::{QpService, VerbsMetric};
use crate::experiment::with_changes;
use crate::report::{Card, Section, TableSpec};

/// Longer tables are not read; the document has the rest.
const ROWS: usize = 120;

impl VerbsProfile {
    /// Devices and scale; `None` where nothing was measured.
    pub(super) fn where_measured(&self) -> Option<Section> {
        let (between, measured) = (self.between.as_ref()?, self.grid.measured.as_ref()?);
        let name = |device: &Device| {
            let kind = if device.software { "in software" } else { "a card" };
            format!("{} ({kind}), {}", device.name, device.address)
        };
        let invalid = self
            .cells
            .iter()
            .flat_map(|result| &result.measured)
            .filter(|run| run.invalid.is_some())
            .count();
        let runs: usize = self.cells.iter().map(|result| result.measured.len()).sum();
        let cards = vec![
            Card::new("Near", name(&between.near)),
            Card::new("Far", name(&between.far)),
            Card::new("Kernel", between.kernel.as_deref().unwrap_or("unknown")),
            Card::new("Runs", runs),
            Card::new("Invalid", invalid),
        ];
        let mut scaled = format!(
            "A measured run sends as many messages as {} have, at least 4 and at most {}, and \
             counts for {} s at most; the model sends {} of every size.",
            measured.most_bytes, measured.messages, measured.most_s, self.grid.messages
        );
        if let Some(by) = measured.divided_by {
            scaled.push_str(&format!(
                " Link, host, other traffic, queue and messages were divided by {by}, and what was \
                 measured is multiplied by {by} again. Round-trip times are as they are."
            ));
        }
        if between.near.software || between.far.software {
            scaled.push_str(
                " Devices in software say how throughput changes along an axis; their rates are no \
                 card's: a connection of soft-RoCE has at most 64 packets on a wire of netem's.",
            );
            if measured.divided_by.is_some() {
                scaled.push_str(
                    " Its own interface tells it that the queue is full, and it waits, as a port \
                     that is paused would: nothing of it is \
                     lost, and the other traffic is what the queue drops.",
                );
            }
        }
        let section = Section::new("Where it was measured").cards(cards).text(scaled);
        Some(with_changes(section, &self.changes()))
    }

    /// Every measured cell with its devices' packets; `None` where nothing was measured.
    pub(super) fn counted(&self) -> Option<Section> {
        self.between.as_ref()?;
        fn valid(result: &VerbsCellResult) -> impl Iterator<Item = &VerbsRun> {
            result.measured.iter().filter(|run| run.invalid.is_none())
        }
        let packets = |result: &VerbsCellResult, end: fn((u64, u64)) -> u64| {
            valid(result).filter_map(|run| run.packets).map(end).sum::<u64>().to_string()
        };
        let spec = TableSpec::new()
            .words("Cell", |result: &&VerbsCellResult| result.cell.name())
            .figures("Valid runs", |result| valid(result).count().to_string())
            .figures("Messages", |result| {
                valid(result).filter_map(|run| run.messages).sum::<u64>().to_string()
            })
            .figures("Packets, near sent", |result| packets(result, |both| both.0))
            .figures("Packets, far received", |result| packets(result, |both| both.1))
            .words("First doubt", |result| {
                result.measured.iter().find_map(|run| run.invalid.clone()).unwrap_or_default()
            });
        let rows = self.cells.iter().filter(|result| !result.measured.is_empty()).take(ROWS);
        let reliable = self.grid.transports.iter().any(|transport| *transport != QpService::Ud);
        let round_trips = self.grid.ways.contains(&VerbsMetric::RoundTrip);
        let mut section = Section::new("What the devices counted").table(spec.of(rows));
        if reliable {
            section = section.note(
                "Reliable connections count what the far device acknowledged, to the last \
                 acknowledgement, and compare the memory at the far end with what was sent.",
            );
        }
        if self.grid.transports.contains(&QpService::Ud) {
            section = section.note("Datagrams count what arrived, by the receiver's clock.");
        }
        if round_trips {
            section = section.note("A round trip is a SEND and its answer; the median of a run.");
        }
        Some(section)
    }
}
