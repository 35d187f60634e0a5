//! System calls without a safe wrapper elsewhere: the project's unsafe code.
#![allow(unsafe_code, reason = "this is the one place for it")]

pub mod clock;
pub mod ethtool;
pub mod files;
pub(crate) mod lock;
pub mod memory;
pub(crate) mod netlink;
pub mod pool;
pub mod process;
pub mod realtime;
pub mod route;
pub mod tcp;
pub mod tun;
pub mod verbs;
