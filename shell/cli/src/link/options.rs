//! What a link shall be, as flags; a pair of values `A-TO-B,B-TO-A` sets each direction by itself.

use farline::link::{Settings, VlanPath};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Probability, Rate, Span};
use farline_core::wan::{self, Event, Path};
use std::fmt::Display;
use std::str::FromStr;

pub(super) const EXAMPLES: &str = "\
Example:
  farline link up usn-1400 --name lab --loss 1e-6 --at 10s:outage=2s
  farline link up custom --rate 1G --rtt 50ms --queue 0.5bdp

A value that is a pair, X,Y, is for a-to-b and b-to-a. Events, --at TIME:CHANGE:
  outage=2s  lose=100  rate=1G  cross=4G/10s  burst=64MiB";

/// The flags of `up` and `run`.
#[derive(clap::Args)]
#[command(next_help_heading = "Link")]
pub(super) struct Options {
    /// usn-0.2, usn-1400, usn-6600, usn-8600, geneva-amsterdam, ncar-llnl, ornl-ucdavis,
    /// longbow:DELAY or custom
    path: String,
    /// Of namespaces NAME-a, NAME-b [default: PATH]
    #[arg(long, hide_default_value = true)]
    name: Option<String>,
    /// Rate on the wire [default: PATH's; custom: 10G]
    #[arg(long, value_name = "R[,R]")]
    rate: Option<Pair<Rate>>,
    /// Round-trip time, such as 163ms [default: PATH's]
    #[arg(long, value_name = "T", conflicts_with = "one_way_delay")]
    rtt: Option<Span>,
    /// Each way, such as 80ms,83ms [default: rtt/2]
    #[arg(long, value_name = "T[,T]")]
    one_way_delay: Option<Pair<Span>>,
    /// Probability that a frame is lost [default: 0]
    #[arg(long, value_name = "P[,P]")]
    loss: Option<Pair<Probability>>,
    /// Probability that a bit is wrong and costs its frame [default: 0]
    #[arg(long, value_name = "P[,P]")]
    ber: Option<Pair<Probability>>,
    /// Probability that a frame arrives with a wrong bit and a right checksum [default: 0]
    #[arg(long, value_name = "P[,P]")]
    flips: Option<Pair<Probability>>,
    /// Extra delay, varying from 0 to this [default: 0]
    #[arg(long, value_name = "T[,T]")]
    jitter: Option<Pair<Span>>,
    /// Let jitter put frames out of order
    #[arg(long)]
    reorder: bool,
    /// Queue before the wire: bytes (4MiB) or round trips (2bdp) [default: 1bdp, at least 4MiB]
    #[arg(long, value_name = "Q[,Q]")]
    queue: Option<Pair<Queue>>,
    /// Largest IP packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 9_000)]
    mtu: u32,
    /// Carry whole Ethernet frames, VLANs among them
    #[arg(long)]
    ethernet: bool,
    /// A VLAN as a path of its own [default: none]
    #[arg(long = "vlan", value_name = "ID=R[,T]", requires = "ethernet")]
    vlans: Vec<VlanPath>,
    /// Exact delays, for tests without fast TCP
    #[arg(long)]
    inline_receive: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Event at a time; may be repeated [default: none]
    #[arg(long = "at", value_name = "EVENT")]
    script: Vec<Event>,
}

impl Options {
    /// Whether the name was chosen by the user.
    pub(super) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// The link that the flags describe.
    pub(super) fn settings(&self) -> Result<Settings, Error> {
        let path = Path::named(&self.path)?;
        let delays = self.one_way_delay;
        let rtt = self.rtt.or(delays.map(|Pair(there, back)| there + back));
        let mut wan = path.settings(None, rtt)?;
        if let Some(Pair(there, back)) = delays {
            (wan.a_to_b.one_way_delay, wan.b_to_a.one_way_delay) = (there, back);
        }
        let rtt = wan.rtt();
        let rate = self.rate.unwrap_or(Pair(path.rate, path.rate));
        for (direction, rate) in [(&mut wan.a_to_b, rate.0), (&mut wan.b_to_a, rate.1)] {
            *direction = wan::Direction::new(rate, direction.one_way_delay, rtt);
            direction.reorder = self.reorder;
        }
        let wan::LinkSettings { a_to_b, b_to_a, .. } = &mut wan;
        set(self.loss.map(parts), &mut a_to_b.loss, &mut b_to_a.loss);
        set(self.ber.map(parts), &mut a_to_b.ber, &mut b_to_a.ber);
        set(self.flips.map(parts), &mut a_to_b.flips, &mut b_to_a.flips);
        set(self.jitter, &mut a_to_b.jitter, &mut b_to_a.jitter);
        if let Some(Pair(there, back)) = self.queue {
            (a_to_b.queue, b_to_a.queue) =
                (there.bytes(a_to_b.rate, rtt), back.bytes(b_to_a.rate, rtt));
        }
        if self.reorder && a_to_b.jitter == Span::ZERO && b_to_a.jitter == Span::ZERO {
            return Err(Error::new(
                Fault::You,
                ErrorCode::LinkSetting,
                "--reorder without --jitter puts nothing out of order",
            )
            .hint("add for example --jitter 1ms"));
        }
        wan.script.clone_from(&self.script);
        wan.seed = self.seed;
        let mut settings = Settings::new(&self.path, wan);
        if let Some(name) = &self.name {
            settings.name.clone_from(name);
        }
        settings.mtu = self.mtu;
        settings.inline_receive = self.inline_receive;
        (settings.ethernet, settings.vlans) = (self.ethernet, self.vlans.clone());
        settings.check()?;
        Ok(settings)
    }
}

fn parts(Pair(there, back): Pair<Probability>) -> Pair<f64> {
    Pair(there.0, back.0)
}

fn set<T: Copy>(pair: Option<Pair<T>>, there: &mut T, back: &mut T) {
    if let Some(Pair(first, second)) = pair {
        (*there, *back) = (first, second);
    }
}

/// A value for each direction: `X,Y`, or `X` for both.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair<T>(T, T);

impl<T: FromStr<Err: Display> + Copy> FromStr for Pair<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Pair<T>, String> {
        let value = |text: &str| text.parse::<T>().map_err(|error| error.to_string());
        match text.split_once(',') {
            Some((there, back)) => Ok(Pair(value(there)?, value(back)?)),
            None => value(text).map(|both| Pair(both, both)),
        }
    }
}

/// The length of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Queue {
    Bytes(Bytes),
    /// Bandwidth-delay products of its direction.
    RoundTrips(f64),
}

impl Queue {
    fn bytes(self, rate: Rate, rtt: Span) -> Bytes {
        match self {
            Queue::Bytes(bytes) => bytes,
            Queue::RoundTrips(count) => rate.bytes_in(rtt.mul_f64(count)),
        }
    }
}

impl FromStr for Queue {
    type Err = String;
    fn from_str(text: &str) -> Result<Queue, String> {
        let wrong = || format!("`{text}` is not a queue such as 2bdp or 64MiB");
        match text.strip_suffix("bdp") {
            Some(count) => count
                .trim()
                .parse()
                .ok()
                .filter(|count: &f64| *count > 0.0)
                .map(Queue::RoundTrips)
                .ok_or_else(wrong),
            None => text.parse().map(Queue::Bytes).map_err(|_| wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn settings(line: &str) -> Result<Settings, Error> {
        let words = std::iter::once("link").chain(line.split_whitespace());
        Line::try_parse_from(words).expect("the line is parsed").options.settings()
    }

    #[test]
    fn a_pair_sets_each_direction_and_one_value_both() {
        let wan = settings(
            "usn-1400 --rate 10G,1G --loss 1e-3 --queue 2bdp,4MiB --one-way-delay 10ms,30ms",
        )
        .expect("it is a link")
        .wan;
        assert_eq!((wan.a_to_b.loss, wan.b_to_a.loss), (1e-3, 1e-3));
        assert_eq!(
            (wan.a_to_b.one_way_delay, wan.b_to_a.one_way_delay),
            (Span::from_millis(10), Span::from_millis(30))
        );
        assert_eq!((wan.a_to_b.queue, wan.b_to_a.queue), (Bytes(100_000_000), Bytes::mib(4)));
        assert_eq!(wan.b_to_a.rate, Rate::from_bps(1_000_000_000));
    }

    #[test]
    fn the_queue_follows_the_rate_that_is_asked_for() {
        let wan = settings("usn-8600 --rate 1G").expect("it is a link").wan;
        assert_eq!(wan.a_to_b.queue, Bytes(20_375_000));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "mars",
            "custom",
            "usn-1400 --loss 2",
            "usn-1400 --mtu 100",
            "usn-1400 --reorder",
            "usn-1400 --name a/b",
            "usn-1400 --ethernet --vlan 5=1G --vlan 5=2G",
            "usn-1400 --ethernet --vlan 4095=1G",
        ] {
            assert_eq!(settings(line).expect_err(line).fault, Fault::You, "{line}");
        }
    }
}
