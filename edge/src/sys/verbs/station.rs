//! Where a measurement begins or ends: a device by one of its addresses, and what a peer must know to connect to it.

use super::abi::LINK_LAYER_ETHERNET;
use super::connection::Listener;
use super::memory::Domain;
use super::pairs_abi::{GlobalRoute, Way};
use farline_core::units::Error;
use serde::{Deserialize, Serialize};
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::Arc;

/// A device by one of its addresses.
pub struct Station {
    pub(super) listener: Listener,
    pub(super) domain: Arc<Domain>,
    pub(super) gid: [u8; 16],
    gid_index: u8,
    pub(super) lid: u16,
    pub(super) port: u8,
    ethernet: bool,
}

/// What a peer must know of an end to connect to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The port's global identifier.
    pub gid: [u8; 16],
    /// Its local one; 0 on Ethernet.
    pub lid: u16,
    /// Payload of its largest packet in bytes.
    pub mtu: u16,
    /// The numbers of its queue pairs; none where rdma_cm connects.
    pub numbers: Vec<u32>,
    /// The first packet's sequence number.
    pub sequence: u32,
    /// Where writes go to and reads come from.
    pub memory: u64,
    /// The key of that memory.
    pub key: u32,
    /// Where it listens for rdma_cm.
    pub listens: u16,
}

impl Station {
    /// The device that has `ip`, which is number `gid_index` in its table.
    ///
    /// # Errors
    /// When the libraries are missing, or no device has the address.
    pub fn at(ip: IpAddr, gid_index: u8) -> Result<Station, Error> {
        let listener = Listener::bind(ip)?;
        let domain = listener.id.context().map(Domain::new).ok_or_else(super::library::no_device)??;
        let port = listener.id.port().ok_or_else(super::library::no_device)?;
        let number = listener.id.port_number();
        let mut gid = [0; 16];
        // SAFETY: the device is open, and a GID has 16 bytes. An entry that is not there leaves zeros.
        let _ = unsafe { (domain.library.ibv_query_gid)(domain.context.as_ptr(), number, c_int::from(gid_index), &raw mut gid) };
        let (lid, ethernet) = (port.lid(), port.link_layer == LINK_LAYER_ETHERNET);
        Ok(Station { listener, domain, gid, gid_index, lid, port: number, ethernet })
    }

    /// The device's name.
    pub fn device(&self) -> String {
        self.domain.device()
    }

    /// The port's number there.
    pub fn port(&self) -> u8 {
        self.port
    }

    /// Whether the device speaks iWARP, which rdma_cm alone connects, and which has no datagrams.
    pub fn is_iwarp(&self) -> bool {
        self.domain.is_iwarp()
    }

    /// Bytes that a packet carries.
    pub fn mtu(&self) -> u16 {
        self.listener.id.mtu()
    }

    /// The way to a peer.
    pub(super) fn way_to(&self, peer: &Address) -> Way {
        let route = GlobalRoute { to: peer.gid, from_index: self.gid_index, hop_limit: 64, ..GlobalRoute::default() };
        Way { route, lid: peer.lid, is_global: u8::from(self.ethernet || peer.lid == 0), port: self.port, ..Way::default() }
    }
}
