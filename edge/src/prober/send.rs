//! The sending end of a measurement: keeps every stream full, and asks the kernel what held it
//! back.

use super::{BUSY, ProbeRequest, TIMEOUT, Work, thread_time};
use crate::channels::socket::{TcpOptions, connect_stream};
use crate::sys::tcp::{TcpInfo, fix_send_buffer, notice_dead_peer, pace, tcp_info};
use farline_core::profile::{Grid, LimitedBy, Lost};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How often the kernel is asked.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A window that shrank by more than this share between two looks was reduced.
const REDUCED: f64 = 0.05;

/// Shares of the time in which something held the streams back, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// The receiver's window.
    pub receiver_window: f64,
    /// The send buffer.
    pub send_buffer: f64,
}

/// What the sender knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProbeSent {
    /// Acknowledged, over the whole time, in bit/s.
    pub acked_bps: f64,
    /// The least round-trip time of any stream.
    pub min_rtt: Span,
    /// Segments sent again.
    pub retransmits: u64,
    /// Acknowledged in each sample interval, in bit/s.
    #[serde(default)]
    pub samples_bps: Vec<f64>,
    /// Retransmission timers that ran out; kernels before 6.7 do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// How often a window was seen to shrink.
    pub reductions: u64,
    /// What held the streams back, averaged over them.
    pub limits: Limits,
    /// When segments were sent again, for each sample interval in which some were.
    #[serde(default)]
    pub losses: Vec<Lost>,
    /// The sending threads'.
    pub work: Work,
}

impl ProbeSent {
    /// What held the streams back for most of the time.
    pub fn limited_by(&self, limit: Option<Rate>) -> LimitedBy {
        if self.work.busiest > BUSY {
            LimitedBy::Cpu
        } else if limit.is_some_and(|limit| self.acked_bps > BUSY * limit.as_bps() as f64) {
            LimitedBy::Host
        } else if self.limits.receiver_window > 0.5 {
            LimitedBy::ReceiverWindow
        } else if self.limits.send_buffer > 0.5 {
            LimitedBy::SendBuffer
        } else {
            LimitedBy::Congestion
        }
    }
}

/// Sends to `address` what `request` asks for.
///
/// # Errors
/// [`Fault::Between`] when the path fails before the time is over; [`Fault::Here`] when this host
/// refuses a socket option.
pub fn send(address: SocketAddr, request: &ProbeRequest) -> Result<ProbeSent, Error> {
    let asked = Instant::now();
    let options = TcpOptions { congestion: request.congestion, ..TcpOptions::default() };
    let mut streams = Vec::new();
    for _ in 0..request.streams {
        let stream = connect_stream(address, None, &options, TIMEOUT).map_err(|error| {
            Error::new(
                Fault::Between,
                ErrorCode::ProfileConnect,
                format!("connecting to {address}: {error}"),
            )
            .hint("is the other end there?")
        })?;
        streams.push(stream);
    }
    fill(&streams, request, asked, &|| Ok(()))
}

/// Sends over `streams`, which stand, what `request` asked for at the time `asked`; `allow` is
/// asked all the while and may end it.
///
/// # Errors
/// As [`send`], and what `allow` says.
pub fn fill(
    streams: &[TcpStream],
    request: &ProbeRequest,
    asked: Instant,
    allow: &dyn Fn() -> Result<(), Error>,
) -> Result<ProbeSent, Error> {
    let here = |error: io::Error| {
        Error::new(Fault::Here, ErrorCode::ProfileSend, format!("setting a socket up: {error}"))
    };
    for stream in streams {
        notice_dead_peer(stream).map_err(here)?;
        if let Some(buffer) = request.buffer {
            fix_send_buffer(stream, buffer)?;
        }
        if let Some(limit) = request.limit {
            pace(stream, Some(Rate::from_bps(limit.as_bps() / u64::from(request.streams).max(1))))
                .map_err(here)?;
        }
    }
    let start = Barrier::new(streams.len() + 1);
    let message =
        vec![
            0;
            usize::try_from(request.message.unwrap_or(Grid::USUAL_MESSAGE).0).unwrap_or(1).max(1)
        ];
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(|| write_on(stream, &message, &start)))
            .collect();
        std::thread::sleep(
            (asked + Duration::from_secs_f64(request.begin_in_s))
                .saturating_duration_since(Instant::now()),
        );
        start.wait();
        let began = Instant::now();
        let mut watch = Watch::new(streams.len(), request.sample_s);
        let over = Duration::from_secs_f64(request.seconds);
        let mut allowed = Ok(());
        while began.elapsed() < over
            && allowed.is_ok()
            && !threads.iter().any(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(LOOK_EVERY);
            watch.sample(streams, began.elapsed().as_secs_f64());
            allowed = allow();
        }
        let elapsed = began.elapsed();
        // The receiver's time began half a round trip later: it ends the connections when that is
        // over.
        let late = began + over + TIMEOUT;
        while Instant::now() < late
            && allowed.is_ok()
            && !threads.iter().all(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(LOOK_EVERY);
        }
        for stream in streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let mut work = Work::default();
        for thread in threads {
            work.add(
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                began.elapsed(),
            );
        }
        allowed?;
        if elapsed < over.mul_f64(BUSY) {
            let words = format!(
                "a stream broke after {:.1} of {:.1} s",
                elapsed.as_secs_f64(),
                request.seconds
            );
            return Err(Error::new(Fault::Between, ErrorCode::ProfileBroken, words)
                .hint("is the path still up?"));
        }
        Ok(ProbeSent { work, ..watch.sent(elapsed) })
    })
}

/// Writes until the connection ends; returns the processor time that it took.
fn write_on(mut stream: &TcpStream, message: &[u8], start: &Barrier) -> Duration {
    start.wait();
    loop {
        match stream.write(message) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return thread_time(),
        }
    }
}

/// What the kernel said of each stream, last.
struct Watch {
    last: Vec<TcpInfo>,
    reductions: u64,
    sample_s: f64,
    losses: Vec<Lost>,
    acked: Acked,
}

/// What was acknowledged in equal intervals, by looks at odd times.
#[derive(Default)]
struct Acked {
    samples_bps: Vec<f64>,
    /// Bytes at the beginning of the interval that is under way.
    begun: f64,
    /// The last look, in seconds, and its bytes.
    last: (f64, f64),
}

impl Acked {
    /// `bytes` were acknowledged within `elapsed` seconds.
    fn sample(&mut self, elapsed: f64, bytes: u64, sample_s: f64) {
        let now = (elapsed, bytes as f64);
        loop {
            let end = (self.samples_bps.len() + 1) as f64 * sample_s;
            if end > now.0 {
                break;
            }
            // Between two looks as if it had come evenly.
            let share = ((end - self.last.0) / (now.0 - self.last.0).max(1e-9)).clamp(0.0, 1.0);
            let there = self.last.1 + share * (now.1 - self.last.1);
            self.samples_bps.push(((there - self.begun) * 8.0 / sample_s).round());
            self.begun = there;
        }
        self.last = now;
    }

    /// The intervals, with the one that the end cut short by less than half.
    fn samples(mut self, elapsed: f64, sample_s: f64) -> Vec<f64> {
        let begun_at = self.samples_bps.len() as f64 * sample_s;
        if elapsed - begun_at > sample_s / 2.0 && self.last.0 > begun_at {
            self.samples_bps
                .push(((self.last.1 - self.begun) * 8.0 / (self.last.0 - begun_at)).round());
        }
        self.samples_bps
    }
}

impl Watch {
    fn new(streams: usize, sample_s: f64) -> Watch {
        Watch {
            last: vec![TcpInfo::default(); streams],
            reductions: 0,
            sample_s,
            losses: Vec::new(),
            acked: Acked::default(),
        }
    }

    fn sample(&mut self, streams: &[TcpStream], elapsed: f64) {
        let again = |last: &[TcpInfo]| last.iter().map(|info| info.retransmits).sum::<u64>();
        let before = again(&self.last);
        for (last, stream) in self.last.iter_mut().zip(streams) {
            // A connection that has just ended keeps its last figures.
            let Ok(info) = tcp_info(stream) else { continue };
            let before = f64::from(last.congestion_window);
            self.reductions +=
                u64::from(f64::from(info.congestion_window) < before * (1.0 - REDUCED));
            *last = info;
        }
        self.acked.sample(
            elapsed,
            self.last.iter().map(|info| info.bytes_acked).sum(),
            self.sample_s,
        );
        let packets = again(&self.last).saturating_sub(before);
        let at_s = (elapsed / self.sample_s).ceil() * self.sample_s;
        match self.losses.last_mut() {
            _ if packets == 0 => {}
            Some(lost) if lost.at_s == at_s => lost.packets += packets,
            _ => self.losses.push(Lost { at_s, packets }),
        }
    }

    fn sent(self, elapsed: Duration) -> ProbeSent {
        let sum = |of: fn(&TcpInfo) -> u64| self.last.iter().map(of).sum::<u64>();
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let share = |of: fn(&TcpInfo) -> Span| {
            let all: f64 = self.last.iter().map(|info| of(info).as_secs_f64()).sum();
            all / seconds / self.last.len().max(1) as f64
        };
        ProbeSent {
            acked_bps: sum(|info| info.bytes_acked) as f64 * 8.0 / seconds,
            min_rtt: self.last.iter().map(|info| info.min_rtt).min().unwrap_or_default(),
            retransmits: sum(|info| info.retransmits),
            timeouts: self.last.iter().map(|info| info.timeouts).sum(),
            samples_bps: self.acked.samples(seconds, self.sample_s),
            reductions: self.reductions,
            losses: self.losses,
            limits: Limits {
                receiver_window: share(|info| info.rwnd_limited),
                send_buffer: share(|info| info.sndbuf_limited),
            },
            work: Work::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_readings_become_even_samples_the_last_maybe_short() {
        let mut acked = Acked::default();
        // 1000 bytes in the first second, 3000 in the next, and so on.
        for (at, bytes) in
            [(0.4, 400), (0.9, 900), (1.1, 1_300), (1.9, 3_700), (2.2, 4_000), (2.9, 4_000)]
        {
            acked.sample(at, bytes, 1.0);
        }
        assert_eq!(
            acked.samples(2.9, 1.0),
            [8_800.0, 21_600.0, 1_778.0],
            "as if even between two looks"
        );
        let mut slow = Acked::default();
        slow.sample(3.0, 3_000, 1.0);
        assert_eq!(
            slow.samples(3.3, 1.0),
            [8_000.0; 3],
            "one look for three samples, and no part of a fourth"
        );
    }
}
