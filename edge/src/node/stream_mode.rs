//! MODE S: bytes in order on one connection, whose close is the end. What curl, lftp and every
//! plain FTP client speak.

use super::active::CONNECT_TIMEOUT;
use super::data::DataPlane;
use super::running::RunningTransfer;
use super::wire::HANDSHAKE_TIMEOUT;
use crate::channels::ordered::ByteStream;
use crate::channels::secured::secured;
use crate::mover::{PortSecurity, SecuredPort, send_in_order};
use crate::stores::{Sink, Source};
use crate::sys::tcp::tcp_info;
use farline_core::transfer::Layout;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long after the end of the data, and two round trips, the control connection may still bring
/// the news that the client is gone or wants no more. A client that dies closes both connections
/// within one system call of each other; on a network their last packets may change places.
const SECOND_THOUGHTS: Duration = Duration::from_millis(100);
/// How long what comes of a file that is refused is read, so that its client hears why.
const READ_AWAY: Duration = Duration::from_secs(5);
/// How long the client may take to connect.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may once a stranger has connected in its place.
const AFTER_STRANGER: Duration = Duration::from_secs(3);
/// Between two looks at whether the transfer was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Sends the one file of `layout` from byte `from` on.
pub(super) fn send(
    plane: &mut DataPlane,
    layout: &Layout,
    source: &dyn Source,
    from: u64,
    run: &RunningTransfer<'_>,
) -> Result<u64, Error> {
    plane.check_port()?;
    run.reporter.started(false);
    let (mut stream, _) = open(plane, run)?;
    let mut slots = plane.one_slot()?;
    let buffer = &mut *slots[0];
    let mut sent = 0;
    for index in 0..layout.block_count() {
        let block = layout.block(index);
        if block.range().end <= from {
            continue;
        }
        let bytes = &mut buffer[..block.len];
        for piece in layout.pieces(block.offset, block.len) {
            source.read(
                piece.entry,
                piece.file_offset,
                &mut bytes[piece.block_offset..piece.block_offset + piece.len],
            )?;
        }
        let skip = usize::try_from(from.saturating_sub(block.offset)).unwrap_or(0);
        let counted = (plane.pace().map(|pace| &**pace), &*run.tally, run.cancel);
        send_in_order(&mut *stream, &bytes[skip..], counted)
            .map_err(|error| broken(run, &error))?;
        sent += (bytes.len() - skip) as u64;
    }
    stream.finish().map_err(|error| broken(run, &error))?;
    plane.keep_slots(slots);
    Ok(sent)
}

/// Receives one file to the end of the connection; returns its length.
///
/// The end of a connection says nothing of why it ended. The data is whole only if the session
/// lived on and nobody cancelled, or if ALLO announced as many bytes as came (docs/protocol.md,
///
///
/// # Errors
/// When the connection breaks, or the reason for which the transfer was cancelled.
pub(super) fn receive(
    plane: &mut DataPlane,
    sink: &dyn Sink,
    run: &RunningTransfer<'_>,
) -> Result<u64, Error> {
    plane.check_port()?;
    run.reporter.started(false);
    let (mut stream, rtt) = open(plane, run)?;
    let mut slots = plane.one_slot()?;
    let buffer = &mut *slots[0];
    let mut at = 0;
    loop {
        let read = match stream.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Globus' clients leave TLS without a goodbye; what ALLO announced is there whole.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof && run.request.size == Some(at) =>
            {
                break;
            }
            Err(error) => return Err(broken(run, &error)),
        };
        if let Some(pace) = plane.receive_pace() {
            pace.through(read, &run.tally, run.cancel)?;
        }
        if let Err(error) = sink.write(0, at, &buffer[..read]) {
            read_away(plane, &mut *stream, buffer, run);
            return Err(error);
        }
        run.tally.add_bytes(read);
        at += read as u64;
    }
    plane.keep_slots(slots);
    // A client under TLS may wait for this end's goodbye before it reads the reply (Python's does);
    // who has gone does not hear it.
    let _ = stream.finish();
    let idle_timeout = match run.request.size {
        Some(size) if size == at => Duration::ZERO,
        _ => SECOND_THOUGHTS + rtt * 2,
    };
    run.cancel.wait(idle_timeout).map_or(Ok(at), Err)
}

/// Reads what still comes of a file that is refused: closed while there is something unread, a
/// connection is reset, and a client that is sending then speaks of the connection and not of the
/// reason that it is told (as of HTTP, RFC 9112, section 9.6).
fn read_away(
    plane: &DataPlane,
    stream: &mut dyn ByteStream,
    buffer: &mut [u8],
    run: &RunningTransfer<'_>,
) {
    let until = Instant::now() + READ_AWAY;
    let Ok(handle) = stream.handle() else { return };
    while run.cancel.reason().is_none() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || handle.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            Err(_) => {}
            Ok(read) => {
                let pace = plane.receive_pace();
                if pace.is_some_and(|pace| pace.through(read, &run.tally, run.cancel).is_err()) {
                    return;
                }
            }
        }
    }
}

/// The transfer's one connection: accepted or made, as was arranged, under TLS if that was (P-3). A
/// listener serves one transfer. With it comes the round-trip time that its handshake saw.
fn open(
    plane: &mut DataPlane,
    run: &RunningTransfer<'_>,
) -> Result<(Box<dyn ByteStream>, Duration), Error> {
    if plane.listener.is_some() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::BadSequence,
            "with a key data moves in MODE E",
        ));
    }
    if let Some(port) = plane.gsi_port.take() {
        // Who is somebody else stands in the log, and does not come this far.
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        let stream = accepted(plane, deadline, run, |wait| port.accept_stream(wait))?;
        return shown(run, stream.ok_or_else(|| nobody_came(plane))?);
    }
    let Some(acceptor) = plane.acceptor.take() else {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let stream = plane.connect(0, deadline, run)?.into_stream();
        return opened(plane, run, stream).map_err(|error| broken(run, &error));
    };
    let deadline = Instant::now() + ACCEPT_TIMEOUT;
    let Some(config) = plane.tls() else {
        let stream = accepted(plane, deadline, run, |wait| acceptor.accept_stream(wait))?;
        let stream = stream.ok_or_else(|| nobody_came(plane))?;
        return dressed(plane, run, stream).map_err(|error| broken(run, &error));
    };
    let (listener, peers) = acceptor.into_listener();
    let security = PortSecurity::Tls(config, plane.bound());
    let from = (peers, Some(plane.client_ip()));
    let port = SecuredPort::over(listener, from, security, plane.stranger());
    let port = port.map_err(|error| broken(run, &error))?;
    shown(run, client_among(plane, run, &port, deadline)?)
}

/// A connection whose peer has shown whose it is.
fn shown(
    run: &RunningTransfer<'_>,
    stream: Box<dyn ByteStream>,
) -> Result<(Box<dyn ByteStream>, Duration), Error> {
    let rtt = stream.tcp_info().map_or(Duration::ZERO, |info| info.rtt.into());
    run.cancel.watch(stream.handle().map_err(|error| broken(run, &error))?);
    Ok((stream, rtt))
}

/// The first that shows to be the client, of those who connect before `deadline`. Somebody else's
/// connection costs the client nothing, whatever is said over it.
fn client_among(
    plane: &DataPlane,
    run: &RunningTransfer<'_>,
    port: &SecuredPort,
    mut deadline: Instant,
) -> Result<Box<dyn ByteStream>, Error> {
    let mut failed = None;
    loop {
        if let Some(reason) = run.cancel.reason() {
            return Err(reason);
        }
        plane.check_room()?;
        if let Some(stream) = port.accept_stream(LOOK_EVERY)? {
            return Ok(stream);
        }
        let now = Instant::now();
        if failed.is_none() {
            failed = port.failure();
            // It may be that the client itself does not show whose it is.
            deadline = failed.as_ref().map_or(deadline, |_| deadline.min(now + AFTER_STRANGER));
        }
        // Who came in time is heard to the end.
        if now >= deadline && (!port.is_heard() || now >= deadline + HANDSHAKE_TIMEOUT) {
            // The last handshake may have ended well since this looked.
            let stream = port.accept_stream(Duration::ZERO)?;
            return stream.ok_or_else(|| match failed {
                Some(why) => broken(run, &io::Error::other(why)),
                None => nobody_came(plane),
            });
        }
    }
}

/// A connection that this end opened, as data goes over it.
fn opened(
    plane: &DataPlane,
    run: &RunningTransfer<'_>,
    stream: TcpStream,
) -> io::Result<(Box<dyn ByteStream>, Duration)> {
    match plane.shown_over(stream.try_clone()?)? {
        None => dressed(plane, run, stream),
        Some(shown) => {
            let rtt = tcp_info(&stream).map_or(Duration::ZERO, |info| info.rtt.into());
            run.cancel.watch_stream(&stream).map_err(io::Error::other)?;
            Ok((shown, rtt))
        }
    }
}

/// The connection as data goes over it.
fn dressed(
    plane: &DataPlane,
    run: &RunningTransfer<'_>,
    stream: TcpStream,
) -> io::Result<(Box<dyn ByteStream>, Duration)> {
    let rtt = tcp_info(&stream).map_or(Duration::ZERO, |info| info.rtt.into());
    run.cancel.watch_stream(&stream).map_err(io::Error::other)?;
    match plane.tls() {
        None => Ok((Box::new(stream), rtt)),
        Some(config) => Ok((secured(stream, config, HANDSHAKE_TIMEOUT, plane.bound())?, rtt)),
    }
}

/// The next connection that `accept` brings before `deadline`.
fn accepted<S>(
    plane: &DataPlane,
    deadline: Instant,
    run: &RunningTransfer<'_>,
    accept: impl Fn(Duration) -> Result<Option<S>, Error>,
) -> Result<Option<S>, Error> {
    while Instant::now() < deadline {
        if let Some(reason) = run.cancel.reason() {
            return Err(reason);
        }
        plane.check_room()?;
        if let Some(stream) = accept(LOOK_EVERY)? {
            return Ok(Some(stream));
        }
    }
    Ok(None)
}

fn nobody_came(plane: &DataPlane) -> Error {
    Error::new(
        Fault::Between,
        ErrorCode::DataConnection,
        format!("no data connection came from {} in time", plane.peer().ip()),
    )
    .hint("a firewall may hold the node's data ports back")
}

fn broken(run: &RunningTransfer<'_>, error: &io::Error) -> Error {
    run.cancel.reason().unwrap_or_else(|| {
        Error::new(
            Fault::Between,
            ErrorCode::DataConnection,
            format!("data connection lost: {error}"),
        )
    })
}
