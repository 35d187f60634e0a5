//! Whom a grid trusts: a folder of authorities, `HASH.0`, with their revocation lists, `HASH.r0`,
//! and signing policies, `HASH.signing_policy`, where HASH is OpenSSL's of the subject; and what
//! becomes of a peer's chain there.

use super::credential::Credential;
use super::policy;
use super::proxy::kind_of;
use super::revocations::has_no_list;
use super::voms;
use crate::channels::trust::{ShownCertificate, subject_of_certificate};
use crate::sys::lock::lock;
use farline_core::gridftp::ProxyKind;
use farline_core::units::{Error, ErrorCode, Fault};
use openssl::error::ErrorStack;
use openssl::ssl::{
    SslContext, SslContextBuilder, SslFiletype, SslMethod, SslOptions, SslRef, SslSessionCacheMode,
    SslVerifyMode, SslVersion,
};
use openssl::stack::Stack;
use openssl::x509::store::{X509Lookup, X509Store, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509PurposeId, X509Ref, X509StoreContext, X509VerifyResult};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// `X509_V_ERR_UNABLE_TO_GET_CRL` of OpenSSL, which the crate has no name for.
const NO_REVOCATION_LIST: i32 = 3;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Authorities {
    folder: PathBuf,
    /// The same as OpenSSL wants it.
    name: String,
}

/// Who a peer turned out to be.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Of the certificate that is no proxy: `/O=Site/CN=alice`.
    pub(crate) subject: String,
    /// That certificate.
    pub(crate) certificate: ShownCertificate,
    /// Whether a proxy in the chain is a limited one.
    pub(crate) is_limited: bool,
    /// What servers of virtual organisations say of it: `/vo/group/Role=writer`.
    pub(crate) attributes: Vec<String>,
    /// Why what stands in a proxy of that does not count.
    pub(crate) refused_attributes: Option<String>,
}

/// What an end of a connection is to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// That it may be a TLS client.
    Client,
    /// That it may be a TLS server.
    Server,
    /// Nothing more than who it is: on a data connection either end may be the TLS server.
    Anything,
}

/// Why a peer's chain was refused, for whoever asks after the handshake.
pub(super) type Refusal = Arc<Mutex<Option<String>>>;

impl Authorities {
    /// # Errors
    /// When the folder cannot be read, or has no authority.
    pub(super) fn open(folder: PathBuf) -> Result<Authorities, Error> {
        let wrong = |what: String| {
            let message = format!("{}: {what}", folder.display());
            Error::new(Fault::You, ErrorCode::BadCertificate, message).hint(
                "certificates of authorities are wanted by OpenSSL's hash, as 1f2e3d4c.0 (openssl rehash makes links)",
            )
        };
        let entries = std::fs::read_dir(&folder).map_err(|error| wrong(error.to_string()))?;
        let is_authority = |name: &Path| name.extension().is_some_and(|extension| extension == "0");
        if !entries.flatten().any(|entry| is_authority(Path::new(&entry.file_name()))) {
            return Err(wrong("no authority is in it".to_owned()));
        }
        match folder.to_str().map(str::to_owned) {
            Some(name) => Ok(Authorities { folder, name }),
            None => Err(wrong("its name is no UTF-8".to_owned())),
        }
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// TLS that shows `own` and takes peers whom an authority of the folder vouches for. It is made
    /// anew for each connection, so that what changes in the folder counts at once; why a peer is
    /// refused is told by the second.
    pub(super) fn context(
        &self,
        own: &Credential,
        purpose: Purpose,
    ) -> Result<(SslContext, Refusal), ErrorStack> {
        let mut builder = SslContextBuilder::new(SslMethod::tls())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        own.show(&mut builder)?;
        // A connection that goes on from another brings no chain to look at.
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_num_tickets(0)?;
        builder.set_options(SslOptions::NO_TICKET | SslOptions::NO_RENEGOTIATION);
        builder.set_cert_store(self.store(X509VerifyFlags::empty())?);
        let flags = X509VerifyFlags::ALLOW_PROXY_CERTS
            | X509VerifyFlags::CRL_CHECK
            | X509VerifyFlags::CRL_CHECK_ALL;
        builder.verify_param_mut().set_flags(flags)?;
        builder.verify_param_mut().set_purpose(match purpose {
            Purpose::Client => X509PurposeId::SSL_CLIENT,
            Purpose::Server => X509PurposeId::SSL_SERVER,
            Purpose::Anything => X509PurposeId::ANY,
        })?;
        let refusal = Refusal::default();
        let (told, folder) = (Arc::clone(&refusal), self.folder.clone());
        let mode = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
        builder.set_verify_callback(mode, move |is_good, context| {
            let error = context.error();
            if is_good {
                return true;
            }
            let mut why = error.error_string().to_owned();
            // An authority need not publish what it took back; when it does, that is heeded.
            if error.as_raw() == NO_REVOCATION_LIST
                && let Some(certificate) = context.current_cert()
            {
                match has_no_list(&folder, certificate) {
                    Ok(()) => {
                        context.set_error(X509VerifyResult::OK);
                        return true;
                    }
                    Err(unreadable) => why = unreadable,
                }
            }
            let whose = context.current_cert().map(shown).unwrap_or_default();
            *lock(&told) = Some(format!("{whose}: {why}"));
            false
        });
        Ok((builder.build(), refusal))
    }

    fn store(&self, flags: X509VerifyFlags) -> Result<X509Store, ErrorStack> {
        let mut builder = X509StoreBuilder::new()?;
        builder.set_flags(flags)?;
        let lookup = builder.add_lookup(X509Lookup::hash_dir())?;
        lookup.add_dir(&self.name, SslFiletype::PEM)?;
        Ok(builder.build())
    }

    /// Who the peer is whose handshake is over.
    ///
    /// # Errors
    /// In words, when a proxy of its chain is none that is taken, or an authority signed a name
    /// that it may not sign.
    pub(super) fn judge(&self, tls: &SslRef) -> Result<Peer, String> {
        let chain: Vec<&X509Ref> = match tls.verified_chain() {
            Some(chain) => chain.iter().collect(),
            None => return Err("no certificate was shown".to_owned()),
        };
        let (mut is_limited, mut extension) = (false, None);
        for (at, certificate) in chain.iter().enumerate() {
            let der = certificate.to_der().map_err(|error| error.to_string())?;
            let unreadable = || format!("{}: it cannot be read", shown(certificate));
            let kind = kind_of(&der).ok_or_else(unreadable)?;
            if kind != ProxyKind::EndEntity && extension.is_none() {
                extension = voms::extension_of(&der);
            }
            match kind {
                ProxyKind::Full => {}
                ProxyKind::Limited => is_limited = true,
                ProxyKind::Restricted => {
                    let whose = shown(certificate);
                    return Err(format!("{whose}: a proxy with a policy that is not known here"));
                }
                ProxyKind::EndEntity => {
                    self.check_policies(&chain[at..])?;
                    let subject = subject_of_certificate(&der).ok_or_else(unreadable)?;
                    let servers = voms::Servers {
                        vouched_for: &|server, above| self.vouched_for(server, above),
                        known: self.folder.with_file_name("vomsdir"),
                    };
                    let read = extension
                        .as_ref()
                        .map(|value| voms::attributes(value, certificate, &servers));
                    let (attributes, refused_attributes) = match read {
                        Some(Ok(attributes)) => (attributes, None),
                        Some(Err(why)) => (Vec::new(), Some(why)),
                        None => (Vec::new(), None),
                    };
                    let certificate = ShownCertificate::from(der);
                    return Ok(Peer {
                        subject,
                        certificate,
                        is_limited,
                        attributes,
                        refused_attributes,
                    });
                }
            }
        }
        Err("its chain is of proxies alone".to_owned())
    }

    /// The chain from `certificate`, with what lies next to it, to an authority of the folder.
    ///
    /// # Errors
    /// In words, when nobody vouches for it, or an authority took it back.
    pub(super) fn vouched_for(
        &self,
        certificate: &X509,
        others: &[X509],
    ) -> Result<Vec<X509>, String> {
        let failed = |error: ErrorStack| error.to_string();
        let mut chain = Stack::new().map_err(failed)?;
        others.iter().try_for_each(|other| chain.push(other.clone())).map_err(failed)?;
        let mut context = X509StoreContext::new().map_err(failed)?;
        let mut verify = |certificate: &X509, flags| {
            let store = self.store(flags)?;
            context.init(&store, certificate, &chain, |context| {
                let is_good = context.verify_cert()?;
                let found = context.chain().map(|chain| chain.iter().map(ToOwned::to_owned));
                Ok((is_good, context.error(), found.map(Iterator::collect::<Vec<X509>>)))
            })
        };
        let found = match verify(certificate, X509VerifyFlags::empty()).map_err(failed)? {
            (true, _, Some(found)) => found,
            (_, why, _) => return Err(format!("{}: {}", shown(certificate), why.error_string())),
        };
        // Each authority's list by itself, as with whoever connects: one need not publish what it
        // took back, and another of the same chain may.
        for one in &found {
            let (is_current, why, _) = verify(one, X509VerifyFlags::CRL_CHECK).map_err(failed)?;
            let why = match (is_current, why.as_raw()) {
                (true, _) => Ok(()),
                (false, NO_REVOCATION_LIST) => has_no_list(&self.folder, one),
                (false, _) => Err(why.error_string().to_owned()),
            };
            why.map_err(|why| format!("{}: {why}", shown(one)))?;
        }
        self.check_policies(&found.iter().map(|one| &**one).collect::<Vec<_>>())?;
        Ok(found)
    }

    /// Whether each authority of `chain`, which begins with no proxy, may sign what is below it.
    fn check_policies(&self, chain: &[&X509Ref]) -> Result<(), String> {
        for pair in chain.windows(2) {
            let [signed, authority] = pair else { continue };
            let (subject, issuer) = (shown(signed), shown(authority));
            let name = format!("{:08x}.signing_policy", authority.subject_name_hash());
            let text = std::fs::read_to_string(self.folder.join(&name))
                .map_err(|error| format!("{issuer}: its signing policy {name}: {error}"))?;
            if !policy::allows(&text, &issuer, &subject) {
                return Err(format!("{subject}: {issuer} may not sign that name, by {name}"));
            }
        }
        Ok(())
    }
}

/// A certificate's subject, for people and for policies.
fn shown(certificate: &X509Ref) -> String {
    let der = certificate.to_der().ok();
    der.and_then(|der| subject_of_certificate(&der)).unwrap_or_else(|| "a certificate".to_owned())
}

/// What a peer showed, without its authority, of which everybody has a copy.
pub(super) fn shown_chain(tls: &SslRef) -> Vec<X509> {
    let chain = tls.verified_chain().into_iter().flatten().map(ToOwned::to_owned);
    chain.filter(|certificate| certificate.issued(certificate) != X509VerifyResult::OK).collect()
}

/// The certificates of `der`, one after the other; nothing when that is not all.
pub(super) fn certificates(mut der: &[u8]) -> Option<Vec<X509>> {
    let mut chain = Vec::new();
    while !der.is_empty() {
        let (rest, _) = x509_parser::parse_x509_certificate(der).ok()?;
        chain.push(X509::from_der(&der[..der.len() - rest.len()]).ok()?);
        der = rest;
    }
    Some(chain)
}
