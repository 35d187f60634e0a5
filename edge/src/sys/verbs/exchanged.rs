//! Queue pairs that are connected without rdma_cm: both ends tell each other where they are by
//! another way, and each readies its own.
//!
//! Nobody tells then that a peer is gone. An end that has waited for long asks its device to write
//! nothing there: RDMA WRITE of no bytes needs no receive and no key, and a peer that is gone does
//! not acknowledge it.

use super::abi::*;
use super::connection::{Id, NotReady};
use super::library::{by_errno, no_device};
use super::link::{Job, Pair, RdmaConnection, number};
use super::memory::Domain;
use super::owned_qp::{Ends, OwnedQp, Peer, Reads};
use super::qp_abi::{AddressHandle, GlobalRoute};
use farline_core::rdma::{Numbered as PairNumber, QpAddress};
use farline_core::units::Error;
use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The port of a device that has one of this host's addresses.
pub(crate) struct LocalPort {
    // Keeps the device open and the port known.
    _id: Id,
    domain: Arc<Domain>,
    device: String,
    number: u8,
    gid_index: u8,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
    is_ethernet: bool,
}

impl LocalPort {
    /// The port that has `ip`; in `known`, when that is of the same device.
    ///
    /// # Errors
    /// When the libraries are missing, no device has the address, or its port is down.
    pub(crate) fn at(ip: IpAddr, known: Option<&Arc<Domain>>) -> Result<LocalPort, Error> {
        let id = Id::bound(ip)?;
        let domain = id.domain(known)?;
        let port = id.port().ok_or_else(no_device)?;
        let device = domain.device();
        let is_ethernet = port.link_layer == LINK_LAYER_ETHERNET;
        let lid = if is_ethernet { 0 } else { port.lid() };
        let (number, mtu) = (id.port_number(), id.mtu());
        Ok(LocalPort {
            _id: id,
            domain,
            device,
            number,
            gid_index: 0,
            gid: [0; 16],
            lid,
            mtu,
            is_ethernet,
        })
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// The port's number there.
    pub(crate) fn port(&self) -> u8 {
        self.number
    }

    /// Sends from the GID at this place of the port's table.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn use_gid(&mut self, gid_index: u8) -> io::Result<()> {
        let context = self.domain.context.as_ptr();
        // SAFETY: the device is open, and a GID has 16 bytes.
        let found = unsafe {
            (self.domain.library.ibv_query_gid)(
                context,
                self.number,
                c_int::from(gid_index),
                &raw mut self.gid,
            )
        };
        self.gid_index = gid_index;
        by_errno(found)
    }

    /// The protection domain for links from here.
    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The way to a port of these identifiers.
    pub(super) fn address_handle_to(&self, gid: [u8; 16], lid: u16) -> AddressHandle {
        let route = GlobalRoute {
            to: gid,
            from_index: self.gid_index,
            hop_limit: 64,
            ..GlobalRoute::default()
        };
        // Within an InfiniBand subnet the local identifier is enough, and whether a GID is reached
        // is not known.
        AddressHandle {
            route,
            lid,
            is_global: u8::from(self.is_ethernet),
            port: self.number,
            ..AddressHandle::default()
        }
    }
}

impl RdmaConnection {
    /// Makes every queue pair, with its receives posted; returns where they are. The first
    /// packets' numbers are of the caller's choice, one for each; `read` is whether there is to be
    /// RDMA READ.
    ///
    /// # Errors
    /// When the device has no queue pair left.
    pub(crate) fn make_pairs(
        &mut self,
        local_port: &LocalPort,
        first_packets: &[u32],
        read: bool,
    ) -> io::Result<QpAddress> {
        let reads =
            if read { self.domain.limits()?.reads.clamp(1, MOST_READS.into()) as u8 } else { 0 };
        let mut pairs = Vec::new();
        for (on, first_packet) in first_packets.iter().enumerate().take(self.pairs.len()) {
            let own = OwnedQp::new(&self.domain, &mut self.attributes())?;
            own.init(local_port.number)?;
            let ends = Ends::Owned(own);
            let number = ends.number().ok_or(io::ErrorKind::NotConnected)?;
            pairs.push(PairNumber { number, first_packet: first_packet & 0xff_ffff });
            self.receive_all(on as u8, ends.queue_pair())?;
            self.pairs[on] = Some(Pair { ends, established: false });
        }
        Ok(QpAddress {
            gid: local_port.gid,
            lid: local_port.lid,
            mtu: local_port.mtu,
            pairs,
            reads,
        })
    }

    /// Connects the queue pairs that are at `own` with those at `theirs`, by packets of `mtu`
    /// bytes.
    ///
    /// # Errors
    /// When the device refuses.
    pub(crate) fn join(
        &mut self,
        local_port: &LocalPort,
        own: &QpAddress,
        theirs: &QpAddress,
        mtu: u16,
        ack_timeout: u8,
    ) -> io::Result<()> {
        let pairs = self.pairs.iter_mut().flatten();
        // Asked for more at once than it answers, the peer would fail.
        let reads = Reads { answered: own.reads.max(1), asked: own.reads.min(theirs.reads).max(1) };
        for (pair, (own, peer)) in pairs.zip(own.pairs.iter().zip(&theirs.pairs)) {
            let Ends::Owned(ends) = &pair.ends else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let address_handle = local_port.address_handle_to(theirs.gid, theirs.lid);
            let peer =
                Peer { address_handle, mtu, number: peer.number, first_packet: peer.first_packet };
            ends.connect(peer, own.first_packet, ack_timeout, reads, NotReady::ENDS)?;
            pair.established = true;
        }
        Ok(())
    }

    /// Asks on every queue pair whether the peer is there still, where nobody else would tell; a
    /// completion comes of it that says nothing, or one of failure.
    ///
    /// # Errors
    /// When a queue pair is broken.
    pub(crate) fn ask_after_peer(&mut self) -> io::Result<()> {
        for on in 0..self.pairs.len() {
            let Some(pair) = &mut self.pairs[on] else { continue };
            if matches!(pair.ends, Ends::Managed(_)) || std::mem::replace(&mut self.asked[on], true)
            {
                continue;
            }
            let nothing = Sge { address: 0, len: 0, local_key: 0 };
            self.request(on as u8, OP_WRITE, number(Job::Nothing, on as u8, 0), nothing, 0, 0, 0)?;
        }
        Ok(())
    }
}
