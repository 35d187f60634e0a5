//! A UDP port and the thread that serves it: connections by the name of their end, who asks, and
//! who waits to be asked.

use super::super::key::Key;
use super::super::session_buffers::{BufferShare, SessionBuffers, UNPROVEN_BUFFER};
use super::super::socket::longest_datagram;
use super::connected::{Connected, packet_len};
use super::datagrams::{Datagrams, Received};
use super::pipe::{Pipe, Waker};
use super::stream::UdtStream;
use crate::sys::random;
use farline_core::udt::{
    ConnectFailure, Connection, Connector, ConnectorOutput, Content, ControlPacket, EndSettings,
    Established, HEADER_LEN, ListenerOutput, SequenceNumber, SocketId, UdtHandshake, UdtListener,
    UdtPacket,
};
use farline_core::units::{Rng, Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Calls to the kernel for what has come before something is sent again.
const MOST_CALLS: usize = 16;
/// A sender that has to pace itself sleeps at least this, and makes good what it missed: packets
/// leave in trains.
const SHORTEST_SLEEP: Span = Span::from_micros(50);

/// Takes a connection that came in, and from where; says false when nobody wants more.
pub type Accept = Box<dyn FnMut(UdtStream, SocketAddr) -> bool + Send>;

/// What this host wants of the connections of a port.
#[derive(Clone, Debug)]
pub(super) struct PortSettings {
    pub(super) ends: EndSettings,
    /// Bytes that a program may have written and the peer not got, or the peer sent and a program
    /// not read.
    pub(super) limit: u64,
    /// What the connections of a session share.
    pub(super) session: Arc<SessionBuffers>,
    /// By which it is seen in their handshakes that they are the session's.
    pub(super) key: Option<Key>,
}

impl PortSettings {
    /// The number of the first packet of a connection of the session, of which the client's end is
    /// called so.
    fn first_packet(&self, end: SocketId) -> Option<SequenceNumber> {
        self.key.as_ref().map(|key| SequenceNumber::new(key.first_packet(end.0)))
    }
}

/// A port, in the hands of its thread.
struct Port {
    datagrams: Datagrams,
    settings: PortSettings,
    waker: Arc<Waker>,
    clock: Instant,
    connections: BTreeMap<SocketId, Connected>,
    asks: Option<Asking>,
    waits: Option<Waiting>,
}

/// An end on its way to a connection.
struct Asking {
    connector: Connector,
    peer: SocketAddr,
    says: mpsc::SyncSender<Result<UdtStream, ConnectFailure>>,
    wakes: Time,
}

/// Who waits to be asked.
struct Waiting {
    listener: UdtListener,
    accept: Accept,
    stops: Arc<AtomicBool>,
}

/// Stops a port from taking connections when this is dropped; those that there are go on.
#[derive(Debug)]
pub(super) struct Open {
    stops: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// What leads to a connection from here.
pub(super) struct Call {
    /// A bound socket.
    pub(super) socket: UdpSocket,
    pub(super) peer: SocketAddr,
    pub(super) settings: PortSettings,
    pub(super) timeout: Span,
    /// Whether the peer asks too, and nobody waits.
    pub(super) rendezvous: bool,
    /// The number of the first packet; the session's, or drawn, when absent.
    pub(super) first: Option<SequenceNumber>,
}

/// Connects; waits for it.
///
/// # Errors
/// When the system gives no thread, or no connection comes about.
pub(super) fn connect(call: Call) -> io::Result<UdtStream> {
    let (says, said) = mpsc::sync_channel(1);
    let mut seed = [0; 8];
    random::fill(&mut seed)?;
    let mut port = Port::new(call.socket, call.settings.clone())?;
    let now = port.now();
    let mut connector = Connector::new(
        now,
        now + call.timeout,
        call.peer.ip(),
        &call.settings.ends,
        &mut Rng::new(u64::from_ne_bytes(seed)),
    );
    if call.rendezvous {
        connector = connector.rendezvous();
    }
    if let Some(first) = call.first.or_else(|| call.settings.first_packet(connector.own())) {
        connector = connector.counting_from(first);
    }
    port.asks = Some(Asking { connector, peer: call.peer, says, wakes: now });
    port.start()?;
    match said.recv() {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(ConnectFailure::TimedOut)) => Err(io::ErrorKind::TimedOut.into()),
        Ok(Err(ConnectFailure::Refused(reason))) => Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            format!("the other end takes no such connection: UDT's reason {reason}"),
        )),
        Ok(Err(ConnectFailure::Nonsense)) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what replied there speaks no UDT that fits",
        )),
        Err(_) => Err(io::Error::other("the thread of a UDP port ended")),
    }
}

/// Takes up to `most` connections at a bound socket.
///
/// # Errors
/// When the system gives no thread or no random bytes.
pub(super) fn listen(
    socket: UdpSocket,
    settings: PortSettings,
    most: usize,
    accept: Accept,
) -> io::Result<Open> {
    let mut secret = [0; 32];
    random::fill(&mut secret)?;
    let mut port = Port::new(socket, settings.clone())?;
    let stops = Arc::new(AtomicBool::new(false));
    let listener = UdtListener::new(secret, settings.ends, most);
    port.waits = Some(Waiting { listener, accept, stops: Arc::clone(&stops) });
    let open = Open { stops, waker: Arc::clone(&port.waker) };
    port.start()?;
    Ok(open)
}

impl Port {
    fn new(socket: UdpSocket, settings: PortSettings) -> io::Result<Port> {
        Ok(Port {
            datagrams: Datagrams::new(socket)?,
            settings,
            waker: Arc::new(Waker::new()?),
            clock: Instant::now(),
            connections: BTreeMap::new(),
            asks: None,
            waits: None,
        })
    }

    fn start(self) -> io::Result<()> {
        std::thread::Builder::new().name("udt".to_owned()).spawn(move || self.run())?;
        Ok(())
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.clock.elapsed())
    }

    fn run(mut self) {
        let mut received = Vec::new();
        loop {
            let now = self.now();
            for _ in 0..MOST_CALLS {
                let before = received.len();
                if self.datagrams.receive(&mut received).is_err() || received.len() == before {
                    break;
                }
            }
            for message in received.drain(..) {
                self.arrived(now, &message);
            }
            self.ask(now);
            self.reply(now);
            self.datagrams.flush();
            for connection in self.connections.values_mut() {
                connection.take(now);
                connection.poll(now, &mut self.datagrams);
            }
            self.datagrams.flush();
            self.narrow(now);
            self.forget(now);
            let listens =
                self.waits.as_ref().is_some_and(|waits| !waits.stops.load(Ordering::Acquire));
            if self.connections.is_empty() && self.asks.is_none() && !listens {
                return;
            }
            self.sleep(now);
        }
    }

    /// What came together, packet by packet.
    fn arrived(&mut self, now: Time, message: &Received) {
        let mut at = 0;
        while at < message.bytes.len() {
            let end = (at + message.stride).min(message.bytes.len());
            // What is no packet of UDT's is nobody's.
            if let Ok(packet) = UdtPacket::decode(&message.bytes[at..end]) {
                let payload = || message.bytes.slice(at + HEADER_LEN..end);
                match self.connections.get_mut(&packet.to) {
                    Some(connection) => {
                        connection.arrived(now, message.from, packet.content, payload);
                    }
                    None => self.unconnected(now, message.from, &packet),
                }
            }
            at = end;
        }
    }

    /// A packet for an end that is not connected, or for whoever waits.
    fn unconnected(&mut self, now: Time, from: SocketAddr, packet: &UdtPacket) {
        let handshake = match &packet.content {
            Content::Control(ControlPacket::Handshake(handshake)) => Some(handshake),
            _ => None,
        };
        if let Some(asks) = &mut self.asks
            && asks.peer == from
            && asks.connector.is_for(packet.to)
        {
            match handshake {
                Some(handshake) => asks.connector.handle(now, handshake),
                None => asks.connector.hear(),
            }
            asks.wakes = now;
        } else if let Some(waits) = &mut self.waits
            && packet.to == SocketId(0)
            && let Some(handshake) = handshake
        {
            // A packet that does not go there whole is not agreed on.
            let longest = longest_datagram(from).map_or(handshake.packet_len, packet_len);
            let packet_len = handshake.packet_len.min(longest);
            let is_known = self.settings.first_packet(handshake.from) == Some(handshake.first);
            let asks = UdtHandshake { packet_len, ..*handshake };
            waits.listener.handle(now, from, &asks, is_known);
        }
    }

    /// Goes on with asking for a connection.
    fn ask(&mut self, now: Time) {
        while let Some(asks) = &mut self.asks {
            match asks.connector.poll(now) {
                ConnectorOutput::Send(handshake) => {
                    let peer = asks.peer;
                    say(&mut self.datagrams, peer, SocketId(0), handshake);
                }
                ConnectorOutput::Wait(at) => {
                    asks.wakes = at;
                    return;
                }
                ConnectorOutput::Connected(established) => {
                    if let Some(Asking { peer, says, .. }) = self.asks.take() {
                        let stream = self.connected(now, peer, established, true);
                        // Who asked may have gone: dropping the stream closes it again, on a thread
                        // that may wait.
                        if let Err(mpsc::SendError(Ok(stream))) = says.send(Ok(stream)) {
                            drop(std::thread::spawn(move || drop(stream)));
                        }
                    }
                }
                ConnectorOutput::Failed(why) => {
                    if let Some(Asking { says, .. }) = self.asks.take() {
                        drop(says.send(Err(why)));
                    }
                }
            }
        }
    }

    /// Goes on with what was asked here.
    fn reply(&mut self, now: Time) {
        let mut accepted = Vec::new();
        if let Some(waits) = &mut self.waits {
            if waits.stops.load(Ordering::Acquire) {
                self.waits = None;
                return;
            }
            loop {
                match waits.listener.poll() {
                    ListenerOutput::Send { address, to, handshake } => {
                        say(&mut self.datagrams, address, to, handshake);
                    }
                    ListenerOutput::Accepted { address, established } => {
                        accepted.push((address, established));
                    }
                    ListenerOutput::Wait => break,
                }
            }
        }
        for (address, established) in accepted {
            let stream = self.connected(now, address, established, false);
            if let Some(waits) = &mut self.waits
                && !(waits.accept)(stream, address)
            {
                waits.stops.store(true, Ordering::Release);
            }
        }
    }

    /// The program's end of a connection, which `waits` to say farewell or not.
    fn connected(
        &mut self,
        now: Time,
        peer: SocketAddr,
        established: Established,
        waits: bool,
    ) -> UdtStream {
        let mut seed = [0; 8];
        // Only what controls draw lots with.
        drop(random::fill(&mut seed));
        let seed = Rng::new(u64::from_ne_bytes(seed));
        let begins_by_key = self.settings.first_packet(established.ends.1);
        let is_known = !waits && begins_by_key == Some(established.first.1);
        let machine = Connection::new(now, established, self.settings.ends, &seed);
        let (session, limit) = (Arc::clone(&self.settings.session), self.settings.limit);
        // Who has yet to show that it is of the session takes no part of what that may keep.
        let is_own = waits || is_known || self.settings.key.is_none();
        let share = is_own.then(|| session.join());
        let part = share.as_ref().map_or(UNPROVEN_BUFFER.into(), BufferShare::len);
        let pipe = Arc::new(Pipe::new(Arc::clone(&self.waker), limit.min(part)));
        let kept = (session, share, limit);
        let connected = Connected::new(now, machine, peer, Arc::clone(&pipe), kept);
        self.connections.insert(connected.own(), connected);
        UdtStream::new(pipe, self.settings.ends.rate.name(), waits).known(is_known)
    }

    /// Tells connections of a path that became narrower.
    fn narrow(&mut self, now: Time) {
        let Some(to) = self.datagrams.too_long.take() else { return };
        let Ok(len) = longest_datagram(to) else { return };
        for connection in self.connections.values_mut().filter(|one| one.peer().0 == to) {
            connection.narrower(now, len);
        }
    }

    fn forget(&mut self, now: Time) {
        let waits = &mut self.waits;
        self.connections.retain(|_, connection| {
            let (address, peer) = connection.peer();
            // Of who is refused nothing stays, so that the place is another's at once.
            let is_over = connection.is_over(now) || connection.is_refused();
            if is_over && let Some(waits) = waits {
                waits.listener.forget(address, peer);
            }
            !is_over
        });
    }

    /// Sleeps until something comes, a program does something, or a machine wants to be polled.
    fn sleep(&mut self, now: Time) {
        self.waker.will_sleep();
        let has_work = self.connections.values().any(Connected::has_work);
        let stops = self.waits.as_ref().is_some_and(|one| one.stops.load(Ordering::Acquire));
        let asks = self.asks.as_ref().map(|asks| asks.wakes);
        let lingers = |one: &Connected| one.lingers().then(|| now + Span::from_secs(1));
        let wakes = self.connections.values().filter_map(|one| one.wakes.or_else(|| lingers(one)));
        let until = wakes.chain(asks).min();
        if !has_work && !stops {
            let is_stuck = self.datagrams.is_stuck();
            let timeout = until.map(|until| {
                let span = until.since(self.now()).max(SHORTEST_SLEEP);
                Timespec {
                    tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
                    tv_nsec: (span.as_nanos() % 1_000_000_000) as i64,
                }
            });
            let mut wanted = PollFlags::IN;
            if is_stuck {
                wanted |= PollFlags::OUT;
            }
            // A machine that has something to send waits for room, not for its time.
            let timeout = if is_stuck { None } else { timeout.as_ref() };
            let mut watched = [
                PollFd::new(self.datagrams.socket(), wanted),
                PollFd::new(self.waker.breaker(), PollFlags::IN),
            ];
            // A signal ends it early, which does no harm.
            let _ = poll(&mut watched, timeout);
        }
        self.waker.is_awake();
    }
}

/// Sends a handshake.
fn say(datagrams: &mut Datagrams, address: SocketAddr, to: SocketId, handshake: UdtHandshake) {
    let mut bytes = Vec::new();
    let content = Content::Control(ControlPacket::Handshake(handshake));
    UdtPacket { timestamp: 0, to, content }.encode(&mut bytes);
    datagrams.send(address, bytes.len(), |into| into.extend_from_slice(&bytes));
}
