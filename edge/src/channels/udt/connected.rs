//! One connection as the thread of its port has it: the machine, and the bytes that it names.

use super::super::session_buffers::{BufferShare, SessionBuffers, UNPROVEN_BUFFER};
use super::datagrams::Datagrams;
use super::pipe::{Flow, FromThread, Pipe};
use bytes::Bytes as Shared;
use farline_core::udt::{
    Connection, Content, ControlPacket, DataPacket, HEADER_LEN, Input, Output, SequenceNumber,
    SocketId, UdtPacket,
};
use farline_core::units::{Span, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// IP and UDP headers of IPv4, which UDT counts.
const BELOW: u32 = 28;

/// All but so much of a buffer is as good as full: a window rarely ends where it does.
const NEARLY: u64 = 16;

/// How long what was sent may take to arrive after its stream was dropped, as over QUIC.
const LINGER: Span = Span::from_secs(30);

/// A connection, its peer, and its bytes.
#[derive(Debug)]
pub(super) struct Connected {
    machine: Connection,
    peer: SocketAddr,
    pipe: Arc<Pipe>,
    /// What the connections of its session share, its part of that once it is known to be one of
    /// them, and what of that it wants at most.
    session: Arc<SessionBuffers>,
    share: Option<BufferShare>,
    most: u64,
    /// What it may keep in each direction now.
    limit: u64,
    began: Time,
    /// What is to be sent or not acknowledged: where each piece begins in the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    written: u64,
    /// Bytes that the peer has.
    acknowledged: u64,
    /// What came and was not delivered, by token, and the tokens that are free.
    kept: Vec<Option<Shared>>,
    free: Vec<u64>,
    from_thread: FromThread,
    /// When it ends whatever its peer has not got, once the program has dropped its end.
    ends_by: Option<Time>,
    /// When the machine is to be polled next.
    pub(super) wakes: Option<Time>,
}

impl Connected {
    pub(super) fn new(
        now: Time,
        machine: Connection,
        peer: SocketAddr,
        pipe: Arc<Pipe>,
        (session, share, most): (Arc<SessionBuffers>, Option<BufferShare>, u64),
    ) -> Connected {
        Connected {
            machine,
            peer,
            pipe,
            session,
            share,
            most,
            // The machine is told with the first look, in packets of the length that was agreed on.
            limit: 0,
            began: now,
            pieces: VecDeque::new(),
            written: 0,
            acknowledged: 0,
            kept: Vec::new(),
            free: Vec::new(),
            from_thread: FromThread::default(),
            ends_by: None,
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
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // A packet is a part of all that came with it, which a stranger's does not hold.
        let bytes = if self.share.is_none() { Shared::copy_from_slice(&bytes) } else { bytes };
        let token = self.free.pop().unwrap_or(self.kept.len() as u64);
        match self.kept.get_mut(token as usize) {
            Some(place) => *place = Some(bytes),
            None => self.kept.push(Some(bytes)),
        }
        Input::Data { sequence, len, token, arrived }
    }

    fn kept(&mut self, token: u64) -> Option<Shared> {
        let bytes = self.kept.get_mut(token as usize)?.take()?;
        self.free.push(token);
        Some(bytes)
    }

    /// The path takes no datagrams longer than `len`.
    pub(super) fn narrower(&mut self, now: Time, len: u32) {
        self.machine.handle(now, Input::LongestDatagram(len));
    }

    /// Takes in what the program did.
    pub(super) fn take(&mut self, now: Time) {
        let taken = self.pipe.take();
        if taken.is_proven {
            self.share.get_or_insert_with(|| self.session.join());
        }
        let part = self.share.as_ref().map_or(UNPROVEN_BUFFER.into(), BufferShare::len);
        let limit = self.most.min(part);
        if limit != self.limit {
            self.limit = limit;
            let packets = limit / u64::from(self.machine.established().packet_len.max(1));
            self.machine.handle(now, Input::Room(u32::try_from(packets).unwrap_or(u32::MAX)));
            self.wakes = Some(now);
        }
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
        if taken.is_dropped {
            self.ends_by.get_or_insert(now + LINGER);
        }
        // A peer that is there and acknowledges nothing would keep it for ever.
        if self.machine.ended().is_none() && self.ends_by.is_some_and(|at| at <= now) {
            self.machine.handle(now, Input::Abort);
            self.wakes = Some(now);
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
                    let ends_by = self.ends_by.filter(|_| self.machine.ended().is_none());
                    self.wakes = at.into_iter().chain(ends_by).min();
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
        if let Some(share) = &self.share
            && self.limit < self.most
            && kept >= self.limit - self.limit / NEARLY
        {
            share.is_too_small();
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

#[cfg(test)]
mod tests {
    use super::super::pipe::Waker;
    use super::*;
    use farline_core::udt::{
        EndSettings, Ended, Established, HandshakeKind, LossRange, ReceiverState, UdtHandshake,
    };
    use farline_core::units::Rng;
    use std::io::IoSlice;
    use std::net::UdpSocket;

    /// An end, and the socket of its peer, which says what a test has it say.
    struct End {
        connected: Connected,
        pipe: Arc<Pipe>,
        out: Datagrams,
        peer: UdpSocket,
    }

    /// One whose packets are so long, and which may keep so many bytes.
    fn end(packet_len: u32, most: u64) -> End {
        let local = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (peer, first) = (local(), SequenceNumber::new(0));
        let reply = UdtHandshake {
            kind: HandshakeKind::Response,
            is_stream: true,
            first,
            packet_len,
            window: 1000,
            from: SocketId(1),
            cookie: 0,
            address: [0; 16],
        };
        let established = Established {
            ends: (SocketId(1), SocketId(2)),
            first: (first, first),
            packet_len,
            window: 1000,
            reply,
            is_rendezvous: false,
        };
        let settings = EndSettings { packet_len, room: 1000, ..EndSettings::default() };
        let machine = Connection::new(Time::ZERO, established, settings, &Rng::new(1));
        let waker = Arc::new(Waker::new().expect("a way to wake"));
        let pipe = Arc::new(Pipe::new(waker, most));
        let session = Arc::<SessionBuffers>::default();
        let share = Some(session.join());
        let address = peer.local_addr().expect("bound");
        let kept = (session, share, most);
        let connected = Connected::new(Time::ZERO, machine, address, Arc::clone(&pipe), kept);
        End { connected, pipe, out: Datagrams::new(local()).expect("a socket"), peer }
    }

    impl End {
        /// The peer says this, with so many bytes.
        fn hears(&mut self, now: Time, content: Content, len: usize) {
            let from = self.peer.local_addr().expect("bound");
            self.hears_from(now, from, content, len);
        }

        /// Somebody at `from` does.
        fn hears_from(&mut self, now: Time, from: SocketAddr, content: Content, len: usize) {
            self.connected.arrived(now, from, content, || Shared::from(vec![7; len]));
            self.connected.take(now);
            self.connected.poll(now, &mut self.out);
            self.out.flush();
        }
    }

    fn data(number: u64) -> Content {
        Content::Data { sequence: SequenceNumber::new(0).after(number), message: 0 }
    }

    #[test]
    fn packets_of_no_use_take_no_memory() {
        let mut end = end(1500, 1 << 20);
        for _ in 0..1000 {
            // The one before it never comes.
            end.hears(Time::ZERO, data(1), 100);
        }
        let places = (end.connected.kept.len(), end.connected.free.len());
        assert_eq!(places, (2, 1));
    }

    #[test]
    fn who_knows_an_ends_name_is_not_yet_its_peer() {
        let (mut end, now) = (end(1500, 1 << 20), Time::ZERO);
        end.pipe.write(&[IoSlice::new(&[7; 3000])]).expect("written");
        end.hears(now, Content::Control(ControlPacket::KeepAlive), 0);
        let number = |packets| SequenceNumber::new(0).after(packets);
        let known = Some(ReceiverState { rtt: (100, 10), room: 9, rates: None });
        let lost = LossRange { first: number(2), last: number(2) };
        let say = |end: &mut End, from: SocketAddr| {
            for control in [
                ControlPacket::Nak(vec![lost]),
                ControlPacket::Ack { number: 1, next: number(2), known },
                ControlPacket::Shutdown,
            ] {
                end.hears_from(now, from, data(0), 100);
                end.hears_from(now, from, Content::Control(control), 0);
            }
            let connected = &end.connected;
            let kept = (connected.kept.len(), connected.acknowledged);
            (connected.machine.packets(), kept, connected.machine.ended())
        };
        let peer = end.peer.local_addr().expect("bound");
        let stranger = SocketAddr::new([127, 0, 0, 2].into(), peer.port());
        assert_eq!(say(&mut end, stranger), ((3, 0), (0, 0), None), "nobody's");
        assert_eq!(say(&mut end, peer), ((3, 1), (1, 2912), Some(Ended::Peer)), "its peer's");
    }

    #[test]
    fn long_packets_fill_no_more_than_the_limit() {
        const PAYLOAD: usize = 9000 - 44;
        let mut end = end(9000, 90_000);
        for number in 0..40 {
            end.hears(Time::ZERO, data(number), PAYLOAD);
        }
        let unread = end.pipe.read(1, 0).expect("bytes");
        let unread: usize = unread.iter().map(Shared::len).sum();
        assert!((9 * PAYLOAD..=90_000).contains(&unread), "{unread}");
    }

    #[test]
    fn a_dropped_end_goes_though_its_peer_says_that_it_is_there() {
        let mut end = end(1500, 1 << 20);
        end.pipe.write(&[IoSlice::new(&[7; 3000])]).expect("written");
        end.pipe.close();
        let over = (0..60).find(|&second| {
            let now = Time::ZERO + Span::from_secs(second);
            end.hears(now, Content::Control(ControlPacket::KeepAlive), 0);
            end.connected.is_over(now)
        });
        assert!(over.is_some_and(|second| (30..40).contains(&second)), "{over:?}");
    }
}
