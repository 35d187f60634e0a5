//! Strangers who go on connecting to a session's data port and say nothing: its client comes in all
//! the same, and as fast as it should.

use crate::adversary::{configured, log_of};
use crate::gsi::Grid;
use farline::channels::key::Key;
use farline::channels::udt::{UdtOptions, UdtStream, connect};
use farline_lab::crowd::may_open_many;
use farline_lab::files::{folder, plant_file, text};
use farline_lab::raw::{Blocks, RawClient};
use farline_lab::{Running, farline, free_port, json_of, succeed};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a copy of a few megabytes may take, on a machine with other work.
const SOON: Duration = Duration::from_secs(20);

/// Strangers on their way in, until this is dropped.
struct Flood {
    is_over: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// By `enter`, again and again; the last `kept` stay connected.
    fn begin<S: Send + 'static>(
        kept: usize,
        enter: impl Fn() -> Option<S> + Send + 'static,
    ) -> Flood {
        Flood::with_pauses(Duration::from_millis(2), kept, enter)
    }

    /// The same, with such a pause between two.
    fn with_pauses<S: Send + 'static>(
        pause: Duration,
        kept: usize,
        enter: impl Fn() -> Option<S> + Send + 'static,
    ) -> Flood {
        may_open_many();
        let (is_over, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (over, counts) = (Arc::clone(&is_over), Arc::clone(&came));
        let thread = std::thread::spawn(move || {
            let mut connections = VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                connections.extend(enter());
                if connections.len() > kept {
                    connections.pop_front();
                    counts.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(pause);
            }
        });
        Flood { is_over, came, thread: Some(thread) }
    }

    /// Strangers that came beyond those that stay.
    fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Stands before the server on `port` of the loopback address, and brings what it says `by` so much
/// late; returns a port of its own.
fn late(port: u16, by: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            client.set_nodelay(true).expect("a socket");
            server.set_nodelay(true).expect("a socket");
            let mut there = (client.try_clone().expect("open"), server.try_clone().expect("open"));
            std::thread::spawn(move || {
                let carried = std::io::copy(&mut there.0, &mut there.1);
                there.1.shutdown(Shutdown::Write).and(carried)
            });
            std::thread::spawn(move || {
                let (mut server, mut client, mut buffer) = (server, client, [0; 65_536]);
                while let Ok(len @ 1..) = server.read(&mut buffer) {
                    std::thread::sleep(by);
                    if client.write_all(&buffer[..len]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    own
}

/// Threads of a process now.
fn threads(process: &Running) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs").count()
}

#[test]
fn silent_strangers_keep_no_grid_client_from_its_data_port() {
    let port = free_port();
    let grid = Grid::new(&format!("data_ports = '{port}-{port}'"));
    let proxy = grid.proxy("alice", &[]);
    // Its port is open for a while before the client hears of it.
    let control: u16 = grid.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("one");
    let far = format!("gsiftp://localhost:{}", late(control, Duration::from_millis(300)));
    let at: SocketAddr = ([127, 0, 0, 1], port).into();
    let flood = Flood::begin(200, move || TcpStream::connect(at).ok());
    let here = format!("file://{}", grid.at("big").display());
    for index in 0..2 {
        let (began, there) = (Instant::now(), format!("{far}/up{index}"));
        succeed(grid.guc(&proxy).args([&here, &there]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&format!("root/up{index}"))));
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    drop(flood);
    let log = grid.log.lock().expect("no panic").clone();
    assert!(log.contains("stranger: a data connection from 127.0.0.1 did not show"), "{log}");
}

#[test]
fn silent_strangers_over_udt_take_no_threads_and_no_places() {
    let dir = folder();
    let (node, url) = configured(dir.path(), "", &[]);
    let mut client = RawClient::open(&url);
    assert!(client.ask("SITE SETNETSTACK udt").starts_with('2'), "it has UDT");
    let hex = "ab".repeat(32);
    assert!(client.ask(&format!("OPTS FARLINE key={hex};")).starts_with("200"), "a key");
    let port = client.data_port();
    let before = threads(&node);
    let enter = move || -> Option<UdtStream> {
        connect(port, None, &UdtOptions::default(), Duration::from_secs(2)).ok()
    };
    let flood = Flood::begin(280, enter);
    farline_lab::wait_for("more strangers than there are places", || flood.came() > 40);
    let more = threads(&node).saturating_sub(before);
    assert!(more < 40, "{more} threads more");
    // Its own connection, amid them.
    let (began, options) = (Instant::now(), UdtOptions::default());
    let mut own = connect(port, None, &options, SOON).expect("it has a place");
    let key = Key::from_hex(&hex).expect("a key");
    let block = [Blocks::header(0, 0, 3), b"own".to_vec(), Blocks::eof(1)].concat();
    own.write_all(&[key.preamble().to_vec(), block].concat()).expect("sent");
    let stored = client.ask("STOR f");
    assert!(stored.starts_with("226"), "{stored}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(std::fs::read(dir.path().join("f")).expect("stored"), b"own");
    drop((flood, own, client));
    let log = log_of(node);
    assert!(log.contains("lost its place, which another wanted"), "{}: {log}", text(dir.path()));
}

/// A free port that no connection has for its own end: who goes on connecting to one that nobody
/// listens at would have it.
fn free_low_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 20_000 + (std::process::id() % 5_000) as u16;
    (first..30_000).find(is_free).expect("a port")
}

/// Copies to a node that has one port for data, at which somebody of the client's own address
/// begins connections without an end; how many came beyond those that stay.
fn copies_amid(kept: usize, enter: fn(SocketAddr) -> Option<Box<dyn Send>>) -> usize {
    let (dir, port) = (folder(), free_low_port());
    let (root, file) = (dir.path().join("root"), dir.path().join("file"));
    std::fs::create_dir(&root).expect("a folder");
    plant_file(&file, 4, 1);
    let (node, url) = configured(&root, &format!("data_ports = '{port}-{port}'\n"), &[]);
    let at: SocketAddr = ([127, 0, 0, 1], port).into();
    // The port is open for a while before the client hears of it.
    let control = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let far = format!("farline://127.0.0.1:{}", late(control, Duration::from_millis(150)));
    let flood = Flood::with_pauses(Duration::from_micros(50), kept, move || enter(at));
    for index in 0..6 {
        // The one port is free again once the session before is over.
        std::thread::sleep(Duration::from_secs(1));
        let mut copy = farline();
        copy.args(["--json", "cp", "--streams", "4"]).arg(&file);
        copy.arg(format!("{far}/up{index}"));
        // A connection that is lost ends it: nothing is tried again.
        let said = json_of(copy.env("FARLINE_RETRY_FOR", "0"));
        assert_eq!(said["verified"], true, "{said}");
        assert_eq!(said["data_path"], "direct", "{said}");
    }
    let came = flood.came();
    drop(flood);
    let log = log_of(node);
    assert!(log.contains("stranger: a data connection from 127.0.0.1"), "{log}");
    came
}

#[test]
fn strangers_of_its_own_address_cost_a_client_nothing() {
    let tcp = |at| Some(Box::new(TcpStream::connect(at).ok()?) as Box<dyn Send>);
    let came = copies_amid(600, tcp);
    assert!(came > 256, "{came} strangers are no flood");
}
