//! One suite for all channel drivers, gated by what each says that it can: what a capability grants
//! works, and what it denies is refused.
//!
//! [`conform`] runs it over two ends in this process. A driver is done when it passes.

mod cases;
mod drivers;

use super::arrivals::Arrivals;
use super::driver::{
    Carries, Dialer, Listen, Listener, Role, Session, Slots, Taker, Transport, Tunnel,
};
use super::key::Key;
use super::layer::TlsPeer;
use super::registry::Registry;
use super::stack::{Opener, Stack};
use super::trust::{NodeCertificate, pinned};
use super::{Arrival, Channel, TcpOptions};
use crate::sys::lock::lock;
use crate::sys::pool::{Slot, pool};
use farline_core::gridftp::checked::Check;
use farline_core::gridftp::mode_e::{Flags, Header};
use farline_core::units::{Bytes, Error, Span};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Bytes of a slot, which is a block.
pub(super) const BLOCK: usize = 64 << 10;
/// Slots that either end of a channel has.
pub(super) const SLOTS: usize = 4;
/// A guest is slow, and its host may be busy.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Where the ends of a driver's channels meet.
pub(super) struct Site {
    pub(super) registry: Registry,
    /// What is to conform, as a user writes it.
    pub(super) stack: &'static str,
    /// The driver by which the node listens, where that is another.
    pub(super) listens_by: Option<&'static str>,
    /// The address of the node's end.
    pub(super) ip: IpAddr,
    /// What carries connections, where the driver needs it.
    pub(super) tunnel: Option<Arc<dyn Tunnel>>,
}

/// Runs every case over the driver of `site`.
pub(super) fn conform(site: Site) {
    let bench = Bench::new(site);
    for (name, case) in cases::CASES {
        bench.run(name, case);
    }
}

/// A driver between two ends, of which each case makes its own.
pub(super) struct Bench {
    pub(super) site: Site,
    pub(super) stack: Stack,
    identity: NodeCertificate,
    /// What carries a node's ports, on a thread that ends with this.
    inside: tokio::runtime::Handle,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Both ends of one channel, and what keeps them.
pub(super) struct Ends {
    pub(super) near: Box<dyn Channel>,
    pub(super) far: Box<dyn Channel>,
    pub(super) port: Port,
}

/// A port of a session, and what comes in there.
pub(super) struct Port {
    pub(super) key: Key,
    pub(super) arrived: mpsc::Receiver<Box<dyn Channel>>,
    /// Of the session's client: it numbers its channels.
    dialer: Arc<dyn Dialer>,
    taker: Mutex<Option<Box<dyn Taker>>>,
    _arrivals: Arc<Arrivals>,
    listener: Box<dyn Listener>,
}

impl Bench {
    fn new(site: Site) -> Arc<Bench> {
        let stack = site.registry.stack(site.stack).expect("a stack");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let inside = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || runtime.block_on(stopped));
        let identity = NodeCertificate::fresh().expect("a key");
        Arc::new(Bench { site, stack, identity, inside, _stop: stop })
    }

    /// Runs `case` on a thread of its own: one that hangs fails, and does not hang the others.
    fn run(self: &Arc<Bench>, name: &str, case: fn(&Bench)) {
        let (bench, (done, is_done)) = (Arc::clone(self), mpsc::channel());
        let running = std::thread::spawn(move || {
            case(&bench);
            let _ = done.send(());
        });
        match is_done.recv_timeout(2 * TIMEOUT) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}: {name} hangs", self.stack),
            _ => running.join().unwrap_or_else(|_| panic!("{}: {name} failed", self.stack)),
        }
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        match &self.stack.channel().role {
            Role::Channel(transport) => &**transport,
            Role::Layer(_) => panic!("a stack has a channel at its bottom"),
        }
    }

    pub(super) fn carries(&self) -> Carries {
        self.stack.channel().capabilities.carries
    }

    fn slots(&self) -> Slots {
        Slots { slot_len: Bytes(BLOCK as u64), begin: SLOTS, most: Some(SLOTS) }
    }

    /// Listens as a node does, for a session with a fresh key.
    pub(super) fn listen(&self) -> Port {
        let key = Key::random().expect("random bytes");
        let (deliver, arrived) = mpsc::channel();
        // A driver that encrypts by itself shows what the layer would.
        let by_itself = self.stack.is_encrypted() && self.site.tunnel.is_none();
        let layer = self.stack.layers.first();
        let layer = layer.or(self.site.registry.encrypting_layer().filter(|_| by_itself));
        let layer = layer.and_then(|driver| driver.layer());
        let layer = layer.map(|layer| (Arc::clone(layer), Arc::clone(&self.identity.config)));
        let deliver = Box::new(move |channel| deliver.send(channel).is_ok());
        let arrivals = Arc::new(Arrivals::new(key.clone(), layer, deliver, Box::new(|_, _| {})));
        let by = self.site.listens_by.unwrap_or(self.stack.channel().name);
        let driver = self.site.registry.find(by).expect("a driver");
        let Role::Channel(transport) = &driver.role else { panic!("{by} is no channel") };
        let _inside = self.inside.enter();
        let listen = Listen {
            ip: self.site.ip,
            ports: None,
            sockets: TcpOptions::default(),
            slots: self.slots(),
            client: self.site.ip,
            rtt: Span::ZERO,
            arrivals: Arc::clone(&arrivals),
        };
        let listener = transport.listen(listen).expect("a port");
        assert_eq!(Arc::strong_count(&arrivals), 1, "a port must not keep its session alive");
        let (dialer, taker) = (self.dialer(&key), Mutex::new(self.transport().taker(&key)));
        Port { key, arrived, dialer, taker, _arrivals: arrivals, listener }
    }

    /// What opens channels of the session that `key` is of.
    pub(super) fn dialer(&self, key: &Key) -> Arc<dyn Dialer> {
        let session = Session {
            key: Some(key.clone()),
            rtt: Span::from_millis(1),
            sockets: TcpOptions::default(),
            slots: self.slots(),
            trust: Some(pinned(self.identity.fingerprint).expect("a fingerprint")),
            tunnel: self.site.tunnel.clone(),
            shared: None,
            grid: None,
        };
        self.stack.dialer(&session).expect("a dialer")
    }

    /// The same to one address.
    pub(super) fn opener(&self, key: &Key, address: SocketAddr) -> Opener {
        self.opener_by(self.dialer(key), key, address)
    }

    fn opener_by(&self, dialer: Arc<dyn Dialer>, key: &Key, address: SocketAddr) -> Opener {
        let config = pinned(self.identity.fingerprint).expect("a fingerprint");
        let trust = Some(TlsPeer { config, address });
        Opener::new(&self.stack, dialer, Some(key.clone()), trust, (address, TIMEOUT))
    }

    /// One channel.
    pub(super) fn open(&self) -> Ends {
        let port = self.listen();
        let (near, far) = self.open_at(&port);
        Ends { near, far, port }
    }

    /// One more channel of the session whose port this is.
    pub(super) fn open_at(&self, port: &Port) -> (Box<dyn Channel>, Box<dyn Channel>) {
        let dialer = &port.dialer;
        if !dialer.is_by_offer() {
            let near = self.opener_by(Arc::clone(dialer), &port.key, port.address());
            return (near.open_one().expect("a channel"), port.next());
        }
        let offer = dialer.offer(port.address()).expect("an offer");
        let mut taker = lock(&port.taker);
        let taker = taker.as_mut().expect("it takes offers");
        let (far, told) = taker.take(self.site.ip, self.slots(), offer.text()).expect("taken");
        (offer.connect(&told).expect("connected"), far)
    }
}

impl Port {
    pub(super) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    pub(super) fn next(&self) -> Box<dyn Channel> {
        self.arrived.recv_timeout(TIMEOUT).expect("a channel comes in")
    }
}

/// Empty slots.
pub(super) fn slots() -> Vec<Slot> {
    pool(SLOTS, BLOCK).expect("memory")
}

/// Sends `bytes` as a transfer of its own.
pub(super) fn send(
    channel: &mut dyn Channel,
    bytes: &[u8],
    slots: &mut Vec<Slot>,
) -> io::Result<()> {
    let (depth, mut on_way) = (channel.depth(), 0);
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        while on_way >= depth || slots.is_empty() {
            let sent = channel.sent(None)?;
            on_way -= usize::from(sent.is_some());
            slots.extend(sent);
        }
        let mut slot = slots.pop().ok_or_else(|| io::Error::other("no slot came back"))?;
        slot[..block.len()].copy_from_slice(block);
        let header = Header::data((number * BLOCK) as u64, block.len() as u64);
        let check = Check::of(block, [number as u8 + 1; 32]);
        channel.send(header, &check, slot, 0..block.len())?;
        on_way += 1;
    }
    channel.mark(Header::eof(1).with(Flags::EOD))?;
    while on_way > 0 {
        let sent = channel.sent(None)?;
        on_way -= usize::from(sent.is_some());
        slots.extend(sent);
    }
    Ok(())
}

/// What came of one transfer.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    /// Where each block begins, as they came.
    pub(super) offsets: Vec<u64>,
    pub(super) checks: Vec<Option<Check>>,
    /// Bytes that the connection brought.
    pub(super) carried: usize,
}

/// Receives one transfer.
pub(super) fn receive(channel: &mut dyn Channel, slots: &mut Vec<Slot>) -> io::Result<Received> {
    let mut received = Received::default();
    for _ in 0..channel.depth().min(slots.len()) {
        channel.offer(slots.pop().ok_or_else(|| io::Error::other("no slot is left"))?);
    }
    loop {
        match channel.receive()? {
            None => {}
            Some(Arrival::Data { slot, block, check, carried }) => {
                let end = block.offset as usize + block.len;
                received.bytes.resize(received.bytes.len().max(end), 0);
                let into = &mut received.bytes[end - block.len..end];
                match carried {
                    0 => into.fill(0),
                    _ => into.copy_from_slice(&slot[..block.len]),
                }
                received.offsets.push(block.offset);
                received.checks.push(check);
                received.carried += carried;
                channel.offer(slot);
            }
            Some(Arrival::End { slot, channels, .. }) => {
                slots.push(slot);
                slots.extend(std::iter::from_fn(|| channel.unused()));
                return match channels {
                    Some(1) => Ok(received),
                    other => Err(io::Error::other(format!("{other:?} channels, not 1"))),
                };
            }
        }
    }
}

/// Takes back what a channel holds.
pub(super) fn withdrawn(channel: &mut dyn Channel) -> usize {
    std::iter::from_fn(|| channel.withdraw()).count()
}

/// Bytes of which no two blocks are alike.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / BLOCK * 31 + at % 251) as u8).collect()
}

/// Two things at once, on threads; both ends of a channel need it.
pub(super) fn both<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().expect("no panic"), other)
    })
}

/// The error of what must not be.
pub(super) fn refusal<T>(result: Result<T, Error>) -> Error {
    result.err().expect("it is refused")
}
