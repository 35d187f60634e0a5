//! The page of the calendar's demo: booked against delivered, for every channel.

use super::{CalendarDemo, Channel};
use farline_core::report::{Axis, Card, LineChart, Page, Section, Series, Table};
use farline_core::units::{Bytes, Rate, Span};

impl Channel {
    /// What was delivered between two readings, in Gbit/s, by the time of the second.
    fn rates(&self) -> Vec<(f64, f64)> {
        let pairs = self.delivered.windows(2);
        let rate = |pair: &[(f64, u64)]| {
            let (from, to) = (pair[0], pair[1]);
            (to.0, to.1.saturating_sub(from.1) as f64 * 8.0 / (to.0 - from.0).max(0.001) / 1e9)
        };
        let mut rates: Vec<(f64, f64)> = pairs.map(rate).collect();
        // When a circuit is gone nothing is read of it any more: it delivers nothing.
        if let Some((last, _)) = rates.last().copied() {
            rates.push((last + 0.25, 0.0));
        }
        rates
    }

    /// Over the whole seconds that lie within the time in which data came, in bit/s.
    fn mean(&self) -> f64 {
        let rates = self.rates();
        // More than what finding each other takes.
        let flows = |rate: f64| rate * 1e9 > 0.01 * self.booked_bps;
        let first = rates.iter().find(|(_, rate)| flows(*rate)).map_or(0.0, |(at, _)| *at);
        let last = rates.iter().rev().find(|(_, rate)| flows(*rate)).map_or(0.0, |(at, _)| *at);
        let at = |time: f64| self.delivered.iter().rev().find(|(t, _)| *t <= time + 1e-6);
        let (Some(from), Some(to)) = (at(first), at(last - 0.25)) else { return 0.0 };
        to.1.saturating_sub(from.1) as f64 * 8.0 / (to.0 - from.0).max(0.001)
    }

    fn chart(&self) -> LineChart {
        let booked = self.booked_bps / 1e9;
        let [start, end] = self.slot;
        let around = [(start - 1.0).max(0.0), end + 1.0];
        let booked = [
            (around[0], 0.0),
            (start, 0.0),
            (start, booked),
            (end, booked),
            (end, 0.0),
            (around[1], 0.0),
        ];
        LineChart::new(
            format!("{}: booked and delivered, over time", self.id),
            Axis::new("time", "s"),
            Axis::new("rate", "Gbit/s"),
            vec![Series::new("booked", booked), Series::new("delivered", self.rates())],
        )
    }

    fn row(&self) -> (Vec<String>, bool) {
        let bps = |bps: f64| Rate::from_bps(bps as u64).to_string();
        let late = |verb: &str| {
            let late = self.late_ms.iter().find(|(known, _)| known == verb);
            late.map_or_else(String::new, |(_, late)| format!("{late:.1} ms"))
        };
        let delivered = self.delivered.last().map_or(0, |(_, bytes)| *bytes);
        let row = vec![
            format!("{}, {}", self.id, self.what),
            format!("{} to {}", self.from, self.to),
            bps(self.booked_bps),
            bps(self.mean()),
            format!("{:.1} %", 100.0 * self.mean() / self.booked_bps.max(1.0)),
            Bytes(delivered).to_string(),
            self.dropped.to_string(),
            late("open"),
            late("shut"),
        ];
        (row, false)
    }
}

impl CalendarDemo {
    /// Every channel in a row.
    pub(super) fn summary(&self) -> Section {
        let headings = [
            "channel",
            "from and to",
            "booked",
            "delivered",
            "of it",
            "in all",
            "dropped",
            "opened late",
            "shut late",
        ];
        let table = Table {
            columns: Table::headings(headings),
            rows: self.channels.iter().map(Channel::row).collect(),
        };
        Section::new("Booked against delivered").table(table).note(
            "Delivered: IP packets at the far end, over the time in which data flowed. In all: by \
             the last look, a quarter of a second or less before the channel was gone. Late: after \
             the schedule, by the agent's clock.",
        )
    }

    pub(super) fn page(&self) -> Page {
        let seconds = self.copy["seconds"].as_f64().unwrap_or_default();
        let booking = &self.copy["booking"];
        let time = |key: &str| {
            farline::calendar::time_of(booking[key].as_str().unwrap_or_default())
                .unwrap_or_default()
        };
        let took = time("ended").since(time("ready")).as_secs_f64();
        let predicted = time("predicted_end").since(time("ready")).as_secs_f64();
        let cards = vec![
            Card::new("copied", Bytes(self.copy["bytes"].as_u64().unwrap_or_default())),
            Card::new("in", Span::from_secs_f64(seconds)),
            Card::new("predicted", Span::from_secs_f64(predicted)),
            Card::new(
                "error of that",
                format!("{:+.1} %", 100.0 * (predicted / took.max(0.001) - 1.0)),
            ),
            Card::new("every byte compared", if self.identical { "the same" } else { "DIFFERENT" }),
        ];
        let mut refused = Section::new("A fourth channel is refused, with what can be had")
            .commands(self.refused.asked.clone())
            .text(self.refused.why.clone());
        refused = refused.table(Table {
            columns: vec![
                ("alternative".to_owned(), false),
                ("when, what, over what".to_owned(), false),
            ],
            rows: self
                .refused
                .alternatives
                .iter()
                .map(|(kind, what)| (vec![kind.clone(), what.clone()], false))
                .collect(),
        });
        let mut page = Page::new("Bandwidth by appointment: booked and delivered")
            .lead(
                "Three overlapping channels over the UltraScience Net, emulated in this machine: \
                 booked from a calendar, made by its agent, and filled. One of the two lambdas was \
                 closed for maintenance.",
            )
            .section(self.summary())
            .section(Section::new("A gigabyte into its slot").cards(cards).commands(
                "farline cp --reserve start=+9s,by=+1min,rate=1G run7.tar farline://10.88.0.4/",
            ));
        for channel in &self.channels {
            let title =
                format!("{}: {}, {} to {}", channel.id, channel.what, channel.from, channel.to);
            let section = Section::new(title)
                .text(format!("Over {}.", channel.route.join(", ")))
                .chart(channel.chart());
            page = page.section(section);
        }
        let json = serde_json::to_string(self).unwrap_or_default();
        page.section(refused).made_from(json, &self.schema, "", &["make demo-calendar".to_owned()])
    }
}
