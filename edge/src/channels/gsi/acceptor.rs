//! The acceptor's end of a GSSAPI exchange as a machine of tokens, and what protects lines
//! afterwards.

use super::DataSecurity;
use super::authorities::{Authorities, Peer, Purpose, Refusal, certificates, shown_chain};
use super::credential::Credential;
use super::pipe::{Pipe, read_all, write_all};
use crate::sys::lock::lock;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{ErrorCode, Ssl, SslStream};
use openssl::x509::{X509Name, X509Req};
use std::fmt;
use std::mem;
use std::sync::Arc;

/// Bits of the key that a client delegates to. Elliptic curves would be faster, but are not what
/// every client of grids signs.
const KEY_BITS: u32 = 2048;
/// What a client may send at once: more than any chain of certificates.
const MOST_TOKEN: usize = 128 << 10;

/// The acceptor's end of an exchange.
pub(crate) struct Acceptor {
    tls: SslStream<Pipe>,
    stage: Stage,
    refusal: Refusal,
    authorities: Authorities,
    limited_proxies: bool,
    peer: Option<Peer>,
}

enum Stage {
    Handshake,
    Flag,
    /// A certificate for this key is awaited.
    Delegation(PKey<Private>),
}

/// What a token led to.
pub(crate) enum Step {
    /// This is to be sent, and more is to come.
    More(Vec<u8>),
    /// The client is known.
    Done(Box<GssContext>, Peer, Option<DataSecurity>),
}

impl Acceptor {
    pub(super) fn new(
        own: &Credential,
        authorities: &Authorities,
        limited_proxies: bool,
    ) -> Result<Acceptor, String> {
        let failed = |error: ErrorStack| format!("this node cannot set TLS up: {error}");
        let (context, refusal) = authorities.context(own, Purpose::Client).map_err(failed)?;
        let mut ssl = Ssl::new(&context).map_err(failed)?;
        ssl.set_accept_state();
        let tls = SslStream::new(ssl, Pipe::default()).map_err(failed)?;
        let authorities = authorities.clone();
        Ok(Acceptor {
            tls,
            stage: Stage::Handshake,
            refusal,
            authorities,
            limited_proxies,
            peer: None,
        })
    }

    /// Goes on with a token of the client's. Computes for some milliseconds, a new key for some
    /// hundred, and reads files.
    ///
    /// # Errors
    /// In words for the client, when it is nobody who is taken.
    pub(crate) fn take(mut self, token: &[u8]) -> Result<(Option<Acceptor>, Step), String> {
        if token.len() > MOST_TOKEN {
            return Err("a token is longer than any should be".to_owned());
        }
        self.tls.get_mut().put(token);
        match mem::replace(&mut self.stage, Stage::Flag) {
            Stage::Handshake => self.shake_hands(),
            Stage::Flag => self.read_flag(),
            Stage::Delegation(key) => self.read_delegated(key),
        }
    }

    fn shake_hands(mut self) -> Result<(Option<Acceptor>, Step), String> {
        match self.tls.accept() {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::WANT_READ => {
                self.stage = Stage::Handshake;
                return Ok(self.more());
            }
            Err(error) => {
                let why = lock(&self.refusal).take();
                return Err(why.unwrap_or_else(|| format!("the TLS handshake failed: {error}")));
            }
        }
        let peer = self.authorities.judge(self.tls.ssl())?;
        if peer.is_limited && !self.limited_proxies {
            return Err(format!("{}: limited proxies are not taken here", peer.subject));
        }
        self.peer = Some(peer);
        // Who sent the handshake's last token has nothing to say otherwise.
        if !self.tls.get_ref().has_outgoing() {
            write_all(&mut self.tls, &[0]).map_err(broken)?;
        }
        Ok(self.more())
    }

    fn read_flag(mut self) -> Result<(Option<Acceptor>, Step), String> {
        match &read_all(&mut self.tls).map_err(broken)?[..] {
            [] => Ok(self.more()),
            b"0" => self.done(None),
            b"D" => {
                let failed = |error: ErrorStack| format!("this node cannot make a key: {error}");
                let (key, request) = asked().map_err(failed)?;
                write_all(&mut self.tls, &request).map_err(broken)?;
                self.stage = Stage::Delegation(key);
                Ok(self.more())
            }
            _ => Err("neither D nor 0 came where delegation was to be said".to_owned()),
        }
    }

    fn read_delegated(mut self, key: PKey<Private>) -> Result<(Option<Acceptor>, Step), String> {
        let der = read_all(&mut self.tls).map_err(broken)?;
        // Clients send what they signed, and some its chain too; what is known of that since the
        // handshake was looked at.
        let signed = certificates(&der).unwrap_or_default().into_iter().next();
        let chain = signed.into_iter().chain(shown_chain(self.tls.ssl())).collect();
        match Credential::delegated(chain, key) {
            Some(credential) => self.done(Some(credential)),
            None => Err("what was delegated is no certificate for the key asked for".to_owned()),
        }
    }

    fn more(mut self) -> (Option<Acceptor>, Step) {
        let token = self.tls.get_mut().take();
        (Some(self), Step::More(token))
    }

    fn done(self, delegated: Option<Credential>) -> Result<(Option<Acceptor>, Step), String> {
        let Some(peer) = self.peer else { return Err("the client did not show itself".to_owned()) };
        let data = delegated
            .map(|own| DataSecurity::new(Arc::new(own), self.authorities, peer.subject.clone()));
        Ok((None, Step::Done(Box::new(GssContext(self.tls)), peer, data)))
    }
}

/// A new key, and the request for a certificate of it. The name in it counts for nothing: a proxy's
/// comes of its issuer's.
fn asked() -> Result<(PKey<Private>, Vec<u8>), ErrorStack> {
    let key = PKey::from_rsa(Rsa::generate(KEY_BITS)?)?;
    let mut name = X509Name::builder()?;
    name.append_entry_by_text("CN", "NULL SUBJECT NAME ENTRY")?;
    let mut request = X509Req::builder()?;
    request.set_version(0)?;
    request.set_subject_name(&name.build())?;
    request.set_pubkey(&key)?;
    request.sign(&key, MessageDigest::sha256())?;
    Ok((key, request.build().to_der()?))
}

fn broken(error: openssl::ssl::Error) -> String {
    format!("TLS broke: {error}")
}

/// What protects the lines of a control channel once its exchange is over.
pub(crate) struct GssContext(SslStream<Pipe>);

impl fmt::Debug for GssContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GssContext")
    }
}

impl GssContext {
    /// What a handshake that is over left.
    pub(super) fn over(tls: SslStream<Pipe>) -> GssContext {
        GssContext(tls)
    }

    /// The token that holds `line`.
    ///
    /// # Errors
    /// When TLS is broken.
    pub(crate) fn seal(&mut self, line: &[u8]) -> Result<Vec<u8>, String> {
        write_all(&mut self.0, line).map_err(broken)?;
        Ok(self.0.get_mut().take())
    }

    /// What `token` holds.
    ///
    /// # Errors
    /// When it was changed on the way, or is no token of this exchange.
    pub(crate) fn open(&mut self, token: &[u8]) -> Result<Vec<u8>, String> {
        self.0.get_mut().put(token);
        read_all(&mut self.0).map_err(broken)
    }
}
