//! Where a copy comes from or goes to, as people write it.

use farline_core::units::{Error, Fault};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A path of this host.
    Local(PathBuf),
    /// A path of a GridFTP or FTP server.
    Remote(Remote),
}

/// A path of a server: `ftp://[user[:password]@]host[:port]/path`.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// The user; anonymous when absent.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// Host name or address, an IPv6 address without its brackets.
    pub host: String,
    /// The control port.
    pub port: u16,
    /// The path, percent-decoded; absolute, as every GridFTP client has it.
    pub path: Vec<u8>,
}

/// The port of FTP's control channel.
const FTP_PORT: u16 = 21;

impl Location {
    /// Reads `text`: a URL when it has a scheme, else a local path.
    ///
    /// # Errors
    /// When the scheme is unknown or the URL makes no sense.
    pub fn parse(text: &OsStr) -> Result<Location, Error> {
        let bytes = text.as_bytes();
        let Some(colon) = bytes.windows(3).position(|window| window == b"://") else {
            if bytes.is_empty() {
                return Err(Error::new(Fault::You, "empty-path", "an empty path names nothing"));
            }
            return Ok(Location::Local(PathBuf::from(text)));
        };
        let shown = String::from_utf8_lossy(bytes);
        let (scheme, rest) = (&bytes[..colon], &bytes[colon + 3..]);
        match scheme {
            b"ftp" => Remote::parse(rest, &shown).map(Location::Remote),
            b"file" => Ok(Location::Local(PathBuf::from(std::ffi::OsString::from_vec(decode(rest, &shown)?)))),
            _ => Err(Error::new(
                Fault::You,
                "unknown-scheme",
                format!("{shown}: scheme `{}` is not known", String::from_utf8_lossy(scheme)),
            )
            .hint("known are ftp:// and file://, and plain local paths")),
        }
    }
}

impl Remote {
    fn parse(rest: &[u8], shown: &str) -> Result<Remote, Error> {
        let wrong = |what: &str| Error::new(Fault::You, "bad-url", format!("{shown}: {what}")).hint("write ftp://host:port/path");
        let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let authority = std::str::from_utf8(authority).map_err(|_| wrong("the host is not text"))?;
        let (login, place) = authority.rsplit_once('@').map_or((None, authority), |(login, place)| (Some(login), place));
        let (host, port) = match place.strip_prefix('[') {
            Some(inside) => {
                let (host, after) = inside.split_once(']').ok_or_else(|| wrong("`[` without `]`"))?;
                (host, after.strip_prefix(':'))
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        let port = match port {
            None => FTP_PORT,
            Some(port) => {
                port.parse().ok().filter(|&port| port != 0).ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?
            }
        };
        let text = |part: &str| -> Result<String, Error> {
            String::from_utf8(decode(part.as_bytes(), shown)?).map_err(|_| wrong("user and password must be text"))
        };
        let (user, password) = match login {
            None => (None, None),
            Some(login) => {
                let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
                (Some(text(user)?), password.map(text).transpose()?)
            }
        };
        let path = decode(path, shown)?;
        if path.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            return Err(wrong("a path in an FTP URL has no line breaks and no zero bytes"));
        }
        let path = if path.is_empty() { b"/".to_vec() } else { path };
        Ok(Remote { user, password, host: host.to_owned(), port, path })
    }

    /// The same server with another path.
    #[must_use]
    pub fn with_path(&self, path: Vec<u8>) -> Remote {
        Remote { path, ..self.clone() }
    }

    /// The last name of the path; empty for the root.
    pub fn name(&self) -> &[u8] {
        last_name(&self.path)
    }
}

/// The part after the last `/`, ignoring one at the end.
pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

impl fmt::Display for Remote {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "ftp://{host}:{}{}", self.port, String::from_utf8_lossy(&self.path))
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
        }
    }
}

fn decode(text: &[u8], shown: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let hex = rest.as_slice().get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).ok_or_else(|| {
                Error::new(Fault::You, "bad-url", format!("{shown}: `%` is not followed by two hexadecimal digits"))
                    .hint("write `%25` for a `%` in a URL")
            })?;
            bytes.push(value);
            rest = rest.as_slice()[2..].iter();
        } else {
            bytes.push(byte);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Remote {
        match Location::parse(OsStr::new(text)) {
            Ok(Location::Remote(remote)) => remote,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn urls_and_paths_are_told_apart() {
        assert_eq!(Location::parse(OsStr::new("a:b/c")), Ok(Location::Local("a:b/c".into())));
        assert_eq!(Location::parse(OsStr::new("file:///x%20y")), Ok(Location::Local("/x y".into())));
        let plain = remote("ftp://dtn2.example.org/data/run%207");
        assert_eq!((plain.host.as_str(), plain.port, &plain.path[..]), ("dtn2.example.org", 21, &b"/data/run 7"[..]));
        let full = remote("ftp://ann:s%40cret@[fe80::1]:2811");
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("ann"), Some("s@cret")));
        assert_eq!((full.host.as_str(), full.port, &full.path[..]), ("fe80::1", 2811, &b"/"[..]));
        assert_eq!(full.to_string(), "ftp://[fe80::1]:2811/", "a password is never printed");
    }

    #[test]
    fn a_wrong_url_is_one_clear_error() {
        for (text, code) in [
            ("http://x/y", "unknown-scheme"),
            ("ftp:///x", "bad-url"),
            ("ftp://h:0/x", "bad-url"),
            ("ftp://h:99999/x", "bad-url"),
            ("ftp://h/%zz", "bad-url"),
            ("ftp://h/a%0d%0aDELE%20b", "bad-url"),
            ("", "empty-path"),
        ] {
            assert_eq!(Location::parse(OsStr::new(text)).map_err(|error| error.code), Err(code), "{text}");
        }
    }
}
