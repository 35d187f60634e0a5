//! System calls without a safe wrapper elsewhere: the project's unsafe code.
#![allow(unsafe_code, reason = "this is the one place for it")]

pub(crate) mod busy;
pub(crate) mod clock;
pub(crate) mod datagrams;
pub(crate) mod ethtool;
pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod netlink;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod realtime;
pub(crate) mod route;
pub(crate) mod tcp;
pub(crate) mod tun;
pub(crate) mod verbs;
