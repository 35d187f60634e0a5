//! A session's data channels: how they are made, and what the client wished of them.

use super::Shared;
use super::accounts::{Account, GsiShown, Shown};
use super::adapt::Adapt;
use super::arrival::Arrival;
use super::data_listener::DataListener;
use super::held::Admitted;
use super::known_path::KnownPath;
use super::path_set::PathSet;
use super::running::RunningTransfer;
use super::stores;
use super::tree_state::TreeState;
use crate::channels::driver::{Carries, Driver, Slots};
use crate::channels::key::Key;
use crate::channels::layer::Layer;
use crate::channels::one_port::PortSessions;
use crate::channels::secured::Bound;
use crate::channels::socket::check;
use crate::channels::trust::{NodeCertificate, ServerConfig};
use crate::channels::{Channel, TcpOptions};
use crate::identity::Deed;
use crate::kernelcc::{self, CcGuard, CcRequest};
use crate::mover::{Acceptor, BLOCK_LEN, Integrity, LiveRate, Pace, SecuredPort};
use crate::stores::{DirectIo, LandingOptions, PosixStore, Store};
use crate::sys::fs_user::as_service;
use crate::sys::pacing_limits::PacingLimits;
use crate::sys::pool::Slot;
use farline_core::congestion::ControlName;
use farline_core::gridftp::{DataAuthentication, Pathname};
use farline_core::transfer::{AttributeSet, DigestAlgorithm, StoreMedium};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Setting, Span};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Listeners, channels and staging of one session.
pub(super) struct DataPlane {
    pub(super) shared: Arc<Shared>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Whether the session has the rights of its own user.
    over_ssh: bool,
    /// Where its data comes in, if control and data share the node's one port.
    pub(super) one_port: Option<Arc<PortSessions>>,
    /// What the node shows under TLS in this session.
    certificate: Option<NodeCertificate>,
    account: Account,
    /// What its control connection proved by TLS.
    shown: Shown,
    pub(super) acceptor: Option<Acceptor>,
    /// In its place where connections prove whose they are by GSI.
    pub(super) gsi_port: Option<SecuredPort>,
    /// Whether one of the two was closed since nothing used it.
    pub(super) is_port_over: bool,
    /// Why the last connection that came was closed, where that was for want of room.
    pub(super) no_room: Arc<Mutex<Option<Error>>>,
    /// Whose they have to be, in a session by GSI.
    pub(super) data_authentication: DataAuthentication,
    /// Whether data connections are under TLS: `PROT P`.
    pub(super) private: bool,
    /// In place of `acceptor` once the client gave a key.
    pub(super) listener: Option<DataListener>,
    pub(super) targets: Vec<SocketAddr>,
    pub(super) channels: Vec<Box<dyn Channel>>,
    pub(super) slots: Vec<Slot>,
    pub(super) options: TcpOptions,
    /// The congestion control that was loaded for this session.
    loaded: Option<CcGuard>,
    /// The booked rate that this session's sender holds, and the control that holds it over TCP.
    pub(super) rate: Option<(Admitted, Option<CcGuard>)>,
    /// The path's round trip when the client came; zero where nobody knows.
    pub(super) rtt: Span,
    pub(super) tree: TreeState,
    /// How trees are guarded, and where they come from, as the client said.
    pub(super) integrity: Integrity,
    pub(super) source: [u8; 32],
    /// What trees come from and go to instead of the node's files, and what the one in use is.
    store: Option<Arc<dyn Store>>,
    pub(super) medium: StoreMedium,
    /// The rate that the client said, which it may change while this session sends.
    limit: LiveRate,
    /// Holds what this session sends to a rate.
    pace: Option<Arc<Pace>>,
    /// What data connections are made by, where a client chose another than the usual one.
    pub(super) driver: Option<Arc<Driver>>,
    /// What is known of the path to the client, once something was sent.
    pub(super) path: Option<KnownPath>,
    /// Whether the client holds what it sends to a rate of its own choice (M-6).
    pub(super) is_client_limited: bool,
    /// Whether each channel carries what this session sends in ascending order (O-3).
    pub(super) in_order: bool,
    /// What the client holds of the next tree data that it retrieves, besides what REST says
    ///
    pub(super) held_there: ByteRanges,
    /// What the client does not want of the trees that it retrieves (T-10).
    pub(super) left: PathSet,
    /// What it wants of the folders that it retrieves, where that is not all (T-13).
    pub(super) only: PathSet,
    /// Whether the client is told what is left out of a tree (O-4).
    pub(super) names_omissions: bool,
    /// Whether what does not land of a tree is named to the client, and the rest lands (O-5).
    pub(super) names_unlanded: bool,
    /// Whether each file of a tree lands when it is whole, and not all at the end.
    pub(super) lands_whole: bool,
    /// The longest block of a tree (T-12); 1 MiB whatever its size where none is agreed.
    pub(super) longest_block: Option<Bytes>,
    /// What of trees travels besides content, permissions and times (T-11).
    pub(super) attributes: AttributeSet,
    /// How what this session replaces is kept: a suffix, and a folder unless next to it.
    pub(super) backup: Option<(Vec<u8>, Option<Pathname>)>,
    /// What may change by itself of what this session sends.
    pub(super) adapt: Adapt,
    /// What paced the trees of this session.
    pub(super) struck: Arc<PacingLimits>,
}

impl DataPlane {
    /// One of a session whose client may change `limit` while it sends.
    pub(super) fn new(
        shared: Arc<Shared>,
        arrival: Arrival,
        shown: Shown,
        limit: LiveRate,
    ) -> DataPlane {
        let Arrival { local, peer, over_ssh, rtt, one_port, certificate } = arrival;
        let account = Account::anonymous(&shared, over_ssh);
        let tree = TreeState::default();
        let options = TcpOptions::default();
        let [left, only] = [(); 2].map(|()| PathSet::new(shared.lists.share()));
        DataPlane {
            shared,
            local,
            peer,
            over_ssh,
            one_port,
            certificate,
            account,
            shown,
            acceptor: None,
            gsi_port: None,
            is_port_over: false,
            no_room: Arc::default(),
            data_authentication: DataAuthentication::Own,
            private: false,
            listener: None,
            targets: Vec::new(),
            channels: Vec::new(),
            slots: Vec::new(),
            options,
            loaded: None,
            rate: None,
            rtt,
            tree,
            integrity: Integrity { digests: Some(DigestAlgorithm::Blake3), ..Integrity::default() },
            source: [0; 32],
            store: None,
            medium: StoreMedium::default(),
            limit,
            pace: None,
            driver: None,
            path: None,
            is_client_limited: false,
            in_order: false,
            held_there: ByteRanges::new(),
            left,
            only,
            names_omissions: false,
            names_unlanded: false,
            lands_whole: false,
            longest_block: None,
            attributes: AttributeSet::default(),
            backup: None,
            adapt: Adapt::default(),
            struck: Arc::default(),
        }
    }

    /// Becomes the session of whoever says this, from its beginning.
    ///
    /// # Errors
    /// When it is nobody who may come in.
    pub(super) fn log_in(&mut self, user: &[u8], password: &[u8]) -> Result<(), Error> {
        let Self { local, peer, over_ssh, rtt, .. } = *self;
        let (one_port, certificate) = (self.one_port.clone(), self.certificate.clone());
        let from = self.client_ip();
        let account = Account::log_in(&self.shared, user, password, &self.shown, from)?;
        // Nothing of another user's stays, but how data is to be protected: a client that was told
        // PROT P is its own would send what the node takes for clear (RFC 4217 section 9).
        let shown = std::mem::take(&mut self.shown);
        let (private, data_authentication) = (self.private, self.data_authentication.clone());
        *self = DataPlane {
            account,
            private,
            data_authentication,
            ..DataPlane::new(
                Arc::clone(&self.shared),
                Arrival { local, peer, over_ssh, rtt, one_port, certificate },
                shown,
                self.limit.clone(),
            )
        };
        Ok(())
    }

    /// Whose session it is.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// How a data connection of a client without a key is known to be its own (P-5): by what may
    /// it show instead of resuming the control connection's TLS. Of nobody's it may not be known.
    pub(super) fn bound(&self) -> Option<Bound> {
        let is_known = self.account.name.is_some() || self.shared.config.tls_resumption;
        is_known.then(|| self.shown.fingerprint())
    }

    /// What the client showed, if it came by GSI.
    pub(super) fn by_gsi(&self) -> Option<&GsiShown> {
        self.shown.gsi.as_ref()
    }

    /// Closes what is open; a listener and the client's addresses stay good.
    pub(super) fn close_channels(&mut self) {
        self.channels.clear();
    }

    /// Closes what is open, and what was arranged for a transfer that is not to be.
    pub(super) fn close_data(&mut self) {
        self.channels.clear();
        self.targets.clear();
        // Who connected already, or is about to, hears that nobody is there.
        (self.acceptor, self.gsi_port) = (None, None);
        if let Some(listener) = &self.listener {
            listener.clear();
        }
    }

    /// Takes a channel of the driver `name` that the client offers; returns what to tell it (V-9,
    /// V-10).
    pub(super) fn take_channel(&mut self, name: &str, offer: &str) -> Result<String, Error> {
        let none = || {
            Error::new(Fault::You, ErrorCode::Unsupported, format!("there is no driver `{name}`"))
        };
        let driver = Arc::clone(self.shared.drivers.find(name).ok_or_else(none)?);
        let (ip, slots) = (self.local.ip().to_canonical(), self.slot_terms());
        self.listener_for(&driver)?.take(&driver, ip, slots, offer)
    }

    /// The session's listener, where channels of `driver` may come in: never in the place of
    /// encrypted ones (V-2).
    pub(super) fn listener_for(&mut self, driver: &Driver) -> Result<&mut DataListener, Error> {
        let can = driver.capabilities;
        let is_private = self.private && !can.encrypted && can.carries != Carries::OrderedBytes;
        self.listener.as_mut().filter(|_| !is_private).ok_or_else(|| {
            let title = driver.title;
            let message = match can.carries {
                Carries::OrderedBytes => format!("{title} needs a session with a key"),
                Carries::RegisteredSlots => format!(
                    "{title} needs a session with a key and without PROT P: nothing encrypts it"
                ),
            };
            Error::new(Fault::Refused, ErrorCode::CannotEncrypt, message)
        })
    }

    /// What a channel of registered slots may take of the pool.
    pub(super) fn slot_terms(&self) -> Slots {
        let begin = self.staging_slots() / 2;
        // A pool that may not grow has no more to advertise.
        let most = self.shared.config.staging.map(|_| begin);
        Slots { slot_len: Bytes(BLOCK_LEN as u64), begin, most }
    }

    /// Encrypts data connections from now on, or no more; the key must be given again (K-2).
    pub(super) fn protect(&mut self, private: bool) -> Result<(), Error> {
        if self.by_gsi().is_some() {
            if private {
                self.check_private()?;
            }
            self.private = private;
            self.close_data();
            return Ok(());
        }
        if private && self.certificate.is_none() {
            return Err(Error::new(
                Fault::There,
                ErrorCode::Unsupported,
                "this node has no key for TLS",
            ));
        }
        self.private = private;
        self.channels.clear();
        self.listener = None;
        Ok(())
    }

    /// What data connections are encrypted with, if they are.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        let own = self.shown.tls.as_ref().map(|tls| &tls.data);
        let of_node = self.certificate.as_ref().map(|certificate| &certificate.config);
        own.or(of_node).filter(|_| self.private && self.by_gsi().is_none()).cloned()
    }

    /// What stands over data connections with a key, if they are encrypted.
    pub(super) fn layer(&self) -> Option<(Arc<dyn Layer>, Arc<ServerConfig>)> {
        let layer = Arc::clone(self.shared.drivers.encrypting_layer()?.layer()?);
        self.tls().map(|config| (layer, config))
    }

    /// Farline's own options.
    pub(super) fn set_option(&mut self, name: &str, value: &str) -> Result<(), Error> {
        match name {
            "congestion" => {
                // Only names that Farline knows: a client may not have this host load modules of
                // its choice. What the kernel has is asked of it.
                let cannot = |error: Error| {
                    error.while_doing(format!("this node cannot use congestion control `{value}`"))
                };
                let asked: ControlName = value.parse().map_err(cannot)?;
                if asked.holds_rates() {
                    let message = "it goes with a rate that is admitted: rate=BITS,CHANNELS";
                    return Err(cannot(Error::new(Fault::You, ErrorCode::Unsupported, message)));
                }
                if asked.algorithm().is_some() && !self.may_load(value) {
                    let who = format_args!("{} asked for {value}", self.client_ip());
                    self.shared.notices.say("allow_congestion", who);
                    let message = "it is not there, and this node loads none for its clients";
                    let error =
                        Error::new(Fault::Refused, ErrorCode::CongestionCapability, message);
                    return Err(cannot(
                        error.hint(format!("its operator can: {}", Setting::AllowCongestion)),
                    ));
                }
                let obtain =
                    |_| as_service(|| kernelcc::obtain(&CcRequest::new(asked))).map_err(cannot);
                let held = asked.algorithm().map(obtain).transpose()?;
                let name = held.as_ref().map_or(asked, |held| held.name);
                let options = TcpOptions { congestion: Some(name), ..self.options.clone() };
                check(&options).map_err(|error| {
                    let why = match error.kind() {
                        ErrorKind::NotFound => "its kernel has none of that name".to_owned(),
                        ErrorKind::PermissionDenied => {
                            "its kernel has it for processes with CAP_NET_ADMIN only".to_owned()
                        }
                        _ => error.to_string(),
                    };
                    Error::new(
                        Fault::You,
                        ErrorCode::UnknownCongestion,
                        format!("this node cannot use congestion control `{value}`: {why}"),
                    )
                })?;
                (self.options, self.loaded) = (options, held);
                Ok(())
            }
            "check" => {
                // Clause I-7: a pass begins so, over channels that are all new.
                self.channels.clear();
                self.held_there = ByteRanges::new();
                set(&mut self.integrity.checks, value, "crc32c")
            }
            "digest" => {
                self.integrity.digests = match DigestAlgorithm::named(value) {
                    None if value != "none" => {
                        return Err(Error::new(
                            Fault::You,
                            ErrorCode::Unsupported,
                            format!("`{value}` is not offered; crc64nvme, blake3 and none are"),
                        ));
                    }
                    algorithm => algorithm,
                };
                Ok(())
            }
            "zeros" => set(&mut self.integrity.short_zeros, value, "short"),
            "source" => {
                let source = blake3::Hash::from_hex(value);
                self.source = *source
                    .map_err(|_| {
                        Error::new(
                            Fault::You,
                            ErrorCode::Rejected,
                            "a source is 64 hexadecimal digits",
                        )
                    })?
                    .as_bytes();
                Ok(())
            }
            "key" if self.by_gsi().is_some() => Err(Error::new(
                Fault::You,
                ErrorCode::Unsupported,
                "data connections of a session by GSI are authenticated by DCAU, not by a key",
            )),
            "key" => {
                let key = Key::from_hex(value).ok_or_else(|| {
                    Error::new(Fault::You, ErrorCode::BadKey, "a key is 64 hexadecimal digits")
                })?;
                self.channels.clear();
                self.targets.clear();
                self.acceptor = None;
                let (refused, room) = (self.refused_connections(), self.room());
                let key = (key, self.client_ip());
                self.listener = Some(self.shared.listeners.open(key, self.layer(), refused, room));
                Ok(())
            }
            "order" => match value {
                "ascending" | "any" => {
                    self.in_order = value == "ascending";
                    Ok(())
                }
                _ => Err(Error::new(
                    Fault::You,
                    ErrorCode::Unsupported,
                    format!("`{value}` is not offered; ascending and any are"),
                )),
            },
            "adapt" => {
                self.adapt = Adapt::parse(value)?;
                Ok(())
            }
            "held" => self.hold_there(value),
            "rate" => self.hold_rate(value),
            "attributes" => {
                self.attributes = AttributeSet::parse(value).ok_or_else(|| {
                    let message = format!("`{value}` is no list of attributes that is offered");
                    Error::new(Fault::You, ErrorCode::Unsupported, message)
                })?;
                Ok(())
            }
            "backup" => self.keep_replaced(value),
            "leave" => self.leave(value),
            "only" => self.take_only(value),
            "omitted" => set(&mut self.names_omissions, value, "named"),
            "unlanded" => set(&mut self.names_unlanded, value, "named"),
            "block" => self.agree_block(value),
            "landing" => set(&mut self.lands_whole, value, "whole"),
            "limit" => {
                let above = self.account.pace.clone();
                let pace = || Arc::new(Pace::following(self.limit.clone()).below(above));
                self.pace = Pace::parse(value)?.map(|_| pace());
                self.limit.heed(value)?;
                Ok(())
            }
            "store" => {
                (self.store, self.medium) = stores::choose(&self.shared, value)?;
                Ok(())
            }
            _ => Err(Error::new(
                Fault::You,
                ErrorCode::Unsupported,
                format!("there is no option `{name}`"),
            )),
        }
    }

    /// Whether the kernel has this control, or it may be loaded for this client.
    fn may_load(&self, control: &str) -> bool {
        self.account.rights.allow_congestion.unwrap_or(self.shared.config.allow_congestion)
            || self.over_ssh
            || kernelcc::available().iter().any(|there| there == control)
    }

    /// Makes data connections by another driver from the next passive address on (V-1).
    pub(super) fn choose_driver(&mut self, name: &str) -> Result<(), Error> {
        let usual = self.shared.drivers.default_channel();
        let is_usual = usual.is_some_and(|driver| driver.name == name);
        self.driver = self.shared.drivers.find(name).filter(|_| !is_usual).map(Arc::clone);
        self.channels.clear();
        Ok(())
    }

    /// Checked blocks are for trees (clause I-1).
    pub(super) fn integrity_of(&self, run: &RunningTransfer<'_>) -> Integrity {
        if run.request.module.is_some() { self.integrity } else { Integrity::default() }
    }

    pub(super) fn tree(&mut self) -> &mut TreeState {
        &mut self.tree
    }

    /// What trees come from and go to.
    pub(super) fn tree_store(&self) -> Arc<dyn Store> {
        match &self.store {
            Some(store) => Arc::clone(store),
            None => {
                let root = Arc::clone(self.account.access.root());
                Arc::new(PosixStore::new(root, DirectIo::default()).within(self.file_limit()))
            }
        }
    }

    /// How a tree lands, by what the client is told of it and asked for.
    pub(super) fn landing_options(&self) -> LandingOptions {
        // Who does not hear of what is refused must not take the rest for all.
        LandingOptions {
            is_lenient: self.names_unlanded,
            attributes: self.attributes,
            // Over ssh the client is who this process is.
            may_own: self.over_ssh || self.shared.config.allow_owner,
            ..LandingOptions::lenient(self.lands_whole)
        }
    }

    /// What holds this session's sending to a rate.
    pub(super) fn pace(&self) -> Option<&Arc<Pace>> {
        self.pace.as_ref().or(self.account.pace.as_ref())
    }

    /// What holds what comes to a rate.
    pub(super) fn receive_pace(&self) -> Option<&Arc<Pace>> {
        self.account.pace.as_ref()
    }

    /// # Errors
    /// When the session may not do that to `path`; of another store than the node's files, to all
    /// of them.
    pub(super) fn check(&self, deed: Deed, path: &Pathname) -> Result<(), Error> {
        match self.store {
            Some(_) => self.account.access.check(deed, &Pathname::root()),
            None if deed == Deed::Create => self.account.access.check_store(path),
            None => self.account.access.check(deed, path),
        }
    }

    /// Whether trees come from and go to the node's files.
    pub(super) fn is_of_files(&self) -> bool {
        self.store.is_none()
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// Switches `what` on by its `name`, or off by `none`.
fn set(what: &mut bool, value: &str, name: &str) -> Result<(), Error> {
    if value != name && value != "none" {
        return Err(Error::new(
            Fault::You,
            ErrorCode::Unsupported,
            format!("`{value}` is not offered; {name} and none are"),
        ));
    }
    *what = value == name;
    Ok(())
}
