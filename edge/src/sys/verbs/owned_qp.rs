//! A queue pair that rdma_cm knows nothing of, and the steps that ready it (`ibv_modify_qp`: INIT,
//! RTR, RTS), for channels and measurements.

use super::abi::*;
use super::connection::{Id, NotReady};
use super::library::{Library, by_code};
use super::memory::Domain;
use super::qp_abi::*;
use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

/// How often what nobody acknowledges is sent again: one time fewer than there may be, which
/// soft-RoCE takes for always. No event of a connection would end that here.
const RETRIES: u8 = 6;

/// By whom a queue pair was connected.
pub(super) enum Ends {
    /// By rdma_cm.
    Managed(Id),
    /// By ourselves.
    Owned(OwnedQp),
}

/// A queue pair of our own.
pub(super) struct OwnedQp {
    library: &'static Library,
    raw: NonNull<QueuePair>,
}

/// What a queue pair must know of the one that it is connected with.
pub(super) struct Peer {
    /// The way there.
    pub(super) address_handle: AddressHandle,
    /// Bytes of the largest packet.
    pub(super) mtu: u16,
    /// Its number.
    pub(super) number: u32,
    /// The number of the first packet that it sends.
    pub(super) first_packet: u32,
}

/// RDMA READs of a queue pair that may be unanswered at once.
#[derive(Clone, Copy)]
pub(super) struct Reads {
    /// The peer's, here.
    pub(super) answered: u8,
    /// Its own, there.
    pub(super) asked: u8,
}

impl Ends {
    /// The queue pair, once there is one.
    pub(super) fn queue_pair(&self) -> Option<NonNull<QueuePair>> {
        match self {
            Ends::Managed(id) => id.queue_pair(),
            Ends::Owned(own) => Some(own.raw),
        }
    }

    /// The number by which its peer knows it.
    pub(super) fn number(&self) -> Option<u32> {
        // SAFETY: the queue pair is alive, and its number does not change.
        self.queue_pair().map(|raw| unsafe { (*raw.as_ptr().cast::<Numbered>()).number })
    }
}

impl OwnedQp {
    /// A new queue pair, of no use yet.
    pub(super) fn new(
        domain: &Domain,
        attributes: &mut QueuePairAttributes,
    ) -> io::Result<OwnedQp> {
        // SAFETY: domain and completion queue are alive and of one device; the attributes are read
        // before the call returns.
        let raw = unsafe { (domain.library.ibv_create_qp)(domain.raw.as_ptr(), attributes) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(OwnedQp { library: domain.library, raw })
    }

    /// May be given receives from here, for a connection by this port, whose peer may use the
    /// memory that it was told.
    pub(super) fn init(&self, port: u8) -> io::Result<()> {
        let access =
            (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ).cast_unsigned();
        let init = Attributes { state: STATE_INIT, port, access, ..Attributes::default() };
        self.modify(init, SET_KEY_INDEX | SET_PORT | SET_ACCESS)
    }

    /// The same for datagrams that have this key.
    pub(super) fn init_for_datagrams(&self, port: u8, datagram_key: u32) -> io::Result<()> {
        let init = Attributes { state: STATE_INIT, port, datagram_key, ..Attributes::default() };
        self.modify(init, SET_KEY_INDEX | SET_PORT | SET_DATAGRAM_KEY)
    }

    /// Connects it: receives from its peer, and sends from here on, from the packet of this number;
    /// `timeout` is the exponent of 4.096 us.
    pub(super) fn connect(
        &self,
        peer: Peer,
        first_packet: u32,
        timeout: u8,
        reads: Reads,
        not_ready: NotReady,
    ) -> io::Result<()> {
        let receives = Attributes {
            state: STATE_RECEIVES,
            address_handle: peer.address_handle,
            // `enum ibv_mtu`.
            path_mtu: u32::from(peer.mtu).max(256).ilog2() - 7,
            to_number: peer.number,
            receive_sequence: peer.first_packet,
            reads_answered: reads.answered,
            least_not_ready: not_ready.wait,
            ..Attributes::default()
        };
        let way = SET_ADDRESS_HANDLE
            | SET_MTU
            | SET_TO_NUMBER
            | SET_RECEIVE_SEQUENCE
            | SET_READS_ANSWERED
            | SET_LEAST_NOT_READY;
        self.modify(receives, way)?;
        let sends = Attributes {
            state: STATE_SENDS,
            send_sequence: first_packet,
            timeout,
            retries: RETRIES,
            not_ready_retries: not_ready.retries,
            reads: reads.asked,
            ..Attributes::default()
        };
        self.modify(
            sends,
            SET_TIMEOUT | SET_RETRIES | SET_NOT_READY_RETRIES | SET_SEND_SEQUENCE | SET_READS,
        )
    }

    /// Takes and sends datagrams from here on, from the packet of this number.
    pub(super) fn open_for_datagrams(&self, first_packet: u32) -> io::Result<()> {
        self.modify(Attributes { state: STATE_RECEIVES, ..Attributes::default() }, 0)?;
        let sends =
            Attributes { state: STATE_SENDS, send_sequence: first_packet, ..Attributes::default() };
        self.modify(sends, SET_SEND_SEQUENCE)
    }

    fn modify(&self, mut attributes: Attributes, what: c_int) -> io::Result<()> {
        // SAFETY: the queue pair is alive; the attributes are read before the call returns.
        by_code(unsafe {
            (self.library.ibv_modify_qp)(self.raw.as_ptr(), &raw mut attributes, SET_STATE | what)
        })
    }
}

impl Drop for OwnedQp {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once; from here the device touches no memory of it.
        let _ = unsafe { (self.library.ibv_destroy_qp)(self.raw.as_ptr()) };
    }
}
