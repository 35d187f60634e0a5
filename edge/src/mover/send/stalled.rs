//! Channels that stand: nothing gets through, and their retransmission timers run out one after
//! the other. They are had to try often, so that they move again soon after an outage.

use crate::channels::Handle;
use crate::channels::handle::ConnectionSample;

/// Which of a transfer's channels stand.
#[derive(Debug, Default)]
pub(super) struct StalledChannels(Vec<bool>);

impl StalledChannels {
    /// A look at all `channels`. The first timer of a channel that ran out may be a loss like any
    /// other; it costs nothing to know of it then.
    pub(super) fn sample(&mut self, channels: &[Handle], samples: &[ConnectionSample]) {
        self.0.resize(channels.len(), false);
        for ((stood, channel), sample) in self.0.iter_mut().zip(channels).zip(samples) {
            let Some(info) = &sample.tcp else { continue };
            let stands = info.timeouts_in_a_row > 0;
            if stands != *stood {
                channel.retry_often(stands.then_some(info.rtt));
                *stood = stands;
            }
        }
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
            stalled.sample(&channels, &[sample(0), sample(timeouts)]);
        }
        assert_eq!(*stands.0.lock().expect("no panic"), [Some(rtt), None], "each said once");
        assert!(moves.0.lock().expect("no panic").is_empty());
        // One that is no TCP connection has timers of its own.
        stalled.sample(&channels, &[ConnectionSample::default(), ConnectionSample::default()]);
        assert_eq!(stands.0.lock().expect("no panic").len(), 2);
    }
}
