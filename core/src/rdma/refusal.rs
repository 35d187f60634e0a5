//! Why a node refuses a queue pair of who has a right to it: what travels in the private data of a
//! rejection.

use super::greeting::{MAGIC, VERSION};
use crate::units::{Error, ErrorCode, Fault, Setting};

/// Bytes of a refusal.
pub const REFUSAL_LEN: usize = 12;

/// Why a queue pair is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node speaks this version of the protocol, and not that of the greeting.
    Version(u8),
    /// The node's port takes packets of this many bytes at most, fewer than the peer's sends.
    Mtu(u16),
    /// The node's device, or the node, has no room for another connection.
    NoRoom,
    /// One end is iWARP, the other is not.
    OtherFabric,
}

impl Refusal {
    /// The private data.
    pub fn encode(self) -> [u8; REFUSAL_LEN] {
        let (kind, value) = match self {
            Refusal::Version(version) => (1, u16::from(version)),
            Refusal::Mtu(mtu) => (2, mtu),
            Refusal::NoRoom => (3, 0),
            Refusal::OtherFabric => (4, 0),
        };
        let mut bytes = [0; REFUSAL_LEN];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = VERSION;
        bytes[8] = kind;
        bytes[10..12].copy_from_slice(&value.to_be_bytes());
        bytes
    }

    /// Reads private data, which the fabric may have padded; `None` when nothing was said. A node
    /// of a later version may give reasons that this one does not know: those are about versions
    /// too.
    pub fn decode(bytes: &[u8]) -> Option<Refusal> {
        let bytes: &[u8; REFUSAL_LEN] = bytes.first_chunk()?;
        if bytes[..7] != MAGIC {
            return None;
        }
        let value = u16::from_be_bytes([bytes[10], bytes[11]]);
        Some(match (bytes[7], bytes[8]) {
            (VERSION, 1) => Refusal::Version(u8::try_from(value).ok()?),
            (VERSION, 2) => Refusal::Mtu(value),
            (VERSION, 3) => Refusal::NoRoom,
            (VERSION, 4) => Refusal::OtherFabric,
            (version, _) => Refusal::Version(version),
        })
    }

    /// The error for who asked; `mtu` is what this end's port sends.
    pub fn error(self, mtu: u16) -> Error {
        match self {
            Refusal::Version(theirs) => Error::new(
                Fault::There,
                ErrorCode::RdmaVersion,
                format!(
                    "the node speaks version {theirs} of the RDMA channel, this Farline \
                    version {VERSION}"
                ),
            )
            .hint(format!("use the same Farline at both ends, or {} tcp", Setting::Channel)),
            Refusal::Mtu(theirs) => Error::new(
                Fault::Between,
                ErrorCode::RdmaMtu,
                format!(
                    "RDMA packets of this host's device carry {mtu} bytes, the node's device \
                    takes {theirs} at most"
                ),
            )
            .hint(
                "give both interfaces the same MTU: ip link set DEVICE mtu 4200 for 4096 bytes, \
                1500 for 1024",
            ),
            Refusal::NoRoom => Error::new(
                Fault::Refused,
                ErrorCode::RdmaRoom,
                "the node's RDMA device has no room for \
                    another connection of this size",
            )
            .hint(format!(
                "use fewer queue pairs ({} rdma:1) or less {}, or try \
                        again when others are done",
                Setting::Channel,
                Setting::Staging
            )),
            Refusal::OtherFabric => Error::new(
                Fault::Between,
                ErrorCode::RdmaFabric,
                "one end's RDMA device speaks iWARP, \
                    the other's InfiniBand or RoCE",
            )
            .hint(format!(
                "both ends need devices of one kind; {} tcp needs none",
                Setting::Channel
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_survives_padding_and_says_what_to_try() {
        for refusal in
            [Refusal::Version(3), Refusal::Mtu(1024), Refusal::NoRoom, Refusal::OtherFabric]
        {
            let mut wire = refusal.encode().to_vec();
            wire.extend([0; 136]);
            assert_eq!(Refusal::decode(&wire), Some(refusal));
            assert!(refusal.error(4096).hint.is_some());
        }
        let said = Refusal::Mtu(1024).error(4096).message;
        assert!(said.contains("4096") && said.contains("1024"), "{said}");
    }

    #[test]
    fn another_version_is_known_by_its_refusal() {
        let mut wire = Refusal::NoRoom.encode();
        (wire[7], wire[8]) = (9, 77);
        assert_eq!(Refusal::decode(&wire), Some(Refusal::Version(9)));
        assert_eq!(Refusal::decode(&[0; 148]), None);
        assert_eq!(Refusal::decode(&wire[..11]), None);
    }
}
