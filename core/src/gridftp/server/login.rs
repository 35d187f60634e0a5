//! USER, PASS and AUTH: who the client is and what it may do.

use super::Output;
use super::ask::{Answer, Ask};
use super::config::{Logins, Rights};
use super::session::ServerSession;
use super::state::{Data, Login, Next, Purpose, Settings};
use crate::units::{Error, ErrorCode, Fault};

/// The user name of who shows a bearer token, which stands in the place of the password.
pub const BEARER: &str = "bearer";

/// Failed logins before the connection is closed (RFC 2577 section 5).
const MAX_FAILURES: u32 = 5;

impl ServerSession {
    pub(super) fn is_logged_in(&self) -> bool {
        self.login.rights.is_some()
    }

    /// Whether the user may write; otherwise the refusal is sent.
    pub(super) fn may_write(&mut self) -> bool {
        let may = self.login.rights == Some(Rights::Write);
        if !may {
            let error = Error::new(
                Fault::Refused,
                ErrorCode::PermissionDenied,
                "This server lets you read, not write.",
            );
            self.fail(&error);
        }
        may
    }

    /// A bearer token in one command.
    pub(super) fn token(&mut self, token: Vec<u8>) {
        if self.begin_login(BEARER.as_bytes().to_vec()) {
            self.password(token);
        }
    }

    pub(super) fn user(&mut self, name: Vec<u8>) {
        let shown = String::from_utf8_lossy(&name).into_owned();
        if self.begin_login(name) {
            self.say(331, format!("Password required for {shown}."));
        }
    }

    /// Whether a user of this name may log in by this connection; otherwise the refusal is sent.
    fn begin_login(&mut self, name: Vec<u8>) -> bool {
        // RFC 959 section 4.1.1: a USER at any time begins the login anew.
        if self.login.rights.take().is_some() {
            self.login.since = self.now;
        }
        let anonymous = is_anonymous(&name);
        let why = match &self.config.logins {
            Logins::Anonymous(_) if !anonymous => "Only anonymous users are let in here.",
            Logins::Asked { anonymous: rights }
                if !(self.config.secure || anonymous && rights.is_some()) =>
            {
                match self.config.gssapi && !self.config.tls {
                    true => "Users log in by GSI alone: gsiftp://, which says AUTH GSSAPI first.",
                    false => "Users log in over TLS alone: say AUTH TLS first.",
                }
            }
            _ => {
                self.login.user = Some(name);
                return true;
            }
        };
        self.login.user = None;
        let shown = String::from_utf8_lossy(&name);
        self.output(Output::LoginRefused(format!("{shown}: {why}")));
        self.refuse(why);
        false
    }

    pub(super) fn password(&mut self, password: Vec<u8>) {
        let Some(user) = self.login.user.take() else {
            return self.say(503, "Send USER first.");
        };
        match self.config.logins {
            Logins::Anonymous(rights) | Logins::Anyone(rights) => self.let_in(rights),
            Logins::Asked { anonymous: Some(rights) } if !self.config.secure => self.let_in(rights),
            Logins::Asked { .. } => self.ask(Ask::Login { user, password }, Purpose::LogIn),
        }
    }

    pub(super) fn login_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::LoggedIn(rights) => self.let_in(*rights),
            // Nobody has looked at what it said.
            Answer::Failed(error) if error.code == ErrorCode::ServerClosing => {
                self.send_away(error);
            }
            Answer::Failed(error) => self.refuse(&error.message),
            other => self.misanswered(other),
        }
    }

    /// Lets a client in that may enter, if there is room.
    fn let_in(&mut self, rights: Rights) {
        self.ask(Ask::Admit, Purpose::Admit(rights));
    }

    pub(super) fn admit_answer(&mut self, rights: Rights, answer: &Answer) {
        match answer {
            Answer::Done => {
                self.login.rights = Some(rights);
                self.login.failures = 0;
                self.say(230, "User logged in.");
            }
            Answer::Failed(error) => self.send_away(error),
            other => self.misanswered(other),
        }
    }

    /// Ends the session, in whose way stands nothing that the client did.
    fn send_away(&mut self, error: &Error) {
        self.say(421, error.message.clone());
        self.close();
    }

    fn refuse(&mut self, why: &str) {
        self.login.failures += 1;
        self.say(530, format!("Login refused: {why}"));
        if self.login.failures >= MAX_FAILURES {
            self.say(421, "Too many failed logins; closing the control connection.");
            self.close();
        }
    }

    pub(super) fn auth(&mut self, mechanism: &str) {
        match mechanism {
            name if self.config.tls && Self::is_tls(name) => {
                self.begin_anew();
                self.say(234, "Proceed with the TLS handshake.");
                let early = std::mem::take(&mut self.early);
                self.output(Output::StartTls { early });
            }
            "GSSAPI" if self.config.gssapi => {
                self.begin_anew();
                self.by_gssapi = true;
                self.say(334, "Using authentication type GSSAPI; ADAT must follow.");
                self.output(Output::StartGssapi);
            }
            _ => self.say(504, format!("AUTH {mechanism} is not offered here.")),
        }
    }

    /// What was said in the clear anybody may have said: the session begins anew, protected.
    fn begin_anew(&mut self) {
        (self.config.tls, self.config.gssapi) = (false, false);
        self.config.secure = true;
        let since = if self.is_logged_in() { self.now } else { self.login.since };
        self.login = Login { since, ..Login::default() };
        self.settings = Settings::default();
        self.next = Next::default();
        self.data = Data::None;
        self.cwd = self.config.home.clone();
        self.upgrading = false;
    }

    /// RFC 4217 section 2: `TLS` and its older spelling.
    pub(super) fn is_tls(mechanism: &str) -> bool {
        matches!(mechanism, "TLS" | "TLS-C")
    }
}

/// Whether this is a name of users without one (RFC 1635).
pub fn is_anonymous(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"anonymous") || name.eq_ignore_ascii_case(b"ftp")
}
