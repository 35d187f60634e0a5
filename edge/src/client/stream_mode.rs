//! MODE S with plain FTP servers: a connection for each file, made by this host, whose close is the
//! file's end (RFC 959), under TLS where the control connection is (RFC 4217).
//!
//! `docs/protocol.md`, clause G-10.

use super::control::Control;
use super::copy::Copy;
use super::data_path::DataPath;
use super::location::last_name;
use super::transfer_state::TransferState;
use crate::channels::gsi::DataSecurity;
use crate::channels::ordered::ByteStream;
use crate::channels::secured::secured_for_server;
use crate::channels::socket::{connect_stream, prepare};
use crate::channels::trust::ControlTls;
use crate::channels::{Handle, TcpOptions};
use crate::mover::{BLOCK_LEN, receive_in_order, send_in_order};
use crate::stores::{Sink, Source, join};
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Command, ListingEntry, ListingKind, Mode, Pathname, Protection};
use farline_core::units::Setting::NoEncrypt;
use farline_core::units::{Error, ErrorCode, Fault, Retry};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a data connection may take to be made, and its TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server may take to begin a transfer.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to end a connection that this host has ended.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one folder's list: more than a million names.
const LONGEST_LIST: u64 = 256 << 20;

/// Where the server waits for the next file's connection.
struct DataAddress {
    address: SocketAddr,
    protection: DataProtection,
    options: TcpOptions,
}

/// What stands over a data connection.
enum DataProtection {
    None,
    /// What the control connection has.
    Tls(ControlTls),
    /// A handshake that shows whose it is, in a session by GSI.
    Grid(DataSecurity),
}

/// Has data connections encrypted where the control connection is, unless told not to.
///
/// # Errors
/// When the server cannot.
pub(super) async fn arrange(copy: &mut Copy<'_>, control: &mut Control) -> Result<(), Error> {
    let is_private = control.tls().is_some() && !copy.options.connect.no_encrypt;
    if control.tls().is_some() {
        let level = if is_private { Protection::Private } else { Protection::Clear };
        for command in [Command::ProtectionBuffer(0), Command::Protection(level)] {
            let id = control.request(Request::Exec(command));
            control.done(id).await.map_err(|error| {
                let doing = format!("{} cannot encrypt data", control.server());
                Error { code: ErrorCode::CannotEncrypt, ..error.while_doing(doing) }
                    .hint(format!("let it go in the clear with {NoEncrypt}"))
            })?;
        }
    }
    let grid = control.data_security().await?;
    copy.stats.data_path = Some(DataPath::Direct);
    copy.stats.encrypted = Some(is_private || grid.is_some_and(|grid| grid.is_private()));
    (copy.stats.streams, copy.stats.congestion) = (1, None);
    Ok(())
}

/// Has the server listen for one connection.
async fn passive(copy: &Copy<'_>, control: &mut Control) -> Result<DataAddress, Error> {
    let id = control.request(Request::Passive { mode: Mode::Stream, striped: false });
    let told = control.passive(id).await?;
    // What PASV names behind a translation of addresses is another's; the server is where its
    // control port is.
    let address = SocketAddr::new(control.peer()?.ip(), told.port());
    let tls = control.tls().filter(|_| copy.stats.encrypted == Some(true));
    let protection = match (control.data_security().await?, tls) {
        (Some(grid), _) => DataProtection::Grid(grid),
        (None, Some(tls)) => DataProtection::Tls(tls),
        (None, None) => DataProtection::None,
    };
    Ok(DataAddress { address, protection, options: copy.tcp_options(None, control.rtt()) })
}

impl DataAddress {
    /// Connects. TLS begins once the server has taken the command.
    async fn connect(self, copy: &mut Copy<'_>, control: &mut Control) -> Result<Dialed, Error> {
        let connected = copy.supervise(Some(control), move |state| {
            let address = self.address;
            let failed = |error: io::Error| {
                let message = format!("cannot connect to {address} for data: {error}");
                Error::new(Fault::Between, ErrorCode::DataConnection, message)
                    .hint("a firewall may hold the server's data ports back")
            };
            let stream = connect_stream(address, None, &self.options, CONNECT_TIMEOUT);
            let stream = stream.map_err(failed)?;
            prepare(&stream).map_err(failed)?;
            state.cancel.watch_stream(&stream)?;
            Ok(match self.protection {
                DataProtection::None => Dialed::Open(Box::new(stream)),
                DataProtection::Tls(tls) => Dialed::Tls(stream, tls),
                DataProtection::Grid(grid) => Dialed::Grid(stream, grid),
            })
        });
        connected.await
    }
}

/// A connection over which nothing went yet.
pub(super) enum Dialed {
    /// Whose it is was shown, or is not to be.
    Open(Box<dyn ByteStream>),
    /// TLS begins when the server begins.
    Tls(TcpStream, ControlTls),
    /// Servers see whose it is before they begin.
    Grid(TcpStream, DataSecurity),
}

impl Dialed {
    /// Whether the server has tickets for the connections that follow.
    pub(super) fn has_tickets(&self) -> bool {
        matches!(self, Dialed::Tls(..))
    }

    /// The connection as data goes over it.
    pub(super) fn open(self, state: &TransferState) -> Result<Box<dyn ByteStream>, Error> {
        match self {
            Dialed::Open(stream) => return Ok(stream),
            Dialed::Tls(stream, tls) => secured_for_server(stream, tls, CONNECT_TIMEOUT),
            Dialed::Grid(stream, grid) => grid.connect(stream, CONNECT_TIMEOUT),
        }
        .map_err(|error| lost(state, &error))
    }
}

/// Connects, and has the server begin what `request` asks for; returns its number. Nothing is sent
/// before the server says that it begins: some take the end of a short file for the end of all.
pub(super) async fn begin(
    copy: &mut Copy<'_>,
    control: &mut Control,
    request: impl FnOnce(&mut Control) -> u64,
) -> Result<(u64, Dialed), Error> {
    let data = passive(copy, control).await?;
    let dialed = data.connect(copy, control).await?;
    let id = request(control);
    let within = copy.options.connect.at_most(BEGIN_TIMEOUT);
    let showing = match dialed {
        Dialed::Grid(stream, grid) => {
            Err(tokio::task::spawn_blocking(move || grid.connect(stream, CONNECT_TIMEOUT)))
        }
        open => Ok(open),
    };
    let begun = tokio::time::timeout(within, control.started(id)).await;
    begun.map_err(|_| {
        let message = format!("{} does not begin the transfer", control.server());
        Error::new(Fault::Between, ErrorCode::PeerSilent, message)
    })??;
    match showing {
        Ok(dialed) => Ok((id, dialed)),
        Err(showing) => {
            let shown = showing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            let stream = shown.map_err(|error| {
                let message = format!("a data connection was not authenticated: {error}");
                Error::new(Fault::Between, ErrorCode::DataConnection, message)
            })?;
            Ok((id, Dialed::Open(stream)))
        }
    }
}

fn lost(state: &TransferState, error: &io::Error) -> Error {
    state.cancel.reason().unwrap_or_else(|| {
        let message = format!("the data connection was lost: {error}");
        Error::new(Fault::Between, ErrorCode::DataConnection, message)
    })
}

/// Receives what comes from byte `at` of the one file of `sink` on, of which the server said that
/// it has `len` bytes; returns where it ended.
pub(super) fn receive(
    state: &TransferState,
    mut stream: Box<dyn ByteStream>,
    sink: &dyn Sink,
    (at, len): (u64, u64),
) -> Result<u64, Error> {
    let counted = (state.pace.as_deref(), &state.tally, &state.cancel);
    let end = receive_in_order(&mut *stream, sink, (at, len), counted)
        .map_err(|error| error.unwrap_or_else(|error| lost(state, &error)))?;
    part(state, stream);
    Ok(end)
}

/// Answers the server's goodbye, which some wait for, and lets go of the connection.
fn part(state: &TransferState, mut stream: Box<dyn ByteStream>) {
    // Everything has come; a server that is gone needs no goodbye.
    let _ = stream.finish();
    state.cancel.release();
}

/// Sends the one file of `source`, `len` bytes of it, and the end.
pub(super) fn send(
    state: &TransferState,
    mut stream: Box<dyn ByteStream>,
    source: &dyn Source,
    (len, has_tickets): (u64, bool),
) -> Result<(), Error> {
    let mut buffer = vec![0; BLOCK_LEN];
    let mut at = 0;
    while at < len {
        let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(BLOCK_LEN);
        source.read(0, at, &mut buffer[..part])?;
        let counted = (state.pace.as_deref(), &state.tally, &state.cancel);
        send_in_order(&mut *stream, &buffer[..part], counted)
            .map_err(|error| lost(state, &error))?;
        at += part as u64;
    }
    stream.finish().map_err(|error| lost(state, &error))?;
    if has_tickets {
        take_tickets(&mut *stream);
    }
    state.cancel.release();
    Ok(())
}

/// Reads to the end, in which a server has put the ticket for the next connection: without one it
/// would be a stranger's to servers that want all to be of one TLS session.
fn take_tickets(stream: &mut dyn ByteStream) {
    let wait = |handle: Handle| handle.set_read_timeout(Some(GOODBYE_TIMEOUT));
    let mut rest = [0; 4096];
    // Whoever does not end after us has no ticket for us either.
    if stream.handle().and_then(wait).is_ok() {
        while matches!(stream.read(&mut rest), Ok(1..)) {}
    }
}

/// What is in the folder `path`: by MLSD, or by LIST and a MDTM for each file. A line that is no
/// entry is one of unknown kind.
pub(super) async fn list(
    copy: &mut Copy<'_>,
    control: &mut Control,
    path: &[u8],
) -> Result<Vec<ListingEntry>, Error> {
    if control.features().mlst {
        let text = list_text(copy, control, TransferKind::List, path).await?;
        return Ok(ListingEntry::parse_facts_list(&text));
    }
    let (text, kind) = long_list(copy, control, path).await?;
    let mut entries = ListingEntry::parse_long_list(&text);
    let folder = path.strip_suffix(b"/").unwrap_or(path);
    let name = last_name(folder);
    // vsftpd lists a folder that it may not open as an entry of the folder above it.
    let is_of_name = |entries: &[ListingEntry]| {
        matches!(entries, [one] if one.kind == ListingKind::Directory
            && last_name(one.name.as_bytes()) == name)
    };
    if is_of_name(&entries) {
        let again = list_text(copy, control, kind, &join(folder, b".")).await;
        if !again.is_ok_and(|text| is_of_name(&ListingEntry::parse_long_list(&text))) {
            let message =
                "the server lists it as an entry of the folder above it: it may not read it";
            return Err(Error::new(Fault::Refused, ErrorCode::PermissionDenied, message));
        }
    }
    for entry in &mut entries {
        if entry.size.is_none() || entry.link.is_some() {
            continue;
        }
        // The list has a size and no time that another run could compare.
        let asked = Command::ModifiedTime(Pathname::new(join(folder, entry.name.as_bytes())));
        let asked = control.try_request(Request::Exec(asked));
        entry.modified = control.done(asked).await.ok().and_then(|reply| reply.modified());
    }
    Ok(entries)
}

/// What the server lists of `path` in a form of its own, and how it was asked: with names that
/// begin with a dot, where it has an option for them.
async fn long_list(
    copy: &mut Copy<'_>,
    control: &mut Control,
    path: &[u8],
) -> Result<(Vec<u8>, TransferKind), Error> {
    let known = match copy.lists_dots {
        Some(true) => Some(TransferKind::LongListAll),
        Some(false) => Some(TransferKind::LongList),
        None => None,
    };
    if let Some(kind) = known {
        return Ok((list_text(copy, control, kind, path).await?, kind));
    }
    let asked = match list_text(copy, control, TransferKind::LongListAll, path).await {
        Err(error) if is_refusal(&error) => None,
        asked => Some(asked?),
    };
    // Some take the option for a name, and list what has that name, or nothing.
    let unasked = list_text(copy, control, TransferKind::LongList, path).await?;
    let whole = asked.filter(|asked| has_all(asked, &unasked));
    copy.lists_dots = Some(whole.is_some());
    Ok(match whole {
        Some(text) => (text, TransferKind::LongListAll),
        None => {
            copy.stats.note(format!(
                "names that begin with a dot may be missing: {} knows neither MLSD nor LIST -a",
                control.server()
            ));
            (unasked, TransferKind::LongList)
        }
    })
}

/// Whether the server is there, and does not do what it was asked for.
fn is_refusal(error: &Error) -> bool {
    error.retry() == Retry::Never
        && error.fault != Fault::Between
        && error.code != ErrorCode::Interrupted
}

/// Whether all names of the list `unasked` are in the list `asked` too, and that has any: a folder
/// has at least itself in it.
fn has_all(asked: &[u8], unasked: &[u8]) -> bool {
    let names = |text: &[u8]| -> BTreeSet<Vec<u8>> {
        let entries = ListingEntry::parse_long_list(text).into_iter();
        let read = entries.filter(|entry| entry.kind != ListingKind::Unread);
        read.map(|entry| entry.name.into_bytes()).collect()
    };
    let asked = names(asked);
    !asked.is_empty() && names(unasked).is_subset(&asked)
}

/// What the server lists of `path`, as it comes.
async fn list_text(
    copy: &mut Copy<'_>,
    control: &mut Control,
    kind: TransferKind,
    path: &[u8],
) -> Result<Vec<u8>, Error> {
    let transfer = Transfer::new(kind, Pathname::new(path));
    let ask = |control: &mut Control| control.request(Request::Transfer(transfer));
    let (id, data) = begin(copy, control, ask).await?;
    let text = copy.supervise(Some(control), move |state| {
        let mut text = Vec::new();
        let mut stream = data.open(state)?;
        let mut all = (&mut stream).take(LONGEST_LIST + 1);
        all.read_to_end(&mut text).map_err(|error| lost(state, &error))?;
        part(state, stream);
        Ok(text)
    });
    let text = text.await?;
    copy.until_done(control, &[id]).await?;
    if text.len() as u64 > LONGEST_LIST {
        let message = format!("the list of {} is too long", String::from_utf8_lossy(path));
        return Err(Error::new(Fault::There, ErrorCode::ListTooLong, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_an_option_has_all_that_one_without_has() {
        let list = |names: &[&str]| -> String {
            let line = |name: &&str| format!("-rw-r--r-- 1 0 0 5 Nov 25 02:52 {name}\r\n");
            names.iter().map(line).collect()
        };
        let has = |asked: &[&str], unasked: &[&str]| {
            has_all(list(asked).as_bytes(), list(unasked).as_bytes())
        };
        assert!(has(&[".", "..", ".hidden", "a"], &["a"]) && has(&[".", ".."], &[]));
        // Nothing, or what has the option for a name.
        assert!(!has(&[], &["a"]) && !has(&["-a"], &["a"]) && !has(&[], &[]));
        let error = |fault, code| Error::new(fault, code, "no");
        assert!(is_refusal(&error(Fault::Refused, ErrorCode::Refused)));
        assert!(is_refusal(&error(Fault::There, ErrorCode::Unsupported)));
        assert!(!is_refusal(&error(Fault::Between, ErrorCode::DataConnection)));
        assert!(!is_refusal(&error(Fault::You, ErrorCode::Interrupted)));
    }
}
