//! What tests and benchmarks of UDT share: the peer that speaks by libudt, its bytes, and a relay
//! that treats datagrams as a bad path does.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

/// Of Debian's libudt-dev.
const HEADER: &str = "/usr/include/udt/udt.h";

/// The peer, built once in the folder of build results.
///
/// # Errors
/// Why there is none.
pub fn peer_binary() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> Result<PathBuf, String> {
    if !Path::new(HEADER).exists() {
        return Err("libudt is not here: apt-get install libudt-dev".to_owned());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("udt/peer.cpp");
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = this.parent().ok_or("no folder of build results")?;
    let (binary, fresh) = (
        folder.join("farline-udt-peer"),
        folder.join(format!("farline-udt-peer.{}", std::process::id())),
    );
    let built = Command::new("c++")
        .args(["-O2", "-o"])
        .args([&fresh, &source])
        .args(["-ludt", "-lpthread"])
        .output()
        .map_err(|error| format!("no C++ compiler: {error}"))?;
    if !built.status.success() {
        return Err(format!("peer.cpp: {}", String::from_utf8_lossy(&built.stderr)));
    }
    std::fs::rename(fresh, &binary).map_err(|error| error.to_string())?;
    Ok(binary)
}

/// What 256 bytes from a multiple of 256 on are, by what their place adds to each of them.
static ROWS: LazyLock<Vec<[u8; 256]>> = LazyLock::new(|| {
    let row = |added: u64| std::array::from_fn(|index| (index as u64 * 131 + added) as u8);
    (0..256).map(row).collect()
});

/// Bytes of the stream that the peer knows, from byte `at` on: of each the low byte of
/// `131 at + 17 (at >> 8) + (at >> 20)`.
pub fn pattern(at: u64, len: usize) -> Vec<u8> {
    let (mut at, end) = (at, at + len as u64);
    let mut bytes = Vec::with_capacity(len);
    while at < end {
        let added = (at >> 8).wrapping_mul(17).wrapping_add(at >> 20) as u8;
        let next = end.min((at | 255) + 1);
        let (from, count) = ((at % 256) as usize, (next - at) as usize);
        bytes.extend_from_slice(&ROWS[usize::from(added)][from..from + count]);
        at = next;
    }
    bytes
}

/// What a relay does to datagrams: of so many each way one is lost, one goes twice, and one waits
/// until the next has gone.
#[derive(Clone, Copy, Debug)]
pub struct Harm {
    /// Of so many one is lost.
    pub loses: u64,
    /// Of so many one goes twice.
    pub repeats: u64,
    /// Of so many one is late.
    pub delays: u64,
}

/// A relay of datagrams between a client and one address.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    lost: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
}

impl Relay {
    /// One that leads to `to`, for one client at a time.
    ///
    /// # Errors
    /// When the system gives no ports.
    pub fn to(to: SocketAddr, harm: Harm) -> io::Result<Relay> {
        let client_side = UdpSocket::bind("127.0.0.1:0")?;
        let server_side = UdpSocket::bind("127.0.0.1:0")?;
        server_side.connect(to)?;
        let relay = Relay {
            port: client_side.local_addr()?.port(),
            lost: Arc::default(),
            stops: Arc::default(),
        };
        let client = Arc::new(std::sync::Mutex::new(None));
        for socket in [&client_side, &server_side] {
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        }
        let (to_client, to_server) = (client_side.try_clone()?, server_side.try_clone()?);
        let (lost, stops, seen) =
            (Arc::clone(&relay.lost), Arc::clone(&relay.stops), client.clone());
        std::thread::spawn(move || {
            carry(&client_side, harm, &lost, &stops, |bytes, from| {
                if let (Ok(mut seen), Some(from)) = (seen.lock(), from) {
                    *seen = Some(from);
                }
                drop(to_server.send(bytes));
            });
        });
        let (lost, stops) = (Arc::clone(&relay.lost), Arc::clone(&relay.stops));
        std::thread::spawn(move || {
            carry(&server_side, harm, &lost, &stops, |bytes, _| {
                if let Some(to) = client.lock().ok().and_then(|client| *client) {
                    drop(to_client.send_to(bytes, to));
                }
            });
        });
        Ok(relay)
    }

    /// Where clients find it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Datagrams that it lost so far, both ways.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

fn carry(
    from: &UdpSocket,
    harm: Harm,
    lost: &AtomicU64,
    stops: &AtomicBool,
    mut send: impl FnMut(&[u8], Option<SocketAddr>),
) {
    let mut buffer = vec![0; 64 << 10];
    let mut kept: Option<Vec<u8>> = None;
    let mut count = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        let Ok((len, source)) = from.recv_from(&mut buffer) else { continue };
        count += 1;
        if count.is_multiple_of(harm.loses) {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if count.is_multiple_of(harm.delays) {
            kept = Some(buffer[..len].to_vec());
            continue;
        }
        send(&buffer[..len], Some(source));
        if count.is_multiple_of(harm.repeats) {
            send(&buffer[..len], Some(source));
        }
        if let Some(late) = kept.take() {
            send(&late, Some(source));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_what_its_formula_says_from_anywhere_on() {
        let byte = |at: u64| (at * 131 + (at >> 8) * 17 + (at >> 20)) as u8;
        let places = [(0, 1_000), (255, 2), (7, 0), ((1 << 20) - 3, 700), ((1 << 32) + 77, 513)];
        for (at, len) in places {
            let expected: Vec<u8> = (at..at + len).map(byte).collect();
            assert_eq!(pattern(at, len as usize), expected, "{len} from {at} on");
        }
    }
}
