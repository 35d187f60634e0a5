//! Channels within one process: bytes through memory, for tests of what stands above a channel, and
//! as the smallest example of a driver.

use super::Handle;
use super::arrivals::Arrivals;
use super::driver::{
    Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered, Opened, Role,
    Session, Transport,
};
use super::handle::ConnectionControl;
use super::ordered::ByteStream;
use super::socket::unreachable;
use crate::drivers::Values;
use crate::sys::lock::lock;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::units::{Error, Span};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Bytes on their way in one direction before a writer waits.
const CAPACITY: usize = 64 << 10;

/// The driver, with a network of its own: only its own nodes can be reached.
pub(crate) fn driver() -> Driver {
    Driver {
        name: "memory",
        schemes: &["memory"],
        title: "memory",
        about: "ordered bytes within one process",
        options: &[],
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: false,
            same_fabric: true,
            congestion: CongestionBy::Below,
            needs_key: true,
            grows: true,
            max_block: None,
            offered: Offered::WhenAsked,
        },
        features: &[],
        role: Role::Channel(Box::new(Memory::default())),
    }
}

/// Who listens, by port.
type Ports = Arc<Mutex<BTreeMap<u16, Weak<Arrivals>>>>;

#[derive(Default)]
struct Memory(Ports);

impl Transport for Memory {
    fn dialer(&self, _session: &Session, _values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        Ok(Arc::new(MemoryDialer(Arc::clone(&self.0))))
    }

    fn listen(&self, listen: Listen) -> Result<Box<dyn Listener>, Error> {
        let mut ports = lock(&self.0);
        let port = ports.last_key_value().map_or(1, |(&port, _)| port.wrapping_add(1));
        ports.insert(port, Arc::downgrade(&listen.arrivals));
        let address = SocketAddr::new(listen.ip, port);
        Ok(Box::new(MemoryPort { address, ports: Arc::clone(&self.0) }))
    }
}

struct MemoryPort {
    address: SocketAddr,
    ports: Ports,
}

impl Listener for MemoryPort {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MemoryPort {
    fn drop(&mut self) {
        lock(&self.ports).remove(&self.address.port());
    }
}

struct MemoryDialer(Ports);

impl Dialer for MemoryDialer {
    fn open(&self, address: SocketAddr, _timeout: Duration) -> Result<Opened, Error> {
        let refused = || unreachable(address, &io::ErrorKind::ConnectionRefused.into());
        let arrivals = lock(&self.0).get(&address.port()).and_then(Weak::upgrade);
        let arrivals = arrivals.ok_or_else(refused)?;
        let (near, far) = pair();
        // The key has not been shown yet, and a layer's handshake waits for this end.
        let meeting = move || drop(arrivals.meet(Box::new(far), None));
        std::thread::Builder::new()
            .name("memory channel".to_owned())
            .spawn(meeting)
            .map_err(|error| unreachable(address, &error))?;
        Ok(Opened::Bytes(Box::new(near)))
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Nothing more is written.
    is_finished: bool,
    /// Nothing more is read.
    is_closed: bool,
}

impl Pipe {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct MemoryStream(Ends);

#[derive(Clone, Debug)]
struct Ends {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    timeout: Arc<Mutex<Option<Duration>>>,
}

/// Two ends that are connected.
pub(crate) fn pair() -> (MemoryStream, MemoryStream) {
    let (there, back) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
    let end = |incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>| {
        let (incoming, outgoing) = (Arc::clone(incoming), Arc::clone(outgoing));
        MemoryStream(Ends { incoming, outgoing, timeout: Arc::default() })
    };
    (end(&back, &there), end(&there, &back))
}

impl Read for MemoryStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let pipe = &self.0.incoming;
        let timeout = *lock(&self.0.timeout);
        let mut state = lock(&pipe.state);
        while state.bytes.is_empty() && !state.is_finished && !state.is_closed {
            let Some(timeout) = timeout else {
                state = pipe.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (waited, result) =
                pipe.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
            state = waited;
            if result.timed_out() && state.bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let read = state.bytes.read(into)?;
        drop(state);
        pipe.changed.notify_all();
        Ok(read)
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pipe = &self.0.outgoing;
        let mut state = lock(&pipe.state);
        while state.bytes.len() >= CAPACITY && !state.is_closed && !state.is_finished {
            state = pipe.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed || state.is_finished {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(CAPACITY - state.bytes.len().min(CAPACITY));
        state.bytes.extend(&bytes[..len]);
        drop(state);
        pipe.changed.notify_all();
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for MemoryStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::new(self.0.clone()))
    }

    fn congestion(&self) -> Option<ControlName> {
        None
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.outgoing.change(|state| state.is_finished = true);
        Ok(())
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.0.outgoing.change(|state| state.is_finished = true);
        self.0.incoming.change(|state| state.is_closed = true);
    }
}

impl ConnectionControl for Ends {
    fn rtt(&self) -> Option<Span> {
        None
    }

    fn break_now(&self) {
        self.outgoing.change(|state| state.is_finished = true);
        self.incoming.change(|state| {
            state.is_closed = true;
            state.bytes.clear();
        });
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.timeout) = timeout;
        Ok(())
    }
}
