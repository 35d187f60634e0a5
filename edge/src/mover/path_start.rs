//! Has a sending transfer begin from what an earlier one saw of its path, and notes what it sees
//! itself.

use super::tune::{LOOK_EVERY, Notify, flows};
use crate::channels::Handle;
use crate::channels::handle::ConnectionSample;
use crate::sys::lock::lock;
use farline_core::congestion::{Algorithm, ControlName, SavedPath};
use farline_core::plan::{ChannelLimits, Reason};
use farline_core::transfer::PathRecord;
use farline_core::units::{Bytes, Error, Span, Time};
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// Looks without anything new after which nothing more is on its way.
const QUIET_LOOKS: u32 = 50;

/// Over a shorter path slow start is over before a program is loaded into the kernel.
const LEAST_RTT: Span = Span::from_millis(5);

/// One transfer's, over however many channels.
#[derive(Debug)]
pub(crate) struct PathStart {
    /// What an earlier transfer saw, and how long ago, until a channel has begun from it.
    saved: Mutex<Option<(SavedPath, Span)>>,
    observation: Arc<Observation>,
    /// Who looks on after the last byte was given to the channels.
    after: Mutex<Option<After>>,
    /// Loads a control for a kernel's channels, which begin from it, each with its part.
    load: Option<LoadControl>,
    /// What keeps that control loaded.
    control: Mutex<Option<LoadedControl>>,
}

/// Loads a control whose flows begin from what is given: its name, and what keeps it loaded.
pub(crate) type LoadControl = fn(SavedPath) -> Result<(ControlName, LoadedControl), Error>;
/// What keeps a control loaded until it is dropped.
pub(crate) type LoadedControl = Box<dyn Any + Send + Sync>;

/// What was seen so far.
#[derive(Debug)]
struct Observation {
    began: Instant,
    record: Mutex<PathRecord>,
}

/// A thread that looks on until its sender is dropped.
#[derive(Debug)]
struct After {
    over: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl PathStart {
    /// From `saved`, where there is anything.
    pub(crate) fn new(saved: Option<(SavedPath, Span)>) -> PathStart {
        let observation = Observation { began: Instant::now(), record: Mutex::default() };
        PathStart {
            saved: Mutex::new(saved),
            observation: Arc::new(observation),
            after: Mutex::default(),
            load: None,
            control: Mutex::default(),
        }
    }

    /// The same, where a kernel's channels may be given a control that begins from it.
    pub(crate) fn loading(self, load: LoadControl) -> PathStart {
        PathStart { load: Some(load), ..self }
    }

    /// Whether to begin takes longer than data should wait: a kernel's channels are given a
    /// control, which has its use for a round trip from then on.
    pub(super) fn takes_long(&self, channels: &[Handle]) -> bool {
        let saved = *lock(&self.saved);
        saved
            .is_some_and(|(saved, _)| of_kernel(channels).is_some_and(|begun| is_use(saved, begun)))
    }

    /// Has the channels begin so, each connection with its part: together they may send no more
    /// than the path was seen to hold.
    pub(super) fn begin(&self, channels: &[Handle], notify: Notify<'_>) {
        let Some((saved, age)) = lock(&self.saved).take() else { return };
        let SavedPath { in_flight, rtt, .. } = saved;
        let windows = of_kernel(channels);
        let is_by_bpf = windows.is_some();
        let begun = match windows {
            Some(_) if rtt < LEAST_RTT => return,
            Some(begun) if !is_use(saved, begun) => {
                Err(format!("its channels begin with {begun} already"))
            }
            Some(_) => self.begin_in_kernel(channels, saved),
            None if resume(channels, saved) => Ok(()),
            None => Err("the congestion control of its channels does not begin from it".to_owned()),
        };
        notify(match begun {
            Ok(()) => Reason::Resumed { in_flight, rtt, age, is_by_bpf },
            Err(why) => Reason::NotResumed { in_flight, why },
        });
    }

    /// Gives a kernel's channels a control that begins so.
    fn begin_in_kernel(&self, channels: &[Handle], saved: SavedPath) -> Result<(), String> {
        let is_cubic =
            |channel: &Handle| channel.congestion().is_some_and(|name| name == Algorithm::Cubic);
        if !channels.iter().all(is_cubic) {
            return Err("of TCP's controls only cubic begins from it".to_owned());
        }
        let part = part_of(saved, channels.len());
        let load = self.load.ok_or(
            "over TCP it takes BPF, which a node gives up that loads no controls for its clients",
        )?;
        let (name, control) = load(part).map_err(|error| without_bpf(&error, channels.len()))?;
        let refused =
            |error: io::Error| format!("the kernel gives its channels no control: {error}");
        channels.iter().try_for_each(|channel| channel.set_congestion(name)).map_err(refused)?;
        *lock(&self.control) = Some(control);
        Ok(())
    }

    /// Whether a kernel's channels have a control that begins from what was seen.
    pub(super) fn is_by_bpf(&self) -> bool {
        lock(&self.control).is_some()
    }

    /// Takes in what a look at all channels showed.
    pub(super) fn handle(&self, samples: &[ConnectionSample]) {
        self.observation.handle(samples);
    }

    /// The channels have all that is to be sent. Where they keep it in this process, as QUIC and
    /// UDT do, most of it has yet to go, and that is looked at until the transfer is over.
    pub(super) fn keep_sampling(&self, channels: Vec<Handle>) {
        let samples: Vec<_> = channels.iter().map(Handle::sample).collect();
        self.handle(&samples);
        let rest: Vec<_> =
            channels.into_iter().zip(&samples).filter(|(_, sample)| sample.tcp.is_none()).collect();
        if rest.iter().all(|(_, sample)| sample.flow.is_none()) {
            return;
        }
        let rest: Vec<Handle> = rest.into_iter().map(|(channel, _)| channel).collect();
        let (over, still) = mpsc::channel();
        let observation = Arc::clone(&self.observation);
        let watch = move || observation.sample_until(&rest, &still);
        let thread = std::thread::Builder::new().name("path".to_owned()).spawn(watch);
        // Without a thread the record ends here.
        *lock(&self.after) = thread.ok().map(|thread| After { over, thread });
    }

    /// What was seen, once all of it has arrived.
    pub(crate) fn record(&self) -> PathRecord {
        if let Some(After { over, thread }) = lock(&self.after).take() {
            drop(over);
            let _ = thread.join();
        }
        lock(&self.observation.record).clone()
    }
}

/// Why so many of a kernel's channels begin as over any path.
fn without_bpf(error: &Error, channels: usize) -> String {
    let (why, most) = (format!("over TCP it takes BPF: {error}"), ChannelLimits::TRANSFER);
    match channels < most as usize {
        true => why,
        false => format!("{why}; else more channels do it, and {most} are the most"),
    }
}

/// What the windows of a kernel's channels let go together; `None` where no kernel has them.
fn of_kernel(channels: &[Handle]) -> Option<Bytes> {
    let windows = channels.iter().filter_map(Handle::tcp_info).map(|info| info.window());
    windows.reduce(|sum, window| sum + window).map(Bytes)
}

/// Has each connection that controls itself begin from its part of `saved`; several channels may be
/// of one. Says whether any does.
fn resume<'c>(channels: &'c [Handle], saved: SavedPath) -> bool {
    let flow = |channel: &'c Handle| Some((channel.sample().flow?.connection, channel));
    let connections: BTreeMap<usize, &Handle> = channels.iter().filter_map(flow).collect();
    let part = part_of(saved, connections.len());
    connections.values().filter(|channel| channel.resume(part)).count() > 0
}

/// What one of so many connections begins with.
fn part_of(saved: SavedPath, connections: usize) -> SavedPath {
    SavedPath { in_flight: Bytes(saved.in_flight.0 / connections.max(1) as u64), ..saved }
}

/// Whether to load a control is of use to a kernel's channels that begin with windows of `begun`.
fn is_use(saved: SavedPath, begun: Bytes) -> bool {
    saved.rtt >= LEAST_RTT && saved.is_worth_a_jump_from(begun)
}

impl Observation {
    /// Looks until `still` closes, or nothing arrives any more.
    fn sample_until(&self, channels: &[Handle], still: &mpsc::Receiver<()>) {
        let (mut quiet, mut before) = (0, 0);
        while quiet < QUIET_LOOKS
            && still.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout)
        {
            let arrived = self.sample(channels);
            quiet = if arrived > before { 0 } else { quiet + 1 };
            before = arrived;
        }
        self.sample(channels);
    }

    /// A look at all channels; returns how many bytes have arrived.
    fn sample(&self, channels: &[Handle]) -> u64 {
        self.handle(&channels.iter().map(Handle::sample).collect::<Vec<_>>())
    }

    /// Takes in what a look showed; returns how many bytes have arrived.
    fn handle(&self, samples: &[ConnectionSample]) -> u64 {
        let flows = flows(samples);
        if flows.is_empty() {
            return 0;
        }
        let arrived = flows.values().map(|flow| flow.arrived).sum();
        let rtt = flows.values().filter_map(|flow| flow.rtt).min();
        let packets = flows
            .values()
            .fold((0, 0), |(sent, again), flow| (sent + flow.packets.0, again + flow.packets.1));
        let now = Time::ZERO + Span::from(self.began.elapsed());
        lock(&self.record).sample(now, Bytes(arrived), rtt, packets);
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::{ErrorCode, Fault};

    #[test]
    fn who_may_load_no_bpf_hears_what_channels_could_do() {
        let error = Error::new(Fault::Refused, ErrorCode::CongestionCapability, "not yours");
        let said = [1, 15, 16, 20].map(|channels| without_bpf(&error, channels));
        assert!(said.iter().all(|said| said.contains("takes BPF: ")), "{said:?}");
        let is_most = said.each_ref().map(|said| said.ends_with("16 are the most"));
        assert_eq!(is_most, [false, false, true, true], "{said:?}");
    }
}
