//! UDT against Debian's libudt, both ways, and against a path that loses, repeats and reorders.
//!
//! `lab/udt/peer.cpp` is the other end; it checks every byte that it gets.

use crate::tls::node;
use farline::channels::driver::Listener;
use farline::channels::ordered::ByteStream;
use farline::channels::udt::{UdtOptions, UdtPort, UdtStream, connect};
use farline_core::udt::{
    Content, ControlPacket, HandshakeKind, RateAlgorithm, SequenceNumber, SocketId, UdtHandshake,
    UdtPacket,
};
use farline_core::units::Rate;
use farline_lab::raw::RawClient;
use farline_lab::udt::{Harm, Relay, pattern, peer_binary};
use farline_lab::{assert_same_tree, farline, json_of, plant, skip};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const BYTES: usize = 20 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// The peer, or word that there is none.
macro_rules! peer_or_skip {
    () => {
        match peer_binary() {
            Ok(binary) => binary,
            Err(why) => return skip(why),
        }
    };
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The peer, once it waits.
struct Peer {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Peer {
    fn start(binary: &std::path::Path, arguments: &str) -> Peer {
        let mut child = Command::new(binary)
            .args(arguments.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Peer { child, out }
    }

    /// Waits for its end; says whether every byte was right, and how many came or went.
    fn end(mut self) -> (bool, u64) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        let status = self.child.wait().expect("its end");
        let bytes = line.split(&[':', ','][..]).nth(1).and_then(|bytes| bytes.parse().ok());
        (status.success(), bytes.unwrap_or(0))
    }
}

fn send(stream: &mut UdtStream) -> io::Result<()> {
    send_some(stream, BYTES)
}

fn send_some(stream: &mut UdtStream, bytes: usize) -> io::Result<()> {
    let bytes = pattern(0, bytes);
    bytes.chunks(1 << 20).try_for_each(|part| stream.write_all(part))?;
    stream.finish()
}

fn receive(stream: &mut UdtStream) -> u64 {
    receive_some(stream, BYTES)
}

fn receive_some(stream: &mut UdtStream, bytes: usize) -> u64 {
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    stream.handle().expect("a handle").set_read_timeout(Some(PATIENCE)).expect("it can");
    while at < bytes {
        let read = stream.read(&mut buffer).expect("bytes");
        if read == 0 {
            break;
        }
        assert!(buffer[..read] == pattern(at as u64, read), "wrong bytes after {at}");
        at += read;
    }
    at as u64
}

#[test]
fn bytes_come_whole_from_and_to_a_libudt_that_listens() {
    let binary = peer_or_skip!();
    let wrapping = Some(SequenceNumber::new(0x7FFF_FF00));
    let (usual, mut wrapped) = (UdtOptions::default(), UdtOptions::default());
    wrapped.first = wrapping;
    for options in [usual, wrapped] {
        let port = free_port();
        let peer = Peer::start(&binary, &format!("listen {port} receive {BYTES}"));
        let mut stream = connect(local(port), None, &options, PATIENCE).expect("connected");
        send(&mut stream).expect("sent");
        assert_eq!(peer.end(), (true, BYTES as u64));

        let port = free_port();
        let peer = Peer::start(&binary, &format!("listen {port} send {BYTES}"));
        let mut stream = connect(local(port), None, &options, PATIENCE).expect("connected");
        assert_eq!(receive(&mut stream), BYTES as u64);
        assert_eq!(peer.end(), (true, BYTES as u64));
    }
}

/// A port, and the streams that come in there.
fn listening() -> (UdtPort, mpsc::Receiver<UdtStream>) {
    let (arrives, arrived) = mpsc::channel();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let accept = Box::new(move |stream, _| arrives.send(stream).is_ok());
    let port = UdtPort::open(socket, &UdtOptions::default(), accept).expect("a thread");
    (port, arrived)
}

#[test]
fn bytes_come_whole_from_and_to_a_libudt_that_connects() {
    let binary = peer_or_skip!();
    let (port, arrived) = listening();
    let at = port.address().port();
    // UDT takes each packet that is late for a loss: of one in a hundred it sends some thousand
    // packets a second.
    let harm = Harm { loses: 197, repeats: 211, delays: 223 };
    for (bytes, lossy) in [(BYTES, false), (BYTES / 4, true)] {
        let relay = lossy.then(|| Relay::to(port.address(), harm).expect("a relay"));
        let at = relay.as_ref().map_or(at, Relay::port);
        let began = Instant::now();
        let peer = Peer::start(&binary, &format!("connect 127.0.0.1 {at} send {bytes}"));
        let mut stream = arrived.recv_timeout(PATIENCE).expect("it connects");
        assert_eq!(receive_some(&mut stream, bytes), bytes as u64);
        assert_eq!(peer.end(), (true, bytes as u64));

        let peer = Peer::start(&binary, &format!("connect 127.0.0.1 {at} receive {bytes}"));
        let mut stream = arrived.recv_timeout(PATIENCE).expect("it connects");
        send_some(&mut stream, bytes).expect("sent");
        assert_eq!(peer.end(), (true, bytes as u64));
        println!("{bytes} bytes each way, lossy {lossy}: {:?}", began.elapsed());
    }
}

#[test]
fn a_rendezvous_with_libudt_needs_nobody_who_listens() {
    let binary = peer_or_skip!();
    for farline_sends in [true, false] {
        let (ours, theirs) = (free_port(), free_port());
        let does = if farline_sends { "receive" } else { "send" };
        let peer =
            Peer::start(&binary, &format!("rendezvous {theirs} 127.0.0.1 {ours} {does} {BYTES}"));
        let mut options = UdtOptions::default();
        options.rendezvous = true;
        let mut stream =
            connect(local(theirs), Some(local(ours)), &options, PATIENCE).expect("they meet");
        if farline_sends {
            send(&mut stream).expect("sent");
        } else {
            assert_eq!(receive(&mut stream), BYTES as u64);
        }
        assert_eq!(peer.end(), (true, BYTES as u64));
    }
}

#[test]
fn an_early_close_ends_the_other_end_at_once() {
    let binary = peer_or_skip!();
    // libudt closes in the middle of what Farline sends.
    let port = free_port();
    let peer = Peer::start(&binary, &format!("listen {port} receive {BYTES} --stop 1000000"));
    let mut options = UdtOptions::default();
    options.rate = RateAlgorithm::Held(Rate::from_bps(50_000_000));
    let mut stream = connect(local(port), None, &options, PATIENCE).expect("connected");
    let began = Instant::now();
    let (pattern, endless) = (pattern(0, 1 << 20), vec![0; 1 << 20]);
    let mut sent = stream.write_all(&pattern);
    while sent.is_ok() {
        sent = stream.write_all(&endless);
    }
    let error = sent.expect_err("the peer closes early");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(peer.end(), (true, 1_000_000));

    // Farline breaks off in the middle of what libudt sends.
    let port = free_port();
    let peer = Peer::start(&binary, &format!("listen {port} send 1000000000000 --linger 1"));
    let mut stream =
        connect(local(port), None, &UdtOptions::default(), PATIENCE).expect("connected");
    let mut some = vec![0; 1 << 20];
    stream.read_exact(&mut some).expect("bytes");
    stream.handle().expect("a handle").break_now();
    let began = Instant::now();
    let (whole, _) = peer.end();
    assert!(!whole, "it sent all of an endless stream");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_path_that_loses_repeats_and_reorders_brings_every_byte() {
    let (port, arrived) = listening();
    // On the loopback interface packets are long, and some 2,400 are all.
    let harm = Harm { loses: 31, repeats: 37, delays: 41 };
    let relay = Relay::to(port.address(), harm).expect("a relay");
    let mut near =
        connect(local(relay.port()), None, &UdtOptions::default(), PATIENCE).expect("connected");
    let mut far = arrived.recv_timeout(PATIENCE).expect("it came in");
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&mut near));
        assert_eq!(receive(&mut far), BYTES as u64);
        sending.join().expect("no panic").expect("sent");
    });
    assert!(relay.lost() > 50, "the relay lost {} packets", relay.lost());
}

#[test]
fn a_tree_goes_there_and_back_over_udt_under_tls_or_clear() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, address, fingerprint) = node(&root, &["--tls"]);
    let cases =
        [("udt", "farlines", true), ("udt:bbr", "farlines", true), ("udt", "farline", false)];
    for (number, (channel, scheme, encrypted)) in cases.into_iter().enumerate() {
        let cp = || {
            let mut command = farline();
            command.args(["--json", "cp", "-r", "--channel", channel, "--streams", "2"]);
            if encrypted {
                command.args(["--tls-pin", &fingerprint]);
            }
            command
        };
        let back = dir.path().join(format!("back-{number}"));
        let there = format!("{scheme}://{address}/{number}/");
        let results = [
            json_of(cp().arg(&source).arg(&there)),
            json_of(cp().arg(format!("{there}src/")).arg(&back)),
        ];
        assert_same_tree(&source, &root.join(number.to_string()).join("src"));
        assert_same_tree(&source, &back);
        for result in results {
            let said = (&result["data_path"], &result["encrypted"], &result["verified"]);
            assert_eq!(said, (&"udt".into(), &encrypted.into(), &true.into()), "{result}");
        }
    }
}

#[test]
fn a_node_without_udt_gets_tcp_and_the_copy_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, address, fingerprint) = node(dir.path(), &["--tls", "--channel", "rdma"]);
    let url = format!("farlines://{address}/f");
    let mut cp = farline();
    cp.args(["--json", "cp", "--tls-pin", &fingerprint, "--channel", "udt", "memory:3MiB", &url]);
    let result = json_of(&mut cp);
    let said = (&result["data_path"], &result["encrypted"]);
    assert_eq!(said, (&"direct".into(), &true.into()), "{result}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("over TCP instead of UDT") && notes.contains("UDT"), "{notes}");
}

/// Stands before the port at `to`: next to the first reply it says what `spoof` makes of the
/// client's own handshake, from the address that the client asks. Returns where.
fn spoofing(
    to: SocketAddr,
    spoof: impl Fn(&UdtPacket, UdtHandshake) -> UdtPacket + Send + 'static,
) -> SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
    far.connect(to).expect("an address");
    let at = near.local_addr().expect("bound");
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_millis(2))).expect("a timeout");
    }
    std::thread::spawn(move || {
        let (mut buffer, mut client, mut spoofed) = ([0; 9_000], None, false);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Ok((len, from)) = near.recv_from(&mut buffer) {
                client = Some(from);
                let asks = UdtPacket::decode(&buffer[..len]).expect("a packet");
                if let Content::Control(ControlPacket::Handshake(said)) = &asks.content
                    && !spoofed
                {
                    let mut bytes = Vec::new();
                    spoof(&asks, *said).encode(&mut bytes);
                    near.send_to(&bytes, from).expect("sent");
                    spoofed = true;
                }
                far.send(&buffer[..len]).expect("sent");
            }
            if let (Ok(len), Some(client)) = (far.recv(&mut buffer), client) {
                near.send_to(&buffer[..len], client).expect("sent");
            }
        }
    });
    at
}

#[test]
fn a_spoofed_handshake_ends_or_stalls_no_connect() {
    let spoofs = [
        // Who sees no packet knows no end's name.
        (HandshakeKind::Refused(1002), false),
        (HandshakeKind::Request, false),
        // Who sees them can end a connect, but not by a cookie that is none.
        (HandshakeKind::Request, true),
    ];
    for (kind, knows) in spoofs {
        let (port, arrived) = listening();
        let at = spoofing(port.address(), move |asks, said| {
            let to = if knows { said.from } else { SocketId(0) };
            let handshake = UdtHandshake { kind, cookie: 7, ..said };
            let content = Content::Control(ControlPacket::Handshake(handshake));
            UdtPacket { to, content, ..asks.clone() }
        });
        let connected = connect(at, None, &UdtOptions::default(), Duration::from_secs(5));
        let stream = connected.unwrap_or_else(|error| panic!("{kind:?}, {knows}: {error}"));
        arrived.recv_timeout(PATIENCE).expect("the other end");
        drop(stream);
    }
}

#[test]
fn a_preamble_that_drips_is_closed_after_five_seconds() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = farline_lab::node(dir.path(), "read", &[]);
    let mut client = RawClient::open(&url);
    assert!(client.ask("SITE SETNETSTACK udt").starts_with('2'), "it has UDT");
    client.say(&format!("OPTS FARLINE key={};", "ab".repeat(32)));
    assert!(client.final_reply().starts_with("200"), "a key");
    let port = client.data_port();
    let mut stream = connect(port, None, &UdtOptions::default(), PATIENCE).expect("connected");
    let began = Instant::now();
    while stream.write_all(b"F").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(9), "it is open yet");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
}
