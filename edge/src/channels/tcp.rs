//! The TCP driver: dials and takes connections for data, each a channel of MODE E over one socket.

use super::accept_error::{BackOff, accept_next};
use super::arrivals::{Arrivals, NO_KEY, PREAMBLE_TIMEOUT};
use super::driver::{
    Capabilities, Carries, CongestionBy, Dialer, Driver, Listen, Listener, Offered, Opened, Role,
    Session, Transport,
};
use super::gsi::DataSecurity;
use super::key::{PREAMBLE_LEN, Token};
use super::socket::{
    TcpOptions, bind, connect_stream, hold, no_port, prepare, unreachable, wrong_buffers,
};
use crate::drivers::Values;
use farline_core::units::{Error, ErrorCode, Fault};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
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
        let port =
            TcpPort::open(listener, &listen.arrivals).map_err(|error| no_port(address, &error))?;
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
    fn open(listener: TcpListener, arrivals: &Arc<Arrivals>) -> io::Result<TcpPort> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = tokio::spawn(accept(listener, Arc::downgrade(arrivals))).abort_handle();
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
async fn accept(listener: tokio::net::TcpListener, arrivals: Weak<Arrivals>) {
    let (mut pending, mut back_off) = (VecDeque::<Pending>::new(), BackOff::default());
    while let Some((stream, from)) = accept_next(&listener, &mut back_off).await {
        let Some(arrivals) = arrivals.upgrade() else { return };
        pending.retain(|pending| !pending.0.is_finished());
        if pending.len() >= MOST_PENDING {
            // A client's preamble comes with its connection: whoever has waited longest is no
            // client.
            pending.pop_front();
        }
        pending.push_back(Pending(tokio::spawn(greet(arrivals, stream, from)).abort_handle()));
    }
}

/// A connection whose preamble is being read; closed when this goes.
struct Pending(AbortHandle);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn greet(arrivals: Arc<Arrivals>, mut stream: TcpStream, from: SocketAddr) {
    let mut preamble = [0; PREAMBLE_LEN];
    let read = tokio::time::timeout(PREAMBLE_TIMEOUT, stream.read_exact(&mut preamble)).await;
    if matches!(read, Ok(Ok(_))) && Token::of(&preamble) == Some(arrivals.key().token()) {
        arrivals.enter(stream).await;
    } else {
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
        let port = TcpPort::open(listener, &arrivals).expect("it listens");
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
}
