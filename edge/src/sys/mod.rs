//! System calls without a safe wrapper elsewhere: the project's unsafe code.
#![allow(unsafe_code, reason = "this is the one place for it")]

#[cfg(feature = "line")]
mod bpf_program;
pub(crate) mod busy;
pub(crate) mod child;
pub(crate) mod clock;
#[cfg(feature = "line")]
pub(crate) mod datagrams;
#[cfg(feature = "line")]
pub(crate) mod device_tap;
pub(crate) mod ethtool;
pub(crate) mod files;
#[cfg(feature = "line")]
pub(crate) mod frame_flood;
#[cfg(feature = "line")]
pub(crate) mod frames;
pub(crate) mod fs_user;
pub(crate) mod heap;
pub(crate) mod host;
#[cfg(any(feature = "calendar", feature = "link"))]
#[cfg_attr(
    not(feature = "calendar"),
    allow(dead_code, reason = "a circuit's interface needs it all")
)]
pub(crate) mod interface;
#[cfg(any(feature = "calendar", feature = "line", feature = "link"))]
mod link_message;
pub(crate) mod lock;
#[cfg(any(feature = "link", feature = "rdma"))]
pub(crate) mod memory;
pub(crate) mod netlink;
pub(crate) mod pacing_limits;
#[cfg(feature = "pam")]
pub(crate) mod pam;
pub(crate) mod pool;
pub(crate) mod pool_memory;
#[cfg(feature = "link")]
pub(crate) mod process;
#[cfg(feature = "calendar")]
pub(crate) mod queueing;
pub(crate) mod random;
#[cfg(feature = "link")]
pub(crate) mod realtime;
#[cfg(feature = "line")]
pub(crate) mod receive_counters;
pub(crate) mod retransmission;
pub(crate) mod route;
#[cfg(any(feature = "calendar", feature = "link"))]
#[cfg_attr(
    not(feature = "calendar"),
    allow(dead_code, reason = "a circuit's interface needs it all")
)]
pub(crate) mod rtnetlink;
pub(crate) mod tcp;
#[cfg(feature = "line")]
pub(crate) mod transmit_times;
#[cfg(feature = "link")]
pub(crate) mod tun;
#[cfg(feature = "rdma")]
pub(crate) mod verbs;
pub(crate) mod words;
#[cfg(feature = "line")]
pub(crate) mod xdp_socket;
