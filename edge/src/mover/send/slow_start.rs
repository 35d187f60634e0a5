//! Looks at TCP channels in slow start more often than else, and paces them where the path is full.

use super::super::pace::UNLIMITED;
use super::super::tune::{LOOK_EVERY, Notify};
use crate::channels::Handle;
use crate::sys::tcp::TcpInfo;
use farline_core::plan::Reason;
use farline_core::transfer::{SlowStartPace, SlowStartPacer, SlowStartSample};
use farline_core::units::{Bytes, Rate, Span, Time};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// One transfer's, of the channels that it began with.
pub(super) struct SlowStart<'a> {
    pacer: SlowStartPacer,
    began: Instant,
    /// How many channels there were when they were first held.
    channels: Option<usize>,
    /// Is told once that the path is full.
    notify: Notify<'a>,
    is_told: bool,
}

impl<'a> SlowStart<'a> {
    /// Begins now; `notify` learns when channels fill the path. `None` of channels that go by a
    /// model of it, and end slow start by that.
    pub(super) fn of(channels: &[Handle], notify: Notify<'a>) -> Option<SlowStart<'a>> {
        let is_model_based = channels.first().is_none_or(Handle::is_model_based);
        (!is_model_based).then(|| SlowStart {
            pacer: SlowStartPacer::default(),
            began: Instant::now(),
            channels: None,
            notify,
            is_told: false,
        })
    }

    /// Whether channels are held now.
    pub(super) fn holds(&self) -> bool {
        self.pacer.holds()
    }

    /// Waits until the next look at the whole transfer, with looks at slow start meanwhile; returns
    /// whether it still runs.
    pub(super) fn wait(&mut self, still: &Receiver<()>, channels: &[Handle]) -> bool {
        let until = Instant::now() + LOOK_EVERY;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let look = self.look(channels).map_or(left, |next| Duration::from(next).min(left));
            if still.recv_timeout(look) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// Lifts what holds the channels, for good.
    pub(super) fn end(&mut self, channels: &[Handle]) {
        if self.holds() {
            self.apply(SlowStartPace::Free, channels);
        }
        self.pacer.end();
    }

    /// Looks at the channels; returns in how long again.
    fn look(&mut self, channels: &[Handle]) -> Option<Span> {
        // Those that were opened meanwhile begin by themselves.
        let channels = &channels[..self.channels.unwrap_or(channels.len()).min(channels.len())];
        let sample = self.sample(channels)?;
        if let Some(pace) = self.pacer.handle(sample) {
            self.channels = Some(channels.len());
            self.apply(pace, channels);
        }
        if let Some(rate) = self.pacer.full_rate().filter(|_| !self.is_told) {
            let SlowStartSample { rtt, min_rtt, .. } = sample;
            (self.notify)(Reason::SlowStartEnded(rate, rtt, min_rtt));
            self.is_told = true;
        }
        self.pacer.next_look(sample.min_rtt)
    }

    fn sample(&self, channels: &[Handle]) -> Option<SlowStartSample> {
        self.pacer.next_look(Span::ZERO)?;
        let infos: Vec<_> = channels.iter().filter_map(Handle::tcp_info).collect();
        let mut rtts: Vec<_> = infos.iter().map(|info| info.rtt).collect();
        rtts.sort_unstable();
        Some(SlowStartSample {
            at: Time::ZERO + Span::from(self.began.elapsed()),
            delivered: Bytes(infos.iter().map(|info| info.delivered).sum()),
            in_flight: Bytes(infos.iter().map(|info| info.in_flight).sum()),
            windows: Bytes(infos.iter().map(TcpInfo::window).sum()),
            rtt: *rtts.get(rtts.len().checked_sub(1)? / 2)?,
            min_rtt: infos.iter().map(|info| info.min_rtt).min()?,
            retransmits: infos.iter().map(|info| info.retransmits).sum(),
            is_slow_start: infos.iter().any(TcpInfo::is_slow_start),
        })
    }

    fn apply(&self, pace: SlowStartPace, channels: &[Handle]) {
        let rate = match pace {
            SlowStartPace::At(rate) => rate.as_bps() / channels.len().max(1) as u64,
            SlowStartPace::Free => UNLIMITED.as_bps(),
        };
        for channel in channels {
            channel.pace(Rate::from_bps(rate));
        }
    }
}
