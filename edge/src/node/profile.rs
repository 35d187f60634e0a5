//! A node as the receiving end of a measurement, where its operator allows it (docs/protocol.md, M-1 to M-5).

use super::data::DataPlane;
use super::transfer::Run;
use crate::channels::Handle;
use crate::prober::{MODULE, Request, drain};
use farline_core::gridftp::server::Answer;
use farline_core::units::{Error, Fault, Rate};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How far a client may exceed the ceiling in one sample: what the network held back comes at once.
const ROOM: f64 = 1.25;
/// Samples in a row above it after which the measurement ends: M-4.
const PATIENCE: u32 = 3;
/// How often the client hears that it goes on (112): Q-1.
const EVERY: Duration = Duration::from_secs(5);

/// Receives what the client sends for as long as it said, and tells it what arrived; answers with the bytes.
pub(super) fn receive(plane: &mut DataPlane, parms: &str, run: &Run<'_>) -> Result<u64, Error> {
    let shared = std::sync::Arc::clone(&plane.shared);
    let Some(ceiling) = shared.config.allow_profile else {
        return Err(Error::new(Fault::Refused, "profile-not-allowed", "this node does not let itself be measured")
            .hint("its operator can allow it: farline serve --allow-profile RATE"));
    };
    let request = Request::parse(parms)?;
    if plane.private || plane.door.is_none() {
        return Err(Error::new(Fault::You, "bad-sequence", format!("{MODULE} needs a key, and PROT C")));
    }
    let _turn = Turn::take(&shared.measured)?;
    run.reporter.started(false);
    plane.channels.clear();
    plane.await_channels(request.streams as usize, run)?;
    let streams: Result<Vec<_>, _> =
        plane.channels.iter().map(|channel| channel.handle().and_then(Handle::into_stream)).collect();
    let streams = streams.map_err(|error| Error::new(Fault::Here, "no-descriptor", error.to_string()))?;
    // The streams have descriptors of their own; what is measured ends with them.
    plane.channels.clear();
    let watch = Watch { ceiling, over: Cell::new(0), last: Cell::new(Instant::now()) };
    let allow = |bytes: u64| {
        run.tally.add_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        run.cancel.reason().map_or(Ok(()), Err)?;
        watch.look(bytes)
    };
    let (tally, work) = (&run.tally, || drain(streams, &request, &allow));
    // Whole numbers: they cross the control channel as text.
    let mut received = run.reporter.watch(EVERY, tally, work)?;
    received.samples_bps.iter_mut().chain(&mut received.streams_bps).for_each(|bps| *bps = bps.round());
    let words = serde_json::to_string(&received).map_err(|error| Error::new(Fault::Bug, "profile-end", error.to_string()))?;
    run.reporter.say(Answer::Words(words));
    Ok(run.tally.bytes())
}

/// Holds a client to the ceiling (M-4).
struct Watch {
    ceiling: Rate,
    over: Cell<u32>,
    last: Cell<Instant>,
}

impl Watch {
    fn look(&self, bytes: u64) -> Result<(), Error> {
        let elapsed = self.last.replace(Instant::now()).elapsed().as_secs_f64();
        let rate = bytes as f64 * 8.0 / elapsed.max(1e-3);
        self.over.set(if rate > ROOM * self.ceiling.as_bps() as f64 { self.over.get() + 1 } else { 0 });
        if self.over.get() < PATIENCE {
            return Ok(());
        }
        let message = format!("this node may be measured at {} at most", self.ceiling);
        Err(Error::new(Fault::Refused, "profile-ceiling", message).hint("send no faster: --host-rate"))
    }
}

/// The turn of the one session that measures.
struct Turn<'a>(&'a std::sync::atomic::AtomicBool);

impl Turn<'_> {
    fn take(measured: &std::sync::atomic::AtomicBool) -> Result<Turn<'_>, Error> {
        match measured.swap(true, Ordering::AcqRel) {
            false => Ok(Turn(measured)),
            true => Err(Error::new(Fault::Refused, "profile-running", "this node is being measured by another client")
                .hint("two would measure each other: wait for it")),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
