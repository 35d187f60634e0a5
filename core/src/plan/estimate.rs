//! How a transfer begins over a path of which nothing was measured but the round trip: the control
//! is the host's, its streams the model's.

use super::advisor::{Plan, PlanInput, PlanSource, Runs, finished};
use super::limits::ChannelLimits;
use super::path::{PathPoint, USUAL_MTU, streams_in_words};
use crate::congestion::Algorithm;
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};

/// Streams that are tried.
const TRIED: [u32; 5] = [1, 2, 4, 8, ChannelLimits::TRANSFER];
/// What more streams must win of the time: each costs a connection and processor time, which the
/// model does not have, and a transfer that needs more than it began with sees it from its first
/// blocks on.
const WORTH: f64 = 0.05;
/// So much of a transfer is simulated, the longer of the two: windows have grown by then, or nobody
/// notices what they did.
const BEGINNING: (f64, Span) = (40.0, Span::from_millis(200));
/// A smaller part of a transfer is through a window's growth before a stream of its own would help.
const LEAST: Bytes = Bytes::mib(4);
/// Round trips that a path may have: one within a host is less than the model's shortest step, in
/// which it would send one window at most.
const RTT: (Span, Span) = (Span::from_micros(50), Span::from_secs(60));

/// A path to a node, and the host that sends, before anything but the round trip is known.
#[derive(Clone, Debug, PartialEq)]
pub struct PathEstimate {
    /// The least round-trip time seen.
    pub rtt: Span,
    /// The largest window this host lets one stream grow to.
    pub window: Bytes,
    /// Congestion controls this host offers to this process, by Linux's names.
    pub available: Vec<String>,
    /// The host's default among them.
    pub default_congestion: String,
    /// Whether the queueing discipline `fq` paces on the route's device; `None` where nobody knows.
    pub fq: Option<bool>,
}

/// Below this a path is within a host or a rack.
const NEAR: Span = Span::from_millis(1);

/// The control to take for `current` on a path that is `rtt` long, and why: within a host or a rack
/// one that does not pace. Nothing where `current` does not, or `available` has no other.
///
/// BBR sends at a paced rate, which costs a timer for each burst (in the kernel's TCP, or in `fq`)
/// and holds back hosts whose processors are the bottleneck: over a veth pair one channel of CUBIC
/// moves twice as much. Queues there are too short for CUBIC's losses to matter.
fn unpaced(
    rtt: Span,
    current: &str,
    available: &[String],
    fq: Option<bool>,
) -> Option<(&'static str, String)> {
    // bbr, and what kernels and modules call its later versions.
    if rtt >= NEAR || !current.starts_with(Algorithm::Bbr.name()) {
        return None;
    }
    let [cubic, reno] = [Algorithm::Cubic, Algorithm::Reno].map(Algorithm::name);
    let taken = [cubic, reno].into_iter().find(|name| available.iter().any(|have| have == name))?;
    let pacer = match fq {
        Some(true) => "; fq on this route would pace it",
        Some(false) => "; without fq on this route the kernel sets a timer for each burst",
        None => "",
    };
    let why = format!(
        "{taken} rather than this host's {current}: below {NEAR} of rtt pacing costs more than it \
         wins{pacer}"
    );
    Some((taken, why))
}

/// As many streams as `size` is worth.
pub(super) fn most_streams(size: Option<Bytes>) -> u32 {
    size.map_or(u32::MAX, |size| u32::try_from(size.0.div_ceil(LEAST.0).max(1)).unwrap_or(u32::MAX))
}

/// `streams`, which `why` is the reason for, or as many as `size` is worth where those are fewer.
pub fn for_size(streams: u32, size: Option<Bytes>, why: String) -> (u32, String) {
    let streams = streams.clamp(1, ChannelLimits::TRANSFER);
    match size {
        Some(size) if most_streams(Some(size)) < streams => {
            (most_streams(Some(size)), format!("there are only {size} to move"))
        }
        _ => (streams, why),
    }
}

impl PathEstimate {
    /// What a path is taken to carry: the papers' 10GE.
    pub const RATE: Rate = Rate::from_bps(10_000_000_000);

    /// What the model is told.
    pub fn known(&self) -> PlanInput {
        PlanInput {
            path: PathPoint::custom(Self::RATE, self.rtt.clamp(RTT.0, RTT.1)),
            // Like its rate it is assumed.
            is_queue_known: true,
            loss: 0.0,
            window: Some(self.window.max(Bytes(u64::from(USUAL_MTU)))),
            host: None,
            mtu: USUAL_MTU,
            available: vec![self.modelled()],
            source: PlanSource::Model,
        }
    }

    /// The congestion control by name, or none where it is the host's default, and why. Without a
    /// loss seen the model has nothing to tell controls apart by; processors have: parallel streams
    /// of CUBIC share a loss, and need no timer for each packet, which BBR's pacing does where the
    /// kernel has no `fq` (emulated `usn-8600`, 1 GiB, four channels: 4.2 s against 6.3 s).
    pub fn congestion(&self) -> (Option<&'static str>, String) {
        let (cubic, default) = (Algorithm::Cubic.name(), &self.default_congestion);
        if let Some((name, why)) = unpaced(self.rtt, default, &self.available, self.fq) {
            return (Some(name), why);
        }
        if self.rtt >= Span::from_millis(5)
            && default != cubic
            && self.available.iter().any(|name| name == cubic)
        {
            let why = format!(
                "{cubic} rather than this host's {default}: parallel channels share a loss, \
                 without a pacing timer for each packet"
            );
            return (Some(cubic), why);
        }
        (None, format!("{default}, this host's default"))
    }

    /// Its control in the model, which has CUBIC for those that it does not know.
    fn modelled(&self) -> Algorithm {
        self.congestion().0.unwrap_or(&self.default_congestion).parse().unwrap_or(Algorithm::Cubic)
    }

    /// With how many streams to begin to move `size`, or what is not known yet, and why.
    pub fn streams(&self, size: Option<Bytes>) -> (u32, String) {
        // For these the model's answer would not count.
        if most_streams(size) == 1 {
            return for_size(ChannelLimits::TRANSFER, size, String::new());
        }
        let (streams, rate, product) =
            (self.by_path(size), Self::RATE, Self::RATE.bytes_in(self.rtt));
        let more = format!(
            "more win less than {:.0} %, by the model of {rate} and an rtt of {}",
            WORTH * 100.0,
            self.rtt
        );
        let why = if self.window < product {
            format!("one window is at most {} and the path holds {product}; {more}", self.window)
        } else {
            more
        };
        for_size(streams, size, why)
    }

    /// The fewest streams of which more would win nothing that is worth it.
    fn by_path(&self, size: Option<Bytes>) -> u32 {
        let known = self.known();
        let path = &known.path;
        let beginning = path.rate_bps.bytes_in(path.rtt_ns.mul_f64(BEGINNING.0).max(BEGINNING.1));
        let size = size.map_or(beginning, |size| size.min(beginning));
        let seconds = TRIED.map(|streams| {
            known.seconds(known.available[0], streams, size, 1..2).into_iter().sum::<f64>()
        });
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let good = TRIED.iter().zip(seconds).find(|(_, seconds)| *seconds <= least * (1.0 + WORTH));
        good.map_or(1, |(streams, _)| *streams)
    }

    /// The plan of a transfer of `size` that begins so, and keeps what it began with.
    ///
    /// # Errors
    /// As [`plan`](super::plan).
    pub fn plan(&self, size: Bytes) -> Result<Plan, Error> {
        let known = self.known();
        known.check()?;
        if size.0 == 0 {
            return Err(Error::new(
                Fault::You,
                ErrorCode::PlanNothing,
                "a plan needs a size above zero",
            ));
        }
        let (streams, why) = self.streams(Some(size));
        let congestion = known.available[0];
        let seconds = known.seconds(congestion, streams, size, 1..5);
        let reasons = vec![format!("{}: {why}", streams_in_words(streams)), self.congestion().1];
        let runs = Runs::Modelled(&seconds);
        Ok(finished(&known, size, (congestion, streams), &runs, reasons))
    }
}

#[cfg(test)]
mod tests {
    use super::super::advisor::SET_UP_TRIPS;
    use super::*;

    fn path(rtt: Span, window: Bytes) -> PathEstimate {
        let available = ["reno", "cubic", "bbr"].map(str::to_owned).to_vec();
        PathEstimate { rtt, window, available, default_congestion: "cubic".to_owned(), fq: None }
    }

    const GIB: Bytes = Bytes::mib(1 << 10);

    #[test]
    fn streams_grow_with_the_path_and_with_small_windows() {
        let streams = |us, mib, size| path(Span::from_micros(us), Bytes::mib(mib)).streams(size);
        for near in [0, 6, 20, 200, 1_000] {
            assert_eq!(streams(near, 6, Some(GIB)).0, 1, "{near} us");
            let paced = PathEstimate {
                default_congestion: "bbr".to_owned(),
                ..path(Span::from_micros(near), Bytes::mib(6))
            };
            assert_eq!(paced.streams(Some(GIB)).0, 1, "{near} us, bbr");
        }
        // Over a long path a short transfer is over before one window has grown, so that several
        // grow together; a long one needs fewer.
        let of = [Bytes::mib(100), GIB, Bytes::mib(4 << 10), Bytes::mib(1 << 20)]
            .map(|size| streams(163_000, 512, Some(size)).0);
        assert!(of[0] == 16 && of.is_sorted_by(|a, b| a >= b) && of[3] >= 2, "{of:?}");
        let (squeezed, why) = streams(163_000, 4, None);
        assert!(
            squeezed == 16
                && why.contains("one window is at most 4 MiB and the path holds 194.3 MiB"),
            "{why}"
        );
        assert_eq!(
            streams(163_000, 512, Some(Bytes(1_000))),
            (1, "there are only 1000 B to move".to_owned())
        );
        assert_eq!(
            streams(163_000, 512, Some(Bytes::mib(30))),
            (8, "there are only 30 MiB to move".to_owned())
        );
    }

    #[test]
    fn the_control_is_the_hosts_or_cubic_on_a_long_path() {
        let mut far = path(Span::from_millis(163), Bytes::mib(512));
        assert_eq!(far.congestion(), (None, "cubic, this host's default".to_owned()));
        far.default_congestion = "bbr".to_owned();
        assert_eq!(far.congestion().0, Some("cubic"));
        assert_eq!(PathEstimate { rtt: Span::from_millis(1), ..far.clone() }.congestion().0, None);
        // One that the model has not is CUBIC there.
        let other = PathEstimate {
            default_congestion: "dctcp".to_owned(),
            available: vec!["dctcp".to_owned()],
            ..far
        };
        assert_eq!((other.congestion().0, other.known().available), (None, vec![Algorithm::Cubic]));
    }

    #[test]
    fn within_a_host_or_a_rack_the_control_does_not_pace() {
        let near = PathEstimate {
            default_congestion: "bbr".to_owned(),
            ..path(Span::from_micros(40), Bytes::mib(6))
        };
        let chosen = |fq, available: &[&str], default: &str| {
            let available = available.iter().map(|&name| name.to_owned()).collect();
            let default_congestion = default.to_owned();
            PathEstimate { fq, available, default_congestion, ..near.clone() }.congestion()
        };
        let (name, why) = chosen(Some(false), &["reno", "cubic", "bbr"], "bbr");
        assert_eq!(name, Some("cubic"));
        assert!(why.contains("rather than this host's bbr: below 1.00 ms of rtt"), "{why}");
        assert!(why.contains("without fq"), "{why}");
        assert!(chosen(Some(true), &["cubic", "bbr"], "bbr").1.contains("fq on this route would"));
        assert!(!chosen(None, &["cubic", "bbr"], "bbr").1.contains("fq"));
        assert_eq!(chosen(None, &["reno", "bbr3"], "bbr3").0, Some("reno"));
        // What does not pace stays, and so does what has no other next to it.
        assert_eq!(chosen(None, &["dctcp", "cubic"], "dctcp").0, None);
        assert_eq!(chosen(None, &["bbr"], "bbr").0, None);
        assert_eq!(PathEstimate { rtt: NEAR, ..near }.congestion().0, None);
    }

    #[test]
    fn the_begin_is_within_a_tenth_of_the_best_stream_count() {
        for (rtt, window) in [(1, 6), (10, 32), (27, 6), (27, 32), (100, 32), (163, 32), (163, 512)]
        {
            for size in [Bytes::mib(100), GIB, Bytes::mib(4 << 10)] {
                let path = path(Span::from_millis(rtt), Bytes::mib(window));
                let plan = path.plan(size).expect("a plan");
                assert_eq!(plan.streams, path.streams(Some(size)).0);
                let set_up = path.rtt.as_secs_f64() * SET_UP_TRIPS;
                // Seeds that it has not seen.
                let mean = |streams| {
                    set_up
                        + path
                            .known()
                            .seconds(Algorithm::Cubic, streams, size, 100..103)
                            .iter()
                            .sum::<f64>()
                            / 3.0
                };
                let (took, best) =
                    (mean(plan.streams), (1..=16).map(mean).fold(f64::INFINITY, f64::min));
                assert!(
                    took <= best * 1.1,
                    "{rtt} ms, {window} MiB, {size}: {took} s, but {best}: {plan:?}"
                );
                assert!(
                    (plan.interval_s.0 * 0.99..=plan.interval_s.1).contains(&took),
                    "{rtt} {window} {size}: {plan:?}: {took}"
                );
            }
        }
        assert!(path(Span::from_millis(1), Bytes::mib(6)).plan(Bytes(0)).is_err());
    }
}
