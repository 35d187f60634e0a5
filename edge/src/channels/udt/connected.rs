//! One connection as the thread of its port has it: the machine, and the bytes that it names.

use super::super::session_buffers::BufferShare;
use super::datagrams::Datagrams;
use super::pipe::{Flow, FromThread, Pipe};
use bytes::Bytes as Shared;
use farline_core::udt::{
    Connection, Content, ControlPacket, DataPacket, HEADER_LEN, Input, Output, SequenceNumber,
    SocketId, UdtPacket,
};
use farline_core::units::Time;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// IP and UDP headers of IPv4, which UDT counts.
const BELOW: u32 = 28;

/// All but so much of a buffer is as good as full: a window rarely ends where it does.
const NEARLY: u64 = 16;

/// A connection, its peer, and its bytes.
#[derive(Debug)]
pub(super) struct Connected {
    machine: Connection,
    peer: SocketAddr,
    pipe: Arc<Pipe>,
    /// Its part of what its session may keep, and what of that it wants at most.
    share: BufferShare,
    most: u64,
    /// What it may keep in each direction now.
    limit: u64,
    began: Time,
    /// What is to be sent or not acknowledged: where each piece begins in the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    written: u64,
    /// Bytes that the peer has.
    acknowledged: u64,
    /// What came and was not delivered, by token.
    kept: VecDeque<Option<Shared>>,
    first_token: u64,
    from_thread: FromThread,
    /// When the machine is to be polled next.
    pub(super) wakes: Option<Time>,
}

impl Connected {
    pub(super) fn new(
        now: Time,
        machine: Connection,
        peer: SocketAddr,
        pipe: Arc<Pipe>,
        (share, most): (BufferShare, u64),
    ) -> Connected {
        Connected {
            machine,
            peer,
            pipe,
            share,
            most,
            limit: most,
            began: now,
            pieces: VecDeque::new(),
            written: 0,
            acknowledged: 0,
            kept: VecDeque::new(),
            first_token: 0,
            from_thread: FromThread::default(),
            wakes: Some(now),
        }
    }

    /// This end's name.
    pub(super) fn own(&self) -> SocketId {
        self.machine.established().ends.0
    }

    /// The peer, as who listens knows it.
    pub(super) fn peer(&self) -> (SocketAddr, SocketId) {
        (self.peer, self.machine.established().ends.1)
    }

    pub(super) fn is_over(&self, now: Time) -> bool {
        // The program has heard of the end when the machine has nothing more to say.
        self.wakes.is_none() && self.machine.is_forgotten(now)
    }

    /// Whether nothing but a farewell to a peer that has not heard it is left.
    pub(super) fn lingers(&self) -> bool {
        self.machine.ended().is_some()
    }

    /// Whether the program will have none of its peer, which has been told so.
    pub(super) fn is_refused(&self) -> bool {
        self.machine.ended().is_some() && self.pipe.is_refused()
    }

    pub(super) fn has_work(&self) -> bool {
        self.pipe.has_work()
    }

    /// A packet for this end came from `from`; its payload is `payload`.
    pub(super) fn arrived(
        &mut self,
        now: Time,
        from: SocketAddr,
        content: Content,
        payload: impl FnOnce() -> Shared,
    ) {
        // Who knows the name of an end is not yet its peer.
        if from != self.peer {
            return;
        }
        let input = match content {
            Content::Control(control) => Input::Control(control),
            Content::Data { sequence, .. } => self.keep(now, sequence, payload()),
        };
        self.machine.handle(now, input);
        self.wakes = Some(now);
    }

    fn keep(&mut self, arrived: Time, sequence: SequenceNumber, bytes: Shared) -> Input {
        let token = self.first_token + self.kept.len() as u64;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.kept.push_back(Some(bytes));
        Input::Data { sequence, len, token, arrived }
    }

    fn kept(&mut self, token: u64) -> Option<Shared> {
        let at = usize::try_from(token.checked_sub(self.first_token)?).ok()?;
        let bytes = self.kept.get_mut(at)?.take();
        while self.kept.front().is_some_and(Option::is_none) {
            self.kept.pop_front();
            self.first_token += 1;
        }
        bytes
    }

    /// The path takes no datagrams longer than `len`.
    pub(super) fn narrower(&mut self, now: Time, len: u32) {
        self.machine.handle(now, Input::LongestDatagram(len));
    }

    /// Takes in what the program did.
    pub(super) fn take(&mut self, now: Time) {
        let limit = self.most.min(self.share.len());
        if limit != self.limit {
            self.limit = limit;
            let packets = limit / u64::from(self.machine.established().packet_len.max(1));
            self.machine.handle(now, Input::Room(u32::try_from(packets).unwrap_or(u32::MAX)));
        }
        let taken = self.pipe.take();
        if let Some(saved) = taken.resume {
            self.machine.handle(now, Input::Resume(saved));
        }
        let bytes: u64 = taken.written.iter().map(|piece| piece.len() as u64).sum();
        for piece in taken.written {
            let len = piece.len() as u64;
            self.pieces.push_back((self.written, piece));
            self.written += len;
        }
        for (happened, input) in [
            (bytes > 0, Input::Written(bytes)),
            (taken.read > 0, Input::Read(taken.read)),
            (taken.finishes, Input::Finish),
            (taken.aborts, Input::Abort),
        ] {
            if happened {
                self.machine.handle(now, input);
                self.wakes = Some(now);
            }
        }
    }

    /// Does what the machine wants at `now`, while there is room to send.
    pub(super) fn poll(&mut self, now: Time, out: &mut Datagrams) {
        if self.wakes.is_none_or(|at| at > now) {
            return;
        }
        while !out.is_stuck() {
            match self.machine.poll(now) {
                Output::Send(control) => self.send(now, control, out),
                Output::SendData(packet) => self.send_data(now, &packet, out),
                Output::Deliver { token, .. } => {
                    let bytes = self.kept(token);
                    self.from_thread.arrived.extend(bytes);
                }
                Output::Discard(token) => drop(self.kept(token)),
                Output::Acknowledged(bytes) => self.acknowledged(bytes),
                Output::Ended(why) => self.from_thread.ended = Some(why),
                Output::Wait(at) => {
                    self.wakes = at;
                    break;
                }
            }
        }
        self.from_thread.yielded = self.machine.yielded();
        self.from_thread.limit = self.limit;
        self.from_thread.flow = Flow {
            acknowledged: self.acknowledged,
            sent: self.machine.sent_bytes().0,
            packets: self.machine.packets(),
            rtt: self.machine.least_rtt(),
            smoothed_rtt: self.machine.smoothed_rtt(),
        };
        let Flow { sent, acknowledged, .. } = self.from_thread.flow;
        let unread = self.pipe.give(&mut self.from_thread) as u64;
        let kept = unread.max(sent.saturating_sub(acknowledged));
        if self.limit < self.most && kept >= self.limit - self.limit / NEARLY {
            self.share.is_too_small();
        }
    }

    fn acknowledged(&mut self, bytes: u64) {
        self.acknowledged = bytes;
        while self.pieces.front().is_some_and(|(from, piece)| from + piece.len() as u64 <= bytes)
            && let Some((_, piece)) = self.pieces.pop_front()
        {
            self.from_thread.done.push(piece);
        }
    }

    fn micros(&self, now: Time) -> u32 {
        (now.since(self.began).as_nanos() / 1000) as u32
    }

    fn send(&self, now: Time, control: ControlPacket, out: &mut Datagrams) {
        let mut bytes = Vec::new();
        let (timestamp, to) = (self.micros(now), self.machine.established().ends.1);
        UdtPacket { timestamp, to, content: Content::Control(control) }.encode(&mut bytes);
        out.send(self.peer, bytes.len(), |into| into.extend_from_slice(&bytes));
    }

    fn send_data(&self, now: Time, packet: &DataPacket, out: &mut Datagrams) {
        let header = packet.header(self.micros(now), self.machine.established().ends.1);
        let len = (packet.bytes.end - packet.bytes.start) as usize;
        out.send(self.peer, HEADER_LEN + len, |into| {
            into.extend_from_slice(&header);
            let (mut from, mut left) = (packet.bytes.start, len);
            let at = self.pieces.partition_point(|(begins, _)| *begins <= from).saturating_sub(1);
            for (begins, piece) in self.pieces.iter().skip(at) {
                let start = (from - begins) as usize;
                let part = left.min(piece.len() - start);
                into.extend_from_slice(&piece[start..start + part]);
                (from, left) = (from + part as u64, left - part);
                if left == 0 {
                    break;
                }
            }
        });
    }
}

/// The longest packet, as UDT counts, whose datagram is of `len` bytes.
pub(super) const fn packet_len(datagram: u32) -> u32 {
    datagram + BELOW
}
