//! Clients that hold a node's places and do nothing with them, all at once.

use crate::raw::{Blocks, RawClient};
use farline_core::gridftp::checked::{Check, ZEROS, encode};
use farline_core::gridftp::mode_e::{Flags, Header};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How many of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrowdSize {
    /// Connections that never say a word.
    pub silent: usize,
    /// Connections that begin the TLS handshake and never end it.
    pub half_open: usize,
    /// Sessions with a data connection over which nothing goes.
    pub stalled: usize,
    /// Sessions that store a byte a second.
    pub dripping: usize,
    /// Connections that send lines of a mebibyte, one after the other.
    pub babbling: usize,
    /// Sessions that store files of 8 GiB one after the other and send no byte of them: of each the
    /// headers of 8,192 blocks of zeros.
    pub zeroing: usize,
    /// Sessions that send lists of trees one after the other, and nothing of their files.
    pub listing: usize,
    /// How many entries each of those lists has, unless the node refuses it before.
    pub entries: usize,
}

/// Lets this process open as many files as it may ask for: an ordinary user's limit is 1,024 at
/// first, and tests share it.
pub fn may_open_many() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Without them a test fails where it opens one too many, and says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A crowd before a node, until it is dropped.
pub struct Crowd {
    over: Arc<AtomicBool>,
    /// Held open.
    _connections: Vec<TcpStream>,
    _sessions: Vec<(RawClient, TcpStream)>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Gathers before the node at `ftp://ADDRESS:PORT`, which lets anonymous users write and offers
    /// TLS.
    ///
    /// # Panics
    /// When the node takes no more connections.
    pub fn gather(url: &str, size: CrowdSize) -> Crowd {
        may_open_many();
        let address: SocketAddr =
            url.trim_start_matches("ftp://").parse().expect("ftp://ADDRESS:PORT");
        let over = Arc::new(AtomicBool::new(false));
        let mut connections = Vec::new();
        for _ in 0..size.silent {
            connections.push(TcpStream::connect(address).expect("the node listens"));
        }
        for _ in 0..size.half_open {
            let mut stream = TcpStream::connect(address).expect("the node listens");
            // A record of the handshake that says it is longer than what comes. The place may be
            // another's by then.
            let _ = stream.write_all(b"AUTH TLS\r\n");
            std::thread::sleep(Duration::from_millis(1));
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]);
            connections.push(stream);
        }
        let mut sessions = Vec::new();
        let mut threads = Vec::new();
        for index in 0..size.stalled + size.dripping {
            let mut client = RawClient::in_stream_mode(url);
            let mut data = client.passive();
            client.say(&format!("STOR /crowd{index}"));
            if index < size.stalled {
                sessions.push((client, data));
                continue;
            }
            let over = Arc::clone(&over);
            threads.push(std::thread::spawn(move || {
                // Ends when the node ends it, too.
                while !over.load(Ordering::Relaxed) && data.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_secs(1));
                }
                drop(client);
            }));
        }
        for _ in 0..size.babbling {
            let over = Arc::clone(&over);
            threads.push(std::thread::spawn(move || babble(address, &over)));
        }
        for index in 0..size.zeroing {
            let (over, url) = (Arc::clone(&over), url.to_owned());
            threads.push(std::thread::spawn(move || {
                let mut file = 0;
                while !over.load(Ordering::Relaxed) {
                    store_zeros(&url, &format!("zeros{index}-{file}"), &over);
                    file += 1;
                }
            }));
        }
        for _ in 0..size.listing {
            let (over, url) = (Arc::clone(&over), url.to_owned());
            threads.push(std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    send_list(&url, size.entries, &over);
                }
            }));
        }
        Crowd { over, _connections: connections, _sessions: sessions, threads }
    }
}

/// Blocks of one file of zeros, and their length in bytes.
const ZERO_BLOCKS: u64 = 8_192;
const ZERO_BLOCK_LEN: u64 = 1 << 20;

/// Stores a file by headers alone (`docs/protocol.md`, clause Z-2).
fn store_zeros(url: &str, name: &str, over: &AtomicBool) {
    let zeros = vec![0; ZERO_BLOCK_LEN as usize];
    let of_zeros = Check::of(&zeros, [0; 32]);
    let end = encode(&Header::eof(1).with(Flags::EOD), &Check::by_digest([0; 32]));
    let mut client = RawClient::open(url);
    let mut data = client.passive();
    let reply = client.ask("OPTS FARLINE check=crc32c;");
    assert!(reply.starts_with('2'), "{reply}");
    let len = ZERO_BLOCKS * ZERO_BLOCK_LEN;
    let list = format!("Type=file;Size={len};Modify=0.000000000;UNIX.mode=0644; {name}\n");
    let list = list.into_bytes();
    client.say("ESTO FARLINE.TREE=\"manifest\" /");
    let first = encode(&Header::data(0, list.len() as u64), &Check::of(&list, [0; 32]));
    Blocks::write(&mut data, &[&first[..], &list, &end].concat());
    let reply = client.final_reply();
    assert!(reply.starts_with('2'), "{reply}");
    client.say("ESTO FARLINE.TREE=\"data\" /");
    for block in 0..ZERO_BLOCKS {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let block = Header::data(block * ZERO_BLOCK_LEN, ZERO_BLOCK_LEN).with(ZEROS);
        Blocks::write(&mut data, &encode(&block, &of_zeros));
    }
    Blocks::write(&mut data, &end);
    let reply = client.final_reply();
    assert!(reply.starts_with('2'), "{reply}");
}

/// Entries of a list that are sent in one block.
const ENTRIES_AT_ONCE: usize = 16_384;

/// Sends the list of a tree with so many entries, as far as the node takes it, in a session of its
/// own.
fn send_list(url: &str, entries: usize, over: &AtomicBool) {
    let mut client = RawClient::open(url);
    let mut data = client.passive();
    client.say("ESTO FARLINE.TREE=\"manifest\" /");
    let (mut sent, mut offset) = (0, 0);
    while sent < entries && !over.load(Ordering::Relaxed) {
        let most = entries.min(sent + ENTRIES_AT_ONCE);
        let line = |index| {
            format!("Type=file;Size=1;Modify=0.000000000;UNIX.mode=0644; list/{index:08}\n")
        };
        let block: String = (sent..most).map(line).collect();
        let head = Header::data(offset, block.len() as u64).encode();
        // A node that has enough of it closes the connection.
        if data.write_all(&head).and_then(|()| data.write_all(block.as_bytes())).is_err() {
            break;
        }
        (sent, offset) = (most, offset + block.len() as u64);
    }
    Blocks::write(&mut data, &Blocks::eof(1));
    let reply = client.final_reply();
    let is_told = ["226", "426", "450", "451", "550", "552"];
    assert!(is_told.iter().any(|code| reply.starts_with(code)), "{reply}");
}

/// Sends lines that are too long until that is over, over a new connection when one is closed.
fn babble(address: SocketAddr, over: &AtomicBool) {
    let line = [vec![b'x'; 1 << 20], b"\r\n".to_vec()].concat();
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let mut replies = [0; 4096];
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        while !over.load(Ordering::Relaxed) && stream.write_all(&line).is_ok() {
            let _ = stream.read(&mut replies);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
