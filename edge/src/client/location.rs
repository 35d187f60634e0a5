//! Where a copy comes from or goes to, as people write it.

use super::remote_store::RemoteStore;
use crate::stores::{Access, StandardStreams, Store, StoreAddress, StoreRegistry};
use farline_core::copy::source_of;
use farline_core::transfer::StoreMedium;
use farline_core::units::{Error, ErrorCode, Fault, percent};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A path of this host.
    Local(PathBuf),
    /// A path of a GridFTP or FTP server.
    Remote(Remote),
    /// A place in a store of this host's: `null:`, `memory:SIZE`, or one that a program brought.
    Store(StoreAddress),
    /// `-`: standard input of this process, or its standard output.
    Standard,
}

/// What carries a control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlTransport {
    /// TCP, in the clear.
    Tcp,
    /// TCP with `AUTH TLS` (RFC 4217): `ftps://`, `farlines://`.
    Tls,
    /// TCP with `AUTH GSSAPI` (GFD.20), by a proxy of a grid: `gsiftp://`.
    Gsi,
    /// The user's ssh: `host:path`, as scp has it, or `sshftp://`, as `globus-url-copy` does.
    Ssh,
    /// Control and data over one UDP port, encrypted: `farlineq://`.
    OnePort,
}

/// A path of a server: `ftp://[user[:password]@]host[:port]/path`, or the same with `farline://`,
/// or with TLS `ftps://` or `farlines://`, or with a proxy of a grid `gsiftp://`, or over one UDP
/// port `farlineq://`; or over ssh `[user@]host:path`, and to a grid's server `sshftp://`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remote {
    /// The user; anonymous when absent.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// Host name or address, an IPv6 address without its brackets.
    pub host: String,
    /// What carries the control channel.
    pub transport: ControlTransport,
    /// The control port; ssh knows its own, where this is none (0).
    pub port: u16,
    /// The path, percent-decoded; absolute, as every GridFTP client has it, or over ssh relative to
    /// the home directory.
    pub path: Vec<u8>,
    /// Whether it must be a Farline node (`farline://`, `farlines://`).
    pub farline: bool,
    /// A store of the node's instead of its files: `farline://host/?null`,
    /// `farline://host/?memory=SIZE`, `farline://host/PATH?store=NAME`.
    pub store: Option<RemoteStore>,
    /// What of the folder is meant, by name, where that is not all.
    pub(super) only: Arc<[Vec<u8>]>,
}

/// The port of FTP's control channel.
const FTP_PORT: u16 = 21;
/// GridFTP's registered port, where a Farline node listens.
const GRIDFTP_PORT: u16 = 2811;

/// What ssh's own configuration says.
const SSH_PORT: u16 = 0;

/// What a URL of a server begins with.
struct Scheme {
    name: &'static str,
    transport: ControlTransport,
    farline: bool,
    /// Where it listens, when the URL does not say it.
    port: u16,
}

const SCHEMES: [Scheme; 7] = [
    scheme("ftp", ControlTransport::Tcp, false, FTP_PORT),
    scheme("ftps", ControlTransport::Tls, false, FTP_PORT),
    scheme("gsiftp", ControlTransport::Gsi, false, GRIDFTP_PORT),
    scheme("sshftp", ControlTransport::Ssh, false, SSH_PORT),
    scheme("farline", ControlTransport::Tcp, true, GRIDFTP_PORT),
    scheme("farlines", ControlTransport::Tls, true, GRIDFTP_PORT),
    scheme("farlineq", ControlTransport::OnePort, true, GRIDFTP_PORT),
];

const fn scheme(
    name: &'static str,
    transport: ControlTransport,
    farline: bool,
    port: u16,
) -> Scheme {
    Scheme { name, transport, farline, port }
}

impl Location {
    /// The same folder, of which the content is meant and not the folder by its name.
    #[must_use]
    pub fn content(self) -> Location {
        match self {
            Location::Local(path) => Location::Local(path.join("")),
            Location::Remote(mut remote) => {
                if !remote.path.ends_with(b"/") {
                    remote.path.push(b'/');
                }
                Location::Remote(remote)
            }
            Location::Store(address) => Location::Store(address.content()),
            Location::Standard => Location::Standard,
        }
    }

    /// Whether it has a path that is not one of files: of a store that a program brought.
    pub(super) fn names_path_of_store(&self) -> bool {
        match self {
            Location::Store(store) => store.driver().capabilities.paths,
            Location::Remote(remote) => remote.store.as_ref().is_some_and(RemoteStore::has_paths),
            Location::Local(_) | Location::Standard => false,
        }
    }

    /// Its bytes from the first to the last, where they come so.
    ///
    /// # Errors
    /// When they do not, or cannot be read.
    pub(super) fn stream(&self) -> Result<File, Error> {
        match self {
            Location::Store(address) => address.open()?.stream(),
            _ => StandardStreams::default().stream(),
        }
    }

    /// Whether its bytes come, or go, from the first to the last only.
    pub(super) fn is_ordered(&self) -> bool {
        match self {
            Location::Standard => true,
            Location::Store(store) => store.driver().capabilities.access == Access::Ordered,
            Location::Local(_) | Location::Remote(_) => false,
        }
    }

    /// What its bytes are read from, or written to, as far as this end knows.
    pub(super) fn medium(&self) -> StoreMedium {
        match self {
            Location::Standard => StoreMedium::Pipe,
            Location::Store(store) => store.driver().medium,
            Location::Local(_) | Location::Remote(_) => StoreMedium::Disk,
        }
    }

    /// Reads `text`: a URL when it has a scheme, else a local path.
    ///
    /// # Errors
    /// When the scheme is unknown or the URL makes no sense.
    pub fn parse(text: &OsStr) -> Result<Location, Error> {
        Location::parse_among(text, &StoreRegistry::builtin())
    }

    /// The same, where there are these stores.
    ///
    /// # Errors
    /// When the scheme is unknown or the URL makes no sense.
    pub fn parse_among(text: &OsStr, stores: &StoreRegistry) -> Result<Location, Error> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(Location::Standard);
        }
        if let Some(address) = stores.parse(bytes) {
            return address.map(Location::Store);
        }
        let Some(colon) = bytes.windows(3).position(|window| window == b"://") else {
            if bytes.is_empty() {
                return Err(Error::new(
                    Fault::You,
                    ErrorCode::EmptyPath,
                    "an empty path names nothing",
                ));
            }
            return match over_ssh(bytes)? {
                Some(remote) => Ok(Location::Remote(remote)),
                None => Ok(Location::Local(PathBuf::from(text))),
            };
        };
        let shown = String::from_utf8_lossy(bytes);
        let (scheme, rest) = (&bytes[..colon], &bytes[colon + 3..]);
        if let Some(scheme) = SCHEMES.iter().find(|known| known.name.as_bytes() == scheme) {
            return Remote::parse(rest, scheme, stores, &shown).map(Location::Remote);
        }
        match scheme {
            b"file" => Ok(Location::Local(PathBuf::from(std::ffi::OsString::from_vec(decode(
                rest, &shown,
            )?)))),
            _ => Err(Error::new(
                Fault::You,
                ErrorCode::UnknownScheme,
                format!("{shown}: scheme `{}` is not known", String::from_utf8_lossy(scheme)),
            )
            .hint(
                "known are farline://, ftp://, with TLS farlines:// and ftps://, by a proxy \
                 gsiftp://, over ssh sshftp://, over UDP farlineq://, file://, host:path, null:, \
                 memory:SIZE, `-` and plain local paths",
            )),
        }
    }
}

impl Remote {
    fn parse(
        rest: &[u8],
        scheme: &Scheme,
        stores: &StoreRegistry,
        shown: &str,
    ) -> Result<Remote, Error> {
        let &Scheme { name, transport, farline, port: usual } = scheme;
        let wrong = |what: &str| {
            Error::new(Fault::You, ErrorCode::BadUrl, format!("{shown}: {what}"))
                .hint(format!("write {name}://host:port/path"))
        };
        // An FTP URL has no query (RFC 1738, section 3.2): there, `?` belongs to the path.
        let (rest, query) = match rest.iter().position(|&byte| byte == b'?').filter(|_| farline) {
            Some(mark) => (&rest[..mark], Some(&rest[mark + 1..])),
            None => (rest, None),
        };
        let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let authority =
            std::str::from_utf8(authority).map_err(|_| wrong("the host is not text"))?;
        let (login, place) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(login, place)| (Some(login), place));
        let (host, port) = match place.strip_prefix('[') {
            Some(inside) => {
                let (host, after) =
                    inside.split_once(']').ok_or_else(|| wrong("`[` without `]`"))?;
                (host, after.strip_prefix(':'))
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let port = match port {
            None => usual,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?,
        };
        let text = |part: &str| -> Result<String, Error> {
            String::from_utf8(decode(part.as_bytes(), shown)?)
                .map_err(|_| wrong("user and password must be text"))
        };
        let (user, password) = match login {
            None => (None, None),
            Some(login) => {
                let (user, password) = login
                    .split_once(':')
                    .map_or((login, None), |(user, password)| (user, Some(password)));
                (Some(text(user)?), password.map(text).transpose()?)
            }
        };
        if transport == ControlTransport::Ssh {
            let is_option = |name: &str| name.starts_with('-');
            if is_option(host) || user.as_deref().is_some_and(is_option) {
                return Err(wrong("no host and no user can be called so"));
            }
            if password.is_some() {
                return Err(wrong("ssh takes no password from a URL")
                    .hint("leave it out: ssh asks for it, or goes by a key"));
            }
        }
        let path = decode(path, shown)?;
        if path.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            return Err(wrong("a path in an FTP URL has no line breaks and no zero bytes"));
        }
        let path = if path.is_empty() { b"/".to_vec() } else { path };
        let store = match query {
            None => None,
            Some(query) => {
                let query = std::str::from_utf8(query).ok();
                let known = query.and_then(|query| RemoteStore::parse(query, stores));
                Some(known.ok_or_else(|| {
                    wrong("behind `?` stands neither null nor memory=SIZE")
                        .hint("a `?` in a path is written `%3F` here")
                })??)
            }
        };
        Ok(Remote {
            user,
            password,
            host: host.to_owned(),
            transport,
            port,
            path,
            farline,
            store,
            only: Arc::default(),
        })
    }

    /// The server, for people.
    pub fn server(&self) -> String {
        if self.transport == ControlTransport::Ssh {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether a folder's content is meant, without the folder's name.
    pub(super) fn names_content(&self) -> bool {
        self.path.ends_with(b"/") && self.store.as_ref().is_none_or(RemoteStore::has_paths)
    }

    /// The name that stands before the paths of what is copied from here: none where a folder's
    /// content is meant.
    pub(super) fn name_within(&self) -> &[u8] {
        if self.names_content() { b"" } else { self.name() }
    }

    /// What a tree of this place is known by when its copy is resumed.
    pub(super) fn source_id(&self) -> [u8; 32] {
        let server = format!("{}:{}", self.host, self.port);
        source_of(&server, [&self.path[..]].into_iter())
    }

    /// The error of a server that cannot take part, and what can copy with it.
    pub(super) fn not_gridftp(&self, instead: &str) -> Error {
        let message =
            format!("{}:{} is a plain FTP server, not a GridFTP one", self.host, self.port);
        Error::new(Fault::There, ErrorCode::Unsupported, message).hint(instead)
    }

    /// The server as in a URL, with the user and without a password.
    pub fn place(&self) -> String {
        let scheme = match self.transport {
            ControlTransport::Tls => "ftps",
            ControlTransport::Gsi => "gsiftp",
            ControlTransport::OnePort => "farlineq",
            ControlTransport::Ssh if !self.farline => "sshftp",
            ControlTransport::Tcp | ControlTransport::Ssh => "ftp",
        };
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{scheme}://{user}{}{}", self.host_in_url(), self.port_in_url())
    }

    /// The host as the user named it, and the port.
    pub(super) fn host_and_port(&self) -> String {
        format!("{}{}", self.host_in_url(), self.port_in_url())
    }

    fn host_in_url(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    fn port_in_url(&self) -> String {
        if self.port == SSH_PORT { String::new() } else { format!(":{}", self.port) }
    }

    /// The same server with another path.
    #[must_use]
    pub fn with_path(&self, path: Vec<u8>) -> Remote {
        Remote { path, only: Arc::default(), ..self.clone() }
    }

    /// These names in the folder `folder`, which ends in `/`, of the same server.
    pub(super) fn with_names(&self, folder: Vec<u8>, only: Vec<Vec<u8>>) -> Remote {
        Remote { path: folder, only: only.into(), ..self.clone() }
    }

    /// The same server's store that drops what comes.
    #[cfg(feature = "profile")]
    pub(super) fn null(&self) -> Result<Remote, Error> {
        let null = RemoteStore::parse("null", &StoreRegistry::builtin());
        let store = null.transpose()?;
        Ok(Remote { path: b"/".to_vec(), store, ..self.clone() })
    }

    /// The last name of the path; empty for the root.
    pub fn name(&self) -> &[u8] {
        match &self.store {
            Some(store) if !store.has_paths() => store.name().as_bytes(),
            _ => last_name(&self.path),
        }
    }
}

/// `[user@]host:path` as scp reads it: a colon before any slash makes it remote; `./a:b` is a file
/// here.
fn over_ssh(text: &[u8]) -> Result<Option<Remote>, Error> {
    let shown = String::from_utf8_lossy(text);
    let wrong = |what: &str, hint: &str| {
        Error::new(Fault::You, ErrorCode::BadLocation, format!("{shown}: {what}")).hint(hint)
    };
    let before = |text: &[u8]| text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
    let login = text[..before(text)].iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let (host, path) = if text[login..].starts_with(b"[") {
        match text.windows(2).position(|pair| pair == b"]:") {
            Some(end) => (&text[login + 1..end], &text[end + 2..]),
            None => return Ok(None),
        }
    } else {
        let here = &text[login..before(text).max(login)];
        match here.iter().position(|&byte| byte == b':') {
            Some(colon) => (&here[..colon], &text[login + colon + 1..]),
            None => return Ok(None),
        }
    };
    let as_file = "a file of such a name is written with ./ before it";
    let host = std::str::from_utf8(host).map_err(|_| wrong("the host is not text", as_file))?;
    let user = std::str::from_utf8(&text[..login.saturating_sub(1)])
        .map_err(|_| wrong("the user is not text", as_file))?;
    if host.is_empty() || host.starts_with('-') || user.starts_with('-') || login == 1 {
        return Err(wrong("no host can be called so", as_file));
    }
    if path.iter().any(|byte| matches!(byte, 0 | b'\n')) {
        return Err(wrong(
            "a path at another host has no line breaks and no zero bytes here",
            as_file,
        ));
    }
    let path = match path {
        b"" | b"~" | b"~/" => b"./".to_vec(),
        path if path.starts_with(b"~/") => path[2..].to_vec(),
        path if path.starts_with(b"~") => {
            return Err(wrong(
                "only `~` alone, the own home, is understood",
                "write the absolute path",
            ));
        }
        // `.` and `..` are what is in them: they have no name to copy under.
        path if matches!(last_name(path), b"." | b"..") && !path.ends_with(b"/") => {
            [path, b"/"].concat()
        }
        path => path.to_vec(),
    };
    let user = (!user.is_empty()).then(|| user.to_owned());
    Ok(Some(Remote {
        user,
        password: None,
        host: host.to_owned(),
        transport: ControlTransport::Ssh,
        port: 22,
        path,
        farline: true,
        store: None,
        only: Arc::default(),
    }))
}

/// The part after the last `/`, ignoring one at the end.
pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// What a copy from `paths`, of this host, is known by when it is resumed.
pub(super) fn source_here<'a>(paths: impl IntoIterator<Item = &'a Path>) -> [u8; 32] {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real: Vec<PathBuf> = paths.into_iter().map(real).collect();
    source_of(&host, real.iter().map(|path| path.as_os_str().as_bytes()))
}

/// `path` without the slash at its end.
pub(super) fn trim(path: &[u8]) -> &[u8] {
    if path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path }
}

/// What is said of the file `named` of which the content is asked for as a folder's.
pub(super) fn file_as_folder(named: impl fmt::Display) -> Error {
    Error::new(Fault::You, ErrorCode::NotADirectory, format!("{named} is not a directory"))
        .hint("a file is copied by `farline cp`, without a slash behind its name")
}

impl fmt::Display for Remote {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, path) = (self.host_in_url(), String::from_utf8_lossy(&self.path));
        if self.transport == ControlTransport::Ssh && self.farline {
            return write!(f, "{host}:{path}");
        }
        let is_own =
            |scheme: &&Scheme| (scheme.transport, scheme.farline) == (self.transport, self.farline);
        let scheme = SCHEMES.iter().find(is_own).map_or("farline", |scheme| scheme.name);
        write!(f, "{scheme}://{host}{}{path}", self.port_in_url())?;
        match &self.store {
            None => Ok(()),
            Some(store) => write!(f, "?{store}"),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => write!(f, "{}", path.display()),
            Location::Remote(remote) => write!(f, "{remote}"),
            Location::Store(address) => write!(f, "{address}"),
            Location::Standard => f.write_str("-"),
        }
    }
}

fn decode(text: &[u8], shown: &str) -> Result<Vec<u8>, Error> {
    percent::decode(text).ok_or_else(|| {
        let message = format!("{shown}: `%` is not followed by two hexadecimal digits");
        Error::new(Fault::You, ErrorCode::BadUrl, message).hint("write `%25` for a `%` in a URL")
    })
}

#[cfg(test)]
mod tests;
