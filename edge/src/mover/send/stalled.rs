//! Channels that stand. Of some nothing gets through, and their retransmission timers run out one
//! after the other: they are had to try often, so that they move again soon after an outage. Others
//! BBR keeps at the window that it has: where a receiver ran out of memory and took back what it
//! had acknowledged (SACK reneging), Linux takes no sample of a rate until all is repaired, and BBR
//! waits for one to end its least window (PROBE_RTT) or its packet conservation. Reno repairs it.

use crate::channels::Handle;
use crate::channels::handle::ConnectionSample;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::{Algorithm, ControlName};
use std::time::{Duration, Instant};

/// Where a window is enough, no more than so many times that is left to repair after a round trip.
const BEHIND: u64 = 4;
/// PROBE_RTT takes 200 ms and a round trip, packet conservation a round trip.
const STANDS: Duration = Duration::from_secs(2);
const STANDS_TRIPS: u32 = 8;

/// Which of a transfer's channels stand.
#[derive(Debug, Default)]
pub(super) struct StalledChannels(Vec<Stall>);

#[derive(Debug, Default)]
struct Stall {
    /// Its timers run out.
    stands: bool,
    /// Since when its window is no larger than so many segments.
    narrow: Option<(Instant, u32)>,
    /// The control that it has back when it is whole again.
    before: Option<ControlName>,
}

impl StalledChannels {
    /// A look at all `channels` at `now`. The first timer of a channel that ran out may be a loss
    /// like any other; it costs nothing to know of it then.
    pub(super) fn sample(
        &mut self,
        channels: &[Handle],
        samples: &[ConnectionSample],
        now: Instant,
    ) {
        self.0.resize_with(channels.len(), Stall::default);
        for ((stall, channel), sample) in self.0.iter_mut().zip(channels).zip(samples) {
            let Some(info) = &sample.tcp else { continue };
            let stands = info.timeouts_in_a_row > 0;
            if stands != stall.stands {
                channel.retry_often(stands.then_some(info.rtt));
                stall.stands = stands;
            }
            stall.repair(channel, info, now);
        }
    }
}

impl Stall {
    /// Gives the channel reno while BBR keeps it at the window that it has.
    fn repair(&mut self, channel: &Handle, info: &TcpInfo, now: Instant) {
        if let Some(before) = self.before.filter(|_| info.is_whole) {
            // Another that it was given meanwhile it keeps.
            if channel.congestion() == Some(Algorithm::Reno.into()) {
                // Reno is as good as none.
                let _ = channel.set_congestion(before);
            }
            self.before = None;
            return;
        }
        let window = info.congestion_window;
        if !info.is_repairing || info.in_flight < BEHIND * info.window() {
            self.narrow = None;
            return;
        }
        let narrow = self.narrow.filter(|&(_, before)| window <= before);
        let (since, _) = *self.narrow.insert(narrow.unwrap_or((now, window)));
        let long = STANDS.max(Duration::from(info.min_rtt) * STANDS_TRIPS);
        if self.before.is_some() || now.saturating_duration_since(since) < long {
            return;
        }
        let bbr = channel.congestion().filter(|name| name.is_bbr());
        self.before = bbr.filter(|_| channel.set_congestion(Algorithm::Reno.into()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::handle::ConnectionControl;
    use crate::sys::tcp::TcpInfo;
    use farline_core::units::Span;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Debug, Default)]
    struct RecordedRetries(Arc<Mutex<Vec<Option<Span>>>>);

    /// A connection that has the control it was given last.
    #[derive(Clone, Debug)]
    struct RecordedControls(Arc<Mutex<Vec<ControlName>>>);

    impl ConnectionControl for RecordedControls {
        fn rtt(&self) -> Option<Span> {
            None
        }

        fn break_now(&self) {}

        fn congestion(&self) -> Option<ControlName> {
            self.0.lock().expect("no panic").last().copied()
        }

        fn set_congestion(&self, name: ControlName) -> std::io::Result<()> {
            self.0.lock().expect("no panic").push(name);
            Ok(())
        }
    }

    impl ConnectionControl for RecordedRetries {
        fn rtt(&self) -> Option<Span> {
            None
        }

        fn break_now(&self) {}

        fn retry_often(&self, rtt: Option<Span>) {
            self.0.lock().expect("no panic").push(rtt);
        }
    }

    #[test]
    fn a_channel_tries_often_while_it_stands_and_no_longer() {
        let (moves, stands) = (RecordedRetries::default(), RecordedRetries::default());
        let channels = [Handle::new(moves.clone()), Handle::new(stands.clone())];
        let rtt = Span::from_millis(10);
        let sample = |timeouts_in_a_row| ConnectionSample {
            tcp: Some(TcpInfo { rtt, timeouts_in_a_row, ..TcpInfo::default() }),
            ..ConnectionSample::default()
        };
        let mut stalled = StalledChannels::default();
        for timeouts in [0, 1, 2, 5, 0, 0] {
            stalled.sample(&channels, &[sample(0), sample(timeouts)], Instant::now());
        }
        assert_eq!(*stands.0.lock().expect("no panic"), [Some(rtt), None], "each said once");
        assert!(moves.0.lock().expect("no panic").is_empty());
        // One that is no TCP connection has timers of its own.
        let none = [ConnectionSample::default(), ConnectionSample::default()];
        stalled.sample(&channels, &none, Instant::now());
        assert_eq!(stands.0.lock().expect("no panic").len(), 2);
    }

    #[test]
    fn bbr_whose_window_does_not_grow_is_repaired_by_reno() {
        let (bbr, reno) = (ControlName::from(Algorithm::Bbr), ControlName::from(Algorithm::Reno));
        let cubic = ControlName::from(Algorithm::Cubic);
        // Windows that grow by so much at each look, with these segments on their way, for 3 s
        // after a timer ran out; then all is whole.
        for (window, growth, segments, is_repairing, control, given) in [
            (4, 0, 10_000, true, bbr, vec![bbr, reno, bbr]),
            (192, 0, 10_000, true, bbr, vec![bbr, reno, bbr]),
            (4, 1, 10_000, true, bbr, vec![bbr]),
            (4, 0, 15, true, bbr, vec![bbr]),
            (4, 0, 10_000, false, bbr, vec![bbr]),
            (4, 0, 10_000, true, cubic, vec![cubic]),
        ] {
            let controls = RecordedControls(Arc::new(Mutex::new(vec![control])));
            let channels = [Handle::new(controls.clone())];
            let (mut stalled, began) = (StalledChannels::default(), Instant::now());
            for step in 0..40 {
                let info = TcpInfo {
                    min_rtt: Span::from_millis(163),
                    congestion_window: window + growth * step,
                    segment: 8_948,
                    in_flight: segments * 8_948,
                    is_whole: step >= 30,
                    is_repairing: is_repairing && step < 30,
                    ..TcpInfo::default()
                };
                let sample = ConnectionSample { tcp: Some(info), ..ConnectionSample::default() };
                stalled.sample(&channels, &[sample], began + Duration::from_millis(100) * step);
            }
            assert_eq!(*controls.0.lock().expect("no panic"), given, "{window} {segments}");
        }
    }
}
