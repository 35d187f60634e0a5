//! Other traffic next to a run: datagrams of UDP at a steady rate, which nobody acknowledges and
//! nobody reads.

use farline_core::units::Rate;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Headers of Ethernet, IPv4 and UDP around a datagram.
const HEADERS: u64 = 14 + 20 + 8;
/// Room for what is on its way over the longest of the papers' paths, with the kernel's
/// book-keeping.
const SEND_BUFFER: usize = 16 << 20;
/// The longest that a sender sleeps: bursts stay short.
const TICK: Duration = Duration::from_micros(500);

/// Traffic that lasts as long as this.
pub(super) struct Cross {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// A port of the far end's, so that nothing there answers that there is none.
    _sink: UdpSocket,
}

impl Cross {
    /// Datagrams from `near` to `far`, at `rate` with the bytes around them, each of `len` on the
    /// interface.
    pub(super) fn between(near: IpAddr, far: IpAddr, rate: Rate, len: u64) -> io::Result<Cross> {
        let sink = UdpSocket::bind((far, 0))?;
        let socket = UdpSocket::bind((near, 0))?;
        socket.connect(sink.local_addr()?)?;
        // What waits in the wire is in the socket's buffer still; more than the usual limit takes
        // the right that setting the wire takes.
        rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("other-traffic".to_owned()).spawn(move || {
                let payload = vec![0; usize::try_from(len.saturating_sub(HEADERS)).unwrap_or(0)];
                let each = len as f64 * 8.0 / rate.as_bps().max(1) as f64;
                let (began, mut sent) = (Instant::now(), 0u64);
                while !stopped.load(Ordering::Relaxed) {
                    let due = (began.elapsed().as_secs_f64() / each) as u64;
                    while sent < due {
                        // What the queue before the wire has no room for is lost there, as it
                        // should be.
                        let _ = socket.send(&payload);
                        sent += 1;
                    }
                    std::thread::sleep(TICK);
                }
            })?;
        Ok(Cross { stop, thread: Some(thread), _sink: sink })
    }
}

impl Drop for Cross {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends by itself, and cannot panic.
            let _ = thread.join();
        }
    }
}
