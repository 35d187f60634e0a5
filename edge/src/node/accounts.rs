//! Who a session is of: what it may do, what it may take, and how its data is known to be its own.

use super::Shared;
use super::config::{Anonymous, Config};
use super::gss_wire::GssClient;
use super::quota::{Quota, QuotaShare};
use crate::channels::gsi::DataSecurity;
use crate::channels::trust::{Fingerprint, NodeCertificate, SessionTls, ShownCertificate};
use crate::identity::{
    Authorization, ClientCertificate, ClientVerifier, FileOwner, Identities, IdentityRights,
    Permissions,
};
use crate::mover::Pace;
use crate::sys::clock::since_1970;
use crate::sys::fs_user::AsUser;
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

/// A session's user.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Nobody's, if the session is anonymous.
    pub(super) name: Option<String>,
    pub(super) access: Authorization,
    /// Sessions that it may have at once.
    pub(super) sessions: Option<usize>,
    /// What of the node's services it may use; where nothing is said, what the node lets everybody.
    pub(super) rights: IdentityRights,
    /// Whether its data may go in the clear.
    pub(super) clear_data: bool,
    /// Holds what all its sessions move to a rate.
    pub(super) pace: Option<Arc<Pace>>,
    /// What it may yet store today.
    pub(super) quota: Option<Arc<Quota>>,
    /// Who came in from where by what, for the log.
    pub(super) login: Option<String>,
    /// Whose its files are on this host.
    owner: Option<FileOwner>,
}

/// What one control connection proved by TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// TLS of this session alone.
    pub(super) tls: Option<SessionTls>,
    certificate: Option<(Fingerprint, ClientCertificate)>,
    /// How its data connections are authenticated, if it came by GSI.
    pub(super) gsi: Option<GsiShown>,
}

/// What a client showed by GSI.
#[derive(Clone, Debug)]
pub(super) struct GsiShown {
    /// With what it delegated; nothing when it did not.
    pub(super) data: Option<DataSecurity>,
}

impl Shown {
    /// TLS of a session, whose data connections have to be known as its own.
    pub(super) fn new(shared: &Shared, own: &NodeCertificate) -> Result<Shown, Error> {
        let Config { tls_resumption, identities, .. } = &shared.config;
        let is_told_apart = *tls_resumption || !identities.is_empty();
        let tls = is_told_apart.then(|| own.for_session()).transpose()?;
        Ok(Shown { tls, certificate: None, gsi: None })
    }

    /// What a client showed by GSI.
    pub(super) fn by_gsi(client: GssClient) -> Shown {
        let GssClient { peer, data } = client;
        let mut shown = Shown { gsi: Some(GsiShown { data }), ..Shown::default() };
        let own = ClientCertificate::of(&peer.certificate).with_attributes(peer.attributes);
        shown.certificate = Some((Fingerprint::of(&peer.certificate), own));
        shown
    }

    /// The client has shown these, and proved to have the key of the first.
    pub(super) fn certificates(&mut self, shown: &[ShownCertificate]) {
        self.certificate =
            shown.first().map(|first| (Fingerprint::of(first), ClientCertificate::of(first)));
    }

    /// The certificate that data connections may show instead of resuming.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.certificate.as_ref().map(|(fingerprint, _)| *fingerprint)
    }
}

impl Account {
    /// Whoever comes without a name.
    pub(super) fn anonymous(shared: &Shared, over_ssh: bool) -> Account {
        let permissions = match shared.config.anonymous {
            _ if over_ssh => Permissions::WRITE,
            Anonymous::None => Permissions::default(),
            Anonymous::Read => Permissions::READ,
            Anonymous::Write => Permissions::WRITE,
        };
        Account {
            name: None,
            access: Authorization::whole(&shared.root, permissions),
            sessions: None,
            rights: IdentityRights::default(),
            clear_data: true,
            pace: None,
            quota: None,
            login: None,
            owner: None,
        }
    }

    /// Whoever says this and has shown that over TLS.
    ///
    /// # Errors
    /// When it is nobody who may come in.
    pub(super) fn log_in(
        shared: &Shared,
        user: &[u8],
        password: &[u8],
        shown: &Shown,
        from: IpAddr,
    ) -> Result<Account, Error> {
        let certificate = shown.certificate.as_ref().map(|(_, certificate)| certificate);
        // A clock before 1970 finds every token not yet good, as it should.
        let now = since_1970().as_secs();
        let admitted =
            shared.config.identities.log_in(user, password, certificate, &shared.issuer_keys, now);
        let admitted = admitted.inspect_err(|error| {
            let user = String::from_utf8_lossy(user);
            shared.notices.say("refused", format_args!("{user} from {from}: {error}"));
        })?;
        let Some(admitted) = admitted else {
            return match shared.config.anonymous {
                Anonymous::None => {
                    let message = "anonymous users may not come in here";
                    let user = String::from_utf8_lossy(user);
                    shared.notices.say("refused", format_args!("{user} from {from}: {message}"));
                    Err(Error::new(Fault::Refused, ErrorCode::LoginRefused, message))
                }
                _ => Ok(Account::anonymous(shared, false)),
            };
        };
        let (name, by) = (admitted.name, admitted.by);
        Ok(Account {
            login: Some(format!("{name} from {from} by {by}")),
            access: Authorization::new(&shared.root, admitted.grants)?,
            sessions: admitted.limits.sessions,
            rights: admitted.rights,
            clear_data: admitted.clear_data,
            owner: admitted.owner,
            quota: shared.quotas.of(&name, &admitted.limits, now),
            pace: admitted.limits.rate.map(|rate| shared.paces.of(&name, rate)),
            name: Some(name),
        })
    }

    /// Makes this thread the owner of its files to the file system until the guard goes, if it has
    /// one.
    ///
    /// # Errors
    /// When this process may not.
    pub(super) fn enter(&self) -> Result<Option<AsUser>, Error> {
        self.owner.as_ref().map(FileOwner::enter).transpose()
    }

    /// Takes this much of what it may store today; nothing where there is no limit.
    ///
    /// # Errors
    /// When it is more than is left, which stands in the log.
    pub(super) fn take(
        &self,
        bytes: u64,
        files: u64,
        shared: &Shared,
    ) -> Result<Option<QuotaShare>, Error> {
        let Some(quota) = &self.quota else { return Ok(None) };
        let taken = quota.take(bytes, files, since_1970().as_secs());
        taken.map(Some).inspect_err(|error| self.say_exceeded(error, shared))
    }

    /// A line in the log where it may store no more today.
    pub(super) fn say_exceeded(&self, error: &Error, shared: &Shared) {
        if let (Some(name), ErrorCode::QuotaExceeded) = (&self.name, error.code) {
            shared.notices.say("quota", format_args!("{name}: {error}"));
        }
    }

    /// # Errors
    /// When data of this session has to be encrypted, and is not.
    pub(super) fn check_data(&self, private: bool) -> Result<(), Error> {
        if private || self.clear_data {
            return Ok(());
        }
        let message = format!(
            "your data goes encrypted here: by PROT P, without {} (globus-url-copy -dcpriv)",
            Setting::NoEncrypt
        );
        Err(Error::new(Fault::Refused, ErrorCode::CannotEncrypt, message))
    }
}

/// One pace for all sessions of an identity.
#[derive(Debug, Default)]
pub(super) struct Paces(Mutex<HashMap<String, Weak<Pace>>>);

impl Paces {
    fn of(&self, name: &str, rate: Rate) -> Arc<Pace> {
        let mut paces = lock(&self.0);
        if let Some(pace) = paces.get(name).and_then(Weak::upgrade) {
            return pace;
        }
        paces.retain(|_, pace| pace.strong_count() > 0);
        let pace = Arc::new(Pace::new(rate));
        paces.insert(name.to_owned(), Arc::downgrade(&pace));
        pace
    }
}

/// `certificate`, which asks clients for theirs where some may come in by it.
pub(super) fn asking(
    certificate: Option<NodeCertificate>,
    identities: &Identities,
) -> Result<Option<NodeCertificate>, Error> {
    let Some(own) = certificate else { return Ok(None) };
    if !identities.wants_certificates() {
        return Ok(Some(own));
    }
    let verifier = ClientVerifier::new(identities.fingerprints(), &identities.authorities)?;
    own.asking(Arc::new(verifier)).map(Some)
}
