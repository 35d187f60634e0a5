//! What the transfers of one copy hand on to each other: channels, and the staging pool.

use crate::channels::Channel;
use crate::mover::{BLOCK_LEN, Incoming, SendOutcome};
use crate::sys::pool::{Slot, pool_of_short};
use crate::sys::tcp::TcpInfo;
use farline_core::transfer::TransferParams;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::sync::Arc;

/// Channels and slots between the transfers of one copy.
#[derive(Default)]
pub(super) struct TransferResources {
    /// Where channels come in, unless this end opened all of them.
    pub(super) acceptor: Option<Arc<dyn Incoming + Send>>,
    pub(super) channels: Vec<Box<dyn Channel>>,
    pub(super) slots: Vec<Slot>,
    /// What the kernel said of the channels of the last transfer.
    pub(super) tcp: Vec<TcpInfo>,
}

impl TransferResources {
    /// What a transfer that this end sent gives back.
    pub(super) fn after(sent: SendOutcome) -> TransferResources {
        let SendOutcome { channels, slots, tcp, .. } = sent;
        TransferResources { acceptor: None, channels, slots, tcp }
    }
}

/// The staging pool of a copy.
///
/// # Errors
/// When there is no memory for it, or never could be.
pub(super) fn staging(params: &TransferParams) -> Result<Vec<Slot>, Error> {
    let host = rustix::system::sysinfo();
    let memory = Bytes((host.totalram as u64).saturating_mul(host.mem_unit.into()));
    if params.staging > memory {
        let message =
            format!("{} of staging are more than this host's memory of {memory}", params.staging);
        return Err(Error::new(Fault::You, ErrorCode::Usage, message)
            .hint("name less, or leave it out: it then follows the path"));
    }
    let block = params.longest_block.map_or(BLOCK_LEN, |longest| longest.0 as usize);
    pool_of_short(params.slots(Bytes(BLOCK_LEN as u64)), BLOCK_LEN, block).map_err(|error| {
        Error::new(
            Fault::Here,
            ErrorCode::NoMemory,
            format!("no memory for {} of staging: {error}", params.staging),
        )
    })
}
