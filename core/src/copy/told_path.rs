//! What a node knows of the path to a client, as it tells that client alone: `OPTS FARLINE
//! path=ask;` (`docs/protocol.md`, M-6).

use crate::congestion::SavedPath;
use crate::units::{Bytes, Rate, Span};

/// The fastest Ethernet there is (IEEE 802.3df): no path has more.
const FASTEST: Rate = Rate::from_bps(800_000_000_000);
/// The longest round trip of a path: to beyond the Moon and back.
const LONGEST_RTT: Span = Span::from_secs(10);
/// What was on its way is the product of rate and round trip, but for rounding.
const ROUNDING: f64 = 1.01;

/// What the last transfer one way saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenPath {
    /// The highest rate of a round trip and more, of payload.
    pub rate: Rate,
    /// What it had on its way then, and the least round trip.
    pub saved: SavedPath,
    /// How long ago.
    pub age: Span,
    /// The part of its packets that was sent again, where the sender said it.
    pub lost: Option<f64>,
}

/// Both ways, seen from the client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodePaths {
    /// From the client to the node.
    pub out: Option<SeenPath>,
    /// From the node to the client.
    pub back: Option<SeenPath>,
}

impl SeenPath {
    /// Whether a transfer can have seen this: a rate and a round trip that paths have, and on its
    /// way no more than their product.
    pub fn is_sound(&self) -> bool {
        let SeenPath { rate, saved: SavedPath { in_flight, rtt, .. }, lost, .. } = *self;
        let most = rate.bytes_in(rtt).0 as f64 * ROUNDING + 1.0;
        rate > Rate::default()
            && rate <= FASTEST
            && rtt > Span::ZERO
            && rtt <= LONGEST_RTT
            && in_flight > Bytes(0)
            && in_flight.0 as f64 <= most
            && lost.is_none_or(|lost| (0.0..=1.0).contains(&lost))
    }

    /// The same of an end that sends no faster than `most`.
    #[must_use]
    pub fn within(mut self, most: Rate) -> SeenPath {
        self.rate = self.rate.min(most);
        self.saved.in_flight = self.saved.in_flight.min(self.rate.bytes_in(self.saved.rtt));
        self
    }

    fn value(&self) -> String {
        let SeenPath { rate, saved, age, lost } = self;
        let age = age.as_nanos() / 1_000_000_000;
        let mut value =
            format!("{},{},{},{age}", rate.as_bps(), saved.rtt.as_nanos(), saved.in_flight.0);
        if let Some(lost) = lost {
            value.push_str(&format!(",{:.0}", lost * 1e6));
        }
        if saved.fills {
            value.push_str(if lost.is_some() { ",1" } else { ",,1" });
        }
        value
    }

    fn parse(value: &str) -> Option<SeenPath> {
        let mut figures = value.split(',').map(|figure| figure.parse::<u64>().ok());
        let mut next = || figures.next().flatten();
        let (rate, rtt, held, age) = (next()?, next()?, next()?, next()?);
        let lost = next().map(|millionths| millionths as f64 / 1e6);
        let fills = next() == Some(1);
        let seen = SeenPath {
            rate: Rate::from_bps(rate),
            saved: SavedPath { in_flight: Bytes(held), rtt: Span::from_nanos(rtt), fills },
            age: Span::from_nanos(age.saturating_mul(1_000_000_000)),
            lost,
        };
        seen.is_sound().then_some(seen)
    }
}

impl NodePaths {
    /// What the reply says: `out:BITS,NANOSECONDS,BYTES,SECONDS,MILLIONTHS,FILLED back:...`, or
    /// `none`.
    pub fn value(&self) -> String {
        let ways = [("out", self.out), ("back", self.back)];
        let said: Vec<String> = ways
            .iter()
            .filter_map(|(way, seen)| seen.map(|seen| format!("{way}:{}", seen.value())))
            .collect();
        if said.is_empty() { "none".to_owned() } else { said.join(" ") }
    }

    /// Reads the reply; of what makes no sense nothing is known.
    pub fn parse(value: &str) -> NodePaths {
        let mut paths = NodePaths::default();
        for part in value.split_whitespace() {
            match part.split_once(':') {
                Some(("out", seen)) => paths.out = SeenPath::parse(seen),
                Some(("back", seen)) => paths.back = SeenPath::parse(seen),
                // What a later version says besides.
                _ => {}
            }
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_tells_is_read_back_and_nonsense_is_nothing() {
        let seen = |lost, fills| SeenPath {
            rate: Rate::from_bps(4_000_000_000),
            saved: SavedPath { in_flight: Bytes(81_500_000), rtt: Span::from_millis(163), fills },
            age: Span::from_secs(90),
            lost,
        };
        for lost in [None, Some(0.001)] {
            let full = NodePaths { out: Some(seen(lost, true)), back: None };
            assert_eq!(NodePaths::parse(&full.value()), full, "{}", full.value());
        }
        let both = NodePaths { out: Some(seen(None, false)), back: Some(seen(Some(0.001), false)) };
        assert_eq!(
            both.value(),
            "out:4000000000,163000000,81500000,90 back:4000000000,163000000,81500000,90,1000"
        );
        assert_eq!(NodePaths::parse(&both.value()), both);
        assert_eq!(NodePaths::default().value(), "none");
        for nothing in [
            "none",
            "",
            "out",
            "out:",
            "out:1,2,3",
            "out:0,1000000,1,1",
            "out:x,1000000,1,1",
            "up:1000000,1000000,1,1",
            // More on its way than such a rate brings, a rate that no link has, no round trip, a
            // long one, and more lost than was sent.
            "out:10000000,100000000,99999999999999,1",
            "out:10000000000000,100000000,125000000000,1",
            "out:10000000,0,1,1",
            "out:10000000,11000000000,1,1",
            "out:10000000,100000000,125000,1,1000001",
        ] {
            assert_eq!(NodePaths::parse(nothing), NodePaths::default(), "{nothing}");
        }
        let later = NodePaths::parse(&format!("best:4 {} more", both.value()));
        assert_eq!(later, both, "what a later version says besides is skipped");
    }

    #[test]
    fn an_end_begins_by_no_more_than_its_interface_sends() {
        let told = NodePaths::parse("out:100000000000,100000000,1250000000,1").out.expect("sound");
        let within = told.within(Rate::from_bps(1_000_000_000));
        assert_eq!(within.rate, Rate::from_bps(1_000_000_000));
        assert_eq!(within.saved.in_flight, Bytes(12_500_000));
        assert_eq!(within.within(Rate::from_bps(400_000_000_000)), within);
    }
}
