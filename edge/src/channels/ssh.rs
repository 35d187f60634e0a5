//! Channels through the ssh that carries the control connection (docs/protocol.md, H-2): ordered
//! bytes, encrypted by ssh.

use super::driver::{
    Capabilities, Carries, CongestionBy, Dialer, Driver, Offered, Opened, Role, Session, Transport,
    Tunnel,
};
use super::options::Values;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The driver.
pub fn driver() -> Driver {
    Driver {
        name: "ssh",
        schemes: &["ssh"],
        title: "ssh",
        about: "connections through the ssh of the control connection, where ports are out of reach",
        options: &[],
        capabilities: Capabilities {
            carries: Carries::OrderedBytes,
            encrypted: true,
            same_fabric: false,
            congestion: CongestionBy::Below,
            needs_key: true,
            grows: false,
            max_block: None,
            offered: Offered::AsTheControlConnection,
        },
        features: &[],
        role: Role::Channel(Box::new(Ssh)),
    }
}

struct Ssh;

impl Transport for Ssh {
    fn dialer(&self, session: &Session, _values: &Values) -> Result<Arc<dyn Dialer>, Error> {
        let none =
            || Error::new(Fault::Here, ErrorCode::NoSsh, "the control connection is not over ssh");
        Ok(Arc::new(Carried(session.tunnel.clone().ok_or_else(none)?)))
    }
}

/// Opens connections through a tunnel.
struct Carried(Arc<dyn Tunnel>);

impl Dialer for Carried {
    fn open(&self, address: SocketAddr, _timeout: Duration) -> Result<Opened, Error> {
        self.0.carry(address).map(Opened::Bytes).map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoSsh, format!("cannot run ssh for data: {error}"))
        })
    }
}
