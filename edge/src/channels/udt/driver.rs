//! UDT as a channel driver: its options, and how channels of a session come about.

use super::super::arrivals::{Arrivals, NO_KEY};
use super::super::driver::{
    Agreed, Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered, Opened,
    Peer, Role, Session, Transport,
};
use super::super::key::Key;
use super::super::ordered::ByteStream;
use super::super::pending::{NO_PLACE, Pending, Steps};
use super::super::session_buffers::{SESSION_BUFFERS, SessionBuffers};
use super::super::socket::{at_free_port, longest_datagram, no_port, unreachable};
use super::connected::packet_len;
use super::port::{self, Accept, Call, Open, PortSettings};
use super::stream::UdtStream;
use super::unproven::UnprovenUdt;
use crate::drivers::{DriverOption, OptionKind, Values};
use farline_core::congestion::ControlName;
use farline_core::udt::{EndSettings, RateAlgorithm, SequenceNumber};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Setting, Span};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The rate whose bandwidth-delay product a channel's buffers are made for.
const FASTEST: Rate = Rate::from_bps(10_000_000_000);
/// Bandwidth-delay products of a buffer: a packet that is lost twice is waited for.
const PRODUCTS: f64 = 3.0;
/// The least of a buffer, and the most: they bound what a connection keeps, not what it takes at
/// once. A node knows no round trip before the first data.
const BUFFER: (u64, u64) = (32 << 20, SESSION_BUFFERS);
/// The longest packet that is offered: larger frames are on loopback alone.
const LONGEST_PACKET: u32 = 9000;
/// Connections of one session, those that have not shown its key included (K-3); as many again find
/// a place where their handshakes show it.
const MOST_CONNECTIONS: usize = 256;
/// Those that have not: a client finds a place whatever else comes.
const MOST_PENDING: usize = 128;
/// How long a peer may be silent that should speak.
const IDLE_TIMEOUT: Span = Span::from_secs(30);

/// BBR in the place of UDT's own control.
const BBR: &str = "bbr";

const OPTIONS: [DriverOption; 1] = [DriverOption {
    name: BBR,
    kind: OptionKind::Flag,
    help: "what this end sends is paced by BBR; else by UDT's own congestion control",
}];

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: "udt",
        schemes: &["udt"],
        title: "UDT",
        about: "ordered bytes over UDP, as libudt 4 speaks them, with a congestion control that \
                long paths do not slow down",
        options: &OPTIONS,
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: false,
            same_fabric: false,
            congestion: CongestionBy::Driver,
            needs_key: true,
            grows: true,
            max_block: None,
            offered: Offered::WhenAsked,
        },
        features: &[FEATURE],
        role: Role::Channel(Box::new(Udt)),
    }
}

/// What a node lists in FEAT that takes channels over UDT.
const FEATURE: &str = "UDT";

struct Udt;

impl Transport for Udt {
    fn agree(&self, values: &Values, peer: &Peer<'_>) -> Result<Agreed, Error> {
        if !(peer.has)(FEATURE) {
            let message = format!("{} takes no channels over UDT", peer.server);
            return Err(Error::new(Fault::There, ErrorCode::Unsupported, message));
        }
        Ok(Agreed { values: values.clone(), notes: Vec::new() })
    }

    fn resumes_each(&self, control: ControlName) -> bool {
        control == RateAlgorithm::Native.name()
    }

    fn control(
        &self,
        values: &Values,
        asked: Option<ControlName>,
    ) -> Result<Option<ControlName>, Error> {
        let algorithm = algorithm(values, asked)?;
        Ok(ControlName::from_kernel(algorithm.name().as_bytes()))
    }

    fn dialer(&self, session: &Session, values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        let rate = match session.sockets.held {
            Some(rate) => RateAlgorithm::Held(rate),
            None => algorithm(values, session.sockets.congestion)?,
        };
        let product = FASTEST.bytes_in(session.rtt).0 as f64 * PRODUCTS;
        let buffer = session.sockets.buffer.map_or(product as u64, |Bytes(len)| len);
        let buffer = Bytes(buffer.clamp(BUFFER.0, BUFFER.1));
        let options = UdtOptions { rate, buffer, ..UdtOptions::default() };
        let (key, buffers) = (session.key.clone(), Arc::default());
        Ok(Arc::new(UdtDialer { options, key, buffers }))
    }

    fn listen(&self, listen: Listen) -> Result<Box<dyn Listener>, Error> {
        let buffer = listen.sockets.buffer.map_or(BUFFER.1, |Bytes(len)| len);
        // A client of an earlier version tells what it would choose for TCP too.
        let is_bbr = listen.sockets.congestion.is_some_and(|name| name.is_bbr());
        let own = if is_bbr { RateAlgorithm::Bbr } else { RateAlgorithm::Native };
        let rate = listen.sockets.held.map_or(own, RateAlgorithm::Held);
        let options = UdtOptions { rate, buffer: Bytes(buffer), ..UdtOptions::default() };
        // A port must not keep its session alive.
        let arrivals = Arc::downgrade(&listen.arrivals);
        let wanted = SocketAddr::new(listen.ip, 0);
        let failed = |error: io::Error| no_port(wanted, &error);
        let runtime = Handle::try_current().map_err(|error| failed(io::Error::other(error)))?;
        let mut pending = Pending::new(runtime, MOST_PENDING, Some(listen.client));
        let accept: Accept = Box::new(move |stream, from| {
            let Some(arrivals) = arrivals.upgrade() else { return false };
            let is_known = stream.is_known();
            let (greets, stream) = (Arc::clone(&arrivals), UnprovenUdt::new(stream));
            let gone = pending.begin(from, |steps| {
                // Its preamble is a round trip behind, in which others may come from its address.
                if is_known {
                    steps.step();
                }
                greet(greets, stream, from, steps)
            });
            if let Some(gone) = gone {
                arrivals.refuse(Some(gone), NO_PLACE);
            }
            true
        });
        let key = Some(listen.arrivals.key().clone());
        let session = (Arc::clone(listen.arrivals.buffers()), key);
        let port = at_free_port(wanted, listen.ports, UdpSocket::bind)
            .and_then(|socket| UdtPort::of_session(socket, &options, session, accept));
        Ok(Box::new(port.map_err(failed)?))
    }
}

/// The control of an end that sends, by the driver's option and what `--congestion` asked for.
///
/// # Errors
/// When it is none that UDT has, or the two are not the same.
fn algorithm(values: &Values, asked: Option<ControlName>) -> Result<RateAlgorithm, Error> {
    let (native, bbr) = (RateAlgorithm::Native, RateAlgorithm::Bbr);
    match asked {
        None => Ok(if values.has(BBR) { bbr } else { native }),
        Some(name) if name.is_bbr() => Ok(bbr),
        Some(name) if name.as_str() == native.name() && !values.has(BBR) => Ok(native),
        Some(name) => {
            let message = match values.has(BBR) {
                true => format!("udt:bbr is paced by BBR, and not by {name}"),
                false => format!("UDT has no congestion control {name}"),
            };
            Err(Error::new(Fault::You, ErrorCode::UnknownCongestion, message)
                .hint(format!("leave {} out for UDT's own, or ask for bbr", Setting::Congestion)))
        }
    }
}

/// Has a connection show the session's key, in a task: it may say nothing for long.
async fn greet(arrivals: Arc<Arrivals>, stream: UnprovenUdt, from: SocketAddr, steps: Steps) {
    match arrivals.greet(stream, Some(from), &steps).await {
        Ok(()) => {}
        // A client that has all it wanted may be gone before its last connection has shown
        // anything.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(_) => arrivals.refuse(Some(from), NO_KEY),
    }
}

/// How a program's connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdtOptions {
    /// How this end sends.
    pub rate: RateAlgorithm,
    /// Bytes that the send and the receive buffer may grow to.
    pub buffer: Bytes,
    /// Whether the peer connects here at the same time, and nobody listens.
    pub rendezvous: bool,
    /// The number of the first packet; drawn when absent.
    pub first: Option<SequenceNumber>,
}

impl Default for UdtOptions {
    /// UDT's own control, 128 MiB, a listener at the other end.
    fn default() -> UdtOptions {
        let rate = RateAlgorithm::Native;
        UdtOptions { rate, buffer: Bytes(128 << 20), rendezvous: false, first: None }
    }
}

impl UdtOptions {
    fn settings(
        &self,
        packet_len: u32,
        session: Arc<SessionBuffers>,
        key: Option<Key>,
    ) -> PortSettings {
        let Bytes(buffer) = self.buffer;
        // What handshakes say, before it is known how long packets will be; the connection keeps as
        // many of those as the buffer holds.
        let room = u32::try_from(buffer / u64::from(packet_len.min(1500))).unwrap_or(u32::MAX);
        let ends = EndSettings { packet_len, room, rate: self.rate, idle_timeout: IDLE_TIMEOUT };
        PortSettings { ends, limit: buffer, session, key }
    }
}

/// A UDP port that takes connections, until this is dropped; those that it has taken go on.
#[derive(Debug)]
pub struct UdtPort {
    address: SocketAddr,
    _open: Open,
}

impl UdtPort {
    /// Takes connections at a bound socket; `accept` says false when nobody wants more, and must
    /// not wait.
    ///
    /// # Errors
    /// When the system gives no thread or no random bytes.
    pub fn open(socket: UdpSocket, options: &UdtOptions, accept: Accept) -> io::Result<UdtPort> {
        UdtPort::of_session(socket, options, (Arc::default(), None), accept)
    }

    /// The same of a session, whose own connections are known by their handshakes.
    fn of_session(
        socket: UdpSocket,
        options: &UdtOptions,
        (session, key): (Arc<SessionBuffers>, Option<Key>),
        accept: Accept,
    ) -> io::Result<UdtPort> {
        let address = socket.local_addr()?;
        let settings = options.settings(LONGEST_PACKET, session, key);
        let open = port::listen(socket, settings, MOST_CONNECTIONS, accept)?;
        Ok(UdtPort { address, _open: open })
    }
}

impl Listener for UdtPort {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

struct UdtDialer {
    options: UdtOptions,
    key: Option<Key>,
    buffers: Arc<SessionBuffers>,
}

impl Dialer for UdtDialer {
    fn open(&self, address: SocketAddr, timeout: Duration) -> Result<Opened, Error> {
        let session = (&self.buffers, self.key.clone());
        let stream = connect_with(address, None, &self.options, session, timeout);
        let stream: Box<dyn ByteStream> =
            Box::new(stream.map_err(|error| unreachable(address, &error))?);
        Ok(Opened::Bytes(stream))
    }
}

/// Connects to `peer`, from `from` when given; waits for it.
///
/// # Errors
/// When no connection comes about in time.
pub fn connect(
    peer: SocketAddr,
    from: Option<SocketAddr>,
    options: &UdtOptions,
    timeout: Duration,
) -> io::Result<UdtStream> {
    connect_with(peer, from, options, (&Arc::default(), None), timeout)
}

/// The same, as one of the connections of a session.
fn connect_with(
    peer: SocketAddr,
    from: Option<SocketAddr>,
    options: &UdtOptions,
    (session, key): (&Arc<SessionBuffers>, Option<Key>),
    timeout: Duration,
) -> io::Result<UdtStream> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(from.unwrap_or(any))?;
    let packet = longest_datagram(peer).map_or(1500, packet_len).min(LONGEST_PACKET);
    let settings = options.settings(packet, Arc::clone(session), key);
    let UdtOptions { rendezvous, first, .. } = *options;
    port::connect(Call { socket, peer, settings, timeout: timeout.into(), rendezvous, first })
}

#[cfg(test)]
mod tests {
    use super::super::super::arrivals::{Deliver, RefusedConnection};
    use super::super::super::driver::Slots;
    use super::super::super::socket::TcpOptions;
    use super::*;
    use crate::sys::pacing_limits::PacingLimit;
    use std::io::{Read, Write};
    use std::sync::mpsc;
    use std::time::Instant;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn strangers_of_its_address_take_no_place_of_a_client() {
        let key = Key::random().expect("random bytes");
        let (sender, arrived) = mpsc::channel();
        let deliver: Deliver = Box::new(move |channel| sender.send(channel).is_ok());
        let (tell, told) = mpsc::channel();
        let refused: RefusedConnection = Box::new(move |from, why| {
            let _ = tell.send((from, why.to_owned()));
        });
        let arrivals = Arc::new(Arrivals::new(key.clone(), None, deliver, refused));
        let ip = [127, 0, 0, 1].into();
        let listen = Listen {
            ip,
            ports: None,
            sockets: TcpOptions::default(),
            slots: Slots { slot_len: Bytes(1 << 20), begin: 1, most: None },
            client: ip,
            rtt: Span::ZERO,
            arrivals: Arc::clone(&arrivals),
        };
        let port = Udt.listen(listen).expect("a port");
        tokio::task::block_in_place(|| {
            let (address, options) = (port.address(), UdtOptions::default());
            let session = (&Arc::default(), Some(key.clone()));
            let soon = Duration::from_secs(8);
            // It has shaken hands, and its preamble is on its way while they come.
            let mut own = connect_with(address, None, &options, session, soon).expect("a way");
            let stranger = || connect(address, None, &options, soon).expect("a way");
            let strangers: Vec<UdtStream> = (0..MOST_PENDING + 20).map(|_| stranger()).collect();
            own.write_all(&key.preamble()).expect("sent");
            let channel = arrived.recv_timeout(soon).expect("the place is its own");
            let gone: Vec<_> = told.try_iter().collect();
            assert!(gone.len() > 20 && gone.iter().all(|(_, why)| why == NO_PLACE), "{gone:?}");
            // Nor do they take a part of what its session may keep, until one shows the key.
            assert_eq!(arrivals.buffers().connections(), 1);
            let mut late = stranger();
            late.write_all(&key.preamble()).expect("sent");
            let another = arrived.recv_timeout(soon).expect("it is none");
            let until = Instant::now() + soon;
            while arrivals.buffers().connections() < 2 {
                assert!(Instant::now() < until, "it has no part");
                std::thread::sleep(Duration::from_millis(5));
            }
            drop((strangers, channel, another));
        });
    }

    #[test]
    fn buffers_that_are_too_small_for_a_session_are_told() {
        for others in [0, 4_095] {
            let session = Arc::<SessionBuffers>::default();
            let others: Vec<_> = (0..others).map(|_| session.join()).collect();
            let (sender, accepted) = mpsc::channel();
            let accept: Accept = Box::new(move |stream, _| sender.send(stream).is_ok());
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let options = UdtOptions::default();
            let port = UdtPort::of_session(socket, &options, (Arc::clone(&session), None), accept);
            let port = port.expect("a port");
            let soon = Duration::from_secs(10);
            let mut own = connect(port.address, None, &options, soon).expect("a way");
            let mut far = accepted.recv_timeout(soon).expect("the same");
            let sent = vec![7; 1 << 20];
            std::thread::scope(|scope| {
                scope.spawn(|| own.write_all(&sent).expect("sent"));
                // Nobody reads for a while.
                std::thread::sleep(Duration::from_millis(200));
                let mut came = vec![0; sent.len()];
                far.read_exact(&mut came).expect("all of it");
                assert!(came == sent);
            });
            let expected: &[PacingLimit] =
                if others.is_empty() { &[] } else { &[PacingLimit::ChannelBuffers] };
            assert_eq!(session.struck().take(), expected);
        }
    }
}
