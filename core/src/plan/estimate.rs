//! How a transfer begins over a path of which nothing was measured but the round trip: the control
//! is the host's, its streams the model's.

use super::advisor::{Plan, PlanInput, PlanSource, Runs, finished};
use super::limits::ChannelLimits;
use super::path::{PathPoint, USUAL_MTU};
use super::reason::{ControlReason, Margin, Reason, StreamsReason};
use crate::congestion::{Algorithm, ControlName};
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};

/// Streams that are tried.
const TRIED: [u32; 5] = [1, 2, 4, 8, ChannelLimits::TRANSFER];
/// What more streams must win of the time: each costs a connection and processor time, which the
/// model does not have, and a transfer that needs more than it began with sees it from its first
/// blocks on.
pub(super) const WORTH: f64 = 0.05;
/// So much of a transfer is simulated, the longer of the two: windows have grown by then, or nobody
/// notices what they did.
const BEGINNING: (f64, Span) = (40.0, Span::from_millis(200));
/// The least part of a transfer that is worth a stream of its own: some blocks of what is short. Of
/// a short transfer over a long path most of the time is the growth of windows, and twice the
/// streams need a round trip less for it (4 MiB over 163 ms: 1.82 s with 4, 1.52 s with 16).
const LEAST: Bytes = Bytes(256 << 10);
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
    /// Congestion controls this host offers to this process.
    pub available: Vec<ControlName>,
    /// The host's default among them.
    pub default_congestion: ControlName,
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
    current: ControlName,
    available: &[ControlName],
    fq: Option<bool>,
) -> Option<(ControlName, ControlReason)> {
    if rtt >= NEAR || !current.is_bbr() {
        return None;
    }
    let unpaced = [Algorithm::Cubic, Algorithm::Reno].map(ControlName::from);
    let taken = unpaced.into_iter().find(|name| available.contains(name))?;
    Some((taken, ControlReason::Unpaced { default: current, near: NEAR, fq }))
}

/// As many streams as `size` is worth.
pub fn most_streams(size: Option<Bytes>) -> u32 {
    size.map_or(u32::MAX, |size| u32::try_from(size.0.div_ceil(LEAST.0).max(1)).unwrap_or(u32::MAX))
}

/// `streams`, which `why` is the reason for, or as many as `size` is worth where those are fewer.
pub fn for_size(streams: u32, size: Option<Bytes>, why: StreamsReason) -> (u32, StreamsReason) {
    let streams = streams.clamp(1, ChannelLimits::TRANSFER);
    match size {
        Some(size) if most_streams(Some(size)) < streams => {
            (most_streams(Some(size)), StreamsReason::Size(size))
        }
        _ => (streams, why),
    }
}

impl PathEstimate {
    /// Whether the path is within a host or a rack.
    pub fn is_near(&self) -> bool {
        self.rtt < NEAR
    }

    /// What a path is taken to carry: the papers' 10GE.
    pub const RATE: Rate = Rate::from_bps(10_000_000_000);

    /// What the model is told.
    pub fn input(&self) -> PlanInput {
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
    pub fn congestion(&self) -> (Option<ControlName>, Reason) {
        let default = self.default_congestion;
        let (taken, why) = unpaced(self.rtt, default, &self.available, self.fq)
            .or_else(|| self.unshared())
            .map_or((None, ControlReason::Default), |(name, why)| (Some(name), why));
        (taken, Reason::Control(taken.unwrap_or(default), why))
    }

    /// CUBIC on a path on which channels run in parallel, and the host's default is another.
    fn unshared(&self) -> Option<(ControlName, ControlReason)> {
        let (cubic, default) = (ControlName::from(Algorithm::Cubic), self.default_congestion);
        let is_far = self.rtt >= Span::from_millis(5);
        let takes = is_far && default != cubic && self.available.contains(&cubic);
        takes.then_some((cubic, ControlReason::SharedLosses(default)))
    }

    /// Its control in the model, which has CUBIC for those that it does not know.
    fn modelled(&self) -> Algorithm {
        let name = self.congestion().0.unwrap_or(self.default_congestion);
        name.algorithm().unwrap_or(Algorithm::Cubic)
    }

    /// With how many streams to begin to move `size`, or what is not known yet, and why.
    pub fn streams(&self, size: Option<Bytes>) -> (u32, StreamsReason) {
        let margin = Margin { part: WORTH, model: Some((Self::RATE, self.rtt)) };
        let product = Self::RATE.bytes_in(self.rtt);
        let why = match self.window < product {
            true => StreamsReason::Window { window: self.window, product, margin: Some(margin) },
            false => StreamsReason::Margin(margin),
        };
        // Where there is too little for more than one the model's word would not count.
        let streams = match most_streams(size) {
            1 => ChannelLimits::TRANSFER,
            _ => self.by_path(size),
        };
        for_size(streams, size, why)
    }

    /// The fewest streams of which more would win nothing that is worth it.
    fn by_path(&self, size: Option<Bytes>) -> u32 {
        let input = self.input();
        let path = &input.path;
        let beginning = path.rate_bps.bytes_in(path.rtt_ns.mul_f64(BEGINNING.0).max(BEGINNING.1));
        let size = size.map_or(beginning, |size| size.min(beginning));
        let seconds = TRIED.map(|streams| {
            input.seconds(input.available[0], streams, size, 1..2).into_iter().sum::<f64>()
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
        let input = self.input();
        input.check()?;
        if size.0 == 0 {
            return Err(Error::new(
                Fault::You,
                ErrorCode::PlanNothing,
                "a plan needs a size above zero",
            ));
        }
        let (streams, why) = self.streams(Some(size));
        let congestion = input.available[0];
        let seconds = input.seconds(congestion, streams, size, 1..5);
        let reasons = vec![Reason::Streams(streams, why), self.congestion().1];
        let runs = Runs::Modelled(&seconds);
        let mut plan = finished(&input, size, (congestion, streams), &runs, reasons);
        // The model's path is no shorter than its step; the staging of a shorter one is the same,
        // the least.
        for reason in &mut plan.reasons {
            if let Reason::Staging(_, rtt) = reason {
                *rtt = self.rtt.min(*rtt);
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::super::advisor::SET_UP_TRIPS;
    use super::*;

    fn named(name: &str) -> ControlName {
        name.parse().expect("a name")
    }

    fn path(rtt: Span, window: Bytes) -> PathEstimate {
        let available = ["reno", "cubic", "bbr"].map(named).to_vec();
        PathEstimate { rtt, window, available, default_congestion: named("cubic"), fq: None }
    }

    const GIB: Bytes = Bytes::mib(1 << 10);

    #[test]
    fn streams_grow_with_the_path_and_with_small_windows() {
        let streams = |us, mib, size| path(Span::from_micros(us), Bytes::mib(mib)).streams(size);
        for near in [0, 6, 20, 200, 1_000] {
            assert_eq!(streams(near, 6, Some(GIB)).0, 1, "{near} us");
            let paced = PathEstimate {
                default_congestion: named("bbr"),
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
                && why
                    .to_string()
                    .contains("one window is at most 4 MiB and the path holds 194.3 MiB"),
            "{why}"
        );
        assert_eq!(
            streams(163_000, 512, Some(Bytes(1_000))),
            (1, StreamsReason::Size(Bytes(1_000)))
        );
        assert_eq!(
            streams(163_000, 512, Some(Bytes::mib(2))),
            (8, StreamsReason::Size(Bytes::mib(2)))
        );
    }

    #[test]
    fn the_control_is_the_hosts_or_cubic_on_a_long_path() {
        let mut far = path(Span::from_millis(163), Bytes::mib(512));
        let (taken, why) = far.congestion();
        assert_eq!((taken, why.to_string()), (None, "cubic, this host's default".to_owned()));
        far.default_congestion = named("bbr");
        assert_eq!(far.congestion().0, Some(named("cubic")));
        assert_eq!(PathEstimate { rtt: Span::from_millis(1), ..far.clone() }.congestion().0, None);
        // One that the model has not is CUBIC there.
        let other = PathEstimate {
            default_congestion: named("dctcp"),
            available: vec![named("dctcp")],
            ..far
        };
        assert_eq!((other.congestion().0, other.input().available), (None, vec![Algorithm::Cubic]));
    }

    #[test]
    fn within_a_host_or_a_rack_the_control_does_not_pace() {
        let near = PathEstimate {
            default_congestion: named("bbr"),
            ..path(Span::from_micros(40), Bytes::mib(6))
        };
        let chosen = |fq, available: &[&str], default: &str| {
            let available = available.iter().map(|&name| named(name)).collect();
            let default_congestion = named(default);
            let path = PathEstimate { fq, available, default_congestion, ..near.clone() };
            let (name, why) = path.congestion();
            (name, why.to_string())
        };
        let (name, why) = chosen(Some(false), &["reno", "cubic", "bbr"], "bbr");
        assert_eq!(name, Some(named("cubic")));
        assert!(why.contains("rather than this host's bbr: below 1.00 ms of rtt"), "{why}");
        assert!(why.contains("without fq"), "{why}");
        assert!(chosen(Some(true), &["cubic", "bbr"], "bbr").1.contains("fq on this route would"));
        assert!(!chosen(None, &["cubic", "bbr"], "bbr").1.contains("fq"));
        assert_eq!(chosen(None, &["reno", "bbr3"], "bbr3").0, Some(named("reno")));
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
                            .input()
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
