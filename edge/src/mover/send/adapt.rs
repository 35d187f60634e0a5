//! What changes of a transfer while it sends: more channels, another control, a larger pool.

use super::super::pace::LiveRate;
use super::super::path_start::PathStart;
use super::super::tune::{LOOK_EVERY, Notify, OpenOutcome, PathSampler, Pool, Room, Tuning};
use super::Shared;
use super::slow_start::SlowStart;
use super::stalled::StalledChannels;
use crate::channels::handle::YieldedPart;
use crate::channels::{Channel, Handle};
use crate::sys::lock::lock;
use farline_core::congestion::ControlName;
use farline_core::copy::HeldRate;
use farline_core::gridftp::checked::Check;
use farline_core::plan::Reason;
use farline_core::transfer::{
    Advice, ChannelAutotuner, ChannelId, LossJudge, PathMonitor, Watermarks,
};
use farline_core::units::Rate;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Looks at sockets that are being emptied: so many a round trip, which the last bytes take anyway.
const FLUSH_LOOKS: u32 = 8;
const FLUSH_LEAST: Duration = Duration::from_millis(1);
const FLUSH_MOST: Duration = Duration::from_millis(10);

impl Shared<'_> {
    /// Looks at channels and pool until `still` closes and does what tuner and growth say; returns
    /// the threads of channels it opened.
    pub(super) fn supervise<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        tuning: Option<&Tuning<'_>>,
        mut pool: Option<Pool<'_>>,
        watching: Watching<'_>,
        still: &mpsc::Receiver<()>,
    ) -> Vec<ScopedJoinHandle<'scope, Option<Box<dyn Channel>>>> {
        let Watching { mut watched, start, mut yields } = watching;
        let (mut threads, mut sampler) = (Vec::new(), PathSampler::new());
        let (mut judge, mut monitor) = (LossJudge::default(), PathMonitor::default());
        let mut tuner = tuning.map(|tuning| (ChannelAutotuner::new(tuning.tuning_limits), tuning));
        let (mut wanted, mut congestion, mut before) = (watched.len(), None, None);
        let mut stalled = StalledChannels::default();
        // Who holds channels to a rate has no need of another.
        let mut slow_start = tuning
            .filter(|_| self.job.pace.is_none() && yields.is_none())
            .and_then(|tuning| SlowStart::of(&watched, tuning.notify));
        while match &mut slow_start {
            Some(slow_start) => slow_start.wait(still, &watched),
            None => still.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout),
        } {
            let samples: Vec<_> = watched.iter().map(Handle::sample).collect();
            stalled.sample(&watched, &samples, Instant::now());
            if let Some(pool) = &mut pool {
                let (rests, window) = {
                    let machine = &lock(&self.state).machine;
                    (machine.rests(), machine.window())
                };
                let rtt = samples.iter().filter_map(|sample| sample.rtt).min();
                self.grow(pool.sample(watched.iter(), rtt, self.job.tally, rests, window));
            }
            start.inspect(|start| start.handle(&samples));
            // Who knows the path looks for itself whether it became another (RFC 9959).
            if start.is_some_and(PathStart::is_by_bpf) {
                slow_start.iter_mut().for_each(|slow_start| slow_start.end(&watched));
            }
            yields.iter_mut().for_each(|yields| yields.sample(&watched));
            let sample = sampler.sample(&watched, &samples, self.job.tally, self.is_flushing());
            let judged = sample.map(|sample| judge.handle(sample));
            if let Some(judged) = &judged {
                monitor.handle(judged);
                self.job.tally.see_path(monitor.times());
            }
            let Some((tuner, tuning)) = &mut tuner else { continue };
            // What of it helps TCP is not said to help others.
            let is_tcp = samples.iter().any(|sample| sample.tcp.is_some());
            let is_held = slow_start.as_ref().is_some_and(SlowStart::holds);
            let judged = judged.filter(|_| is_tcp);
            judged.iter().for_each(|judged| tuner.handle(&judged.held_back(is_held)));
            while let Some(advice) = tuner.poll() {
                match advice {
                    // The pace, with what it makes up for, is no word on the path.
                    Advice::Measured { .. } if self.job.pace.is_some() => {}
                    Advice::Measured { why } => (tuning.notify)(why),
                    Advice::Congestion { name, why } => {
                        before = watched.first().and_then(Handle::congestion);
                        // A control that this process may not use changes nothing.
                        if give(&watched, name) {
                            slow_start.iter_mut().for_each(|start| start.end(&watched));
                            congestion = Some(name);
                            (tuning.notify)(why);
                        }
                    }
                    Advice::Restore { found, before: rate } => {
                        if let Some(control) = before.take().filter(|&name| give(&watched, name)) {
                            (tuning.notify)(Reason::Restored { control, found, before: rate });
                            congestion = Some(control);
                        }
                    }
                    Advice::AddChannels { count, why } => {
                        wanted = watched.len() + count;
                        (tuning.ask)(wanted);
                        (tuning.notify)(why);
                    }
                }
            }
            while watched.len() < wanted {
                match self.join(scope, tuning, congestion, &mut watched) {
                    Joined::Runs(thread) => threads.push(thread),
                    Joined::NotYet => break,
                    Joined::NoMore => wanted = watched.len(),
                }
            }
        }
        // The channels may be another transfer's next.
        slow_start.iter_mut().for_each(|slow_start| slow_start.end(&watched));
        if let Some(yields) = yields {
            yields.last_sample(&watched);
        }
        if let Some(start) = start {
            start.keep_sampling(watched);
        }
        self.job.tally.end_path();
        threads
    }

    /// Waits until all that the channels were given has left this host: large socket buffers take a
    /// whole file at once, and the path is in use until they are empty.
    pub(super) fn flush(&self) {
        self.is_flushing.store(true, Ordering::Relaxed);
        while self.job.cancel.reason().is_none() {
            let since = Instant::now();
            let left: Vec<_> = {
                let state = lock(&self.state);
                let infos = state.orders.iter().filter_map(|(_, handle)| handle.tcp_info());
                infos.filter(|info| info.established && info.not_sent > 0).collect()
            };
            let Some(rtt) = left.iter().map(|info| info.rtt).min() else { return };
            std::thread::sleep((Duration::from(rtt) / FLUSH_LOOKS).clamp(FLUSH_LEAST, FLUSH_MOST));
            self.job.tally.add_flush(left.len(), since);
        }
    }

    fn is_flushing(&self) -> bool {
        self.is_flushing.load(Ordering::Relaxed)
    }

    /// Takes new slots into the pool, and has more of it on its way.
    pub(super) fn grow(&self, room: Room) {
        if room.is_none() {
            return;
        }
        let Room { slots, wider } = room;
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let (more, all) = (slots.len(), state.checks.len() + slots.len());
        state.checks.resize(all, Check::default());
        state.free.grow(slots);
        state.machine.widen(wider);
        let watermarks = Watermarks::above_window(state.machine.window().0, all);
        state.machine.grow(more, watermarks);
        self.drain(state);
    }

    /// Opens one more channel and runs it.
    fn join<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        tuning: &Tuning<'_>,
        congestion: Option<ControlName>,
        watched: &mut Vec<Handle>,
    ) -> Joined<'scope> {
        if !lock(&self.state).machine.promise() {
            return Joined::NoMore;
        }
        let opened = match (tuning.open)() {
            OpenOutcome::Opened(channel) => match (channel.handle(), channel.handle()) {
                (Ok(handle), Ok(waker)) => Ok((handle, waker, channel)),
                _ => Err(Joined::NoMore),
            },
            OpenOutcome::NotYet => Err(Joined::NotYet),
            OpenOutcome::NoMore => Err(Joined::NoMore),
        };
        let (handle, waker, mut channel) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                let mut state = lock(&self.state);
                state.machine.give_up();
                // An end may have waited for this channel.
                self.drain(&mut state);
                return why;
            }
        };
        if let Some(name) = congestion {
            // The others took it a moment ago; without it the channel is as good as it was.
            let _ = handle.set_congestion(name);
        }
        channel.check_blocks(self.job.integrity.checks);
        watched.extend(channel.handle());
        self.job.cancel.watch(handle);
        let (orders, queue) = mpsc::channel();
        let id = {
            let mut state = lock(&self.state);
            // Who cancelled while this channel was opened has told the others to end, and does not
            // know of this one.
            if self.job.cancel.reason().is_some() {
                let _ = orders.send(None);
            }
            state.orders.push((orders, waker));
            ChannelId(state.orders.len() - 1)
        };
        Joined::Runs(scope.spawn(move || self.drive(id, channel, &queue)))
    }
}

/// The channels of a transfer that sends, and who looks at them.
pub(super) struct Watching<'a> {
    pub(super) watched: Vec<Handle>,
    pub(super) start: Option<&'a PathStart>,
    pub(super) yields: Option<Yields<'a>>,
}

/// Tells when a channel gives way that holds a rate: when it begins to, and where that ends.
pub(super) struct Yields<'a> {
    booked: Rate,
    /// What may become of that.
    live: Option<(HeldRate, LiveRate)>,
    notify: Notify<'a>,
    told: Option<f64>,
}

impl<'a> Yields<'a> {
    /// Of channels that hold `booked` each, or what becomes of that.
    pub(super) fn new(
        booked: Rate,
        live: Option<(HeldRate, LiveRate)>,
        notify: Notify<'a>,
    ) -> Yields<'a> {
        Yields { booked, live, notify, told: None }
    }

    fn sample(&mut self, channels: &[Handle]) {
        // What is in the socket's buffer already goes at the new rate too.
        let share = self
            .live
            .as_ref()
            .map_or(self.booked, |(held, live)| HeldRate { rate: live.rate(), ..*held }.share());
        if share != self.booked && channels.iter().all(|handle| handle.pace(share)) {
            self.booked = share;
        }
        if self.told.is_none() {
            self.say(channels);
        }
    }

    fn last_sample(mut self, channels: &[Handle]) {
        self.say(channels);
    }

    fn say(&mut self, channels: &[Handle]) {
        let Some(left) = least_left(channels) else { return };
        if self.told.is_none_or(|told| left.part < told) {
            self.told = Some(left.part);
            (self.notify)(left.of(self.booked));
        }
    }
}

/// What is left of the rate of the channel that gave up most of it.
pub(crate) fn least_left<'h>(
    channels: impl IntoIterator<Item = &'h Handle>,
) -> Option<YieldedPart> {
    let left = channels.into_iter().filter_map(Handle::yielded);
    left.min_by(|a, b| a.part.total_cmp(&b.part))
}

impl YieldedPart {
    /// Of a rate of `booked`, in the words of a copy.
    pub(crate) fn of(self, booked: Rate) -> Reason {
        let rate = Rate::from_bps((booked.as_bps() as f64 * self.part) as u64);
        Reason::Yielded { booked, rate, why: self.why }
    }
}

/// Gives all channels a congestion control; whether any took it.
fn give(channels: &[Handle], name: ControlName) -> bool {
    channels.iter().filter(|handle| handle.set_congestion(name).is_ok()).count() > 0
}

/// What came of one more channel.
enum Joined<'scope> {
    Runs(ScopedJoinHandle<'scope, Option<Box<dyn Channel>>>),
    NotYet,
    NoMore,
}
