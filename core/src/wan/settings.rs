//! Settings of a link: each direction by itself, the script, the seed.

use super::script::Event;
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};

/// The queue is never shorter than this by default: short paths would otherwise drop a sender's
/// first burst.
const SHORTEST_DEFAULT_QUEUE: Bytes = Bytes::mib(4);

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Bits on the wire per second, preamble, header, FCS and gap included.
    pub rate: Rate,
    /// From the last bit sent to the last bit received.
    pub one_way_delay: Span,
    /// Probability that a frame is lost, `0.0..1.0`.
    pub loss: f64,
    /// Probability that a bit of a frame (header to FCS) is wrong; one wrong bit costs the frame.
    /// `0.0..1.0`.
    pub ber: f64,
    /// Probability that a frame arrives with one payload bit flipped and a *valid* checksum,
    /// `0.0..1.0`: what a faulty router or host memory does, and only an end-to-end digest catches.
    pub flips: f64,
    /// Extra one-way delay, varying between zero and this.
    pub jitter: Span,
    /// Whether jitter may put frames out of order.
    pub reorder: bool,
    /// Bytes on the wire that may wait, the frame being sent included.
    pub queue: Bytes,
}

impl Direction {
    /// A clean direction of `rate` and `one_way_delay` with the default queue for a round trip of
    /// `rtt`: the larger of one bandwidth-delay product and 4 MiB.
    pub fn new(rate: Rate, one_way_delay: Span, rtt: Span) -> Direction {
        let queue = rate.bytes_in(rtt).max(SHORTEST_DEFAULT_QUEUE);
        Direction {
            rate,
            one_way_delay,
            loss: 0.0,
            ber: 0.0,
            flips: 0.0,
            jitter: Span::ZERO,
            reorder: false,
            queue,
        }
    }

    /// Refuses what is not a link.
    ///
    /// # Errors
    /// [`Fault::You`] when a probability is outside `0..1`, the rate or the queue is zero, or a
    /// delay is above ten minutes.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::LinkSetting, message));
        for (name, value) in [("loss", self.loss), ("ber", self.ber), ("flips", self.flips)] {
            if !(0.0..1.0).contains(&value) {
                return wrong(format!(
                    "{name} is {value}: a probability from 0 to below 1 is needed"
                ));
            }
        }
        if self.rate.as_bps() == 0 {
            return wrong("the rate is zero".to_owned());
        }
        if self.queue.0 == 0 {
            return wrong("the queue is zero bytes: not even one frame could be sent".to_owned());
        }
        for (name, value) in [("one-way delay", self.one_way_delay), ("jitter", self.jitter)] {
            if value > Span::from_secs(600) {
                return wrong(format!("{name} is {value}: at most 10 min"));
            }
        }
        Ok(())
    }
}

/// Both directions of a link, its script and its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// What side a sends to side b.
    pub a_to_b: Direction,
    /// What side b sends to side a.
    pub b_to_a: Direction,
    /// Events in the order given.
    pub script: Vec<Event>,
    /// Seeds every random choice; the same seed gives the same choices.
    pub seed: u64,
}

impl LinkSettings {
    /// A clean link of `rate` and `rtt`, half of it each way.
    pub fn new(rate: Rate, rtt: Span) -> LinkSettings {
        let there = Span::from_nanos(rtt.as_nanos() / 2);
        let back = rtt.saturating_sub(there);
        LinkSettings {
            a_to_b: Direction::new(rate, there, rtt),
            b_to_a: Direction::new(rate, back, rtt),
            script: Vec::new(),
            seed: 1,
        }
    }

    /// Propagation there and back, without jitter and queueing.
    pub fn rtt(&self) -> Span {
        self.a_to_b.one_way_delay + self.b_to_a.one_way_delay
    }

    /// The bandwidth-delay product of the faster direction: what one round trip holds.
    pub fn bandwidth_delay_product(&self) -> Bytes {
        self.a_to_b.rate.max(self.b_to_a.rate).bytes_in(self.rtt())
    }

    /// Refuses what is not a link.
    ///
    /// # Errors
    /// [`Fault::You`], saying which direction and which value.
    pub fn check(&self) -> Result<(), Error> {
        self.a_to_b.check().map_err(|error| error.while_doing("a to b"))?;
        self.b_to_a.check().map_err(|error| error.while_doing("b to a"))
    }
}
