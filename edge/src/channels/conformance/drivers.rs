//! The drivers that there are, through the suite.

use super::super::Handle;
use super::super::memory;
use super::super::ordered::ByteStream;
use super::*;
#[cfg(feature = "rdma")]
use crate::channels::rdma::guest_tests::wire;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

fn site(stack: &'static str) -> Site {
    let mut registry = Registry::builtin();
    registry.add(memory::driver()).expect("a new name");
    let ip = IpAddr::from([127, 0, 0, 1]);
    Site { registry, stack, listens_by: None, ip, tunnel: None }
}

#[test]
fn tcp_conforms() {
    conform(site("tcp"));
}

#[test]
fn tls_conforms() {
    conform(site("tls+tcp"));
}

#[test]
fn memory_conforms() {
    conform(site("memory"));
}

#[test]
fn tls_over_memory_conforms() {
    conform(site("tls+memory"));
}

#[test]
fn udt_conforms() {
    conform(site("udt"));
}

#[test]
fn tls_over_udt_conforms() {
    conform(site("tls+udt"));
}

#[test]
#[cfg(feature = "quic")]
fn quic_conforms() {
    conform(site("quic"));
    conform(site("quic:3"));
}

#[test]
fn ssh_conforms() {
    let tunnel: Option<Arc<dyn Tunnel>> = Some(Arc::new(Relay));
    conform(Site { listens_by: Some("tcp"), tunnel, ..site("ssh") });
}

#[test]
#[cfg(feature = "rdma")]
#[ignore = "needs two RDMA devices: make lab"]
fn rdma_conforms() {
    wire();
    let ip = "10.9.1.2".parse().expect("an address");
    conform(Site { ip, ..site("rdma:2") });
    let is_iwarp = crate::channels::rdma::guest_tests::is_iwarp();
    conform(Site { ip, ..site(if is_iwarp { "rdma:1:read" } else { "rdma:2:exchange" }) });
}

/// Carries connections as `ssh -W` does, without ssh: a socket pair whose other end goes on by TCP.
struct Relay;

impl Tunnel for Relay {
    fn carry(&self, address: SocketAddr) -> io::Result<Box<dyn ByteStream>> {
        let (near, far) = UnixStream::pair()?;
        let on = TcpStream::connect(address)?;
        let (mut from, mut to) = (far.try_clone()?, on.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let (mut from, mut to) = (on, far);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        Ok(Box::new(near))
    }
}

impl ByteStream for UnixStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Handle::of(self)
    }

    fn congestion(&self) -> Option<ControlName> {
        None
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}
