//! One-way delay, round trips and what the two clocks are worth, from packets that came back.

use super::delay_account::DelayAccount;
use super::delay_summary::DelaySummary;
use crate::statistics::Summary;
use crate::units::{Rng, Span, Time};
use serde::{Deserialize, Serialize};

/// Samples kept of all: enough that a deviation is known to 1 %.
const KEPT: usize = 4_096;
/// Spans of time of each of which the least delay is kept.
const SPANS: usize = 512;
/// Clocks differ by less than this, in seconds a second.
const MOST_SKEW: f64 = 1e-3;
/// Clocks that are disciplined run apart by less, in seconds a second.
const USUAL_SKEW: f64 = 5e-4;
/// A clock that is set by less, in nanoseconds, is not told from noise.
const LEAST_STEP: f64 = 1e5;
/// So many times that cannot be are let pass, and a hundredth of all.
const MOST_IMPOSSIBLE: u64 = 3;
/// So many samples one after the other say that a clock was set.
const STEP_SAMPLES: u32 = 3;
/// Parts in time whose means give a mean's interval: neighbours are alike, parts hardly.
const PARTS: usize = 20;

/// A packet that went there and back: sent and come back by the sender's clock, received and
/// returned by the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySample {
    /// When it was sent.
    pub sent: Time,
    /// When it was received.
    pub received: Time,
    /// When it was returned.
    pub returned: Time,
    /// When it came back.
    pub came: Time,
}

/// A stored sample, in nanoseconds; `forward` and `back` have the clocks' difference in them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct StoredDelay {
    /// Since the first.
    at: f64,
    forward: f64,
    back: f64,
    /// By this end's clock alone: `forward` is the round trip.
    #[serde(default)]
    is_own: bool,
}

/// The least of a span of time, and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Least {
    forward: (f64, f64),
    back: (f64, f64),
}

/// What a host's kernel says of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// Whether it is synchronised from outside.
    pub is_synchronised: bool,
    /// How far off it may be, in nanoseconds.
    pub error_ns: u64,
}

/// What the clocks are to each other: the other's less this one's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockDifference {
    /// When the first packet was sent, in nanoseconds.
    pub offset_ns: f64,
    /// How far off that may be from noise alone, where the least delays are equal both ways.
    pub offset_noise_ns: f64,
    /// How far off it may be in any case: half of the least round trip.
    pub offset_bound_ns: f64,
    /// How much faster the other's runs, in millionths.
    pub skew_ppm: f64,
    /// Within what that lies by the noise.
    pub skew_ci_ppm: (f64, f64),
}

/// Delays of a path both ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathDelay {
    /// How many packets came back.
    pub seen: u64,
    /// Whether both ends read one clock, as in two namespaces of one machine.
    pub is_one_clock: bool,
    first: Option<(Time, Time)>,
    kept: Vec<StoredDelay>,
    least: Vec<Option<Least>>,
    span_ns: f64,
    /// Every one of them: round trips, and each way where both ends read one clock.
    #[serde(default)]
    rtts: DelayAccount,
    #[serde(default)]
    there: DelayAccount,
    #[serde(default)]
    back: DelayAccount,
    variation: Variation,
    bounds: OffsetBounds,
    /// How often a clock was set while the test ran.
    pub clock_steps: u64,
    /// Answers whose times cannot be.
    #[serde(default)]
    pub impossible: u64,
}

/// The difference between packets that follow each other (RFC 3393), whatever the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Variation {
    before: Option<f64>,
    count: u64,
    sum: f64,
}

/// Within what the clocks' difference lies by what came so far: a packet takes at least as long as
/// the fastest did, there as well as back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct OffsetBounds {
    low: f64,
    high: f64,
    at: f64,
    least_rtt: f64,
    strange: u32,
}

impl Default for OffsetBounds {
    fn default() -> OffsetBounds {
        OffsetBounds { low: -1e30, high: 1e30, at: 0.0, least_rtt: 1e30, strange: 0 }
    }
}

impl OffsetBounds {
    /// Whether a sample agrees with those before; then the bounds are closer.
    fn agree(&mut self, kept: &StoredDelay) -> bool {
        let rtt = kept.forward + kept.back;
        let faster = (self.least_rtt - rtt).max(0.0);
        self.least_rtt -= faster;
        let slack = faster / 2.0 + USUAL_SKEW * (kept.at - self.at).abs();
        (self.low, self.high, self.at) = (self.low - slack, self.high + slack, kept.at);
        let (low, high) = (self.least_rtt / 2.0 - kept.back, kept.forward - self.least_rtt / 2.0);
        if low > self.high + LEAST_STEP || high < self.low - LEAST_STEP {
            self.strange += 1;
            return false;
        }
        self.strange = 0;
        let (closer_low, closer_high) = (self.low.max(low), self.high.min(high));
        // Noise may put them past each other by less than a step.
        (self.low, self.high) = (closer_low.min(closer_high), closer_low.max(closer_high));
        true
    }

    fn is_step(&self) -> bool {
        self.strange >= STEP_SAMPLES
    }
}

impl PathDelay {
    /// None yet.
    pub fn new(is_one_clock: bool) -> PathDelay {
        PathDelay {
            seen: 0,
            is_one_clock,
            first: None,
            kept: Vec::new(),
            least: vec![None; SPANS],
            span_ns: 1e8,
            rtts: DelayAccount::default(),
            there: DelayAccount::default(),
            back: DelayAccount::default(),
            variation: Variation::default(),
            bounds: OffsetBounds::default(),
            clock_steps: 0,
            impossible: 0,
        }
    }

    /// Takes a sample; returns its round trip, if that counts. Where the other end says what cannot
    /// be, that it returned a packet before it came or held it longer than it was away, the round
    /// trip is by this end's clock alone, with what the other end took in it.
    pub fn add(&mut self, sample: &DelaySample) -> Option<Span> {
        let stay = difference(sample.returned, sample.received);
        let away = difference(sample.came, sample.sent);
        let (own, _) = *self.first.get_or_insert((sample.sent, sample.received));
        let at = difference(sample.sent, own);
        if away <= 0.0 {
            return None;
        }
        if stay < 0.0 || away <= stay {
            self.impossible += 1;
            self.keep_rtt(StoredDelay { at, forward: away, back: 0.0, is_own: true });
            return Some(Span::from_nanos(away as u64));
        }
        let kept = StoredDelay {
            at,
            forward: difference(sample.received, sample.sent),
            back: difference(sample.came, sample.returned),
            is_own: false,
        };
        if !self.bounds.agree(&kept) {
            if self.bounds.is_step() {
                self.forget_clocks();
            }
            return None;
        }
        self.keep_rtt(kept);
        if self.is_one_clock {
            self.there.add(at, kept.forward);
            self.back.add(at, kept.back);
        }
        self.note_least(kept);
        let variation = &mut self.variation;
        if let Some(before) = variation.before.replace(kept.forward) {
            variation.count += 1;
            variation.sum += (kept.forward - before).abs();
        }
        Some(Span::from_nanos((away - stay) as u64))
    }

    fn keep_rtt(&mut self, kept: StoredDelay) {
        let rtt = kept.forward + kept.back;
        self.seen += 1;
        self.rtts.add(kept.at, rtt);
        self.keep(kept);
    }

    /// Whether the other end's times are of no use: more than now and then, as where a clock is set
    /// between two of them, they cannot be.
    pub fn is_distrusted(&self) -> bool {
        self.impossible > MOST_IMPOSSIBLE && self.impossible * 100 > self.seen
    }

    /// A clock was set: what was known of it, and delays by it, are of no use any more. Round trips
    /// are by this end's alone.
    fn forget_clocks(&mut self) {
        self.clock_steps += 1;
        self.bounds = OffsetBounds::default();
        self.kept.clear();
        (self.there, self.back) = (DelayAccount::default(), DelayAccount::default());
        self.least.fill(None);
        self.variation.before = None;
    }

    /// Each sample with the same chance (Vitter's algorithm R).
    fn keep(&mut self, kept: StoredDelay) {
        if self.kept.len() < KEPT {
            self.kept.push(kept);
            return;
        }
        let place = Rng::new(self.seen).below(self.seen) as usize;
        if let Some(old) = self.kept.get_mut(place) {
            *old = kept;
        }
    }

    /// The least delays of the span of time that `kept` is in; spans grow as the test does.
    fn note_least(&mut self, kept: StoredDelay) {
        while kept.at / self.span_ns >= SPANS as f64 {
            self.span_ns *= 2.0;
            let joined = |pair: &[Option<Least>]| match (pair[0], pair[1]) {
                (Some(a), Some(b)) => Some(a.with(&b)),
                (a, b) => a.or(b),
            };
            let half: Vec<Option<Least>> = self.least.chunks(2).map(joined).collect();
            self.least = half;
            self.least.resize(SPANS, None);
        }
        let new = Least { forward: (kept.at, kept.forward), back: (kept.at, kept.back) };
        let place = &mut self.least[(kept.at.max(0.0) / self.span_ns) as usize];
        *place = Some(place.map_or(new, |least| least.with(&new)));
    }

    /// What the clocks are to each other: the line in time that leaves most room between the least
    /// delays one way and the other. That room, whatever the line's slope, is the distance of two
    /// convex hulls (Zhang, Liu and Xia, INFOCOM 2002), so the best slope is found by halving.
    pub fn clocks(&self) -> Option<ClockDifference> {
        let least: Vec<Least> = self.least.iter().flatten().copied().collect();
        let sides = |skew: f64| {
            let low = |side: fn(&Least) -> (f64, f64), sign: f64| {
                let values = least.iter().map(side).map(|(at, delay)| delay - sign * skew * at);
                values.fold(f64::INFINITY, f64::min)
            };
            (low(|least| least.forward, 1.0), low(|least| least.back, -1.0))
        };
        if least.is_empty() || self.is_distrusted() {
            return None;
        }
        if self.is_one_clock {
            let (forward, back) = sides(0.0);
            return Some(ClockDifference {
                offset_ns: 0.0,
                offset_noise_ns: 0.0,
                offset_bound_ns: (forward + back) / 2.0,
                skew_ppm: 0.0,
                skew_ci_ppm: (0.0, 0.0),
            });
        }
        let room = |skew: f64| {
            let (forward, back) = sides(skew);
            forward + back
        };
        let (mut low, mut high) = (-MOST_SKEW, MOST_SKEW);
        for _ in 0..200 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if room(a) < room(b) { low = a } else { high = b }
        }
        let skew = (low + high) / 2.0;
        let (forward, back) = sides(skew);
        let mut noise: Vec<f64> = least
            .iter()
            .map(|least| {
                (least.forward.1 - skew * least.forward.0 - forward)
                    .max(least.back.1 + skew * least.back.0 - back)
            })
            .collect();
        noise.sort_by(f64::total_cmp);
        let noise = noise[noise.len() / 2];
        let edge = |outside: f64| {
            let (mut inside, mut outside) = (skew, outside);
            for _ in 0..100 {
                let middle = (inside + outside) / 2.0;
                if room(middle) >= forward + back - noise {
                    inside = middle
                } else {
                    outside = middle
                }
            }
            inside * 1e6
        };
        Some(ClockDifference {
            offset_ns: (forward - back) / 2.0,
            offset_noise_ns: noise,
            offset_bound_ns: (forward + back) / 2.0,
            skew_ppm: skew * 1e6,
            skew_ci_ppm: (edge(-MOST_SKEW), edge(MOST_SKEW)),
        })
    }

    /// The delay there and the one back, by clocks made equal.
    pub fn one_way(&self) -> Option<(DelaySummary, DelaySummary)> {
        let clocks = self.clocks()?;
        let ahead = |at: f64| clocks.offset_ns + clocks.skew_ppm * 1e-6 * at;
        let of = |delay: &dyn Fn(&StoredDelay) -> f64, account: &DelayAccount| {
            let kept: Vec<f64> =
                self.ordered().iter().filter(|kept| !kept.is_own).map(delay).collect();
            // Of few the kept ones are all, to the nanosecond.
            if account.count() > kept.len() as u64 { account.summary() } else { summary(kept) }
        };
        Some((
            of(&|kept| kept.forward - ahead(kept.at), &self.there)?,
            of(&|kept| kept.back + ahead(kept.at), &self.back)?,
        ))
    }

    /// Round trips, without what the other end took.
    pub fn rtt(&self) -> Option<DelaySummary> {
        let kept = self.ordered();
        if self.rtts.count() > kept.len() as u64 {
            return self.rtts.summary();
        }
        summary(kept.iter().map(|kept| kept.forward + kept.back).collect())
    }

    /// The mean difference between the delays of packets that follow each other, one way
    /// (RFC 3393, RFC 5481's IPDV).
    pub fn variation_ns(&self) -> Option<f64> {
        let Variation { count, sum, .. } = self.variation;
        (count > 0 && !self.is_distrusted()).then(|| sum / count as f64)
    }

    /// Round trips that were kept, in nanoseconds and ascending order.
    pub fn kept_rtts(&self) -> Vec<f64> {
        let mut rtts: Vec<f64> = self.kept.iter().map(|kept| kept.forward + kept.back).collect();
        rtts.sort_by(f64::total_cmp);
        rtts
    }

    /// Means of round trips in parts of the time, in nanoseconds.
    pub fn part_means(&self) -> Vec<f64> {
        let kept = self.ordered();
        if self.rtts.count() > kept.len() as u64 {
            return self.rtts.part_means();
        }
        parts(&kept.iter().map(|kept| kept.forward + kept.back).collect::<Vec<_>>())
    }

    /// Standard deviations of round trips within parts of the time, in nanoseconds.
    pub fn part_sds(&self) -> Vec<f64> {
        let kept = self.ordered();
        if self.rtts.count() > kept.len() as u64 {
            return self.rtts.part_sds();
        }
        let rtts: Vec<f64> = kept.iter().map(|kept| kept.forward + kept.back).collect();
        in_parts(&rtts)
            .filter_map(Summary::of)
            .filter(|part| part.n > 1)
            .map(|part| part.sd)
            .collect()
    }

    /// One-way delays there that were kept, in nanoseconds and ascending order.
    pub fn kept_delays(&self) -> Vec<f64> {
        let Some(clocks) = self.clocks() else { return Vec::new() };
        let ahead = |at: f64| clocks.offset_ns + clocks.skew_ppm * 1e-6 * at;
        let others = self.kept.iter().filter(|kept| !kept.is_own);
        let mut delays: Vec<f64> = others.map(|kept| kept.forward - ahead(kept.at)).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    fn ordered(&self) -> Vec<StoredDelay> {
        let mut kept = self.kept.clone();
        kept.sort_by(|a, b| a.at.total_cmp(&b.at));
        kept
    }
}

impl Least {
    fn with(&self, other: &Least) -> Least {
        let least = |a: (f64, f64), b: (f64, f64)| if b.1 < a.1 { b } else { a };
        Least { forward: least(self.forward, other.forward), back: least(self.back, other.back) }
    }
}

/// Nanoseconds from `b` to `a`. The times are whole numbers until then: floats as large as the
/// nanoseconds since 1970 are 256 apart.
fn difference(a: Time, b: Time) -> f64 {
    (i128::from(a.as_nanos()) - i128::from(b.as_nanos())) as f64
}

/// The summary of delays in the order of time.
fn summary(delays: Vec<f64>) -> Option<DelaySummary> {
    let whole = Summary::of(&delays)?;
    let mean_ci95_ns =
        if delays.len() < 4 * PARTS { None } else { Summary::of(&parts(&delays))?.ci95 };
    let mut sorted = delays;
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
    Some(DelaySummary {
        mean_ns: whole.mean,
        mean_ci95_ns,
        sd_ns: whole.sd,
        min_ns: whole.min,
        median_ns: whole.median,
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: whole.max,
    })
}

/// The means of parts of `delays`, which are in the order of time.
fn parts(delays: &[f64]) -> Vec<f64> {
    in_parts(delays).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
}

/// The delays of each part.
fn in_parts(delays: &[f64]) -> impl Iterator<Item = &[f64]> {
    delays.chunks(delays.len().div_ceil(PARTS).max(1))
}

#[cfg(test)]
#[path = "delay_tests.rs"]
mod tests;
