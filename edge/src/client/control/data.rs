//! How a session's data connections are made: by which driver or through ssh, under which key, and
//! encrypted or not.

use super::{Control, closed};
use crate::channels::driver::{Dialer, Driver, Offered, Session};
use crate::channels::gsi::DataSecurity;
use crate::channels::key::Key;
use crate::channels::trust::{ClientConfig, ControlTls, Fingerprint, pinned};
use crate::channels::{Channel, Stack, TcpOptions};
use crate::client::early::{self, Agreed};
use crate::client::ssh::Ssh;
use farline_core::copy::farline_option;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{
    Command, CommandOptions as Opts, DataAuthentication, Mode, Protection, Site,
};
use farline_core::units::Setting::NoEncrypt;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::Arc;

/// What `PBSZ` says of the longest record: TLS has its own, and servers want a number.
const PROTECTION_BUFFER: u64 = 1 << 20;

impl Control {
    /// Asks for data connections to be encrypted, or not (P-1).
    pub(super) fn protect(&mut self, level: Protection) {
        let ask = |command| Request::ToFarline(Box::new(Request::Exec(command)));
        self.try_request(ask(Command::ProtectionBuffer(0)));
        self.protected = Some(self.try_request(ask(Command::Protection(level))));
    }

    /// Has data connections of a session by GSI encrypted, or only shown whose they are (GFD.20,
    /// section 3): [`Self::data_security`] learns whether the server can.
    pub(in crate::client) fn protect_grid(&mut self, is_private: bool) {
        let Some(grid) = self.grid.take() else { return };
        self.grid = Some(grid.with(None, is_private));
        if is_private {
            self.request_protection(Protection::Private);
        }
    }

    fn request_protection(&mut self, level: Protection) {
        self.try_request(Request::Exec(Command::ProtectionBuffer(PROTECTION_BUFFER)));
        self.protected = Some(self.try_request(Request::Exec(Command::Protection(level))));
    }

    /// Has data connections of a session by GSI belong to whoever connects: what another server,
    /// which knows nothing of proxies, is to connect to.
    ///
    /// # Errors
    /// When the server does not allow it.
    pub(in crate::client) async fn unprotect_grid(&mut self) -> Result<(), Error> {
        self.grid = None;
        let none = Command::DataAuthentication(DataAuthentication::None);
        let asked = self.request(Request::Exec(none));
        self.done(asked).await.map(drop)
    }

    /// How data connections show whose they are, in a session by GSI.
    ///
    /// # Errors
    /// When they were to be encrypted, and the server cannot.
    pub(in crate::client) async fn data_security(&mut self) -> Result<Option<DataSecurity>, Error> {
        if self.grid.is_some()
            && let Some(asked) = self.protected.take()
        {
            self.done(asked).await.map_err(|error| {
                let doing = format!("{} cannot encrypt data", self.server);
                Error { code: ErrorCode::CannotEncrypt, ..error.while_doing(doing) }
                    .hint(format!("let it go in the clear with {NoEncrypt}"))
            })?;
        }
        Ok(self.grid.clone())
    }

    /// Gives a fresh key (K-1, K-2): a server that does not know keys says so, and data connections
    /// are made as ever.
    pub(super) fn offer_key(&mut self) -> Result<(), Error> {
        let key = Key::random()
            .map_err(|error| Error::new(Fault::Here, ErrorCode::NoRandomness, error.to_string()))?;
        let offer = Request::ToFarline(Box::new(farline_option("key", &key.to_hex())));
        self.offered = Some(self.try_request(offer));
        if let Some(early) = &mut self.early {
            let tls = self.line.as_ref().and_then(|line| line.tls.as_ref());
            let shown = tls.and_then(ControlTls::certificate);
            early.approach(&key, shown.filter(|_| self.encrypt))?;
        }
        self.key = Some(key);
        Ok(())
    }

    /// Channels of those that were begun with the session, `most` at most, if it goes by `stack` to
    /// `address`; they are there once.
    pub(in crate::client) async fn early_channels(
        &mut self,
        stack: &Stack,
        address: SocketAddr,
        sockets: &TcpOptions,
        most: usize,
    ) -> Vec<Box<dyn Channel>> {
        let early = self.early.take().filter(|_| self.has(early::FEATURE));
        let (Some(early), Some(key)) = (early, self.key.clone()) else { return Vec::new() };
        let certificate = self.told_certificate().filter(|_| self.data_tls.is_some());
        let early_held = self.features.early_held;
        let agreed = Agreed { stack, key: &key, certificate, address, sockets, early_held };
        early.channels(&agreed, most).await
    }

    /// What the node told that it shows on data connections (P-1).
    fn told_certificate(&self) -> Option<Fingerprint> {
        self.features.tls_fingerprint.as_ref()?.parse().ok()
    }

    /// How data connections are encrypted: with a peer that shows the certificate it told of, or
    /// not at all (P-1, P-4).
    pub(in crate::client) async fn data_tls(&mut self) -> Result<Option<Arc<ClientConfig>>, Error> {
        if self.grid.is_some() {
            return Ok(None);
        }
        let asked = match self.protected.take() {
            Some(id) => self.done(id).await,
            None => return Ok(self.data_tls.clone()),
        };
        if !self.encrypt {
            return Ok(None);
        }
        let (Ok(_), Some(fingerprint)) = (asked, self.told_certificate()) else {
            return Err(Error::new(
                Fault::Refused,
                ErrorCode::CannotEncrypt,
                format!("{} cannot encrypt data", self.server),
            )
            .hint(format!("let it go in the clear with {NoEncrypt}")));
        };
        self.data_tls = Some(pinned(fingerprint)?);
        Ok(self.data_tls.clone())
    }

    /// Has data connections made anew, in the clear, for ssh to carry; returns where the node
    /// listens for them (H-2).
    pub(in crate::client) async fn rearrange_for_ssh(
        &mut self,
    ) -> Result<(Arc<Ssh>, SocketAddr), Error> {
        let ssh = self.line.as_ref().and_then(|line| line.ssh.clone()).ok_or_else(closed)?;
        if let Some(address) = self.carried {
            return Ok((ssh, address));
        }
        self.encrypt = false;
        self.data_tls = None;
        self.protect(Protection::Clear);
        self.offer_key()?;
        let passive = self.request(Request::Passive { mode: Mode::Extended, striped: false });
        let address = self.passive(passive).await?;
        self.carried = Some(address);
        Ok((ssh, address))
    }

    /// What opens this session's channels by `stack`: the same for all passes, so that no channel's
    /// number comes twice.
    pub(in crate::client) fn dialer(
        &mut self,
        stack: &Stack,
        session: &Session,
    ) -> Result<Arc<dyn Dialer>, Error> {
        if stack.channel().capabilities.offered != Offered::WhenAsked {
            return stack.dialer(session);
        }
        match &self.dialer {
            Some((name, dialer)) if *name == stack.channel().name => Ok(Arc::clone(dialer)),
            _ => {
                let dialer = stack.dialer(session)?;
                self.dialer = Some((stack.channel().name, Arc::clone(&dialer)));
                Ok(dialer)
            }
        }
    }

    /// Has the node listen for channels of `driver` (V-1): where it does, which is `address` where
    /// it does already.
    pub(in crate::client) async fn listen_by(
        &mut self,
        driver: &Driver,
        address: SocketAddr,
    ) -> Result<SocketAddr, Error> {
        if let Some((name, asked)) = self.early_stack.take()
            && self.done(asked).await.is_ok()
        {
            self.net_stack = Some(name);
        }
        let is_default = driver.capabilities.offered == Offered::Always;
        let wanted = (!is_default).then_some(driver.name);
        if self.net_stack == wanted {
            return Ok(address);
        }
        self.net_stack = wanted;
        let name = driver.name.to_owned();
        let chosen = self.request(Request::Exec(Command::Site(Site::NetStack(name))));
        let passive = self.request(Request::Passive { mode: Mode::Extended, striped: false });
        self.done(chosen).await?;
        self.passive(passive).await
    }

    /// Offers a channel of `driver` to the node (V-9).
    pub(in crate::client) fn offer_channel(&mut self, driver: &str, text: &str) -> u64 {
        let offer = Opts::Farline { name: driver.to_owned(), value: text.to_owned() };
        self.try_request(Request::Exec(Command::Options(offer)))
    }

    /// What the node says of a channel that it was offered: V-10.
    pub(in crate::client) async fn taken_channel(
        &mut self,
        driver: &str,
        id: u64,
    ) -> Result<String, Error> {
        let reply = self.done(id).await?;
        let told = reply.first();
        let told = told.trim();
        // What is none of ours is the driver's to judge.
        let value = told.strip_prefix(driver).and_then(|rest| rest.strip_prefix('='));
        Ok(value.unwrap_or(told).to_owned())
    }

    /// Whether data is in the clear for ssh to carry, so that no other way may be tried.
    pub(in crate::client) fn is_carried(&self) -> bool {
        self.carried.is_some()
    }

    /// The key under which this end opens every data connection; `None` with a server that does not
    /// know keys.
    pub(in crate::client) async fn agreed_key(&mut self) -> Result<Option<Key>, Error> {
        if let Some(offered) = self.offered.take() {
            let agreed = match self.done(offered).await {
                Ok(_) => self.features.key,
                Err(error) if error.fault == Fault::Between => return Err(error),
                Err(_) => false,
            };
            self.key = self.key.take().filter(|_| agreed);
        }
        Ok(self.key.clone())
    }
}
