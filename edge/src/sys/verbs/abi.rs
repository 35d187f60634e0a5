//! The structures of libibverbs and librdmacm (their ABIs 1.1 and 1.0), as far as we touch them.
//!
//! `layout_tests.rs` compares the offsets with the headers. What we only point to is opaque.

use std::ffi::{c_int, c_uint, c_void};

/// A structure that only the libraries look into.
#[repr(C)]
pub(super) struct Opaque {
    _private: [u8; 0],
}

/// `struct ibv_context`: the calls that go straight to a device's own library.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Opaque,
    pub(super) before_poll_cq: [*mut c_void; 11],
    pub(super) poll_cq:
        Option<unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int>,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int>,
    pub(super) before_post_send: [*mut c_void; 12],
    pub(super) post_send: Option<
        unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int,
    >,
    pub(super) post_recv: Option<
        unsafe extern "C" fn(
            *mut QueuePair,
            *mut ReceiveRequest,
            *mut *mut ReceiveRequest,
        ) -> c_int,
    >,
}

/// The head of `struct ibv_cq`.
#[repr(C)]
pub(super) struct CompletionQueue {
    pub(super) context: *mut Context,
}

/// The head of `struct ibv_qp`.
#[repr(C)]
pub(super) struct QueuePair {
    pub(super) context: *mut Context,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompletionChannel {
    pub(super) context: *mut Context,
    pub(super) fd: c_int,
    pub(super) refcnt: c_int,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct MemoryRegion {
    pub(super) context: *mut Context,
    pub(super) domain: *mut Opaque,
    pub(super) address: *mut c_void,
    pub(super) len: usize,
    pub(super) handle: u32,
    pub(super) local_key: u32,
    pub(super) remote_key: u32,
}

/// `struct ibv_sge`.
#[repr(C)]
pub(super) struct Sge {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) local_key: u32,
}

/// `struct ibv_send_wr`; `rest` is what only other kinds of work use.
#[repr(C)]
pub(super) struct SendRequest {
    pub(super) id: u64,
    pub(super) next: *mut SendRequest,
    pub(super) sges: *mut Sge,
    pub(super) sge_count: c_int,
    pub(super) opcode: c_uint,
    pub(super) flags: c_uint,
    /// In network byte order.
    pub(super) immediate: u32,
    pub(super) remote_address: u64,
    pub(super) remote_key: u32,
    pub(super) rest: [u64; 9],
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct ReceiveRequest {
    pub(super) id: u64,
    pub(super) next: *mut ReceiveRequest,
    pub(super) sges: *mut Sge,
    pub(super) sge_count: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct WorkCompletion {
    pub(super) id: u64,
    pub(super) status: c_uint,
    pub(super) opcode: c_uint,
    pub(super) vendor_error: u32,
    pub(super) byte_len: u32,
    /// In network byte order.
    pub(super) immediate: u32,
    pub(super) queue_pair: u32,
    pub(super) source: u32,
    pub(super) flags: c_uint,
    pub(super) pkey_index: u16,
    pub(super) slid: u16,
    pub(super) sl: u8,
    pub(super) dlid_path_bits: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Capacities {
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) send_sges: u32,
    pub(super) receive_sges: u32,
    pub(super) inline_len: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QueuePairAttributes {
    pub(super) context: *mut c_void,
    pub(super) send_queue: *mut CompletionQueue,
    pub(super) receive_queue: *mut CompletionQueue,
    pub(super) shared_receives: *mut Opaque,
    pub(super) capacities: Capacities,
    pub(super) kind: c_uint,
    pub(super) signal_all: c_int,
}

/// The head of `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// The head of `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct Identifier {
    pub(super) verbs: *mut Context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) queue_pair: *mut QueuePair,
    pub(super) route_and_port_space: [u8; 316],
    pub(super) port: u8,
}

/// `struct ibv_device_attr`.
#[repr(C)]
pub(super) struct DeviceAttributes {
    pub(super) before_queue_pairs: [u64; 13],
    pub(super) page_sizes: u32,
    pub(super) queue_pairs: c_int,
    pub(super) work: c_int,
    pub(super) before_completions: [u32; 4],
    pub(super) completions: c_int,
    pub(super) regions: c_int,
    pub(super) rest: [u32; 23],
}

/// The head of `struct ibv_port_attr`, and room for the rest.
#[repr(C)]
#[derive(Default)]
pub(super) struct PortAttributes {
    pub(super) state: c_uint,
    pub(super) most_mtu: c_uint,
    /// 256 bytes * 2^(n - 1).
    pub(super) active_mtu: c_uint,
    pub(super) table: [u32; 8],
    pub(super) before_link_layer: [u8; 2],
    pub(super) link_layer: u8,
    pub(super) rest: [u8; 17],
}

impl PortAttributes {
    /// The port's local identifier on an InfiniBand subnet.
    pub(super) fn lid(&self) -> u16 {
        // The second half of the sixth word of the table of numbers.
        let [_, _, low, high] = self.table[5].to_ne_bytes();
        u16::from_ne_bytes([low, high])
    }
}

/// `struct rdma_conn_param`.
#[repr(C)]
pub(super) struct ConnectionParameters {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) shared_receives: u8,
    pub(super) queue_pair: u32,
}

/// `struct rdma_cm_event`, of a connection.
#[repr(C)]
pub(super) struct Event {
    pub(super) id: *mut Identifier,
    pub(super) listener: *mut Identifier,
    pub(super) kind: c_uint,
    pub(super) status: c_int,
    pub(super) connection: ConnectionParameters,
}

/// The head of `struct ibv_device`.
#[repr(C)]
pub(super) struct Device {
    pub(super) operations: [*mut c_void; 2],
    pub(super) node_type: c_int,
    pub(super) transport: c_int,
}

/// `IBV_PORT_ACTIVE`.
pub(super) const PORT_ACTIVE: c_uint = 4;
/// `IBV_LINK_LAYER_ETHERNET`.
pub(super) const LINK_LAYER_ETHERNET: u8 = 2;
/// `IBV_TRANSPORT_IWARP`.
pub(super) const TRANSPORT_IWARP: c_int = 1;
/// `IBV_QPT_RC`.
pub(super) const RELIABLE_CONNECTION: c_uint = 2;
/// `IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_WRITE_WITH_IMM`, `IBV_WR_SEND`, `IBV_WR_RDMA_READ`.
pub(super) const OP_WRITE: c_uint = 0;
pub(super) const OP_WRITE_WITH_IMMEDIATE: c_uint = 1;
pub(super) const OP_SEND: c_uint = 2;
pub(super) const OP_READ: c_uint = 4;
/// `IBV_WC_RECV_RDMA_WITH_IMM`.
pub(super) const DONE_RECEIVE_WITH_IMMEDIATE: c_uint = 129;
/// `IBV_ACCESS_LOCAL_WRITE`, `IBV_ACCESS_REMOTE_WRITE`, `IBV_ACCESS_REMOTE_READ`.
pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const ACCESS_REMOTE_WRITE: c_int = 2;
pub(super) const ACCESS_REMOTE_READ: c_int = 4;
/// `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`: as many RDMA READs at once as the device can have,
/// and no more than the peer asks for.
pub(super) const MOST_READS: u8 = 0xff;
/// `RDMA_PS_TCP`.
pub(super) const PORT_SPACE_TCP: c_uint = 0x0106;
/// `RDMA_OPTION_ID`, `RDMA_OPTION_ID_ACK_TIMEOUT`.
pub(super) const OPTION_ID: c_int = 0;
pub(super) const OPTION_ACK_TIMEOUT: c_int = 3;
