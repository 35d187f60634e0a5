//! The TCP driver: dials and takes connections for data, each a channel of MODE E over one socket.

use super::accept_error::{BackOff, accept_next};
use super::arrivals::{Arrivals, NO_KEY};
use super::driver::{
    Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered, Opened, Role,
    Session, Transport,
};
use super::gsi::DataSecurity;
use super::pending::{NO_PLACE, Pending, Steps};
use super::socket::{
    TcpOptions, bind, connect_stream, hold, no_port, prepare, unreachable, wrong_buffers,
};
use crate::drivers::Values;
use farline_core::units::{Error, ErrorCode, Fault};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Preambles read at once for one session: K-3.
const MOST_PENDING: usize = 256;

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: "tcp",
        schemes: &["tcp"],
        title: "TCP",
        about: "ordered bytes over TCP, with the kernel's congestion control; any two hosts have it",
        options: &[],
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: false,
            same_fabric: false,
            congestion: CongestionBy::Kernel,
            needs_key: false,
            grows: true,
            max_block: None,
            offered: Offered::Always,
        },
        features: &[],
        role: Role::Channel(Box::new(Tcp)),
    }
}

struct Tcp;

impl Transport for Tcp {
    fn dialer(&self, session: &Session, _values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        Ok(Arc::new(TcpDialer(session.sockets.clone(), session.grid.clone())))
    }

    fn listen(&self, listen: Listen) -> Result<Box<dyn Listener>, Error> {
        let address = SocketAddr::new(listen.ip, 0);
        let listener = bind(address, listen.ports, &listen.sockets)?;
        let port = TcpPort::open(listener, &listen.arrivals, Some(listen.client))
            .map_err(|error| no_port(address, &error))?;
        Ok(Box::new(port))
    }
}

/// Opens connections with these options, in a session by GSI to whoever shows whose they are.
struct TcpDialer(TcpOptions, Option<DataSecurity>);

impl Dialer for TcpDialer {
    fn open(&self, address: SocketAddr, timeout: Duration) -> Result<Opened, Error> {
        let opened = connect_stream(address, None, &self.0, timeout).and_then(|stream| {
            prepare(&stream)?;
            if let (Some(rate), Some(control)) = (self.0.held, self.0.congestion) {
                hold(&SockRef::from(&stream), rate, control)?;
            }
            Ok(stream)
        });
        if let (Ok(_), Some(grid)) = (&opened, &self.1) {
            return opened
                .map(|stream| Opened::Entered(grid.connect_later(stream, timeout)))
                .map_err(|error| unreachable(address, &error));
        }
        match (opened, &self.0.congestion) {
            (Ok(stream), _) => Ok(Opened::Bytes(Box::new(stream))),
            (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("this kernel has no congestion control `{name}`");
                Err(Error::new(Fault::You, ErrorCode::UnknownCongestion, message)
                    .hint("see /proc/sys/net/ipv4/tcp_available_congestion_control"))
            }
            (Err(error), _) => {
                Err(wrong_buffers(&error).unwrap_or_else(|| unreachable(address, &error)))
            }
        }
    }
}

/// A listening TCP port; the task that accepts, and those that read preambles, end with this.
#[derive(Debug)]
struct TcpPort {
    address: SocketAddr,
    task: AbortHandle,
}

impl TcpPort {
    /// Takes connections on `listener` for a session. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// When the listener cannot be used.
    fn open(
        listener: TcpListener,
        arrivals: &Arc<Arrivals>,
        client: Option<IpAddr>,
    ) -> io::Result<TcpPort> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = tokio::spawn(accept(listener, Arc::downgrade(arrivals), client)).abort_handle();
        Ok(TcpPort { address, task })
    }
}

impl Listener for TcpPort {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TcpPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections and reads their preambles, until the session is gone.
async fn accept(
    listener: tokio::net::TcpListener,
    arrivals: Weak<Arrivals>,
    client: Option<IpAddr>,
) {
    let mut pending = Pending::new(Handle::current(), MOST_PENDING, client);
    let mut back_off = BackOff::default();
    // The session hears of it as of a connection that there is no room for.
    let full = |_: &io::Error| {
        let _ = arrivals.upgrade().is_some_and(|arrivals| arrivals.has_room());
    };
    while let Some((stream, from)) = accept_next(&listener, &mut back_off, &full).await {
        let Some(arrivals) = arrivals.upgrade() else { return };
        if !arrivals.has_room() {
            continue;
        }
        let greets = Arc::clone(&arrivals);
        let gone = pending.begin(from, |steps| greet(greets, stream, from, steps));
        if let Some(gone) = gone {
            arrivals.refuse(Some(gone), NO_PLACE);
        }
        // What came is read before another's place is taken for it.
        tokio::task::yield_now().await;
    }
}

async fn greet(arrivals: Arc<Arrivals>, stream: TcpStream, from: SocketAddr, steps: Steps) {
    if let Err(error) = arrivals.greet(stream, Some(from), &steps).await
        && !arrivals.is_given_up(Some(from), &error)
    {
        arrivals.refuse(Some(from), NO_KEY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::key::Key;
    use std::io::Write;
    use std::sync::mpsc;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn who_shows_another_key_or_none_is_told_of() {
        let (key, other) = (Key::random().expect("bytes"), Key::random().expect("bytes"));
        let (sender, arrived) = mpsc::channel();
        let deliver = Box::new(move |channel| sender.send(channel).is_ok());
        let (tell, told) = mpsc::channel();
        let refused = Box::new(move |from: Option<SocketAddr>, why: &str| {
            let _ = tell.send((from, why.to_owned()));
        });
        let arrivals = Arc::new(Arrivals::new(key.clone(), None, deliver, refused));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = TcpPort::open(listener, &arrivals, None).expect("it listens");
        tokio::task::block_in_place(|| {
            for preamble in [Some(other.preamble()), None] {
                let mut stranger = std::net::TcpStream::connect(port.address()).expect("a way");
                let from = stranger.local_addr().ok();
                preamble.iter().for_each(|preamble| stranger.write_all(preamble).expect("sent"));
                stranger.shutdown(std::net::Shutdown::Write).expect("ended");
                let told = told.recv_timeout(Duration::from_secs(8)).expect("told of");
                assert_eq!(told, (from, NO_KEY.to_owned()));
            }
            let mut client = std::net::TcpStream::connect(port.address()).expect("a way");
            client.write_all(&key.preamble()).expect("sent");
            arrived.recv_timeout(Duration::from_secs(8)).expect("a channel");
        });
        assert!(told.try_recv().is_err(), "of the client nothing is told");
    }

    #[cfg(feature = "tls")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn silent_strangers_take_no_place_of_a_client() {
        use crate::channels::layer::{Layer, TlsPeer};
        use crate::channels::tls;
        use crate::channels::trust::{NodeCertificate, pinned};
        let key = Key::random().expect("bytes");
        let identity = NodeCertificate::fresh().expect("a key");
        let Role::Layer(layer) = tls::driver().role else { panic!("TLS is a layer") };
        let layer: Arc<dyn Layer> = layer;
        let (sender, arrived) = mpsc::channel();
        let deliver = Box::new(move |channel| sender.send(channel).is_ok());
        let (tell, told) = mpsc::channel();
        let refused = Box::new(move |from: Option<SocketAddr>, why: &str| {
            let _ = tell.send((from, why.to_owned()));
        });
        let over = Some((Arc::clone(&layer), Arc::clone(&identity.config)));
        let arrivals = Arc::new(Arrivals::new(key.clone(), over, deliver, refused));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = TcpPort::open(listener, &arrivals, None).expect("it listens");
        tokio::task::block_in_place(|| {
            let address = port.address();
            let connect = || std::net::TcpStream::connect(address).expect("a way");
            let mut near = connect();
            near.write_all(&key.preamble()).expect("sent");
            let strangers: Vec<_> = (0..MOST_PENDING + 50).map(|_| connect()).collect();
            let first = strangers[0].local_addr().ok();
            let gone = told.recv_timeout(Duration::from_secs(8)).expect("told of");
            assert_eq!(gone, (first, NO_PLACE.to_owned()), "the oldest that says nothing");
            let config = pinned(identity.fingerprint).expect("TLS");
            let stream = layer.connect(Box::new(near), &TlsPeer { config, address });
            stream.expect("the place is its own").write_all(&key.proof()).expect("sent");
            arrived.recv_timeout(Duration::from_secs(8)).expect("a channel");
        });
    }
}
