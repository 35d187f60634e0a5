//! Relays between a client and a server: one changes a byte of what it carries, under checksums
//! that stay right, and others count.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes before which the change is made: the preamble of a data connection (K-1) is longer.
const SPOILED_AT: usize = 20;

/// Stands before the node on `port` of the loopback address, its data ports too; returns a
/// port of its own and the count of data connections. The first of them arrives with a byte of its
/// preamble changed.
///
/// # Panics
/// When there is no port.
pub fn relay_that_spoils_a_preamble(port: u16) -> (u16, Arc<AtomicU32>) {
    relay(move |client, count| control(client, port, count))
}

/// Stands before a server on `port` of the loopback address; returns a port of its own and the
/// count of control connections.
///
/// # Panics
/// When there is no port.
pub fn relay_that_counts(port: u16) -> (u16, Arc<AtomicU32>) {
    relay(move |client, count| {
        count.fetch_add(1, Ordering::Relaxed);
        let server = TcpStream::connect(("127.0.0.1", port))?;
        pass_aside(&server, &client)?;
        pass(client, server)
    })
}

/// The same, at which the first `times` connections are greeted with `greeting` alone, as by a
/// server that has no place for them.
///
/// # Panics
/// When there is no port.
pub fn relay_that_turns_away(
    port: u16,
    greeting: &'static str,
    times: u32,
) -> (u16, Arc<AtomicU32>) {
    relay(move |mut client, count| {
        if count.fetch_add(1, Ordering::Relaxed) < times {
            client.write_all(greeting.as_bytes())?;
            client.shutdown(Shutdown::Write)?;
            // Closed while there is something unread, its words would be lost.
            return io::copy(&mut client, &mut io::sink()).map(drop);
        }
        let server = TcpStream::connect(("127.0.0.1", port))?;
        pass_aside(&server, &client)?;
        pass(client, server)
    })
}

/// The same, and the count of commands that begin with `command`.
///
/// # Panics
/// When there is no port.
pub fn relay_that_counts_commands(port: u16, command: &'static str) -> (u16, Arc<AtomicU32>) {
    relay(move |client, count| {
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        pass_aside(&server, &client)?;
        for line in BufReader::new(client).split(b'\n') {
            let mut line = line?;
            line.push(b'\n');
            count.fetch_add(line.starts_with(command.as_bytes()).into(), Ordering::Relaxed);
            server.write_all(&line)?;
        }
        server.shutdown(Shutdown::Write)
    })
}

/// Stands before a node on `port` of the loopback address; returns a port of its own and the count
/// of control connections. The first of them is lost when the node has said its `number`th reply
/// that begins with `reply`, which nobody hears.
///
/// # Panics
/// When there is no port.
pub fn relay_that_loses_a_reply(
    port: u16,
    reply: &'static str,
    number: usize,
) -> (u16, Arc<AtomicU32>) {
    relay(move |mut client, count| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let server = TcpStream::connect(("127.0.0.1", port))?;
        pass_aside(&client, &server)?;
        let mut heard = 0;
        for line in BufReader::new(&server).split(b'\n') {
            let mut line = line?;
            heard += usize::from(line.starts_with(reply.as_bytes()));
            if is_first && heard == number {
                client.shutdown(Shutdown::Both)?;
                return server.shutdown(Shutdown::Both);
            }
            line.push(b'\n');
            client.write_all(&line)?;
        }
        client.shutdown(Shutdown::Both)
    })
}

/// The same, at which the first control connection is lost when the server has replied to the first
/// command that begins with `command`, which nobody hears.
///
/// # Panics
/// When there is no port.
pub fn relay_that_loses_the_reply_to(port: u16, command: &'static str) -> (u16, Arc<AtomicU32>) {
    relay(move |client, count| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let server = TcpStream::connect(("127.0.0.1", port))?;
        if !is_first {
            pass_aside(&server, &client)?;
            return pass(client, server);
        }
        let is_last = Arc::new(AtomicBool::new(false));
        let (is_lost, mut to_client) = (Arc::clone(&is_last), client.try_clone()?);
        let mut said = BufReader::new(server.try_clone()?).split(b'\n');
        let replies = std::thread::spawn(move || -> io::Result<()> {
            while let Some(mut line) = said.next().transpose()? {
                line.push(b'\n');
                if is_lost.load(Ordering::Acquire) && line.starts_with(b"2") {
                    break;
                }
                to_client.write_all(&line)?;
            }
            to_client.shutdown(Shutdown::Both)
        });
        let mut to_server = &server;
        for line in BufReader::new(&client).split(b'\n') {
            let mut line = line?;
            line.push(b'\n');
            is_last.fetch_or(line.starts_with(command.as_bytes()), Ordering::Release);
            to_server.write_all(&line)?;
        }
        server.shutdown(Shutdown::Both)?;
        replies.join().unwrap_or(Ok(()))
    })
}

/// When both ends have said nothing for so long they have said all that they will without the
/// other.
const QUIET: Duration = Duration::from_millis(100);

/// The same, and the count of round trips: what both ends say is kept until neither says more, and
/// then carried to the other at once, as if the path took for ever. Where data connections go it
/// does not see.
///
/// # Panics
/// When there is no port.
pub fn relay_that_counts_round_trips(port: u16) -> (u16, Arc<AtomicU32>) {
    relay(move |client, count| in_rounds(client, TcpStream::connect(("127.0.0.1", port))?, count))
}

/// Carries both directions in rounds, until an end is over and all that it said was carried.
fn in_rounds(mut client: TcpStream, mut server: TcpStream, count: &AtomicU32) -> io::Result<()> {
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let (mut asked, mut said, mut last) = (Vec::new(), Vec::new(), Instant::now());
    loop {
        let came = [said_by(&mut client, &mut asked)?, said_by(&mut server, &mut said)?];
        let is_over = came.contains(&Said::Over);
        match came.contains(&Said::More) {
            true => last = Instant::now(),
            false if is_over || (last.elapsed() >= QUIET && asked.len() + said.len() > 0) => {
                count.fetch_add((!asked.is_empty()).into(), Ordering::Relaxed);
                write_whole(&mut server, &std::mem::take(&mut asked))?;
                write_whole(&mut client, &std::mem::take(&mut said))?;
                if is_over {
                    client.shutdown(Shutdown::Both)?;
                    return server.shutdown(Shutdown::Both);
                }
                last = Instant::now();
            }
            false => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What an end has said since it was last asked.
#[derive(PartialEq)]
enum Said {
    More,
    Nothing,
    Over,
}

fn said_by(end: &mut TcpStream, to: &mut Vec<u8>) -> io::Result<Said> {
    let mut part = [0; 64 << 10];
    match end.read(&mut part) {
        Ok(0) => Ok(Said::Over),
        Ok(len) => {
            to.extend(&part[..len]);
            Ok(Said::More)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Said::Nothing),
        Err(error) => Err(error),
    }
}

fn write_whole(to: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    to.set_nonblocking(false)?;
    to.write_all(bytes)?;
    to.set_nonblocking(true)
}

/// A port at which each connection is carried by `carry` in a thread of its own, and what that
/// counts.
fn relay(
    carry: impl Fn(TcpStream, &Arc<AtomicU32>) -> io::Result<()> + Send + Sync + 'static,
) -> (u16, Arc<AtomicU32>) {
    let (listener, own) = listen();
    let count = Arc::new(AtomicU32::new(0));
    let (counted, carry) = (Arc::clone(&count), Arc::new(carry));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (count, carry) = (Arc::clone(&counted), Arc::clone(&carry));
            // A session that ends in the middle ends nothing else.
            std::thread::spawn(move || carry(client, &count));
        }
    });
    (own, count)
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

/// A control connection, in whose replies data ports are replaced.
fn control(mut client: TcpStream, port: u16, count: &Arc<AtomicU32>) -> io::Result<()> {
    let node = TcpStream::connect(("127.0.0.1", port))?;
    pass_aside(&client, &node)?;
    for line in BufReader::new(node).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let line = match line.split('|').nth(3).filter(|_| line.starts_with("229 ")) {
            Some(told) => {
                line.replace(told, &data_port(told.parse().expect("a port"), count).to_string())
            }
            None => line,
        };
        client.write_all(format!("{line}\n").as_bytes())?;
    }
    client.shutdown(Shutdown::Both)
}

/// A port before the data port `port`.
fn data_port(port: u16, count: &Arc<AtomicU32>) -> u16 {
    let (listener, own) = listen();
    let count = Arc::clone(count);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let spoils = count.fetch_add(1, Ordering::Relaxed) == 0;
            std::thread::spawn(move || {
                let mut node = TcpStream::connect(("127.0.0.1", port))?;
                pass_aside(&node, &client)?;
                if spoils {
                    let mut begin = [0; SPOILED_AT + 1];
                    client.read_exact(&mut begin)?;
                    begin[SPOILED_AT] ^= 1;
                    node.write_all(&begin)?;
                }
                pass(client, node)
            });
        }
    });
    own
}

/// Carries one direction in a thread of its own, while the caller carries the other.
fn pass_aside(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (from, to) = (from.try_clone()?, to.try_clone()?);
    std::thread::spawn(move || pass(from, to));
    Ok(())
}

/// Carries one direction to its end.
fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let carried = io::copy(&mut from, &mut to);
    to.shutdown(Shutdown::Write)?;
    carried.map(drop)
}
