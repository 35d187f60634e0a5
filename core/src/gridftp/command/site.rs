//! `SITE`: what no RFC gives a command of its own.

use crate::gridftp::pathname::Pathname;
use crate::gridftp::timestamp::Timestamp;
use crate::units::Bytes;

/// The argument of `SITE`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Site {
    /// `SITE CHMOD 640 path`.
    SetMode(u32, Pathname),
    /// `SITE CLIENTINFO scheme=ftp;appname="globus-url-copy";...`: who the client is, for the log.
    ClientInfo(String),
    /// `SITE HELP`: globus-url-copy reads the command names from the reply.
    Help,
    /// `SITE RETRBUFSIZE n` or, with `store`, `SITE STORBUFSIZE n`: the socket buffer of one
    /// direction.
    SocketBuffer {
        /// Whether for stores.
        store: bool,
        /// The size.
        size: Bytes,
    },
    /// `SITE SETNETSTACK tcp`: the drivers of the data channel (GCT).
    NetStack(String),
    /// `SITE SYMLINK target path`: a symbolic link (ProFTPD's mod_site_misc), which `lftp mirror
    /// -R` asks for.
    MakeLink {
        /// What the link says, as it was written.
        target: Pathname,
        /// Where it is to be.
        path: Pathname,
    },
    /// `SITE UTIME YYYYMMDDHHMMSS path`.
    SetModified(Timestamp, Pathname),
    /// Anything else, as it was written.
    Other(String),
}

impl Site {
    /// Reads what follows `SITE `; the error is what was expected.
    pub(super) fn parse(text: &[u8]) -> Result<Site, &'static str> {
        let (verb, rest) = word(text);
        let shown = || String::from_utf8_lossy(rest).into_owned();
        let size = || shown().trim().parse().map(Bytes).map_err(|_| "a size in bytes");
        match verb.to_ascii_uppercase().as_slice() {
            b"CHMOD" => {
                let (mode, path) = word(rest);
                let mode = std::str::from_utf8(mode)
                    .ok()
                    .and_then(|mode| u32::from_str_radix(mode, 8).ok());
                match mode.filter(|&mode| mode <= 0o7777 && !path.is_empty()) {
                    Some(mode) => Ok(Site::SetMode(mode, Pathname::read(path))),
                    None => Err("CHMOD <octal mode> <path>"),
                }
            }
            b"CLIENTINFO" => Ok(Site::ClientInfo(shown())),
            b"HELP" => Ok(Site::Help),
            b"RETRBUFSIZE" => Ok(Site::SocketBuffer { store: false, size: size()? }),
            b"STORBUFSIZE" => Ok(Site::SocketBuffer { store: true, size: size()? }),
            b"SETNETSTACK" => Ok(Site::NetStack(shown())),
            b"SYMLINK" => match link(rest) {
                Some((target, path)) => Ok(Site::MakeLink {
                    target: Pathname::read(target),
                    path: Pathname::read(path),
                }),
                None => {
                    Err("SYMLINK <target> <path>, an absolute path where there are more blanks")
                }
            },
            b"UTIME" => {
                let (time, path) = word(rest);
                let time = std::str::from_utf8(time).ok().and_then(Timestamp::parse);
                match time.filter(|_| !path.is_empty()) {
                    Some(time) => Ok(Site::SetModified(time, Pathname::read(path))),
                    None => Err("UTIME <YYYYMMDDHHMMSS> <path>"),
                }
            }
            _ => Ok(Site::Other(String::from_utf8_lossy(text).into_owned())),
        }
    }

    /// Appends what follows `SITE `.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let with_path = |head: String, path: &Pathname, out: &mut Vec<u8>| {
            out.extend_from_slice(head.as_bytes());
            path.write_to(out);
        };
        match self {
            Site::SetMode(mode, path) => with_path(format!("CHMOD {mode:04o} "), path, out),
            Site::ClientInfo(info) => {
                out.extend_from_slice(format!("CLIENTINFO {info}").as_bytes())
            }
            Site::Help => out.extend_from_slice(b"HELP"),
            Site::SocketBuffer { store, size } => {
                let verb = if *store { "STORBUFSIZE" } else { "RETRBUFSIZE" };
                out.extend_from_slice(format!("{verb} {}", size.0).as_bytes());
            }
            Site::NetStack(stack) => {
                out.extend_from_slice(format!("SETNETSTACK {stack}").as_bytes())
            }
            Site::MakeLink { target, path } => {
                out.extend_from_slice(b"SYMLINK ");
                target.write_to(out);
                out.push(b' ');
                path.write_to(out);
            }
            Site::SetModified(time, path) => with_path(format!("UTIME {time} "), path, out),
            Site::Other(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// A target and a path with one blank between them; of several the one before the only absolute
/// path.
fn link(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let blanks = (1..text.len().saturating_sub(1)).filter(|&at| text[at] == b' ');
    let splits: Vec<_> = blanks.map(|at| (&text[..at], &text[at + 1..])).collect();
    let absolute: Vec<_> = splits.iter().copied().filter(|(_, path)| path[0] == b'/').collect();
    match (&splits[..], &absolute[..]) {
        ([only], _) | (_, [only]) => Some(*only),
        _ => None,
    }
}

/// The first word and what follows the one blank after it.
pub(super) fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&b| b == b' ') {
        Some(blank) => (&text[..blank], &text[blank + 1..]),
        None => (text, b""),
    }
}
