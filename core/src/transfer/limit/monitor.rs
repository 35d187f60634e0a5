//! Tells what a sender's network time went to: windows that grew, a window that the receiver
//! closed, a send buffer that was too small, losses, or a full path.
//!
//! Windows grow while the rate of a round grows by a quarter (BBR's test for a full pipe, Cardwell
//! et al. 2016, section 4.1), whatever holds them meanwhile. After that a loss is of congestion
//! where a queue stood shortly before; a queue is a round trip that is longer than the path's least
//! by more than noise. A control that goes by losses and sees neither loss nor queue is still
//! growing; one that goes by a model of the path (BBR) has found its rate.

use super::super::losses::{JudgedSample, NewLosses};
use super::super::path_sample::PathSample;
use super::super::rounds::{BURST_TRIPS, Rounds};
use crate::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// Looks with losses, of which more than half say what the path's losses are: a busy host is late
/// now and then, which looks like a queue, and a shallow queue may be empty again.
const JUDGED: usize = 7;

/// A control that paces sends what its buffer holds in pieces: there is something left to send at
/// most looks, though the buffer runs empty every round trip. From this part of a look on it did.
const EMPTY_PART: f64 = 0.05;
/// Round trips for which that is said of the path: a buffer may run empty once in each.
const EMPTY_TRIPS: f64 = 2.0;

/// Rounds without it after which the first growth is over.
const FLAT_ROUNDS: u32 = 2;

/// What the network time of a sender's channels went to. Spans are of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathTimes {
    /// Windows grew, and nothing had held them yet.
    pub growing: Span,
    /// The receiver's window was full.
    pub window: Span,
    /// All that the socket buffer holds was on its way.
    pub buffer: Span,
    /// The window was smaller than the path because of losses without a queue.
    pub lossy: Span,
    /// The path was full.
    pub full: Span,
    /// Nothing got through, long enough for no other account to have it.
    pub silent: Span,
    /// What the receiver acknowledged while the path was full.
    pub full_bytes: Bytes,
    /// Segments sent again after a loss without a queue.
    pub lost: u64,
    /// The same after one with a queue.
    pub overflowed: u64,
    /// The longest queue that was seen.
    pub queue: Span,
    /// The path's least round trip.
    pub min_rtt: Span,
}

impl PathTimes {
    /// All of it but for outages.
    pub fn total(&self) -> Span {
        self.growing + self.window + self.buffer + self.lossy + self.full
    }

    /// The rate of the path while it was full.
    pub fn full_rate(&self) -> Rate {
        Rate::of(self.full_bytes, self.full)
    }

    /// Both, one after the other.
    #[must_use]
    pub fn and(self, next: PathTimes) -> PathTimes {
        let least = match (self.min_rtt, next.min_rtt) {
            (Span::ZERO, other) | (other, Span::ZERO) => other,
            (a, b) => a.min(b),
        };
        PathTimes {
            growing: self.growing + next.growing,
            window: self.window + next.window,
            buffer: self.buffer + next.buffer,
            lossy: self.lossy + next.lossy,
            full: self.full + next.full,
            silent: self.silent + next.silent,
            full_bytes: Bytes(self.full_bytes.0 + next.full_bytes.0),
            lost: self.lost + next.lost,
            overflowed: self.overflowed + next.overflowed,
            queue: self.queue.max(next.queue),
            min_rtt: least,
        }
    }
}

/// What the last losses say of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastLosses {
    #[default]
    None,
    /// There was no queue.
    Stray,
    /// A queue overflowed.
    Congestion,
}

/// The first growth of the windows, round by round.
#[derive(Debug)]
struct SlowStart {
    rounds: Rounds,
    /// What the round that runs would be, were it not one of growth.
    pending: PathTimes,
}

/// Watches a sender's samples.
#[derive(Debug)]
pub struct PathMonitor {
    times: PathTimes,
    /// Until the windows have stopped growing for the first time.
    slow_start: Option<SlowStart>,
    last: Option<PathSample>,
    /// Of the last looks with losses: whether a queue overflowed.
    overflows: VecDeque<bool>,
    /// When a buffer last ran empty by the kernel's count.
    empty_at: Option<Time>,
    /// How much of the silence that lasts is in its account.
    silence: Span,
    /// How much had been delivered when more was delivered last, and when that was.
    moved: Option<(Bytes, Time)>,
}

impl Default for PathMonitor {
    fn default() -> PathMonitor {
        let slow_start =
            SlowStart { rounds: Rounds::of(BURST_TRIPS), pending: PathTimes::default() };
        PathMonitor {
            times: PathTimes::default(),
            slow_start: Some(slow_start),
            last: None,
            overflows: VecDeque::new(),
            empty_at: None,
            silence: Span::ZERO,
            moved: None,
        }
    }
}

impl PathMonitor {
    /// Takes in a sample; several a second.
    pub fn handle(&mut self, judged: &JudgedSample) {
        let JudgedSample { sample, lost, has_queue, .. } = *judged;
        let silence = self.silence_of(&sample);
        let Some(last) = self.last.replace(sample) else { return };
        if self.is_silent(&PathSample { silence, ..sample }) {
            return;
        }
        if has_queue {
            self.times.queue = self.times.queue.max(sample.rtt.saturating_sub(sample.min_rtt));
        }
        self.lose(lost);
        let (took, channels) = (sample.at.since(last.at), sample.channels.max(1) as f64);
        let empty = sample.sndbuf_limited.saturating_sub(last.sndbuf_limited);
        if empty > Span::ZERO && empty >= took.mul_f64(EMPTY_PART * channels) {
            self.empty_at = Some(sample.at);
        }
        let spent =
            if sample.network_bound { self.spent(&last, judged) } else { PathTimes::default() };
        match &mut self.slow_start {
            None => self.times = self.times.and(spent),
            Some(slow_start) => {
                slow_start.pending = slow_start.pending.and(spent);
                if let Some(grew) = slow_start.round(&sample) {
                    let pending = std::mem::take(&mut slow_start.pending);
                    let is_over =
                        lost != NewLosses::default() || slow_start.rounds.flat >= FLAT_ROUNDS;
                    self.times = self.times.and(if grew { grown(pending) } else { pending });
                    if is_over {
                        self.slow_start = None;
                    }
                }
            }
        }
    }

    /// What was seen.
    pub fn times(&self) -> PathTimes {
        let min_rtt = self.last.map_or(Span::ZERO, |last| last.min_rtt);
        let left = self.slow_start.as_ref().map_or(PathTimes::default(), |slow_start| {
            if slow_start.rounds.flat == 0 { grown(slow_start.pending) } else { slow_start.pending }
        });
        PathTimes { min_rtt, ..self.times.and(left) }
    }

    /// How long nothing got through. What is left at an outage's end is on channels that wait for
    /// their timers, and hear of it later than the others, which have delivered and are done.
    fn silence_of(&mut self, sample: &PathSample) -> Span {
        match self.moved {
            Some((delivered, at)) if delivered == sample.delivered => {
                sample.silence.min(sample.at.since(at))
            }
            before => {
                self.moved = Some((sample.delivered, sample.at));
                // Of the first look nothing is known of before.
                before.map_or(sample.silence, |_| Span::ZERO)
            }
        }
    }

    /// Whether nothing gets through, which is counted.
    fn is_silent(&mut self, sample: &PathSample) -> bool {
        if !sample.is_outage() {
            self.silence = Span::ZERO;
            return false;
        }
        // Its beginning is known when it has lasted: what other accounts have of that is little.
        let new = sample.silence.saturating_sub(self.silence);
        self.times.silent = self.times.silent + new;
        self.silence = sample.silence;
        true
    }

    fn lose(&mut self, NewLosses { stray, overflowed }: NewLosses) {
        self.times.lost += stray;
        self.times.overflowed += overflowed;
        if stray + overflowed > 0 {
            self.overflows.push_back(overflowed > stray);
            let old = self.overflows.len().saturating_sub(JUDGED);
            self.overflows.drain(..old);
        }
    }

    fn last_losses(&self) -> LastLosses {
        let all = self.overflows.len();
        let overflows = self.overflows.iter().filter(|&&overflowed| overflowed).count();
        match all {
            0 => LastLosses::None,
            _ if overflows * 2 > all => LastLosses::Congestion,
            _ => LastLosses::Stray,
        }
    }

    /// What the time since the last sample went to, growth apart.
    fn spent(&self, last: &PathSample, judged: &JudgedSample) -> PathTimes {
        let sample = &judged.sample;
        let took = sample.at.since(last.at);
        let channels = sample.channels.max(1) as f64;
        let part = |span: Span| Span::from_secs_f64(span.as_secs_f64() / channels).min(took);
        let window = part(sample.rwnd_limited.saturating_sub(last.rwnd_limited));
        let rest = took.saturating_sub(window);
        // Where there is a queue, more in a buffer would only make it longer.
        let starved = if judged.has_queue { 0 } else { sample.starved };
        let buffer = rest.mul_f64(starved as f64 / channels);
        let rest = rest.saturating_sub(buffer);
        let bytes = Bytes(sample.delivered.0.saturating_sub(last.delivered.0));
        let full = PathTimes { full: rest, full_bytes: bytes, ..PathTimes::default() };
        let trips = took.max(sample.min_rtt.mul_f64(EMPTY_TRIPS));
        let runs_empty = self.empty_at.is_some_and(|at| sample.at.since(at) < trips);
        // Without losses such a control has a window for more than the path holds.
        if sample.is_model_based && runs_empty {
            return PathTimes { window, buffer: buffer + rest, ..PathTimes::default() };
        }
        let path = match self.last_losses() {
            _ if judged.has_queue => full,
            // What was lost so often that its repair was lost too waits for a timer, whatever the
            // model says.
            LastLosses::Stray if !judged.fills => PathTimes { lossy: rest, ..PathTimes::default() },
            _ if sample.is_model_based && sample.filled * 2 > sample.channels => {
                PathTimes { window: rest, ..PathTimes::default() }
            }
            _ if sample.is_model_based => full,
            LastLosses::Congestion => full,
            LastLosses::None => PathTimes { growing: rest, ..PathTimes::default() },
            LastLosses::Stray => PathTimes { lossy: rest, ..PathTimes::default() },
        };
        PathTimes { window: window + path.window, buffer, ..path }
    }
}

/// A round in which windows grew, whatever held them meanwhile.
fn grown(times: PathTimes) -> PathTimes {
    PathTimes { growing: times.total(), ..PathTimes::default() }
}

impl SlowStart {
    /// Whether the rate of a round grew, when one is over.
    fn round(&mut self, sample: &PathSample) -> Option<bool> {
        let rate = self.rounds.rate(sample)?;
        // Whether the first grew the second says.
        let is_first = self.rounds.best <= 0.0;
        let grew = self.rounds.judge(rate);
        (!is_first).then_some(grew)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::losses::LossJudge;
    use super::*;
    use crate::units::Time;

    /// A path of 100 Mbit/s and 50 ms, looked at ten times a second for 20 s.
    fn watch(see: impl Fn(u64, PathSample) -> PathSample) -> PathTimes {
        let (mut judge, mut monitor) = (LossJudge::default(), PathMonitor::default());
        let (mut acknowledged, mut retransmits) = (0.0, 0);
        let (mut rwnd_limited, mut sndbuf_limited) = (Span::ZERO, Span::ZERO);
        for step in 0..200_u64 {
            let rate = 1e6 * f64::from(1_u32 << step.min(7)).min(100.0);
            acknowledged += rate / 80.0;
            let sample = see(
                step,
                PathSample {
                    at: Time::ZERO + Span::from_millis(100 * step),
                    channels: 2,
                    delivered: Bytes(acknowledged as u64),
                    retransmits: 0,
                    rtt: Span::from_millis(50),
                    min_rtt: Span::from_millis(50),
                    rwnd_limited: Span::ZERO,
                    filled: 0,
                    starved: 0,
                    sndbuf_limited: Span::ZERO,
                    silence: Span::ZERO,
                    network_bound: true,
                    is_model_based: false,
                },
            );
            retransmits += sample.retransmits;
            rwnd_limited = rwnd_limited + sample.rwnd_limited;
            sndbuf_limited = sndbuf_limited + sample.sndbuf_limited;
            let totals = PathSample { retransmits, rwnd_limited, sndbuf_limited, ..sample };
            monitor.handle(&judge.handle(totals));
        }
        monitor.times()
    }

    fn seconds(span: Span) -> f64 {
        (span.as_secs_f64() * 10.0).round() / 10.0
    }

    #[test]
    fn a_queue_is_a_full_path_and_its_rate_is_told() {
        let queue = Span::from_millis(40);
        let times = watch(|step, sample| PathSample {
            rtt: if step > 8 { sample.min_rtt + queue } else { sample.rtt },
            retransmits: u64::from(step % 40 == 39),
            ..sample
        });
        assert!(seconds(times.full) > 18.0 && times.lossy == Span::ZERO, "{times:?}");
        assert_eq!((times.queue, times.lost, times.overflowed), (queue, 0, 5));
        let rate = times.full_rate().as_bps() as f64;
        assert!((95e6..105e6).contains(&rate), "{rate:.3e}");
    }

    #[test]
    fn a_queue_behind_empty_buffers_is_a_full_path() {
        // What is on its way is far more than what a channel keeps to be sent.
        let times = watch(|step, sample| PathSample {
            rtt: sample.min_rtt.mul_f64(if step > 8 { 1.8 } else { 1.0 }),
            starved: 2,
            ..sample
        });
        assert!(seconds(times.full) > 18.0 && seconds(times.buffer) < 1.0, "{times:?}");
    }

    #[test]
    fn a_loss_without_a_queue_is_the_paths_own() {
        let times =
            watch(|step, sample| PathSample { retransmits: u64::from(step % 10 == 9), ..sample });
        assert!(seconds(times.lossy) > 18.0 && times.full == Span::ZERO, "{times:?}");
        assert_eq!((times.lost, times.overflowed), (20, 0));
    }

    #[test]
    fn a_host_that_is_late_now_and_then_makes_no_full_path() {
        let late = |step: u64| Span::from_millis(if step % 30 > 26 { 9 } else { 0 });
        let times = watch(|step, sample| PathSample {
            rtt: sample.min_rtt + late(step),
            retransmits: u64::from(step % 10 == 9),
            ..sample
        });
        assert!(seconds(times.lossy) > 14.0 && seconds(times.full) < 4.0, "{times:?}");
    }

    #[test]
    fn a_closed_window_and_an_empty_buffer_are_told_apart() {
        let closed =
            watch(|_, sample| PathSample { rwnd_limited: Span::from_millis(180), ..sample });
        assert!(seconds(closed.window) > 16.0, "{closed:?}");
        let empty = watch(|_, sample| PathSample { starved: 2, ..sample });
        assert!(seconds(empty.buffer) > 18.0, "{empty:?}");
    }

    /// As BBR over 40 ms with a buffer of 64 KiB: the kernel counts two fifths of the time, and
    /// what is left to send is as much as what is on its way.
    #[test]
    fn a_paced_buffer_that_runs_empty_is_no_full_path() {
        for (every, rtt) in [(1, 50), (3, 163)] {
            let rtt = Span::from_millis(rtt);
            let paced = watch(|step, sample| PathSample {
                is_model_based: true,
                sndbuf_limited: Span::from_millis(if step % every == 0 { 38 * every } else { 0 }),
                // A look now and then finds an acknowledgement late.
                rtt: rtt + Span::from_millis(if step % 20 == 19 { 4 } else { 0 }),
                min_rtt: rtt,
                ..sample
            });
            let (buffer, full) = (seconds(paced.buffer), seconds(paced.full));
            assert!(buffer > 17.0 && full < 2.0, "{paced:?}");
        }
        // One that grew in time, and that of a path which a little of another buffer fills.
        for until in [8, 0] {
            let full = watch(|step, sample| PathSample {
                is_model_based: true,
                sndbuf_limited: Span::from_millis(if step < until { 38 } else { 1 }),
                ..sample
            });
            assert!(seconds(full.full) > 18.0, "{full:?}");
        }
    }

    #[test]
    fn without_loss_or_queue_only_a_model_has_found_the_rate() {
        let losses = watch(|_, sample| sample);
        assert!(seconds(losses.growing) > 19.0, "{losses:?}");
        let model = watch(|_, sample| PathSample { is_model_based: true, ..sample });
        assert!(seconds(model.full) > 18.0, "{model:?}");
        // But where it settles below what the receiver has room for.
        let room = watch(|_, sample| PathSample { is_model_based: true, filled: 2, ..sample });
        assert!(seconds(room.window) > 18.0 && seconds(room.full) < 1.0, "{room:?}");
    }

    /// As BBR over a path that loses every fifth packet: what is left of a short copy waits for
    /// timers.
    #[test]
    fn what_waits_for_timers_is_lossy_by_a_model_too() {
        let delivered = |step: u64| match step {
            0..=8 => 1_250_000 * (step + 1),
            _ => 1_250_000 * 9 + 12_500 * (step - 8),
        };
        let times = watch(|step, sample| PathSample {
            is_model_based: true,
            delivered: Bytes(delivered(step)),
            retransmits: if step < 9 { 30 } else { 1 },
            ..sample
        });
        assert!(seconds(times.lossy) > 17.0 && seconds(times.full) < 2.0, "{times:?}");
    }

    #[test]
    fn an_outage_is_one_and_a_pause_is_none() {
        // Nothing comes from 5 s on until 12 s; a second's pause at 15 s.
        let delivered = held_while(|step| (51..120).contains(&step) || (151..160).contains(&step));
        let times = watch(|step, sample| PathSample {
            delivered: delivered(step, sample.delivered),
            silence: match step {
                50..120 => Span::from_millis(100 * (step - 50)),
                150..160 => Span::from_millis(100 * (step - 150)),
                _ => Span::ZERO,
            },
            network_bound: !(50..120).contains(&step),
            ..sample
        });
        assert_eq!(seconds(times.silent), 6.9, "{times:?}");
        let all = seconds(times.total());
        assert!((12.8..13.1).contains(&all), "{times:?}");
    }

    /// What has been delivered, but for steps at which nothing is.
    fn held_while(is_away: impl Fn(u64) -> bool) -> impl Fn(u64, Bytes) -> Bytes {
        let last = std::cell::Cell::new(Bytes(0));
        move |step, delivered| {
            if !is_away(step) {
                last.set(delivered);
            }
            last.get()
        }
    }

    #[test]
    fn what_waits_for_its_timers_after_an_outage_counts_once() {
        // From 5 s to 11 s nothing comes, then all but what some channels had on their way, which
        // have heard nothing since and are alone from 12 s to 16 s.
        let is_away = |step| (51..110).contains(&step) || (121..160).contains(&step);
        let delivered = held_while(is_away);
        let times = watch(|step, sample| PathSample {
            delivered: delivered(step, sample.delivered),
            silence: match step {
                50..110 | 120..160 => Span::from_millis(100 * (step - 50)),
                _ => Span::ZERO,
            },
            network_bound: !is_away(step),
            ..sample
        });
        assert_eq!(seconds(times.silent), 5.9 + 3.9, "{times:?}");
    }

    #[test]
    fn what_does_not_wait_for_the_network_is_not_counted() {
        let times = watch(|_, sample| PathSample { network_bound: false, ..sample });
        assert_eq!(times.total(), Span::ZERO);
    }
}
