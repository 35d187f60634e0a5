//! How a session's data connections are made: by TCP, by RDMA or through ssh, under which key, and
//! encrypted or not.

use super::{Control, closed};
use crate::channels::key::Key;
use crate::channels::rdma::{Dialer, Fabric};
use crate::channels::trust::pinned;
use crate::client::ssh::Ssh;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Mode, Options as Opts, Protection, Site};
use farline_core::units::{Error, Fault};
use std::net::SocketAddr;
use std::sync::Arc;

impl Control {
    /// Asks for data connections to be encrypted, or not (P-1).
    pub(super) fn protect(&mut self, level: Protection) {
        let ask = |command| Request::ToFarline(Box::new(Request::Exec(command)));
        self.try_request(ask(Command::ProtectionBuffer(0)));
        self.protected = Some(self.try_request(ask(Command::Protection(level))));
    }

    /// Gives a fresh key (K-1, K-2): a server that does not know keys says so, and data connections
    /// are made as ever.
    pub(super) fn offer_key(&mut self) -> Result<(), Error> {
        let key = Key::random()
            .map_err(|error| Error::new(Fault::Here, "no-randomness", error.to_string()))?;
        let offer = Opts::Farline { name: "key".to_owned(), value: key.to_hex() };
        let offer = Request::ToFarline(Box::new(Request::Exec(Command::Options(offer))));
        self.offered = Some(self.try_request(offer));
        self.key = Some(key);
        Ok(())
    }

    /// How data connections are encrypted: with a peer that shows the certificate it told of, or
    /// not at all (P-1, P-4).
    pub(in crate::client) async fn data_tls(
        &mut self,
    ) -> Result<Option<Arc<rustls::ClientConfig>>, Error> {
        let asked = match self.protected.take() {
            Some(id) => self.done(id).await,
            None => return Ok(self.data_tls.clone()),
        };
        if !self.encrypt {
            return Ok(None);
        }
        let told = self
            .features
            .parameters("FARLINE")
            .find_map(|feature| feature.strip_prefix("TLS ")?.parse().ok());
        let (Ok(_), Some(fingerprint)) = (asked, told) else {
            return Err(Error::new(
                Fault::Refused,
                "cannot-encrypt",
                format!("{} cannot encrypt data", self.server),
            )
            .hint("let it go in the clear with --no-encrypt"));
        };
        self.data_tls = Some(pinned(fingerprint)?);
        Ok(self.data_tls.clone())
    }

    /// Has data connections made anew, in the clear, for ssh to carry; answers with where the node
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

    /// Has data connections made by RDMA from now on (V-1): answers with where the node listens for
    /// them.
    pub(in crate::client) async fn arrange_rdma(
        &mut self,
        address: SocketAddr,
        fabric: Fabric,
    ) -> Result<(SocketAddr, Arc<Dialer>), Error> {
        if let Some(dialler) = &self.dialler {
            return Ok((address, Arc::clone(dialler)));
        }
        if self.data_tls().await?.is_some() {
            return Err(Error::new(Fault::You, "cannot-encrypt", "nothing encrypts RDMA")
                .hint("--no-encrypt lets data go in the clear"));
        }
        let has = |name| self.features.parameters("FARLINE").any(|feature| feature == name);
        if !has("RDMA") {
            return Err(Error::new(
                Fault::There,
                "no-rdma",
                format!("{} has no RDMA device, or not its libraries", self.server),
            ));
        }
        if fabric.exchange && !has("RDMA EXCHANGE") {
            let message = format!("{} connects by rdma_cm alone", self.server);
            return Err(
                Error::new(Fault::There, "unsupported", message).hint("leave `:exchange` out")
            );
        }
        // One that does not read is written to: the same bytes go the same way.
        let fabric = Fabric { read: fabric.read && has("RDMA READ"), ..fabric };
        let key = self
            .agreed_key()
            .await?
            .ok_or_else(|| Error::new(Fault::There, "no-rdma", "the node takes no key"))?;
        let dialler = Arc::clone(self.dialler.insert(Arc::new(Dialer::new(key, fabric))));
        if fabric.exchange {
            return Ok((address, dialler));
        }
        Ok((self.set_net_stack("rdma").await?, dialler))
    }

    /// Offers a channel to the node (V-9).
    pub(in crate::client) fn offer_rdma(&mut self, text: &str) -> u64 {
        let offer = Opts::Farline { name: "rdma".to_owned(), value: text.to_owned() };
        self.try_request(Request::Exec(Command::Options(offer)))
    }

    /// What the node says of a channel that it was offered: V-10.
    pub(in crate::client) async fn taken_rdma(&mut self, id: u64) -> Result<String, Error> {
        let reply = self.done(id).await?;
        let told = reply.first().trim().strip_prefix("rdma=").map(str::to_owned);
        told.ok_or_else(|| {
            Error::new(
                Fault::There,
                "rdma-broken",
                "the node's reply to an RDMA channel is none of ours",
            )
            .hint("is it a Farline of another version? --channel tcp goes another way")
        })
    }

    /// Whether the node was asked to make data connections by RDMA.
    pub(in crate::client) fn is_by_rdma(&self) -> bool {
        self.dialler.is_some()
    }

    /// Has data connections made by TCP again; answers with where the node listens for them.
    pub(in crate::client) async fn arrange_tcp(&mut self) -> Result<SocketAddr, Error> {
        self.dialler = None;
        self.set_net_stack("tcp").await
    }

    async fn set_net_stack(&mut self, name: &str) -> Result<SocketAddr, Error> {
        let chosen = self.request(Request::Exec(Command::Site(Site::NetStack(name.to_owned()))));
        let passive = self.request(Request::Passive { mode: Mode::Extended, striped: false });
        self.done(chosen).await?;
        self.passive(passive).await
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
                Ok(_) => self.features.parameters("FARLINE").any(|feature| feature == "KEY"),
                Err(error) if error.fault == Fault::Between => return Err(error),
                Err(_) => false,
            };
            self.key = self.key.take().filter(|_| agreed);
        }
        Ok(self.key.clone())
    }
}
