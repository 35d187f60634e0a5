//! Who a client is: by what it logs in at a node that knows its users.

use super::location::{ControlTransport, Remote};
use crate::channels::trust::{ClientKey, GridProxy};
use crate::identity::BEARER;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt;
use std::path::{Path, PathBuf};

/// A bearer token has at most as many bytes: the rest of the line that carries it.
const LONGEST_TOKEN: u64 = 8_000;

/// What a user may be known by; nobody in particular when empty.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// A certificate and its key, for servers that ask for one.
    pub certificate: Option<ClientKey>,
    /// For users whose URL has none; it goes over TLS alone.
    pub password: Option<String>,
    /// Where the bearer token is, for `bearer@host`; found as WLCG's discovery finds it when
    /// absent.
    pub token: Option<PathBuf>,
    /// For `gsiftp://`.
    pub grid: GridProxy,
}

impl fmt::Debug for Credentials {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate)
            .field("token", &self.token)
            .field("grid", &self.grid)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// The user name and the password with which to log in at `remote`.
    ///
    /// # Errors
    /// When a token is wanted and there is none, or it would go in the clear.
    pub(super) fn login(&self, remote: &Remote) -> Result<(String, String), Error> {
        let is_shown = remote.transport == ControlTransport::Gsi
            || (remote.transport == ControlTransport::Ssh && !remote.farline);
        if is_shown {
            // Who it is was shown; GFD.20's word for whoever the server takes that for, and no
            // secret.
            let user = remote.user.clone().unwrap_or_else(|| ":globus-mapping:".to_owned());
            return Ok((user, "dummy".to_owned()));
        }
        let user = remote.user.clone().unwrap_or_else(|| "anonymous".to_owned());
        if user == BEARER && remote.password.is_none() {
            if remote.transport == ControlTransport::Tcp {
                let scheme = if remote.farline { "farlines" } else { "ftps" };
                let message = format!("a token does not go to {} in the clear", remote.host);
                return Err(Error::new(Fault::You, ErrorCode::CannotEncrypt, message)
                    .hint(format!("write {scheme}://{BEARER}@{}", remote.host)));
            }
            return Ok((user, self.find_token()?));
        }
        // To Farline's own it would go out before the server could refuse it in the clear.
        let is_private = remote.transport != ControlTransport::Tcp;
        let named = remote.user.as_ref().filter(|_| is_private).and(self.password.clone());
        let password = remote.password.clone().or(named).unwrap_or_else(|| "farline@".to_owned());
        Ok((user, password))
    }

    /// The token, by WLCG's bearer token discovery (version 1.0) where no file is named.
    fn find_token(&self) -> Result<String, Error> {
        if let Some(path) = &self.token {
            return read_token(path);
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(token) = set("BEARER_TOKEN") {
            return checked(token.trim(), "BEARER_TOKEN");
        }
        if let Some(path) = set("BEARER_TOKEN_FILE") {
            return read_token(Path::new(&path));
        }
        let name = format!("bt_u{}", rustix::process::geteuid().as_raw());
        let folders = set("XDG_RUNTIME_DIR").into_iter().chain(["/tmp".to_owned()]);
        let found = folders.map(|folder| Path::new(&folder).join(&name)).find(|path| path.exists());
        match found {
            Some(path) => read_token(&path),
            None => {
                let message = "there is no bearer token";
                Err(Error::new(Fault::You, ErrorCode::NoToken, message)
                    .hint("put it into BEARER_TOKEN, or name its file in BEARER_TOKEN_FILE"))
            }
        }
    }
}

fn read_token(path: &Path) -> Result<String, Error> {
    let shown = path.display().to_string();
    let wrong = |what: &dyn fmt::Display| {
        Error::new(Fault::You, ErrorCode::NoToken, format!("the token in {shown}: {what}"))
    };
    let meta = std::fs::metadata(path).map_err(|error| wrong(&error))?;
    if !meta.is_file() || meta.len() > LONGEST_TOKEN {
        return Err(wrong(&"this is no file of a token"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    checked(text.trim(), &shown)
}

fn checked(token: &str, from: &str) -> Result<String, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || token.len() as u64 > LONGEST_TOKEN || !token.bytes().all(is_plain) {
        let message = format!("{from} holds no bearer token");
        return Err(Error::new(Fault::You, ErrorCode::NoToken, message));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Location;

    fn remote(text: &str) -> Remote {
        match Location::parse(text.as_ref()) {
            Ok(Location::Remote(remote)) => remote,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn passwords_go_to_whom_a_url_names() {
        let own = Credentials { password: Some("secret".to_owned()), ..Credentials::default() };
        let login = |text: &str| own.login(&remote(text)).expect(text);
        assert_eq!(login("farlines://alice@h/x"), ("alice".into(), "secret".into()));
        assert_eq!(login("farlines://alice:other@h/x"), ("alice".into(), "other".into()));
        assert_eq!(login("farlines://h/x"), ("anonymous".into(), "farline@".into()));
        assert_eq!(login("farline://alice@h/x"), ("alice".into(), "farline@".into()));
    }

    #[test]
    fn a_token_goes_over_tls_alone_and_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let own = Credentials { token: Some(path.clone()), ..Credentials::default() };
        let clear = own.login(&remote("farline://bearer@h/x")).expect_err("in the clear");
        assert_eq!(clear.code, ErrorCode::CannotEncrypt);
        let over_tls = remote("farlines://bearer@h/x");
        assert_eq!(own.login(&over_tls).expect_err("no file").code, ErrorCode::NoToken);
        std::fs::write(&path, "a.b-c.d\n").expect("a file");
        assert_eq!(own.login(&over_tls).expect("a token"), ("bearer".into(), "a.b-c.d".into()));
        std::fs::write(&path, "two\r\nlines").expect("a file");
        assert_eq!(own.login(&over_tls).expect_err("no token").code, ErrorCode::NoToken);
    }
}
