//! Watches a transfer's channels and its staging pool for the core's tuner and its measure of
//! growth.

use super::BLOCK_LEN;
use super::tally::Tally;
use crate::channels::handle::{ConnectionSample, FlowState};
use crate::channels::socket::{TcpOptions, check};
use crate::channels::{Channel, Handle};
use crate::sys::pool::{PoolTerms, Slot, more};
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::{Algorithm, ControlName};
use farline_core::plan::Reason;
use farline_core::transfer::{BufferAutotuner, PathSample, PoolSample, TuningLimits};
use farline_core::units::{Bytes, Span, Time};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the channels are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Takes what was measured or changed.
pub(crate) type Notify<'a> = &'a (dyn Fn(Reason) + Sync);

/// What came of asking for one more data channel.
pub(crate) enum OpenOutcome {
    /// It is open.
    Opened(Box<dyn Channel>),
    /// The other end has not opened it yet.
    NotYet,
    /// The peer takes no more.
    NoMore,
}

/// What of a sending transfer may change while it runs.
pub(crate) struct Tuning<'a> {
    /// What the tuner may change.
    pub tuning_limits: TuningLimits,
    /// Says how many channels there should be in all, where the other end opens them.
    pub ask: &'a (dyn Fn(usize) + Sync),
    /// Opens one more channel, or takes one that the other end opened.
    pub open: &'a (dyn Fn() -> OpenOutcome + Sync),
    /// Is told what was measured and changed.
    pub notify: Notify<'a>,
}

/// What the tuner may change on this host: `channels`, and the control `congestion`, if one is
/// named, for BBR.
pub(crate) fn tuning_limits(channels: bool, congestion: Option<ControlName>) -> TuningLimits {
    let bbr = ControlName::from(Algorithm::Bbr);
    let options = TcpOptions { congestion: Some(bbr), ..TcpOptions::default() };
    TuningLimits {
        window_limit: window_limit("tcp_wmem"),
        channels,
        bbr: congestion.is_some_and(|name| name != bbr) && check(&options).is_ok(),
    }
}

/// The largest window that this host lets a connection grow to: the third number of `tcp_wmem` or
/// `tcp_rmem`.
pub(crate) fn window_limit(sysctl: &str) -> Bytes {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{sysctl}")).unwrap_or_default();
    // Linux's own default for both, roughly.
    Bytes(text.split_whitespace().nth(2).and_then(|text| text.parse().ok()).unwrap_or(4 << 20))
}

/// A channel that has heard nothing for so many round trips, of this at least, knows of none now:
/// the kernel's clock for that ticks in milliseconds, and a receiver may be late with what it
/// acknowledges.
const STALE_TRIPS: f64 = 2.0;
const HEARD: Span = Span::from_millis(40);
/// A channel has on its way what the peer has room for from this part of that on.
const FILLED: f64 = 0.75;

/// Turns what the kernel and the tally say into samples of the path.
pub(super) struct PathSampler {
    began: Instant,
    network: Span,
    store_wait: Span,
    /// Since when there was something on its way at each look.
    waiting_since: Option<Time>,
}

impl PathSampler {
    /// Begins now.
    pub(super) fn new() -> PathSampler {
        PathSampler {
            began: Instant::now(),
            network: Span::ZERO,
            store_wait: Span::ZERO,
            waiting_since: None,
        }
    }

    /// What a look at all channels showed, which are given nothing more when `is_flushing`; `None`
    /// where nothing is known of their path.
    pub(super) fn sample(
        &mut self,
        handles: &[Handle],
        samples: &[ConnectionSample],
        tally: &Tally,
        is_flushing: bool,
    ) -> Option<PathSample> {
        let infos: Vec<_> = samples.iter().filter_map(|sample| sample.tcp.as_ref()).collect();
        if infos.is_empty() {
            return self.of_flows(handles, samples, tally);
        }
        let sum = |part: fn(&TcpInfo) -> Span| {
            infos.iter().map(|info| part(info)).fold(Span::ZERO, |sum, span| sum + span)
        };
        let in_network = self.in_network(tally);
        let min_rtt = infos.iter().map(|info| info.min_rtt).min().unwrap_or_default();
        let heard =
            infos.iter().filter(|info| info.silence <= info.rtt.max(HEARD).mul_f64(STALE_TRIPS));
        let at = Time::ZERO + Span::from(self.began.elapsed());
        Some(PathSample {
            at,
            channels: infos.len(),
            delivered: Bytes(infos.iter().map(|info| info.delivered).sum()),
            retransmits: infos.iter().map(|info| info.retransmits).sum(),
            // One that waits for its timer says of a queue what was so before.
            rtt: heard.map(|info| info.rtt).min().unwrap_or(min_rtt),
            min_rtt,
            rwnd_limited: sum(|info| info.rwnd_limited),
            // Who has nothing left to send lacks no room for it.
            starved: if is_flushing {
                0
            } else {
                infos.iter().filter(|info| info.not_sent * 20 < info.in_flight).count()
            },
            filled: infos.iter().filter(|info| is_filled(info)).count(),
            sndbuf_limited: sum(|info| info.sndbuf_limited),
            silence: self.silence(at, &infos),
            network_bound: in_network,
            is_model_based: handles.first().is_some_and(Handle::is_model_based),
        })
    }

    /// The same of channels whose driver does what a kernel does for TCP.
    fn of_flows(
        &mut self,
        handles: &[Handle],
        samples: &[ConnectionSample],
        tally: &Tally,
    ) -> Option<PathSample> {
        let flows = flows(samples);
        let least = |rtt: fn(&FlowState) -> Option<Span>| flows.values().filter_map(rtt).min();
        let (rtt, min_rtt) = (least(|flow| flow.smoothed_rtt)?, least(|flow| flow.rtt)?);
        Some(PathSample {
            at: Time::ZERO + Span::from(self.began.elapsed()),
            channels: samples.len(),
            delivered: Bytes(flows.values().map(|flow| flow.arrived).sum()),
            retransmits: flows.values().map(|flow| flow.packets.1).sum(),
            rtt,
            min_rtt,
            rwnd_limited: Span::ZERO,
            filled: 0,
            starved: 0,
            sndbuf_limited: Span::ZERO,
            silence: Span::ZERO,
            network_bound: self.in_network(tally),
            is_model_based: handles.first().is_some_and(Handle::is_model_based),
        })
    }

    /// How long none of those with something on its way has heard of it. What the kernel has since
    /// the last acknowledgement began before a store gave the next block, where nothing was on its
    /// way.
    fn silence(&mut self, at: Time, infos: &[&TcpInfo]) -> Span {
        let waiting = infos.iter().filter(|info| info.in_flight > 0);
        let Some(silence) = waiting.map(|info| info.silence).min() else {
            self.waiting_since = None;
            return Span::ZERO;
        };
        silence.min(at.since(*self.waiting_since.get_or_insert(at)))
    }

    /// Whether channels waited for the network since the last look. Those that mostly wait for the
    /// store say nothing of it. Those that wait for room at the other end may be many windows of a
    /// long path or one slow store; more channels help the one, and the tuner sees that they do not
    /// help the other.
    fn in_network(&mut self, tally: &Tally) -> bool {
        let (network, store_wait) = (tally.network(), tally.store_wait());
        let in_network =
            network.saturating_sub(self.network) > store_wait.saturating_sub(self.store_wait);
        (self.network, self.store_wait) = (network, store_wait);
        in_network
    }
}

/// Whether what is on its way fills what the peer has room for.
fn is_filled(info: &TcpInfo) -> bool {
    info.peer_window.is_some_and(|window| info.in_flight as f64 >= FILLED * window as f64)
}

/// The connections that a look at channels showed: several channels may be of one.
pub(super) fn flows(samples: &[ConnectionSample]) -> BTreeMap<usize, FlowState> {
    samples.iter().filter_map(|one| one.flow).map(|flow| (flow.connection, flow)).collect()
}

/// Packets that were sent again over channels of which no kernel tells.
pub(super) fn resent(channels: &[Handle]) -> u64 {
    let samples = channels.iter().map(Handle::sample).filter(|sample| sample.tcp.is_none());
    flows(&samples.collect::<Vec<_>>()).values().map(|flow| flow.packets.1).sum()
}

/// Watches a staging pool and maps more of it when that helps.
pub(super) struct Pool<'a> {
    autotuner: BufferAutotuner,
    slots: usize,
    /// Where it shares its memory with others.
    terms: Option<PoolTerms>,
    began: Instant,
    notify: Notify<'a>,
}

impl<'a> Pool<'a> {
    /// Watches the pool of these `slots`; `notify` learns when it grew.
    pub(super) fn new(slots: &[Slot], notify: Notify<'a>) -> Pool<'a> {
        Pool {
            autotuner: BufferAutotuner::new(Bytes((slots.len() * BLOCK_LEN) as u64)),
            slots: slots.len(),
            terms: slots.first().and_then(Slot::terms),
            began: Instant::now(),
            notify,
        }
    }

    /// It has so many now: channels took some more.
    pub(super) fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// A look at the open channels' `handles`, whose least round trip is `rtt`: `rests` is how
    /// often the store's side has rested, `window` how many slots channels may have on their way,
    /// and what that may come to. Returns what is new, nothing most of the time.
    pub(super) fn sample<'h>(
        &mut self,
        handles: impl Iterator<Item = &'h Handle> + Clone,
        rtt: Option<Span>,
        tally: &Tally,
        rests: u64,
        (window, most): (usize, usize),
    ) -> Room {
        let bytes = |slots: usize| Bytes((slots * BLOCK_LEN) as u64);
        // The devices' share of what this process may lock is one for all channels.
        let room = handles.clone().find_map(Handle::room).map_or(u64::MAX, |room| room.0);
        self.autotuner.handle(PoolSample {
            at: Time::ZERO + Span::from(self.began.elapsed()),
            channels: handles.count(),
            waited: tally.store_wait(),
            rests,
            moved: Bytes(tally.bytes()),
            rtt: rtt.unwrap_or_default(),
            window: bytes(window),
            widest: Bytes(bytes(most).0.min(bytes(window).0.saturating_add(room))),
        });
        let Some(resize) = self.autotuner.poll() else { return Room::default() };
        let in_slots = |size: Bytes| usize::try_from(size.0).unwrap_or(usize::MAX) / BLOCK_LEN;
        let lacking = in_slots(resize.staging).saturating_sub(self.slots);
        let slots = match &self.terms {
            Some(terms) => terms.more(self.slots, lacking, BLOCK_LEN),
            None => more(self.slots, lacking, BLOCK_LEN),
        };
        // Without the memory the transfer goes on as it was.
        let Ok(slots) = slots else {
            tally.lack_staging();
            return Room::default();
        };
        self.slots += slots.len();
        let room = Room { wider: in_slots(resize.window).saturating_sub(window), slots };
        if !room.is_none() {
            (self.notify)(resize.why);
        }
        room
    }
}

/// What a pool has more than before.
#[derive(Default)]
pub(super) struct Room {
    /// New slots.
    pub(super) slots: Vec<Slot>,
    /// How many more may be on their way.
    pub(super) wider: usize,
}

impl Room {
    /// Whether it is as it was.
    pub(super) fn is_none(&self) -> bool {
        self.slots.is_empty() && self.wider == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_in_which_nothing_was_on_its_way_is_no_silence() {
        let mut sampler = PathSampler::new();
        let seconds = |seconds: u64| Time::ZERO + Span::from_secs(seconds);
        let idle = TcpInfo { silence: Span::from_secs(5), ..TcpInfo::default() };
        let sent = TcpInfo { in_flight: 1, ..idle };
        assert_eq!(sampler.silence(seconds(10), &[&idle]), Span::ZERO);
        assert_eq!(sampler.silence(seconds(11), &[&sent]), Span::ZERO, "just sent");
        assert_eq!(sampler.silence(seconds(14), &[&sent]), Span::from_secs(3));
        let heard = TcpInfo { silence: Span::from_millis(20), ..sent };
        assert_eq!(sampler.silence(seconds(15), &[&sent, &heard]), heard.silence);
    }
}
