//! A path as plans and profiles see it: rate, round trip and queue.

use crate::units::{Bytes, Error, Rate, Span};
use crate::wan::frames::wire_bytes;
use crate::wan::{LinkSettings, Path};
use serde::{Deserialize, Serialize};

/// The path of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// Its name: one of [`wan::Path`](crate::wan::Path)'s, or one made from its rtt.
    pub name: String,
    /// Bits per second on the wire.
    pub rate_bps: Rate,
    /// Round-trip time without load.
    pub rtt_ns: Span,
    /// Length of fibre, where it is known.
    pub miles: Option<f64>,
    /// The queue before the wire.
    pub queue_bytes: Bytes,
}

impl PathPoint {
    /// A named path, at its own rate or at `rate`, with its default queue.
    ///
    /// # Errors
    /// As [`Path::named`].
    pub fn named(name: &str, rate: Option<Rate>) -> Result<PathPoint, Error> {
        let path = Path::named(name)?;
        let settings = path.settings(rate, None)?;
        Ok(PathPoint { name: name.to_owned(), miles: path.miles, ..PathPoint::of(&settings) })
    }

    /// A path of `rate` and `rtt` with its default queue, named after its rtt.
    pub fn custom(rate: Rate, rtt: Span) -> PathPoint {
        PathPoint::of(&LinkSettings::new(rate, rtt))
    }

    /// A path over which so much payload came in packets of the usual size, with its default queue.
    pub fn seen(payload: Rate, rtt: Span) -> PathPoint {
        let share = payload_rate(Rate::from_bps(1_000_000_000), USUAL_MTU).as_bps() as f64 / 1e9;
        PathPoint::custom(Rate::from_bps((payload.as_bps() as f64 / share) as u64), rtt)
    }

    /// Name and round-trip time; the latter alone where the path is named after it.
    pub fn label(&self) -> String {
        let rtt = self.rtt_ns.to_string();
        if self.name == rtt.replace(' ', "") { rtt } else { format!("{} ({rtt})", self.name) }
    }

    fn of(settings: &LinkSettings) -> PathPoint {
        let (rate_bps, rtt_ns) = (settings.a_to_b.rate, settings.rtt());
        let name = rtt_ns.to_string().replace(' ', "");
        PathPoint { name, rate_bps, rtt_ns, miles: None, queue_bytes: settings.a_to_b.queue }
    }
}

/// So many streams, in words.
pub(crate) fn streams_in_words(streams: u32) -> String {
    if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") }
}

/// IP version 4, TCP, and its timestamps (RFC 791, RFC 9293, RFC 7323): 20 + 20 + 12 bytes.
pub(crate) const TCP_HEADERS: u64 = 52;

/// The largest goodput that frames of `mtu` allow on `rate`: payload of TCP with timestamps over
/// wire bytes.
pub fn payload_rate(rate: Rate, mtu: u32) -> Rate {
    let mtu = u64::from(mtu);
    let share = mtu.saturating_sub(TCP_HEADERS) as f64 / wire_bytes(mtu) as f64;
    Rate::from_bps((rate.as_bps() as f64 * share) as u64)
}

/// Bytes of IP in a packet where nobody says otherwise.
pub(crate) const USUAL_MTU: u32 = 1_500;
