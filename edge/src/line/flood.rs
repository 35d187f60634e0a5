//! Frames as fast as this host can, made within the kernel where it and the device can do that.

use super::carrier::LineSocket;
use super::sender::{LoadSender, SECOND, cpu_ns};
use crate::sys::frame_flood::FrameFlood;
use farline_core::line::{FrameWay, LoadWriter, SenderTotals, SentSecond};
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// Frames of the first call, and how long each takes: after each the kernel waits some 20 ms for
/// its memory, and between two of them alone this thread looks at whether it is to stop.
const FIRST: u32 = 1 << 14;
const CALL: u64 = SECOND / 2;

impl LoadSender {
    /// What sends frames without a pace, where they are all of one kind and of Ethernet; `None`
    /// where they must be written one by one.
    pub(super) fn flood(&self, writer: &mut LoadWriter) -> Option<FrameFlood> {
        let LineSocket::Ethernet(socket) = &*self.socket else { return None };
        let (kind, others) = self.settings.frames.turn.split_first()?;
        if self.settings.rate.as_bps() > 0 || others.iter().any(|other| other != kind) {
            return None;
        }
        let template = writer.template(*kind, self.socket.payload_bytes(*kind))?;
        socket.flood(&template).ok()
    }

    /// As [`run`](LoadSender::run), by a flood.
    pub(super) fn run_flood(
        self,
        flood: &FrameFlood,
        tell: &Sender<(SentSecond, u64)>,
    ) -> Result<(u64, SenderTotals), Error> {
        let end = self.settings.most_seconds * SECOND;
        let last = self.settings.most_frames.map_or(u64::MAX, |most| self.next + most);
        let kind = self.settings.frames.turn[0];
        let frame_bits = self.socket.framed_bits(self.socket.payload_bytes(kind));
        flood.set(self.next, last, self.clock.zero(), end);
        let begun = self.clock.since();
        let (mut sums, mut frames) = (SenderTotals::default(), FIRST);
        let (mut next, mut left, mut device) = (self.next, flood.left(), self.drops.read().1);
        let mut open = SentSecond { second: begun / SECOND, ..SentSecond::default() };
        loop {
            let at = self.clock.since();
            let is_over = at >= end || next >= last || self.stop.load(Ordering::Relaxed);
            if !is_over {
                flood.run(frames).map_err(|error| cannot_send(&error))?;
            }
            let (now, counted) = (self.clock.since(), self.drops.read().1);
            // Of what was made in a call, all that did not leave was dropped here, whoever says so.
            let made = flood.next() - next;
            let took = (flood.left() - left).min(made);
            let dropped = (made - took).max(counted.saturating_sub(device));
            (next, left, device) = (next + made, flood.left(), counted);
            let mut known = 0;
            for second in open.second..=now / SECOND {
                if second != open.second {
                    sums.own_drops += open.own_drops;
                    let _ = tell.send((open, next));
                    open = SentSecond { second, ..SentSecond::default() };
                }
                let (frames, drops) = flood.take_second(second);
                open.frames += frames;
                open.framed_bits += frames * frame_bits;
                open.own_drops += drops;
                known += drops;
            }
            open.own_drops += dropped.saturating_sub(known);
            if is_over {
                break;
            }
            let pace = u64::from(frames) * CALL / (now - at).max(1);
            frames = pace.clamp(FIRST.into(), u32::MAX.into()) as u32;
        }
        sums.own_drops += open.own_drops;
        let _ = tell.send((open, next));
        (sums.frames, sums.way) = (next - self.next, Some(FrameWay::XdpProgram));
        // None left after the end.
        (sums.cpu_ns, sums.took_ns) = (cpu_ns(), self.clock.since().min(end).saturating_sub(begun));
        Ok((next, sums))
    }
}

fn cannot_send(error: &std::io::Error) -> Error {
    let message = format!("sending frames from within the kernel: {error}");
    Error::new(Fault::Here, ErrorCode::LineSocket, message)
}
