//! Has a sending transfer begin from what an earlier one saw of its path, and notes what it sees
//! itself.

use super::tune::Notify;
use crate::channels::{Channel, Handle};
use crate::sys::lock::lock;
use farline_core::congestion::{Algorithm, ControlName, SavedPath};
use farline_core::plan::Reason;
use farline_core::transfer::PathRecord;
use farline_core::units::{Bytes, Span, Time};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

/// One transfer's, over however many channels.
#[derive(Debug)]
pub(crate) struct PathStart {
    /// What an earlier transfer saw, and how long ago, until a channel has begun from it.
    saved: Mutex<Option<(SavedPath, Span)>>,
    /// The kernel's control that begins so, for TCP; or why there is none.
    control: Result<ControlName, String>,
    began: Instant,
    record: Mutex<PathRecord>,
}

impl PathStart {
    /// From `saved`, where there is anything.
    pub(crate) fn new(
        saved: Option<(SavedPath, Span)>,
        control: Result<ControlName, String>,
    ) -> PathStart {
        let (began, record) = (Instant::now(), Mutex::default());
        PathStart { saved: Mutex::new(saved), control, began, record }
    }

    /// Whether one of them begins so by a control of the kernel's.
    pub(crate) fn takes_control(channels: &[Box<dyn Channel>]) -> bool {
        channels.iter().any(|channel| {
            channel.tcp_info().is_some()
                && channel.congestion().is_some_and(|name| name == Algorithm::Cubic)
        })
    }

    /// Has one channel begin so: were it more, they would send more than the path was seen to hold.
    pub(super) fn begin(&self, channels: &[Handle], tell: Notify<'_>) {
        let Some((saved, age)) = lock(&self.saved).take() else { return };
        let control = self.control.as_ref().ok().copied();
        let SavedPath { in_flight, rtt } = saved;
        if channels.iter().any(|channel| channel.resume(saved, control)) {
            return tell(Reason::Resumed { in_flight, rtt, age });
        }
        let why = match &self.control {
            Err(why) => why.clone(),
            Ok(_) => "its channels are under another congestion control".to_owned(),
        };
        tell(Reason::NotResumed { in_flight, why });
    }

    /// A look at all channels.
    pub(super) fn look(&self, channels: &[Handle]) {
        // Several channels may be of one connection.
        let flows: BTreeMap<usize, _> =
            channels.iter().filter_map(Handle::flow).map(|flow| (flow.connection, flow)).collect();
        if flows.is_empty() {
            return;
        }
        let arrived = flows.values().map(|flow| flow.arrived).sum();
        let rtt = flows.values().filter_map(|flow| flow.rtt).min();
        let packets = flows
            .values()
            .fold((0, 0), |(sent, again), flow| (sent + flow.packets.0, again + flow.packets.1));
        let now = Time::ZERO + Span::from(self.began.elapsed());
        lock(&self.record).look(now, Bytes(arrived), rtt, packets);
    }

    /// What was seen.
    pub(crate) fn record(&self) -> PathRecord {
        lock(&self.record).clone()
    }
}
