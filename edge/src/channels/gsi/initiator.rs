//! The initiator's end of a GSSAPI exchange as a machine of tokens: it finds out who the server is,
//! and delegates.

use super::GssContext;
use super::authorities::{Peer, Purpose, Refusal};
use super::delegate::delegated;
use super::host_name::names;
use super::pipe::{Pipe, read_all, write_all};
use super::user_proxy::UserProxy;
use crate::channels::trust::Fingerprint;
use crate::sys::lock::lock;
use openssl::ssl::{ErrorCode, Ssl, SslStream};

/// Whom a client means to talk to.
#[derive(Clone, Debug)]
pub(crate) struct WantedServer {
    /// Its name, which is to stand in its certificate.
    pub(crate) host: String,
    /// This certificate and no other, whatever stands in it.
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Why a server is not taken for the one that is wanted, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// No authority that is known here vouches for it, or it breaks the protocol.
    Unknown(String),
    /// It is somebody else.
    Other(String),
}

impl From<String> for Distrust {
    fn from(why: String) -> Distrust {
        Distrust::Unknown(why)
    }
}

/// The initiator's end of an exchange.
pub(crate) struct Initiator {
    tls: SslStream<Pipe>,
    stage: Stage,
    refusal: Refusal,
    proxy: UserProxy,
    wanted: WantedServer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    /// The acceptor's byte is awaited.
    Byte,
    /// Its request for a certificate is awaited.
    Request,
    /// All was said.
    Over,
}

impl Initiator {
    /// An exchange at its beginning, in which `proxy` is shown. Reads files.
    ///
    /// # Errors
    /// When OpenSSL cannot be set up.
    pub(crate) fn new(proxy: &UserProxy, wanted: WantedServer) -> Result<Initiator, Distrust> {
        let failed = |error: openssl::error::ErrorStack| format!("TLS cannot be set up: {error}");
        let context = proxy.authorities.context(&proxy.own, Purpose::Server);
        let (context, refusal) = context.map_err(failed)?;
        let mut ssl = Ssl::new(&context).map_err(failed)?;
        ssl.set_connect_state();
        let tls = SslStream::new(ssl, Pipe::default()).map_err(failed)?;
        Ok(Initiator { tls, stage: Stage::Handshake, refusal, proxy: proxy.clone(), wanted })
    }

    /// Goes on with a token of the server's, an empty one to begin with; returns what to say.
    ///
    /// # Errors
    /// When the server is not whom it should be, or breaks the protocol.
    pub(crate) fn take(&mut self, token: &[u8]) -> Result<Vec<u8>, Distrust> {
        self.tls.get_mut().put(token);
        match self.stage {
            Stage::Handshake => self.shake_hands()?,
            Stage::Byte => {
                if read_all(&mut self.tls).map_err(broken)?.len() != 1 {
                    return Err(Distrust::Unknown(
                        "no byte came where one ends the handshake".to_owned(),
                    ));
                }
                self.ask_to_delegate()?;
            }
            Stage::Request => {
                let request = read_all(&mut self.tls).map_err(broken)?;
                if !request.is_empty() {
                    let proxy = delegated(&self.proxy.own, &request)?;
                    write_all(&mut self.tls, &proxy).map_err(broken)?;
                    self.stage = Stage::Over;
                }
            }
            Stage::Over => {
                return Err(Distrust::Unknown("the exchange is over, and it goes on".to_owned()));
            }
        }
        Ok(self.tls.get_mut().take())
    }

    /// What protects lines from now on, when the server says that the exchange is over.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn finish(self) -> Result<GssContext, Distrust> {
        match self.stage {
            Stage::Over => Ok(GssContext::over(self.tls)),
            _ => {
                let why = "the server ended the exchange before it was over";
                Err(Distrust::Unknown(why.to_owned()))
            }
        }
    }

    fn shake_hands(&mut self) -> Result<(), Distrust> {
        match self.tls.connect() {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::WANT_READ => return Ok(()),
            Err(error) => {
                let why = lock(&self.refusal).take();
                let why = why.unwrap_or_else(|| format!("the TLS handshake failed: {error}"));
                return Err(Distrust::Unknown(why));
            }
        }
        let peer = self.proxy.authorities.judge(self.tls.ssl())?;
        self.check(&peer)?;
        // Who sent the handshake's last token hears a byte before it says more.
        match self.tls.get_ref().has_outgoing() {
            true => self.stage = Stage::Byte,
            false => self.ask_to_delegate()?,
        }
        Ok(())
    }

    /// Whether the server is the one that is wanted.
    fn check(&self, peer: &Peer) -> Result<(), Distrust> {
        let WantedServer { host, fingerprint } = &self.wanted;
        let shown = Fingerprint::of(&peer.certificate);
        match fingerprint {
            Some(wanted) if *wanted == shown => Ok(()),
            Some(wanted) => {
                let why = format!("it shows another certificate than {wanted}: {shown}");
                Err(Distrust::Other(why))
            }
            None if names(&peer.certificate, host) => Ok(()),
            None => {
                let why = format!("its certificate is of {}, not of {host}", peer.subject);
                Err(Distrust::Other(why))
            }
        }
    }

    fn ask_to_delegate(&mut self) -> Result<(), String> {
        self.stage = Stage::Request;
        write_all(&mut self.tls, b"D").map_err(broken)
    }
}

fn broken(error: openssl::ssl::Error) -> String {
    format!("TLS broke: {error}")
}
