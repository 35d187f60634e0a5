//! What a page says of the measured half of a profile of RDMA: between which devices, how it was
//! scaled, and which runs prove nothing.

use super::between::Device;
use super::document::VerbsProfile;
use super::grid::{QpService, VerbsMetric};
use crate::report::{Card, Section, Table};

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
             counts for {} s at most; the model sends {} \
             of every size.",
            measured.most_bytes, measured.messages, measured.most_s, self.grid.messages
        );
        if let Some(by) = measured.divided_by {
            scaled.push_str(&format!(
                " Link, host, other traffic, queue and messages were divided by {by}, and what \
                 was measured is multiplied by {by} again. \
                 Round-trip times are as they are."
            ));
        }
        if between.near.software || between.far.software {
            scaled.push_str(
                " Devices in software say how throughput changes along an axis; their rates are \
                 no card's: a connection of soft-RoCE has at \
                 most 64 packets on a wire of netem's.",
            );
            if measured.divided_by.is_some() {
                scaled.push_str(
                    " Its own interface tells it that the queue is full, and it waits, as a port \
                     that is paused would: nothing of it is \
                     lost, and the other traffic is what the queue drops.",
                );
            }
        }
        Some(Section::new("Where it was measured").cards(cards).text(scaled))
    }

    /// Every measured cell with its devices' packets; `None` where nothing was measured.
    pub(super) fn counted(&self) -> Option<Section> {
        self.between.as_ref()?;
        let rows = self.cells.iter().filter(|result| !result.measured.is_empty()).take(ROWS).map(
            |result| {
                let valid = result.measured.iter().filter(|run| run.invalid.is_none());
                let counted = valid
                    .clone()
                    .filter_map(|run| run.packets)
                    .fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
                let messages: u64 = valid.clone().filter_map(|run| run.messages).sum();
                let first = result.measured.iter().find_map(|run| run.invalid.clone());
                let cells = vec![
                    result.cell.name(),
                    valid.count().to_string(),
                    messages.to_string(),
                    counted.0.to_string(),
                    counted.1.to_string(),
                    first.unwrap_or_default(),
                ];
                (cells, false)
            },
        );
        let columns = [
            ("Cell", false),
            ("Valid runs", true),
            ("Messages", true),
            ("Packets, near sent", true),
            ("Packets, far received", true),
            ("First doubt", false),
        ];
        let reliable = self.grid.transports.iter().any(|transport| *transport != QpService::Ud);
        let round_trips = self.grid.ways.contains(&VerbsMetric::RoundTrip);
        let mut section = Section::new("What the devices counted").table(Table {
            columns: columns.map(|(name, right)| (name.to_owned(), right)).to_vec(),
            rows: rows.collect(),
        });
        if reliable {
            section = section.note(
                "Reliable connections count what the far device acknowledged, to the last \
                 acknowledgement, and compare the memory at the far \
                 end with what was sent.",
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
