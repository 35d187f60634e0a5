//! Measuring a path: TCP streams from one end to the other for a while, with what both ends saw of
//! them.
//!
//! [`send`] and [`receive`] are the ends; they share a [`ProbeRequest`]. [`LinkBench`] runs them in
//! the two sides of an emulated link, one link for each repetition, and so is the
//! [`Bench`](farline_core::profile::Bench) of a profile that is measured. `VerbsBench` does the
//! same with messages between two RDMA devices.
//!
//! The receiver has the kernel drop what arrived instead of copying it (`MSG_TRUNC`, tcp(7)): the
//! question is what the path does, and on a small machine the copy would be the answer. What a
//! transfer does, stores and digests included, is `farline cp`'s to say.

mod bench;
mod ends;
mod joined;
#[cfg(not(feature = "rdma"))]
mod no_verbs;
mod receive;
mod role;
mod send;
mod staged;
#[cfg(feature = "rdma")]
mod verbs;
mod wire;

pub use bench::LinkBench;
pub(crate) use joined::{Controls, joined};
#[cfg(not(feature = "rdma"))]
pub use no_verbs::VerbsBench;
pub use receive::{ProbeReceived, drain, receive};
pub(crate) use role::{Role, Trial, TrialCopy, TrialNode, play};
pub use send::{Limits, ProbeSent, fill, send};
pub(crate) use staged::{check_channel, observed};
#[cfg(feature = "rdma")]
pub use verbs::{VerbsBench, VerbsEnd};
pub(crate) use wire::{MODULE, Report, feature};

use farline_core::congestion::ControlName;
use farline_core::profile::TrafficDirection;
use farline_core::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What both ends are to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProbeRequest {
    /// Connections.
    pub streams: u32,
    /// How long the receiver counts, from its first byte on.
    pub seconds: f64,
    /// How far apart its samples are.
    pub sample_s: f64,
    /// Congestion control of the sender; the host's default when absent.
    pub congestion: Option<ControlName>,
    /// The most that one stream may have on its way; the kernel's own sizing when absent.
    pub window: Option<Bytes>,
    /// What the sender may hold of one stream that is not acknowledged; the kernel's own sizing
    /// when absent.
    #[serde(default)]
    pub buffer: Option<Bytes>,
    /// What the sender hands to the kernel with one call;
    /// [`Grid::USUAL_MESSAGE`](farline_core::profile::Grid::USUAL_MESSAGE) when absent.
    #[serde(default)]
    pub message: Option<Bytes>,
    /// No faster than this, all streams together.
    pub limit: Option<Rate>,
    /// Which way the data goes, seen from who asks; both ways are as many streams each.
    #[serde(default)]
    pub direction: TrafficDirection,
    /// The sender's first byte leaves this long after it was asked, so that a scripted event finds
    /// it where it should.
    pub begin_in_s: f64,
}

/// How long one end waits for the other before it gives up.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Whoever is busy for more than this share of the time was the limit, not the path.
pub(crate) const BUSY: f64 = 0.9;

/// Processor time of a thread or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Work {
    /// Of all threads together, in seconds.
    pub cpu_s: f64,
    /// The busiest thread's share of the time, 0 to 1.
    pub busiest: f64,
}

impl Work {
    /// Puts another thread's processor time in, which it used within `elapsed`.
    fn add(&mut self, cpu: Duration, elapsed: Duration) {
        self.cpu_s += cpu.as_secs_f64();
        self.busiest = self.busiest.max(cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9));
    }
}

/// Processor time of the calling thread so far.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
