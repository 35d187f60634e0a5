//! The receiving end of a measurement: counts what arrives, stream by stream, in equal intervals.

use super::{ProbeRequest, TIMEOUT, Work, thread_time};
use crate::sys::tcp::fix_window;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kernel drops up to this much at once.
const AT_ONCE: usize = 1 << 20;

/// How often the windows are put right.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProbeReceived {
    /// In each sample interval, all streams together, in bit/s.
    pub samples_bps: Vec<f64>,
    /// Of each stream over the whole time, in bit/s.
    pub streams_bps: Vec<f64>,
    /// The receiving threads'.
    pub work: Work,
}

/// Takes the streams of `request` from `listener` and counts.
///
/// # Errors
/// [`Fault::Between`] when they do not come, or bring nothing; [`Fault::Here`] when this host
/// refuses a socket option.
pub fn receive(listener: &TcpListener, request: &ProbeRequest) -> Result<ProbeReceived, Error> {
    let here = |error: io::Error| {
        Error::new(Fault::Here, ErrorCode::ProfileReceive, format!("receiving: {error}"))
    };
    if let Some(window) = request.window {
        fix_window(listener, window)?;
    }
    // For a listening socket this bounds accept (socket(7)).
    SockRef::from(listener).set_read_timeout(Some(TIMEOUT)).map_err(here)?;
    let mut streams = Vec::new();
    for _ in 0..request.streams {
        let (stream, _) = listener.accept().map_err(|_| silent("a stream"))?;
        streams.push(stream);
    }
    drain(streams, request, &|_| Ok(()))
}

fn silent(what: &str) -> Error {
    Error::new(
        Fault::Between,
        ErrorCode::ProfileSilent,
        format!("the receiver waited {} s for {what}", TIMEOUT.as_secs()),
    )
    .hint("is the path up? `ping` the other end")
}

/// Receives from `streams` what `request` says and counts; `allow` is told the bytes of each sample
/// interval and may end it.
///
/// # Errors
/// As [`receive`], and what `allow` says.
pub fn drain(
    streams: Vec<TcpStream>,
    request: &ProbeRequest,
    allow: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<ProbeReceived, Error> {
    for stream in &streams {
        if let Some(window) = request.window {
            fix_window(stream, window)?;
        }
    }
    let streams: Vec<_> = streams.into_iter().map(Counted::new).collect();
    let began = OnceLock::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.iter().map(|stream| scope.spawn(|| stream.drain(&began))).collect();
        let counted = count(&streams, &began, request, allow);
        for stream in &streams {
            // Nothing more is wanted; a connection that is gone already is no trouble.
            let _ = stream.stream.shutdown(Shutdown::Both);
        }
        let elapsed = began.get().map_or(Duration::ZERO, Instant::elapsed);
        let mut work = Work::default();
        for thread in threads {
            work.add(
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                elapsed,
            );
        }
        Ok(ProbeReceived { work, ..counted? })
    })
}

/// A stream and how much of it has arrived.
struct Counted {
    stream: TcpStream,
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Counted {
    fn new(stream: TcpStream) -> Counted {
        Counted { stream, bytes: AtomicU64::new(0), ended: AtomicBool::new(false) }
    }

    /// Receives until the connection ends; returns the processor time that it took.
    fn drain(&self, began: &OnceLock<Instant>) -> Duration {
        let mut nowhere = vec![0; AT_ONCE];
        loop {
            match recv(&self.stream, &mut nowhere[..], RecvFlags::TRUNC) {
                Ok((_, len)) if len > 0 => {
                    began.get_or_init(Instant::now);
                    self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => {
                    self.ended.store(true, Ordering::Relaxed);
                    return thread_time();
                }
            }
        }
    }
}

/// Samples `streams` from the first byte on.
fn count(
    streams: &[Counted],
    began: &OnceLock<Instant>,
    request: &ProbeRequest,
    allow: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<ProbeReceived, Error> {
    let deadline = Instant::now() + TIMEOUT + Duration::from_secs_f64(request.begin_in_s);
    let start = loop {
        match began.get() {
            Some(start) => break *start,
            None if Instant::now() > deadline => return Err(silent("a first byte")),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let sample = Duration::from_secs_f64(request.sample_s);
    let total = || streams.iter().map(|stream| stream.bytes.load(Ordering::Relaxed)).sum::<u64>();
    let (mut samples_bps, mut last) = (Vec::new(), (start, 0));
    for index in 1..=(request.seconds / request.sample_s).floor().max(1.0) as u32 {
        while let Some(left) = (start + sample * index)
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            std::thread::sleep(left.min(LOOK_EVERY));
            if streams.iter().all(|stream| stream.ended.load(Ordering::Relaxed)) {
                let words = format!(
                    "every stream ended after {:.1} of {:.1} s",
                    start.elapsed().as_secs_f64(),
                    request.seconds
                );
                return Err(Error::new(Fault::Between, ErrorCode::ProfileBroken, words)
                    .hint("is the path still up?"));
            }
            for stream in request.window.iter().flat_map(|_| streams) {
                // It was possible before; a connection that is gone needs no window.
                let _ = fix_window(&stream.stream, request.window.unwrap_or_default());
            }
        }
        let here = (Instant::now(), total());
        // A thread that was woken late counts more in more time: the rate is right.
        samples_bps
            .push((here.1 - last.1) as f64 * 8.0 / (here.0 - last.0).as_secs_f64().max(1e-9));
        allow(here.1 - last.1)?;
        last = here;
    }
    let elapsed = (last.0 - start).as_secs_f64();
    let streams_bps = streams
        .iter()
        .map(|stream| stream.bytes.load(Ordering::Relaxed) as f64 * 8.0 / elapsed)
        .collect();
    Ok(ProbeReceived { samples_bps, streams_bps, work: Work::default() })
}
