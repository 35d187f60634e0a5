//! A node as the far end of line tests, where its operator allows it (docs/protocol.md, M-7).

use super::config::Config;
use super::data::DataPlane;
use crate::line::{LineGrants, ReflectOptions, Reflector};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The reflector of a node, on a thread of its own until this is dropped.
#[derive(Debug)]
pub(super) struct NodeReflector {
    port: u16,
    grants: LineGrants,
    stop: Arc<AtomicBool>,
}

/// What FEAT says of it.
pub(super) fn feature(ceiling: Rate) -> Option<String> {
    Some(format!("FARLINE LINE {}", ceiling.as_bps()))
}

impl NodeReflector {
    /// Listens next to the control port, where the node's operator allows tests, at one of the data
    /// ports if those are named.
    ///
    /// # Errors
    /// [`Fault::Here`] when no port can be had.
    pub(super) fn start(config: &Config) -> Result<Option<NodeReflector>, Error> {
        let Some(ceiling) = config.allow_line else { return Ok(None) };
        let grants = LineGrants::default();
        let (low, high) = config.data_ports.unwrap_or((0, 0));
        let at = |port| {
            let mut options = ReflectOptions::at(SocketAddr::new(config.listen.ip(), port));
            (options.most, options.grants) = (Some(ceiling), Some(grants.clone()));
            Reflector::bind(&options)
        };
        // The last error is told where none of them can be had.
        let bound = (low..=high).skip(1).fold(at(low), |bound, port| bound.or_else(|_| at(port)));
        let (reflector, stop) = (bound?, Arc::new(AtomicBool::new(false)));
        let (port, until) = (reflector.address()?.port(), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("line-reflector".to_owned())
            .spawn(move || reflector.run(&until))
            .map_err(|error| {
                let message = format!("starting a thread: {error}");
                Error::new(Fault::Here, ErrorCode::NoThread, message)
            })?;
        Ok(Some(NodeReflector { port, grants, stop }))
    }
}

impl Drop for NodeReflector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl DataPlane {
    /// Lets the test `session` begin, whose client is logged in; returns at which UDP port.
    ///
    /// # Errors
    /// Where the operator allows none, and for what is no number.
    pub(super) fn grant_line(&self, session: &str) -> Result<String, Error> {
        let may = self.account().rights.allow_line != Some(false);
        let Some(reflector) = self.shared.line.as_ref().filter(|_| may) else {
            let message = "this node does not let you test the line to it";
            return Err(Error::new(Fault::Refused, ErrorCode::LineNotAllowed, message)
                .hint(format!("its operator can allow it: {} RATE", Setting::AllowLine)));
        };
        let session = u64::from_str_radix(session, 16).map_err(|_| {
            let message = format!("`{session}` is no number of a test: up to 16 hex digits");
            Error::new(Fault::You, ErrorCode::Unsupported, message)
        })?;
        reflector.grants.grant(session);
        Ok(reflector.port.to_string())
    }
}
