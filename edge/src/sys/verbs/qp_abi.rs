//! The structures of libibverbs (its ABI 1.1) that a measurement's own queue pairs need besides:
//! attributes, addresses, datagrams.
//!
//! The offsets are those that a C program prints of rdma-core 44's headers (offsetof, sizeof); the
//! test at the end holds them.

use super::abi::{Capacities, Opaque, Sge};
use std::ffi::{c_int, c_uint};

/// The head of `struct ibv_qp`, as far as the number by which a peer knows it.
#[repr(C)]
pub(super) struct Numbered {
    pub(super) before_handle: [u64; 6],
    pub(super) handle: u32,
    pub(super) number: u32,
}

/// `struct ibv_global_route`: its GID is also two 64-bit numbers, and aligned as they are.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct GlobalRoute {
    pub(super) to: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) from_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AddressHandle {
    pub(super) route: GlobalRoute,
    pub(super) lid: u16,
    pub(super) service_level: u8,
    pub(super) path_bits: u8,
    pub(super) rate: u8,
    pub(super) is_global: u8,
    pub(super) port: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) state: c_uint,
    pub(super) current_state: c_uint,
    /// `enum ibv_mtu`: 256 bytes * 2^(n - 1).
    pub(super) path_mtu: c_uint,
    pub(super) migration: c_uint,
    pub(super) datagram_key: u32,
    pub(super) receive_sequence: u32,
    pub(super) send_sequence: u32,
    pub(super) to_number: u32,
    pub(super) access: c_uint,
    pub(super) capacities: Capacities,
    pub(super) address_handle: AddressHandle,
    pub(super) other_address_handle: AddressHandle,
    pub(super) key_index: u16,
    pub(super) other_key_index: u16,
    pub(super) notify_drained: u8,
    pub(super) draining: u8,
    /// RDMA READs that it may have unanswered, and that it answers at once.
    pub(super) reads: u8,
    pub(super) reads_answered: u8,
    pub(super) least_not_ready: u8,
    pub(super) port: u8,
    /// 4.096 us * 2^n.
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) not_ready_retries: u8,
    pub(super) other_port: u8,
    pub(super) other_timeout: u8,
    pub(super) rate_limit: u32,
}

/// `struct ibv_send_wr` of a datagram: of the same size as any, with the address where a write has
/// that of its memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) id: u64,
    pub(super) next: *mut Work,
    pub(super) sges: *mut Sge,
    pub(super) sge_count: c_int,
    pub(super) opcode: c_uint,
    pub(super) flags: c_uint,
    pub(super) immediate: u32,
    pub(super) target: Target,
    pub(super) rest: [u64; 9],
}

/// The first 16 bytes of its union `wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Target {
    pub(super) memory: TargetMemory,
    pub(super) datagram: TargetDatagram,
}

/// `wr.rdma`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TargetMemory {
    pub(super) address: u64,
    pub(super) key: u32,
}

/// `wr.ud`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TargetDatagram {
    pub(super) handle: *mut Opaque,
    pub(super) number: u32,
    pub(super) key: u32,
}

/// `IBV_QPS_INIT`, `IBV_QPS_RTR`, `IBV_QPS_RTS`.
pub(super) const STATE_INIT: c_uint = 1;
pub(super) const STATE_RECEIVES: c_uint = 2;
pub(super) const STATE_SENDS: c_uint = 3;
/// `enum ibv_qp_attr_mask`: state, access, key index, port; datagram key; way, MTU; timeout,
/// retries, receiver-not-ready; sequences, reads, the other queue pair.
pub(super) const SET_STATE: c_int = 1;
pub(super) const SET_ACCESS: c_int = 1 << 3;
pub(super) const SET_KEY_INDEX: c_int = 1 << 4;
pub(super) const SET_PORT: c_int = 1 << 5;
pub(super) const SET_DATAGRAM_KEY: c_int = 1 << 6;
pub(super) const SET_ADDRESS_HANDLE: c_int = 1 << 7;
pub(super) const SET_MTU: c_int = 1 << 8;
pub(super) const SET_TIMEOUT: c_int = 1 << 9;
pub(super) const SET_RETRIES: c_int = 1 << 10;
pub(super) const SET_NOT_READY_RETRIES: c_int = 1 << 11;
pub(super) const SET_RECEIVE_SEQUENCE: c_int = 1 << 12;
pub(super) const SET_READS: c_int = 1 << 13;
pub(super) const SET_LEAST_NOT_READY: c_int = 1 << 15;
pub(super) const SET_SEND_SEQUENCE: c_int = 1 << 16;
pub(super) const SET_READS_ANSWERED: c_int = 1 << 17;
pub(super) const SET_TO_NUMBER: c_int = 1 << 20;
/// `IBV_QPT_UD`.
pub(super) const DATAGRAMS: c_uint = 4;
/// `IBV_WC_RECV`: every kind of receive has this bit.
pub(super) const DONE_RECEIVE: c_uint = 1 << 7;

#[cfg(test)]
mod tests {
    use super::super::abi::SendRequest;
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn every_field_lies_where_the_headers_have_it() {
        assert_eq!(offset_of!(Numbered, number), 52);
        assert_eq!((size_of::<GlobalRoute>(), offset_of!(GlobalRoute, from_index)), (24, 20));
        let address_handle = [
            offset_of!(AddressHandle, lid),
            offset_of!(AddressHandle, is_global),
            offset_of!(AddressHandle, port),
        ];
        assert_eq!((size_of::<AddressHandle>(), address_handle), (32, [24, 29, 30]));
        let attributes = [
            offset_of!(Attributes, path_mtu),
            offset_of!(Attributes, datagram_key),
            offset_of!(Attributes, to_number),
            offset_of!(Attributes, access),
            offset_of!(Attributes, capacities),
            offset_of!(Attributes, address_handle),
            offset_of!(Attributes, other_address_handle),
            offset_of!(Attributes, key_index),
            offset_of!(Attributes, reads),
            offset_of!(Attributes, port),
            offset_of!(Attributes, timeout),
            offset_of!(Attributes, not_ready_retries),
            offset_of!(Attributes, rate_limit),
        ];
        assert_eq!(attributes, [8, 16, 28, 32, 36, 56, 88, 120, 126, 129, 130, 132, 136]);
        assert_eq!(size_of::<Attributes>(), 144);
        assert_eq!((size_of::<Work>(), size_of::<SendRequest>()), (128, 128));
        assert_eq!((offset_of!(Work, target), offset_of!(Work, rest)), (40, 56));
        assert_eq!((offset_of!(TargetDatagram, number), offset_of!(TargetDatagram, key)), (8, 12));
    }
}
