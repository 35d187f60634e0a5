//! Where a measurement begins or ends: a device by one of its addresses, and what a peer must know
//! to connect to it.

use super::connection::CmListener;
use super::exchanged::LocalPort;
use farline_core::units::Error;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A device by one of its addresses.
pub(crate) struct RdmaEndpoint {
    pub(super) listener: CmListener,
    pub(super) local_port: LocalPort,
}

/// What a peer must know of an end to connect to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
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

impl RdmaEndpoint {
    /// The device that has `ip`, which is number `gid_index` in its table.
    ///
    /// # Errors
    /// When the libraries are missing, or no device has the address.
    pub(crate) fn at(ip: IpAddr, gid_index: u8) -> Result<RdmaEndpoint, Error> {
        let listener = CmListener::bind(ip)?;
        let mut local_port = LocalPort::at(ip, None)?;
        // Where there is no such entry rdma_cm connects all the same.
        let _ = local_port.use_gid(gid_index);
        Ok(RdmaEndpoint { listener, local_port })
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        self.local_port.device()
    }

    /// The port's number there.
    pub(crate) fn port(&self) -> u8 {
        self.local_port.port()
    }

    /// Whether the device speaks iWARP, which rdma_cm alone connects, and which has no datagrams.
    pub(crate) fn is_iwarp(&self) -> bool {
        self.local_port.domain().is_iwarp()
    }

    /// Bytes that a packet carries.
    pub(crate) fn mtu(&self) -> u16 {
        self.local_port.mtu
    }
}
