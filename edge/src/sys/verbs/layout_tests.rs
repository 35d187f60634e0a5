//! Compares our view of the libraries' structures with what a C program prints of rdma-core 44's
//! headers (offsetof, sizeof).

use super::abi::*;
use std::mem::{offset_of, size_of};

#[test]
#[cfg(target_pointer_width = "64")]
fn every_field_lies_where_the_headers_have_it() {
    assert_eq!(
        [
            offset_of!(Context, poll_cq),
            offset_of!(Context, req_notify_cq),
            offset_of!(Context, post_send),
            offset_of!(Context, post_recv)
        ],
        [96, 104, 208, 216]
    );
    assert_eq!(
        (
            offset_of!(CompletionQueue, context),
            offset_of!(QueuePair, context),
            offset_of!(CompletionChannel, fd)
        ),
        (0, 0, 8)
    );
    let region = [
        offset_of!(MemoryRegion, address),
        offset_of!(MemoryRegion, local_key),
        offset_of!(MemoryRegion, remote_key),
    ];
    assert_eq!(region, [16, 36, 40]);
    assert_eq!((size_of::<Sge>(), offset_of!(Sge, local_key)), (16, 12));
    let send = [
        offset_of!(SendRequest, immediate),
        offset_of!(SendRequest, remote_address),
        offset_of!(SendRequest, remote_key),
    ];
    assert_eq!((size_of::<SendRequest>(), send), (128, [36, 40, 48]));
    assert_eq!((size_of::<ReceiveRequest>(), offset_of!(ReceiveRequest, sge_count)), (32, 24));
    let done = [
        offset_of!(WorkCompletion, opcode),
        offset_of!(WorkCompletion, byte_len),
        offset_of!(WorkCompletion, immediate),
    ];
    assert_eq!(
        (size_of::<WorkCompletion>(), done, offset_of!(WorkCompletion, flags)),
        (48, [12, 20, 24], 36)
    );
    let pair = [
        offset_of!(QueuePairAttributes, capacities),
        offset_of!(QueuePairAttributes, kind),
        offset_of!(QueuePairAttributes, signal_all),
    ];
    assert_eq!((size_of::<QueuePairAttributes>(), pair), (64, [32, 52, 56]));
    assert_eq!(offset_of!(Device, transport), 20);
    assert_eq!(
        (
            offset_of!(EventChannel, fd),
            offset_of!(Identifier, verbs),
            offset_of!(Identifier, queue_pair)
        ),
        (0, 0, 24)
    );
    assert_eq!(offset_of!(Identifier, port), 348);
    let device = [
        offset_of!(DeviceAttributes, queue_pairs),
        offset_of!(DeviceAttributes, work),
        offset_of!(DeviceAttributes, completions),
        offset_of!(DeviceAttributes, regions),
    ];
    assert_eq!((size_of::<DeviceAttributes>(), device), (232, [108, 112, 132, 136]));
    let port = [offset_of!(PortAttributes, active_mtu), offset_of!(PortAttributes, link_layer)];
    assert_eq!((port, size_of::<PortAttributes>() >= 52), ([8, 46], true));
    let connection = [
        offset_of!(ConnectionParameters, rnr_retry_count),
        offset_of!(ConnectionParameters, queue_pair),
    ];
    assert_eq!((size_of::<ConnectionParameters>(), connection), (24, [13, 16]));
    assert_eq!((offset_of!(Event, kind), offset_of!(Event, connection)), (16, 24));
}
