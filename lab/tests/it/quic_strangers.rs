//! What a node's UDP port says to packets of nobody's: no more than it got, and nothing of it
//! counts before the handshake (docs/protocol.md, Q-2 and Q-4).

use farline_lab::{Running, farline, json_of};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a node speaks at its one UDP port.
const CONTROL: &[u8] = b"farline-control/1";

/// A certificate and its key, also as files of `folder`.
fn certificate(folder: &Path) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let made = rcgen::generate_simple_self_signed(vec!["node".to_owned(), "localhost".to_owned()])
        .expect("a certificate");
    std::fs::write(folder.join("node.pem"), made.cert.pem()).expect("written");
    std::fs::write(folder.join("node.key"), made.signing_key.serialize_pem()).expect("written");
    made
}

/// A node with one UDP port, and where that is.
fn node(folder: &Path) -> (Running, SocketAddr) {
    node_with(folder, &[])
}

/// The same with more on its command line.
fn node_with(folder: &Path, more: &[&str]) -> (Running, SocketAddr) {
    let mut serve = farline();
    serve.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0"]);
    serve.args(["--listen-udp", "127.0.0.1:0", "--tls-cert"]).arg(folder.join("node.pem"));
    serve.arg("--tls-key").arg(folder.join("node.key")).arg("--root").arg(folder).args(more);
    let (node, line) = Running::begun(&mut serve);
    let said: serde_json::Value = serde_json::from_str(&line).expect("one object");
    (node, said["udp"].as_str().expect("a port").parse().expect("an address"))
}

/// Bytes that come back for `packet` within a while.
fn said_to(node: SocketAddr, packet: &[u8]) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    socket.send_to(packet, node).expect("sent");
    let (mut buffer, mut all) = ([0; 9_000], 0);
    while let Ok(len) = socket.recv(&mut buffer) {
        all += len;
    }
    all
}

/// A packet with a long header of such a version, filled up to `len`.
fn long_header(version: u32, len: usize) -> Vec<u8> {
    let mut packet = [&[0xc0][..], &version.to_be_bytes()].concat();
    for name in [7, 9] {
        packet.push(8);
        packet.extend([name; 8]);
    }
    packet.resize(len.max(packet.len()), 0x5a);
    packet
}

#[test]
fn an_unknown_quic_version_gets_no_more_than_it_sent() {
    let dir = tempfile::tempdir().expect("a folder");
    certificate(dir.path());
    let (_node, at) = node(dir.path());
    for version in [0x1a2a_3a4a, 0xdead_beef] {
        let said = said_to(at, &long_header(version, 1_200));
        assert!((1..=1_200).contains(&said), "{said} bytes for version {version:x}");
        for len in [23, 30, 60, 600, 1_199] {
            let said = said_to(at, &long_header(version, len));
            assert_eq!(said, 0, "{said} bytes for {len} of version {version:x}");
        }
    }
    // Version negotiation itself, a first packet of version 1 that is none, and short headers.
    let mut short = vec![0x40; 1_200];
    for packet in [&long_header(0, 1_200)[..], &long_header(1, 1_200), &long_header(1, 60)] {
        let said = said_to(at, packet);
        assert!(said <= packet.len(), "{said} bytes for {}", packet.len());
    }
    for len in [1_200, 60, 22] {
        short.truncate(len);
        let said = said_to(at, &short);
        assert!(said <= len, "{said} bytes for {len} of a short header");
    }
}

/// A client that takes `made` for the other end's, and sends data with its first packet where it
/// may.
fn eager(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Endpoint {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("TLS 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![CONTROL.to_vec()];
    config.enable_early_data = true;
    let config = QuicClientConfig::try_from(config).expect("it suits QUIC");
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a port");
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(config)));
    endpoint
}

/// Whether the end at `at` takes data before a handshake from `client`, which was there before.
async fn takes_early_data(client: &Endpoint, at: SocketAddr) -> bool {
    let first = client.connect(at, "node").expect("a client").await.expect("connected");
    // A ticket comes behind the handshake.
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        match client.connect(at, "node").expect("a client").into_0rtt() {
            Ok(_) => return true,
            Err(_) if Instant::now() > until => break,
            Err(connecting) => drop(connecting.await),
        }
    }
    drop(first);
    false
}

/// Another server with the node's certificate, which takes so much data before a handshake.
fn server(made: &rcgen::CertifiedKey<rcgen::KeyPair>, folder: &Path, early: u32) -> Endpoint {
    let key = PrivatePkcs8KeyDer::from_pem_file(folder.join("node.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("TLS 1.3");
    let config = builder.with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key.into());
    let mut config = config.expect("its own certificate");
    config.max_early_data_size = early;
    config.alpn_protocols = vec![CONTROL.to_vec()];
    let config = QuicServerConfig::try_from(config).expect("it suits QUIC");
    let config = ServerConfig::with_crypto(Arc::new(config));
    Endpoint::server(config, ([127, 0, 0, 1], 0).into()).expect("a port")
}

#[test]
fn a_node_takes_no_data_before_the_handshake() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = certificate(dir.path());
    let (_node, at) = node(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        assert!(!takes_early_data(&eager(&made), at).await, "the node takes 0-RTT data");
        // The same client does send it where it may.
        let server = server(&made, dir.path(), u32::MAX);
        let at = server.local_addr().expect("bound");
        tokio::spawn(async move {
            let mut there = Vec::new();
            while let Some(incoming) = server.accept().await {
                there.extend(incoming.await);
            }
        });
        assert!(takes_early_data(&eager(&made), at).await, "or it would show nothing");
    });
}

/// Stands before the node for one client and brings it the node's first packet, the Retry that
/// shows that its address is its own, and no other: to the node its handshake stalls.
async fn stalled(node: SocketAddr, client: &Endpoint) -> std::io::Result<quinn::Connecting> {
    let relay = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    let connecting = client.connect(relay.local_addr()?, "node").map_err(std::io::Error::other)?;
    tokio::spawn(async move {
        let (mut buffer, mut asked, mut is_told) = ([0; 9_000], None, false);
        while let Ok((len, from)) = relay.recv_from(&mut buffer).await {
            let to = match (from == node, is_told, asked) {
                (false, ..) => {
                    asked = Some(from);
                    node
                }
                (true, false, Some(asked)) => {
                    is_told = true;
                    asked
                }
                (true, ..) => continue,
            };
            let _ = relay.send_to(&buffer[..len], to).await;
        }
    });
    Ok(connecting)
}

#[test]
fn stalled_handshakes_keep_nobody_out_of_the_one_port() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = certificate(dir.path());
    std::fs::write(dir.path().join("f"), vec![7; 100_000]).expect("written");
    let (_node, at) = node(dir.path());
    farline_lab::crowd::may_open_many();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let crowd = runtime.spawn(async move {
        let (client, mut handshakes) = (eager(&made), Vec::new());
        // More than there are places at once, and then without an end.
        for index in 0_u64.. {
            handshakes.extend(stalled(at, &client).await);
            let pause = if index < 300 { 2 } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        drop(handshakes);
    });
    std::thread::sleep(Duration::from_secs(2));
    let (began, got) = (Instant::now(), dir.path().join("got"));
    let mut copy = farline();
    copy.args(["cp", "--tls-ca"]).arg(dir.path().join("node.pem"));
    copy.arg(format!("farlineq://localhost:{}/f", at.port())).arg(&got);
    let output = copy.output().expect("farline starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    assert_eq!(std::fs::read(got).expect("copied").len(), 100_000);
    crowd.abort();
}

/// Stands before two servers: what the `first` clients send goes to one of `targets`, and what all
/// others send to the other.
fn before(targets: [SocketAddr; 2], first: usize) -> SocketAddr {
    let relay = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = relay.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut ways, mut buffer) = (HashMap::new(), [0; 65_536]);
        while let Ok((len, from)) = relay.recv_from(&mut buffer) {
            let target = targets[usize::from(ways.len() >= first)];
            let way = ways.entry(from).or_insert_with(|| {
                let way = UdpSocket::bind("127.0.0.1:0").expect("a port");
                way.connect(target).expect("a way");
                let back = (way.try_clone().expect("open"), relay.try_clone().expect("open"));
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while let Ok(len) = back.0.recv(&mut buffer) {
                        let _ = back.1.send_to(&buffer[..len], from);
                    }
                });
                way
            });
            let _ = way.send(&buffer[..len]);
        }
    });
    at
}

#[test]
fn who_finds_no_place_at_the_one_port_comes_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = certificate(dir.path());
    std::fs::write(dir.path().join("f"), vec![7; 100_000]).expect("written");
    let (_node, at) = node(dir.path());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let full = runtime.block_on(async {
        let server = server(&made, dir.path(), 0);
        let full = server.local_addr().expect("bound");
        tokio::spawn(async move {
            let mut is_first = true;
            while let Some(incoming) = server.accept().await {
                match std::mem::take(&mut is_first) {
                    true => incoming.refuse(),
                    // As a handshake ends whose place another has taken.
                    false => drop(incoming.accept()),
                }
            }
        });
        full
    });
    let (relay, got) = (before([full, at], 2), dir.path().join("got"));
    let mut copy = farline();
    copy.args(["--json", "cp", "--retry-for", "60s", "--tls-ca"]).arg(dir.path().join("node.pem"));
    copy.arg(format!("farlineq://localhost:{}/f", relay.port())).arg(&got);
    let said = json_of(&mut copy);
    assert_eq!(said["attempts"], 3, "{said}");
    assert_eq!(std::fs::read(got).expect("copied").len(), 100_000);
}

#[test]
fn who_does_not_log_in_keeps_no_connection() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = certificate(dir.path());
    let config = dir.path().join("node.toml");
    std::fs::write(&config, "login_timeout = 1\n").expect("written");
    let (_node, at) = node_with(dir.path(), &["--config", config.to_str().expect("text")]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = eager(&made);
        let connection = client.connect(at, "node").expect("a client").await.expect("connected");
        let (mut send, _recv) = connection.open_bi().await.expect("a stream");
        send.write_all(b"FEAT\r\n").await.expect("sent");
        // Its peer stays, and says that it is there.
        let closed = tokio::time::timeout(Duration::from_secs(8), connection.closed());
        closed.await.expect("the node closes it with the session");
    });
}

/// Bytes that each of a crowd says and nobody takes: 16 MiB of each were kept.
const SAID: usize = 24 << 20;
const CROWD: usize = 12;

#[test]
fn who_has_not_logged_in_keeps_little_of_a_nodes_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = certificate(dir.path());
    let (node, at) = node(dir.path());
    let before = farline_lab::peak_memory(node.id()).expect("it runs");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = eager(&made);
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            let connection =
                client.connect(at, "node").expect("a client").await.expect("connected");
            let (mut send, recv) = connection.open_bi().await.expect("a stream");
            // Replies that it does not read, so that the node reads no more of it.
            let talk = "FEAT\r\n".repeat(SAID / 6);
            crowd.push((
                connection,
                recv,
                tokio::spawn(async move {
                    let _ = send.write_all(talk.as_bytes()).await;
                    send
                }),
            ));
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        let grown = farline_lab::peak_memory(node.id()).expect("it runs") - before;
        assert!(grown < 48 << 20, "{grown} bytes for {CROWD} that say a lot");
        for (_, _, task) in crowd {
            task.abort();
        }
    });
}
