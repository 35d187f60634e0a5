//! Ports for servers that cannot be asked which one they took.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A TCP port of the loopback address that nobody has; none of those that Linux gives to
/// connections (32768 to 60999), for one of another test would have it before its server does.
///
/// # Panics
/// When none is left.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 10_000;
    // Nobody gets one twice, and another process begins elsewhere.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    (0..COUNT)
        .map(|_| std::process::id() * 37 + ASKED.fetch_add(1, Ordering::Relaxed))
        .map(|turn| (FIRST + turn % COUNT) as u16)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}
