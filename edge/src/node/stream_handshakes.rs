//! Who of those that connect for a transfer in MODE S under TLS is the client: handshakes run next to each
//! other, so that nobody who says nothing keeps the client waiting.

use super::wire::HANDSHAKE_TIMEOUT;
use crate::channels::ordered::ByteStream;
use crate::channels::secured::secured;
use crate::channels::trust::{Fingerprint, ServerConfig};
use crate::sys::tcp::tcp_info;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Duration;

/// Handshakes under way for one transfer: a stranger needs so many connections to be in the client's way.
const MOST: usize = 8;

/// A connection whose peer is the client, and the round-trip time that it saw.
pub(super) struct Secured {
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) socket: TcpStream,
    pub(super) rtt: Duration,
}

/// What became of a handshake.
type Finished = (usize, io::Result<Box<dyn ByteStream>>);

/// Handshakes that are under way; all end when this goes.
pub(super) struct StreamHandshakes {
    config: Arc<ServerConfig>,
    bound: Option<Option<Fingerprint>>,
    begun: usize,
    /// Those under way, oldest first: number, socket, and where it is from.
    pending: Vec<(usize, TcpStream, IpAddr)>,
    tell: mpsc::Sender<Finished>,
    told: mpsc::Receiver<Finished>,
}

impl StreamHandshakes {
    pub(super) fn new(
        config: Arc<ServerConfig>,
        bound: Option<Option<Fingerprint>>,
    ) -> StreamHandshakes {
        let (tell, told) = mpsc::channel();
        StreamHandshakes { config, bound, begun: 0, pending: Vec::new(), tell, told }
    }

    /// Whether any is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Begins one with who is at the other end of `stream`. The oldest makes room where there is none.
    ///
    /// # Errors
    /// When this host has no descriptor or thread for it.
    pub(super) fn begin(&mut self, stream: TcpStream, from: IpAddr) -> io::Result<()> {
        if self.pending.len() >= MOST {
            // It fails there, and is heard of as the others.
            let _ = self.pending[0].1.shutdown(Shutdown::Both);
        }
        let (number, socket) = (self.begun, stream.try_clone()?);
        let (config, bound) = (Arc::clone(&self.config), self.bound);
        let tell = self.tell.clone();
        Builder::new().name("tls-handshake".to_owned()).spawn(move || {
            // Nobody may wait for it any more.
            let _ = tell.send((number, secured(stream, config, HANDSHAKE_TIMEOUT, bound)));
        })?;
        self.begun += 1;
        self.pending.push((number, socket, from));
        Ok(())
    }

    /// The next that is over within `wait`: the client's connection, or who was none and why.
    pub(super) fn next(&mut self, wait: Duration) -> Option<Result<Secured, (IpAddr, io::Error)>> {
        let (number, made) = self.told.recv_timeout(wait).ok()?;
        let at = self.pending.iter().position(|(pending, ..)| *pending == number)?;
        let (_, socket, from) = self.pending.remove(at);
        Some(made.map_err(|error| (from, error)).map(|stream| {
            let rtt = tcp_info(&socket).map_or(Duration::ZERO, |info| info.rtt.into());
            Secured { stream, socket, rtt }
        }))
    }
}

impl Drop for StreamHandshakes {
    fn drop(&mut self) {
        // Its thread ends with it.
        for (_, socket, _) in &self.pending {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
