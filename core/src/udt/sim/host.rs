//! One end of a simulated flow: its connection, and the program that writes and reads.

use super::super::connection::{Connection, EndSettings, Established};
use super::super::events::{Ended, Input};
use super::super::handshake::{HandshakeKind, SocketId, UdtHandshake};
use super::scenario::UdtFlow;
use crate::congestion::SavedPath;
use crate::units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;

/// How often a program that does not write at once does.
const WRITES_EVERY: Span = Span::from_millis(1);

/// One end.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) connection: Connection,
    pub(super) begins: Time,
    /// When to poll; [`None`] waits for a packet.
    pub(super) wakes: Option<Time>,
    /// What came since it was last awake.
    pub(super) inbox: Vec<Input>,
    saved: Option<SavedPath>,
    /// Bytes to send once it begins, and to come before it ends.
    to_write: Option<u64>,
    writes: Option<Rate>,
    /// When the program writes next, where it does not write all at once.
    pub(super) writes_at: Option<Time>,
    expects: u64,
    finishes: bool,
    /// Bytes of the stream that came in order.
    pub(super) received: u64,
    /// Packets that came and are being read, with when they will be.
    pub(super) reading: VecDeque<Time>,
    pub(super) ended: Option<(Ended, Time)>,
    /// Delivered bytes that were not the next.
    pub(super) misplaced: u64,
}

/// The two ends of flow `number`.
pub(super) fn hosts(number: u32, flow: &UdtFlow, packet_len: u32, seed: &Rng) -> [Host; 2] {
    let begins = Time::ZERO + flow.after;
    let (a, b) = (SocketId(2 * number + 1), SocketId(2 * number + 2));
    let settings =
        EndSettings { packet_len, room: flow.room, rate: flow.rate, ..EndSettings::default() };
    let host = |ends: (SocketId, SocketId), (bytes, expects): (Bytes, Bytes)| {
        let reply = UdtHandshake {
            kind: HandshakeKind::Response,
            is_stream: true,
            first: flow.first,
            packet_len,
            window: flow.room,
            from: ends.0,
            cookie: 0,
            address: [0; 16],
        };
        let established = Established {
            ends,
            first: (flow.first, flow.first),
            packet_len,
            window: flow.room,
            reply,
            is_rendezvous: false,
        };
        let seed = seed.fork(u64::from(ends.0.0));
        Host {
            connection: Connection::new(begins, established, settings, &seed),
            begins,
            wakes: Some(begins),
            inbox: Vec::new(),
            saved: flow.saved,
            to_write: Some(bytes.0),
            writes: flow.writes,
            writes_at: None,
            expects: expects.0,
            finishes: bytes.0 > 0,
            received: 0,
            reading: VecDeque::new(),
            ended: None,
            misplaced: 0,
        }
    };
    let (there, back) = flow.bytes;
    [host((a, b), (there, back)), host((b, a), (back, there))]
}

impl Host {
    /// Lets the program write and read what it does until `now`.
    pub(super) fn program(&mut self, now: Time) {
        if now < self.begins {
            return;
        }
        if let Some(saved) = self.saved.take() {
            self.connection.handle(now, Input::Resume(saved));
        }
        if self.writes_at.is_none_or(|at| at <= now)
            && let Some(left) = self.to_write.take().filter(|&bytes| bytes > 0)
        {
            let part = self.writes.map_or(left, |rate| rate.bytes_in(WRITES_EVERY).0.min(left));
            self.connection.handle(now, Input::Written(part));
            let more = part < left;
            self.to_write = more.then_some(left - part);
            self.writes_at = more.then_some(self.writes_at.unwrap_or(now) + WRITES_EVERY);
        }
        if self.finishes && self.to_write.is_none() && self.received >= self.expects {
            self.finishes = false;
            self.connection.handle(now, Input::Finish);
        }
        let read = self.reading.iter().take_while(|&&at| at <= now).count();
        if read > 0 {
            self.reading.drain(..read);
            self.connection.handle(now, Input::Read(read as u64));
        }
    }
}
