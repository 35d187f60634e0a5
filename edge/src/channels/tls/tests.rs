//! TLS against rustls' own client, byte by byte.

use super::*;
use crate::channels::trust::{NodeCertificate, pinned};
use rustls::ClientConnection;
use std::os::unix::net::UnixStream;

/// What `client` has to send.
fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("memory takes all");
    }
    bytes
}

#[test]
fn a_short_file_may_come_whole_with_the_end_of_the_handshake() {
    let node = NodeCertificate::fresh().expect("a key");
    let config = pinned(node.fingerprint).expect("TLS");
    let name = ServerName::try_from("node").expect("a name");
    let mut client = ClientConnection::new(config, name).expect("TLS");
    let mut handshake = ServerHandshake::new(node.config, None).expect("TLS");
    let hello = flight(&mut client);
    let answer = handshake.take(&hello).expect("a hello");
    client.read_tls(&mut &answer[..]).expect("memory gives all");
    client.process_new_packets().expect("the node's flight");
    client.writer().write_all(b"short").expect("memory takes all");
    client.send_close_notify();
    // The end of the handshake, the file and the end of the connection in one packet.
    handshake.take(&flight(&mut client)).expect("all of it");
    assert!(handshake.is_done());
    let (near, _far) = UnixStream::pair().expect("sockets");
    let mut stream = handshake.finished(near).expect("a connection");
    let mut file = Vec::new();
    stream.read_to_end(&mut file).expect("the end was told");
    assert_eq!(file, b"short");
}
