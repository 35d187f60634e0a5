//! The thread that sends load frames at a pace: bursts of a stated number of frames, each at its
//! time.

use super::carrier::LineSocket;
use super::host::{DeviceDrops, TestClock};
use crate::sys::datagrams::DatagramTrain;
use farline_core::line::{
    FrameKind, FramePacer, FrameWay, LineSettings, LoadWriter, SenderTotals, SentSecond,
};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use rustix::time::{ClockId, clock_gettime};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

pub(super) const SECOND: u64 = 1_000_000_000;
/// The longest train: what an IP packet holds, and what the kernel cuts.
const TRAIN_BYTES: usize = 64_000;
const TRAIN_FRAMES: usize = 64;
/// A second in which less than this part was sent is short.
const ENOUGH: f64 = 0.98;

/// What a thread sends.
pub(super) struct LoadSender {
    pub(super) socket: Arc<LineSocket>,
    pub(super) settings: LineSettings,
    pub(super) session: u64,
    pub(super) clock: TestClock,
    /// The number of its first frame.
    pub(super) next: u64,
    pub(super) drops: DeviceDrops,
    pub(super) stop: Arc<AtomicBool>,
}

/// A train that is sent again and again: buffers of frames of one kind.
struct Train {
    kind: FrameKind,
    count: usize,
    len: usize,
    bytes: Vec<u8>,
    is_filled: bool,
}

impl Train {
    /// Puts the next frames into the first `count` places.
    fn write(&mut self, writer: &mut LoadWriter, count: usize, sent_us: u64) {
        for frame in self.bytes[..count * self.len].chunks_exact_mut(self.len) {
            writer.write(self.kind, sent_us, self.is_filled, frame);
        }
        self.is_filled = count == self.count;
    }
}

/// The second under way.
struct Running {
    sent: SentSecond,
    device_drops: u64,
}

impl LoadSender {
    /// Sends until it is told to stop or the time is over, and tells of each second; returns how
    /// many frames were sent from the test's begin on, and what this run of it took.
    pub(super) fn run(
        self,
        tell: &Sender<(SentSecond, u64)>,
    ) -> Result<(u64, SenderTotals), Error> {
        let mut writer = LoadWriter::new(self.session, self.next);
        if let Some(flood) = self.flood(&mut writer) {
            return self.run_flood(&flood, tell);
        }
        let mut bursts = self.bursts();
        let part_of_line = (self.settings.load_percent / 100.0).min(1.0);
        let bits = self.settings.rate.as_bps() as f64 * self.settings.load_percent / 100.0;
        // Where there is no rate, frames follow each other as fast as this host can.
        let gap = |burst: &Vec<Train>| (self.wire_bits(burst) / bits * 1e9) as u64;
        let gaps: Vec<u64> =
            bursts.iter().map(|burst| if bits > 0.0 { gap(burst) } else { 0 }).collect();
        let end = self.settings.most_seconds.saturating_mul(SECOND);
        let begun = self.clock.since();
        let (mut pacer, first) = (FramePacer::new(begun), begun / SECOND);
        let (mut sums, first_frame) = (SenderTotals::default(), self.next);
        let most_frames = self.settings.most_frames.unwrap_or(u64::MAX);
        let (mut running, mut is_over): (Option<Running>, bool) = (None, false);
        for at in (0..bursts.len()).cycle() {
            let now = self.wait_until(pacer.due());
            let frames_left = most_frames.saturating_sub(writer.next() - first_frame);
            is_over = now >= end;
            if is_over || frames_left == 0 || self.stop.load(Ordering::Relaxed) {
                break;
            }
            let second = now / SECOND;
            if running.as_ref().is_none_or(|running| running.sent.second != second) {
                if let Some(over) = running.take() {
                    let seen = if over.sent.second == first { 0.0 } else { 1.0 };
                    let over = self.finished(over, seen, writer.next());
                    sums.own_drops += over.0.own_drops;
                    let _ = tell.send(over);
                }
                let sent = SentSecond { second, ..SentSecond::default() };
                running = Some(Running { sent, device_drops: self.drops.read().1 });
            }
            if let Some(running) = &mut running {
                let burst = &mut bursts[at];
                self.send_burst(&mut writer, burst, frames_left, now / 1_000, &mut running.sent)?;
            }
            pacer.sent(now, gaps[at], (gaps[at] as f64 * part_of_line) as u64);
        }
        if let Some(over) = running {
            let is_whole = is_over && over.sent.second + 1 >= self.settings.most_seconds;
            // Of a test of one second, what was left of it after the first questions.
            let missed = if over.sent.second == first { begun % SECOND } else { 0 };
            let seen = if is_whole { 1.0 - missed as f64 / SECOND as f64 } else { 0.0 };
            let over = self.finished(over, seen, writer.next());
            sums.own_drops += over.0.own_drops;
            let _ = tell.send(over);
        }
        sums.frames = writer.next() - first_frame;
        if let (LineSocket::Ethernet(_), 0) = (&*self.socket, self.settings.rate.as_bps()) {
            sums.way = Some(FrameWay::PacketSocket);
        }
        (sums.cpu_ns, sums.took_ns) = (cpu_ns(), self.clock.since() - begun);
        Ok((writer.next(), sums))
    }

    /// The account of a second that is over, and what the next frame's number is. It is short where
    /// much less was sent than in `seen` of it, which this sender saw; where that is nothing,
    /// never.
    fn finished(&self, mut running: Running, seen: f64, next: u64) -> (SentSecond, u64) {
        let device = self.drops.read().1.saturating_sub(running.device_drops);
        // What a device drops it may tell the sender of too: the larger count has both.
        running.sent.own_drops = running.sent.own_drops.max(device);
        let planned = self.settings.frames_a_second() * seen;
        running.sent.next = next;
        running.sent.is_short = (running.sent.frames as f64) < planned * ENOUGH;
        (running.sent, next)
    }

    /// The frames of turns, in bursts, and each of these in trains of one kind.
    fn bursts(&self) -> Vec<Vec<Train>> {
        let turn = &self.settings.frames.turn;
        let burst = (self.settings.burst as usize).max(1);
        // So many turns that they are whole bursts, within reason.
        let frames = turn.len() * burst / greatest_common(turn.len(), burst);
        let kinds: Vec<FrameKind> = turn.iter().copied().cycle().take(frames).collect();
        kinds.chunks(burst).map(|kinds| self.trains(kinds)).collect()
    }

    fn trains(&self, kinds: &[FrameKind]) -> Vec<Train> {
        let mut trains: Vec<Train> = Vec::new();
        for kind in kinds {
            let len = self.socket.payload_bytes(*kind);
            match trains.last_mut() {
                Some(train)
                    if train.kind == *kind
                        && train.count < TRAIN_FRAMES
                        && (train.count + 1) * len <= TRAIN_BYTES =>
                {
                    train.count += 1;
                    train.bytes.resize(train.count * len, 0);
                }
                _ => trains.push(Train {
                    kind: *kind,
                    count: 1,
                    len,
                    bytes: vec![0; len],
                    is_filled: false,
                }),
            }
        }
        trains
    }

    fn send_burst(
        &self,
        writer: &mut LoadWriter,
        burst: &mut [Train],
        mut most_frames: u64,
        sent_us: u64,
        sent: &mut SentSecond,
    ) -> Result<(), Error> {
        // Frames of each train that is part of this burst.
        let mut counts: Vec<usize> = Vec::with_capacity(burst.len());
        for train in burst.iter_mut() {
            let count = most_frames.min(train.count as u64) as usize;
            if count == 0 {
                break;
            }
            most_frames -= count as u64;
            train.write(writer, count, sent_us);
            sent.frames += count as u64;
            sent.framed_bits += count as u64 * self.socket.framed_bits(train.len);
            counts.push(count);
        }
        let mut at = 0;
        while at < counts.len() {
            let left = burst[at..].iter().zip(&counts[at..]).map(|(train, count)| DatagramTrain {
                bytes: &train.bytes[..count * train.len],
                segment: train.len,
            });
            match self.socket.send_trains(&left.collect::<Vec<_>>()) {
                Ok((count, refused)) => {
                    sent.own_drops += refused;
                    at += count.max(1);
                }
                // Of an earlier one, which met nobody: this one has not been tried.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                    ) => {}
                // A queue of this host's had no room, or an earlier one met nobody, or no way:
                // whether the other end is there is found out otherwise. This one has not left, and
                // those behind it have its numbers: they would be the line's losses.
                Err(error)
                    if error.raw_os_error() == Some(libc::ENOBUFS)
                        || super::reflect::is_passing(error.kind()) =>
                {
                    let count = counts[at] as u64;
                    sent.own_drops += count;
                    sent.frames -= count;
                    sent.framed_bits -= count * self.socket.framed_bits(burst[at].len);
                    writer.take_back(counts[at..].iter().sum::<usize>() as u64);
                    at += 1;
                    for (train, count) in burst[at..].iter_mut().zip(&counts[at..]) {
                        train.write(writer, *count, sent_us);
                    }
                }
                Err(error) => return Err(self.cannot_send(burst[at].len, &error)),
            }
        }
        Ok(())
    }

    /// Bits on the wire of a burst.
    fn wire_bits(&self, burst: &[Train]) -> f64 {
        let more = 20 + self.settings.tag_bytes();
        let bytes = |train: &Train| (u64::from(train.kind.frame_bytes) + more) * train.count as u64;
        burst.iter().map(bytes).sum::<u64>() as f64 * 8.0
    }

    /// Waits until the test's clock says `due`; returns what it says.
    fn wait_until(&self, due: u64) -> u64 {
        loop {
            let now = self.clock.since();
            if now >= due {
                return now;
            }
            std::thread::sleep(Duration::from_nanos(due - now));
        }
    }

    fn cannot_send(&self, payload: usize, error: &std::io::Error) -> Error {
        let bytes = self.socket.framed_bits(payload) / 8;
        let message = format!("sending a frame of {bytes} bytes: {error}");
        if error.raw_os_error() == Some(libc::EMSGSIZE) {
            return Error::new(Fault::You, ErrorCode::LineFrames, message)
                .hint(format!("the path's MTU is smaller: take smaller {}", Setting::Frames));
        }
        Error::new(Fault::Here, ErrorCode::LineSocket, message)
    }
}

/// Processor time of the calling thread.
pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

fn greatest_common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common(b, a % b) }
}
