//! Watches the channels of a sending transfer for the core's tuner.

use super::tally::Tally;
use crate::channels::Handle;
use farline_core::transfer::{Freedom, PathSample};
use farline_core::units::{Bytes, Span, Time};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the channels are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Opens one more data channel; `None` when the peer takes no more.
pub type Dial<'a> = &'a (dyn Fn() -> Option<Box<dyn crate::channels::Channel>> + Sync);

/// What of a sending transfer may change while it runs.
pub struct Tuning<'a> {
    /// What the tuner may change.
    pub freedom: Freedom,
    /// How to open more channels.
    pub dial: Dial<'a>,
    /// What was changed, in words, in order.
    pub changes: &'a Mutex<Vec<String>>,
}

/// Turns what the kernel and the tally say into samples.
pub(super) struct Lookout {
    began: Instant,
    network: Span,
    store_wait: Span,
}

impl Lookout {
    /// Begins now.
    pub(super) fn new() -> Lookout {
        Lookout { began: Instant::now(), network: Span::ZERO, store_wait: Span::ZERO }
    }

    /// A look at all channels; `None` where they are no TCP connections.
    pub(super) fn sample(&mut self, handles: &[Handle], tally: &Tally) -> Option<PathSample> {
        let infos: Vec<_> = handles.iter().filter_map(Handle::tcp_info).collect();
        let count = u32::try_from(infos.len()).ok().filter(|&count| count > 0)?;
        let sum = |part: fn(&crate::sys::tcp::TcpInfo) -> Span| infos.iter().map(part).fold(Span::ZERO, |sum, span| sum + span);
        let (network, store_wait) = (tally.network(), tally.store_wait());
        // Channels that mostly wait for the store say nothing of the network. Those that wait for room at the other end may be many
        // windows of a long path or one slow store; more channels help the one, and the tuner sees that they do not help the other.
        let in_network = network.saturating_sub(self.network) > store_wait.saturating_sub(self.store_wait);
        (self.network, self.store_wait) = (network, store_wait);
        Some(PathSample {
            at: Time::ZERO + Span::from(self.began.elapsed()),
            channels: infos.len(),
            acknowledged: Bytes(infos.iter().map(|info| info.bytes_acked).sum()),
            retransmits: infos.iter().map(|info| info.retransmits).sum(),
            rtt: Span::from_nanos(sum(|info| info.rtt).as_nanos() / u64::from(count)),
            min_rtt: infos.iter().map(|info| info.min_rtt).min().unwrap_or_default(),
            network_bound: in_network,
        })
    }
}
