//! The line tester between real hosts: sockets, clocks and pacing around the core's `line`.
//!
//! [`Reflector`] is the far end, and [`run`] a test: a thread that sends at a pace, while this one
//! asks what came and sends STAMP packets for delays. What a host loses itself is counted here:
//! `SO_RXQ_OVFL` of the receiver's socket or the drops of its rings of frames, what its devices
//! drop on the way in, `ENOBUFS` and the device's drops at the sender.
//!
//! Invariant: a test says nothing of a second in which this host is not sure of itself.

mod arrival;
mod carrier;
mod connected;
mod ethernet_end;
mod flood;
mod frame_receiver;
mod host;
mod link_watch;
mod peer_protocol;
mod receive_watch;
mod reflect;
mod role;
mod sender;
mod stamp_test;
mod test;

pub use carrier::HardwareAddress;
pub(crate) use host::random;
pub use reflect::{LineGrants, PORT, ReflectOptions, Reflector};
pub use role::{LinkFarEnd, run_over};
pub(crate) use role::{Role, play};
pub use stamp_test::run_stamp;
pub use test::{LineGrant, LineProgress, LineRequestOptions, run};
